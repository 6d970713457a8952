//! Archives whose files are read as separate documents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::ExtractError;
use super::archive::{PART_MAX_BYTES, ZipReader};
use super::detect::is_zip;
use super::kept_files::KEPT_MAX_BYTES;
use super::packed;
use super::pst::{DataFile, is_pst};
use super::seven_zip::{SevenZip, is_seven_zip};

/// The maximum memory of a decoder's window.
pub(super) const DICTIONARY_MAX_KIB: u32 = 128 * 1024;
/// The maximum number of bytes of files that are kept because they were unpacked with another one.
const AHEAD_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// A file in an archive.
#[derive(Debug, Clone)]
pub(super) struct ArchivedFile {
    /// Its number in the archive.
    pub(super) index: usize,
    /// Its name with its folders.
    pub(super) name: String,
    /// Its declared length, in bytes.
    pub(super) bytes: u64,
    pub(super) is_encrypted: bool,
}

/// An archive of files.
pub(super) trait FileContainer {
    /// Returns the name of its format.
    fn format_name(&self) -> &'static str;

    /// Returns the files except the metadata files that operating systems add.
    fn list_files(&mut self) -> Vec<ArchivedFile>;

    /// Returns true if listed files are missing, or the archive is damaged after the listed ones.
    fn lacks_files(&self) -> bool;

    /// Unpacks the file with this number, at most [`PART_MAX_BYTES`]. Later files are requested in their order.
    fn unpack_file(&mut self, index: usize) -> Result<Vec<u8>, ExtractError>;
}

/// Opens an archive; `None` if the file is not an archive. `path` gives the name of a file that is compressed alone.
pub(super) fn open_container<'a>(
    path: &Path,
    bytes: &'a [u8],
) -> Result<Option<Box<dyn FileContainer + 'a>>, ExtractError> {
    if is_zip(bytes) {
        return Ok(Some(Box::new(ZipReader::from_bytes(bytes)?)));
    }
    if is_seven_zip(bytes) {
        return Ok(Some(Box::new(SevenZip::from_bytes(bytes, Ahead::default())?)));
    }
    if is_pst(bytes) {
        return Ok(Some(Box::new(DataFile::from_bytes(bytes)?)));
    }
    packed::open_packed(path, bytes)
}

/// Unpacks one file of an archive and reads no further; `None` if `bytes` are not an archive.
pub(super) fn unpack_single_file(bytes: &[u8], index: usize) -> Result<Option<Vec<u8>>, ExtractError> {
    if is_zip(bytes) {
        return ZipReader::from_bytes(bytes)?.unpack_file(index).map(Some);
    }
    if is_seven_zip(bytes) {
        return SevenZip::from_bytes(bytes, Ahead::without_wanted_files())?.unpack_file(index).map(Some);
    }
    if is_pst(bytes) {
        return DataFile::from_bytes(bytes)?.unpack_file(index).map(Some);
    }
    packed::unpack_packed_file(bytes, index)
}

/// Unpacks the file with this number, and as room permits other wanted files that would otherwise be unpacked from the beginning
/// again. Returns `None` if `bytes` are not an archive.
///
/// # Errors
/// Fails if the requested file cannot be unpacked.
pub(super) fn unpack_wanted_files(
    bytes: &[u8],
    asked: usize,
    wanted: &BTreeSet<usize>,
) -> Result<Option<BTreeMap<usize, Vec<u8>>>, ExtractError> {
    if is_seven_zip(bytes) {
        return SevenZip::from_bytes(bytes, Ahead::with_wanted_files(wanted))?.files_with(asked).map(Some);
    }
    match packed::unpack_tar_files(bytes, asked, wanted)? {
        Some(files) => Ok(Some(files)),
        None => Ok(unpack_single_file(bytes, asked)?.map(|content| BTreeMap::from([(asked, content)]))),
    }
}

