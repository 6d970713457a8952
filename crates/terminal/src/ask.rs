//! `causerie ask`: asks one question and prints its answer.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use client::{ChatAnswer, Client, Question};

use crate::answer::{AnswerText, Printer, Style};
use crate::attach::upload_attachments;
use crate::interrupt::Interrupts;
use crate::labels::Label;
use crate::reading::FilesBeingRead;
use crate::text::format_size;
use crate::{QuestionChoices, ServiceConnection, TerminalError, check_uploadable};

/// The longest question that is read from standard input; the service may accept less.
const QUESTION_MAX_BYTES: u64 = 1 << 20;

/// The question.
#[derive(Debug, Clone, Default)]
pub struct AskOptions {
    pub connection: ServiceConnection,
    /// The question's text.
    pub text: String,
    /// Local files to upload and attach.
    pub files: Vec<PathBuf>,
    /// The model and other choices for the answer.
    pub choices: QuestionChoices,
    /// The conversation to continue.
    pub chat: Option<String>,
    /// Print the answer as the service's JSON object, when it is complete.
    pub json: bool,
    /// Leave Markdown as it was written.
    pub plain: bool,
    /// Print the answer while it grows, even if standard output is not a terminal.
    pub grows: bool,
}

/// The result of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskSummary {
    /// The conversation, by which it can be continued.
    pub chat_id: String,
    /// The code of the answer's error, if it failed.
    pub error: Option<String>,
    /// Ctrl-C stopped the answer.
    pub interrupted: bool,
}

impl AskSummary {
    pub(crate) fn new(answer: ChatAnswer, interrupted: bool) -> Self {
        let error = answer.error.map(|error| error.code);
        Self { chat_id: answer.chat_id, error, interrupted }
    }

    /// Returns the exit code: 0 for an answer, 4 if it failed, 130 if Ctrl-C stopped it.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self { interrupted: true, .. } => TerminalError::EXIT_INTERRUPTED,
            Self { error: Some(_), .. } => 4,
            Self { error: None, .. } => 0,
        }
    }
}

/// Returns the text of the question: `text`, or standard input if `text` is `-`, or if it is absent and
/// standard input is not a terminal.
///
/// # Errors
/// [`TerminalError::Usage`] if the question is missing, too long or not UTF-8.
pub fn question_text(text: Option<String>) -> Result<String, TerminalError> {
    let text = match text.as_deref() {
        Some("-") => read_question(io::stdin())?,
        None if !io::stdin().is_terminal() => read_question(io::stdin())?,
        None => String::new(),
        Some(text) => text.to_owned(),
    };
    if text.trim().is_empty() {
        return Err(TerminalError::Usage(
            "there is no question: give it as an argument, or pipe it with `-`".to_owned(),
        ));
    }
    Ok(text)
}

fn read_question(input: impl Read) -> Result<String, TerminalError> {
    let mut bytes = Vec::new();
    let unreadable = |source| TerminalError::LocalFile { path: "standard input".into(), source };
    input.take(QUESTION_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > QUESTION_MAX_BYTES {
        let limit = format_size(QUESTION_MAX_BYTES);
        return Err(TerminalError::Usage(format!(
            "the question is longer than {limit}: attach long texts with --file"
        )));
    }
    String::from_utf8(bytes).map_err(|_| {
        TerminalError::Usage("the question is not UTF-8 text: attach files with --file".to_owned())
    })
}

/// Uploads the files, asks, and prints the answer. The first Ctrl-C stops the answer at the service, a second one leaves.
///
/// # Errors
/// As [`TerminalError`] says.
pub async fn ask_and_print(options: AskOptions) -> Result<AskSummary, TerminalError> {
    let mut style = Style::for_process(options.plain || options.json);
    if options.json {
        style.text = AnswerText::Absent;
    } else if options.grows {
        style.text = AnswerText::Growing;
    }
    let mut printer = Printer::new(io::stdout(), io::stderr(), style);
    let mut interrupts = Interrupts::new()?;
    for file in &options.files {
        check_uploadable(file)?;
    }
    let client = options.connection.open_client()?;
    let mut question = options.choices.into_question(options.text, options.chat);
    tokio::select! {
        uploaded = upload_attachments(&client, &options.files, &mut printer) => question.file_paths = uploaded?,
        () = interrupts.next_interrupt() => return Err(TerminalError::Interrupted),
    }
    let mut exchange =
        QuestionExchange { client: &client, printer: &mut printer, interrupts: &mut interrupts };
    let (answer, interrupted) = exchange.run_exchange(&question).await?;
    if options.json {
        let whole = client.collect_json(&answer.chat_id, &answer.id).await?;
        writeln!(io::stdout(), "{whole}")?;
    } else {
        printer.finish_answer(&answer)?;
    }
    Ok(AskSummary::new(answer, interrupted))
}

/// A question with its answer.
pub(crate) struct QuestionExchange<'a, O, E> {
    pub(crate) client: &'a Client,
    pub(crate) printer: &'a mut Printer<O, E>,
    pub(crate) interrupts: &'a mut Interrupts,
}

