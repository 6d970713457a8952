//! Records the parts of a growing answer that a page already has, so that only changes are sent: texts are cut
//! into segments, and the leading segments that the page has stay unchanged.

use std::collections::HashMap;
use std::sync::Arc;

use domain::id::PartId;
use live::{Rope, RopeSegment};

use crate::answer_html::{AnswerHtml, cited_numbers};
use crate::source_numbers::SourceNumbers;

/// The HTML of a text, cut into segments of whole blocks. The page keeps its first `kept` segments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Prose {
    pub(crate) kept: usize,
    pub(crate) segments: Vec<String>,
    /// True if further segments follow in the next event. Until then the page keeps its segments in their place.
    pub(crate) has_more: bool,
}

/// The number of bytes of HTML in one event after which no further segment is started. The page shows events
/// one by one, so that it stays responsive.
const EVENT_MAX_BYTES: usize = 32 << 10;

/// The texts of an answer that a page already has; initially none.
#[derive(Debug, Default)]
pub(crate) struct OnPage {
    texts: HashMap<PartId, OnPageText>,
    /// The numbers of the present state's sources.
    numbers: SourceNumbers,
    /// The bytes left for the current event; `None` without a limit.
    room: Option<usize>,
    is_behind: bool,
}

#[derive(Debug, Default)]
struct OnPageText {
    /// The number of blocks before it: the page finds its segments by position.
    at: usize,
    segments: Vec<OnPageSegment>,
}

#[derive(Debug)]
struct OnPageSegment {
    segment: Arc<RopeSegment>,
    /// The state of headings before and after it.
    before: AnswerHtml,
    after: AnswerHtml,
    /// The sources that it cites, by their numbers in the interface and on the page.
    cited: Vec<(u32, u32)>,
}

impl OnPageSegment {
    /// Returns true if its marks still have the numbers of their sources.
    fn has_numbers(&self, numbers: &SourceNumbers) -> bool {
        self.cited.iter().all(|(number, shown)| numbers.page_number(*number) == *shown)
    }
}

impl OnPage {
    /// Begins an event, which has at most about [`EVENT_MAX_BYTES`] of texts.
    pub(crate) fn begin_event(&mut self) {
        (self.room, self.is_behind) = (Some(EVENT_MAX_BYTES), false);
    }

    /// Returns true if the event left something out.
    pub(crate) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Sets the numbers of the sources of the next shown state.
    pub(crate) fn number_sources(&mut self, numbers: SourceNumbers) {
        self.numbers = numbers;
    }

    /// Returns the number on the page of a source.
    pub(crate) fn source_number(&self, number: u32) -> u32 {
        self.numbers.page_number(number)
    }

    /// Returns the segments that the page needs to show this text of a part as its block number `at`, and
    /// records them. `fitted` is the state of headings up to here, and advances.
    pub(crate) fn show_text(
        &mut self,
        part: PartId,
        at: usize,
        html: &Rope,
        fitted: &mut AnswerHtml,
    ) -> Prose {
        let text = self.texts.entry(part).or_default();
        if text.at != at {
            *text = OnPageText { at, segments: Vec::new() };
        }
        let shown = &mut text.segments;
        let mut rest = RemainingText::from_rope(html);
        let kept = shown
            .iter()
            .take_while(|had| {
                let stays = had.before == *fitted
                    && had.has_numbers(&self.numbers)
                    && rest.take_segment(&had.segment);
                if stays {
                    *fitted = had.after.clone();
                }
                stays
            })
            .count();
        shown.truncate(kept);
        let mut segments = Vec::new();
        let mut has_more = false;
        for segment in rest.remaining_segments() {
            if self.room == Some(0) {
                has_more = true;
                break;
            }
            self.room = self.room.map(|room| room.saturating_sub(segment.text().len()));
            let before = fitted.clone();
            segments.push(fitted.fit_blocks(segment.text(), &self.numbers));
            let cited =
                cited_numbers(segment.text()).map(|number| (number, self.numbers.page_number(number)));
            let cited = cited.collect();
            shown.push(OnPageSegment { segment, before, after: fitted.clone(), cited });
        }
        self.is_behind |= has_more;
        Prose { kept, segments, has_more }
    }
}

/// The rest of a text whose beginning was taken.
struct RemainingText<'a> {
    segments: &'a [Arc<RopeSegment>],
    /// The bytes of the first segment that were taken.
    taken: usize,
}

impl<'a> RemainingText<'a> {
    fn from_rope(html: &'a Rope) -> Self {
        Self { segments: html.segments(), taken: 0 }
    }

