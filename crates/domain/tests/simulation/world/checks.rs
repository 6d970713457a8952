//! The invariants of what models and readers are shown.

use domain::step::{ATTACHED_FILES, TranscriptItem};

use super::{SimulationWorld, TurnKey};
use crate::store::SUMMING_UP;

impl SimulationWorld {
    /// Checks that the shown items fit the model's window, end with a question or results, and have a result
    /// after each call.
    pub(super) fn check_shown(&mut self, transcript: &[TranscriptItem]) {
        let mut open: Vec<&str> = Vec::new();
        for item in transcript {
            match item {
                TranscriptItem::Step(step) => {
                    assert!(open.is_empty(), "each call has its result before the next step");
                    open = step.tool_calls().map(|call| call.id.as_str()).collect();
                }
                TranscriptItem::Result(result) if result.tool == ATTACHED_FILES => {}
                TranscriptItem::Result(result) => {
                    let at = open.iter().position(|call| *call == result.call);
                    open.remove(at.expect("no result stands without its call"));
                }
                TranscriptItem::Question { .. } => assert!(open.is_empty(), "each call has its result"),
            }
        }
        assert!(open.is_empty() && !matches!(transcript.last(), None | Some(TranscriptItem::Step(_))));
        let asks = |item: &TranscriptItem| matches!(item, TranscriptItem::Question { text, .. } if text.starts_with(SUMMING_UP));
        self.summaries += u64::from(transcript.last().is_some_and(asks));
    }

    /// Checks that the reader's answer equals the stored one.
    pub(super) fn check_reader(&mut self, at: TurnKey) {
        let Some(running) = self.nodes[at.node].turns.get(&at.answer) else { return };
        let row = &self.store.rows[&at.answer];
        if row.epoch == at.epoch && row.ending.is_some() {
            assert_eq!(
                Some(&running.reader),
                row.answer.as_ref(),
                "the reader's fold and the stored answer differ"
            );
        }
    }
}
