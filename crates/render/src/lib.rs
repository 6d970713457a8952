//! Answers as HTML: Markdown with marks like `[1]` becomes HTML that is safe wherever it is shown, with a
//! link to the source in place of each mark.
//!
//! [`whole`] renders a finished text. [`Renderer`] renders a text that is being written: finished blocks
//! once, only the last one again. It shows the same blocks that the whole will have.
//!
//! What is safe is decided twice, independently: [`emit`] writes only the few elements and attributes that it
//! knows and escapes everything else, and [`sanitize`] lets nothing but these through. Raw HTML is shown as
//! text. Nothing remote is loaded: images become links. Links lead to `http`, `https` and `mailto` only, and
//! to the files that the answer cites. Reference definitions (`[a]: address`) are text: what a link means
//! never depends on another block.

mod emit;
mod link;
mod prepare;
mod renderer;
mod sanitize;
mod split;

use domain::answer::{Answer, Source};
use domain::citation::Place;

pub use link::{citation_id, href};
pub use renderer::Renderer;

/// What the numbers of the marks stand for.
pub trait Sources {
    /// The place of this number's passage; `None` when the number names nothing and its mark is dropped.
    fn place(&self, number: u32) -> Option<&Place>;
}

impl Sources for Answer {
    fn place(&self, number: u32) -> Option<&Place> {
        self.source(number)
    }
}

impl Sources for [Source] {
    fn place(&self, number: u32) -> Option<&Place> {
        self.iter().find(|source| source.number == number).map(|source| &source.place)
    }
}

impl<S: Sources + ?Sized> Sources for &S {
    fn place(&self, number: u32) -> Option<&Place> {
        (**self).place(number)
    }
}

/// The HTML of a finished text. Linear in its length but for constants that its nesting bounds.
#[must_use]
pub fn whole(markdown: &str, sources: &dyn Sources) -> String {
    let markdown = prepare::normalize(markdown);
    // Marks are read segment by segment, as the renderer reads them, and the blocks together.
    let mut prepared = String::with_capacity(markdown.len() + markdown.len() / 8);
    let mut segments = split::Segments::default();
    let mut start = 0;
    while let Some(cut) = segments.next(&markdown, start) {
        prepared.push_str(&prepare::prepare(&markdown[start..cut], sources, true));
        start = cut;
    }
    prepared.push_str(&prepare::prepare(&markdown[start..], sources, true));
    html(&prepared, sources)
}

/// The numbers that a finished text cites and that name a source, each once, in the order of their first mark.
#[must_use]
pub fn cited(markdown: &str, sources: &dyn Sources) -> Vec<u32> {
    let mut numbers = Vec::new();
    for mark in domain::citation::marks(markdown) {
        if !numbers.contains(&mark.number) && sources.place(mark.number).is_some() {
            numbers.push(mark.number);
        }
    }
    numbers
}

fn html(prepared: &str, sources: &dyn Sources) -> String {
    sanitize::sanitize(&emit::emit(prepared, sources))
}
