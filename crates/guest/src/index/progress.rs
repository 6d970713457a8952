//! How far a document is read: which pages the index has, and what came of the attempts so far.

use std::path::PathBuf;
use std::time::Duration;

use domain::unread::UnreadReason;
use serde::{Deserialize, Serialize};

use super::walk::Stamp;
use crate::documents::passages::Piece;
use crate::documents::{READER_VERSION, Span};

/// How long after the first failure that may pass a document is tried again; doubles with each further one.
pub const RETRY_AFTER: Duration = Duration::from_secs(2 * 60);
/// The longest time until it is tried again.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The most separate runs of pages of one document. More are not kept: they are read again.
const RUNS_MAX: usize = 64;

/// What is wanted of a document: the whole of it, or some pages where it has pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The file, in the file system.
    pub file: PathBuf,
    /// The first and last page; all that there are unless given.
    pub pages: Option<(u32, u32)>,
    /// After this time no further page should be begun. The reading is dropped after twice as long.
    pub time: Duration,
}

/// Passages of a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The passages in reading order.
    pub pieces: Vec<Piece>,
    /// The pages that they were read from; `None` for a document that was read as a whole.
    pub span: Option<Span>,
}

/// Why a document gives no passages, or no more of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionProblem {
    /// The kind of reason.
    pub reason: UnreadReason,
    /// What is wrong, for a model.
    pub text: String,
    /// Whether another attempt may come to another end though the file is the same.
    pub passing: bool,
}

impl ExtractionProblem {
    /// The problem of a document that was not read in time.
    #[must_use]
    pub fn too_slow(time: Duration) -> Self {
        let text = format!("it was not read within {} s", time.as_secs());
        Self { reason: UnreadReason::TooSlow, text, passing: true }
    }
}

/// What the index knows of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedFile {
    /// The file as it was read.
    pub stamp: Stamp,
    /// Whether nothing is left to read.
    pub complete: bool,
    /// The pages that are there, and how many there are to be.
    pub pages: Option<(Runs, u32)>,
    /// What went wrong in the last attempt.
    pub problem: Option<ExtractionProblem>,
    /// How many attempts in a row went wrong.
    pub attempts: u32,
    /// When it may be tried again, in seconds since 1970.
    pub retry_at: Option<i64>,
    /// The reader's version of the last attempt.
    pub reader: i64,
}

/// What is left to do for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexQueue {
    /// The pages to read next; the whole document unless given.
    pub pages: Option<(u32, u32)>,
    /// How many attempts in a row went wrong.
    pub attempts: u32,
    /// How many pages are read, and of how many.
    pub reached: Option<(u32, u32)>,
}

impl IndexQueue {
    /// All of a document of which nothing is read.
    pub(super) const fn whole() -> Self {
        Self { pages: None, attempts: 0, reached: None }
    }
}

impl IndexedFile {
    /// A file of which nothing is read.
    pub(super) fn new(stamp: Stamp) -> Self {
        Self {
            stamp,
            complete: false,
            pages: None,
            problem: None,
            attempts: 0,
            retry_at: None,
            reader: READER_VERSION,
        }
    }

    /// Whether another version of the reader may do better.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.reader != READER_VERSION && (self.problem.is_some() || !self.complete)
    }

    /// What is left to do for the file as it stands now; `None` when nothing is, or not yet.
    #[must_use]
    pub fn todo(&self, present: &Stamp, now: i64) -> Option<IndexQueue> {
        if self.stamp != *present || self.is_outdated() {
            return Some(IndexQueue::whole());
        }
        let furthest = now.saturating_add_unsigned(RETRY_AFTER_MAX.as_secs());
        let rests = match (&self.problem, self.retry_at) {
            (Some(_), Some(at)) => now < at && at <= furthest,
            (Some(_), None) => true,
            (None, _) => self.complete,
        };
        let pages = self.pages.as_ref();
        (!rests).then(|| IndexQueue {
            pages: pages.and_then(|(runs, of)| runs.missing_pages(*of)),
            attempts: self.attempts,
            reached: pages.map(|(runs, of)| (runs.pages(), *of)),
        })
    }
}

/// When a document is tried again after so many failures in a row, in seconds since 1970.
pub(super) fn retry_at(now: i64, attempts: u32) -> i64 {
    let doublings = attempts.saturating_sub(1).min(16);
    let wait = RETRY_AFTER.saturating_mul(1 << doublings).min(RETRY_AFTER_MAX);
    now.saturating_add_unsigned(wait.as_secs())
}

/// Runs of pages, in order, that do not touch each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runs(Vec<(u32, u32)>);

impl Runs {
    /// The runs that [`Runs::text`] wrote.
    pub(super) fn parse(text: &str) -> Self {
        let run = |part: &str| {
            let (first, last) = part.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Self(text.split(',').filter_map(run).collect())
    }

    /// The runs as text: `1-40,90-99`.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(",")
    }

    /// Whether the page is there.
    #[must_use]
    pub fn has(&self, page: u32) -> bool {
        self.end_of(page).is_some()
    }

    /// The last page of the run that has this one.
    #[must_use]
    pub fn end_of(&self, page: u32) -> Option<u32> {
        self.0.iter().find(|(first, last)| (*first..=*last).contains(&page)).map(|(_, last)| *last)
    }

    /// How many pages there are.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Adds a run, unless there are too many.
    pub(super) fn add(&mut self, first: u32, last: u32) -> bool {
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

    /// The first pages that are missing of so many.
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
        assert!(runs.add(4, 5) && runs.add(9, 9) && runs.add(1, 2));
        assert_eq!(
            (runs.text().as_str(), runs.missing_pages(10), runs.pages()),
            ("1-2,4-5,9-9", Some((3, 3)), 5)
        );
        assert!(runs.add(3, 3) && runs.add(6, 8));
        assert_eq!(
            (runs.text().as_str(), runs.missing_pages(10), runs.missing_pages(9)),
            ("1-9", Some((10, 10)), None)
        );
        assert_eq!(Runs::parse(&runs.text()), runs);
        assert_eq!((runs.end_of(4), runs.end_of(10)), (Some(9), None));
        let mut many = Runs::default();
        assert_eq!((1..100).filter(|n| many.add(n * 3, n * 3)).count(), RUNS_MAX);
        assert!(many.add(1, 1), "the first pages are always wanted");
    }

    #[test]
    fn failures_are_tried_again_later_and_later() {
        let waits: Vec<i64> = (1..=12).map(|attempts| retry_at(0, attempts)).collect();
        assert_eq!(waits[..3], [120, 240, 480]);
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&86_400));
    }
}
