//! `causerie ask`: asks one question from a terminal, and prints the growing answer and its sources.
//!
//! Standard output carries only the answer and its sources, so that it can be piped. Progress goes to standard error.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use client::{Answer, Client, Part, PartState, PartType, Question, Source};

/// The question and the service to ask.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// The service: `http://127.0.0.1:8080`.
    pub(crate) url: String,
    /// The key of the account that asks.
    pub(crate) key: String,
    /// The question.
    pub(crate) text: String,
    /// Local files to upload and attach.
    pub(crate) files: Vec<PathBuf>,
    /// Workspace paths to attach.
    pub(crate) attached: Vec<String>,
    /// The model; the default if absent.
    pub(crate) model: Option<String>,
    /// The conversation to continue.
    pub(crate) chat: Option<String>,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request failed.
    #[error("{}", with_sources(.0))]
    Client(#[from] client::Error),
    /// The terminal cannot be written to.
    #[error("cannot write the answer")]
    Output(#[from] io::Error),
}

/// The result of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AskSummary {
    /// The conversation, to be continued with `--chat`.
    pub(crate) chat_id: String,
    /// The code of the answer's error, if it failed.
    pub(crate) error: Option<String>,
}

/// Returns the exit code: 0 for an answer, 1 if the service is unavailable, 3 if it refused the request, 4 if the
/// answer failed. (2 is a usage error.)
pub(crate) fn exit_code(outcome: &Result<AskSummary, Error>) -> u8 {
    match outcome {
        Ok(AskSummary { error: None, .. }) => 0,
        Ok(AskSummary { error: Some(_), .. }) => 4,
        Err(Error::Client(client::Error::Refused { .. })) => 3,
        Err(Error::Client(_) | Error::Output(_)) => 1,
    }
}

/// Uploads the files, asks, and prints the answer as it grows.
///
/// # Errors
/// [`Error::Client`] if the service is unreachable or refuses, [`Error::Output`] if the terminal cannot be written
/// to.
pub(crate) async fn ask(options: Options) -> Result<AskSummary, Error> {
    let both = io::stdout().is_terminal() && io::stderr().is_terminal();
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    ask_on(&options, &mut Terminal::new(io::stdout(), io::stderr(), both, colours)).await
}

async fn ask_on<O: Write, E: Write>(
    options: &Options,
    terminal: &mut Terminal<O, E>,
) -> Result<AskSummary, Error> {
    let client = Client::new(&options.url, &options.key)?;
    let mut question = Question::new(options.text.clone());
    question.chat_id.clone_from(&options.chat);
    question.model.clone_from(&options.model);
    question.file_paths.clone_from(&options.attached);
    for file in &options.files {
        let uploaded = client.upload(file, None).await?;
        terminal.note(&format!("uploaded {} ({} bytes)", uploaded.path, uploaded.size))?;
        question.file_paths.push(uploaded.path);
    }
    let mut answer = client.send(&question).await?;
    terminal.show(&answer)?;
    let mut states = client.stream(&answer);
    while let Some(state) = states.next().await? {
        terminal.show(&state)?;
        answer = state;
    }
    if !answer.is_completed() {
        // The stream may end before completion, so the current state decides.
        answer = client.collect(&answer.chat_id, &answer.id).await?;
    }
    terminal.finish(&answer)?;
    Ok(AskSummary { chat_id: answer.chat_id, error: answer.error.map(|error| error.code) })
}

/// The output of an answer so far.
struct Terminal<O, E> {
    out: O,
    err: E,
    /// Both outputs share one terminal, so notes must not be written into the middle of a line.
    shared: bool,
    colours: bool,
    /// The raw text that has been printed.
    written: String,
    mid_line: bool,
    /// The parts that were announced, by id, and whether their failure was, too.
    noted: Vec<(String, bool)>,
}

impl<O: Write, E: Write> Terminal<O, E> {
    fn new(out: O, err: E, shared: bool, colours: bool) -> Self {
        Self { out, err, shared, colours, written: String::new(), mid_line: false, noted: Vec::new() }
    }

    /// Prints what is new in this state.
    fn show(&mut self, answer: &Answer) -> io::Result<()> {
        for part in &answer.parts {
            self.note_part(part)?;
        }
        let text = if answer.is_completed() { answer.text.as_str() } else { settled(&answer.text) };
        self.grow(text)
    }

