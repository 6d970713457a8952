//! Downloads: an open file and its bytes as a stream.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use domain::time::Timestamp;
use futures_util::Stream;
use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, sendfile};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::error::WorkspaceError;
use crate::jail::{OpenHome, file_type, off_thread, stat_size};
use crate::path::{WorkspacePath, format_path_bytes};
use crate::tree::FILE_FLAGS;

/// The size of a read off the request threads; a stream holds two chunks at most, the current and the next.
const CHUNK_BYTES: u64 = 256 * 1024;

/// The size of a read from the kernel's cache. It runs on the request thread: copying that much is faster than a thread
/// switch and delays no other request for long.
const AT_HAND_BYTES: u64 = 64 * 1024;

/// The maximum number of bytes that the kernel is asked to send at once, so that other requests have their turn.
const SENT_AT_ONCE_BYTES: u64 = 128 * 1024;

/// The maximum wait for a leased file, and the interval between attempts.
const LEASE_WAIT: Duration = Duration::from_secs(2);
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The MIME type of unknown content.
pub(crate) const UNKNOWN_MIME: &str = "application/octet-stream";

/// An open file of a workspace. Its fields describe it at the time of opening.
#[derive(Debug)]
pub struct OpenFile {
    file: Arc<OwnedFd>,
    /// The candidate path that exists.
    pub path: WorkspacePath,
    /// The name as shown.
    pub name: String,
    pub size: u64,
    /// The time of its last change.
    pub modified: Timestamp,
    /// A strong entity tag with its quotes, which changes with the file.
    pub etag: String,
    /// Derived from the name, not from the content.
    pub mime: &'static str,
}

impl Workspace {
    /// Opens a file for reading. Follows links within the workspace. Never waits for a pipe or device.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`], [`WorkspaceError::IsFolder`], [`WorkspaceError::NotAFile`],
    /// [`WorkspaceError::Outside`], [`WorkspaceError::Denied`], [`WorkspaceError::Leased`] after a timeout, and errors
    /// of the file system.
    pub async fn open_file(&self, asked: &AskedPath) -> Result<OpenFile, WorkspaceError> {
        // The blocking lookup meets and reports all other errors again.
        if let Some(first) = asked.candidates().next()
            && let Ok(file) = self.open_at_hand(first, FILE_FLAGS)
            && let Ok(file) = OpenFile::new(file, first)
        {
            return Ok(file);
        }
        let (workspace, asked) = (self.clone(), asked.clone());
        let found = off_thread(move || {
            let home = workspace.open_home()?;
            asked.first_found(&home, |path| try_open_file(&home, path))
        });
        match found.await? {
            OpenAttempt::Open(file) => Ok(file),
            OpenAttempt::Leased(file, path) => wait_for_lease(file, path).await,
        }
    }
}

/// The result of one attempt to open a file.
enum OpenAttempt {
    Open(OpenFile),
    /// The file is leased; opened with `O_PATH`.
    Leased(Arc<OwnedFd>, WorkspacePath),
}

fn try_open_file(home: &OpenHome, path: &WorkspacePath) -> Result<OpenAttempt, WorkspaceError> {
    match home.open_beneath(path, FILE_FLAGS) {
        // The kernel reports a lease and a concurrently changed path with the same error. `O_PATH` ignores leases.
        Err(Errno::AGAIN) => {
            let file = home.open_beneath(path, OFlags::PATH)?;
            match reopen_file(&file) {
                Err(Errno::AGAIN) => Ok(OpenAttempt::Leased(Arc::new(file), path.clone())),
                done => Ok(OpenAttempt::Open(OpenFile::new(done?, path)?)),
            }
        }
        done => Ok(OpenAttempt::Open(OpenFile::new(done?, path)?)),
    }
}

/// Waits for a leased file. Opening it has notified the holder of the lease; the kernel revokes the lease of a holder
/// that ignores that, but only after the request's timeout.
async fn wait_for_lease(file: Arc<OwnedFd>, path: WorkspacePath) -> Result<OpenFile, WorkspaceError> {
    let deadline = Instant::now() + LEASE_WAIT;
    while Instant::now() < deadline {
        tokio::time::sleep(LEASE_POLL_INTERVAL).await;
        let (file, path) = (file.clone(), path.clone());
        let opened = off_thread(move || match reopen_file(&file) {
            Err(Errno::AGAIN) => Ok(None),
            done => OpenFile::new(done?, &path).map(Some),
        });
        if let Some(opened) = opened.await? {
            return Ok(opened);
        }
    }
    Err(WorkspaceError::Leased)
}