/// Files after the requested one, in formats where each needs the files before it to be unpacked first.
pub(super) struct Ahead {
    files: BTreeMap<usize, Vec<u8>>,
    bytes: u64,
    bytes_max: u64,
    /// The files that will be requested; `None` if all may be.
    wanted: Option<BTreeSet<usize>>,
    /// Files that cannot be reached, because one before them is damaged.
    unreachable: Vec<Range<usize>>,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { bytes_max: AHEAD_MAX_BYTES, ..Self::without_wanted_files() }
    }
}

impl Ahead {
    /// Unpacks only requested files.
    pub(super) const fn without_wanted_files() -> Self {
        Self { files: BTreeMap::new(), bytes: 0, bytes_max: 0, wanted: None, unreachable: Vec::new() }
    }

    /// Unpacks wanted files alone.
    pub(super) fn with_wanted_files(wanted: &BTreeSet<usize>) -> Self {
        Self { bytes_max: KEPT_MAX_BYTES, wanted: Some(wanted.clone()), ..Self::without_wanted_files() }
    }

    /// Takes all files that were unpacked.
    pub(super) fn into_files(self) -> BTreeMap<usize, Vec<u8>> {
        self.files
    }

    /// Returns a file that was unpacked with another one; `None` if it has to be unpacked now.
    ///
    /// # Errors
    /// Fails if it is known that it cannot be unpacked.
    pub(super) fn take_unpacked(&mut self, index: usize) -> Result<Option<Vec<u8>>, ExtractError> {
        if self.unreachable.iter().any(|files| files.contains(&index)) {
            return Err(ExtractError::broken_file("archive", "a file before this one is damaged"));
        }
        let content = self.files.remove(&index);
        if content.is_none() {
            self.files.clear();
            self.bytes = 0;
        }
        Ok(content)
    }

    /// Unpacks a file, and returns true if there is room for another one.
    ///
    /// # Errors
    /// Fails if it is the first one and is damaged. A later one is left out, to be requested again.
    pub(super) fn unpack_entry(
        &mut self,
        index: usize,
        declared: u64,
        content: &mut dyn Read,
    ) -> Result<bool, ExtractError> {
        let is_first = self.files.is_empty();
        let is_last =
            self.wanted.as_ref().is_some_and(|wanted| wanted.last().is_none_or(|last| *last <= index));
        if !is_first && self.wanted.as_ref().is_some_and(|wanted| !wanted.contains(&index)) {
            return Ok(!is_last);
        }
        if !is_first && declared > self.bytes_max.saturating_sub(self.bytes) {
            return Ok(false);
        }
        let mut unpacked = Vec::new();
        match content.take(declared).read_to_end(&mut unpacked) {
            Ok(_) if unpacked.len() as u64 == declared => {}
            _ if !is_first => return Ok(false),
            Ok(_) => return Err(ExtractError::broken_file("archive", "a file is shorter than it declares")),
            Err(error) => return Err(ExtractError::broken_file("archive", error)),
        }
        self.bytes += declared;
        self.files.insert(index, unpacked);
        Ok(self.bytes < self.bytes_max && !is_last)
    }

    /// Takes the requested file out of the unpacked ones. If it was not reached, the files from it to `end` are out of
    /// reach.
    ///
    /// # Errors
    /// Returns the error of the unpacking.
    pub(super) fn finish_unpacking(
        &mut self,
        index: usize,
        end: usize,
        unpacked: Result<(), ExtractError>,
    ) -> Result<Vec<u8>, ExtractError> {
        if let Some(content) = self.files.remove(&index) {
            return Ok(content);
        }
        self.unreachable.push(index..end);
        Err(unpacked.err().unwrap_or_else(|| ExtractError::broken_file("archive", "a file is missing")))
    }
}

/// Fails for a file that is too large to be unpacked.
pub(super) fn check_length(declared: u64) -> Result<(), ExtractError> {
    if declared > PART_MAX_BYTES { Err(ExtractError::Bomb { bound: PART_MAX_BYTES }) } else { Ok(()) }
}
