//! Collects the text of a subagent and reports it to the turn that called it.

use domain::answer::{AnswerChange, LogEntry};
use domain::citation::CitationMarkers;
use domain::step::OutputBlock;
use domain::turn::host::TurnEvent;
use tokio::sync::mpsc;

use super::turn_input::TurnInput;

/// The longest report, in bytes; the rest is dropped.
pub(super) const REPORT_MAX_BYTES: usize = 64 * 1024;
/// The longest mark with the space before it, in bytes.
const MARK_MAX_BYTES: usize = " [999]".len();

/// The text of a subagent so far, and how much of it was reported. Reports never wait for the caller: text that does
/// not fit is part of the next report.
pub(super) struct SubagentOutput {
    call: String,
    text: String,
    /// The start of each step in the text.
    steps: Vec<usize>,
    /// The text blocks of the current step: the number, the start and the inserted citation marks of each.
    blocks: Vec<(u32, usize, CitationMarkers)>,
    /// The length of the reported text that is still valid.
    stands: usize,
    reported: usize,
    to: mpsc::Sender<TurnInput>,
}

impl SubagentOutput {
    /// Creates the report of a task with this step log.
    pub(super) fn new(call: String, log: &[LogEntry], to: mpsc::Sender<TurnInput>) -> Self {
        let mut report = Self {
            call,
            text: String::new(),
            steps: Vec::new(),
            blocks: Vec::new(),
            stands: 0,
            reported: usize::MAX, // replaces the report of an earlier lease
            to,
        };
        for entry in log {
            let LogEntry::Step { number, step, .. } = entry else { continue };
            report.begin_step(*number);
            for (block, index) in step.blocks.iter().zip(0_u32..) {
                if let OutputBlock::Text(text) = block {
                    report.append_text(index, text);
                }
            }
            for cited in &step.cited {
                report.insert_mark(cited.block, cited.at, cited.number);
            }
        }
        report
    }

    /// Returns the text: Markdown with citation marks.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Applies a change of the subagent's answer and reports it.
    pub(super) fn apply_change(&mut self, change: &AnswerChange) {
        match change {
            AnswerChange::StepBegan { number } => self.begin_step(*number),
            AnswerChange::TextGrew { block, text } => self.append_text(*block, text),
            AnswerChange::Cited { block, at, number, .. } => self.insert_mark(*block, *at, *number),
            AnswerChange::ReasoningGrew { .. }
            | AnswerChange::Noted(_)
            | AnswerChange::Called { .. }
            | AnswerChange::Reported { .. }
            | AnswerChange::Resulted { .. }
            | AnswerChange::Paused { .. }
            | AnswerChange::Replied { .. }
            | AnswerChange::Ended(_) => return,
        }
        self.report_text();
    }

    /// Reports the text that was not reported yet, unless the inbox of the caller is full.
    pub(super) fn report_text(&mut self) {
        if self.reported == self.text.len() && self.stands == self.reported {
            return;
        }
        let (call, text) = (self.call.clone(), self.text[self.stands..].to_owned());
        let event = TurnEvent::Reported { call, keep: self.stands, text };
        if self.to.try_send(TurnInput::Event(event)).is_ok() {
            self.reported = self.text.len();
            self.stands = self.reported;
        }
    }

    fn begin_step(&mut self, number: u32) {
        let at = number as usize;
        let start = self.steps.get(at).copied().unwrap_or(self.text.len());
        self.steps.truncate(at);
        self.steps.push(start);
        self.text.truncate(start);
        self.stands = self.stands.min(start);
        self.blocks.clear();
    }

