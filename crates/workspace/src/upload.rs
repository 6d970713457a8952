//! Uploads: streamed into an unnamed file, then linked whole or not at all.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, pin_mut};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use tokio::task::JoinHandle;

use crate::account::Workspace;
use crate::asked::AskedPath;
use crate::error::{SpaceShortage, WorkspaceError};
use crate::jail::{FILE_MODE, OpenHome, entry_stat, file_type, off_thread, size_charged};
use crate::path::{FRESH_DIGITS, FileName, NameError, STAGING_PREFIX, WorkspacePath};
use crate::spelling::name_in;
use crate::usage::{DiskUsage, Quota, ReservedSpace, UsageTracker};

/// The size of a batch that is collected before it is written; another batch may be in progress at the same time.
const BATCH_BYTES: usize = 512 * 1024;

/// Before an upload is rejected for lack of space, usage is recounted unless it was counted within this time.
const RECOUNT_BEFORE_REFUSAL: Duration = Duration::from_secs(1);

/// The minimum of free inodes that uploads leave on the disk.
const DISK_INODES_FREE_MIN: u64 = 1000;

/// The maximum number of numbers that are tried for a name that is taken.
const NUMBERED_MAX: u32 = 1000;

/// Flags of an upload's file.
const STAGING_FLAGS: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC);

/// The destination of an uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// The upload folder, which is created when it is missing.
    Uploads,
    Folder(AskedPath),
    /// A new folder beneath `/uploads/.tmp`, so that the name is always free.
    Temporary,
}

/// The treatment of a file whose name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameName {
    /// It replaces the existing one.
    Replace,
    /// The new file gets a number after its name: `offer (2).pdf`. If the existing one has the same content, it is kept
    /// instead.
    KeepBoth,
}

/// An uploaded file (section 2.5 of the interface).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedUpload {
    /// The name as shown.
    pub name: String,
    pub path: WorkspacePath,
    pub size: u64,
}

/// A file that is being received. Dropping it removes all traces.
#[derive(Debug)]
pub struct Staging {
    workspace: Workspace,
    file: Arc<StagedFile>,
    room: ReservedSpace,
    size: u64,
    batch: Vec<Bytes>,
    batch_bytes: usize,
    writing: Option<JoinHandle<Result<(), WorkspaceError>>>,
}

/// A completely received file without a place. Dropping it removes all traces.
#[derive(Debug)]
pub struct StagedUpload {
    pub(crate) file: Arc<StagedFile>,
    pub(crate) room: ReservedSpace,
    pub(crate) size: u64,
}

/// The file on disk: without a name if the file system supports that, otherwise with a hidden one in the home folder.
#[derive(Debug)]
pub(crate) struct StagedFile {
    pub(crate) home: OpenHome,
    pub(crate) file: File,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) books: Arc<UsageTracker>,
}

impl Workspace {
    /// Starts to receive a file.
    ///
    /// # Errors
    /// [`WorkspaceError::QuotaExceeded`] when the account has reached its number of files; [`WorkspaceError::NotFound`]
    /// without a home folder; errors of the file system.
    pub async fn begin_upload(&self) -> Result<Staging, WorkspaceError> {
        self.usage().await?;
        let mut room = ReservedSpace::new(self.books.clone());
        self.reserve_space(&mut room, DiskUsage { bytes: 0, files: 1 }).await?;
        let workspace = self.clone();
        let file = off_thread(move || StagedFile::create_staged(&workspace)).await?;
        Ok(Staging {
            workspace: self.clone(),
            file: Arc::new(file),
            room,
            size: 0,
            batch: Vec::new(),
            batch_bytes: 0,
            writing: None,
        })
    }

