//! Uploads of large files in pieces. They continue after a broken connection, a restart or a power failure.
//!
//! The content is a file with a hidden name in the home folder, so it counts as the account's from its first byte on
//! and can be renamed to its place. The machine may write to the home folder, so the service keeps its own state
//! elsewhere, in a file for each upload beside the home folders. Its first line is the number of bytes that were
//! acknowledged. Content is synchronised before that number and that number before the acknowledgement, so a resumed
//! upload continues at a byte that is on disk. A lock on the file keeps two processes from writing the same upload.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::error::WorkspaceError;
use crate::jail::{FILE_MODE, FOLDER_FLAGS, OpenHome, entry_stat, off_thread, size_charged};
use crate::path::{FRESH_DIGITS, FileName, NameError, STAGING_PREFIX};
use crate::upload::{
    Destination, PlacedUpload, SameName, StagedFile, StagedUpload, check_disk, generate_name,
};
use crate::usage::{DiskUsage, ReservedSpace};

/// The maximum number of unfinished uploads of an account; a further one ends the least recently
/// used one.
pub const UNFINISHED_MAX: usize = 8;
/// The time without a piece after which an unfinished upload ends.
pub const UNFINISHED_IDLE_MAX: Duration = Duration::from_secs(24 * 3600);

/// The folder of all unfinished uploads, beside the home folders. No account has its name.
pub(crate) const UNFINISHED_FOLDER: &str = ".uploads";
/// The longest record of an upload, in bytes.
const RECORD_MAX_BYTES: u64 = 16 * 1024;
/// The digits of the number of acknowledged bytes; the next byte ends the line.
const RECEIVED_DIGITS: usize = 20;

const PRIVATE_FOLDER: Mode = Mode::RWXU;
const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);
const RECORD_FLAGS: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A machine may have replaced the content by a pipe.
const CONTENT_FLAGS: OFlags = RECORD_FLAGS.union(OFlags::NONBLOCK);

/// An upload as its client announces it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnnouncedUpload {
    /// The file's name; folders in it are ignored.
    pub name: String,
    /// The folder; `None` for the upload folder.
    pub folder: Option<String>,
    /// The size of the whole file in bytes.
    pub size: u64,
    /// The time at which the file was last modified, in milliseconds since 1970.
    pub modified: Option<i64>,
    /// A digest of the content, of the client's choice. A client that announces the same file again, with the same time and
    /// the same digest, continues its unfinished upload.
    pub digest: Option<String>,
    /// True if a file of the same name stays ([`SameName::KeepBoth`]), false to replace it.
    #[serde(default)]
    pub keeps_both: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunUpload {
    pub id: String,
    /// The number of bytes that have arrived.
    pub received: u64,
}

/// The outcome of a piece.
#[derive(Debug)]
pub enum AppendOutcome {
    /// It is on disk, with all earlier pieces.
    Received(u64),
    /// It was the last one, and the file is in its place.
    Stored(PlacedUpload),
    /// It does not begin at the end of the content, or another piece is being written.
    Conflict {
        /// The number of bytes that have arrived.
        received: u64,
    },
    /// It ends beyond the announced size. The upload is removed.
    TooLong,
    /// The account has no such upload.
    Unknown,
}

impl Workspace {
    /// Begins an upload, or finds the unfinished one of the same file.
    ///
    /// # Errors
    /// [`WorkspaceError::InvalidName`], also if the announcement is too long to be recorded, [`WorkspaceError::Empty`],
    /// the errors of [`Self::find_entry`] for the folder, [`WorkspaceError::QuotaExceeded`] if the whole file does not
    /// fit, and errors of the file system.
    pub async fn begin_resumable(&self, announced: AnnouncedUpload) -> Result<BegunUpload, WorkspaceError> {
        FileName::from_upload(&announced.name)?;
        let record = record_of(&announced)?;
        if announced.size == 0 {
            return Err(WorkspaceError::Empty);
        }
        if let Some(folder) = &announced.folder {
            self.find_entry(&AskedPath::from_text(folder)).await?;
        }
        let (workspace, wanted) = (self.clone(), announced.clone());
        if let Some(found) = off_thread(move || workspace.same_unfinished(&wanted)).await? {
            return Ok(found);
        }
        self.usage().await?;
        // Only the file is reserved; each piece reserves its bytes. But a file that cannot fit is not begun.
        let mut whole = ReservedSpace::new(self.books.clone());
        self.reserve_space(&mut whole, DiskUsage { bytes: announced.size, files: 1 }).await?;
        drop(whole);
        let mut room = ReservedSpace::new(self.books.clone());
        self.reserve_space(&mut room, DiskUsage { bytes: 0, files: 1 }).await?;
        let workspace = self.clone();
        off_thread(move || workspace.create_unfinished(&announced, &record, room)).await
    }

