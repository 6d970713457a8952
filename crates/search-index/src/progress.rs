//! The progress of reading a document: the indexed pages and the outcome of previous attempts.

use std::path::PathBuf;
use std::time::Duration;

use documents::passages::DocumentPassage;
use documents::{EmbeddedImage, PageRange, READER_VERSION, reader_of};
use domain::indexing::{FileIndexing, IndexState, PageProgress};
use domain::unread::{UnreadImage, UnreadImages, UnreadReason};
use serde::{Deserialize, Serialize};
use text_analysis::TextLanguage;

use super::walk::FileStamp;

/// The delay before a temporary failure is retried for the first time; doubles with each further failure.
pub const RETRY_AFTER: Duration = Duration::from_secs(2 * 60);
/// The maximum retry delay.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum number of separate page ranges per document. Further ranges are not recorded and will be read again.
const RUNS_MAX: usize = 64;

/// The next image of a document to recognize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingImage {
    pub(crate) id: i64,
    /// The image and its place.
    pub image: EmbeddedImage,
    /// The parts of the images after it, in their order.
    pub following: Vec<String>,
    /// The language of the document, if it has text.
    pub language: Option<TextLanguage>,
}

/// The part of a document to extract: the whole document, or a range of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The path in the file system.
    pub file: PathBuf,
    /// The first and last page; all pages if `None`.
    pub pages: Option<(u32, u32)>,
    /// The image inside the document whose text is wanted, and nothing else.
    pub image: Option<PendingImage>,
    /// The time after which no further page should be started. Extraction is cancelled after twice this time.
    pub time: Duration,
    /// The number of consecutive attempts that failed.
    pub attempts: u32,
}

/// Passages of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageBatch {
    /// The passages in reading order.
    pub pieces: Vec<DocumentPassage>,
    /// The pages that were read; `None` for a document that was read as a whole.
    pub span: Option<PageRange>,
    /// True if the document is longer than the part that can be read.
    #[serde(default)]
    pub cut: bool,
    /// True for an archive or a message.
    #[serde(default)]
    pub holds_files: bool,
    /// The files inside the document that were not read, or not whole.
    #[serde(default)]
    pub unread_files: Vec<u32>,
    /// The read pages that are images without text.
    #[serde(default)]
    pub scans: Vec<u32>,
    /// The read pages whose text was partly left out.
    #[serde(default)]
    pub cut_pages: Vec<u32>,
    /// The damaged pages among `scans`, which show more than their images.
    #[serde(default)]
    pub damaged_pages: Vec<u32>,
    /// The images inside the document whose text is still to be recognized.
    #[serde(default)]
    pub images: Vec<EmbeddedImage>,
    /// The counts of [`UnreadImages`]: images inside the document whose text is not recognized.
    #[serde(default)]
    pub unread_images: [u32; UnreadImage::ALL.len()],
}

impl PassageBatch {
    /// Creates the outcome of an image that could not be read.
    #[must_use]
    pub fn of_unread_image(reason: UnreadImage) -> Self {
        Self { unread_images: UnreadImages::of_reason(reason, 1).to_counts(), ..Self::default() }
    }
}

/// The reason why a document has no passages, or no further ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionProblem {
    /// The kind of reason.
    pub reason: UnreadReason,
    /// An explanation for the model.
    pub text: String,
    /// True if a retry may succeed although the file is unchanged.
    pub passing: bool,
}

impl ExtractionProblem {
    /// Creates the problem of a document that was read and has no text.
    pub(super) fn no_text(span: Option<PageRange>) -> Self {
        let text = match span {
            Some(span) => format!("its {} pages hold no text, probably scanned images", span.of),
            None => "it holds no text".to_owned(),
        };
        Self { reason: UnreadReason::NoText, text, passing: false }
    }

    /// Creates the problem of a document that was not read in time.
    #[must_use]
    pub fn too_slow(time: Duration) -> Self {
        let text = format!("it was not read within {} s", time.as_secs());
        Self { reason: UnreadReason::TooSlow, text, passing: true }
    }
}

/// The state of a file in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// The stamp of the file when it was read.
    pub stamp: FileStamp,
    /// True if nothing is left to read.
    pub complete: bool,
    /// The indexed pages and the total number of pages.
    pub pages: Option<(Runs, u32)>,
    /// The problem of the last attempt.
    pub problem: Option<ExtractionProblem>,
    /// The number of consecutive failed attempts.
    pub attempts: u32,
    /// The time of the next retry, in Unix seconds.
    pub retry_at: Option<i64>,
    /// The reader version of the last attempt.
    pub reader: i64,
    /// The length of its passages, in bytes.
    pub text_bytes: i64,
    /// The number of indexed pages that are images without text, or files inside it that were not read whole.
    pub scans: u32,
    /// The number of indexed pages whose text was partly left out.
    pub cut_pages: u32,
    /// The number of images inside it that are still to be read.
    pub images: u32,
}

