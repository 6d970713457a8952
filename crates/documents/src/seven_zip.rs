//! Unpacks 7z archives. Files are in blocks that are compressed as one: the files before a file are unpacked with it.

use std::collections::BTreeMap;
use std::io::Cursor;

use sevenz_rust2::{Archive, ArchiveEntry, BlockDecoder, Error, Password};

use super::ExtractError;
use super::archive::{ENTRIES_MAX, is_of_system};
use super::container::{Ahead, ArchivedFile, DICTIONARY_MAX_KIB, FileContainer, check_length};

/// The signature of an archive.
const SIGNATURE: &[u8] = b"7z\xbc\xaf\x27\x1c";

/// A 7z archive in memory.
pub(super) struct SevenZip<'a> {
    bytes: &'a [u8],
    archive: Archive,
    ahead: Ahead,
}

pub(super) fn is_seven_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(SIGNATURE)
}

impl<'a> SevenZip<'a> {
    pub(super) fn from_bytes(bytes: &'a [u8], ahead: Ahead) -> Result<Self, ExtractError> {
        let memory = DICTIONARY_MAX_KIB as usize;
        let archive = Archive::read_with_memory_limit(&mut Cursor::new(bytes), &Password::empty(), memory)
            .map_err(seven_zip_error)?;
        if archive.files.len() > ENTRIES_MAX {
            return Err(ExtractError::TooManyParts { bound: ENTRIES_MAX });
        }
        Ok(Self { bytes, archive, ahead })
    }

    /// Unpacks a file, and the files of its block to unpack ahead.
    pub(super) fn files_with(mut self, asked: usize) -> Result<BTreeMap<usize, Vec<u8>>, ExtractError> {
        let content = self.unpack_file(asked)?;
        let mut files = self.ahead.into_files();
        files.insert(asked, content);
        Ok(files)
    }
}

impl FileContainer for SevenZip<'_> {
    fn format_name(&self) -> &'static str {
        "7z"
    }

    fn list_files(&mut self) -> Vec<ArchivedFile> {
        let files = self.archive.files.iter().enumerate();
        files
            .filter(|(_, file)| is_regular(file) && !is_of_system(file.name()))
            .map(|(index, file)| ArchivedFile {
                index,
                name: file.name().to_owned(),
                bytes: file.size(),
                is_encrypted: self.archive.is_file_encrypted(index),
            })
            .collect()
    }

    fn lacks_files(&self) -> bool {
        false
    }

    fn unpack_file(&mut self, index: usize) -> Result<Vec<u8>, ExtractError> {
        check_length(self.archive.files.get(index).map_or(0, |file| file.size()))?;
        if let Some(content) = self.ahead.take_unpacked(index)? {
            return Ok(content);
        }
        let map = &self.archive.stream_map;
        // A file without content is in no block.
        let Some(block) = map.file_block_index.get(index).copied().flatten() else { return Ok(Vec::new()) };
        let mut at = map.block_first_file_index.get(block).copied().unwrap_or_default();
        let mut ahead = std::mem::take(&mut self.ahead);
        let (mut source, password, memory) =
            (Cursor::new(self.bytes), Password::empty(), DICTIONARY_MAX_KIB as usize);
        let decoder =
            BlockDecoder::new_with_memory_limit(1, memory, block, &self.archive, &password, &mut source);
        let end = at + decoder.entry_count();
        let unpacked = decoder.for_each_entries(&mut |entry, content| {
            let goes_on = match at < index {
                true => true,
                false => ahead
                    .unpack_entry(at, entry.size(), content)
                    .map_err(|error| Error::Other(error.to_string().into()))?,
            };
            at += 1;
            Ok(goes_on)
        });
        self.ahead = ahead;
        self.ahead.finish_unpacking(index, end, unpacked.map(|_| ()).map_err(seven_zip_error))
    }
}

/// Returns true for a file that is not a folder, link or deletion.
fn is_regular(file: &ArchiveEntry) -> bool {
    /// The attribute of entries whose upper half is the mode of Unix.
    const HAS_MODE: u32 = 0x8000;
    let attributes = file.windows_attributes();
    let is_special = attributes & HAS_MODE != 0 && !matches!(attributes >> 28, 0 | 0o10);
    !(file.is_directory() || file.is_anti_item() || is_special)
}

fn seven_zip_error(error: Error) -> ExtractError {
    match error {
        Error::PasswordRequired | Error::MaybeBadPassword(_) => ExtractError::Encrypted("7z"),
        Error::MaxMemLimited { max_kb, .. } => ExtractError::Bomb { bound: max_kb as u64 * 1024 },
        Error::UnsupportedCompressionMethod(method) if method.contains("AES") => {
            ExtractError::Encrypted("7z")
        }
        error => ExtractError::broken_file("7z", error),
    }
}
