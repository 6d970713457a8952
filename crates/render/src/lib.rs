//! Renders answers as HTML. Markdown with marks like `[1]` becomes safe HTML with a link to the source for each mark.
//!
//! [`render_answer`] renders a finished text, [`render_document`] a document of a user. [`Renderer`] renders a growing text: finished blocks once, only the last block
//! again. Both produce the same blocks.
//!
//! Two independent layers make the output safe. [`emit`] writes only known elements and attributes and escapes the rest;
//! [`sanitize`] removes everything else. In answers, a few HTML elements are read and the rest is shown as text; in documents,
//! known elements are kept without their attributes. Nothing is loaded: images become links. Links lead to `http`, `https` and
//! `mailto`, and to files of the workspace that the answer cites or names. Reference definitions (`[a]: address`) in answers are
//! text, so that the meaning of a link never depends on another block.
//!
//! Tables with too many cells are shown as written. Formulas stay as written. [`draw_formulas`] draws them as MathML, for
//! pages.

mod emit;
mod escape;
mod known_form;
mod link;
mod mathml;
mod maths;
mod open_line;
mod prepare;
mod renderer;
mod sanitize;
mod split;
mod tables;

use domain::answer::{Answer, AnswerSource, ContentPart};
use domain::citation::PassagePlace;

use crate::emit::RawHtml;
use crate::tables::CellBudget;

pub use link::{citation_id, source_href};
pub use maths::draw_formulas;
pub use renderer::Renderer;

/// Resolves the numbers of marks to sources.
pub trait CitationSources {
    /// Returns the place of the passage with this number; a mark without one is text.
    fn source_place(&self, number: u32) -> Option<&PassagePlace>;
}

/// The sources that a part of an answer may cite.
#[derive(Debug, Clone, Copy)]
pub struct SourcesOf<'a>(pub &'a Answer, pub &'a ContentPart);

impl CitationSources for SourcesOf<'_> {
    fn source_place(&self, number: u32) -> Option<&PassagePlace> {
        self.0.source_of(self.1, number)
    }
}

impl CitationSources for [AnswerSource] {
    fn source_place(&self, number: u32) -> Option<&PassagePlace> {
        self.iter().find(|source| source.number == number).map(|source| &source.place)
    }
}

impl<S: CitationSources + ?Sized> CitationSources for &S {
    fn source_place(&self, number: u32) -> Option<&PassagePlace> {
        (**self).source_place(number)
    }
}

/// Renders a finished text. Takes linear time, with a factor limited by the nesting.
#[must_use]
pub fn render_answer(markdown: &str, sources: &dyn CitationSources) -> String {
    let markdown = prepare::normalize_markdown(markdown);
    // Marks are read segment by segment, as the renderer does, blocks together.
    let mut prepared = String::with_capacity(markdown.len() + markdown.len() / 8);
    let mut segments = split::Segments::default();
    let mut cells = CellBudget::default();
    let mut start = 0;
    while let Some(cut) = segments.next_end(&markdown, start) {
        prepared.push_str(&prepare::prepare_markdown(&markdown[start..cut], sources, true, &mut cells));
        start = cut;
    }
    prepared.push_str(&prepare::prepare_markdown(&markdown[start..], sources, true, &mut cells));
    render_prepared(&prepared, sources)
}

/// Returns the numbers that a finished text cites and that have a source, without duplicates, in order of their first
/// mark.
#[must_use]
pub fn cited_sources(markdown: &str, sources: &dyn CitationSources) -> Vec<u32> {
    let mut numbers = Vec::new();
    for number in domain::citation::cited_numbers(markdown, |number| sources.source_place(number).is_some()) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
}

/// Renders the Markdown of a document, which cites nothing. HTML in it is read, and reference definitions are known.
#[must_use]
pub fn render_document(markdown: &str) -> String {
    let none: &[AnswerSource] = &[];
    let markdown = prepare::normalize_markdown(markdown);
    let markdown = tables::bound_tables(&markdown, &mut CellBudget::default());
    sanitize::sanitize_html(&emit::emit_html(&markdown, &none, RawHtml::Read))
}

fn render_prepared(prepared: &str, sources: &dyn CitationSources) -> String {
    sanitize::sanitize_html(&emit::emit_html(prepared, sources, RawHtml::Shown))
}