fn reopen_file(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    // Reopens the descriptor, not the path, which may lead to another file now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    openat(CWD, path, FILE_FLAGS | OFlags::CLOEXEC, Mode::empty())
}

impl OpenFile {
    fn new(file: OwnedFd, path: &WorkspacePath) -> Result<Self, WorkspaceError> {
        let stat = fstat(&file)?;
        match file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(WorkspaceError::IsFolder),
            _ => return Err(WorkspaceError::NotAFile),
        }
        let name = path.split_name().map_or(&b""[..], |(_, name)| name).to_vec();
        Ok(Self {
            file: Arc::new(file),
            path: path.clone(),
            name: format_path_bytes(&name),
            size: stat_size(&stat),
            modified: modification_time(&stat),
            etag: format_etag(&stat),
            mime: guess_mime_type(&name),
        })
    }

    /// Streams a range, truncated at the end of the file. Ends with an error when the file became shorter in the
    /// meantime, so that an incomplete body never looks complete.
    #[must_use]
    pub fn stream_range(&self, range: Range<u64>) -> FileStream {
        let end = range.end.min(self.size);
        let start = range.start.min(end);
        FileStream { file: self.file.clone(), rest: start..end, reading: None }
    }

    /// Returns the same bytes as a transfer that the kernel sends.
    #[must_use]
    pub fn transfer_range(&self, range: Range<u64>) -> FileTransfer {
        let end = range.end.min(self.size);
        FileTransfer { file: self.file.clone(), rest: range.start.min(end)..end }
    }
}

/// A range of a file that the kernel passes to a socket from its page cache.
#[derive(Debug)]
pub struct FileTransfer {
    file: Arc<OwnedFd>,
    rest: Range<u64>,
}

impl FileTransfer {
    /// Returns true if all data was sent.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns true if the first and last byte of the next piece are in memory, so that sending it does not wait for
    /// a disk.
    #[must_use]
    pub fn is_at_hand(&self) -> bool {
        let piece = self.next_piece();
        let has = |at| {
            let mut byte = [0];
            let into = &mut [IoSliceMut::new(&mut byte)];
            rustix::io::preadv2(&self.file, into, at, ReadWriteFlags::NOWAIT) == Ok(1)
        };
        !piece.is_empty() && has(piece.start) && has(piece.end - 1)
    }

    /// Sends the next piece, at most 128 KiB, as far as the socket takes it. Reads from the disk if necessary.
    ///
    /// # Errors
    /// Errors of the kernel, [`io::ErrorKind::WouldBlock`] when the socket is full, and
    /// [`io::ErrorKind::UnexpectedEof`] when the file became shorter, so that the announced data cannot be sent.
    pub fn send_piece(&mut self, socket: impl AsFd) -> io::Result<()> {
        let piece = self.next_piece();
        let count = usize::try_from(piece.end - piece.start).map_err(io::Error::other)?;
        let mut at = piece.start;
        match sendfile(socket, &self.file, Some(&mut at), count) {
            Ok(0) if count > 0 => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"))
            }
            Ok(sent) => {
                self.rest.start += sent as u64;
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(other) => Err(other.into()),
        }
    }

    fn next_piece(&self) -> Range<u64> {
        self.rest.start..self.rest.end.min(self.rest.start.saturating_add(SENT_AT_ONCE_BYTES))
    }
}

