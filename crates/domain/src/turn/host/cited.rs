//! Sources reported by a vendor: validates and numbers them.

use super::draft::Draft;
use super::{Turn, TurnEffect};
use crate::citation::PassagePlace;
use crate::limits::SOURCES_MAX;

impl Turn {
    /// Inserts the marks of the vendor's citations whose positions are decided. After the step has `ended`,
    /// all remaining ones are decided.
    pub(super) fn place_citations(&mut self, draft: &mut Draft, ended: bool, effects: &mut Vec<TurnEffect>) {
        for mut placed in draft.take_placed(ended) {
            let Some(place) = self.validate_place(&placed.place) else { continue };
            let Some(number) = self.number_of(&place, draft) else { continue };
            placed.place = place;
            if let Some(change) = draft.record_citation(placed, number) {
                self.publish_change(change, effects);
            }
        }
    }

    /// Returns the source if it is valid: a web page, or a file that the vendor was given, by its path or by
    /// an unambiguous name.
    fn validate_place(&self, place: &PassagePlace) -> Option<PassagePlace> {
        let PassagePlace::File { path: named, page, lines, page_name: _ } = place else {
            return Some(place.clone());
        };
        let given = self.setup.earlier.iter().chain([&self.setup.present]);
        let given: Vec<&String> = given.flat_map(|exchange| &exchange.attachments).collect();
        let mut matching: Vec<&String> = given.iter().copied().filter(|path| *path == named).collect();
        if matching.is_empty() {
            let is_named = |path: &&String| path.rsplit('/').next() == Some(named.as_str());
            matching = given.into_iter().filter(is_named).collect();
        }
        matching.dedup();
        match matching[..] {
            [path] => {
                Some(PassagePlace::File { path: path.clone(), page: *page, lines: *lines, page_name: None })
            }
            _ => None,
        }
    }

    /// Returns the number of the source, reusing the number of the same page or place. `None` when all numbers are
    /// used.
    fn number_of(&mut self, place: &PassagePlace, draft: &Draft) -> Option<u32> {
        let same = |other: &PassagePlace| match (other, place) {
            (PassagePlace::Web { url, .. }, PassagePlace::Web { url: named, .. }) => url == named,
            (other, place) => other == place,
        };
        if let Some(source) = self.answer.sources.iter().find(|source| same(&source.place)) {
            return Some(source.number);
        }
        let number = (self.next_source..=SOURCES_MAX).find(|number| !draft.has_mark(*number))?;
        self.next_source = number + 1;
        Some(number)
    }
}
