//! The differences between the states of an answer, as a client reads them that appends each to the one before.
//!
//! States supersede one another: a step may be said anew, and a vendor may set a citation into text that was sent. Text
//! that was sent stays. If it does not begin the present text any more, the present text follows after a blank line.
//! Marks become links in the text; their places are listed for the end of the answer.

use domain::answer::{Answer, CallRun, ContentPart, PartContent, RunState};
use domain::citation::{DecidedPiece, MarkReplacer, PassagePlace, Stripper};
use domain::id::PartId;
use domain::step::Purpose;
use serde::Serialize;

/// The prefix of links to files in answers, and that of the application's pages of the same files.
const API_FILES: &str = "/api/v1/files";
const APP_FILES: &str = "/files";
/// The bytes at the end of a sent text that are compared with the present one. A whole long text would be too much for each
/// new word.
const COMPARED_MAX_BYTES: usize = 64 << 10;
/// The maximum number of citations that are listed.
pub(crate) const ANNOTATIONS_MAX: usize = 1_000;

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AnswerDelta {
    Content(String),
    /// Thoughts, and lines about calls.
    Reasoning(String),
}

/// A citation in the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct UrlCitation {
    pub(crate) url: String,
    pub(crate) title: String,
    /// The characters of the link in the content.
    pub(crate) start_index: usize,
    pub(crate) end_index: usize,
    /// The workspace path, if the source is a file.
    #[serde(skip)]
    pub(crate) file: Option<String>,
}

/// Reads an answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerDeltas {
    /// The beginning of links to files: `https://host`.
    origin: String,
    parts: Vec<SentPart>,
    content: String,
    content_chars: usize,
    citations: Vec<UrlCitation>,
    /// True once thoughts or a line about a call were sent.
    has_reasoned: bool,
}

/// A part as it was sent.
#[derive(Debug)]
struct SentPart {
    id: PartId,
    body: SentBody,
}

#[derive(Debug)]
enum SentBody {
    Text(SentText),
    Reasoning(String),
    Run(RunState),
}

/// A text as it was sent.
#[derive(Debug, Default)]
pub(crate) struct SentText {
    /// The Markdown that was processed.
    markdown: String,
    /// The sent text without its marks.
    unmarked: String,
    replacer: MarkReplacer,
    /// Line feeds at its end, which are sent before further text.
    line_feeds: usize,
    is_finished: bool,
}

/// New text, and the citations in it by their characters.
#[derive(Default)]
pub(crate) struct NewText {
    pub(crate) text: String,
    pub(crate) citations: Vec<UrlCitation>,
}

impl AnswerDeltas {
    /// Creates a reader that has read nothing. Links to files begin with `origin`.
    pub(crate) fn new(origin: String) -> Self {
        Self { origin, ..Self::default() }
    }

    /// Returns the content so far, as it was sent.
    pub(crate) fn content(&self) -> &str {
        &self.content
    }

    /// Returns the citations in the content so far.
    pub(crate) fn citations(&self) -> &[UrlCitation] {
        &self.citations
    }

    /// Returns the differences to the state that was read last.
    pub(crate) fn read_state(&mut self, answer: &Answer) -> Vec<AnswerDelta> {
        let mut deltas = Vec::new();
        let has_ended = answer.ending.is_some();
        let last = answer.parts.last().map(|part| part.id);
        for part in &answer.parts {
            match &part.body {
                PartContent::Text(markdown) => {
                    let is_finished = has_ended || Some(part.id) != last;
                    self.read_text(answer, part, markdown, is_finished, &mut deltas);
                }
                PartContent::Reasoning(text) => self.read_reasoning(part.id, text, &mut deltas),
                PartContent::Run(run) => self.read_run(part.id, run, &mut deltas),
                PartContent::File { .. } => {}
            }
        }
        deltas
    }

    /// Returns the index of a part; adds it if it is new.
    fn index_of(&mut self, id: PartId, new: impl FnOnce() -> SentBody) -> usize {
        self.parts.iter().position(|part| part.id == id).unwrap_or_else(|| {
            self.parts.push(SentPart { id, body: new() });
            self.parts.len() - 1
        })
    }

    fn read_text(
        &mut self,
        answer: &Answer,
        part: &ContentPart,
        markdown: &str,
        is_finished: bool,
        deltas: &mut Vec<AnswerDelta>,
    ) {
        let at = self.index_of(part.id, || SentBody::Text(SentText::default()));
        let origin = std::mem::take(&mut self.origin);
        let place = |number| answer.source_of(part, number);
        let SentBody::Text(sent) = &mut self.parts[at].body else { return };
        let new = sent.read_markdown(markdown, is_finished, &origin, place);
        self.origin = origin;
        if let Some(new) = new {
            self.append_content(new, deltas);
        }
    }