/// The bytes of a range of a file. Reads from the kernel's cache on the polling thread, otherwise on a thread that
/// reads one chunk ahead. Dropping the stream stops reading.
#[derive(Debug)]
pub struct FileStream {
    file: Arc<OwnedFd>,
    rest: Range<u64>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileStream {
    /// Reads the next bytes from the kernel's cache; never waits for a disk.
    fn read_at_hand(&mut self) -> Option<Bytes> {
        let length = usize::try_from((self.rest.end - self.rest.start).min(AT_HAND_BYTES)).ok()?;
        let mut read = vec![0; length];
        let into = &mut [IoSliceMut::new(&mut read)];
        // The blocking read reports all other errors.
        let length = rustix::io::preadv2(&self.file, into, self.rest.start, ReadWriteFlags::NOWAIT).ok()?;
        read.truncate(length);
        self.rest.start += length as u64;
        (length > 0).then(|| read.into())
    }

    fn read_ahead(&mut self) {
        let chunk = self.rest.start..self.rest.end.min(self.rest.start.saturating_add(CHUNK_BYTES));
        if chunk.is_empty() {
            return;
        }
        self.rest.start = chunk.end;
        let file = self.file.clone();
        self.reading = Some(tokio::task::spawn_blocking(move || read_all(&file, chunk)));
    }
}

impl Stream for FileStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.reading.is_none() {
            if let Some(read) = this.read_at_hand() {
                return Poll::Ready(Some(Ok(read)));
            }
            this.read_ahead();
        }
        let Some(reading) = &mut this.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context)).unwrap_or_else(|stop| Err(io::Error::other(stop)));
        this.reading = None;
        match &read {
            Ok(_) => this.read_ahead(),
            Err(_) => this.rest.start = this.rest.end,
        }
        Poll::Ready(Some(read))
    }
}

fn read_all(file: &OwnedFd, range: Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let mut read = Vec::with_capacity(length);
    while read.len() < length {
        let at = range.start + read.len() as u64;
        match rustix::io::pread(file, spare_capacity(&mut read), at) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter")),
            Ok(_) | Err(Errno::INTR) => {}
            Err(other) => return Err(other.into()),
        }
    }
    // The allocation, and so the read, may be larger than requested.
    read.truncate(length);
    Ok(read.into())
}

fn format_etag(stat: &Stat) -> String {
    format!(
        "\"{:x}-{:x}-{:x}.{:x}-{:x}.{:x}\"",
        stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec
    )
}

/// Returns the modification time in a `stat` result.
pub(crate) fn modification_time(stat: &Stat) -> Timestamp {
    let micros = i64::try_from(stat.st_mtime_nsec / 1000).unwrap_or(0);
    Timestamp::from_micros(stat.st_mtime.saturating_mul(1_000_000).saturating_add(micros))
}

/// MIME types of documents that the library does not know.
const MIME_BY_EXTENSION: [(&str, &str); 6] = [
    ("pages", "application/vnd.apple.pages"),
    ("numbers", "application/vnd.apple.numbers"),
    ("key", "application/vnd.apple.keynote"),
    ("vsdx", "application/vnd.ms-visio.drawing"),
    ("vsdm", "application/vnd.ms-visio.drawing.macroenabled.12"),
    ("ost", "application/vnd.ms-outlook"),
];

/// Guesses the MIME type from a file name.
pub(crate) fn guess_mime_type(name: &[u8]) -> &'static str {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
    let extension = path.extension().map(std::ffi::OsStr::as_bytes).unwrap_or_default();
    let known = MIME_BY_EXTENSION.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(extension));
    known.map(|(_, mime)| *mime).or_else(|| mime_guess::from_path(path).first_raw()).unwrap_or(UNKNOWN_MIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_mime_types_match_programs() {
        let types = [
            ("a.pages", "application/vnd.apple.pages"),
            ("A.NUMBERS", "application/vnd.apple.numbers"),
            ("a.b.key", "application/vnd.apple.keynote"),
            ("a.vsdx", "application/vnd.ms-visio.drawing"),
            ("a.djvu", "image/vnd.djvu"),
            ("a.djv", "image/vnd.djvu"),
            ("a.pst", "application/vnd.ms-outlook"),
            ("a.ost", "application/vnd.ms-outlook"),
            ("a.pdf", "application/pdf"),
            ("pages", UNKNOWN_MIME),
            ("a.unknown", UNKNOWN_MIME),
        ];
        for (name, expected) in types {
            assert_eq!(guess_mime_type(name.as_bytes()), expected, "{name}");
        }
    }
}