    /// Receives the whole content of a file, without a place until [`StagedUpload::place_file`].
    ///
    /// # Errors
    /// Those of [`Self::begin_upload`], [`Staging::write_chunk`] and [`Staging::finish_upload`], and
    /// [`WorkspaceError::Interrupted`] with the error of the stream.
    pub async fn stage_upload<S, E>(&self, content: S) -> Result<StagedUpload, WorkspaceError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut staging = self.begin_upload().await?;
        pin_mut!(content);
        while let Some(bytes) = content.next().await {
            staging.write_chunk(bytes.map_err(|error| WorkspaceError::Interrupted(error.into()))?).await?;
        }
        staging.finish_upload().await
    }

    /// Receives a file and places it, replacing one of the same name: [`Self::stage_upload`], then
    /// [`StagedUpload::place_file`].
    ///
    /// # Errors
    /// Those of both.
    pub async fn upload_file<S, E>(
        &self,
        destination: &Destination,
        name: &FileName,
        content: S,
    ) -> Result<PlacedUpload, WorkspaceError>
    where
        S: Stream<Item = Result<Bytes, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.stage_upload(content)
            .await?
            .place_file(destination.clone(), name.clone(), SameName::Replace)
            .await
    }

    /// Reserves space for an upload or a folder. Recounts before it rejects.
    pub(crate) async fn reserve_space(
        &self,
        room: &mut ReservedSpace,
        more: DiskUsage,
    ) -> Result<(), WorkspaceError> {
        if room.try_reserve(more) {
            return Ok(());
        }
        self.recount_usage(RECOUNT_BEFORE_REFUSAL.min(self.books.quota().recount_after)).await?;
        if room.try_reserve(more) {
            Ok(())
        } else {
            Err(WorkspaceError::QuotaExceeded(room.find_shortage(more)))
        }
    }
}

impl Staging {
    /// Writes more content. Holds at most two batches in memory, however fast the content arrives. After an error, or
    /// when its future is dropped, the upload is unusable.
    ///
    /// # Errors
    /// [`WorkspaceError::QuotaExceeded`], and errors of the file system.
    pub async fn write_chunk(&mut self, bytes: Bytes) -> Result<(), WorkspaceError> {
        self.batch_bytes += bytes.len();
        self.batch.push(bytes);
        if self.batch_bytes >= BATCH_BYTES { self.flush_batch().await } else { Ok(()) }
    }

    /// Ends the content.
    ///
    /// # Errors
    /// [`WorkspaceError::Empty`] without content, and the errors of [`Self::write_chunk`].
    pub async fn finish_upload(mut self) -> Result<StagedUpload, WorkspaceError> {
        self.flush_batch().await?;
        self.wait_for_write().await?;
        if self.size == 0 {
            return Err(WorkspaceError::Empty);
        }
        Ok(StagedUpload { file: self.file, room: self.room, size: self.size })
    }

    /// Starts to write the collected content, after the preceding batch is written.
    ///
    /// # Errors
    /// Those of [`Self::write_chunk`].
    pub async fn flush_batch(&mut self) -> Result<(), WorkspaceError> {
        let batch = std::mem::take(&mut self.batch);
        let bytes = std::mem::take(&mut self.batch_bytes) as u64;
        if bytes == 0 {
            return Ok(());
        }
        self.workspace.reserve_space(&mut self.room, DiskUsage { bytes, files: 0 }).await?;
        self.wait_for_write().await?;
        self.size += bytes;
        let file = self.file.clone();
        self.writing = Some(tokio::task::spawn_blocking(move || file.write_batch(&batch, bytes)));
        Ok(())
    }

    /// Writes all content so far and returns its size in bytes.
    ///
    /// # Errors
    /// Those of [`Self::write_chunk`].
    pub async fn flush_and_size(&mut self) -> Result<u64, WorkspaceError> {
        self.flush_batch().await?;
        self.wait_for_write().await?;
        Ok(self.size)
    }

    async fn wait_for_write(&mut self) -> Result<(), WorkspaceError> {
        match &mut self.writing {
            None => Ok(()),
            Some(writing) => {
                let done = writing.await;
                self.writing = None;
                done.unwrap_or_else(|stopped| Err(WorkspaceError::Io(std::io::Error::other(stopped))))
            }
        }
    }
}

