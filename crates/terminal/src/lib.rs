//! A client for terminals: asks questions, holds conversations, and shows files and conversations; and the
//! agent of an editor ([`serve_editor`]).
//!
//! Standard output carries only the requested data, so that it can be piped; progress goes to standard error.

mod acp;
mod answer;
mod ask;
mod attach;
mod chat;
mod conversations;
mod download;
mod files;
mod folders;
mod growth;
mod interrupt;
mod labels;
mod lines;
mod markdown;
mod marks;
mod reading;
mod sources;
mod text;

use std::io;
use std::path::{Path, PathBuf};

use client::{Client, Question};

pub use self::acp::serve_editor;
pub use self::ask::{AskOptions, AskSummary, ask_and_print, question_text};
pub use self::chat::{ChatOptions, run_chat};
pub use self::conversations::{list_conversations, show_conversation, stop_answer};
pub use self::files::{copy_files, list_files};
pub use self::folders::{make_folders, remove_files};
pub use self::lines::StdinLines;

/// The service to talk to.
#[derive(Debug, Clone, Default)]
pub struct ServiceConnection {
    /// Its address: `http://127.0.0.1:8080`.
    pub url: String,
    /// The key of the account.
    pub key: String,
    /// A file with certificates (PEM) to trust in addition to the system's.
    pub certificates: Option<PathBuf>,
}

/// The model and the rest that a question is answered with.
#[derive(Debug, Clone, Default)]
pub struct QuestionChoices {
    /// The model; the default if absent.
    pub model: Option<String>,
    /// Allows web search.
    pub web: bool,
    /// The agent, by id, name or full name.
    pub agent: Option<String>,
    /// Skills, by id, name or full name.
    pub skills: Vec<String>,
    /// The ids of jurisdictions.
    pub jurisdictions: Vec<String>,
}

impl QuestionChoices {
    /// Returns a question with these choices.
    fn into_question(self, text: String, chat: Option<String>) -> Question {
        Question {
            input: text,
            chat_id: chat,
            model: self.model,
            web_search_enabled: self.web,
            agent_id: self.agent,
            skill_ids: self.skills,
            jurisdictions: self.jurisdictions,
            ..Question::default()
        }
    }
}

impl ServiceConnection {
    fn open_client(&self) -> Result<Client, TerminalError> {
        let Some(path) = &self.certificates else { return Ok(Client::new(&self.url, &self.key)?) };
        let unreadable = |source| TerminalError::LocalFile { path: path.clone(), source };
        let pem = std::fs::read(path).map_err(unreadable)?;
        Ok(Client::with_certificates(&self.url, &self.key, &pem)?)
    }
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// A call failed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// Standard output or standard error cannot be written to.
    #[error("cannot write the output")]
    Output(#[from] io::Error),
    /// A local file cannot be used.
    #[error("{}", .path.display())]
    LocalFile {
        /// The file.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The command is invalid.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C was pressed.
    #[error("interrupted")]
    Interrupted,
}

impl TerminalError {
    /// The exit code of a usage error.
    pub const EXIT_USAGE: u8 = 2;
    /// The exit code of programs that Ctrl-C ended.
    pub const EXIT_INTERRUPTED: u8 = 130;

    /// Returns the exit code: 1 if the service is unavailable, 2 for a usage error, 3 if the service refused the request,
    /// 130 after Ctrl-C.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Client(client::Error::Refused { .. }) => 3,
            Self::Usage(_) => Self::EXIT_USAGE,
            Self::Interrupted => Self::EXIT_INTERRUPTED,
            Self::Client(_) | Self::Output(_) | Self::LocalFile { .. } => 1,
        }
    }