    /// Returns the number of bytes of an upload that have arrived; `None` if the account has no such upload.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn resumable_received(&self, id: &str) -> Result<Option<u64>, WorkspaceError> {
        let (workspace, id) = (self.clone(), id.to_owned());
        off_thread(move || {
            let Some(upload) = UnfinishedUpload::open_record(&workspace, &id)? else { return Ok(None) };
            Ok(upload.open_content()?.map(|_| upload.received))
        })
        .await
    }

    /// Writes a piece at an offset. The one that completes the file places it; it may be empty. A piece that is being written when this future is dropped is written to its end.
    ///
    /// # Errors
    /// [`WorkspaceError::QuotaExceeded`] by the account's quota and refusals of the place remove the upload; after errors of the
    /// file system, and when the disk is full, it can be continued.
    pub async fn append_piece(
        &self,
        id: &str,
        offset: u64,
        piece: Bytes,
    ) -> Result<AppendOutcome, WorkspaceError> {
        self.usage().await?;
        let mut room = ReservedSpace::new(self.books.clone());
        let reserved = self.reserve_space(&mut room, DiskUsage { bytes: piece.len() as u64, files: 0 }).await;
        let (workspace, id) = (self.clone(), id.to_owned());
        off_thread(move || {
            let Some(upload) = UnfinishedUpload::open_record(&workspace, &id)? else {
                return Ok(AppendOutcome::Unknown);
            };
            if fs::flock(&upload.record, FlockOperation::NonBlockingLockExclusive).is_err() {
                return Ok(AppendOutcome::Conflict { received: upload.received });
            }
            // Another piece may have arrived before the lock.
            let Some(upload) = upload.read_again()? else { return Ok(AppendOutcome::Unknown) };
            upload.append_to_content(offset, &piece, reserved.map(|()| room))
        })
        .await
    }

    /// Removes an unfinished upload with its content, after the piece that is being written, if any. Returns false if the account
    /// has no such upload, which may have been completed meanwhile.
    ///
    /// # Errors
    /// Errors of the file system.
    pub async fn cancel_resumable(&self, id: &str) -> Result<bool, WorkspaceError> {
        // The account is counted before its files are subtracted.
        self.usage().await?;
        let (workspace, id) = (self.clone(), id.to_owned());
        off_thread(move || {
            let Some(upload) = UnfinishedUpload::open_record(&workspace, &id)? else { return Ok(false) };
            fs::flock(&upload.record, FlockOperation::LockExclusive)?;
            // That piece may have been the last one.
            if upload.record.metadata()?.nlink() == 0 {
                return Ok(false);
            }
            upload.remove_files()?;
            Ok(true)
        })
        .await
    }

    /// Opens the folder of the account's unfinished uploads; `None` if it does not exist.
    fn unfinished_folder(&self) -> Result<Option<OwnedFd>, WorkspaceError> {
        let own = [UNFINISHED_FOLDER.as_bytes(), self.name().as_bytes()].join(&b'/');
        match fs::openat(self.accounts_root(), own, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::NOENT) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Opens or creates the folder of the account's unfinished uploads.
    fn make_unfinished_folder(&self) -> Result<OwnedFd, WorkspaceError> {
        let all = make_folder(self.accounts_root(), UNFINISHED_FOLDER)?;
        make_folder(all.as_fd(), self.name())
    }

    /// Returns the account's unfinished uploads, the least recently used first.
    fn list_unfinished(&self) -> Result<Vec<UnfinishedUpload>, WorkspaceError> {
        let Some(folder) = self.unfinished_folder()? else { return Ok(Vec::new()) };
        let mut uploads = Vec::new();
        for id in upload_ids(&folder)? {
            uploads.extend(UnfinishedUpload::open_record(self, &id)?);
        }
        uploads.sort_by_key(|upload| upload.used_at);
        Ok(uploads)
    }

    fn same_unfinished(&self, announced: &AnnouncedUpload) -> Result<Option<BegunUpload>, WorkspaceError> {
        if announced.modified.is_none() || announced.digest.is_none() {
            return Ok(None);
        }
        for upload in self.list_unfinished()? {
            if upload.announced == *announced && upload.open_content()?.is_some() {
                return Ok(Some(BegunUpload { id: upload.id, received: upload.received }));
            }
        }
        Ok(None)
    }

    fn create_unfinished(
        &self,
        announced: &AnnouncedUpload,
        record: &[u8],
        room: ReservedSpace,
    ) -> Result<BegunUpload, WorkspaceError> {
        let (home, folder, id) = (self.open_home()?, self.make_unfinished_folder()?, generate_name()?);
        // Serialized: otherwise concurrent uploads would each find room for one more.
        fs::flock(&folder, FlockOperation::LockExclusive)?;
        if let Some(found) = self.same_unfinished(announced)? {
            return Ok(found);
        }
        self.remove_expired()?;
        self.remove_oldest(&home, &folder)?;
        // The content first: without its record it is removed with other leftovers, but a record without content is not an
        // upload.
        let new = OFlags::CREATE | OFlags::EXCL;
        let content =
            File::from(fs::openat(home.fd(), content_name(&id), CONTENT_FLAGS | new, PRIVATE_FILE)?);
        room.commit_usage(DiskUsage::default());
        check_disk(&content, self.books.quota(), 0)?;
        let file = File::from(fs::openat(&folder, &id, RECORD_FLAGS | new, PRIVATE_FILE)?);
        file.write_all_at(record, 0)?;
        file.sync_all()?;
        fs::fsync(&folder)?;
        fs::fsync(home.fd())?;
        Ok(BegunUpload { id, received: 0 })
    }

    /// Makes room for one more upload: ends the least recently used ones, including damaged ones.
    fn remove_oldest(&self, home: &OpenHome, folder: &OwnedFd) -> Result<(), WorkspaceError> {
        let mut used = Vec::new();
        for id in upload_ids(folder)? {
            used.extend(
                entry_stat(folder.as_fd(), id.as_bytes()).map(|stat| (stat.st_mtime, stat.st_mtime_nsec, id)),
            );
        }
        used.sort_unstable();
        let mut too_many = (used.len() + 1).saturating_sub(UNFINISHED_MAX);
        for (_, _, id) in used {
            if too_many == 0 {
                break;
            }
            too_many -= usize::from(remove_unused(self, home, folder, &id)?);
        }
        Ok(())
    }

    /// Removes uploads that have not been used for [`UNFINISHED_IDLE_MAX`], and returns their number.
    pub(crate) fn remove_expired(&self) -> Result<u64, WorkspaceError> {
        let Some(folder) = self.unfinished_folder()? else { return Ok(0) };
        let home = self.open_home()?;
        let oldest = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let oldest = i64::try_from(oldest.saturating_sub(UNFINISHED_IDLE_MAX).as_secs()).unwrap_or(i64::MAX);
        let mut removed = 0;
        for id in upload_ids(&folder)? {
            // This also removes one whose record is damaged.
            if entry_stat(folder.as_fd(), id.as_bytes()).is_ok_and(|stat| stat.st_mtime < oldest) {
                removed += u64::from(remove_unused(self, &home, &folder, &id)?);
            }
        }
        Ok(removed)
    }

    /// Returns true if a hidden file of the home folder is the content of an unfinished upload.
    pub(crate) fn is_unfinished(&self, name: &[u8]) -> Result<bool, WorkspaceError> {
        let Some(id) = name.strip_prefix(STAGING_PREFIX.as_bytes()) else { return Ok(false) };
        let Some(folder) = self.unfinished_folder()? else { return Ok(false) };
        match entry_stat(folder.as_fd(), id) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }
}