impl StagedUpload {
    /// Returns the size in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Places the file atomically: readers see either the previous file or the whole new one. When this returns, the
    /// file survives a power failure.
    ///
    /// # Errors
    /// [`WorkspaceError::NotFound`] and [`WorkspaceError::NotAFolder`] for the destination,
    /// [`WorkspaceError::AlreadyExists`] when a folder has the name, or when all of a thousand numbered names are taken,
    /// and errors of the file system.
    pub async fn place_file(
        self,
        destination: Destination,
        name: FileName,
        same_name: SameName,
    ) -> Result<PlacedUpload, WorkspaceError> {
        off_thread(move || self.place_now(&destination, &name, same_name)).await
    }

    /// Places the file as [`Self::place_file`] does. Blocks.
    pub(crate) fn place_now(
        self,
        destination: &Destination,
        name: &FileName,
        same_name: SameName,
    ) -> Result<PlacedUpload, WorkspaceError> {
        self.file.file.sync_all()?;
        let home = &self.file.home;
        let (path, folder) = match destination {
            Destination::Uploads => (WorkspacePath::uploads_folder(), open_uploads_folder(home)?),
            Destination::Folder(asked) => open_existing_folder(home, asked)?,
            Destination::Temporary => return self.place_in_own_folder(name),
        };
        if path.join_name(name.as_bytes()) == WorkspacePath::temporary_uploads() {
            return Err(NameError::NotAllowed.into()); // in the way of all temporary uploads
        }
        let name = &FileName::of_entry(name_in(folder.as_fd(), name.as_bytes()));
        match same_name {
            SameName::Replace => self.place_in(&path, &folder, name),
            SameName::KeepBoth => self.place_beside(&path, &folder, name),
        }
    }

    /// Places the file under the first free one of its numbered names.
    fn place_beside(
        self,
        path: &WorkspacePath,
        folder: &OwnedFd,
        name: &FileName,
    ) -> Result<PlacedUpload, WorkspaceError> {
        for number in 1..=NUMBERED_MAX {
            let name = name.with_number(number);
            let uploaded = || PlacedUpload {
                name: name.to_string(),
                path: path.join_name(name.as_bytes()),
                size: self.size,
            };
            if self.file.place_new(folder.as_fd(), name.as_bytes())? {
                fs::fsync(folder)?;
                let uploaded = uploaded();
                self.room.commit_usage(DiskUsage::default());
                return Ok(uploaded);
            }
            if self.file.is_same(folder.as_fd(), name.as_bytes(), self.size) {
                return Ok(uploaded());
            }
        }
        Err(WorkspaceError::AlreadyExists)
    }

    fn place_in_own_folder(self, name: &FileName) -> Result<PlacedUpload, WorkspaceError> {
        let file = self.file.clone();
        let all = file.home.open_or_make(open_uploads_folder(&file.home)?.as_fd(), b".tmp")?;
        let id = generate_name()?;
        let own = file.home.open_or_make(all.as_fd(), id.as_bytes())?;
        fs::fsync(&all)?;
        let placed = self.place_in(&WorkspacePath::temporary_uploads().join_name(id.as_bytes()), &own, name);
        match placed {
            Ok(_) => file.books.add_usage(DiskUsage { bytes: 0, files: 1 }),
            Err(_) => drop(fs::unlinkat(&all, id.as_bytes(), AtFlags::REMOVEDIR)),
        }
        placed
    }

    fn place_in(
        self,
        path: &WorkspacePath,
        folder: &OwnedFd,
        name: &FileName,
    ) -> Result<PlacedUpload, WorkspaceError> {
        let replaced = self.file.link_into(folder.as_fd(), name.as_bytes())?;
        fs::fsync(folder)?;
        self.room.commit_usage(replaced);
        Ok(PlacedUpload { name: name.to_string(), path: path.join_name(name.as_bytes()), size: self.size })
    }
}

