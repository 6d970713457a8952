//! An answer on a terminal: prints it while it grows, the tools that it uses, and its sources.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{ChatAnswer, ChatAnswerPart, PartState, PartType};

use crate::growth::{ShownText, settled_text};
use crate::labels::{Label, LabelLanguage};
use crate::markdown::MarkdownStyler;
use crate::marks::{CitationMark, find_marks};
use crate::sources::list_cited_sources;
use crate::text::{format_size, neutralize_controls, one_line};

/// The time at which the text of an answer is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerText {
    /// On a terminal: while it grows.
    Growing,
    /// In a pipe: when it is complete, because a repeated attempt replaces its text.
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
    /// The language of the labels if the answer does not determine it.
    pub(crate) language: LabelLanguage,
}

impl Style {
    /// Returns the style for the outputs of this process. `plain` leaves Markdown as it was written.
    pub(crate) fn for_process(plain: bool) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let text = if out { AnswerText::Growing } else { AnswerText::Complete };
        Self {
            text,
            shared: out && err,
            markdown: out && colours && !plain,
            colours: err && colours,
            language: LabelLanguage::from_locale(),
        }
    }
}

/// Prints answers.
pub(crate) struct Printer<O, E> {
    out: O,
    err: E,
    style: Style,
    shown: ShownText,
    language: LabelLanguage,
    /// True while a progress line is on the terminal.
    has_status: bool,
    markdown: MarkdownStyler,
    mid_line: bool,
    /// The announced parts, by id, and whether their failure was announced.
    noted: Vec<(String, bool)>,
}

impl<O: Write, E: Write> Printer<O, E> {
    pub(crate) fn new(out: O, err: E, style: Style) -> Self {
        let (shown, markdown) = (ShownText::default(), MarkdownStyler::default());
        let (language, has_status, mid_line, noted) = (style.language, false, false, Vec::new());
        Self { out, err, style, shown, language, has_status, markdown, mid_line, noted }
    }

    /// Begins another answer.
    pub(crate) fn begin_answer(&mut self) {
        self.shown.clear();
        self.noted.clear();
        self.language = self.style.language;
    }

