//! Removes from the reasons of failures what no log may have: keys, and texts of the conversation, which some servers repeat in
//! their errors.

use domain::step::{OutputBlock, StepError, TranscriptItem};

use crate::server::VendorServer;

/// The minimum number of bytes that a reason shares with a text to count as a quotation of it.
const QUOTED_BYTES: usize = 16;
/// Limits the texts that a reason is compared with. Errors repeat the last ones.
const COMPARED_MAX_BYTES: usize = 256 * 1024;
const REMOVED: &str = "…";

/// Redacts the errors of one step.
pub(crate) struct Redaction {
    server: VendorServer,
    /// The last items of the conversation that was sent, from the last one on.
    items: Vec<TranscriptItem>,
}

impl Redaction {
    /// Creates the redaction of a step's errors.
    pub(crate) fn new(server: VendorServer, transcript: &[TranscriptItem]) -> Self {
        let mut room = COMPARED_MAX_BYTES;
        let last = transcript.iter().rev().take_while(|item| {
            let has_room = room > 0;
            room = room.saturating_sub(item_texts(item).iter().map(|text| text.len()).sum());
            has_room
        });
        Self { server, items: last.cloned().collect() }
    }

    /// Returns the error without keys and without texts of the conversation.
    pub(crate) fn redact_error(&self, error: StepError) -> StepError {
        match error {
            StepError::Unavailable { reason, retry_after } => {
                StepError::Unavailable { reason: self.redact_reason(&reason), retry_after }
            }
            StepError::Rejected { refused, status, reason } => {
                StepError::Rejected { refused, status, reason: self.redact_reason(&reason) }
            }
            StepError::TimedOut { .. } => error,
            StepError::TooLong => StepError::TooLong,
        }
    }

    fn redact_reason(&self, reason: &str) -> String {
        let mut room = COMPARED_MAX_BYTES;
        let mut texts: Vec<&str> = self.items.iter().flat_map(item_texts).collect();
        for text in &mut texts {
            *text = &text[..text.floor_char_boundary(text.len().min(room))];
            room -= text.len();
        }
        without_quotations(&self.server.redact_key(reason), &texts)
    }
}

/// Returns the texts of an item.
fn item_texts(item: &TranscriptItem) -> Vec<&str> {
    match item {
        TranscriptItem::Question { text, .. } => vec![text],
        TranscriptItem::Step(step) => {
            let texts = step.blocks.iter().filter_map(|block| match block {
                OutputBlock::Text(text) | OutputBlock::Reasoning(text) => Some(text.as_str()),
                OutputBlock::Call(call) => Some(call.arguments.as_str()),
                OutputBlock::Opaque { .. } => None,
            });
            texts.collect()
        }
        TranscriptItem::Result(result) => {
            let passages = result.passages.iter().map(|passage| passage.text.as_str());
            std::iter::once(result.text.as_str()).chain(passages).collect()
        }
    }
}

/// Replaces the parts of a reason that also occur in one of the texts.
fn without_quotations(reason: &str, texts: &[&str]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < reason.len() {
        let end = reason.ceil_char_boundary((at + QUOTED_BYTES).min(reason.len()));
        let quoted = end - at >= QUOTED_BYTES && texts.iter().any(|text| text.contains(&reason[at..end]));
        if quoted {
            if !out.ends_with(REMOVED) {
                out.push_str(REMOVED);
            }
            at = end;
            // Text after the last whole part of a quotation belongs to it as well.
            while let Some(next) = reason[at..].chars().next() {
                let window = reason.floor_char_boundary(at + next.len_utf8() - QUOTED_BYTES);
                if !texts.iter().any(|text| text.contains(&reason[window..at + next.len_utf8()])) {
                    break;
                }
                at += next.len_utf8();
            }
        } else if let Some(next) = reason[at..].chars().next() {
            out.push(next);
            at += next.len_utf8();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redact_error_removes_conversation_texts() {
        let text = "Patient Jan Novák, born 1970, has HIV. What is he to take?";
        for (reason, expected) in [
            (
                "400: input_value='Patient Jan Novák, born 1970, has HIV. Wh' [type=string]",
                "400: input_value='…' [type=string]",
            ),
            ("400: the model does not exist", "400: the model does not exist"),
            ("born 1970, has HIV. What is he to take?", "…"),
            ("Patient Jan", "Patient Jan"),
            ("", ""),
        ] {
            assert_eq!(without_quotations(reason, &[text]), expected, "{reason}");
        }
    }
}
