//! Writes and reads the entries that the `tar` crate does not support exactly: long names, links, sparse files.
//!
//! The crate normalizes paths and links when it writes them, so the restored path would differ.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tar::{EntryType, Header};

/// The block size of archives.
const BLOCK_BYTES: u64 = 512;

/// The number of empty blocks at the end of an archive.
const END_BLOCKS: usize = 2;

/// The type of an entry that holds the long name or link target of the next entry.
const LONG_NAME: u8 = b'L';
const LONG_LINK: u8 = b'K';

/// The name of entries that only describe the next one.
const ABOUT_NEXT: &[u8] = b"././@LongLink";

/// The PAX records that mark a sparse file.
const SPARSE_MAJOR: (&str, &str) = ("GNU.sparse.major", "1");
const SPARSE_MINOR: (&str, &str) = ("GNU.sparse.minor", "0");
const SPARSE_NAME: &str = "GNU.sparse.name";
const SPARSE_SIZE: &str = "GNU.sparse.realsize";

/// Limits for sparse maps that are read: more pieces than a backup writes for a file, and the digits of a number.
const PIECES_MAX: u64 = 2_000_000;
const DIGITS_MAX: usize = 20;

/// Writes the header of an entry, preceded by long-name entries if necessary.
pub(super) fn begin_entry(
    out: &mut impl Write,
    header: &mut Header,
    path: &Path,
    link: Option<&Path>,
) -> io::Result<()> {
    let path = path.as_os_str().as_bytes();
    if fill_field(&mut header.as_old_mut().name, path) {
        about_next(out, LONG_NAME, &[path, b"\0"].concat())?;
    }
    if let Some(link) = link.map(|link| link.as_os_str().as_bytes())
        && fill_field(&mut header.as_old_mut().linkname, link)
    {
        about_next(out, LONG_LINK, &[link, b"\0"].concat())?;
    }
    header.set_cksum();
    out.write_all(header.as_bytes())
}

/// Pads the content of an entry of this length to whole blocks.
pub(super) fn end_entry(out: &mut impl Write, length: u64) -> io::Result<()> {
    out.write_all(&[0; BLOCK_BYTES as usize][..padding_len(length)])
}

/// Writes the end of an archive.
pub(super) fn end_archive(out: &mut impl Write) -> io::Result<()> {
    (0..END_BLOCKS).try_for_each(|_| out.write_all(&[0; BLOCK_BYTES as usize]))
}

/// Writes the PAX header that marks the next entry as a sparse file.
pub(super) fn announce_holes(out: &mut impl Write, path: &Path, size: u64) -> io::Result<()> {
    let mut records = Vec::new();
    let mut add = |key: &str, value: &[u8]| {
        // The length field counts its own digits.
        let rest = key.len() + value.len() + 3;
        let length = (rest..).find(|length| length.to_string().len() + rest == *length).unwrap_or(rest);
        records.extend_from_slice(format!("{length} {key}=").as_bytes());
        records.extend_from_slice(value);
        records.push(b'\n');
    };
    add(SPARSE_MAJOR.0, SPARSE_MAJOR.1.as_bytes());
    add(SPARSE_MINOR.0, SPARSE_MINOR.1.as_bytes());
    add(SPARSE_NAME, path.as_os_str().as_bytes());
    add(SPARSE_SIZE, size.to_string().as_bytes());
    about_next(out, EntryType::XHeader.as_byte(), &records)
}

/// Creates the sparse map, which precedes the content of a sparse file and lists its pieces.
pub(super) fn sparse_map(pieces: &[Range<u64>], size: u64) -> Vec<u8> {
    let end = pieces.last().map_or(0, |last| last.end);
    // The last piece marks the end of the file.
    let hole = (end < size || pieces.is_empty()).then_some(size..size);
    let mut map = format!("{}\n", pieces.len() + usize::from(hole.is_some()));
    for piece in pieces.iter().chain(&hole) {
        // Writing to a string cannot fail.
        let _ = write!(map, "{}\n{}\n", piece.start, piece.end - piece.start);
    }
    let mut map = map.into_bytes();
    map.resize(map.len() + padding_len(map.len() as u64), 0);
    map
}