    /// Inserts a citation mark into a text of the current step, unless the report is full.
    fn insert_mark(&mut self, block: u32, at: usize, number: u32) {
        let Some(index) = self.blocks.iter().position(|(of, ..)| *of == block) else { return };
        let end = self.blocks.get(index + 1).map_or(self.text.len(), |(_, next, _)| *next);
        if self.text.len() + MARK_MAX_BYTES > REPORT_MAX_BYTES {
            return;
        }
        let (_, start, marks) = &mut self.blocks[index];
        let mut text = self.text[*start..end].to_owned();
        let place = *start + marks.insert_mark(&mut text, at, number);
        let grown = text.len() - (end - *start);
        self.text.replace_range(*start..end, &text);
        for (_, start, _) in self.blocks.iter_mut().skip(index + 1) {
            *start += grown;
        }
        self.stands = self.stands.min(place);
    }

    fn append_text(&mut self, block: u32, text: &str) {
        if self.blocks.last().is_none_or(|(last, ..)| *last != block) {
            if !self.text.is_empty() && !text.is_empty() {
                self.text.push_str("\n\n");
            }
            self.blocks.push((block, self.text.len(), CitationMarkers::default()));
        }
        let room = REPORT_MAX_BYTES.saturating_sub(self.text.len());
        self.text.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

#[cfg(test)]
mod tests {
    use domain::citation::PassagePlace;

    use super::*;

    fn read_reports(inbox: &mut mpsc::Receiver<TurnInput>, shown: &mut String) {
        while let Ok(TurnInput::Event(TurnEvent::Reported { keep, text, .. })) = inbox.try_recv() {
            shown.truncate(keep);
            shown.push_str(&text);
        }
    }

    #[test]
    fn whoever_listens_slowly_hears_the_same() {
        let (to, mut inbox) = mpsc::channel(1);
        let mut report = SubagentOutput::new("c".to_owned(), &[], to);
        let mut shown = String::from("of an earlier lease");
        let grew = |block, text: &str| AnswerChange::TextGrew { block, text: text.to_owned() };
        let changes = [
            AnswerChange::StepBegan { number: 0 },
            grew(0, "Let me "),
            grew(0, "see."),
            AnswerChange::StepBegan { number: 1 },
            grew(0, "It is wr"),
            AnswerChange::StepBegan { number: 1 },
            grew(1, "Due on the fifth."),
        ];
        for (at, change) in changes.iter().enumerate() {
            report.apply_change(change);
            if at % 3 == 0 {
                read_reports(&mut inbox, &mut shown);
            }
        }
        read_reports(&mut inbox, &mut shown);
        report.report_text();
        read_reports(&mut inbox, &mut shown);
        assert_eq!(shown, "Let me see.\n\nDue on the fifth.");
        assert_eq!(report.text(), shown);
    }

    #[test]
    fn vendor_citations_marked_after_report() {
        let (to, mut inbox) = mpsc::channel(10);
        let mut report = SubagentOutput::new("c".to_owned(), &[], to);
        let mut shown = String::new();
        let grew = |block, text: &str| AnswerChange::TextGrew { block, text: text.to_owned() };
        let place = PassagePlace::Web { url: "https://a.example/".to_owned(), title: String::new() };
        let cited = |block, at, number| AnswerChange::Cited { block, at, number, place: place.clone() };
        for change in [
            AnswerChange::StepBegan { number: 0 },
            grew(0, "One. Two."),
            grew(2, "Three."),
            cited(2, 6, 3),
            cited(0, 9, 2),
            cited(0, 4, 1),
            grew(2, " Four."),
        ] {
            report.apply_change(&change);
            read_reports(&mut inbox, &mut shown);
        }
        assert_eq!(shown, "One. [1] Two. [2]\n\nThree. [3] Four.");
        assert_eq!(report.text(), shown);
    }

    #[test]
    fn a_report_is_bounded() {
        let (to, _inbox) = mpsc::channel(1);
        let mut report = SubagentOutput::new("c".to_owned(), &[], to);
        report.apply_change(&AnswerChange::StepBegan { number: 0 });
        report.apply_change(&AnswerChange::TextGrew { block: 0, text: "é".repeat(REPORT_MAX_BYTES) });
        assert_eq!(report.text().len(), REPORT_MAX_BYTES);
    }
}
