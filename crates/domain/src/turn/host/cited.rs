//! Sources reported by a vendor: validates and numbers them.

use super::draft::Draft;
use super::{Effect, Turn};
use crate::citation::Place;
use crate::limits::SOURCES_MAX;

impl Turn {
    /// Inserts the marks of the vendor's citations whose positions are decided. After the step has `ended`,
    /// all remaining ones are decided.
    pub(super) fn cite(&mut self, draft: &mut Draft, ended: bool, effects: &mut Vec<Effect>) {
        for mut placed in draft.placed(ended) {
            let Some(place) = self.known(&placed.place) else { continue };
            let Some(number) = self.number_of(&place, draft) else { continue };
            placed.place = place;
            if let Some(change) = draft.cite(placed, number) {
                self.publish(change, effects);
            }
        }
    }

    /// Returns the source if it is valid: a web page, or a file that the vendor was given, by its path or by
    /// an unambiguous name.
    fn known(&self, place: &Place) -> Option<Place> {
        let Place::File { path: named, page, lines, page_name: _ } = place else {
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
            [path] => Some(Place::File { path: path.clone(), page: *page, lines: *lines, page_name: None }),
            _ => None,
        }
    }

    /// Returns the number of the source, reusing that of the same page or place. `None` when all numbers are
    /// used.
    fn number_of(&mut self, place: &Place, draft: &Draft) -> Option<u32> {
        let same = |other: &Place| match (other, place) {
            (Place::Web { url, .. }, Place::Web { url: named, .. }) => url == named,
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
