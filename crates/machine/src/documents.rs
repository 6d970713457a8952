//! The reports of machines on the documents in their accounts' workspaces, kept for the time in which they do not run.

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
pub struct FolderIndexing {
    /// The files in the folder itself, by their workspace paths.
    files: HashMap<String, KnownFile>,
    /// The files in the folders below it, without hidden ones.
    below: IndexCounts,
}

/// The state of a file, and the content that it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KnownFile {
    size: u64,
    modified: i64,
    indexing: FileIndexing,
}

impl FolderIndexing {
    /// Returns the state of the file at a workspace path, which has this size in bytes and was modified at this time in
    /// seconds since 1970. A file of which this content was not reported is still to be read.
    #[must_use]
    pub fn file(&self, path: &str, size: u64, modified: i64) -> FileIndexing {
        let known = self.files.get(path).filter(|known| (known.size, known.modified) == (size, modified));
        known.map_or(FileIndexing::PENDING, |known| known.indexing)
    }

    /// Returns the counts of the files in the folders below.
    #[must_use]
    pub const fn below(&self) -> IndexCounts {
        self.below
    }

    /// Adds a file if it is in the folder, whose path ends with a slash, or below.
    fn add(&mut self, folder: &str, file: ReportedFile) {
        let Some(rest) = file.path.strip_prefix(folder) else { return };
        let Some(indexing) = file.indexing() else { return };
        let is_hidden = rest.split('/').any(|name| name.starts_with('.'));
        if !rest.contains('/') {
            let known = KnownFile { size: file.size, modified: file.modified, indexing };
            self.files.insert(file.path, known);
        } else if !is_hidden {
            self.below.add(indexing.state);
        }
    }
}

/// Keeps a report in a machine's folder, in place of the last one. Files with impossible paths are left out. Waits for a report
/// that is being kept, of an earlier connection or service.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn keep(machine: &Path, files: &[ReportedFile]) -> io::Result<()> {
    let lock = File::create(machine.join(format!("{DOCUMENTS}.lock")))?;
    lock.lock()?;
    let fresh = machine.join(format!("{DOCUMENTS}.new"));
    let mut out = BufWriter::new(File::create(&fresh)?);
    let fits = |file: &&ReportedFile| file.path.starts_with('/') && file.path.len() <= PATH_MAX_BYTES;
    for file in files.iter().filter(fits).take(REPORTED_MAX) {
        serde_json::to_writer(&mut out, file)?;
        out.write_all(b"\n")?;
    }
    // Otherwise a host that loses its power may find the new name on an empty file.
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
    std::fs::rename(fresh, machine.join(DOCUMENTS))
}

/// Returns the kept states of the files in a folder of the workspace. There are none without a report.
pub(crate) fn kept(machine: &Path, folder: &str) -> FolderIndexing {
    let mut indexing = FolderIndexing::default();
    let Ok(file) = File::open(machine.join(DOCUMENTS)) else { return indexing };
    let folder = format!("{}/", folder.trim_end_matches('/'));
    let mut lines = BufReader::new(file.take(2 * REPORT_MAX_BYTES as u64));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // A line that was cut off is the last one.
        if let Ok(file) = serde_json::from_slice(&line) {
            indexing.add(&folder, file);
        }
        line.clear();
    }
    indexing
}

/// Removes the kept report.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn remove(machine: &Path) -> io::Result<()> {
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

    fn report(path: &str, state: IndexState) -> ReportedFile {
        let reason = (state == IndexState::Unreadable).then_some(UnreadReason::Encrypted);
        ReportedFile::new(path.to_owned(), 5, 7, &FileIndexing { state, reason, pages: None })
    }

    #[test]
    fn a_kept_report_tells_of_a_folder_and_of_those_below() {
        let machine = tempfile::tempdir().expect("a folder");
        assert_eq!(kept(machine.path(), "/"), FolderIndexing::default());
        let files = [
            report("/a.pdf", IndexState::Indexed),
            report("/b/locked.pdf", IndexState::Unreadable),
            report("/b/c/d.txt", IndexState::Indexing),
            report("/b/.tmp/1/x.txt", IndexState::Indexed),
            report("/bc/e.txt", IndexState::Indexed),
            report("relative.txt", IndexState::Indexed),
        ];
        keep(machine.path(), &files).expect("kept");
        let home = kept(machine.path(), "/");
        assert_eq!(home.file("/a.pdf", 5, 7).state, IndexState::Indexed);
        assert_eq!(home.file("/a.pdf", 6, 7), FileIndexing::PENDING, "another content");
        assert_eq!(home.file("/other.pdf", 5, 7), FileIndexing::PENDING);
        let below = home.below();
        assert_eq!((below.files, below.indexed, below.pending, below.unreadable), (3, 1, 1, 1));
        let folder = kept(machine.path(), "/b");
        assert_eq!(folder.file("/b/locked.pdf", 5, 7).reason, Some(UnreadReason::Encrypted));
        assert_eq!((folder.below().files, folder.below().pending), (1, 1));
        let temporary = kept(machine.path(), "/b/.tmp/1");
        assert_eq!(temporary.file("/b/.tmp/1/x.txt", 5, 7).state, IndexState::Indexed);
        remove(machine.path()).expect("removed");
        remove(machine.path()).expect("it is gone already");
        assert_eq!(kept(machine.path(), "/"), FolderIndexing::default());
    }

    #[test]
    fn reports_that_are_kept_at_once_do_not_mix() {
        const ROUNDS: usize = 50;
        let machine = tempfile::tempdir().expect("a folder");
        let reports = [(20, IndexState::Indexed), (300, IndexState::Pending)];
        std::thread::scope(|threads| {
            for (count, state) in reports {
                let files: Vec<_> = (0..count).map(|number| report(&format!("/f/{number}"), state)).collect();
                let folder = machine.path();
                threads.spawn(move || {
                    for _ in 0..ROUNDS {
                        keep(folder, &files).expect("kept");
                        let below = kept(folder, "/").below();
                        let found = (below.files, below.indexed, below.pending);
                        assert!([(20, 20, 0), (300, 0, 300)].contains(&found), "{found:?}");
                    }
                });
            }
        });
    }

    #[test]
    fn lines_that_are_damaged_are_passed_over() {
        let machine = tempfile::tempdir().expect("a folder");
        keep(machine.path(), &[report("/a.pdf", IndexState::Indexed)]).expect("kept");
        let path = machine.path().join(DOCUMENTS);
        let line = std::fs::read_to_string(&path).expect("lines");
        std::fs::write(&path, format!("nonsense\n{{}}\n{line}{{\"path\":")).expect("written");
        assert_eq!(kept(machine.path(), "/").file("/a.pdf", 5, 7).state, IndexState::Indexed);
    }
}