    /// Takes a segment if the rest begins with its text.
    fn take_segment(&mut self, segment: &Arc<RopeSegment>) -> bool {
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
    fn remaining_segments(&self) -> Vec<Arc<RopeSegment>> {
        let Some((first, others)) = self.segments.split_first() else { return Vec::new() };
        let first = match self.taken {
            0 => first.clone(),
            taken => Arc::new(RopeSegment::new(first.text().get(taken..).unwrap_or_default())),
        };
        [first].into_iter().chain(others.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use domain::id::{ConversationId, MessageId};

    use super::*;
    use crate::cited::CitingAnswer;

    fn sample_fitting() -> AnswerHtml {
        let (conversation, answer) = (ConversationId::from_random(1), MessageId::from_random(2));
        AnswerHtml::new(CitingAnswer { conversation, answer })
    }

    fn rope_from_texts(texts: &[&str]) -> Rope {
        let mut rope = Rope::default();
        for text in texts {
            rope.append_rope(&Rope::from_text(*text));
        }
        rope
    }

    fn show_on_page(page: &mut OnPage, html: &Rope) -> (usize, Vec<String>) {
        let Prose { kept, segments, .. } =
            page.show_text(PartId::from_random(1), 0, html, &mut sample_fitting());
        (kept, segments)
    }

    #[test]
    fn show_text_sends_changes() {
        let mut page = OnPage::default();
        let mut html = rope_from_texts(&["<b>a</b>", "<b>b</b>"]);
        assert_eq!(show_on_page(&mut page, &html), (0, vec!["<b>a</b>".to_owned(), "<b>b</b>".to_owned()]));
        html.append_rope(&Rope::from_text("<b>c</b>"));
        assert_eq!(show_on_page(&mut page, &html), (2, vec!["<b>c</b>".to_owned()]));
        assert_eq!(show_on_page(&mut page, &html), (3, vec![]), "nothing has changed");
        let grown = rope_from_texts(&["<b>a</b>", "<b>b</b>", "<b>c d</b>"]);
        assert_eq!(
            show_on_page(&mut page, &grown),
            (2, vec!["<b>c d</b>".to_owned()]),
            "the last one was not whole"
        );
    }

    #[test]
    fn show_text_splits_long_text() {
        let mut page = OnPage::default();
        let paragraphs: Vec<_> = (0..10).map(|at| format!("<b>{at}{}</b>", "x".repeat(10_000))).collect();
        let html = rope_from_texts(&paragraphs.iter().map(String::as_str).collect::<Vec<_>>());
        let mut sent = Vec::new();
        for events in 1.. {
            page.begin_event();
            let Prose { kept, segments, has_more } =
                page.show_text(PartId::from_random(1), 0, &html, &mut sample_fitting());
            assert_eq!(kept, sent.len(), "it goes on where it was cut");
            assert!(segments.iter().map(String::len).sum::<usize>() < EVENT_MAX_BYTES + 11_000);
            sent.extend(segments);
            assert_eq!(page.is_behind(), has_more);
            if !has_more {
                assert_eq!(events, 3);
                break;
            }
        }
        assert_eq!(sent, paragraphs);
        // A page load has all segments at once.
        assert_eq!(show_on_page(&mut OnPage::default(), &html).1.len(), 10);
    }

    #[test]
    fn show_text_keeps_finished_prefix() {
        let mut page = OnPage::default();
        show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", "<b>b</b>", "<b>c</b>"]));
        let whole = rope_from_texts(&["<b>a</b><b>b</b><b>c e</b><b>d</b>"]);
        assert_eq!(show_on_page(&mut page, &whole), (2, vec!["<b>c e</b><b>d</b>".to_owned()]));
        assert_eq!(show_on_page(&mut page, &whole), (3, vec![]));
    }

    #[test]
    fn show_text_replaces_from_difference() {
        let mut page = OnPage::default();
        show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", "<b>b</b>"]));
        assert_eq!(
            show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", "<b>x</b>"])),
            (1, vec!["<b>x</b>".to_owned()])
        );
        assert_eq!(
            show_on_page(&mut page, &rope_from_texts(&["<b>y</b>"])),
            (0, vec!["<b>y</b>".to_owned()])
        );
        assert_eq!(show_on_page(&mut page, &rope_from_texts(&[])), (0, vec![]));
    }

    #[test]
    fn show_text_resends_moved_text() {
        let (mut page, part) = (OnPage::default(), PartId::from_random(1));
        let html = rope_from_texts(&["<b>a</b>", "<b>b</b>"]);
        page.show_text(part, 1, &html, &mut sample_fitting());
        let moved = page.show_text(part, 0, &html, &mut sample_fitting());
        assert_eq!((moved.kept, moved.segments.len()), (0, 2));
    }

    #[test]
    fn show_text_continues_kept_headings() {
        let mut page = OnPage::default();
        show_on_page(&mut page, &rope_from_texts(&["<h1>a</h1>"]));
        let html = rope_from_texts(&["<h1>a</h1>", "<h6>b</h6>"]);
        assert_eq!(show_on_page(&mut page, &html), (1, vec!["<h4 dir=\"auto\">b</h4>".to_owned()]));
        let mut deeper = sample_fitting();
        deeper.fit_blocks("<h1>0</h1><h2>0</h2>", &SourceNumbers::default());
        assert_eq!(page.show_text(PartId::from_random(1), 0, &html, &mut deeper).kept, 0);
    }

    #[test]
    fn show_text_resends_renumbered_sources() {
        let mark =
            |number| format!("<a href=\"https://a.example/\" data-citation=\"c{number}\">[{number}]</a>");
        let (first, second) = (mark(7), mark(3));
        let mut page = OnPage::default();
        page.number_sources(SourceNumbers::in_order([7]));
        let shown = show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", &first]));
        assert_eq!(shown, (0, vec!["<b>a</b>".to_owned(), first.replace("[7]", "[1]")]));
        page.number_sources(SourceNumbers::in_order([7, 3]));
        let shown = show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", &first, &second]));
        assert_eq!(shown, (2, vec![second.replace("[3]", "[2]")]), "a further source changes no number");
        page.number_sources(SourceNumbers::in_order([3, 7]));
        let shown = show_on_page(&mut page, &rope_from_texts(&["<b>a</b>", &first, &second]));
        assert_eq!(shown, (1, vec![first.replace("[7]", "[2]"), second.replace("[3]", "[1]")]));
    }
}
