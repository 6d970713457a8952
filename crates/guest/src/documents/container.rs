//! Archives whose files are read as documents of their own.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use super::ExtractError;
use super::archive::{Archive, PART_MAX_BYTES};
use super::detect::is_zip;
use super::packed;
use super::seven_zip::{SevenZip, is_seven_zip};

/// The most memory that a decoder may take for what it refers back to.
pub(super) const DICTIONARY_MAX_KIB: u32 = 128 * 1024;
/// The most bytes of files that are kept because they were unpacked with another one.
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
pub(super) trait Container {
    /// Returns the name of its format.
    fn format(&self) -> &'static str;

    /// Returns the files, without those that operating systems add.
    fn files(&mut self) -> Vec<ArchivedFile>;

    /// Returns true if it lists files that it has not, or is damaged after those that it lists.
    fn lacks_files(&self) -> bool;

    /// Unpacks the file of a number, at most [`PART_MAX_BYTES`]. Those after it are asked for in their order.
    fn content(&mut self, index: usize) -> Result<Vec<u8>, ExtractError>;
}

/// Opens an archive; `None` if a file is none. The name of a file that is compressed alone stands in `path`.
pub(super) fn open<'a>(
    path: &Path,
    bytes: &'a [u8],
) -> Result<Option<Box<dyn Container + 'a>>, ExtractError> {
    if is_zip(bytes) {
        return Ok(Some(Box::new(Archive::open(bytes)?)));
    }
    if is_seven_zip(bytes) {
        return Ok(Some(Box::new(SevenZip::open(bytes)?)));
    }
    packed::open(path, bytes)
}

/// Files that follow the one that was asked for, where none can be unpacked without those before it.
#[derive(Default)]
pub(super) struct Ahead {
    files: BTreeMap<usize, Vec<u8>>,
    bytes: u64,
}

impl Ahead {
    pub(super) fn take(&mut self, index: usize) -> Option<Vec<u8>> {
        self.files.remove(&index)
    }

    /// Unpacks a file, and returns true if there is room for another one.
    ///
    /// # Errors
    /// Fails if it is the first one and is damaged or too large. A later one is left out, to be asked for again.
    pub(super) fn unpack(
        &mut self,
        index: usize,
        declared: u64,
        content: &mut dyn Read,
    ) -> Result<bool, ExtractError> {
        let is_first = self.files.is_empty();
        let room = if is_first { PART_MAX_BYTES } else { AHEAD_MAX_BYTES.saturating_sub(self.bytes) };
        if declared > room {
            return if is_first { Err(ExtractError::Bomb { bound: PART_MAX_BYTES }) } else { Ok(false) };
        }
        let mut unpacked = Vec::new();
        let read = content.take(declared).read_to_end(&mut unpacked);
        match read {
            Ok(_) if unpacked.len() as u64 == declared => {}
            _ if !is_first => return Ok(false),
            Ok(_) => return Err(ExtractError::broken("archive", "a file is shorter than it declares")),
            Err(error) => return Err(ExtractError::broken("archive", error)),
        }
        self.bytes += declared;
        self.files.insert(index, unpacked);
        Ok(self.bytes < AHEAD_MAX_BYTES)
    }

    /// Takes the file that was asked for out of those unpacked.
    ///
    /// # Errors
    /// Returns the error of the unpacking if it did not come to the file.
    pub(super) fn taken(
        &mut self,
        index: usize,
        unpacked: Result<(), ExtractError>,
        format: &'static str,
    ) -> Result<Vec<u8>, ExtractError> {
        match self.take(index) {
            Some(content) => Ok(content),
            None => Err(unpacked.err().unwrap_or_else(|| ExtractError::broken(format, "a file is missing"))),
        }
    }
}