/// The remaining work for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexQueue {
    /// The pages to read next; the whole document if `None`.
    pub pages: Option<(u32, u32)>,
    /// The number of consecutive failed attempts.
    pub attempts: u32,
    /// The number of pages read and the total.
    pub reached: Option<(u32, u32)>,
    /// The number of images inside it to read, after everything else.
    pub images: u32,
    /// True for a document that was read, and is read again when nothing else is left to read.
    pub reread: bool,
}

impl IndexQueue {
    /// Returns the work for a document that has not been read.
    pub(super) const fn for_new_document() -> Self {
        Self { pages: None, attempts: 0, reached: None, images: 0, reread: false }
    }

    /// Returns true for work that waits until nothing else is left.
    pub(super) const fn comes_last(&self) -> bool {
        self.reread || self.images > 0
    }

    /// Returns the work for a document that is read again.
    pub(super) const fn for_reread() -> Self {
        Self { reread: true, ..Self::for_new_document() }
    }
}

impl IndexedFile {
    /// Creates the state of a file that has not been read.
    pub(super) fn new(stamp: FileStamp) -> Self {
        Self {
            stamp,
            complete: false,
            pages: None,
            problem: None,
            attempts: 0,
            retry_at: None,
            reader: READER_VERSION,
            text_bytes: 0,
            scans: 0,
            cut_pages: 0,
            images: 0,
        }
    }

    /// Counts text of images. A document with only such text is not without text.
    pub(super) fn add_text(&mut self, pieces: &[DocumentPassage]) {
        let bytes = pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
        self.text_bytes = self.text_bytes.saturating_add_unsigned(bytes as u64);
        if self.problem.as_ref().is_some_and(|problem| problem.reason == UnreadReason::NoText) {
            self.problem = None;
        }
    }

    /// Reports the images inside the document whose text is not read, unless more of the document is unread.
    pub(super) fn note_unread_images(&mut self, images: UnreadImages) {
        let reason = self.problem.as_ref().map(|problem| problem.reason);
        let is_lesser = matches!(reason, None | Some(UnreadReason::NoText | UnreadReason::Images(_)));
        if self.complete && is_lesser && !images.is_empty() {
            let text =
                format!("all but the text of {} of its images is searched ({images})", images.total_images());
            self.problem =
                Some(ExtractionProblem { reason: UnreadReason::Images(images), text, passing: false });
        }
    }

    /// Returns the state of a file with this stamp, for people.
    #[must_use]
    pub fn to_file_indexing(&self, present: &FileStamp) -> FileIndexing {
        if self.stamp != *present || self.is_outdated() {
            return FileIndexing::PENDING;
        }
        let reason = self.problem.as_ref().map(|problem| problem.reason);
        let state = match reason {
            _ if self.images > 0 => IndexState::Indexing,
            Some(_) if self.text_bytes > 0 => IndexState::Partial,
            Some(_) => IndexState::Unreadable,
            None if self.complete => IndexState::Indexed,
            None => IndexState::Indexing,
        };
        let pages =
            self.pages.as_ref().map(|(runs, of)| PageProgress { read: runs.page_count().min(*of), of: *of });
        let reason = reason.filter(|_| state != IndexState::Indexing);
        FileIndexing { state, reason, pages }
    }

    /// Returns true if the current reader version may succeed where the recorded one failed, and nothing is lost by trying. A
    /// version below 0 marks a file that must be read.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        let has_text = self.reader >= 0 && self.complete && self.text_bytes > 0;
        self.reader != READER_VERSION && !has_text && (self.problem.is_some() || !self.complete)
    }

    /// Returns true if the file at this path has text, and the current readers may extract more or different text.
    #[must_use]
    pub fn is_reread(&self, path: &str) -> bool {
        let is_changed = self.problem.is_some() || self.reader < reader_of(path);
        self.complete && self.text_bytes > 0 && (0..READER_VERSION).contains(&self.reader) && is_changed
    }

    /// Returns the remaining work for the file's current state; `None` if nothing remains, or nothing before the
    /// next retry.
    #[must_use]
    pub fn remaining_work(&self, present: &FileStamp, now: i64) -> Option<IndexQueue> {
        if self.stamp != *present || self.is_outdated() {
            return Some(IndexQueue::for_new_document());
        }
        let furthest = now.saturating_add_unsigned(RETRY_AFTER_MAX.as_secs());
        let rests = match (&self.problem, self.retry_at) {
            (Some(_), Some(at)) => now < at && at <= furthest,
            (Some(_), None) => true,
            (None, _) => self.complete,
        };
        let pages = self.pages.as_ref();
        let reached = pages.map(|(runs, of)| (runs.page_count(), *of));
        if rests {
            let images = IndexQueue { reached, images: self.images, ..IndexQueue::for_new_document() };
            return (self.images > 0).then_some(images);
        }
        Some(IndexQueue {
            pages: pages.and_then(|(runs, of)| runs.missing_pages(*of)),
            attempts: self.attempts,
            reached,
            ..IndexQueue::for_new_document()
        })
    }
}

