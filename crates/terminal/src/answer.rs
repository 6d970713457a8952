//! An answer on a terminal: prints it while it grows, the tools that it uses, and its sources.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Answer, Part, PartState, PartType, Source};
use domain::citation::PageKind;

use crate::markdown::Markdown;
use crate::text::{neutral, one_line, size};

/// When the text of an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerText {
    /// On a terminal: while it grows.
    Growing,
    /// In a pipe: when it is complete, because a repeated attempt takes back what it wrote.
    Complete,
    Absent,
}

/// How the outputs are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) text: AnswerText,
    /// Both outputs share one terminal, so notes must not be written into the middle of a line.
    pub(crate) shared: bool,
    /// Markdown is styled.
    pub(crate) markdown: bool,
    /// Notes are dim.
    pub(crate) colours: bool,
}

impl Style {
    /// Returns the style for the outputs of this process. `plain` leaves Markdown as it was written.
    pub(crate) fn of_process(plain: bool) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let text = if out { AnswerText::Growing } else { AnswerText::Complete };
        Self { text, shared: out && err, markdown: out && colours && !plain, colours: err && colours }
    }
}

/// Prints answers.
pub(crate) struct Printer<O, E> {
    out: O,
    err: E,
    style: Style,
    /// The raw text that has been printed.
    written: String,
    markdown: Markdown,
    mid_line: bool,
    /// The parts that were announced, by id, and whether their failure was, too.
    noted: Vec<(String, bool)>,
}

impl<O: Write, E: Write> Printer<O, E> {
    pub(crate) fn new(out: O, err: E, style: Style) -> Self {
        let (written, markdown) = (String::new(), Markdown::default());
        Self { out, err, style, written, markdown, mid_line: false, noted: Vec::new() }
    }

    /// Begins another answer.
    pub(crate) fn begin(&mut self) {
        self.written.clear();
        self.noted.clear();
    }

    /// Prints what is new in this state.
    pub(crate) fn show(&mut self, answer: &Answer) -> io::Result<()> {
        for part in &answer.parts {
            self.note_part(part)?;
        }
        match (self.style.text, answer.is_completed()) {
            (AnswerText::Growing | AnswerText::Complete, true) => self.grow(&answer.text),
            (AnswerText::Growing, false) => self.grow(settled(&answer.text)),
            (AnswerText::Complete, false) | (AnswerText::Absent, _) => Ok(()),
        }
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
            self.markdown = Markdown::default();
            // What was printed before decides whether this is inside a block of code.
            let _ = self.markdown.push(&text[..from]);
        }
        text.clone_into(&mut self.written);
        let fresh = neutral(&text[from..]);
        if fresh.is_empty() {
            return Ok(());
        }
        self.mid_line = !fresh.ends_with('\n');
        let printed = if self.style.markdown { self.markdown.push(&fresh) } else { fresh };
        self.out.write_all(printed.as_bytes())?;
        self.out.flush()
    }

    fn note_part(&mut self, part: &Part) -> io::Result<()> {
        let what = match part.kind {
            PartType::Tool => part.tool_name.as_deref().unwrap_or("tool").to_owned(),
            PartType::WebSearch => format!("web search: {}", part.query.as_deref().unwrap_or("")),
            PartType::Skill => format!("skill {}", part.full_name.as_deref().unwrap_or("")),
            PartType::Agent => format!("agent {}", part.name.as_deref().unwrap_or("")),
            PartType::File => format!("file {}", part.path.as_deref().unwrap_or("")),
            PartType::Text | PartType::Reasoning | PartType::Unknown => return Ok(()),
        };
        let what = what.trim_end();
        let failed = part.state == Some(PartState::Error);
        let known = self.noted.iter_mut().find(|(id, _)| *id == part.part_id);
        let line = match known {
            None => {
                self.noted.push((part.part_id.clone(), failed));
                if failed { format!("{what} failed") } else { what.to_owned() }
            }
            Some((_, noted)) if failed && !*noted => {
                *noted = true;
                format!("{what} failed")
            }
            Some(_) => return Ok(()),
        };
        self.note(&line)
    }

    /// Prints a dim line to standard error.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        if self.style.shared {
            self.end_line()?;
        }
        let (dim, plain) = if self.style.colours { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writeln!(self.err, "{dim}· {}{plain}", one_line(text))
    }

    /// Returns what shows the progress of an upload, on a terminal only; the next note replaces it.
    pub(crate) fn progress(&self, file: &Path) -> Progress {
        let total = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let name = one_line(&file.file_name().unwrap_or_default().to_string_lossy());
        Progress { shown: self.style.colours, name, total, last_percent: AtomicU64::new(u64::MAX) }
    }

    /// Removes what the progress shows.
    pub(crate) fn end_progress(&mut self) -> io::Result<()> {
        if self.style.colours {
            write!(self.err, "\r\x1b[2K")?;
        }
        Ok(())
    }

    /// Prints the rest of a completed answer, its sources and its error.
    pub(crate) fn finish(&mut self, answer: &Answer) -> io::Result<()> {
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
            // The text of the answer usually ends with the message.
            let is_said = error.message.is_empty() || answer.text.contains(&error.message);
            let message = if is_said { String::new() } else { format!(": {}", error.message) };
            self.note(&format!("the answer failed ({}){message}", error.code))?;
        }
        Ok(())
    }

    fn end_line(&mut self) -> io::Result<()> {
        if self.style.markdown {
            let rest = self.markdown.finish();
            self.out.write_all(rest.as_bytes())?;
        }
        if self.mid_line {
            writeln!(self.out)?;
            self.out.flush()?;
            self.mid_line = false;
        }
        Ok(())
    }
}

