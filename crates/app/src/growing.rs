//! The record of what a page has of a growing answer, so that it is sent only what has changed: texts are cut into segments, and
//! those that the page has from the beginning on stay as they are.

use std::collections::HashMap;
use std::sync::Arc;

use control::live::{Rope, Segment};
use domain::id::PartId;

use crate::answer_html::AnswerHtml;

/// The HTML of a text, cut into segments of whole blocks. The page keeps the first `kept` of those that it has.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prose {
    pub(crate) kept: usize,
    pub(crate) segments: Vec<String>,
}

/// The texts of an answer that a page has. A new one is that of a page that has none.
#[derive(Debug, Default)]
pub(crate) struct OnPage(HashMap<PartId, OnPageText>);

#[derive(Debug, Default)]
struct OnPageText {
    /// The number of blocks before it: the page finds what it keeps by its place.
    at: usize,
    segments: Vec<OnPageSegment>,
}

#[derive(Debug)]
struct OnPageSegment {
    segment: Arc<Segment>,
    /// The state of headings before and after it.
    before: AnswerHtml,
    after: AnswerHtml,
}

impl OnPage {
    /// Returns what the page needs to show this text of a part as its block number `at`, and remembers that it has it. `fitted`
    /// is the state of headings up to here, and advances.
    pub(crate) fn show(&mut self, part: PartId, at: usize, html: &Rope, fitted: &mut AnswerHtml) -> Prose {
        let text = self.0.entry(part).or_default();
        if text.at != at {
            *text = OnPageText { at, segments: Vec::new() };
        }
        let shown = &mut text.segments;
        let mut rest = Rest::of(html);
        let kept = shown
            .iter()
            .take_while(|had| {
                let stays = had.before == *fitted && rest.take(&had.segment);
                if stays {
                    *fitted = had.after.clone();
                }
                stays
            })
            .count();
        shown.truncate(kept);
        let mut segments = Vec::new();
        for segment in rest.segments() {
            let before = fitted.clone();
            segments.push(fitted.fit(segment.text()));
            shown.push(OnPageSegment { segment, before, after: fitted.clone() });
        }
        Prose { kept, segments }
    }
}

/// The end of a text, after what was taken from its beginning.
struct Rest<'a> {
    segments: &'a [Arc<Segment>],
    /// The bytes of the first segment that were taken.
    taken: usize,
}

impl<'a> Rest<'a> {
    fn of(html: &'a Rope) -> Self {
        Self { segments: html.segments(), taken: 0 }
    }

    /// Takes a segment if the rest begins with its text.
    fn take(&mut self, segment: &Arc<Segment>) -> bool {
        let Some((first, others)) = self.segments.split_first() else { return false };
        let is_first = self.taken == 0 && Arc::ptr_eq(first, segment);
        let left = first.text().get(self.taken..).unwrap_or_default();
        if !is_first && !left.starts_with(segment.text()) {
            return false;
        }
        self.taken += segment.text().len();
        if self.taken == first.text().len() {
            (self.segments, self.taken) = (others, 0);
        }
        true
    }

    /// Returns the segments of the rest.
    fn segments(&self) -> Vec<Arc<Segment>> {
        let Some((first, others)) = self.segments.split_first() else { return Vec::new() };
        let first = match self.taken {
            0 => first.clone(),
            taken => Arc::new(Segment::new(first.text().get(taken..).unwrap_or_default())),
        };
        [first].into_iter().chain(others.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(texts: &[&str]) -> Rope {
        let mut rope = Rope::default();
        for text in texts {
            rope.append(&Rope::of(*text));
        }
        rope
    }

    fn show(page: &mut OnPage, html: &Rope) -> (usize, Vec<String>) {
        let Prose { kept, segments } = page.show(PartId::from_random(1), 0, html, &mut AnswerHtml::new());
        (kept, segments)
    }

    #[test]
    fn a_page_gets_what_has_changed_since_the_last_time() {
        let mut page = OnPage::default();
        let mut html = rope(&["<p>a</p>", "<p>b</p>"]);
        assert_eq!(show(&mut page, &html), (0, vec!["<p>a</p>".to_owned(), "<p>b</p>".to_owned()]));
        html.append(&Rope::of("<p>c</p>"));
        assert_eq!(show(&mut page, &html), (2, vec!["<p>c</p>".to_owned()]));
        assert_eq!(show(&mut page, &html), (3, vec![]), "nothing has changed");
        let grown = rope(&["<p>a</p>", "<p>b</p>", "<p>c d</p>"]);
        assert_eq!(show(&mut page, &grown), (2, vec!["<p>c d</p>".to_owned()]), "the last one was not whole");
    }

    #[test]
    fn a_finished_text_in_one_piece_replaces_nothing_that_it_begins_with() {
        let mut page = OnPage::default();
        show(&mut page, &rope(&["<p>a</p>", "<p>b</p>", "<p>c</p>"]));
        let whole = rope(&["<p>a</p><p>b</p><p>c e</p><p>d</p>"]);
        assert_eq!(show(&mut page, &whole), (2, vec!["<p>c e</p><p>d</p>".to_owned()]));
        assert_eq!(show(&mut page, &whole), (3, vec![]));
    }

    #[test]
    fn another_attempt_replaces_the_text_from_where_it_differs() {
        let mut page = OnPage::default();
        show(&mut page, &rope(&["<p>a</p>", "<p>b</p>"]));
        assert_eq!(show(&mut page, &rope(&["<p>a</p>", "<p>x</p>"])), (1, vec!["<p>x</p>".to_owned()]));
        assert_eq!(show(&mut page, &rope(&["<p>y</p>"])), (0, vec!["<p>y</p>".to_owned()]));
        assert_eq!(show(&mut page, &rope(&[])), (0, vec![]));
    }

    #[test]
    fn a_text_that_moves_because_a_block_before_it_is_gone_is_sent_whole() {
        let (mut page, part) = (OnPage::default(), PartId::from_random(1));
        let html = rope(&["<p>a</p>", "<p>b</p>"]);
        page.show(part, 1, &html, &mut AnswerHtml::new());
        let moved = page.show(part, 0, &html, &mut AnswerHtml::new());
        assert_eq!((moved.kept, moved.segments.len()), (0, 2));
    }

    #[test]
    fn headings_go_on_from_what_was_kept_and_are_made_anew_if_what_stands_before_has_changed() {
        let mut page = OnPage::default();
        show(&mut page, &rope(&["<h1>a</h1>"]));
        let html = rope(&["<h1>a</h1>", "<h6>b</h6>"]);
        assert_eq!(show(&mut page, &html), (1, vec!["<h4>b</h4>".to_owned()]));
        let mut deeper = AnswerHtml::new();
        deeper.fit("<h1>0</h1><h2>0</h2>");
        assert_eq!(page.show(PartId::from_random(1), 0, &html, &mut deeper).kept, 0);
    }
}
