//! The texts of the passages that an answer's calls found, to compare its citations with.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answer, PartContent};
use crate::citation::{NumberedPassage, cited_numbers};
use crate::limits::PASSAGES_MAX_BYTES;

/// Texts by the number of their passage, together at most [`PASSAGES_MAX_BYTES`]. Derived data: any two are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Passages(BTreeMap<u32, Arc<str>>);

impl PartialEq for Passages {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl FromIterator<(u32, Arc<str>)> for Passages {
    fn from_iter<I: IntoIterator<Item = (u32, Arc<str>)>>(passages: I) -> Self {
        Self(passages.into_iter().collect())
    }
}

impl Passages {
    pub(super) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.0.get(&number)
    }

    /// Adds the new ones, up to the limit.
    pub(super) fn add_new(&mut self, passages: &[NumberedPassage]) {
        let mut room = PASSAGES_MAX_BYTES.saturating_sub(self.0.values().map(|text| text.len()).sum());
        for passage in passages {
            if passage.text.len() <= room && !self.0.contains_key(&passage.number) {
                room -= passage.text.len();
                self.0.insert(passage.number, passage.text.as_str().into());
            }
        }
    }
}

impl Answer {
    /// Returns the text of the passage with this number, if there is one within
    /// [`PASSAGES_MAX_BYTES`].
    #[must_use]
    pub fn passage_text(&self, number: u32) -> Option<&str> {
        self.passages.get(number).map(AsRef::as_ref)
    }

    /// Returns the same text, for callers that keep it longer than the answer.
    #[must_use]
    pub fn shared_passage(&self, number: u32) -> Option<Arc<str>> {
        self.passages.get(number).cloned()
    }

    /// Returns the passages that its texts and reports cite, by number, if it has their text.
    #[must_use]
    pub fn cited_passages(&self) -> BTreeMap<u32, &str> {
        let cited = self.parts.iter().flat_map(|part| {
            let markdown = match &part.body {
                PartContent::Text(markdown) => markdown,
                PartContent::Run(run) => &run.report,
                PartContent::Reasoning(_) | PartContent::File { .. } => "",
            };
            cited_numbers(markdown, |number| self.source_of(part, number).is_some())
        });
        cited.filter_map(|number| Some((number, self.passage_text(number)?))).collect()
    }

    /// Restores the passages of a completed answer, as returned by [`Self::cited_passages`].
    #[must_use]
    pub fn with_passages(self, passages: impl IntoIterator<Item = (u32, Arc<str>)>) -> Self {
        Self { passages: passages.into_iter().collect(), ..self }
    }
}