/// Opens the upload folder. Creates it when it was deleted, and restores the owner's permissions.
fn open_uploads_folder(home: &OpenHome) -> Result<OwnedFd, WorkspaceError> {
    match home.open_folder(&WorkspacePath::uploads_folder()) {
        Err(WorkspaceError::NotFound | WorkspaceError::Denied) => {
            let made = home.open_or_make(home.fd(), b"uploads")?;
            fs::fsync(home.fd())?;
            Ok(made)
        }
        done => done,
    }
}

fn open_existing_folder(
    home: &OpenHome,
    asked: &AskedPath,
) -> Result<(WorkspacePath, OwnedFd), WorkspaceError> {
    asked.first_found(home, |path| Ok((path.clone(), home.open_folder(path)?)))
}

/// Checks that the disk keeps its minimum of free space when `bytes` more are written to the file.
pub(crate) fn check_disk(file: &File, quota: &Quota, bytes: u64) -> Result<(), WorkspaceError> {
    let disk = fs::fstatvfs(file)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // File systems that do not count inodes report none.
    let is_short = disk.f_files > 0 && disk.f_favail < DISK_INODES_FREE_MIN;
    if is_short || free < quota.disk_free_min_bytes.saturating_add(bytes) {
        return Err(WorkspaceError::QuotaExceeded(SpaceShortage::Disk));
    }
    Ok(())
}

/// Generates a unique name from 128 random bits.
pub(crate) fn generate_name() -> Result<String, WorkspaceError> {
    let mut bits = [0u8; FRESH_DIGITS / 2];
    getrandom::fill(&mut bits).map_err(|error| WorkspaceError::Io(std::io::Error::other(error)))?;
    Ok(format!("{:0width$x}", u128::from_be_bytes(bits), width = FRESH_DIGITS))
}

impl StagedFile {
    fn create_staged(workspace: &Workspace) -> Result<Self, WorkspaceError> {
        let home = workspace.open_home()?;
        match fs::openat(home.fd(), c".", STAGING_FLAGS | OFlags::TMPFILE, FILE_MODE) {
            Ok(fd) => Self::new(home, fd, None, workspace.books.clone()),
            // File systems without support for unnamed files.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Self::create_named(workspace, home),
            Err(other) => Err(other.into()),
        }
    }

    fn create_named(workspace: &Workspace, home: OpenHome) -> Result<Self, WorkspaceError> {
        let books = workspace.books.clone();
        let name = staging_name()?;
        books.staging_begins(&name);
        let new = STAGING_FLAGS | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match fs::openat(home.fd(), &name, new, FILE_MODE) {
            Ok(fd) => Self::new(home, fd, Some(name), books),
            Err(errno) => {
                books.staging_ends(&name);
                Err(errno.into())
            }
        }
    }

    fn new(
        home: OpenHome,
        fd: OwnedFd,
        name: Option<Vec<u8>>,
        books: Arc<UsageTracker>,
    ) -> Result<Self, WorkspaceError> {
        let staged = Self { home, file: File::from(fd), name, books };
        staged.home.set_owner_and_mode(staged.file.as_fd(), FILE_MODE)?;
        Ok(staged)
    }

    fn write_batch(&self, batch: &[Bytes], bytes: u64) -> Result<(), WorkspaceError> {
        check_disk(&self.file, self.books.quota(), bytes)?;
        for bytes in batch {
            (&self.file).write_all(bytes)?;
        }
        Ok(())
    }