/// The progress of an upload.
pub(crate) struct Progress {
    shown: bool,
    name: String,
    total: u64,
    last_percent: AtomicU64,
}

impl Progress {
    /// Shows the percentage, if it has changed.
    pub(crate) fn show(&self, sent: u64) {
        let percent = sent.saturating_mul(100).checked_div(self.total).unwrap_or(100).min(100);
        if self.shown && self.last_percent.swap(percent, Ordering::Relaxed) != percent {
            let (name, total) = (&self.name, size(self.total));
            // The upload goes on, also if nobody can see it.
            let _ = write!(io::stderr(), "\r\x1b[2K\x1b[2m· uploading {name}: {percent} % of {total}\x1b[0m");
        }
    }
}

/// Lists the sources that an answer cites, in order, without duplicates.
fn sources(parts: &[Part]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for citation in parts.iter().flat_map(|part| &part.citations) {
        let mut place = place(&citation.source);
        if citation.verified == Some(false) {
            let reason = citation.reason.as_deref().unwrap_or("the passage does not say it");
            place.push_str(&format!(" (not proven: {reason})"));
        }
        if !out.contains(&place) {
            out.push(place);
        }
    }
    out
}

fn place(source: &Source) -> String {
    let what = source.path.as_deref().or(source.url.as_deref()).unwrap_or(&source.kind);
    match (source.page, source.lines, source.title.as_deref()) {
        (Some(page), lines, _) => {
            format!("{what}, {}", page_in_words(what, (page, source.page_name.as_deref()), lines))
        }
        (None, Some(lines), _) => format!("{what}, {}", counted("line", lines)),
        (None, None, Some(title)) => format!("{title} <{what}>"),
        (None, None, None) => what.to_owned(),
    }
}

/// Names lines or rows: `lines 4–9`.
fn counted(word: &str, (first, last): (u32, u32)) -> String {
    if first == last { format!("{word} {first}") } else { format!("{word}s {first}–{last}") }
}