    /// Appends text of a part. A part, and a text that is sent anew, begins after a blank line.
    fn append_content(&mut self, (is_new, new): (bool, NewText), deltas: &mut Vec<AnswerDelta>) {
        if new.text.is_empty() {
            return;
        }
        let blank_line = if is_new && !self.content.is_empty() { "\n\n" } else { "" };
        let from = self.content_chars + blank_line.len();
        let room = ANNOTATIONS_MAX.saturating_sub(self.citations.len());
        self.citations.extend(new.citations.into_iter().take(room).map(|citation| UrlCitation {
            start_index: from + citation.start_index,
            end_index: from + citation.end_index,
            ..citation
        }));
        let text = format!("{blank_line}{}", new.text);
        self.content_chars += text.chars().count();
        self.content.push_str(&text);
        deltas.push(AnswerDelta::Content(text));
    }

    fn read_reasoning(&mut self, id: PartId, text: &str, deltas: &mut Vec<AnswerDelta>) {
        let at = self.index_of(id, || SentBody::Reasoning(String::new()));
        let SentBody::Reasoning(sent) = &mut self.parts[at].body else { return };
        if sent.len() == text.len() || sent.starts_with(text) {
            return;
        }
        let (is_new, more) = match text_after(sent, text) {
            Some(more) => (sent.is_empty(), more.to_owned()),
            None => {
                sent.clear();
                (true, text.to_owned())
            }
        };
        sent.push_str(&more);
        self.append_reasoning(is_new, &more, deltas);
    }

    fn read_run(&mut self, id: PartId, run: &CallRun, deltas: &mut Vec<AnswerDelta>) {
        let is_known = self.parts.iter().any(|part| part.id == id);
        let at = self.index_of(id, || SentBody::Run(RunState::Pending));
        let SentBody::Run(state) = &mut self.parts[at].body else { return };
        let has_failed = run.state == RunState::Error && *state != RunState::Error;
        *state = run.state;
        if !is_known {
            self.append_reasoning(true, &run_line(run), deltas);
        }
        if has_failed {
            self.append_reasoning(true, &format!("{}: failed", run_line(run)), deltas);
        }
    }

    /// Appends thoughts or a line about a call. A new part begins after a blank line.
    fn append_reasoning(&mut self, is_new: bool, text: &str, deltas: &mut Vec<AnswerDelta>) {
        let blank_line = if is_new && self.has_reasoned { "\n\n" } else { "" };
        self.has_reasoned = true;
        deltas.push(AnswerDelta::Reasoning(format!("{blank_line}{text}")));
    }
}

/// Returns the rest of a text that begins with what was sent before.
pub(crate) fn text_after<'t>(before: &str, text: &'t str) -> Option<&'t str> {
    let (begin, rest) = text.split_at_checked(before.len())?;
    let from = before.len().saturating_sub(COMPARED_MAX_BYTES);
    (begin.as_bytes()[from..] == before.as_bytes()[from..]).then_some(rest)
}

/// Describes a call in one line.
fn run_line(run: &CallRun) -> String {
    match &run.purpose {
        Purpose::Tool => format!("Tool: {}", run.tool),
        Purpose::WebSearch { query } => format!("Web search: {}", query.replace(['\n', '\r'], " ")),
        Purpose::Skill(skill) => format!("Skill: {}", skill.full_name),
        Purpose::Agent(agent) => format!("Agent: {}", agent.full_name),
    }
}

impl SentText {
    /// Returns true if this Markdown, or its beginning, was processed.
    pub(crate) fn has_read(&self, markdown: &str) -> bool {
        text_after(markdown, &self.markdown).is_some()
    }

