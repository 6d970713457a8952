//! `causerie chat`: a dialogue in one conversation.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use crate::answer::{Printer, Style};
use crate::ask::QuestionExchange;
use crate::attach::upload_attachments;
use crate::interrupt::Interrupts;
use crate::lines::StdinLines;
use crate::{AskSummary, QuestionChoices, ServiceConnection, TerminalError, check_uploadable};
use client::Question;

const PROMPT: &str = "> ";
const HELP: &str = "/file PATH   attach a file to the next question\n\
                    /model ID    answer new conversations with another model\n\
                    /agent NAME  let another agent answer them; /agent alone the default one\n\
                    /skill NAME  give them a skill; /skill alone takes all away\n\
                    /jurisdiction ID  answer new conversations for a jurisdiction; /jurisdiction alone for none\n\
                    /web on|off  allow web search in new conversations, or not\n\
                    /new         begin a new conversation\n\
                    /help        show this list\n\
                    /exit        leave, as Ctrl-D does";

/// The dialogue.
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    pub connection: ServiceConnection,
    /// The model and other choices for the first questions.
    pub choices: QuestionChoices,
    /// The conversation to continue.
    pub chat: Option<String>,
    /// Leave Markdown as it was written.
    pub plain: bool,
}

/// A typed line.
#[derive(Debug, PartialEq, Eq)]
enum Input<'a> {
    Nothing,
    Ask(&'a str),
    Attach(&'a str),
    Model(&'a str),
    /// The default one if empty.
    Agent(&'a str),
    /// No more skills if empty.
    Skill(&'a str),
    /// No jurisdiction if empty.
    Jurisdiction(&'a str),
    Web(bool),
    New,
    Help,
    Exit,
    Unknown(&'a str),
}

impl<'a> Input<'a> {
    fn parse(line: &'a str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() { Self::Nothing } else { Self::Ask(line) };
        };
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, argument.trim()) {
            ("file", path) if !path.is_empty() => Self::Attach(path),
            ("model", id) if !id.is_empty() => Self::Model(id),
            ("agent", name) => Self::Agent(name),
            ("skill", name) => Self::Skill(name),
            ("jurisdiction", id) => Self::Jurisdiction(id),
            ("web", "on") => Self::Web(true),
            ("web", "off") => Self::Web(false),
            ("new", "") => Self::New,
            ("help", "") => Self::Help,
            ("exit" | "quit", "") => Self::Exit,
            _ => Self::Unknown(line),
        }
    }
}

/// The exit code of a dialogue.
#[derive(Debug)]
struct DialogueExit {
    /// On a terminal failures do not count: the user has seen each of them.
    is_terminal: bool,
    code: u8,
}

impl DialogueExit {
    /// Keeps the exit code of the first line that failed.
    fn add_code(&mut self, code: u8) {
        if !self.is_terminal && self.code == 0 {
            self.code = code;
        }
    }
}

/// Reads questions from the terminal, or one from each line of a pipe, and prints their answers, until the input ends.
/// Returns the exit code: 0 on a terminal, else that of the first line that failed.
///
/// # Errors
/// [`TerminalError`]. A refused question is reported, and the dialogue continues; a refused key ends it, unless
/// on a terminal.
pub async fn run_chat(options: ChatOptions) -> Result<u8, TerminalError> {
    let mut outcome = DialogueExit { is_terminal: io::stdin().is_terminal(), code: 0 };
    let client = options.connection.open_client()?;
    let mut printer = Printer::new(io::stdout(), io::stderr(), Style::for_process(options.plain));
    let mut lines = StdinLines::new()?;
    let mut next = options.choices.into_question(String::new(), options.chat);
    let mut files: Vec<PathBuf> = Vec::new();
    printer.print_note("Ctrl-D ends the conversation, Ctrl-C stops an answer, /help lists the commands")?;
    loop {
        let Some(line) = lines.read_line(PROMPT).await? else { return Ok(outcome.code) };
        match Input::parse(&line) {
            Input::Nothing => {}
            Input::Exit => return Ok(outcome.code),
            Input::Help => HELP.lines().try_for_each(|line| printer.print_note(line))?,
            Input::Unknown(line) => {
                printer.print_note(&format!("unknown command {line}: see /help"))?;
                outcome.add_code(TerminalError::EXIT_USAGE);
            }
            Input::New => {
                next.chat_id = None;
                printer.print_note("the next question begins a new conversation")?;
            }
            Input::Model(id) => {
                next.model = Some(id.to_owned());
                note_if_kept(&mut printer, &next)?;
            }
            Input::Agent(name) => next.agent_id = (!name.is_empty()).then(|| name.to_owned()),
            Input::Skill(name) => add_choice(&mut next.skill_ids, name),
            Input::Jurisdiction(id) => {
                add_choice(&mut next.jurisdictions, id);
                note_if_kept(&mut printer, &next)?;
            }
            Input::Web(is_allowed) => {
                next.web_search_enabled = is_allowed;
                note_if_kept(&mut printer, &next)?;
            }
            Input::Attach(path) => match check_uploadable(path.as_ref()) {
                Ok(()) => files.push(path.into()),
                Err(error) => {
                    printer.print_note(&error.message())?;
                    outcome.add_code(error.exit_code());
                }
            },
            Input::Ask(text) => {
                let mut interrupts = Interrupts::new()?;
                let question = Question { input: text.to_owned(), ..next.clone() };
                let asked = async {
                    let file_paths = tokio::select! {
                        uploaded = upload_attachments(&client, &files, &mut printer) => uploaded?,
                        () = interrupts.next_interrupt() => {
                            printer.print_note("the question was not sent")?;
                            return Ok(None);
                        }
                    };
                    let question = Question { file_paths, ..question };
                    printer.begin_answer();
                    let mut exchange = QuestionExchange {
                        client: &client,
                        printer: &mut printer,
                        interrupts: &mut interrupts,
                    };
                    let (answer, interrupted) = exchange.run_exchange(&question).await?;
                    printer.finish_answer(&answer)?;
                    Ok::<_, TerminalError>(Some(AskSummary::new(answer, interrupted)))
                };
                match asked.await {
                    Ok(None) => outcome.add_code(TerminalError::EXIT_INTERRUPTED),
                    Ok(Some(summary)) => {
                        outcome.add_code(summary.exit_code());
                        next.chat_id = Some(summary.chat_id);
                        files.clear();
                    }
                    Err(error @ (TerminalError::Output(_) | TerminalError::Interrupted)) => {
                        return Err(error);
                    }
                    Err(error) if error.is_unauthorized() && !outcome.is_terminal => return Err(error),
                    Err(error) => {
                        printer.print_note(&error.message())?;
                        outcome.add_code(error.exit_code());
                    }
                }
            }
        }
    }
}

/// Notes that a choice applies to the next conversation, if one is in progress.
fn note_if_kept<O: Write, E: Write>(printer: &mut Printer<O, E>, next: &Question) -> io::Result<()> {
    if next.chat_id.is_none() {
        return Ok(());
    }
    printer
        .print_note("a conversation keeps its model, jurisdictions and web search; /new begins another one")
}

/// Adds a choice for the following questions; an empty one removes them all.
fn add_choice(chosen: &mut Vec<String>, choice: &str) {
    if choice.is_empty() {
        chosen.clear();
    } else if !chosen.iter().any(|known| known == choice) {
        chosen.push(choice.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_distinguished_from_questions() {
        for (line, input) in [
            ("  ", Input::Nothing),
            ("When? ", Input::Ask("When?")),
            ("/file my lease.pdf", Input::Attach("my lease.pdf")),
            ("/file", Input::Unknown("/file")),
            ("/model x-1", Input::Model("x-1")),
            ("/new", Input::New),
            ("/agent Lease reviewer", Input::Agent("Lease reviewer")),
            ("/skill", Input::Skill("")),
            ("/jurisdiction cz", Input::Jurisdiction("cz")),
            ("/web on", Input::Web(true)),
            ("/web", Input::Unknown("/web")),
            ("/help", Input::Help),
            ("/quit", Input::Exit),
            ("/newer", Input::Unknown("/newer")),
        ] {
            assert_eq!(Input::parse(line), input, "{line}");
        }
    }
}
