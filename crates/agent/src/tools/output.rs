//! Results within the bounds that the host holds them to.

use protocol::tool::{
    IMAGES_MAX, OUTPUT_PASSAGES_MAX, PASSAGE_MAX_BYTES, TEXT_MAX_BYTES, ToolOutput, WRITTEN_MAX,
};

/// A result that says why nothing was done.
pub(crate) fn failed(why: &str) -> ToolOutput {
    ToolOutput { failed: true, text: why.to_owned(), ..ToolOutput::default() }
}

/// A result that is text alone.
pub(crate) fn done(text: String) -> ToolOutput {
    ToolOutput { text, ..ToolOutput::default() }
}

/// Cuts what is beyond the bounds of [`protocol::tool`].
pub(crate) fn within_bounds(mut output: ToolOutput) -> ToolOutput {
    output.text.truncate(output.text.floor_char_boundary(TEXT_MAX_BYTES));
    output.passages.truncate(OUTPUT_PASSAGES_MAX);
    for passage in &mut output.passages {
        passage.text.truncate(passage.text.floor_char_boundary(PASSAGE_MAX_BYTES));
    }
    output.written.truncate(WRITTEN_MAX);
    output.images.truncate(IMAGES_MAX);
    output
}
