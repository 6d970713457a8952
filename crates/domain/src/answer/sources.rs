//! The sources of an answer, and which of its parts may cite them.

use std::collections::BTreeMap;

use super::{Answer, Body, Part, Source};
use crate::citation::{CitationMarkers, Place};

/// Citations by vendors: steps and numbers, and the marks in the current step. Derived data: any two are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Cited {
    numbers: Vec<(u32, u32)>,
    /// The first step whose text may cite a source, by the source's number.
    pub(super) since: BTreeMap<u32, u32>,
    marks: BTreeMap<u32, CitationMarkers>,
}

impl PartialEq for Cited {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Answer {
    /// Returns the greatest number that can be cited; 0 if there is none.
    #[must_use]
    pub fn last_source(&self) -> u32 {
        self.sources.iter().map(|source| source.number).max().unwrap_or(0)
    }

    /// Returns the place that a number cites.
    #[must_use]
    pub fn source(&self, number: u32) -> Option<&Place> {
        self.sources.iter().find(|source| source.number == number).map(|source| &source.place)
    }

    /// Returns the place that a number cites in a part. A text cites what was found before it was written: a number in it that
    /// becomes a source later stays text. A report cites the passages that came with it.
    #[must_use]
    pub fn source_of(&self, part: &Part, number: u32) -> Option<&Place> {
        let source = self.sources.iter().find(|source| source.number == number)?;
        let is_report = matches!(part.body, Body::Run(_));
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
    pub fn with_sources(mut self, sources: impl IntoIterator<Item = (Source, u32)>) -> Self {
        for (source, since) in sources {
            self.cited.since.insert(source.number, since);
            self.sources.push(source);
        }
        self
    }

    pub(super) fn cite(&mut self, block: u32, at: usize, number: u32, place: Place) {
        let mut marks = self.cited.marks.remove(&block).unwrap_or_default();
        if let Body::Text(markdown) = self.block(block, Body::Text(String::new())) {
            marks.put(markdown, at, number);
        }
        self.cited.marks.insert(block, marks);
        if self.source(number).is_none() {
            let since = self.step.unwrap_or(0);
            self.cited.numbers.push((since, number));
            self.sources.push(Source { number, place });
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
