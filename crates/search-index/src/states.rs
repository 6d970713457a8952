//! The states of the workspace's files in the index, for the host.

use std::collections::HashMap;
use std::time::Duration;

use domain::indexing::FileIndexing;
use protocol::index::{IndexReport, REPORT_MAX_BYTES, REPORTED_MAX, ReportedFile};

use super::walk::FoundFile;
use super::{DocumentLibrary, IndexedFile};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// The length of a reported file as JSON besides its path, which is escaped: more than it takes.
const REPORTED_MAX_BYTES: usize = 200;

impl DocumentLibrary {
    /// Waits at most `time` until the states of files differ from the seen revision and no search needs the index, and returns
    /// them. Without a change, and before the first walk of the workspace, the report has no files. Cancel safe.
    pub async fn report_states(&self, seen: Option<u64>, time: Duration) -> IndexReport {
        let revision = self.activity.wait_for_revision(seen, time).await;
        let (number, working) = (revision.number, revision.working > 0);
        let is_new = revision.walked && seen != Some(number);
        if !is_new || tokio::time::timeout(time / 2, self.activity.no_search()).await.is_err() {
            return IndexReport { revision: seen.unwrap_or(number), working, files: None };
        }
        let mut room = REPORT_MAX_BYTES;
        let states = self.file_states().await.into_iter().take(REPORTED_MAX).map_while(|(file, indexing)| {
            // JSON escapes make a byte of a path up to six.
            room = room.checked_sub(REPORTED_MAX_BYTES + 6 * file.path.len())?;
            let size = u64::try_from(file.stamp.size).unwrap_or(0);
            let modified = file.stamp.modified_nanos.div_euclid(NANOS_PER_SECOND);
            Some(ReportedFile::new(file.path, size, modified, &indexing))
        });
        IndexReport { revision: number, working, files: Some(states.collect()) }
    }

    /// Returns the files of the last walk with their states.
    pub(super) async fn file_states(&self) -> Vec<(FoundFile, FileIndexing)> {
        let files = self.activity.walked_files();
        // Without an index nothing is known of any file.
        let known = self.with_index(|index| index.indexed_files()).await.unwrap_or_default();
        files.iter().map(|file| (file.clone(), state_of(file, &known))).collect()
    }
}

fn state_of(file: &FoundFile, known: &HashMap<String, (IndexedFile, bool)>) -> FileIndexing {
    known.get(&file.path).map_or(FileIndexing::PENDING, |(known, _)| known.to_file_indexing(&file.stamp))
}