    /// Prints the new end of `text`. If the text differs from what was printed, an attempt was repeated: a note
    /// says so on its own line, and printing resumes at the start of the line that differs.
    fn grow(&mut self, text: &str) -> io::Result<()> {
        let same = common_prefix(&self.written, text);
        let mut from = same;
        if same < self.written.len() {
            if text.len() == same && self.written[same..].trim().is_empty() {
                return Ok(());
            }
            from = text[..same].rfind('\n').map_or(0, |at| at + 1);
            self.end_line()?;
            writeln!(self.out, "[the attempt was interrupted; repeated from here]")?;
        }
        text.clone_into(&mut self.written);
        let fresh = &text[from..];
        if fresh.is_empty() {
            return Ok(());
        }
        self.mid_line = !fresh.ends_with('\n');
        self.out.write_all(neutral(fresh).as_bytes())?;
        self.out.flush()
    }

    fn note_part(&mut self, part: &Part) -> io::Result<()> {
        let what = match part.kind {
            PartType::Tool => part.tool_name.as_deref().unwrap_or("tool").to_owned(),
            PartType::WebSearch => format!("web search: {}", part.query.as_deref().unwrap_or("")),
            PartType::Skill => format!("skill {}", part.full_name.as_deref().unwrap_or("")),
            PartType::Agent => "agent".to_owned(),
            PartType::File => format!("file {}", part.path.as_deref().unwrap_or("")),
            PartType::Text | PartType::Reasoning | PartType::Unknown => return Ok(()),
        };
        let failed = part.state == Some(PartState::Error);
        let known = self.noted.iter_mut().find(|(id, _)| *id == part.part_id);
        let line = match known {
            None => {
                self.noted.push((part.part_id.clone(), failed));
                if failed { format!("{what} failed") } else { what }
            }
            Some((_, noted)) if failed && !*noted => {
                *noted = true;
                format!("{what} failed")
            }
            Some(_) => return Ok(()),
        };
        self.note(&line)
    }

