//! The commands for users who ask questions: they call a service by its public interface.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use operator::CliError;
use terminal::{AskOptions, ChatOptions, QuestionChoices, ServiceConnection, TerminalError};

use crate::{report_cli_error, report_failure};

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Ask a question and print the answer (set CAUSERIE_URL and CAUSERIE_API_KEY)
    #[command(after_help = "Examples:\n  \
        causerie ask \"How much is the rent?\" --file lease.pdf\n  \
        causerie ask --chat 0198a7c2-… \"And since when?\"\n  \
        git diff | causerie ask -")]
    Ask {
        /// The question; `-`, or none in a pipe, reads it from standard input
        text: Option<String>,
        /// A file to upload and attach
        #[arg(long = "file", value_name = "PATH")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        choices: AnsweredWith,
        /// The conversation to continue
        #[arg(long, value_name = "ID")]
        chat: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Hold a conversation
    Chat {
        #[command(flatten)]
        choices: AnsweredWith,
        /// The conversation to continue
        #[arg(long, value_name = "ID")]
        chat: Option<String>,
        /// Do not style Markdown
        #[arg(long)]
        plain: bool,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// List a folder of the workspace, or the conversations
    Ls {
        /// The folder
        #[arg(default_value = "/", conflicts_with = "chats")]
        folder: String,
        /// List the newest conversations
        #[arg(long)]
        chats: bool,
        /// Print the service's JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Print a conversation
    Show {
        /// The conversation
        #[arg(value_name = "CHAT")]
        chat: String,
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Copy files to the workspace or from it
    #[command(after_help = "Examples:\n  \
        causerie cp lease.pdf :/uploads\n  \
        causerie cp *.pdf :/contracts\n  \
        causerie cp :/report.docx .\n  \
        causerie cp -r case :/\n  \
        causerie cp :/notes.txt - | less")]
    Cp {
        /// Copy folders with their contents
        #[arg(short, long)]
        recursive: bool,
        /// The files; a path of the workspace begins with a colon
        #[arg(required = true)]
        from: Vec<String>,
        /// The folder of the workspace, or the local file or folder; `-` prints one file to standard output
        to: String,
        #[command(flatten)]
        service: ServiceArgs,
    },
    /// Make folders in the workspace
    #[command(after_help = "Examples:\n  \
        causerie mkdir :/contracts\n  \
        causerie mkdir -p :/contracts/2027/leases")]
    Mkdir {
        /// The folders
        #[arg(required = true, value_name = "FOLDER")]
        folders: Vec<String>,
        /// Create missing parent folders, and accept existing folders
        #[arg(short, long)]
        parents: bool,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Remove files and empty folders of the workspace
    #[command(after_help = "Examples:\n  \
        causerie rm :/uploads/lease.pdf\n  \
        causerie rm -r :/contracts")]
    Rm {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Remove folders with their contents
        #[arg(short, long)]
        recursive: bool,
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Be the agent of an editor that speaks the Agent Client Protocol, over standard input and output
    #[command(
        after_help = "Editors start this program themselves: docs/editors.md has the settings for each."
    )]
    Acp {
        #[command(flatten)]
        to: ServiceArgs,
    },
    /// Stop the answer of a conversation
    Stop {
        /// The conversation
        #[arg(value_name = "CHAT")]
        chat: String,
        #[command(flatten)]
        to: ServiceArgs,
    },
}

/// The model and other choices for answering a question.
#[derive(Debug, Clone, Args)]
pub(crate) struct AnsweredWith {
    /// The model
    #[arg(long, value_name = "ID")]
    model: Option<String>,
    /// Allow web search; a continued conversation keeps its setting
    #[arg(long, conflicts_with = "chat")]
    web: bool,
    /// The agent, by its name or identifier
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// A skill, by its name or identifier; may be repeated
    #[arg(long = "skill", value_name = "NAME")]
    skills: Vec<String>,
    /// A jurisdiction, by its identifier; may be repeated
    #[arg(long = "jurisdiction", value_name = "ID", conflicts_with = "chat")]
    jurisdictions: Vec<String>,
}

impl From<AnsweredWith> for QuestionChoices {
    fn from(with: AnsweredWith) -> Self {
        let AnsweredWith { model, web, agent, skills, jurisdictions } = with;
        Self { model, web, agent, skills, jurisdictions }
    }
}

/// The form of the output.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Print the service's JSON object
    #[arg(long)]
    json: bool,
    /// Do not style Markdown
    #[arg(long)]
    plain: bool,
}

/// The service to talk to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// The service
    #[arg(long, env = "CAUSERIE_URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// The key
    #[arg(long, env = "CAUSERIE_API_KEY", hide_env_values = true)]
    key: Option<String>,
    /// A file with certificates (PEM) to trust in addition to the system's
    #[arg(long, env = "CAUSERIE_CACERT", value_name = "FILE")]
    cacert: Option<PathBuf>,
}

impl TryFrom<ServiceArgs> for ServiceConnection {
    type Error = TerminalError;

    fn try_from(ServiceArgs { url, key, cacert }: ServiceArgs) -> Result<Self, TerminalError> {
        let missing = "there is no key: set CAUSERIE_API_KEY, or give --key; the owner of an account creates keys in the web \
                       application, an operator with `causerie key create`";
        let key = key
            .filter(|key| !key.trim().is_empty())
            .ok_or_else(|| TerminalError::Usage(missing.to_owned()))?;
        Ok(Self { url, key, certificates: cacert })
    }
}

impl ClientCommand {
    /// Returns true if output and errors are JSON.
    const fn as_json(&self) -> bool {
        match self {
            Self::Ask { output, .. } | Self::Show { output, .. } => output.json,
            Self::Ls { json, .. } => *json,
            Self::Chat { .. }
            | Self::Cp { .. }
            | Self::Mkdir { .. }
            | Self::Rm { .. }
            | Self::Acp { .. }
            | Self::Stop { .. } => false,
        }
    }
}

/// Runs the command and returns the exit code.
pub(crate) async fn run_client_command(command: ClientCommand) -> ExitCode {
    let as_json = command.as_json();
    match execute_client_command(command).await {
        Ok(code) => ExitCode::from(code),
        // The reader has closed the output, as `head` does.
        Err(TerminalError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            if as_json {
                report_cli_error(&CliError::new(error.code(), error.message()), true);
            } else {
                report_failure(&error.message());
            }
            ExitCode::from(error.exit_code())
        }
    }
}

async fn execute_client_command(command: ClientCommand) -> Result<u8, TerminalError> {
    match command {
        ClientCommand::Ask { text, files, choices, chat, output: OutputArgs { json, plain }, to } => {
            let connection = to.try_into()?;
            let text = terminal::question_text(text)?;
            let choices = choices.into();
            let asked = AskOptions { connection, text, files, choices, chat, json, plain, grows: false };
            return Ok(terminal::ask_and_print(asked).await?.exit_code());
        }
        ClientCommand::Chat { choices, chat, plain, to } => {
            let connection = to.try_into()?;
            return terminal::run_chat(ChatOptions { connection, choices: choices.into(), chat, plain })
                .await;
        }
        ClientCommand::Ls { chats: true, json, to, .. } => {
            terminal::list_conversations(&to.try_into()?, json).await
        }
        ClientCommand::Ls { folder, json, to, .. } => {
            terminal::list_files(&to.try_into()?, &folder, json).await
        }
        ClientCommand::Show { chat, output: OutputArgs { json, plain }, to } => {
            terminal::show_conversation(&to.try_into()?, &chat, json, plain).await
        }
        ClientCommand::Cp { from, to, recursive, service } => {
            terminal::copy_files(&service.try_into()?, &from, &to, recursive).await
        }
        ClientCommand::Mkdir { folders, parents, to } => {
            terminal::make_folders(&to.try_into()?, &folders, parents).await
        }
        ClientCommand::Rm { files, recursive, to } => {
            terminal::remove_files(&to.try_into()?, &files, recursive).await
        }
        ClientCommand::Acp { to } => terminal::serve_editor(to.try_into()?).await,
        ClientCommand::Stop { chat, to } => terminal::stop_answer(&to.try_into()?, &chat).await,
    }?;
    Ok(0)
}
