//! Reads books of Mobipocket and Kindle (`.mobi`, `.azw3`, `.prc`): HTML in the compressed records of a Palm database. A page is
//! a page of the text in older books, and a file of the text in books since 2011.

use super::embedded_images::retain_recognizable_of;
use super::output::DocumentWriter;
use super::{DocumentFormat, ExtractError, Extracted, OUTPUT_MAX_BYTES, PAGES_MAX, html, loose_images};
use huffman::Huffman;

mod huffman;

/// The place of a database's type and creator, and the two that books have.
const KIND_AT: usize = 60;
const KINDS: [&[u8]; 2] = [b"BOOKMOBI", b"TEXtREAd"];
/// The place of the list of a database's records, and the bytes of an entry.
const RECORDS_AT: usize = 78;
const ENTRY_BYTES: usize = 8;
/// The maximum number of bytes of a book's HTML, which is longer than its text.
const HTML_MAX_BYTES: usize = 3 * OUTPUT_MAX_BYTES;
/// The maximum number of records of text.
const RECORDS_MAX: u16 = 16_384;
/// The maximum number of bytes that a record of text may unpack to; books have 4,096.
const RECORD_MAX_BYTES: usize = 64 * 1024;
/// The version of books of several files.
const KINDLE_8: u32 = 8;
/// The code page of UTF-8.
const UTF_8: u32 = 65_001;
/// The name of the format in the names of its images, which are numbered records.
pub(super) const IMAGES: &str = "mobi";
/// The beginning of an image's address in books of several files, before its number of digits and letters up to `V`.
const EMBEDDED: &str = "kindle:embed:";
const DIGITS_OF_EMBEDDED: u32 = 32;

/// Returns true if a file is a book.
pub(super) fn is_book(bytes: &[u8]) -> bool {
    bytes.get(KIND_AT..KIND_AT + 8).is_some_and(|kind| KINDS.contains(&kind))
}

/// Extracts the text of a book.
pub(super) fn extract_mobi(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let book = MobiBook::from_bytes(bytes)?;
    let (html, is_whole) = book.unpack_html()?;
    let html = book.decode_html(&html);
    let mut writer = DocumentWriter::new();
    let mut page = 0;
    for part in book.split_pages(&html) {
        let part = html::extract_html(part.as_bytes());
        if !part.segments.is_empty() {
            page += 1;
            writer.begin_slide(page);
            writer.append_document(&part);
        }
        // An image without text beside it belongs to the page before.
        if page > 0 {
            let records = part.images.iter().filter_map(|image| book.image_record(&image.part));
            records.for_each(|record| writer.add_image(loose_images::image_part_name(IMAGES, record)));
        }
        if writer.is_full() {
            break;
        }
    }
    let mut extracted = writer.finish_document(DocumentFormat::Book);
    extracted.truncated |= !is_whole;
    retain_recognizable_of(&mut extracted, |part| loose_images::find_loose_image(bytes, part));
    Ok(extracted)
}

/// Returns the image in a record of a book.
pub(super) fn find_mobi_image(bytes: &[u8], record: &str) -> Option<Vec<u8>> {
    let database = Some(Database { bytes }).filter(|_| is_book(bytes))?;
    database.find_record(record.parse().ok()?).map(<[u8]>::to_vec)
}

/// The way in which the records of text are packed.
enum Packing<'a> {
    Plain,
    PalmDoc,
    Huffman(Huffman<'a>),
}

struct MobiBook<'a> {
    database: Database<'a>,
    packing: Packing<'a>,
    /// The first record after the text records.
    text_end: u16,
    /// The bytes of all text, before other parts of a book of several files, such as styles.
    text_bytes: usize,
    code_page: u32,
    /// The record of the first image, if the book has any.
    first_image: Option<u32>,
    /// Flags for the trailing data of each record.
    trailers: u16,
    has_files: bool,
}