    /// Prints a dim status line.
    fn note(&mut self, text: &str) -> io::Result<()> {
        if self.shared {
            self.end_line()?;
        }
        let (dim, plain) = if self.colours { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writeln!(self.err, "{dim}· {}{plain}", one_line(text))
    }

    fn finish(&mut self, answer: &Answer) -> io::Result<()> {
        self.show(answer)?;
        self.end_line()?;
        let sources = sources(&answer.parts);
        if !sources.is_empty() {
            writeln!(self.out, "\nSources:")?;
            for (index, source) in sources.iter().enumerate() {
                writeln!(self.out, "[{}] {}", index + 1, one_line(source))?;
            }
        }
        self.out.flush()?;
        if let Some(error) = &answer.error {
            self.note(&format!("the answer failed: {}", error.code))?;
        }
        self.note(&format!("conversation {}", answer.chat_id))
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.mid_line {
            writeln!(self.out)?;
            self.out.flush()?;
            self.mid_line = false;
        }
        Ok(())
    }
}

/// Lists the sources that an answer cites, in order, without duplicates.
fn sources(parts: &[Part]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for citation in parts.iter().flat_map(|part| &part.citations) {
        let place = place(&citation.source);
        if !out.contains(&place) {
            out.push(place);
        }
    }
    out
}

fn place(source: &Source) -> String {
    let what = source.path.as_deref().or(source.url.as_deref()).unwrap_or(&source.kind);
    match (source.page, source.lines, source.title.as_deref()) {
        (Some(page), ..) => format!("{what}, page {page}"),
        (None, Some((first, last)), _) if first == last => format!("{what}, line {first}"),
        (None, Some((first, last)), _) => format!("{what}, lines {first}–{last}"),
        (None, None, Some(title)) => format!("{title} <{what}>"),
        (None, None, None) => what.to_owned(),
    }
}

/// Returns the text without parts that the next state may change: trailing white space and an open citation mark.
fn settled(text: &str) -> &str {
    let mark =
        text.rfind('[').filter(|at| text[at + 1..].chars().all(|c| c.is_ascii_digit() || ", ".contains(c)));
    text[..mark.unwrap_or(text.len())].trim_end()
}

/// Returns the length of the common prefix, at a character boundary.
fn common_prefix(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// Makes text safe for a terminal: replaces control characters except line feed and tab, and those that change the
/// writing direction.
fn neutral(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| if commands(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Makes text safe for a terminal, on one line.
fn one_line(text: &str) -> String {
    neutral(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect()
}

fn commands(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Formats an error with its causes.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str, completed: bool) -> Answer {
        Answer {
            id: "m".to_owned(),
            chat_id: "c".to_owned(),
            status: if completed { client::Status::Completed } else { client::Status::InProgress },
            created_at: String::new(),
            model: String::new(),
            text: text.to_owned(),
            parts: Vec::new(),
            error: None,
        }
    }

    fn tool(id: &str, name: &str, state: PartState) -> Part {
        Part {
            part_id: id.to_owned(),
            kind: PartType::Tool,
            content: None,
            tool_name: Some(name.to_owned()),
            tool_call_id: Some("call".to_owned()),
            state: Some(state),
            query: None,
            path: None,
            skill_id: None,
            name: None,
            full_name: None,
            citations: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Returns the content of both outputs after these states.
    fn shown(states: &[Answer]) -> (String, String) {
        let mut terminal = Terminal::new(Vec::new(), Vec::new(), true, false);
        for state in states {
            terminal.show(state).unwrap();
        }
        terminal.finish(states.last().unwrap()).unwrap();
        (String::from_utf8(terminal.out).unwrap(), String::from_utf8(terminal.err).unwrap())
    }

    #[test]
    fn a_growing_text_is_written_once() {
        let states =
            ["", "The", "The lease ", "The lease [", "The lease [1", "The lease ends", "The lease ends"];
        let mut states: Vec<Answer> = states.iter().map(|text| state(text, false)).collect();
        states.push(state("The lease ends.\n\nIn May.", true));
        assert_eq!(shown(&states).0, "The lease ends.\n\nIn May.\n");
    }

    #[test]
    fn a_text_said_anew_is_told() {
        let states = [state("First.\n\nThe lease ran", false), state("First.\n\nThe rent is", true)];
        let expected =
            "First.\n\nThe lease ran\n[the attempt was interrupted; repeated from here]\nThe rent is\n";
        assert_eq!(shown(&states).0, expected);
        let states = [state("A word", false), state("", false), state("A word", true)];
        assert_eq!(shown(&states).0, "A word\n[the attempt was interrupted; repeated from here]\nA word\n");
    }

    #[test]
    fn hostile_text_commands_no_terminal() {
        let hostile = "a\x1b]0;title\x07b\u{9b}31mc\u{202e}d\r\ne\tf\x7f";
        let mut answer = state(hostile, true);
        answer.parts.push(tool("p", "sh\x1b[2J\nell", PartState::Complete));
        let (out, err) = shown(&[answer]);
        for text in [&out, &err] {
            assert!(!text.chars().any(|c| commands(c) || c == '\r'), "{text:?}");
        }
        assert!(out.contains("e\tf"), "{out:?}");
        assert_eq!(err.lines().count(), 2, "a tool stays on its line: {err:?}");
    }

    #[test]
    fn tools_are_told_once_and_their_failure_too() {
        let mut first = state("Looking", false);
        first.parts.push(tool("p", "search", PartState::Pending));
        let mut second = first.clone();
        second.parts[0].state = Some(PartState::Error);
        let mut last = second.clone();
        last.status = client::Status::Completed;
        let (_, err) = shown(&[first, second, last]);
        assert_eq!(err, "· search\n· search failed\n· conversation c\n");
    }

    #[test]
    fn sources_are_numbered_and_listed_once() {
        let source = |path: &str, page| Source {
            kind: "FILE".to_owned(),
            url: None,
            path: Some(path.to_owned()),
            page,
            lines: page.is_none().then_some((3, 5)),
            title: None,
        };
        let citation = |id: &str, source| client::Citation { citation_id: id.to_owned(), source };
        let mut answer = state("It ends in May.", true);
        let mut part = tool("t", "", PartState::Complete);
        part.kind = PartType::Text;
        let lease = source("/uploads/lease.pdf", Some(3));
        part.citations = vec![
            citation("1", lease.clone()),
            citation("2", source("/uploads/a.txt", None)),
            citation("1", lease),
        ];
        answer.parts.push(part);
        let expected =
            "It ends in May.\n\nSources:\n[1] /uploads/lease.pdf, page 3\n[2] /uploads/a.txt, lines 3–5\n";
        assert_eq!(shown(&[answer]).0, expected);
    }

    #[test]
    fn exit_codes_tell_the_outcomes_apart() {
        let summary =
            |error: Option<&str>| Ok(AskSummary { chat_id: "c".to_owned(), error: error.map(str::to_owned) });
        assert_eq!(exit_code(&summary(None)), 0);
        assert_eq!(exit_code(&summary(Some("MODEL_UNAVAILABLE"))), 4);
        let refused = client::Error::Refused {
            status: 409,
            code: "NO_MACHINE".to_owned(),
            message: "no machine".to_owned(),
            retry_after: None,
        };
        assert_eq!(exit_code(&Err(Error::Client(refused))), 3);
        assert_eq!(exit_code(&Err(Error::Client(client::Error::Key))), 1);
    }
}