/// Returns true if the entry is a sparse file, as marked by [`announce_holes`].
pub(super) fn has_holes<R: Read>(entry: &mut tar::Entry<'_, R>) -> io::Result<bool> {
    let Some(records) = entry.pax_extensions()? else { return Ok(false) };
    for record in records {
        let record = record?;
        if record.key_bytes() == SPARSE_MAJOR.0.as_bytes() {
            return match record.value_bytes() == SPARSE_MAJOR.1.as_bytes() {
                true => Ok(true),
                false => Err(io::Error::other("a sparse file has an unknown format")),
            };
        }
    }
    Ok(false)
}

/// Reads a sparse map that [`sparse_map`] created. The content follows it.
pub(super) fn read_map(entry: &mut impl Read) -> io::Result<Vec<Range<u64>>> {
    let wrong = || io::Error::other("the extents of a sparse file are inconsistent");
    let mut reader = MapReader { entry, block: [0; BLOCK_BYTES as usize], at: BLOCK_BYTES as usize };
    let count = reader.read_number()?;
    if count > PIECES_MAX {
        return Err(wrong());
    }
    let (mut pieces, mut end) = (Vec::new(), 0);
    for _ in 0..count {
        let (start, length) = (reader.read_number()?, reader.read_number()?);
        let piece = start..start.checked_add(length).ok_or_else(wrong)?;
        if piece.start < end || i64::try_from(piece.end).is_err() {
            return Err(wrong());
        }
        end = piece.end;
        pieces.push(piece);
    }
    Ok(pieces)
}

struct MapReader<'a, R> {
    entry: &'a mut R,
    block: [u8; BLOCK_BYTES as usize],
    at: usize,
}

impl<R: Read> MapReader<'_, R> {
    fn read_number(&mut self) -> io::Result<u64> {
        let mut digits = String::new();
        while digits.len() <= DIGITS_MAX {
            if self.at == self.block.len() {
                self.entry.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            if byte == b'\n' {
                return digits.parse().map_err(io::Error::other);
            }
            digits.push(char::from(byte));
        }
        Err(io::Error::other("a number is too long"))
    }
}

/// Copies a name into a field, truncated if necessary. Returns true if it was truncated.
fn fill_field(field: &mut [u8], name: &[u8]) -> bool {
    let fits = name.len().min(field.len());
    field.fill(0);
    field[..fits].copy_from_slice(&name[..fits]);
    fits < name.len()
}

fn about_next(out: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut header = Header::new_gnu();
    fill_field(&mut header.as_old_mut().name, ABOUT_NEXT);
    header.set_entry_type(EntryType::new(kind));
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header.set_cksum();
    out.write_all(header.as_bytes())?;
    out.write_all(content)?;
    end_entry(out, content.len() as u64)
}

fn padding_len(length: u64) -> usize {
    // The result is less than a block.
    (length.next_multiple_of(BLOCK_BYTES) - length) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_map_is_refused() {
        for wrong in ["", "1\n5\n", "x\n", "2\n5\n5\n6\n1\n", "1\n1\n18446744073709551615\n", "99999999999\n"]
        {
            let mut block = wrong.as_bytes().to_vec();
            block.resize(BLOCK_BYTES as usize, 0);
            assert!(read_map(&mut &block[..]).is_err(), "{wrong:?}");
        }
        assert!(read_map(&mut &b"1\n"[..]).is_err());
    }

    proptest! {
        #[test]
        fn sparse_map_round_trips(lengths in prop::collection::vec((0..1_u64 << 40, 1..1_u64 << 40), 0..200)) {
            let mut end = 0;
            let pieces: Vec<_> = lengths.iter().map(|(gap, length)| {
                let start = end + gap;
                end = start + length;
                start..end
            }).collect();
            for size in [end, end + 1] {
                let written = sparse_map(&pieces, size);
                prop_assert_eq!(written.len() % BLOCK_BYTES as usize, 0);
                let read = read_map(&mut &written[..]).expect("a map");
                prop_assert_eq!(read.last().map(|last| last.end), Some(size));
                prop_assert_eq!(&read[..pieces.len()], &pieces[..]);
            }
        }
    }
}