impl<'a> MobiBook<'a> {
    fn from_bytes(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        let database = Database { bytes };
        let head = database.find_record(0).ok_or_else(|| broken_book("its header is missing"))?;
        let short = || broken_book("its header is cut off");
        let packing = u16_at(head, 0).ok_or_else(short)?;
        let text_end = u16_at(head, 8).ok_or_else(short)?.min(RECORDS_MAX).saturating_add(1);
        if u16_at(head, 12).unwrap_or(0) != 0 {
            return Err(ExtractError::Encrypted("book"));
        }
        // Books of Palm's reader have nothing more.
        let mobi = head.get(16..).filter(|mobi| mobi.starts_with(b"MOBI"));
        let length = mobi.and_then(|mobi| u32_at(mobi, 4)).unwrap_or(0);
        let field = |at: usize| mobi.filter(|_| at < length as usize).and_then(|mobi| u32_at(mobi, at));
        let packing = match packing {
            1 => Packing::Plain,
            2 => Packing::PalmDoc,
            0x4448 => {
                let (Some(first), Some(count)) = (field(96), field(100)) else { return Err(short()) };
                let records = first..first.saturating_add(count);
                let mut records =
                    records.map_while(|number| database.find_record(u16::try_from(number).ok()?));
                Packing::Huffman(
                    Huffman::from_records(&mut records)
                        .ok_or_else(|| broken_book("its dictionary is damaged"))?,
                )
            }
            _ => return Err(broken_book("it is packed in an unknown way")),
        };
        let has_files = field(20) == Some(KINDLE_8);
        // The list of the parts of the text; the HTML is the first of them.
        let parts = field(176)
            .filter(|_| has_files)
            .and_then(|number| database.find_record(u16::try_from(number).ok()?));
        let first_end = parts.filter(|parts| parts.starts_with(b"FDST")).and_then(|parts| u32_at(parts, 16));
        Ok(Self {
            packing,
            text_end,
            text_bytes: first_end.map_or(usize::MAX, |end| end as usize).min(HTML_MAX_BYTES),
            code_page: field(12).unwrap_or(1252),
            first_image: field(92).filter(|number| *number != u32::MAX),
            // Two bytes at an odd place of four.
            trailers: field(224).map_or(0, |flags| (flags & 0xffff) as u16),
            has_files,
            database,
        })
    }

    /// Unpacks the HTML. Also returns false if it is incomplete.
    fn unpack_html(&self) -> Result<(Vec<u8>, bool), ExtractError> {
        let mut html = Vec::new();
        let mut is_whole = true;
        for number in 1..self.text_end {
            if html.len() >= self.text_bytes {
                break;
            }
            let Some(record) = self.database.find_record(number) else {
                is_whole = false;
                break;
            };
            let record = without_trailers(record, self.trailers);
            let unpacked = match &self.packing {
                Packing::Plain => Some(record.to_vec()),
                Packing::PalmDoc => unpack_palm_record(record),
                Packing::Huffman(huffman) => huffman.unpack_record(record, RECORD_MAX_BYTES),
            };
            match unpacked {
                Some(unpacked) => html.extend_from_slice(&unpacked),
                None => is_whole = false,
            }
        }
        if html.is_empty() {
            return Err(broken_book("its text is damaged"));
        }
        is_whole &= html.len() <= HTML_MAX_BYTES;
        html.truncate(self.text_bytes);
        Ok((html, is_whole))
    }

    /// Returns the record of the image with this address.
    fn image_record(&self, address: &str) -> Option<u32> {
        let number = if let Some(number) = address.strip_prefix(html::NUMBERED) {
            number.trim().parse::<u32>().ok()?
        } else {
            let number = address.strip_prefix(EMBEDDED)?;
            let number = number.split_once('?').map_or(number, |(number, _)| number);
            u32::from_str_radix(number, DIGITS_OF_EMBEDDED).ok()?
        };
        // They are counted from 1.
        self.first_image?.checked_add(number.checked_sub(1)?)
    }

    fn decode_html(&self, html: &[u8]) -> String {
        match super::text::code_page(self.code_page) {
            Some(encoding) if self.code_page != UTF_8 => encoding.decode(html).0.into_owned(),
            _ => String::from_utf8_lossy(html).into_owned(),
        }
    }