impl<O: Write, E: Write> QuestionExchange<'_, O, E> {
    /// Asks and shows the states of the answer up to the completed one. Returns that, and whether Ctrl-C stopped it.
    pub(crate) async fn run_exchange(
        &mut self,
        question: &Question,
    ) -> Result<(ChatAnswer, bool), TerminalError> {
        let mut interrupted = false;
        // It is unknown whether a sent question was accepted, so wait for the response, and stop it then.
        let mut sent = std::pin::pin!(self.client.send(question));
        let mut answer = loop {
            tokio::select! {
                answer = &mut sent => break answer?,
                () = self.interrupts.next_interrupt() => self.note_interrupt(&mut interrupted)?,
            }
        };
        if question.chat_id.is_none() {
            let conversation = self.printer.label(Label::Conversation);
            self.printer.print_note(&format!("{conversation} {}", answer.chat_id))?;
        }
        if interrupted {
            self.stop_answer(&answer).await?;
        }
        self.printer.print_state(&answer)?;
        let mut states = self.client.stream(&answer);
        let mut being_read = FilesBeingRead::new(&question.file_paths);
        loop {
            let state = tokio::select! {
                state = states.next() => state?,
                status = being_read.next_file(self.client), if answer.text.is_empty() && self.printer.shows_status() => {
                    if let Some(status) = status {
                        self.printer.show_status(&status.in_words(self.printer.language()))?;
                    }
                    continue;
                }
                () = self.interrupts.next_interrupt() => {
                    self.note_interrupt(&mut interrupted)?;
                    self.stop_answer(&answer).await?;
                    continue;
                }
            };
            let Some(state) = state else { break };
            self.printer.print_state(&state)?;
            answer = state;
        }
        if !answer.is_completed() {
            // The stream may end before completion, so the current state decides.
            answer = self.client.collect_answer(&answer.chat_id, &answer.id).await?;
        }
        Ok((answer, interrupted))
    }

    async fn stop_answer(&mut self, answer: &ChatAnswer) -> Result<(), TerminalError> {
        tokio::select! {
            stopped = self.client.stop_chat(&answer.chat_id) => Ok(stopped.map(|_| ())?),
            () = self.interrupts.next_interrupt() => Err(TerminalError::Interrupted),
        }
    }

    fn note_interrupt(&mut self, interrupted: &mut bool) -> Result<(), TerminalError> {
        if *interrupted {
            return Err(TerminalError::Interrupted);
        }
        *interrupted = true;
        Ok(self.printer.print_note(self.printer.label(Label::Stopping))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_input_read_within_limit() {
        assert_eq!(read_question(&b"When?\n"[..]).unwrap(), "When?\n");
        let refused = |input: &mut dyn Read| match read_question(input) {
            Err(TerminalError::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(refused(&mut io::repeat(b'x')).contains("--file"));
        assert!(refused(&mut &b"\xff"[..]).contains("UTF-8"));
    }

    #[test]
    fn exit_codes_distinguish_the_outcomes() {
        let summary = |error: Option<&str>, interrupted| {
            let error = error.map(str::to_owned);
            AskSummary { chat_id: "c".to_owned(), error, interrupted }.exit_code()
        };
        assert_eq!(summary(None, false), 0);
        assert_eq!(summary(Some("MODEL_UNAVAILABLE"), false), 4);
        assert_eq!(summary(Some("STOPPED"), true), 130);
        let refused = client::Error::Refused {
            status: 409,
            code: "NO_MACHINE".to_owned(),
            message: "no machine".to_owned(),
            retry_after: None,
        };
        assert_eq!(TerminalError::from(refused).exit_code(), 3);
        assert_eq!(TerminalError::from(client::Error::Key).exit_code(), 1);
    }
}