    /// Returns a label in the language of the answer.
    pub(crate) const fn label(&self, label: Label) -> &'static str {
        self.language.label(label)
    }

    pub(crate) const fn language(&self) -> LabelLanguage {
        self.language
    }

    /// Prints the new parts of this state.
    pub(crate) fn print_state(&mut self, answer: &ChatAnswer) -> io::Result<()> {
        self.language = LabelLanguage::from_text(&answer.text, self.style.language);
        for part in &answer.parts {
            self.note_part(part)?;
        }
        let is_completed = answer.is_completed();
        let text = if is_completed { answer.text.as_str() } else { settled_text(&answer.text) };
        match (self.style.text, is_completed) {
            (AnswerText::Growing | AnswerText::Complete, true) | (AnswerText::Growing, false) => {
                self.print_growth(text, &find_marks(&answer.text, &answer.parts), is_completed)
            }
            (AnswerText::Complete, false) | (AnswerText::Absent, _) => Ok(()),
        }
    }

    /// Prints the new end of `text` with its marks. If the text differs from the printed text, an attempt was
    /// repeated: a note says so on a separate line, and printing resumes at the start of the line that differs.
    fn print_growth(&mut self, text: &str, marks: &[CitationMark], is_completed: bool) -> io::Result<()> {
        let Some(growth) = self.shown.grow_to(text, marks, is_completed) else { return Ok(()) };
        if let Some(from) = growth.repeated_from {
            self.end_line()?;
            writeln!(self.out, "{}", self.label(Label::Repeated))?;
            self.markdown = MarkdownStyler::default();
            // The printed text decides whether this is inside a block of code.
            let _ = self.markdown.push_piece(&text[..from]);
        }
        let fresh = neutralize_controls(&growth.added);
        if fresh.is_empty() {
            return Ok(());
        }
        self.clear_status()?;
        self.mid_line = !fresh.ends_with('\n');
        let printed = if self.style.markdown { self.markdown.push_piece(&fresh) } else { fresh };
        self.out.write_all(printed.as_bytes())?;
        self.out.flush()
    }

    fn note_part(&mut self, part: &ChatAnswerPart) -> io::Result<()> {
        let what = match part.kind {
            PartType::Tool => part.tool_name.clone().unwrap_or_else(|| self.label(Label::Tool).to_owned()),
            PartType::WebSearch => {
                format!("{}: {}", self.label(Label::WebSearch), part.query.as_deref().unwrap_or(""))
            }
            PartType::Skill => {
                format!("{} {}", self.label(Label::Skill), part.full_name.as_deref().unwrap_or(""))
            }
            PartType::Agent => format!("{} {}", self.label(Label::Agent), part.name.as_deref().unwrap_or("")),
            PartType::File => format!("{} {}", self.label(Label::File), part.path.as_deref().unwrap_or("")),
            PartType::Text | PartType::Reasoning | PartType::Unknown => return Ok(()),
        };
        let what = what.trim_end();
        let failed = part.state == Some(PartState::Error);
        let failure = self.label(Label::Failed);
        let known = self.noted.iter_mut().find(|(id, _)| *id == part.part_id);
        let line = match known {
            None => {
                self.noted.push((part.part_id.clone(), failed));
                if failed { format!("{what} {failure}") } else { what.to_owned() }
            }
            Some((_, noted)) if failed && !*noted => {
                *noted = true;
                format!("{what} {failure}")
            }
            Some(_) => return Ok(()),
        };
        self.print_note(&line)
    }

    /// Prints a dim line to standard error.
    pub(crate) fn print_note(&mut self, text: &str) -> io::Result<()> {
        if self.style.shared {
            self.end_line()?;
        }
        self.clear_status()?;
        let (dim, plain) = if self.style.colours { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        writeln!(self.err, "{dim}· {}{plain}", one_line(text))
    }

    /// Shows the current wait, on a terminal only and not within a line of the answer; the next output replaces it.
    pub(crate) fn show_status(&mut self, text: &str) -> io::Result<()> {
        if self.style.colours && !self.mid_line {
            self.has_status = true;
            write!(self.err, "\r\x1b[2K\x1b[2m· {}\x1b[0m", one_line(text))?;
            self.err.flush()?;
        }
        Ok(())
    }

    /// Returns true if [`Self::show_status`] would show something.
    pub(crate) const fn shows_status(&self) -> bool {
        self.style.colours && !self.mid_line
    }

    fn clear_status(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_status) {
            write!(self.err, "\r\x1b[2K")?;
            self.err.flush()?;
        }
        Ok(())
    }

    /// Returns the progress display of an upload, on a terminal only; the next note replaces it.
    pub(crate) fn upload_progress(&self, file: &Path) -> UploadProgress {
        let total = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
        let name = one_line(&file.file_name().unwrap_or_default().to_string_lossy());
        let label = self.label(Label::Uploading);
        UploadProgress {
            shown: self.style.colours,
            label,
            name,
            total,
            last_percent: AtomicU64::new(u64::MAX),
        }
    }

    /// Removes the progress display.
    pub(crate) fn end_progress(&mut self) -> io::Result<()> {
        if self.style.colours {
            write!(self.err, "\r\x1b[2K")?;
        }
        Ok(())
    }

    /// Prints the rest of a completed answer, its sources and its error.
    pub(crate) fn finish_answer(&mut self, answer: &ChatAnswer) -> io::Result<()> {
        self.print_state(answer)?;
        self.end_line()?;
        self.clear_status()?;
        let sources = list_cited_sources(&answer.parts, self.language);
        if !sources.is_empty() {
            writeln!(self.out, "\n{}", self.label(Label::Sources))?;
            for (number, source) in &sources {
                writeln!(self.out, "[{number}] {}", one_line(source))?;
            }
        }
        self.out.flush()?;
        if let Some(error) = &answer.error {
            // The text of the answer usually ends with the message.
            let is_said = error.message.is_empty() || answer.text.contains(&error.message);
            let message = if is_said { String::new() } else { format!(": {}", error.message) };
            self.print_note(&format!("{} ({}){message}", self.label(Label::AnswerFailed), error.code))?;
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
pub(crate) struct UploadProgress {
    shown: bool,
    label: &'static str,
    name: String,
    total: u64,
    last_percent: AtomicU64,
}

impl UploadProgress {
    /// Shows the percentage, if it has changed.
    pub(crate) fn show_sent(&self, sent: u64) {
        let percent = sent.saturating_mul(100).checked_div(self.total).unwrap_or(100).min(100);
        if self.shown && self.last_percent.swap(percent, Ordering::Relaxed) != percent {
            let (label, name, total) = (self.label, &self.name, format_size(self.total));
            // The upload continues even if its progress cannot be shown.
            let _ = write!(io::stderr(), "\r\x1b[2K\x1b[2m· {label} {name}: {percent} % of {total}\x1b[0m");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::tests::{link_marks, text_part};
    use crate::sources::tests::{file_source, sample_citation};
    use crate::text::is_terminal_command;

    const TERMINAL: Style = Style {
        text: AnswerText::Growing,
        shared: true,
        markdown: false,
        colours: false,
        language: LabelLanguage::English,
    };
    const PIPE: Style = Style {
        text: AnswerText::Complete,
        shared: false,
        markdown: false,
        colours: false,
        language: LabelLanguage::English,
    };

    fn answer_state(text: &str, completed: bool) -> ChatAnswer {
        ChatAnswer {
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

    fn tool_part(id: &str, name: &str, state: PartState) -> ChatAnswerPart {
        ChatAnswerPart {
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
    fn print_states(states: &[ChatAnswer], style: Style) -> (String, String) {
        let mut printer = Printer::new(Vec::new(), Vec::new(), style);
        for state in states {
            printer.print_state(state).unwrap();
        }
        printer.finish_answer(states.last().unwrap()).unwrap();
        (String::from_utf8(printer.out).unwrap(), String::from_utf8(printer.err).unwrap())
    }

    #[test]
    fn a_growing_text_is_written_once() {
        let states =
            ["", "The", "The lease ", "The lease [", "The lease [1", "The lease ends", "The lease ends"];
        let mut states: Vec<ChatAnswer> = states.iter().map(|text| answer_state(text, false)).collect();
        states.push(answer_state("The lease ends.\n\nIn May.", true));
        for style in [TERMINAL, PIPE] {
            assert_eq!(print_states(&states, style).0, "The lease ends.\n\nIn May.\n");
        }
    }

    #[test]
    fn repeated_attempt_noted_on_terminal() {
        let states =
            [answer_state("First.\n\nThe lease ran", false), answer_state("First.\n\nThe rent is", true)];
        let expected =
            "First.\n\nThe lease ran\n[the attempt was interrupted; repeated from here]\nThe rent is\n";
        assert_eq!(print_states(&states, TERMINAL).0, expected);
        assert_eq!(print_states(&states, PIPE).0, "First.\n\nThe rent is\n");
        let states = [answer_state("A word", false), answer_state("", false), answer_state("A word", true)];
        let expected = "A word\n[the attempt was interrupted; repeated from here]\nA word\n";
        assert_eq!(print_states(&states, TERMINAL).0, expected);
        assert_eq!(print_states(&states, PIPE).0, "A word\n");
    }

    #[test]
    fn markdown_in_pieces_is_styled() {
        let style = Style { markdown: true, ..TERMINAL };
        let states = [answer_state("It is **im", false), answer_state("It is **important**.", true)];
        let (out, _) = print_states(&states, style);
        assert_eq!(out, "It is \x1b[0m\x1b[1mimportant\x1b[0m.\n");
    }

    #[test]
    fn hostile_text_commands_no_terminal() {
        let hostile = "a\x1b]0;title\x07b\u{9b}31mc\u{202e}d\r\ne\tf\x7f";
        let mut answer = answer_state(hostile, true);
        answer.parts.push(tool_part("p", "sh\x1b[2J\nell", PartState::Complete));
        let (out, err) = print_states(&[answer], TERMINAL);
        for text in [&out, &err] {
            assert!(!text.chars().any(|c| is_terminal_command(c) || c == '\r'), "{text:?}");
        }
        assert!(out.contains("e\tf"), "{out:?}");
        assert_eq!(err.lines().count(), 1, "a tool stays on its line: {err:?}");
    }

    #[test]
    fn failure_reason_is_printed_once() {
        let error = |message: &str| client::ApiFailure {
            code: "MODEL_REJECTED".to_owned(),
            message: message.to_owned(),
        };
        let mut answer = answer_state("The vendor refused.", true);
        answer.error = Some(error("The vendor refused."));
        assert_eq!(print_states(&[answer.clone()], PIPE).1, "· the answer failed (MODEL_REJECTED)\n");
        answer.error = Some(error("It is full."));
        assert_eq!(print_states(&[answer], PIPE).1, "· the answer failed (MODEL_REJECTED): It is full.\n");
    }

    #[test]
    fn tools_and_failures_noted_once() {
        let mut first = answer_state("Looking", false);
        first.parts.push(tool_part("p", "search", PartState::Pending));
        let mut second = first.clone();
        second.parts[0].state = Some(PartState::Error);
        let mut last = second.clone();
        last.status = client::Status::Completed;
        let (_, err) = print_states(&[first, second, last], TERMINAL);
        assert_eq!(err, "· search\n· search failed\n");
    }

    #[test]
    fn marks_have_source_numbers() {
        let mut first = answer_state("The rent is due", false);
        first.parts.push(text_part(&link_marks("<p>The rent is due [3]</p>")));
        let mut last = answer_state("The rent is due. It ends in May.\n\nThen", true);
        last.parts.push(text_part(&link_marks("<p>The rent is due [3]. It ends in May [5].</p><p>Then</p>")));
        let marked = "The rent is due [3]. It ends in May [5].\n\nThen\n";
        for style in [TERMINAL, PIPE] {
            assert_eq!(print_states(&[first.clone(), last.clone()], style).0, marked);
        }
        // A vendor reports a source after its sentence was printed.
        let states = [answer_state("The rent is due. It", false), last];
        assert_eq!(print_states(&states, TERMINAL).0, "The rent is due. It ends in May [5]. [3]\n\nThen\n");
        assert_eq!(print_states(&states, PIPE).0, marked);
    }

    #[test]
    fn answer_labels_follow_answer_language() {
        let mut answer = answer_state("Nájemné činí 18 500 Kč měsíčně.", true);
        answer.parts.push(tool_part("p", "search", PartState::Error));
        let mut part = text_part("");
        part.citations = vec![sample_citation("c2", file_source("/a.xlsx", Some(1)))];
        answer.parts.push(part);
        let (out, err) = print_states(&[answer], PIPE);
        assert_eq!(out, "Nájemné činí 18 500 Kč měsíčně.\n\nZdroje:\n[2] /a.xlsx, list 1\n");
        assert_eq!(err, "· search selhalo\n");
    }

    #[test]
    fn progress_shows_until_next_line() {
        let mut printer = Printer::new(Vec::new(), Vec::new(), Style { colours: true, ..TERMINAL });
        printer.show_status("reading a.pdf").unwrap();
        printer.print_note("search").unwrap();
        let err = String::from_utf8(printer.err).unwrap();
        assert_eq!(err, "\r\x1b[2K\x1b[2m· reading a.pdf\x1b[0m\r\x1b[2K\x1b[2m· search\x1b[0m\n");
        let mut piped = Printer::new(Vec::new(), Vec::new(), PIPE);
        piped.show_status("reading a.pdf").unwrap();
        assert!(piped.err.is_empty());
    }
}