    /// Returns the new text, and whether it does not continue the text before it.
    pub(crate) fn read_markdown<'a>(
        &mut self,
        markdown: &str,
        is_finished: bool,
        origin: &str,
        place: impl Fn(u32) -> Option<&'a PassagePlace>,
    ) -> Option<(bool, NewText)> {
        if self.markdown.len() == markdown.len() && (self.is_finished || !is_finished) {
            return None;
        }
        let mut new = NewText::default();
        let is_new = if let Some(more) = text_after(&self.markdown, markdown) {
            let is_new = self.unmarked.is_empty();
            self.push_text(more, is_finished, origin, &place, &mut new);
            self.markdown.push_str(more);
            self.is_finished = is_finished;
            return Some((is_new, new));
        } else if !is_finished && self.markdown.starts_with(markdown) {
            // It is being said anew, so far with the same words.
            return None;
        } else if let Some(more) = self.text_behind(markdown, is_finished, &place) {
            self.append_unmarked(&more, &mut new);
            self.skip_to_end(markdown, is_finished);
            false
        } else {
            *self = Self::default();
            self.push_text(markdown, is_finished, origin, &place, &mut new);
            true
        };
        markdown.clone_into(&mut self.markdown);
        self.is_finished = is_finished;
        Some((is_new, new))
    }

    fn push_text<'a>(
        &mut self,
        more: &str,
        is_finished: bool,
        origin: &str,
        place: &impl Fn(u32) -> Option<&'a PassagePlace>,
        new: &mut NewText,
    ) {
        let mut replacer = std::mem::take(&mut self.replacer);
        replacer.push_text(more, is_finished, |piece| match piece {
            DecidedPiece::Text(text) => self.append_unmarked(text, new),
            DecidedPiece::Mark { before, brackets, after, numbers } => {
                let places: Option<Vec<_>> = numbers.iter().map(|number| place(*number)).collect();
                let Some(places) = places else {
                    return self.append_unmarked(&[before, brackets, after].concat(), new);
                };
                self.flush_line_feeds(new);
                new.text.push_str(before);
                for (number, place) in numbers.iter().zip(places) {
                    new.append_link(*number, place, origin);
                }
                new.text.push_str(after);
            }
        });
        self.replacer = replacer;
    }

    /// Appends text, without line feeds at the beginning and the end of the part.
    fn append_unmarked(&mut self, text: &str, new: &mut NewText) {
        let body = if self.unmarked.is_empty() { text.trim_start_matches('\n') } else { text };
        let shown = body.trim_end_matches('\n');
        if !shown.is_empty() {
            self.flush_line_feeds(new);
            new.text.push_str(shown);
        }
        self.unmarked.push_str(body);
        if !self.unmarked.is_empty() {
            self.line_feeds += body.len() - shown.len();
        }
    }

    fn flush_line_feeds(&mut self, new: &mut NewText) {
        let line_feeds = std::mem::take(&mut self.line_feeds);
        new.text.extend(std::iter::repeat_n('\n', line_feeds));
    }

    /// Returns the text behind the sent one, if only marks were set into it.
    fn text_behind<'a>(
        &self,
        markdown: &str,
        is_finished: bool,
        place: &impl Fn(u32) -> Option<&'a PassagePlace>,
    ) -> Option<String> {
        let known = |number| place(number).is_some();
        let mut stripper = Stripper::default();
        stripper.push(markdown, known);
        let unmarked = if is_finished { stripper.finish(known) } else { stripper.text().to_owned() };
        let unmarked = unmarked.trim_start_matches('\n');
        if self.unmarked.is_empty() {
            return None;
        }
        unmarked.strip_prefix(self.unmarked.as_str()).map(str::to_owned)
    }

    /// Processes a text whose unmarked form was sent.
    fn skip_to_end(&mut self, markdown: &str, is_finished: bool) {
        self.replacer = MarkReplacer::default();
        self.replacer.push_text(markdown, is_finished, |_| {});
    }
}

impl NewText {
    fn append_link(&mut self, number: u32, place: &PassagePlace, origin: &str) {
        let Some(url) = link_of(place, origin) else {
            self.text.push_str(&format!("[{number}]"));
            return;
        };
        let start_index = self.text.chars().count();
        self.text.push_str(&format!("[{number}]({url})"));
        let end_index = self.text.chars().count();
        let (title, file) = match place {
            PassagePlace::File { path, .. } => (place.to_string(), Some(path.clone())),
            PassagePlace::Web { title, .. } => (title.clone(), None),
        };
        self.citations.push(UrlCitation { url, title, start_index, end_index, file });
    }
}

