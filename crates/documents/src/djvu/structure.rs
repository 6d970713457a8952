//! The structure of a DjVu file: its pages, the dictionaries of shapes that they share, and the text below their images.

use std::collections::HashMap;

use djvu_bzz::bzz_decode;

use crate::ExtractError;

const FORMAT: &str = "DjVu";
const MAGIC: &[u8] = b"AT&TFORM";
/// The beginning of an encrypted file.
const SECURE: &[u8] = b"SDJVFORM";
/// The kinds of files: one page, several pages, and an image like a page's background.
const KINDS: [&[u8; 4]; 4] = [b"DJVU", b"DJVM", b"PM44", b"BM44"];
/// The lengths of the magic number and of a chunk's header.
const MAGIC_BYTES: usize = 4;
const HEAD_BYTES: usize = 8;
/// The maximum number of chunks of a page that are examined.
const CHUNKS_MAX: usize = 10_000;

pub(super) struct Structure<'a> {
    /// The pages in their order; `None` for a missing one.
    pub(super) pages: Vec<Option<DjvuPage<'a>>>,
    /// The content of the parts that pages share, by their names.
    shared: HashMap<Vec<u8>, &'a [u8]>,
}

/// The content of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct DjvuPage<'a>(&'a [u8]);

/// A part of a file that consists of chunks.
struct DjvuForm<'a> {
    kind: [u8; 4],
    content: &'a [u8],
}

/// The compressed part of the directory's entries: the kind of each, and its name.
type Entries = Vec<(u8, Vec<u8>)>;

/// Returns true for a DjVu file, also an encrypted one.
pub(crate) fn is_djvu(bytes: &[u8]) -> bool {
    let kind = bytes.get(MAGIC.len() + 4..).and_then(|rest| rest.first_chunk());
    bytes.starts_with(SECURE) || bytes.starts_with(MAGIC) && kind.is_some_and(|kind| KINDS.contains(&kind))
}

impl<'a> Structure<'a> {
    /// Opens a file of one page or of several.
    ///
    /// # Errors
    /// Fails for an encrypted file, for one whose pages lie in other files, and for one that is cut off.
    pub(super) fn from_bytes(bytes: &'a [u8]) -> Result<Self, ExtractError> {
        if bytes.starts_with(b"SDJV") {
            return Err(ExtractError::Encrypted(FORMAT));
        }
        let whole = parse_form(bytes.get(MAGIC_BYTES..).unwrap_or_default());
        let whole = whole.ok_or_else(|| ExtractError::broken_file(FORMAT, "its end is missing"))?;
        if &whole.kind != b"DJVM" {
            return Ok(Self { pages: vec![Some(DjvuPage(whole.content))], shared: HashMap::new() });
        }
        let directory = parse_chunks(whole.content).next().filter(|(id, _)| *id == b"DIRM");
        let directory = directory.and_then(|(_, directory)| Self::of_directory(bytes, directory));
        directory
            .unwrap_or_else(|| Err(ExtractError::broken_file(FORMAT, "it has no directory of its pages")))
    }

    /// Finds the parts of a file that a directory lists; `None` if the directory is damaged.
    fn of_directory(bytes: &'a [u8], directory: &[u8]) -> Option<Result<Self, ExtractError>> {
        const IS_BUNDLED: u8 = 0x80;
        const KIND: u8 = 0x3f;
        const SHARED: u8 = 0;
        const PAGE: u8 = 1;
        let (flags, rest) = directory.split_first()?;
        let (count, rest) = rest.split_first_chunk()?;
        let count = usize::from(u16::from_be_bytes(*count));
        if flags & IS_BUNDLED == 0 {
            return Some(Err(ExtractError::Unsupported {
                kind: "a DjVu document whose pages are other files",
                remedy: "bundle them in one file",
            }));
        }
        let (offsets, compressed) = rest.split_at_checked(count * 4)?;
        let offsets = offsets.as_chunks::<4>().0.iter().map(|offset| u32::from_be_bytes(*offset));
        // Without its names the pages can be read, but not their shared parts.
        let entries = bzz_decode(compressed)
            .ok()
            .and_then(|list| parse_directory_entries(&list, count))
            .unwrap_or_default();
        let mut structure = Self { pages: Vec::new(), shared: HashMap::new() };
        for (number, offset) in offsets.enumerate() {
            let form = usize::try_from(offset).ok().and_then(|offset| parse_form(bytes.get(offset..)?));
            let entry = entries.get(number);
            let is_page = match (entry, &form) {
                (Some((flags, _)), _) => flags & KIND == PAGE,
                (None, Some(form)) => KINDS.contains(&&form.kind),
                (None, None) => true,
            };
            if is_page {
                structure.pages.push(form.map(|form| DjvuPage(form.content)));
            } else if let (Some((flags, name)), Some(form)) = (entry, form)
                && flags & KIND == SHARED
            {
                structure.shared.insert(name.clone(), form.content);
            }
        }
        Some(Ok(structure))
    }

