//! Reads an archive's entries one after another, from a source that is not trusted.
//!
//! The entries are read raw, and their extensions (long names, records of POSIX) are interpreted here: the crate would
//! read such a record into memory whole, regardless of its size.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;

use sha2::{Digest, Sha256};
use tar::{Archive, Entry, EntryType};

use crate::error::MachineImageError;

/// The largest record that extends an entry, in bytes: more than the longest path.
const RECORD_MAX_BYTES: u64 = 64 * 1024;
/// The longest path of an entry, in bytes.
const PATH_MAX_BYTES: usize = 4096;

/// The header of an entry, with its extensions.
#[derive(Debug)]
pub(crate) struct EntryHead {
    pub(crate) path: OsString,
    pub(crate) kind: ArchiveEntryKind,
    pub(crate) executable: bool,
    /// Seconds since 1970.
    pub(crate) modified: u64,
}

/// The kind of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ArchiveEntryKind {
    File,
    Folder,
    Symlink(OsString),
    /// Another name of a file before it.
    HardLink(OsString),
    /// A device, a pipe, or something unknown.
    Other,
}

/// The extensions that apply to the next entry.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    modified: Option<u64>,
}

/// Calls `take` for each entry, with a reader of its content, and returns the SHA-256 of the whole archive.
pub(crate) fn for_each<R: Read>(
    source: R,
    mut take: impl FnMut(EntryHead, &mut dyn Read) -> Result<(), MachineImageError>,
) -> Result<String, MachineImageError> {
    let mut archive = Archive::new(Hashed { source, digest: Sha256::new() });
    let mut extensions = Extensions::default();
    for entry in archive.entries().map_err(unreadable_archive)?.raw(true) {
        let mut entry = entry.map_err(unreadable_archive)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => extensions.path = Some(without_end(read_record(&mut entry)?)),
            EntryType::GNULongLink => extensions.link = Some(without_end(read_record(&mut entry)?)),
            EntryType::XHeader => read_records(&read_record(&mut entry)?, &mut extensions)?,
            // Defaults for all entries, such as a comment with the commit of an export.
            EntryType::XGlobalHeader => drop(read_record(&mut entry)?),
            EntryType::GNUSparse => {
                return Err(invalid_archive("sparse files are not supported: make it without `--sparse`"));
            }
            _ => {
                let head = parse_head(&entry, std::mem::take(&mut extensions))?;
                take(head, &mut entry)?;
            }
        }
    }
    // The program that writes the archive must not see its pipe closed.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink()).map_err(unreadable_archive)?;
    Ok(encode_hex(&rest.digest.finalize()))
}

/// Returns a reader of the archive without its compression, gzip or Zstandard.
pub(crate) fn decompress_archive<'a>(source: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let mut source = BufReader::new(source);
    let start = source.fill_buf()?;
    Ok(if start.starts_with(&GZIP) {
        Box::new(flate2::bufread::MultiGzDecoder::new(source))
    } else if start.starts_with(&ZSTANDARD) {
        Box::new(zstd::Decoder::with_buffer(source)?)
    } else {
        Box::new(source)
    })
}

pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse_head<R: Read>(entry: &Entry<'_, R>, extensions: Extensions) -> Result<EntryHead, MachineImageError> {
    let header = entry.header();
    let link = extensions.link.or_else(|| header.link_name_bytes().map(Into::into)).unwrap_or_default();
    let link = OsString::from_vec(link);
    let path = extensions.path.unwrap_or_else(|| header.path_bytes().into_owned());
    if path.len() > PATH_MAX_BYTES || link.len() > PATH_MAX_BYTES {
        return Err(invalid_archive("a path is longer than 4096 bytes"));
    }
    let kind = match header.entry_type() {
        EntryType::Regular | EntryType::Continuous => ArchiveEntryKind::File,
        EntryType::Directory => ArchiveEntryKind::Folder,
        EntryType::Symlink => ArchiveEntryKind::Symlink(link),
        EntryType::Link => ArchiveEntryKind::HardLink(link),
        _ => ArchiveEntryKind::Other,
    };
    Ok(EntryHead {
        path: OsString::from_vec(path),
        kind,
        executable: header.mode().map_err(unreadable_archive)? & 0o111 != 0,
        modified: extensions.modified.map_or_else(|| header.mtime(), Ok).map_err(unreadable_archive)?,
    })
}

fn entry_size<R: Read>(entry: &Entry<'_, R>) -> Result<u64, MachineImageError> {
    entry.header().entry_size().map_err(unreadable_archive)
}

/// Reads the content of an entry that extends the next one.
fn read_record<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, MachineImageError> {
    if entry_size(entry)? > RECORD_MAX_BYTES {
        return Err(invalid_archive("a header is larger than 64 KiB"));
    }
    let mut content = Vec::new();
    entry.take(RECORD_MAX_BYTES).read_to_end(&mut content).map_err(unreadable_archive)?;
    Ok(content)
}

fn without_end(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    name.truncate(end);
    name
}

/// Interprets records of POSIX: `LENGTH KEY=VALUE\n`, where the length includes itself.
fn read_records(mut text: &[u8], extensions: &mut Extensions) -> Result<(), MachineImageError> {
    let wrong = || invalid_archive("a header cannot be read");
    while !text.is_empty() {
        let space = text.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length =
            parse_number(&text[..space]).and_then(|length| usize::try_from(length).ok()).ok_or_else(wrong)?;
        let record =
            text.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n")).ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => extensions.path = Some(value.to_vec()),
            b"linkpath" => extensions.link = Some(value.to_vec()),
            // With fractions of seconds, or negative for times before 1970.
            b"mtime" => {
                extensions.modified =
                    value.split(|byte| *byte == b'.').next().map(|s| parse_number(s).unwrap_or(0))
            }
            // A file of 8 GiB and more, or one with holes.
            b"size" => return Err(invalid_archive("a file is larger than 8 GiB")),
            key if key.starts_with(b"GNU.sparse.") => {
                return Err(invalid_archive("sparse files are not supported: make it without `--sparse`"));
            }
            _ => {}
        }
        text = &text[length..];
    }
    Ok(())
}

fn parse_number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.parse().ok()
}

fn unreadable_archive(error: io::Error) -> MachineImageError {
    MachineImageError::Archive(format!("it cannot be read: {error}"))
}

fn invalid_archive(reason: &str) -> MachineImageError {
    MachineImageError::Archive(reason.to_owned())
}

/// Computes the digest of the bytes read.
struct Hashed<R> {
    source: R,
    digest: Sha256,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.digest.update(&buffer[..read]);
        Ok(read)
    }
}
