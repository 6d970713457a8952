//! The listing of a folder (section 2.6), with the indexing of its files.

use std::borrow::Cow;

use domain::indexing::{FileIndexing, IndexCounts};
use domain::unread::UnreadReason;
use serde::Serialize;
use utoipa::ToSchema;
use workspace::{ListingEntry, WorkspaceEntryKind};

use super::entry_word;
use super::enums::{EntryType, IndexingState, UnreadReasonCode};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// One level of a folder, without hidden entries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DirectoryListing)]
pub(crate) struct DirectoryListingBody {
    /// The folder.
    #[schema(examples("/uploads"))]
    path: String,
    /// Its entries: folders first, then files, each sorted by name.
    entries: Vec<ListedEntry>,
    /// The number of entries.
    #[schema(examples(1))]
    total_entries: usize,
    /// The indexing of the files in the folder and below it, without hidden files.
    indexing: FolderIndexing,
}

impl DirectoryListingBody {
    /// Creates the listing of a folder, with the indexing state of its files as far as it is known.
    pub(crate) fn from_listing(
        listing: workspace::WorkspaceListing,
        known: &machine::FolderIndexReport,
    ) -> Self {
        let mut counts = known.counts_below();
        let entries = listing.entries.into_iter().map(|entry| {
            let indexing = (entry.kind == WorkspaceEntryKind::File).then(|| {
                let modified = entry.modified.micros().div_euclid(MICROS_PER_SECOND);
                known.file_indexing(&entry.path.to_string(), entry.size, modified)
            });
            if let Some(indexing) = &indexing {
                counts.count_file(indexing.state);
            }
            ListedEntry::from_entry(entry, indexing)
        });
        let entries: Vec<ListedEntry> = entries.collect();
        let indexing = FolderIndexing::from_counts(counts);
        Self { path: listing.path.to_string(), total_entries: entries.len(), entries, indexing }
    }
}

/// The progress of indexing the files in and below a folder, as last reported by the account's machine.
#[derive(Debug, Serialize, ToSchema)]
struct FolderIndexing {
    /// The number of files.
    #[schema(examples(1))]
    files: u64,
    /// The number of files that can be searched completely.
    #[schema(examples(1))]
    indexed: u64,
    /// The number of files that are not yet read completely.
    #[schema(examples(0))]
    pending: u64,
    /// The number of files that can be searched in part, because the rest cannot be read.
    #[schema(examples(0))]
    partial: u64,
    /// The number of files that cannot be read.
    #[schema(examples(0))]
    unreadable: u64,
}

impl FolderIndexing {
    const fn from_counts(counts: IndexCounts) -> Self {
        let IndexCounts { files, indexed, pending, partial, unreadable } = counts;
        Self { files, indexed, pending, partial, unreadable }
    }
}

/// The state of a file's indexing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FileIndexing, examples(json!({"state": "indexing", "pagesRead": 40, "pages": 212})))]
pub(crate) struct FileIndexingBody {
    #[schema(value_type = IndexingState)]
    state: &'static str,
    /// Why it cannot be read completely, for `partial` and `unreadable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UnreadReasonCode, required = false)]
    reason: Option<&'static str>,
    /// The reason for people, to be shown after the file's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, examples("could not be read: it is encrypted and needs a password"))]
    message: Option<Cow<'static, str>>,
    /// The number of its pages that were read, if it is read by pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false, examples(40))]
    pages_read: Option<u32>,
    /// The number of its pages, if it is read by pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u32, required = false, examples(212))]
    pages: Option<u32>,
}

impl FileIndexingBody {
    pub(crate) fn from_indexing(indexing: FileIndexing) -> Self {
        let FileIndexing { state, reason, pages } = indexing;
        Self {
            state: state.code(),
            reason: reason.map(UnreadReason::code),
            message: reason.map(UnreadReason::to_phrase),
            pages_read: pages.map(|pages| pages.read),
            pages: pages.map(|pages| pages.of),
        }
    }

    /// Returns the value of the header `Indexing-State`.
    pub(crate) fn header_value(&self) -> String {
        let mut value = self.state.to_owned();
        if let Some(reason) = self.reason {
            value.push_str(&format!("; reason={reason}"));
        }
        if let (Some(read), Some(of)) = (self.pages_read, self.pages) {
            value.push_str(&format!("; pages-read={read}; pages={of}"));
        }
        value
    }
}

/// An entry of a folder.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DirectoryEntry)]
struct ListedEntry {
    /// Its name.
    #[schema(examples("lease.pdf"))]
    name: String,
    /// Its path in the workspace, as every operation with a path accepts it.
    #[schema(examples("/uploads/lease.pdf"))]
    path: String,
    #[schema(value_type = EntryType)]
    r#type: &'static str,
    /// Its size in bytes; 0 if it is not a file.
    #[schema(examples(52614))]
    size: u64,
    /// When it was changed.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    modified_time: String,
    /// The media type, by its name; `inode/directory` for folders.
    #[schema(examples("application/pdf"))]
    mime_type: String,
    /// The state of its indexing; only for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = FileIndexingBody, required = false)]
    indexing: Option<FileIndexingBody>,
}

impl ListedEntry {
    fn from_entry(entry: ListingEntry, indexing: Option<FileIndexing>) -> Self {
        Self {
            r#type: entry_word(entry.kind),
            size: entry.size,
            modified_time: entry.modified.to_string(),
            mime_type: entry.mime.to_owned(),
            path: entry.path.to_string(),
            name: entry.name,
            indexing: indexing.map(FileIndexingBody::from_indexing),
        }
    }
}
