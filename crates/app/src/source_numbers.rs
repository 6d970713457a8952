//! The numbers of an answer's sources on pages: from 1 without gaps, in the order in which its text first mentions them. Those
//! that only reports of its subagents mention follow.
//!
//! In the API, a source keeps the number under which the model received its passage. Links to cards and
//! passages use that number.

use domain::citation::{Renumbered, renumber_marks};
use live::{PartKind, Snapshot};

/// The sources of an answer, by their numbers in the interface, in the order of the page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SourceNumbers(Vec<u32>);

impl SourceNumbers {
    /// Numbers the sources that an answer cites.
    pub(crate) fn from_snapshot(snapshot: &Snapshot) -> Self {
        let of_texts = snapshot.parts.iter().filter_map(|part| match &part.shape {
            PartKind::Text { citations, .. } => Some(citations),
            _ => None,
        });
        let of_agents = snapshot.parts.iter().filter_map(|part| match &part.shape {
            PartKind::Agent { citations, .. } => Some(citations),
            _ => None,
        });
        let mentioned = of_texts.chain(of_agents).flatten();
        Self::in_order(mentioned.map(|citation| citation.number))
    }

    /// Numbers sources in the order in which they are first mentioned.
    pub(crate) fn in_order(mentioned: impl IntoIterator<Item = u32>) -> Self {
        let mut numbers = Vec::new();
        for number in mentioned {
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        Self(numbers)
    }

    /// Returns the number on pages of a source, by its number in the interface; the same for one that the answer does not cite.
    pub(crate) fn page_number(&self, number: u32) -> u32 {
        let at = self.0.iter().position(|known| *known == number);
        at.and_then(|at| u32::try_from(at + 1).ok()).unwrap_or(number)
    }

    /// Returns Markdown whose marks have the numbers of pages.
    pub(crate) fn renumber_markdown(&self, markdown: &str) -> String {
        renumber_marks(markdown, |number| match self.0.contains(&number) {
            true => Renumbered::To(self.page_number(number)),
            false => Renumbered::Unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_numbers_follow_first_mention() {
        let numbers = SourceNumbers::in_order([4, 1, 4, 9]);
        assert_eq!([4, 1, 9].map(|number| numbers.page_number(number)), [1, 2, 3]);
        assert_eq!(numbers.page_number(7), 7, "nothing cites it");
    }

    #[test]
    fn renumber_markdown_uses_page_numbers() {
        let numbers = SourceNumbers::in_order([4, 1, 9]);
        assert_eq!(
            numbers.renumber_markdown("Five [4]. Six [1, 9]. `[4]` Seven [2]."),
            "Five [1]. Six [2][3]. `[4]` Seven \\[2]."
        );
    }
}
