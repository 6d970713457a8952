//! Bounds results to the limits of the host.

use domain::unread::UNREAD_MAX;
use protocol::tool::{
    IMAGES_MAX, OUTPUT_PASSAGES_MAX, PASSAGE_MAX_BYTES, TEXT_MAX_BYTES, ToolOutput, WRITTEN_MAX,
};

/// Creates a failed result with the reason.
pub(crate) fn failed_output(why: &str) -> ToolOutput {
    ToolOutput { failed: true, text: why.to_owned(), ..ToolOutput::default() }
}

/// Creates a result that consists of text only.
pub(crate) fn text_output(text: String) -> ToolOutput {
    ToolOutput { text, ..ToolOutput::default() }
}

/// The end of a text that was cut.
const CUT: &str = "\n... cut here: the output is longer than a call gives; narrow the call down";
/// The maximum size of a result's passages in a frame, in bytes, JSON-escaped.
const PASSAGES_FRAME_MAX_BYTES: usize = 1024 * 1024;

/// Truncates what exceeds the bounds of [`protocol::tool`].
pub(crate) fn within_bounds(mut output: ToolOutput) -> ToolOutput {
    if output.text.len() > TEXT_MAX_BYTES {
        output.text.truncate(output.text.floor_char_boundary(TEXT_MAX_BYTES - CUT.len()));
        output.text.push_str(CUT);
    }
    output.passages.truncate(OUTPUT_PASSAGES_MAX);
    let mut bytes = 0;
    let mut fit = output.passages.len();
    for (index, passage) in output.passages.iter_mut().enumerate() {
        passage.text.truncate(passage.text.floor_char_boundary(PASSAGE_MAX_BYTES));
        bytes += escaped_bytes(&passage.text) + escaped_bytes(&passage.path) + escaped_bytes(&passage.title);
        bytes += passage.page_name.as_deref().map_or(0, escaped_bytes);
        if bytes > PASSAGES_FRAME_MAX_BYTES {
            fit = fit.min(index);
        }
    }
    output.passages.truncate(fit);
    output.written.truncate(WRITTEN_MAX);
    output.images.truncate(IMAGES_MAX);
    output.unread.truncate(UNREAD_MAX);
    output
}

/// Returns an upper bound of the length of a text in JSON, in bytes.
fn escaped_bytes(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\t' | b'\r' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum()
}

#[cfg(test)]
mod tests {
    use protocol::session::{EXECUTOR_FRAME_MAX_BYTES, output_in};
    use protocol::tool::{FoundPassage, PAGE_NAME_MAX_BYTES};

    use super::*;

    #[test]
    fn within_bounds_cuts_to_frame() {
        let passage = |index: u32| FoundPassage {
            path: format!("/{}/{index}", "\"".repeat(4000)),
            text: "\u{1}\"\\".repeat(2000),
            page_name: Some("\"".repeat(PAGE_NAME_MAX_BYTES)),
            ..FoundPassage::default()
        };
        let output = ToolOutput {
            text: "\u{1}".repeat(TEXT_MAX_BYTES + 1),
            passages: (0..400).map(passage).collect(),
            written: vec!["/a".to_owned(); 400],
            ..ToolOutput::default()
        };
        let output = within_bounds(output);
        assert!(output.text.ends_with("narrow the call down") && output.text.len() <= TEXT_MAX_BYTES);
        assert!(!output.passages.is_empty());
        let length = serde_json::to_vec(&output).unwrap().len();
        assert!(length < EXECUTOR_FRAME_MAX_BYTES, "{length}");
        assert!(output_in(output).is_ok());
    }

    #[test]
    fn escaped_bytes_match_serialization() {
        let text: String = (0..0x250_u32).filter_map(char::from_u32).collect();
        // Two of the control characters have a shorter escape than the estimate.
        let real = serde_json::to_string(&text).unwrap().len() - 2;
        assert!((real..=real + 8).contains(&escaped_bytes(&text)), "{real}");
    }
}