    /// Splits the HTML into pages, or into the files that it was made of.
    fn split_pages<'h>(&self, html: &'h str) -> Vec<&'h str> {
        let mark = if self.has_files { "<html" } else { "<mbp:pagebreak" };
        let mut starts = vec![0];
        starts.extend(html.match_indices(mark).map(|(at, _)| at).filter(|at| *at > 0));
        // Dictionaries have a page for each entry.
        let mut starts: Vec<usize> =
            starts.iter().step_by(starts.len().div_ceil(PAGES_MAX as usize)).copied().collect();
        starts.push(html.len());
        starts.windows(2).map(|ends| &html[ends[0]..ends[1]]).collect()
    }
}

/// A database of Palm: records one after the other.
struct Database<'a> {
    bytes: &'a [u8],
}

impl<'a> Database<'a> {
    fn find_record(&self, number: u16) -> Option<&'a [u8]> {
        let count = u16_at(self.bytes, RECORDS_AT - 2)?;
        let start = |number: u16| u32_at(self.bytes, RECORDS_AT + usize::from(number) * ENTRY_BYTES);
        let end = match number.checked_add(1)? {
            next if next < count => start(next)? as usize,
            next if next == count => self.bytes.len(),
            _ => return None,
        };
        self.bytes.get(start(number)? as usize..end)
    }
}

/// Removes the trailing data of a record: entries that end with their size, and letters that the next record repeats.
fn without_trailers(record: &[u8], trailers: u16) -> &[u8] {
    let mut record = record;
    for _ in 0..(trailers >> 1).count_ones() {
        // Seven bits a byte, from the end on; the last byte read has the eighth.
        let mut size = 0;
        for (at, byte) in record.iter().rev().take(4).enumerate() {
            size |= usize::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 != 0 {
                break;
            }
        }
        record = &record[..record.len().saturating_sub(size)];
    }
    if trailers & 1 == 0 {
        return record;
    }
    let repeated = record.last().map_or(0, |last| usize::from(last & 3) + 1);
    &record[..record.len().saturating_sub(repeated)]
}

/// Unpacks a record of the packing of Palm's books. Returns nothing if it is damaged.
fn unpack_palm_record(record: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(record.len() * 2);
    let mut bytes = record.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            1..=8 => {
                for _ in 0..byte {
                    out.push(bytes.next()?);
                }
            }
            0x80..=0xbf => {
                let pair = usize::from(byte) << 8 | usize::from(bytes.next()?);
                let (back, length) = (pair >> 3 & 0x7ff, (pair & 7) + 3);
                for _ in 0..length {
                    out.push(*out.get(out.len().checked_sub(back).filter(|_| back > 0)?)?);
                }
            }
            0xc0.. => out.extend([b' ', byte ^ 0x80]),
            byte => out.push(byte),
        }
        if out.len() > RECORD_MAX_BYTES {
            return None;
        }
    }
    Some(out)
}

fn broken_book(reason: &str) -> ExtractError {
    ExtractError::broken_file("book", reason)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packing_of_palm_refers_back() {
        // Letters, a pair (distance four, length five), a space with a letter, two literal letters.
        let packed = [b'a', b'b', b'c', b'd', 0x80, 4 << 3 | 2, 0xc0 | b'e', 2, 0xc4, 0x8d];
        assert_eq!(unpack_palm_record(&packed).as_deref(), Some("abcdabcda eč".as_bytes()));
        for damaged in [&[0x80][..], &[0x80, 8], &[b'a', 0x80, 2], &[8, 1]] {
            assert_eq!(unpack_palm_record(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn mobi_record_trailer_is_no_text() {
        // The rest of a letter with its length, and an entry of three bytes.
        assert_eq!(without_trailers(b"te\xc4\x8d\x01xy\x83", 0b11), b"te\xc4");
        assert_eq!(without_trailers(b"text", 0), b"text");
        assert_eq!(without_trailers(b"t\xff", 0b10), b"");
    }
}