/// Returns the address of a source: of a file, that of its page in the application.
fn link_of(place: &PassagePlace, origin: &str) -> Option<String> {
    let href = render::source_href(place)?;
    let href = match (place, href.strip_prefix(API_FILES)) {
        (PassagePlace::File { .. }, Some(file)) => {
            let (path, page) =
                file.split_once('#').map_or((file, String::new()), |(path, page)| (path, format!("#{page}")));
            format!("{origin}{APP_FILES}{path}?view{page}")
        }
        _ => href,
    };
    // Parentheses and spaces would end the link in Markdown.
    Some(href.replace('(', "%28").replace(')', "%29").replace(' ', "%20").replace(['<', '>', '\n'], ""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::answer::{AnswerChange, AnswerEnding, RevisionStamp};
    use domain::citation::NumberedPassage;
    use domain::id::MessageId;
    use domain::step::{CallResult, StepCall, StepOutcome};

    use super::*;

    /// An answer, its reader and what it has read.
    struct ReadAnswer {
        answer: Answer,
        deltas: AnswerDeltas,
        content: String,
        reasoning: String,
    }

    impl ReadAnswer {
        fn new() -> Self {
            let answer = Answer::new(MessageId::from_random(1), &[]);
            let deltas = AnswerDeltas::new("http://host".to_owned());
            Self { answer, deltas, content: String::new(), reasoning: String::new() }
        }

        fn apply(&mut self, change: AnswerChange) {
            let RevisionStamp { epoch, revision } = self.answer.stamp;
            assert!(self.answer.fold_change(RevisionStamp { epoch, revision: revision + 1 }, change));
            for delta in self.deltas.read_state(&self.answer) {
                match delta {
                    AnswerDelta::Content(text) => self.content.push_str(&text),
                    AnswerDelta::Reasoning(text) => self.reasoning.push_str(&text),
                }
            }
            assert_eq!(self.deltas.content(), self.content);
        }

        fn begin_step(&mut self, number: u32) {
            self.apply(AnswerChange::StepBegan { number });
        }

        fn say(&mut self, block: u32, text: &str) {
            self.apply(AnswerChange::TextGrew { block, text: text.to_owned() });
        }

        fn call_search(&mut self, place: PassagePlace) {
            let call = StepCall {
                id: "call".to_owned(),
                tool: "search".to_owned(),
                arguments: "{}".to_owned(),
                purpose: Purpose::Tool,
            };
            self.apply(AnswerChange::Called { block: 0, call });
            let passages = vec![NumberedPassage { number: 1, place, text: "The rent.".to_owned() }];
            let result = CallResult {
                call: "call".to_owned(),
                tool: "search".to_owned(),
                outcome: StepOutcome::Done,
                text: String::new(),
                passages,
                written: Vec::new(),
                images: Vec::new(),
                unread: Vec::new(),
            };
            self.apply(AnswerChange::Resulted { result: Arc::new(result) });
        }
    }

    fn lease() -> PassagePlace {
        PassagePlace::File {
            path: "/uploads/lease (1).pdf".to_owned(),
            page: Some(3),
            lines: None,
            page_name: None,
        }
    }

    #[test]
    fn deltas_add_up_to_text_with_links() {
        let mut read = ReadAnswer::new();
        read.begin_step(0);
        read.call_search(lease());
        assert_eq!(read.reasoning, "Tool: search");
        read.begin_step(1);
        for piece in ["\nOn the ", "5th [", "1", "]", ". In arrays x[1] and [9]", "\n\n"] {
            read.say(0, piece);
        }
        read.apply(AnswerChange::Ended(AnswerEnding::Done));
        let link = "http://host/files/uploads/lease%20%281%29.pdf?view#page=3";
        assert_eq!(read.content, format!("On the 5th [1]({link}). In arrays x[1] and [9]"));
        let [citation] = read.deltas.citations() else { panic!("one: {:?}", read.deltas.citations()) };
        assert_eq!(&read.content[citation.start_index..citation.end_index], format!("[1]({link})"));
        assert_eq!(citation.title, "/uploads/lease (1).pdf, page 3");
    }

    #[test]
    fn step_said_anew_continues_or_follows() {
        let mut read = ReadAnswer::new();
        read.begin_step(0);
        read.say(0, "The rent is due.");
        read.begin_step(0);
        read.say(0, "The rent");
        assert_eq!(read.content, "The rent is due.", "so far it is the same");
        read.say(0, " is due. Soon.");
        assert_eq!(read.content, "The rent is due. Soon.");
        read.begin_step(0);
        read.say(0, "Rent");
        assert_eq!(read.content, "The rent is due. Soon.\n\nRent");
        read.apply(AnswerChange::Ended(AnswerEnding::Stopped));
        assert_eq!(read.content, "The rent is due. Soon.\n\nRent");
    }

    #[test]
    fn parts_are_separated_and_calls_told() {
        let mut read = ReadAnswer::new();
        read.begin_step(0);
        read.apply(AnswerChange::ReasoningGrew { block: 0, text: "Let me".to_owned() });
        read.apply(AnswerChange::ReasoningGrew { block: 0, text: " see.".to_owned() });
        read.say(1, "I search.\n");
        read.begin_step(1);
        read.say(0, "Found.");
        read.apply(AnswerChange::Ended(AnswerEnding::Done));
        assert_eq!(read.reasoning, "Let me see.");
        assert_eq!(read.content, "I search.\n\nFound.");
    }
}
