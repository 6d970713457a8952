//! How far the indexing of a file has come, in words.

use control::FolderIndexing;
use domain::indexing::{FileIndexing, IndexState};
use domain::time::Timestamp;
use domain::unread::{UnreadImage, UnreadReason};

use crate::texts::Texts;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// The state of a file's indexing, as a page shows it.
pub(super) struct IndexingView {
    /// The state, by which it is styled.
    pub(super) state: &'static str,
    pub(super) text: String,
    /// The reason in a sentence, if there is one.
    pub(super) title: Option<String>,
}

/// Returns the known state of a file with this size in bytes and time of change.
pub(super) fn indexed(known: &FolderIndexing, path: &str, size: u64, modified: Timestamp) -> FileIndexing {
    known.file(path, size, modified.micros().div_euclid(MICROS_PER_SECOND))
}

impl IndexingView {
    /// Returns the view of a state; `None` of a file that is indexed whole, as most are.
    pub(super) fn of(texts: Texts, indexing: FileIndexing) -> Option<Self> {
        let (text, title) = match indexing.state {
            IndexState::Indexed => return None,
            IndexState::Pending => (texts.get("indexing-pending"), None),
            IndexState::Indexing => {
                let percent = indexing
                    .pages
                    .map_or(0, |pages| 100 * u64::from(pages.read) / u64::from(pages.of.max(1)));
                (texts.with("indexing-progress", "percent", percent), None)
            }
            IndexState::Partial => (texts.get("indexing-partial"), indexing.reason),
            IndexState::Unreadable => (texts.get("indexing-unreadable"), indexing.reason),
        };
        let title = title.map(|reason| unread_text(texts, reason));
        Some(Self { state: indexing.state.code(), text, title })
    }
}

/// Returns the reason why not all of a file can be read, in a sentence.
pub(super) fn unread_text(texts: Texts, reason: UnreadReason) -> String {
    let UnreadReason::Images(images) = reason else { return texts.get(reason_key(reason)) };
    let causes = images.by_reason().map(|(cause, count)| texts.with(image_key(cause), "count", count));
    texts.with(reason_key(reason), "causes", causes.collect::<Vec<_>>().join(", "))
}

const fn image_key(cause: UnreadImage) -> &'static str {
    match cause {
        UnreadImage::TooLarge => "unread-images-too-large",
        UnreadImage::TooSlow => "unread-images-too-slow",
        UnreadImage::TooMany => "unread-images-too-many",
        UnreadImage::Failed => "unread-images-failed",
    }
}

const fn reason_key(reason: UnreadReason) -> &'static str {
    match reason {
        UnreadReason::Encrypted => "unread-encrypted",
        UnreadReason::NoText => "unread-no-text",
        UnreadReason::UnknownForm => "unread-unknown-form",
        UnreadReason::TooLarge => "unread-too-large",
        UnreadReason::Broken => "unread-broken",
        UnreadReason::TooSlow => "unread-too-slow",
        UnreadReason::TooMuchMemory => "unread-too-much-memory",
        UnreadReason::Image => "unread-image",
        UnreadReason::Missing => "unread-missing",
        UnreadReason::Indexing => "indexing-pending",
        UnreadReason::Long => "unread-long",
        UnreadReason::ScannedPages => "unread-scanned-pages",
        UnreadReason::Images(_) => "unread-images",
    }
}
