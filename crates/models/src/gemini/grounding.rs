//! The sources that Gemini names: what its own search found (`groundingMetadata`), and what it recites
//! (`citationMetadata`). Places in the text are told in bytes.

use std::collections::VecDeque;

use domain::citation::{CITED_MAX, Cited};
use domain::step::StepEvent;
use serde_json::Value;

use crate::cited;
use crate::output::Output;

/// What was told of sources so far. It is told again and again while an answer is said; the last word counts.
#[derive(Debug, Default)]
pub(super) struct Grounding {
    chunks: Vec<Value>,
    supports: Vec<Value>,
    recited: Vec<Value>,
}

impl Grounding {
    /// Takes what came with a piece of the answer.
    pub(super) fn take(&mut self, grounding: Option<Value>, citations: Option<Value>) {
        let list = |of: &Option<Value>, field: &str| match of.as_ref().and_then(|of| of.get(field)) {
            Some(Value::Array(list)) if !list.is_empty() => list.iter().take(CITED_MAX).cloned().collect(),
            _ => Vec::new(),
        };
        for (known, told) in [
            (&mut self.chunks, list(&grounding, "groundingChunks")),
            (&mut self.supports, list(&grounding, "groundingSupports")),
        ] {
            if !told.is_empty() {
                *known = told;
            }
        }
        for field in ["citationSources", "citations"] {
            let room = CITED_MAX.saturating_sub(self.recited.len());
            let new = list(&citations, field).into_iter().filter(|told| !self.recited.contains(told));
            let new: Vec<Value> = new.take(room).collect();
            self.recited.extend(new);
        }
    }

    /// Tells the sources of all that was said.
    pub(super) fn tell(&mut self, output: &mut Output, ready: &mut VecDeque<StepEvent>) {
        let Self { chunks, supports, recited } = std::mem::take(self);
        let said = output.said();
        let mut found = Vec::new();
        for support in &supports {
            let segment = support.get("segment").unwrap_or(&Value::Null);
            let quote = cited::text(segment, "text");
            let at = end_of(segment, quote, said);
            let Some(Value::Array(named)) = support.get("groundingChunkIndices") else { continue };
            let named = named.iter().filter_map(|index| chunks.get(usize::try_from(index.as_u64()?).ok()?));
            found.extend(named.filter_map(|chunk| source(chunk, at)));
        }
        found.extend(recited.iter().filter_map(|told| {
            let at = end_of(told, "", said);
            cited::page(at, cited::text(told, "uri"), cited::text(told, "title"), "")
        }));
        for cited in found {
            output.cited(Some(cited), ready);
        }
    }
}

/// Where a segment ends. Its text tells it more surely than its numbers, which count within one part of several.
fn end_of(segment: &Value, text: &str, said: &str) -> usize {
    let number = |field| cited::number(segment, field).and_then(|number| usize::try_from(number).ok());
    let (start, end) = (number("startIndex").unwrap_or(0), number("endIndex").unwrap_or(said.len()));
    if text.is_empty() || said.get(start..end) == Some(text) {
        return end.min(said.len());
    }
    let place = said.find(text).map(|start| start + text.len());
    place.unwrap_or(end).min(said.len())
}

fn source(chunk: &Value, at: usize) -> Option<Cited> {
    if let Some(page) = chunk.get("web").or_else(|| chunk.get("maps")) {
        return cited::page(at, cited::text(page, "uri"), cited::text(page, "title"), "");
    }
    let given = chunk.get("retrievedContext")?;
    let (uri, title, quote) =
        (cited::text(given, "uri"), cited::text(given, "title"), cited::text(given, "text"));
    if uri.starts_with("http") {
        cited::page(at, uri, title, quote)
    } else {
        cited::file(at, title, None, quote)
    }
}