/// Returns the time of the next retry after this number of consecutive failures, in Unix seconds.
pub(super) fn retry_at(now: i64, attempts: u32) -> i64 {
    let doublings = attempts.saturating_sub(1).min(16);
    let wait = RETRY_AFTER.saturating_mul(1 << doublings).min(RETRY_AFTER_MAX);
    now.saturating_add_unsigned(wait.as_secs())
}

/// Ordered page ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(Vec<(u32, u32)>);

impl Runs {
    /// Parses the output of [`Runs::to_text`].
    pub(super) fn parse(text: &str) -> Self {
        let run = |part: &str| {
            let (first, last) = part.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Self(text.split(',').filter_map(run).collect())
    }

    /// Formats the ranges: `1-40,90-99`.
    pub(super) fn to_text(&self) -> String {
        self.0.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(",")
    }

    /// Returns true if a range contains the page.
    #[must_use]
    pub fn has_page(&self, page: u32) -> bool {
        self.end_of(page).is_some()
    }

    /// Returns the last page of the range that contains this one.
    #[must_use]
    pub fn end_of(&self, page: u32) -> Option<u32> {
        self.0.iter().find(|(first, last)| (*first..=*last).contains(&page)).map(|(_, last)| *last)
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Adds a range. Returns `false` if there are too many.
    pub(super) fn add_range(&mut self, first: u32, last: u32) -> bool {
        if last < first {
            return true;
        }
        let touches = |run: &(u32, u32)| run.0 <= last.saturating_add(1) && first <= run.1.saturating_add(1);
        let touching: Vec<(u32, u32)> = self.0.iter().copied().filter(touches).collect();
        if touching.is_empty() && first > 1 && self.0.len() >= RUNS_MAX {
            return false;
        }
        self.0.retain(|run| !touches(run));
        let begin = touching.iter().map(|run| run.0).min().unwrap_or(first).min(first);
        let end = touching.iter().map(|run| run.1).max().unwrap_or(last).max(last);
        let at = self.0.partition_point(|run| run.0 < begin);
        self.0.insert(at, (begin, end));
        true
    }

    /// Returns the first range of missing pages in a document of `of` pages.
    #[must_use]
    pub fn missing_pages(&self, of: u32) -> Option<(u32, u32)> {
        let mut next = 1;
        for (first, last) in &self.0 {
            if *first > next {
                return Some((next, (*first - 1).min(of)));
            }
            next = last.saturating_add(1);
        }
        (next <= of).then_some((next, of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_together() {
        let mut runs = Runs::default();
        assert_eq!(runs.missing_pages(10), Some((1, 10)));
        assert!(runs.add_range(4, 5) && runs.add_range(9, 9) && runs.add_range(1, 2));
        assert_eq!(
            (runs.to_text().as_str(), runs.missing_pages(10), runs.page_count()),
            ("1-2,4-5,9-9", Some((3, 3)), 5)
        );
        assert!(runs.add_range(3, 3) && runs.add_range(6, 8));
        assert_eq!(
            (runs.to_text().as_str(), runs.missing_pages(10), runs.missing_pages(9)),
            ("1-9", Some((10, 10)), None)
        );
        assert_eq!(Runs::parse(&runs.to_text()), runs);
        assert_eq!((runs.end_of(4), runs.end_of(10)), (Some(9), None));
        let mut many = Runs::default();
        assert_eq!((1..100).filter(|n| many.add_range(n * 3, n * 3)).count(), RUNS_MAX);
        assert!(many.add_range(1, 1), "the first pages are always wanted");
    }

    #[test]
    fn failure_retry_delay_doubles() {
        let waits: Vec<i64> = (1..=12).map(|attempts| retry_at(0, attempts)).collect();
        assert_eq!(waits[..3], [120, 240, 480]);
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&86_400));
    }
}
