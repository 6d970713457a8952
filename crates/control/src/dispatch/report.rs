//! What another agent says of its task, as it tells the turn that gave it.

use domain::answer::{Change, LogEntry};
use domain::step::Block;
use domain::turn::host::Event;
use tokio::sync::mpsc;

use super::turn::Inbox;

/// The longest report, in bytes; what is beyond is not told.
pub(super) const REPORT_MAX_BYTES: usize = 64 * 1024;

/// What an agent said so far, and how much of it was told. It never waits for the one that is told: what could not be
/// told is told with what comes after it.
pub(super) struct Report {
    call: String,
    said: String,
    /// Where each step begins.
    steps: Vec<usize>,
    block: Option<u32>,
    /// How much of what was told still stands.
    stands: usize,
    told: usize,
    to: mpsc::Sender<Inbox>,
}

impl Report {
    /// The report of a task that has come as far as this.
    pub(super) fn new(call: String, log: &[LogEntry], to: mpsc::Sender<Inbox>) -> Self {
        let mut report = Self {
            call,
            said: String::new(),
            steps: Vec::new(),
            block: None,
            stands: 0,
            told: usize::MAX, // whatever an earlier lease told goes
            to,
        };
        for entry in log {
            let LogEntry::Step { number, step, .. } = entry else { continue };
            report.begin(*number);
            for (block, index) in step.blocks.iter().zip(0_u32..) {
                if let Block::Text(text) = block {
                    report.grow(index, text);
                }
            }
        }
        report
    }

    /// What was said: Markdown with marks.
    pub(super) fn text(&self) -> &str {
        &self.said
    }

    /// Takes a change of the other agent's answer in.
    pub(super) fn take(&mut self, change: &Change) {
        match change {
            Change::StepBegan { number } => self.begin(*number),
            Change::TextGrew { block, text } => self.grow(*block, text),
            Change::ReasoningGrew { .. }
            | Change::Called { .. }
            | Change::Reported { .. }
            | Change::Resulted { .. }
            | Change::Ended(_) => return,
        }
        self.tell();
    }

    /// Tells what was not told yet, unless too much is waiting there.
    pub(super) fn tell(&mut self) {
        if self.told == self.said.len() && self.stands == self.told {
            return;
        }
        let (call, text) = (self.call.clone(), self.said[self.stands..].to_owned());
        let event = Event::Reported { call, keep: self.stands, text };
        if self.to.try_send(Inbox::Event(event)).is_ok() {
            self.told = self.said.len();
            self.stands = self.told;
        }
    }

    fn begin(&mut self, number: u32) {
        let at = number as usize;
        let start = self.steps.get(at).copied().unwrap_or(self.said.len());
        self.steps.truncate(at);
        self.steps.push(start);
        self.said.truncate(start);
        self.stands = self.stands.min(start);
        self.block = None;
    }

    fn grow(&mut self, block: u32, text: &str) {
        if self.block != Some(block) && !self.said.is_empty() && !text.is_empty() {
            self.said.push_str("\n\n");
        }
        self.block = Some(block);
        let room = REPORT_MAX_BYTES.saturating_sub(self.said.len());
        self.said.push_str(&text[..text.floor_char_boundary(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(inbox: &mut mpsc::Receiver<Inbox>, shown: &mut String) {
        while let Ok(Inbox::Event(Event::Reported { keep, text, .. })) = inbox.try_recv() {
            shown.truncate(keep);
            shown.push_str(&text);
        }
    }

    #[test]
    fn whoever_listens_slowly_hears_the_same() {
        let (to, mut inbox) = mpsc::channel(1);
        let mut report = Report::new("c".to_owned(), &[], to);
        let mut shown = String::from("of an earlier lease");
        let grew = |block, text: &str| Change::TextGrew { block, text: text.to_owned() };
        let changes = [
            Change::StepBegan { number: 0 },
            grew(0, "Let me "),
            grew(0, "see."),
            Change::StepBegan { number: 1 },
            grew(0, "It is wr"),
            Change::StepBegan { number: 1 },
            grew(1, "Due on the fifth."),
        ];
        for (at, change) in changes.iter().enumerate() {
            report.take(change);
            if at % 3 == 0 {
                heard(&mut inbox, &mut shown);
            }
        }
        heard(&mut inbox, &mut shown);
        report.tell();
        heard(&mut inbox, &mut shown);
        assert_eq!(shown, "Let me see.\n\nDue on the fifth.");
        assert_eq!(report.text(), shown);
    }

    #[test]
    fn a_report_is_bounded() {
        let (to, _inbox) = mpsc::channel(1);
        let mut report = Report::new("c".to_owned(), &[], to);
        report.take(&Change::StepBegan { number: 0 });
        report.take(&Change::TextGrew { block: 0, text: "é".repeat(REPORT_MAX_BYTES) });
        assert_eq!(report.text().len(), REPORT_MAX_BYTES);
    }
}
