//! Reads the sources that Gemini cites: the results of Google's search (`groundingMetadata`) and recitations
//! (`citationMetadata`). Positions in the text are in bytes.

use std::collections::VecDeque;

use domain::citation::{CITED_MAX, VendorCitation};
use domain::step::StepEvent;
use serde_json::Value;

use crate::cited;
use crate::output::StepOutput;

/// The sources so far. Gemini repeats them while it streams; the last list counts.
#[derive(Debug, Default)]
pub(super) struct Grounding {
    chunks: Vec<Value>,
    supports: Vec<Value>,
    recited: Vec<Value>,
}

impl Grounding {
    /// Stores the metadata of a chunk.
    pub(super) fn add_metadata(&mut self, grounding: Option<Value>, citations: Option<Value>) {
        let list = |of: &Option<Value>, field: &str| match of.as_ref().and_then(|of| of.get(field)) {
            Some(Value::Array(list)) if !list.is_empty() => list.iter().take(CITED_MAX).cloned().collect(),
            _ => Vec::new(),
        };
        for (known, new) in [
            (&mut self.chunks, list(&grounding, "groundingChunks")),
            (&mut self.supports, list(&grounding, "groundingSupports")),
        ] {
            if !new.is_empty() {
                *known = new;
            }
        }
        for field in ["citationSources", "citations"] {
            let room = CITED_MAX.saturating_sub(self.recited.len());
            let new = list(&citations, field).into_iter().filter(|source| !self.recited.contains(source));
            let new: Vec<Value> = new.take(room).collect();
            self.recited.extend(new);
        }
    }

    /// Emits the sources for the whole text.
    pub(super) fn emit_sources(&mut self, output: &mut StepOutput, ready: &mut VecDeque<StepEvent>) {
        let Self { chunks, supports, recited } = std::mem::take(self);
        let written = output.written_text();
        let mut found = Vec::new();
        for support in &supports {
            let segment = support.get("segment").unwrap_or(&Value::Null);
            let quote = cited::text_field(segment, "text");
            let at = end_of(segment, quote, written);
            let Some(Value::Array(named)) = support.get("groundingChunkIndices") else { continue };
            let named = named.iter().filter_map(|index| chunks.get(usize::try_from(index.as_u64()?).ok()?));
            found.extend(named.filter_map(|chunk| parse_citation(chunk, at)));
        }
        found.extend(recited.iter().filter_map(|recited| {
            let at = end_of(recited, "", written);
            cited::cite_page(at, cited::text_field(recited, "uri"), cited::text_field(recited, "title"), "")
        }));
        for cited in found {
            output.emit_citation(Some(cited), ready);
        }
    }
}

/// Returns the end of a segment. Its text is more reliable than its offsets, which count within one of several parts.
fn end_of(segment: &Value, text: &str, written: &str) -> usize {
    let number = |field| cited::number_field(segment, field).and_then(|number| usize::try_from(number).ok());
    let (start, end) = (number("startIndex").unwrap_or(0), number("endIndex").unwrap_or(written.len()));
    if text.is_empty() || written.get(start..end) == Some(text) {
        return end.min(written.len());
    }
    let place = written.find(text).map(|start| start + text.len());
    place.unwrap_or(end).min(written.len())
}

fn parse_citation(chunk: &Value, at: usize) -> Option<VendorCitation> {
    if let Some(page) = chunk.get("web").or_else(|| chunk.get("maps")) {
        return cited::cite_page(at, cited::text_field(page, "uri"), cited::text_field(page, "title"), "");
    }
    let given = chunk.get("retrievedContext")?;
    let (uri, title, quote) = (
        cited::text_field(given, "uri"),
        cited::text_field(given, "title"),
        cited::text_field(given, "text"),
    );
    if uri.starts_with("http") {
        cited::cite_page(at, uri, title, quote)
    } else {
        cited::cite_file(at, title, None, quote)
    }
}
