//! The reports of machines on the documents in their accounts' workspaces, kept while they do not run.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use domain::indexing::{FileIndexing, IndexCounts};
use domain::limits::PATH_MAX_BYTES;
use protocol::index::{REPORT_MAX_BYTES, REPORTED_MAX, ReportedFile};

/// The file with the last report, a line of JSON for each file.
const DOCUMENTS: &str = "documents";

/// The states of the files in a folder, as last reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderIndexReport {
    /// The files in the folder itself, by their workspace paths.
    files: HashMap<String, KnownFile>,
    /// The files in the folders below it, without hidden ones.
    below: IndexCounts,
}

/// The state of a file, and the content to which it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownFile {
    size: u64,
    modified: i64,
    indexing: FileIndexing,
}

impl FolderIndexReport {
    /// Returns the state of the file at a workspace path, which has this size in bytes and was modified at this time in
    /// seconds since 1970. A file whose current content was not reported is still to be read.
    #[must_use]
    pub fn file_indexing(&self, path: &str, size: u64, modified: i64) -> FileIndexing {
        let known = self.files.get(path).filter(|known| (known.size, known.modified) == (size, modified));
        known.map_or(FileIndexing::PENDING, |known| known.indexing)
    }

    /// Returns the counts of the files in the folders below.
    #[must_use]
    pub const fn counts_below(&self) -> IndexCounts {
        self.below
    }

    /// Adds a file if it is in the folder, whose path ends with a slash, or below.
    fn add_file(&mut self, folder: &str, file: ReportedFile) {
        let Some(rest) = file.path.strip_prefix(folder) else { return };
        let Some(indexing) = file.to_file_indexing() else { return };
        let is_hidden = rest.split('/').any(|name| name.starts_with('.'));
        if !rest.contains('/') {
            let known = KnownFile { size: file.size, modified: file.modified, indexing };
            self.files.insert(file.path, known);
        } else if !is_hidden {
            self.below.count_file(indexing.state);
        }
    }
}

/// Keeps a report in a machine's folder, in place of the last one. Files with impossible paths are left out. Waits for a report
/// that is being saved by an earlier connection or service.
///
/// # Errors
/// Returns errors of the file system.
pub(crate) fn save_report(machine: &Path, files: &[ReportedFile]) -> io::Result<()> {
    let lock = File::create(machine.join(format!("{DOCUMENTS}.lock")))?;
    lock.lock()?;
    let fresh = machine.join(format!("{DOCUMENTS}.new"));
    let mut out = BufWriter::new(File::create(&fresh)?);
    let fits = |file: &&ReportedFile| file.path.starts_with('/') && file.path.len() <= PATH_MAX_BYTES;
    for file in files.iter().filter(fits).take(REPORTED_MAX) {
        serde_json::to_writer(&mut out, file)?;
        out.write_all(b"\n")?;
    }
    // Otherwise, after a power loss, the new name may point to an empty file.
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
    std::fs::rename(fresh, machine.join(DOCUMENTS))
}

/// Returns the kept states of the files in a folder of the workspace. Empty without a report.
pub(crate) fn load_report(machine: &Path, folder: &str) -> FolderIndexReport {
    let mut indexing = FolderIndexReport::default();
    let Ok(file) = File::open(machine.join(DOCUMENTS)) else { return indexing };
    let folder = format!("{}/", folder.trim_end_matches('/'));
    let mut lines = BufReader::new(file.take(2 * REPORT_MAX_BYTES as u64));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A line that was cut off is the last one.
        if let Ok(file) = serde_json::from_slice(&line) {
            indexing.add_file(&folder, file);
        }
        line.clear();
    }
    indexing
}

/// Removes the kept report.
///
/// # Errors
/// Returns errors of the file system.
pub(crate) fn remove_report(machine: &Path) -> io::Result<()> {
    match std::fs::remove_file(machine.join(DOCUMENTS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use domain::indexing::IndexState;
    use domain::unread::UnreadReason;

    use super::*;

    fn reported_file(path: &str, state: IndexState) -> ReportedFile {
        let reason = (state == IndexState::Unreadable).then_some(UnreadReason::Encrypted);
        ReportedFile::new(path.to_owned(), 5, 7, &FileIndexing { state, reason, pages: None })
    }

    #[test]
    fn load_report_covers_folder_and_below() {
        let machine = tempfile::tempdir().expect("a folder");
        assert_eq!(load_report(machine.path(), "/"), FolderIndexReport::default());
        let files = [
            reported_file("/a.pdf", IndexState::Indexed),
            reported_file("/b/locked.pdf", IndexState::Unreadable),
            reported_file("/b/c/d.txt", IndexState::Indexing),
            reported_file("/b/.tmp/1/x.txt", IndexState::Indexed),
            reported_file("/bc/e.txt", IndexState::Indexed),
            reported_file("relative.txt", IndexState::Indexed),
        ];
        save_report(machine.path(), &files).expect("kept");
        let home = load_report(machine.path(), "/");
        assert_eq!(home.file_indexing("/a.pdf", 5, 7).state, IndexState::Indexed);
        assert_eq!(home.file_indexing("/a.pdf", 6, 7), FileIndexing::PENDING, "another content");
        assert_eq!(home.file_indexing("/other.pdf", 5, 7), FileIndexing::PENDING);
        let below = home.counts_below();
        assert_eq!((below.files, below.indexed, below.pending, below.unreadable), (3, 1, 1, 1));
        let folder = load_report(machine.path(), "/b");
        assert_eq!(folder.file_indexing("/b/locked.pdf", 5, 7).reason, Some(UnreadReason::Encrypted));
        assert_eq!((folder.counts_below().files, folder.counts_below().pending), (1, 1));
        let temporary = load_report(machine.path(), "/b/.tmp/1");
        assert_eq!(temporary.file_indexing("/b/.tmp/1/x.txt", 5, 7).state, IndexState::Indexed);
        remove_report(machine.path()).expect("removed");
        remove_report(machine.path()).expect("it is gone already");
        assert_eq!(load_report(machine.path(), "/"), FolderIndexReport::default());
    }

    #[test]
    fn concurrent_save_report_does_not_mix() {
        const ROUNDS: usize = 50;
        let machine = tempfile::tempdir().expect("a folder");
        let reports = [(20, IndexState::Indexed), (300, IndexState::Pending)];
        std::thread::scope(|threads| {
            for (count, state) in reports {
                let files: Vec<_> =
                    (0..count).map(|number| reported_file(&format!("/f/{number}"), state)).collect();
                let folder = machine.path();
                threads.spawn(move || {
                    for _ in 0..ROUNDS {
                        save_report(folder, &files).expect("kept");
                        let below = load_report(folder, "/").counts_below();
                        let found = (below.files, below.indexed, below.pending);
                        assert!([(20, 20, 0), (300, 0, 300)].contains(&found), "{found:?}");
                    }
                });
            }
        });
    }

    #[test]
    fn load_report_skips_damaged_lines() {
        let machine = tempfile::tempdir().expect("a folder");
        save_report(machine.path(), &[reported_file("/a.pdf", IndexState::Indexed)]).expect("kept");
        let path = machine.path().join(DOCUMENTS);
        let line = std::fs::read_to_string(&path).expect("lines");
        std::fs::write(&path, format!("nonsense\n{{}}\n{line}{{\"path\":")).expect("written");
        assert_eq!(load_report(machine.path(), "/").file_indexing("/a.pdf", 5, 7).state, IndexState::Indexed);
    }
}