    /// Returns the dictionary of shapes that a page shares with others; `None` if it has none, or it is missing.
    pub(super) fn shape_dictionary(&self, page: DjvuPage<'a>) -> Option<&'a [u8]> {
        let own = page.find_chunk(b"Djbz");
        let mut included = page.page_chunks().filter(|(id, _)| *id == b"INCL").map(|(_, name)| name);
        own.or_else(|| {
            included.find_map(|name| {
                let part = self.shared.get(name.trim_ascii_end())?;
                DjvuPage(part).find_chunk(b"Djbz")
            })
        })
    }
}

impl<'a> DjvuPage<'a> {
    fn page_chunks(self) -> impl Iterator<Item = (&'a [u8; 4], &'a [u8])> {
        parse_chunks(self.0).take(CHUNKS_MAX)
    }

    /// Returns the content of the first chunk of a kind.
    pub(super) fn find_chunk(self, kind: &[u8; 4]) -> Option<&'a [u8]> {
        self.page_chunks().find(|(id, _)| *id == kind).map(|(_, content)| content)
    }

    /// Returns true if the page shows anything.
    pub(super) fn has_image(self) -> bool {
        const IMAGES: [&[u8; 4]; 8] =
            [b"Sjbz", b"Smmr", b"BG44", b"FG44", b"BGjp", b"FGjp", b"PM44", b"BM44"];
        self.page_chunks().any(|(id, _)| IMAGES.contains(&id))
    }

    /// Returns the pixels per inch; 0 if they are not known.
    pub(super) fn dpi(self) -> u32 {
        let field = self.find_chunk(b"INFO").and_then(|info| info.get(6..8)?.first_chunk().copied());
        field.map_or(0, |field| u32::from(u16::from_le_bytes(field)))
    }

    /// Returns the text layer below the image, in UTF-8; `None` if it is missing.
    ///
    /// # Errors
    /// Fails if it is damaged.
    pub(super) fn decode_text(self) -> Option<Result<Vec<u8>, ExtractError>> {
        /// The length precedes the text.
        const LENGTH_BYTES: usize = 3;
        let plain = self.find_chunk(b"TXTa").map(|plain| Ok(plain.to_vec()));
        let layer = plain.or_else(|| Some(bzz_decode(self.find_chunk(b"TXTz")?)))?;
        Some(layer.map_err(|error| ExtractError::broken_file(FORMAT, error)).and_then(|mut layer| {
            let length = layer.first_chunk().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]) as usize);
            let text = length.filter(|length| LENGTH_BYTES + length <= layer.len());
            let length = text.ok_or_else(|| ExtractError::broken_file(FORMAT, "a text is cut off"))?;
            layer.truncate(LENGTH_BYTES + length);
            layer.drain(..LENGTH_BYTES);
            Ok(layer)
        }))
    }
}

/// Returns the form at the beginning; `None` if it is missing or cut off.
fn parse_form(bytes: &[u8]) -> Option<DjvuForm<'_>> {
    let head = bytes.strip_prefix(b"FORM")?;
    let length = u32::from_be_bytes(*head.first_chunk()?);
    let form = head.get(4..)?.get(..usize::try_from(length).ok()?)?;
    let (kind, content) = form.split_first_chunk()?;
    Some(DjvuForm { kind: *kind, content })
}

/// Returns the chunks of a form, with their kinds. One that is cut off ends them.
fn parse_chunks(mut rest: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (kind, tail) = rest.split_first_chunk::<4>()?;
        let (length, tail) = tail.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let content = tail.get(..length)?;
        // They begin at even places.
        rest = rest.get(HEAD_BYTES + length.next_multiple_of(2)..).unwrap_or_default();
        Some((kind, content))
    })
}

/// Reads the part of a directory that was compressed: the lengths, the kinds, and the names.
fn parse_directory_entries(list: &[u8], count: usize) -> Option<Entries> {
    const LENGTH_BYTES: usize = 3;
    const HAS_NAME: u8 = 0x80;
    const HAS_TITLE: u8 = 0x40;
    let (flags, names) = list.get(count * LENGTH_BYTES..)?.split_at_checked(count)?;
    let mut names = names.split(|byte| *byte == 0);
    let entry = |&flags: &u8| {
        let name = names.next()?.to_vec();
        let others = [HAS_NAME, HAS_TITLE].into_iter().filter(|other| flags & other != 0).count();
        others.checked_sub(1).map_or(Some(()), |others| names.nth(others).map(|_| ()))?;
        Some((flags, name))
    };
    flags.iter().map(entry).collect()
}
