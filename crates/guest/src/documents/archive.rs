//! Reads the ZIP containers of office documents within bounds; sizes that an archive declares are not trusted.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::output::Writer;
use super::{ExtractError, Extracted, Format};

/// The maximum number of entries.
const ENTRIES_MAX: usize = 10_000;
/// The largest part that is unpacked, in bytes.
pub(super) const PART_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The maximum total of all unpacked parts of a workbook, in bytes.
pub(super) const TOTAL_MAX_BYTES: u64 = 192 * 1024 * 1024;

/// An archive in memory.
pub(super) struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
}

impl<'a> Archive<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| ExtractError::broken("ZIP", error))?;
        if zip.len() > ENTRIES_MAX {
            return Err(ExtractError::broken("ZIP", format_args!("it has {} entries", zip.len())));
        }
        Ok(Self { zip })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.zip.index_for_name(name).is_some()
    }

    /// Returns a part as a stream that fails at [`PART_MAX_BYTES`]; `None` if there is no such part.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<impl Read + use<'_, 'a>>, ExtractError> {
        let Some(index) = self.zip.index_for_name(name) else { return Ok(None) };
        let entry = self.zip.by_index(index).map_err(|error| ExtractError::broken("ZIP", error))?;
        if entry.size() > PART_MAX_BYTES {
            return Err(ExtractError::Bomb { bound: PART_MAX_BYTES });
        }
        Ok(Some(Bounded { inner: entry, left: PART_MAX_BYTES }))
    }

    /// Returns a part as text, at most `max_bytes` of it.
    pub(super) fn text(&mut self, name: &str, max_bytes: u64) -> Result<String, ExtractError> {
        let mut bytes = Vec::new();
        if let Some(part) = self.part(name)? {
            part.take(max_bytes).read_to_end(&mut bytes).map_err(|error| unpacking("ZIP", &error))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Lists the files, one a line with its size.
    pub(super) fn list(mut self) -> Extracted {
        let mut writer = Writer::new();
        for index in 0..self.zip.len() {
            if let Ok(entry) = self.zip.by_index_raw(index)
                && entry.is_file()
                && let Ok(name) = entry.name()
            {
                writer.line(&format!("{name}\t{} bytes", entry.size()));
            }
        }
        writer.finish(Format::Archive)
    }

    /// Unpacks and discards everything to check the total size, before a reader without bounds opens the archive.
    pub(super) fn check_total(&mut self) -> Result<(), ExtractError> {
        let mut left = TOTAL_MAX_BYTES;
        for index in 0..self.zip.len() {
            let entry = self.zip.by_index(index).map_err(|error| ExtractError::broken("ZIP", error))?;
            let copied = std::io::copy(&mut entry.take(left + 1), &mut std::io::sink())
                .map_err(|error| ExtractError::broken("ZIP", error))?;
            left = left.checked_sub(copied).ok_or(ExtractError::Bomb { bound: TOTAL_MAX_BYTES })?;
        }
        Ok(())
    }
}

/// Converts an error of a stream from [`Archive::part`].
pub(super) fn unpacking(format: &'static str, error: &std::io::Error) -> ExtractError {
    if error.kind() == std::io::ErrorKind::FileTooLarge {
        return ExtractError::Bomb { bound: PART_MAX_BYTES };
    }
    ExtractError::broken(format, error)
}

/// A reader that fails once the bound is exceeded.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or(std::io::Error::from(std::io::ErrorKind::FileTooLarge))?;
        Ok(read)
    }
}
