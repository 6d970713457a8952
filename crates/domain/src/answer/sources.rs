//! The sources of an answer, and which of its parts may cite them.

use std::collections::BTreeMap;

use super::{Answer, AnswerSource, ContentPart, PartContent};
use crate::citation::{CitationMarkers, PassagePlace};

/// Citations by vendors: steps and numbers, and the marks in the current step. Derived data, so any two values are
/// equal.
#[derive(Debug, Clone, Default)]
pub(super) struct AnswerCitations {
    numbers: Vec<(u32, u32)>,
    /// The first step whose text may cite a source, by the source's number.
    pub(super) since: BTreeMap<u32, u32>,
    marks: BTreeMap<u32, CitationMarkers>,
}

impl PartialEq for AnswerCitations {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Answer {
    /// Returns the greatest number that can be cited; 0 without passages.
    #[must_use]
    pub fn last_source(&self) -> u32 {
        self.sources.iter().map(|source| source.number).max().unwrap_or(0)
    }

    /// Returns the place that a number cites.
    #[must_use]
    pub fn source_place(&self, number: u32) -> Option<&PassagePlace> {
        self.sources.iter().find(|source| source.number == number).map(|source| &source.place)
    }

    /// Returns the place that a number cites in a part. A text cites what was found before it was written: a number in it that
    /// becomes a source later stays text. A report cites the passages that came with it.
    #[must_use]
    pub fn source_of(&self, part: &ContentPart, number: u32) -> Option<&PassagePlace> {
        let source = self.sources.iter().find(|source| source.number == number)?;
        let is_report = matches!(part.body, PartContent::Run(_));
        let since = self.citable_since(number);
        let is_found = part.step.is_none_or(|step| since <= step + u32::from(is_report));
        is_found.then_some(&source.place)
    }

    /// Returns the first step whose text may cite a source.
    #[must_use]
    pub fn citable_since(&self, number: u32) -> u32 {
        self.cited.since.get(&number).copied().unwrap_or(0)
    }

    /// Restores the sources of a completed answer, each with the first step whose text may cite it.
    #[must_use]
    pub fn with_sources(mut self, sources: impl IntoIterator<Item = (AnswerSource, u32)>) -> Self {
        for (source, since) in sources {
            self.cited.since.insert(source.number, since);
            self.sources.push(source);
        }
        self
    }

    pub(super) fn insert_citation(&mut self, block: u32, at: usize, number: u32, place: PassagePlace) {
        let mut marks = self.cited.marks.remove(&block).unwrap_or_default();
        if let PartContent::Text(markdown) = self.block_content(block, PartContent::Text(String::new())) {
            marks.insert_mark(markdown, at, number);
        }
        self.cited.marks.insert(block, marks);
        if self.source_place(number).is_none() {
            let since = self.step.unwrap_or(0);
            self.cited.numbers.push((since, number));
            self.sources.push(AnswerSource { number, place });
            self.cited.since.insert(number, since);
        }
    }

    /// Removes the citations of this step and later ones, because it is generated again.
    pub(super) fn forget_cited(&mut self, step: u32) {
        self.cited.marks.clear();
        let Self { sources, cited, .. } = self;
        cited.numbers.retain(|(of, number)| {
            let stands = *of < step;
            if !stands {
                sources.retain(|source| source.number != *number);
            }
            stands
        });
    }
}