    /// Returns true if the service does not accept the key.
    pub(crate) const fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Client(client::Error::Refused { status: 401, .. }))
    }

    /// Returns the code for programs.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Client(client::Error::Refused { .. }) if self.is_unauthorized() => "UNAUTHORIZED",
            Self::Client(client::Error::Refused { code, .. }) => code,
            Self::Client(client::Error::File { .. }) | Self::LocalFile { .. } => "FILE_UNREADABLE",
            Self::Client(client::Error::Address(_) | client::Error::Key) | Self::Usage(_) => "USAGE",
            Self::Client(_) => "SERVICE_UNREACHABLE",
            Self::Output(_) => "NOT_WRITTEN",
            Self::Interrupted => "INTERRUPTED",
        }
    }

    /// Returns the message with its causes, on one line. For network errors, only the last cause is shown.
    #[must_use]
    pub fn message(&self) -> String {
        let error: &dyn std::error::Error = self;
        let mut text = error.to_string();
        let causes: Vec<String> =
            std::iter::successors(error.source(), |cause| cause.source()).map(ToString::to_string).collect();
        let is_unreachable = matches!(self, Self::Client(client::Error::Transport(_)));
        let first = if is_unreachable { causes.len().saturating_sub(1) } else { 0 };
        for cause in causes.iter().skip(first) {
            text.push_str(": ");
            text.push_str(cause);
        }
        if is_unreachable && let Some(remedy) = causes.last().and_then(|cause| connection_remedy(cause)) {
            text.push_str("; ");
            text.push_str(remedy);
        }
        text
    }
}

/// Returns what to do when a service cannot be reached for this reason.
fn connection_remedy(cause: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 7] = [
        ("Connection refused", "start it (`causerie serve`), or name another with --url or CAUSERIE_URL"),
        ("dns error", "check the host in --url or CAUSERIE_URL"),
        ("failed to lookup address", "check the host in --url or CAUSERIE_URL"),
        ("InvalidContentType", "it does not speak HTTPS there: try http://"),
        ("invalid HTTP version", "it speaks HTTPS there: try https://"),
        (
            "CaUsedAsEndEntity",
            "its certificate is a CA certificate, which a server cannot use: make one with \
             `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`",
        ),
        ("invalid peer certificate", "trust its certificate with --cacert FILE"),
    ];
    KNOWN.iter().find(|(words, _)| cause.contains(words)).map(|(_, remedy)| *remedy)
}

/// Checks that a local file can be uploaded: that it is a regular file with some content. The length of an upload is sent
/// before it, which a pipe does not have; opening one without a writer waits forever.
fn check_uploadable(path: &Path) -> Result<(), TerminalError> {
    let metadata = std::fs::metadata(path)
        .map_err(|source| TerminalError::LocalFile { path: path.to_owned(), source })?;
    if metadata.is_dir() {
        let path = path.display();
        return Err(TerminalError::Usage(format!(
            "{path} is a folder: name each file in it, as in {path}/NAME, or copy it with `causerie cp -r`"
        )));
    }
    if !metadata.is_file() {
        let path = path.display();
        return Err(TerminalError::Usage(format!(
            "{path} is a pipe or a device: save its output to a file first"
        )));
    }
    if metadata.len() == 0 {
        return Err(TerminalError::Usage(format!(
            "{} is empty: the service does not accept empty files",
            path.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_can_be_uploaded() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("a pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&pipe, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let expected =
                format!("{} is a pipe or a device: save its output to a file first", path.display());
            assert_eq!(check_uploadable(path).unwrap_err().message(), expected);
        }
        assert!(check_uploadable(folder.path()).unwrap_err().message().contains("is a folder"));
        let file = folder.path().join("a.txt");
        std::fs::write(&file, "text").unwrap();
        check_uploadable(&file).unwrap();
    }

    #[tokio::test]
    async fn unreachable_service_error_names_remedy() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let connection = ServiceConnection {
            url: format!("http://{unused}"),
            key: "api-x".to_owned(),
            certificates: None,
        };
        let error = list_files(&connection, "/", false).await.unwrap_err();
        let expected = format!(
            "the service at http://{unused} could not be reached: Connection refused (os error 111); start it \
             (`causerie serve`), or name another with --url or CAUSERIE_URL"
        );
        assert_eq!((error.message(), error.exit_code()), (expected, 1));
    }
}
