//! The reading of attached files, which an answer waits for: shown while there is no text yet.

use std::time::Duration;

use client::{Client, Entry};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::labels::{Label, Language};

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
    /// Those that were read, and all, as far as it is known.
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
    pub(crate) async fn next(&mut self, client: &Client) -> Option<FileBeingRead> {
        let Some(first) = self.paths.first() else { return std::future::pending().await };
        self.looks.tick().await;
        // All of them are in the folder of uploads. What cannot be listed is not shown: the answer tells of it.
        let folder = first.rsplit_once('/').map_or("/", |(folder, _)| folder);
        let listing = client.list(folder).await.ok()?;
        listing.entries.iter().filter(|entry| self.paths.contains(&entry.path)).find_map(FileBeingRead::of)
    }
}

impl FileBeingRead {
    fn of(entry: &Entry) -> Option<Self> {
        let indexing =
            entry.indexing.as_ref().filter(|indexing| UNREAD.contains(&indexing.state.as_str()))?;
        Some(Self { name: entry.name.clone(), pages: indexing.pages_read.zip(indexing.pages) })
    }

    /// Names it: `reading lease.pdf: 40 / 212 pages`.
    pub(crate) fn in_words(&self, language: Language) -> String {
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
    fn a_file_that_is_being_read_is_named_with_its_pages() {
        let entry = |state: &str, pages: Option<u64>| Entry {
            name: "a.pdf".to_owned(),
            path: "/uploads/a.pdf".to_owned(),
            kind: "FILE".to_owned(),
            size: 1,
            modified_time: String::new(),
            mime_type: String::new(),
            indexing: Some(client::Indexing {
                state: state.to_owned(),
                reason: None,
                pages_read: pages.map(|_| 40),
                pages,
            }),
        };
        let words = |entry: &Entry| FileBeingRead::of(entry).map(|file| file.in_words(Language::English));
        assert_eq!(words(&entry("indexing", Some(212))).as_deref(), Some("reading a.pdf: 40 / 212 pages"));
        assert_eq!(words(&entry("indexing", None)).as_deref(), Some("reading a.pdf"));
        assert_eq!(words(&entry("indexed", None)), None);
    }
}
