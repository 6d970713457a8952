//! The progress of reading attached files, which an answer waits for: shown until text arrives.

use std::time::Duration;

use client::{Client, FolderEntry};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::labels::{Label, LabelLanguage};

/// The interval in which the folder is listed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The states in a listing of a file that is being read, or is about to be.
const UNREAD: [&str; 2] = ["pending", "indexing"];

/// Looks at the attached files of a question.
pub(crate) struct FilesBeingRead {
    paths: Vec<String>,
    looks: Interval,
}

/// A file that is being read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileBeingRead {
    name: String,
    /// The number of files read, and of all files, as far as they are known.
    pages: Option<(u64, u64)>,
}

impl FilesBeingRead {
    pub(crate) fn new(paths: &[String]) -> Self {
        let mut looks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { paths: paths.to_vec(), looks }
    }

    /// Waits for the next look and returns the first attached file that is being read. Never returns without attached files.
    ///
    /// Cancel safe.
    pub(crate) async fn next_file(&mut self, client: &Client) -> Option<FileBeingRead> {
        let Some(first) = self.paths.first() else { return std::future::pending().await };
        self.looks.tick().await;
        // All of them are in the folder of uploads. Failures to list them are ignored: the answer reports them.
        let folder = first.rsplit_once('/').map_or("/", |(folder, _)| folder);
        let listing = client.list_folder(folder).await.ok()?;
        listing
            .entries
            .iter()
            .filter(|entry| self.paths.contains(&entry.path))
            .find_map(FileBeingRead::from_entry)
    }
}

impl FileBeingRead {
    fn from_entry(entry: &FolderEntry) -> Option<Self> {
        let indexing =
            entry.indexing.as_ref().filter(|indexing| UNREAD.contains(&indexing.state.as_str()))?;
        Some(Self { name: entry.name.clone(), pages: indexing.pages_read.zip(indexing.pages) })
    }

    /// Names it: `reading lease.pdf: 40 / 212 pages`.
    pub(crate) fn in_words(&self, language: LabelLanguage) -> String {
        let reading = format!("{} {}", language.label(Label::ReadingFile), self.name);
        match self.pages {
            Some((read, all)) => format!("{reading}: {read} / {all} {}", language.label(Label::PagesRead)),
            None => reading,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_being_read_names_pages() {
        let entry = |state: &str, pages: Option<u64>| FolderEntry {
            name: "a.pdf".to_owned(),
            path: "/uploads/a.pdf".to_owned(),
            kind: "FILE".to_owned(),
            size: 1,
            modified_time: String::new(),
            mime_type: String::new(),
            indexing: Some(client::IndexingInfo {
                state: state.to_owned(),
                reason: None,
                pages_read: pages.map(|_| 40),
                pages,
            }),
        };
        let words = |entry: &FolderEntry| {
            FileBeingRead::from_entry(entry).map(|file| file.in_words(LabelLanguage::English))
        };
        assert_eq!(words(&entry("indexing", Some(212))).as_deref(), Some("reading a.pdf: 40 / 212 pages"));
        assert_eq!(words(&entry("indexing", None)).as_deref(), Some("reading a.pdf"));
        assert_eq!(words(&entry("indexed", None)), None);
    }
}
