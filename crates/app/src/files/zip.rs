//! Writes a ZIP archive as a stream (APPNOTE 6.3): the content uncompressed, followed by sizes and checksums,
//! which are not known before.

use domain::time::Timestamp;
use flate2::Crc;

/// The maximum number of entries and bytes of an archive without ZIP64.
pub(super) const ENTRIES_MAX: usize = 10_000;
pub(super) const BYTES_MAX: u64 = 4_000_000_000;

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DATA_DESCRIPTOR: u32 = 0x0807_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END_OF_DIRECTORY: u32 = 0x0605_4b50;
/// ZIP 2.0, created on Unix.
const VERSION: u16 = 20;
const MADE_BY: u16 = 3 << 8 | VERSION;
/// The name is UTF-8; sizes and checksum follow the content.
const UTF_8: u16 = 1 << 11;
const DESCRIBED_LATER: u16 = 1 << 3;
/// The attributes of a regular file and of a folder on Unix.
const FILE_MODE: u32 = 0o100_644 << 16;
const FOLDER_MODE: u32 = 0o040_755 << 16 | 0x10;

/// An entry that is written.
struct ZipEntry {
    name: Vec<u8>,
    is_folder: bool,
    /// The date and time of MS-DOS.
    modified: (u16, u16),
    checksum: u32,
    size: u32,
    offset: u32,
}

/// Returns the bytes around the contents of an archive's entries.
#[derive(Default)]
pub(super) struct ZipWriter {
    written: Vec<ZipEntry>,
    checksum: Crc,
    offset: u64,
}

impl ZipWriter {
    /// Returns the length of the archive so far.
    pub(super) fn len(&self) -> u64 {
        self.offset
    }

    /// Returns a whole entry of a folder.
    pub(super) fn add_folder(&mut self, name: &str, modified: Timestamp) -> Vec<u8> {
        let header = self.write_header(format!("{name}/"), true, modified);
        self.count_bytes(header)
    }

    /// Begins a file. Its content follows, each piece passed to [`Self::count_content`], then [`Self::end_file`].
    pub(super) fn begin_file(&mut self, name: &str, modified: Timestamp) -> Vec<u8> {
        self.checksum = Crc::new();
        let header = self.write_header(name.to_owned(), false, modified);
        self.count_bytes(header)
    }

    /// Counts a piece of a file's content.
    pub(super) fn count_content(&mut self, bytes: &[u8]) {
        self.checksum.update(bytes);
        self.offset += bytes.len() as u64;
    }

    /// Returns the record after a file's content.
    pub(super) fn end_file(&mut self) -> Vec<u8> {
        let (checksum, size) = (self.checksum.sum(), self.checksum.amount());
        let descriptor = [DATA_DESCRIPTOR, checksum, size, size].map(u32::to_le_bytes).concat();
        if let Some(file) = self.written.last_mut() {
            (file.checksum, file.size) = (checksum, size);
        }
        self.count_bytes(descriptor)
    }

    /// Returns the directory at the end of the archive.
    pub(super) fn end_archive(&mut self) -> Vec<u8> {
        let begin = self.offset;
        let mut directory: Vec<u8> = self.written.iter().flat_map(central_header).collect();
        let count = u16::try_from(self.written.len()).unwrap_or(u16::MAX);
        let size = u32::try_from(directory.len()).unwrap_or(u32::MAX);
        directory.extend(END_OF_DIRECTORY.to_le_bytes());
        directory.extend([0, 0, count, count].map(u16::to_le_bytes).concat());
        directory.extend([size, u32::try_from(begin).unwrap_or(u32::MAX)].map(u32::to_le_bytes).concat());
        directory.extend([0, 0]);
        self.count_bytes(directory)
    }

    fn write_header(&mut self, name: String, is_folder: bool, modified: Timestamp) -> Vec<u8> {
        let name = name.into_bytes();
        let flags = if is_folder { UTF_8 } else { UTF_8 | DESCRIBED_LATER };
        let modified = dos_time(modified);
        let mut header = LOCAL_HEADER.to_le_bytes().to_vec();
        header.extend([VERSION, flags, 0, modified.1, modified.0].map(u16::to_le_bytes).concat());
        header.extend([0; 12]);
        header.extend([name_length(&name), 0].map(u16::to_le_bytes).concat());
        header.extend(&name);
        let offset = u32::try_from(self.offset).unwrap_or(u32::MAX);
        self.written.push(ZipEntry { name, is_folder, modified, checksum: 0, size: 0, offset });
        header
    }

    fn count_bytes(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.offset += bytes.len() as u64;
        bytes
    }
}

fn central_header(entry: &ZipEntry) -> Vec<u8> {
    let (flags, mode) =
        if entry.is_folder { (UTF_8, FOLDER_MODE) } else { (UTF_8 | DESCRIBED_LATER, FILE_MODE) };
    let mut header = CENTRAL_HEADER.to_le_bytes().to_vec();
    let (date, time) = entry.modified;
    header.extend([MADE_BY, VERSION, flags, 0, time, date].map(u16::to_le_bytes).concat());
    header.extend([entry.checksum, entry.size, entry.size].map(u32::to_le_bytes).concat());
    // Neither an extra field nor a comment, on the first disk, no internal attributes.
    header.extend([name_length(&entry.name), 0, 0, 0, 0].map(u16::to_le_bytes).concat());
    header.extend([mode, entry.offset].map(u32::to_le_bytes).concat());
    header.extend(&entry.name);
    header
}

/// Names are shorter: a path in a workspace has at most 4,095 bytes, three times that when it is percent-encoded.
fn name_length(name: &[u8]) -> u16 {
    u16::try_from(name.len()).unwrap_or(u16::MAX)
}

/// Returns the date and time of MS-DOS in UTC, which begin in 1980.
fn dos_time(at: Timestamp) -> (u16, u16) {
    let Ok(at) = jiff::Timestamp::from_microsecond(at.micros()) else { return (0x21, 0) };
    let at = at.to_zoned(jiff::tz::TimeZone::UTC);
    let number = |value: i8| u16::try_from(value).unwrap_or(0);
    let year = u16::try_from(at.year() - 1980).unwrap_or(0).min(127);
    let date = year << 9 | number(at.month()) << 5 | number(at.day());
    let time = number(at.hour()) << 11 | number(at.minute()) << 5 | (number(at.second()) / 2);
    (date, time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_ms_dos() {
        // 23 November 2026, 08:30 UTC.
        let (date, time) = dos_time(Timestamp::from_micros(1_795_422_600_000_000));
        assert_eq!((date >> 9, date >> 5 & 15, date & 31), (46, 11, 23));
        assert_eq!((time >> 11, time >> 5 & 63, time & 31), (8, 30, 0));
    }
}