/// Names a page as its kind of file has it, with the rows of a sheet and the lines of a file in an archive.
fn page_in_words(path: &str, (page, name): (u32, Option<&str>), lines: Option<(u32, u32)>) -> String {
    let number = page.to_string();
    let (place, line) = match PageKind::of(path) {
        PageKind::Sheet => (format!("sheet {}", name.unwrap_or(&number)), "row"),
        PageKind::File => (name.map_or_else(|| format!("file {page}"), str::to_owned), "line"),
        PageKind::Slide => return format!("slide {page}"),
        PageKind::Section => return format!("section {page}"),
        PageKind::Page => {
            return name
                .map_or_else(|| format!("page {page}"), |attached| format!("page {page}, {attached}"));
        }
    };
    lines.map_or_else(|| place.clone(), |lines| format!("{place}, {}", counted(line, lines)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::commands;

    const TERMINAL: Style =
        Style { text: AnswerText::Growing, shared: true, markdown: false, colours: false };
    const PIPE: Style = Style { text: AnswerText::Complete, shared: false, markdown: false, colours: false };

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
    fn printed(states: &[Answer], style: Style) -> (String, String) {
        let mut printer = Printer::new(Vec::new(), Vec::new(), style);
        for state in states {
            printer.show(state).unwrap();
        }
        printer.finish(states.last().unwrap()).unwrap();
        (String::from_utf8(printer.out).unwrap(), String::from_utf8(printer.err).unwrap())
    }

    #[test]
    fn a_growing_text_is_written_once() {
        let states =
            ["", "The", "The lease ", "The lease [", "The lease [1", "The lease ends", "The lease ends"];
        let mut states: Vec<Answer> = states.iter().map(|text| state(text, false)).collect();
        states.push(state("The lease ends.\n\nIn May.", true));
        for style in [TERMINAL, PIPE] {
            assert_eq!(printed(&states, style).0, "The lease ends.\n\nIn May.\n");
        }
    }

    #[test]
    fn a_repeated_attempt_is_announced_on_a_terminal_and_absent_from_a_pipe() {
        let states = [state("First.\n\nThe lease ran", false), state("First.\n\nThe rent is", true)];
        let expected =
            "First.\n\nThe lease ran\n[the attempt was interrupted; repeated from here]\nThe rent is\n";
        assert_eq!(printed(&states, TERMINAL).0, expected);
        assert_eq!(printed(&states, PIPE).0, "First.\n\nThe rent is\n");
        let states = [state("A word", false), state("", false), state("A word", true)];
        let expected = "A word\n[the attempt was interrupted; repeated from here]\nA word\n";
        assert_eq!(printed(&states, TERMINAL).0, expected);
        assert_eq!(printed(&states, PIPE).0, "A word\n");
    }

    #[test]
    fn markdown_is_styled_also_when_it_arrives_in_pieces() {
        let style = Style { markdown: true, ..TERMINAL };
        let states = [state("It is **im", false), state("It is **important**.", true)];
        let (out, _) = printed(&states, style);
        assert_eq!(out, "It is \x1b[0m\x1b[1mimportant\x1b[0m.\n");
    }

    #[test]
    fn hostile_text_commands_no_terminal() {
        let hostile = "a\x1b]0;title\x07b\u{9b}31mc\u{202e}d\r\ne\tf\x7f";
        let mut answer = state(hostile, true);
        answer.parts.push(tool("p", "sh\x1b[2J\nell", PartState::Complete));
        let (out, err) = printed(&[answer], TERMINAL);
        for text in [&out, &err] {
            assert!(!text.chars().any(|c| commands(c) || c == '\r'), "{text:?}");
        }
        assert!(out.contains("e\tf"), "{out:?}");
        assert_eq!(err.lines().count(), 1, "a tool stays on its line: {err:?}");
    }

    #[test]
    fn the_reason_of_a_failure_is_said_once() {
        let error = |message: &str| client::Failure {
            code: "MODEL_REJECTED".to_owned(),
            message: message.to_owned(),
        };
        let mut answer = state("The vendor refused.", true);
        answer.error = Some(error("The vendor refused."));
        assert_eq!(printed(&[answer.clone()], PIPE).1, "· the answer failed (MODEL_REJECTED)\n");
        answer.error = Some(error("It is full."));
        assert_eq!(printed(&[answer], PIPE).1, "· the answer failed (MODEL_REJECTED): It is full.\n");
    }

    #[test]
    fn tools_are_noted_once_and_their_failure_too() {
        let mut first = state("Looking", false);
        first.parts.push(tool("p", "search", PartState::Pending));
        let mut second = first.clone();
        second.parts[0].state = Some(PartState::Error);
        let mut last = second.clone();
        last.status = client::Status::Completed;
        let (_, err) = printed(&[first, second, last], TERMINAL);
        assert_eq!(err, "· search\n· search failed\n");
    }

    #[test]
    fn pages_are_called_as_their_kind_of_file_has_them() {
        assert_eq!(page_in_words("/a.xlsx", (2, None), Some((4, 6))), "sheet 2, rows 4–6");
        assert_eq!(page_in_words("/a.XLS", (2, None), Some((4, 4))), "sheet 2, row 4");
        assert_eq!(page_in_words("/a.ods", (2, Some("Leden")), None), "sheet Leden");
        assert_eq!(page_in_words("/a.zip", (2, Some("b/c.txt")), Some((4, 6))), "b/c.txt, lines 4–6");
        assert_eq!(page_in_words("/a.pptx", (2, None), None), "slide 2");
        assert_eq!(page_in_words("/a.pdf", (2, None), None), "page 2");
    }

    #[test]
    fn sources_are_numbered_and_listed_once() {
        let source = |path: &str, page| Source {
            kind: "FILE".to_owned(),
            url: None,
            path: Some(path.to_owned()),
            page,
            lines: page.is_none().then_some((3, 5)),
            page_name: None,
            title: None,
        };
        let citation = |id: &str, source| client::Citation {
            citation_id: id.to_owned(),
            source,
            verified: None,
            reason: None,
        };
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
        assert_eq!(printed(&[answer], PIPE).0, expected);
    }
}