    /// Links the file into the folder under this name. Returns the replaced entry's usage.
    fn link_into(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<DiskUsage, WorkspaceError> {
        let replaced = match entry_stat(folder, name) {
            Ok(stat) if file_type(&stat) == FileType::Directory => return Err(WorkspaceError::AlreadyExists),
            Ok(stat) if file_type(&stat) == FileType::RegularFile => {
                DiskUsage { bytes: size_charged(&stat), files: 1 }
            }
            Ok(_) => DiskUsage { bytes: 0, files: 1 },
            Err(_) => DiskUsage::default(),
        };
        match self.move_into(folder, name, RenameFlags::empty())? {
            Err(Errno::ISDIR) => Err(WorkspaceError::AlreadyExists),
            Err(Errno::NAMETOOLONG) => Err(NameError::TooLong.into()),
            done => Ok(done.map(|()| replaced)?),
        }
    }

    /// Links the file into the folder under this name. Returns `false` if the name is taken.
    fn place_new(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<bool, WorkspaceError> {
        if entry_stat(folder, name).is_ok() {
            return Ok(false);
        }
        let placed = match self.move_into(folder, name, RenameFlags::NOREPLACE)? {
            // Not every file system has it; then a file that appeared just now is replaced.
            Err(Errno::INVAL) => self.move_into(folder, name, RenameFlags::empty())?,
            done => done,
        };
        match placed {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::ISDIR) => Ok(false),
            Err(Errno::NAMETOOLONG) => Err(NameError::TooLong.into()),
            Err(other) => Err(other.into()),
        }
    }

    /// Moves the file into the folder; it keeps its hidden name if that fails, if it had one.
    fn move_into(
        &self,
        folder: BorrowedFd<'_>,
        name: &[u8],
        flags: RenameFlags,
    ) -> Result<rustix::io::Result<()>, WorkspaceError> {
        let hidden = match &self.name {
            Some(name) => name.clone(),
            None => self.link_hidden()?,
        };
        let renamed = fs::renameat_with(self.home.fd(), &hidden, folder, name, flags);
        if renamed.is_err() && self.name.is_none() {
            let _ = fs::unlinkat(self.home.fd(), &hidden, AtFlags::empty());
        }
        if renamed.is_ok() || self.name.is_none() {
            self.books.staging_ends(&hidden);
        }
        Ok(renamed)
    }

    /// Returns true if the entry of the folder is a file with the same content, of `size` bytes.
    fn is_same(&self, folder: BorrowedFd<'_>, name: &[u8], size: u64) -> bool {
        // A machine may have put a pipe there.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(other) = fs::openat(folder, name, flags, Mode::empty()).map(File::from) else { return false };
        let may_be_same = other.metadata().is_ok_and(|known| known.is_file() && known.len() == size);
        may_be_same && are_equal(&self.file, &other, size).unwrap_or(false)
    }

    /// Gives the unnamed file a hidden name in the home folder: a link cannot replace an entry, and the rename that can
    /// needs a name.
    fn link_hidden(&self) -> Result<Vec<u8>, WorkspaceError> {
        let name = staging_name()?;
        self.books.staging_begins(&name);
        let linked = fs::linkat(&self.file, c"", self.home.fd(), &name, AtFlags::EMPTY_PATH).or_else(|_| {
            // Older kernels require a privilege for the form above.
            let opened = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&self.file));
            fs::linkat(CWD, opened, self.home.fd(), &name, AtFlags::SYMLINK_FOLLOW)
        });
        match linked {
            Ok(()) => Ok(name),
            Err(errno) => {
                self.books.staging_ends(&name);
                Err(errno.into())
            }
        }
    }
}

/// Compares the first `size` bytes of two files.
fn are_equal(one: &File, other: &File, size: u64) -> std::io::Result<bool> {
    let (mut left, mut right) = (vec![0; BATCH_BYTES], vec![0; BATCH_BYTES]);
    let mut at = 0;
    while at < size {
        let length = usize::try_from(size - at).unwrap_or(BATCH_BYTES).min(BATCH_BYTES);
        one.read_exact_at(&mut left[..length], at)?;
        other.read_exact_at(&mut right[..length], at)?;
        if left[..length] != right[..length] {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(name) = &self.name
            && self.books.is_staging(name)
        {
            let _ = fs::unlinkat(self.home.fd(), name, AtFlags::empty());
            self.books.staging_ends(name);
        }
    }
}

fn staging_name() -> Result<Vec<u8>, WorkspaceError> {
    Ok([STAGING_PREFIX.as_bytes(), generate_name()?.as_bytes()].concat())
}

#[cfg(test)]
mod tests;
