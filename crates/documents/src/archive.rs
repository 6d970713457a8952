//! Reads ZIP archives and the containers of office documents within bounds; sizes that an archive declares are not trusted.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{Cursor, Read};
use std::rc::Rc;

use zip::{SUPPORTED_COMPRESSION_METHODS, ZipArchive};

use super::container::{ArchivedFile, FileContainer};
use super::xml_encoding::Utf8Part;
use super::{ExtractError, zip_names};

/// The maximum number of entries.
pub(super) const ENTRIES_MAX: usize = 10_000;
/// The largest part that is unpacked, in bytes.
pub(super) const PART_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum total of all unpacked parts, in bytes.
pub(super) const TOTAL_MAX_BYTES: u64 = 192 * 1024 * 1024;

/// An archive in memory.
pub(super) struct ZipReader<'a> {
    zip: ZipArchive<Cursor<Cow<'a, [u8]>>>,
    /// The bytes that may still be unpacked, of all parts together.
    left: Rc<Cell<u64>>,
    /// The number of entries that the archive declares.
    declared: Option<u64>,
}

impl<'a> ZipReader<'a> {
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        // Each entry takes memory before the library returns the first one.
        let declared = declared_entries(bytes);
        if declared.is_some_and(|entries| entries > ENTRIES_MAX as u64) {
            return Err(ExtractError::TooManyParts { bound: ENTRIES_MAX });
        }
        let open = |bytes| {
            ZipArchive::new(Cursor::new(bytes)).map_err(|error| ExtractError::broken_file("ZIP", error))
        };
        let mut zip = open(Cow::Borrowed(bytes))?;
        if declared.is_some_and(|declared| declared > zip.len() as u64)
            && let Some(renamed) = zip_names::rename_duplicates(bytes)
        {
            zip = open(Cow::Owned(renamed)).unwrap_or(zip);
        }
        if zip.len() > ENTRIES_MAX {
            return Err(ExtractError::TooManyParts { bound: ENTRIES_MAX });
        }
        Ok(Self { zip, left: Rc::new(Cell::new(TOTAL_MAX_BYTES)), declared })
    }

    pub(super) fn has_part(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// Returns the names of all parts.
    pub(super) fn part_names(&self) -> Vec<String> {
        self.zip.file_names().flatten().map(Cow::into_owned).collect()
    }

    /// Returns a part as a stream that fails at [`PART_MAX_BYTES`], and when all parts together exceed
    /// [`TOTAL_MAX_BYTES`]; `None` if the part does not exist.
    pub(super) fn open_part(&mut self, name: &str) -> Result<Option<impl Read + use<'_, 'a>>, ExtractError> {
        let Some(index) = self.zip.index_for_name(name) else { return Ok(None) };
        let entry = self.zip.by_index(index).map_err(|error| ExtractError::broken_file("ZIP", error))?;
        if entry.size() > PART_MAX_BYTES {
            return Err(ExtractError::Bomb { bound: PART_MAX_BYTES });
        }
        let part = Bounded { inner: entry, left: PART_MAX_BYTES, total_left: self.left.clone() };
        Utf8Part::new(part).map(Some).map_err(|error| unpack_error("ZIP", &error))
    }

    /// Returns a part as text; nothing if the part does not exist.
    ///
    /// # Errors
    /// [`ExtractError::Bomb`] if it is longer than `max_bytes`.
    pub(super) fn read_part_text(&mut self, name: &str, max_bytes: u64) -> Result<String, ExtractError> {
        let bytes = self.read_part_start(name, max_bytes + 1)?.unwrap_or_default();
        if bytes.len() as u64 > max_bytes {
            return Err(ExtractError::Bomb { bound: max_bytes });
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns at most `max_bytes` of a part; `None` if the part does not exist.
    pub(super) fn read_part_start(
        &mut self,
        name: &str,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>, ExtractError> {
        let Some(part) = self.open_part(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        part.take(max_bytes).read_to_end(&mut bytes).map_err(|error| unpack_error("ZIP", &error))?;
        Ok(Some(bytes))
    }

    /// Returns the length of a part that the archive declares, in bytes; 0 if the part does not exist.
    pub(super) fn declared_bytes(&mut self, name: &str) -> u64 {
        let index = self.zip.index_for_name(name);
        index.and_then(|index| self.zip.by_index_raw(index).ok()).map_or(0, |entry| entry.size())
    }

    /// Returns true for a part that is encrypted, or packed by a proprietary method.
    pub(super) fn is_encrypted(&mut self, name: &str) -> bool {
        let entry = self.zip.index_for_name(name).and_then(|index| self.zip.by_index_raw(index).ok());
        entry.is_some_and(|entry| {
            entry.encrypted() || !SUPPORTED_COMPRESSION_METHODS.contains(&entry.compression())
        })
    }

    /// Unpacks and discards everything to check the total size, before a reader without bounds opens the archive.
    pub(super) fn check_total(&mut self) -> Result<(), ExtractError> {
        let mut left = TOTAL_MAX_BYTES;
        for index in 0..self.zip.len() {
            let entry = self.zip.by_index(index).map_err(|error| ExtractError::broken_file("ZIP", error))?;
            let copied = std::io::copy(&mut entry.take(left + 1), &mut std::io::sink())
                .map_err(|error| ExtractError::broken_file("ZIP", error))?;
            left = left.checked_sub(copied).ok_or(ExtractError::Bomb { bound: TOTAL_MAX_BYTES })?;
        }
        Ok(())
    }
}

impl FileContainer for ZipReader<'_> {
    fn format_name(&self) -> &'static str {
        "ZIP"
    }

    /// Leaves out the signatures of a signed archive (ASiC), too.
    fn list_files(&mut self) -> Vec<ArchivedFile> {
        let names: Vec<String> = self.zip.file_names_raw().map(decoded_name).collect();
        let is_signed = names.iter().any(|name| is_signature(name));
        let is_hidden = |name: &str| is_of_system(name) || is_signed && is_of_signature(name);
        let mut files = Vec::new();
        for (index, name) in names.into_iter().enumerate().filter(|(_, name)| !is_hidden(name)) {
            let (bytes, is_encrypted) = match self.zip.by_index_raw(index) {
                Ok(entry) if !entry.is_file() => continue,
                Ok(entry) => (entry.size(), entry.encrypted()),
                // It is damaged, and is not found when it is read.
                Err(_) => (0, false),
            };
            files.push(ArchivedFile { index, name, bytes, is_encrypted });
        }
        files
    }

    fn lacks_files(&self) -> bool {
        self.declared.is_some_and(|declared| declared > self.zip.len() as u64)
    }

    fn unpack_file(&mut self, index: usize) -> Result<Vec<u8>, ExtractError> {
        let entry = self.zip.by_index(index).map_err(|error| ExtractError::broken_file("ZIP", error))?;
        let declared = entry.size();
        if declared > PART_MAX_BYTES {
            return Err(ExtractError::Bomb { bound: PART_MAX_BYTES });
        }
        let mut bytes = Vec::new();
        let read = entry.take(declared + 1).read_to_end(&mut bytes);
        read.map_err(|error| ExtractError::broken_file("ZIP", error))?;
        if bytes.len() as u64 > declared {
            return Err(ExtractError::broken_file("ZIP", "a file is longer than it declares"));
        }
        Ok(bytes)
    }
}

/// The letters of the upper half of code page 852, in which Windows writes names in Central Europe. The umlauts are the same in
/// code page 437.
const CODE_PAGE_852: &str = "ÇüéâäůćçłëŐőîŹÄĆÉĹĺôöĽľŚśÖÜŤťŁ×čáíóúĄąŽžĘę¬źČş«»░▒▓│┤ÁÂĚŞ╣║╗╝Żż┐└┴┬├─┼Ăă╚╔╩╦╠═╬¤đĐĎËďŇÍÎě┘┌█▄ŢŮ▀ÓßÔŃńňŠšŔÚŕŰýÝţ´\u{ad}˝˛ˇ˘§÷¸°¨˙űŘř■\u{a0}";

/// Decodes the name of a file: UTF-8, else as old programs write it.
pub(super) fn decoded_name(name: &[u8]) -> String {
    let letter = |byte: &u8| match byte.checked_sub(0x80) {
        Some(upper) => CODE_PAGE_852.chars().nth(usize::from(upper)).unwrap_or(char::REPLACEMENT_CHARACTER),
        None => char::from(*byte),
    };
    std::str::from_utf8(name).map_or_else(|_| name.iter().map(letter).collect(), str::to_owned)
}

/// Returns true for the name of a signature or time stamp of a signed archive, by ETSI EN 319 162-1.
fn is_signature(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let Some(name) = name.strip_prefix("meta-inf/") else { return false };
    let has = |word: &str, ends: &[&str]| name.contains(word) && ends.iter().any(|end| name.ends_with(end));
    has("signature", &[".xml", ".p7s"])
        || has("timestamp", &[".tst"])
        || has("evidencerecord", &[".xml", ".ers"])
}

/// Returns true for the name of a file that only serves the signatures.
fn is_of_signature(name: &str) -> bool {
    name == "mimetype" || name.to_ascii_lowercase().starts_with("meta-inf/")
}

/// Returns true for files that macOS and Windows add to folders.
pub(super) fn is_of_system(name: &str) -> bool {
    const OF_SYSTEM: [&str; 4] = ["__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini"];
    name.split(['/', '\\']).any(|part| OF_SYSTEM.contains(&part) || part.starts_with("._"))
}

/// The error of a part beyond the limit.
const TOTAL_EXCEEDED: &str = "all parts together are too large";
/// The signature of the record at the end of an archive, its length, and the length of the longest comment after it.
const END_MARK: &[u8] = b"PK\x05\x06";
const END_BYTES: usize = 22;
const COMMENT_MAX_BYTES: usize = 65_535;
/// The signature of the ZIP64 record with the true numbers, and of the record that locates it, with its length.
const LARGE_END_MARK: &[u8] = b"PK\x06\x06";
const LOCATOR_MARK: &[u8] = b"PK\x06\x07";
const LOCATOR_BYTES: usize = 20;

/// Returns the number of entries that the end of an archive declares.
fn declared_entries(bytes: &[u8]) -> Option<u64> {
    let from = bytes.len().saturating_sub(END_BYTES + COMMENT_MAX_BYTES);
    let at = from + bytes[from..].windows(END_MARK.len()).rposition(|window| window == END_MARK)?;
    let count = u16::from_le_bytes(*bytes.get(at + 10..)?.first_chunk()?);
    let large = (count == u16::MAX).then(|| large_entries(bytes, at)).flatten();
    large.or(Some(u64::from(count)))
}

/// Returns the number of entries of the ZIP64 record before the end, which some programs write into small archives, too.
fn large_entries(bytes: &[u8], end: usize) -> Option<u64> {
    let locator = bytes[end.checked_sub(LOCATOR_BYTES)?..end].strip_prefix(LOCATOR_MARK)?;
    let at = u64::from_le_bytes(*locator.get(4..)?.first_chunk()?);
    let record = bytes.get(usize::try_from(at).ok()?..)?.strip_prefix(LARGE_END_MARK)?;
    Some(u64::from_le_bytes(*record.get(28..)?.first_chunk()?))
}

/// Converts an error of a stream from [`ZipReader::open_part`].
pub(super) fn unpack_error(format: &'static str, error: &std::io::Error) -> ExtractError {
    if error.kind() == std::io::ErrorKind::FileTooLarge {
        let bound = if error.to_string() == TOTAL_EXCEEDED { TOTAL_MAX_BYTES } else { PART_MAX_BYTES };
        return ExtractError::Bomb { bound };
    }
    ExtractError::broken_file(format, error)
}

/// A reader that fails once the bound is exceeded.
struct Bounded<R> {
    inner: R,
    left: u64,
    total_left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let exceeded = || std::io::Error::from(std::io::ErrorKind::FileTooLarge);
        self.left = self.left.checked_sub(read as u64).ok_or_else(exceeded)?;
        let total_left = self.total_left.get().checked_sub(read as u64);
        let total_exceeded = || std::io::Error::new(std::io::ErrorKind::FileTooLarge, TOTAL_EXCEEDED);
        self.total_left.set(total_left.ok_or_else(total_exceeded)?);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zip_names_default_central_european() {
        assert_eq!(CODE_PAGE_852.chars().count(), 128);
        assert_eq!(
            decoded_name(b"P\xfd\xa1loha \x9f. 1, \xa7lu\x9cou\x9fk\xec k\x85\xe5.txt"),
            "Příloha č. 1, žluťoučký kůň.txt"
        );
        assert_eq!(decoded_name(b"M\x81ller, Stra\xe1e, \x84\x94.pdf"), "Müller, Straße, äö.pdf");
        assert_eq!(decoded_name("Příloha č. 1.txt".as_bytes()), "Příloha č. 1.txt");
    }
}