/// An unfinished upload whose record is open.
struct UnfinishedUpload {
    workspace: Workspace,
    id: String,
    folder: OwnedFd,
    home: OpenHome,
    record: File,
    announced: AnnouncedUpload,
    received: u64,
    used_at: SystemTime,
}

impl UnfinishedUpload {
    /// Opens the record of an upload; `None` if the account has none or it is damaged.
    fn open_record(workspace: &Workspace, id: &str) -> Result<Option<Self>, WorkspaceError> {
        if !is_upload_id(id) {
            return Ok(None);
        }
        let Some(folder) = workspace.unfinished_folder()? else { return Ok(None) };
        let record = match fs::openat(&folder, id, RECORD_FLAGS, Mode::empty()) {
            Ok(record) => File::from(record),
            Err(Errno::NOENT) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        Self::read_record(workspace.clone(), id.to_owned(), folder, record)
    }

    fn read_record(
        workspace: Workspace,
        id: String,
        folder: OwnedFd,
        record: File,
    ) -> Result<Option<Self>, WorkspaceError> {
        let known = record.metadata()?;
        let mut text = vec![0; usize::try_from(known.size().min(RECORD_MAX_BYTES)).unwrap_or(0)];
        record.read_exact_at(&mut text, 0)?;
        let (line, announced) = text.split_at_checked(RECEIVED_DIGITS + 1).unwrap_or_default();
        let received = std::str::from_utf8(line).ok().and_then(|line| line.trim_end().parse().ok());
        let (Some(received), Ok(announced)) = (received, serde_json::from_slice(announced)) else {
            return Ok(None);
        };
        let (home, used_at) = (workspace.open_home()?, known.modified()?);
        Ok(Some(Self { workspace, id, folder, home, record, announced, received, used_at }))
    }

    fn read_again(self) -> Result<Option<Self>, WorkspaceError> {
        Self::read_record(self.workspace, self.id, self.folder, self.record)
    }

    /// Opens the content; `None` if the machine has removed it or put something else in its place.
    fn open_content(&self) -> Result<Option<File>, WorkspaceError> {
        let file = match fs::openat(self.home.fd(), content_name(&self.id), CONTENT_FLAGS, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::ISDIR | Errno::ACCESS) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let known = file.metadata()?;
        let is_own = known.is_file() && known.nlink() == 1 && known.size() >= self.received;
        Ok(is_own.then_some(file))
    }

    fn append_to_content(
        mut self,
        offset: u64,
        piece: &[u8],
        room: Result<ReservedSpace, WorkspaceError>,
    ) -> Result<AppendOutcome, WorkspaceError> {
        let Some(content) = self.open_content()? else {
            self.remove_files()?;
            return Ok(AppendOutcome::Unknown);
        };
        if offset != self.received {
            return Ok(AppendOutcome::Conflict { received: self.received });
        }
        let received = offset + piece.len() as u64;
        if received > self.announced.size {
            self.remove_files()?;
            return Ok(AppendOutcome::TooLong);
        }
        let room = match room {
            Err(full @ WorkspaceError::QuotaExceeded(_)) => {
                self.remove_files()?;
                return Err(full);
            }
            room => room?,
        };
        // The rest was not acknowledged.
        content.set_len(offset)?;
        check_disk(&content, self.workspace.books.quota(), piece.len() as u64)?;
        content.write_all_at(piece, offset)?;
        content.sync_data()?;
        self.record.write_all_at(received_line(received).as_bytes(), 0)?;
        self.record.sync_data()?;
        room.commit_usage(DiskUsage::default());
        self.received = received;
        if received < self.announced.size {
            return Ok(AppendOutcome::Received(received));
        }
        let placed = self.place_file(content);
        if !matches!(placed, Err(WorkspaceError::Io(_))) {
            // A record without its content is not an upload, and expires.
            let _ = self.remove_files();
        }
        placed.map(AppendOutcome::Stored)
    }

    fn place_file(&self, content: File) -> Result<PlacedUpload, WorkspaceError> {
        let destination = match &self.announced.folder {
            None => Destination::Uploads,
            Some(folder) => Destination::Folder(AskedPath::from_text(folder)),
        };
        let home = self.workspace.open_home()?;
        home.set_owner_and_mode(content.as_fd(), FILE_MODE)?;
        let name = Some(content_name(&self.id).into_bytes());
        let staged = StagedFile { home, file: content, name, books: self.workspace.books.clone() };
        let room = ReservedSpace::new(self.workspace.books.clone());
        let staged = StagedUpload { file: Arc::new(staged), room, size: self.received };
        let same_name = if self.announced.keeps_both { SameName::KeepBoth } else { SameName::Replace };
        staged.place_now(&destination, &FileName::from_upload(&self.announced.name)?, same_name)
    }

    fn remove_files(&self) -> Result<(), WorkspaceError> {
        remove_upload(&self.workspace, &self.home, &self.folder, &self.id)
    }
}

/// Removes the record of an upload, and the content unless it is in its place.
fn remove_upload(
    workspace: &Workspace,
    home: &OpenHome,
    folder: &OwnedFd,
    id: &str,
) -> Result<(), WorkspaceError> {
    let name = content_name(id);
    if let Ok(stat) = entry_stat(home.fd(), name.as_bytes())
        && fs::unlinkat(home.fd(), &name, AtFlags::empty()).is_ok()
    {
        workspace.books.subtract_usage(DiskUsage { bytes: size_charged(&stat), files: 1 });
    }
    match fs::unlinkat(folder, id, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(other) => Err(other.into()),
    }
}

/// Removes an upload unless a piece of it is being written. Returns true if it does not exist any more.
fn remove_unused(
    workspace: &Workspace,
    home: &OpenHome,
    folder: &OwnedFd,
    id: &str,
) -> Result<bool, WorkspaceError> {
    let record = match fs::openat(folder, id, RECORD_FLAGS, Mode::empty()) {
        Ok(record) => record,
        Err(Errno::NOENT) => return Ok(true),
        Err(other) => return Err(other.into()),
    };
    if fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    remove_upload(workspace, home, folder, id)?;
    Ok(true)
}

/// Returns the record of a new upload.
fn record_of(announced: &AnnouncedUpload) -> Result<Vec<u8>, WorkspaceError> {
    let mut record = received_line(0).into_bytes();
    record.extend(serde_json::to_vec(announced).map_err(io::Error::from)?);
    if record.len() as u64 > RECORD_MAX_BYTES {
        return Err(NameError::TooLong.into());
    }
    Ok(record)
}

fn upload_ids(folder: &OwnedFd) -> Result<Vec<String>, WorkspaceError> {
    let mut ids = Vec::new();
    for entry in Dir::read_from(folder)? {
        ids.extend(entry?.file_name().to_str().ok().filter(|id| is_upload_id(id)).map(str::to_owned));
    }
    Ok(ids)
}

fn is_upload_id(id: &str) -> bool {
    id.len() == FRESH_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn content_name(id: &str) -> String {
    format!("{STAGING_PREFIX}{id}")
}

/// Returns the first line of a record. Its length never changes, so that it is overwritten in place.
fn received_line(received: u64) -> String {
    format!("{received:0RECEIVED_DIGITS$}\n")
}

/// Opens a folder for the service alone; creates it if it is missing.
fn make_folder(parent: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, WorkspaceError> {
    match fs::mkdirat(parent, name, PRIVATE_FOLDER) {
        Ok(()) => fs::fsync(parent)?,
        Err(Errno::EXIST) => {}
        Err(other) => return Err(other.into()),
    }
    Ok(fs::openat(parent, name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?)
}
