//! The index of the workspace's documents.
//!
//! `POST /index` waits until the states of the files differ from the last ones that the host has seen, then reports
//! all of them. `POST /index/changed` names the files that the host has changed, so that they are read at once. The
//! host treats reports as untrusted. Agents of earlier releases support neither path.

use domain::indexing::{FileIndexing, IndexState, PageProgress};
use domain::unread::UnreadReason;
use serde::{Deserialize, Serialize};

/// The path of reports.
pub const INDEX_PATH: &str = "/index";
/// The path of changes.
pub const CHANGED_PATH: &str = "/index/changed";
/// The longest request, in bytes.
pub const REQUEST_MAX_BYTES: usize = 256 * 1024;
/// The longest report, in bytes: the maximum number of files with paths of ordinary length.
pub const REPORT_MAX_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of files of a report; further ones are left out.
pub const REPORTED_MAX: usize = 40_000;
/// The maximum number of changed paths of one request.
pub const CHANGED_MAX: usize = 100;
/// The time for which the agent waits for a change before it reports nothing new, in seconds.
pub const WAIT_SECONDS: u64 = 20;

/// A request for a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexRequest {
    /// The revision of the last report; `None` requests a report at once.
    #[serde(default)]
    pub seen: Option<u64>,
}

/// The paths of files that the host has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexChanged {
    /// Workspace paths, starting with a slash; at most [`CHANGED_MAX`]. Hidden files are indexed only if they are named.
    pub paths: Vec<String>,
}

/// The states of all files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexReport {
    /// Differs from the last report's if anything has changed.
    pub revision: u64,
    /// True while documents are being read.
    pub working: bool,
    /// The files; `None` if the host has already seen the revision.
    pub files: Option<Vec<ReportedFile>>,
}

/// The state of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedFile {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// The size in bytes and the modification time in seconds since 1970, of the content that the state describes.
    pub size: u64,
    pub modified: i64,
    /// The code of an [`IndexState`].
    pub state: String,
    /// The text form of an [`UnreadReason`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The pages read and the number of pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<(u32, u32)>,
}

impl ReportedFile {
    /// Creates the report of a file.
    #[must_use]
    pub fn new(path: String, size: u64, modified: i64, indexing: &FileIndexing) -> Self {
        Self {
            path,
            size,
            modified,
            state: indexing.state.code().to_owned(),
            reason: indexing.reason.map(|reason| reason.to_string()),
            pages: indexing.pages.map(|pages| (pages.read, pages.of)),
        }
    }

    /// Returns the reported state; `None` if it is unknown to this version or inconsistent.
    #[must_use]
    pub fn to_file_indexing(&self) -> Option<FileIndexing> {
        let state = IndexState::of_code(&self.state)?;
        let reason = match state {
            IndexState::Pending | IndexState::Indexing | IndexState::Indexed => None,
            IndexState::Partial | IndexState::Unreadable => {
                Some(UnreadReason::of_code(self.reason.as_deref()?)?)
            }
        };
        let pages = self.pages.filter(|(read, of)| read <= of).map(|(read, of)| PageProgress { read, of });
        Some(FileIndexing { state, reason, pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_file_indexing_rejects_contradictions() {
        let indexing = FileIndexing {
            state: IndexState::Partial,
            reason: Some(UnreadReason::Long),
            pages: Some(PageProgress { read: 2, of: 3 }),
        };
        let file = ReportedFile::new("/a.pdf".to_owned(), 5, 7, &indexing);
        let wire = serde_json::to_vec(&file).expect("plain JSON");
        let read: ReportedFile = serde_json::from_slice(&wire).expect("the same");
        assert_eq!((read.to_file_indexing(), &read), (Some(indexing), &file));
        let with = |state: &str, reason: Option<&str>| ReportedFile {
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            pages: Some((4, 3)),
            ..file.clone()
        };
        assert_eq!(with("other", None).to_file_indexing(), None);
        assert_eq!(with("unreadable", None).to_file_indexing(), None);
        assert_eq!(with("unreadable", Some("odd")).to_file_indexing(), None);
        let pending = with("pending", Some("encrypted")).to_file_indexing();
        assert_eq!(pending, Some(FileIndexing::PENDING), "more pages than there are count for nothing");
    }
}
