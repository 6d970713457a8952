//! The letters of glyphs without a mapping in the PDF.
//!
//! A composite font without `ToUnicode` may still define its letters: by the character collection of its CIDs (Adobe-Japan1
//! and others), or by the table of the embedded font that maps letters to glyphs. The glyphs of most TrueType fonts are in
//! the same order, and a subset without such a table keeps the numbers.

use std::collections::HashMap;

use hayro_interpret::font::{Glyph, OutlineFontData, OutlineGlyph};
use hayro_interpret::hayro_cmap::{BfString, CMap, CMapName, load_embedded};
use hayro_interpret::hayro_syntax::Pdf;
use hayro_interpret::hayro_syntax::object::{Array, Dict, Name, Object, String as PdfString};
use skrifa::{FontRef, MetadataProvider};

/// The maximum number of objects of a PDF among which composite fonts are looked for.
const OBJECTS_MAX: usize = 300_000;
/// The maximum number of composite fonts, and of embedded fonts whose tables are read.
const FONTS_MAX: usize = 1_000;
/// The maximum number of letters of an embedded font.
const LETTERS_MAX: usize = 100_000;
/// The lengths of character codes in bytes.
const CODE_BYTES: std::ops::RangeInclusive<u8> = 1..=4;

/// Finds the letters of glyphs, and caches the data of each font.
pub(super) struct GlyphLetters<'a> {
    document: &'a Pdf,
    /// The composite fonts without `ToUnicode` by their names without the tags of subsets; read when the first is needed.
    collections: Option<HashMap<String, FontCollection>>,
    /// The letters of the glyphs of embedded fonts.
    embedded: HashMap<u128, HashMap<u32, char>>,
}

/// How the codes of a composite font become letters.
enum FontCollection {
    /// By the characters of a known collection.
    Characters(Box<Characters>),
    /// By the usual order of glyphs: codes are the numbers that glyphs had in a TrueType font.
    Glyphs,
}

/// A known collection of characters.
struct Characters {
    /// From codes to CIDs; codes are CIDs without it.
    encoding: Option<CMap>,
    /// From CIDs to letters.
    letters: CMap,
}

impl<'a> GlyphLetters<'a> {
    pub(super) fn new(document: &'a Pdf) -> Self {
        Self { document, collections: None, embedded: HashMap::new() }
    }

    /// Returns the letters of a glyph: by the mapping of the document or the font, else by its code.
    pub(super) fn of_glyph(&mut self, glyph: &Glyph<'_>) -> Option<String> {
        match glyph.as_unicode() {
            // Some documents map a letter to a control character.
            Some(BfString::Char(letter)) if letter.is_control() => {
                ascii_graphic(glyph.char_code()).or(Some(letter)).map(String::from)
            }
            Some(BfString::Char(letter)) => Some(letter.to_string()),
            Some(BfString::String(text)) => Some(text),
            None => {
                let by_font = match glyph {
                    Glyph::Outline(outline) => self.of_outline(outline),
                    Glyph::Type3(_) => None,
                };
                by_font.or_else(|| ascii_graphic(glyph.char_code()).map(String::from))
            }
        }
    }

    fn of_outline(&mut self, glyph: &OutlineGlyph) -> Option<String> {
        let font = glyph.font_data()?;
        let document = self.document;
        let collections = self.collections.get_or_insert_with(|| find_font_collections(document));
        let collection = font.postscript_name.as_ref().and_then(|name| collections.get(name));
        let by_collection = collection.and_then(|collection| collection.letters_for_code(glyph.char_code()));
        if by_collection.is_some() {
            return by_collection;
        }
        let by_order = match collection {
            Some(FontCollection::Glyphs) => letter_in_order(glyph.char_code()).map(String::from),
            Some(FontCollection::Characters(_)) | None => None,
        };
        if self.embedded.len() >= FONTS_MAX && !self.embedded.contains_key(&font.cache_key) {
            return by_order;
        }
        let letters = self.embedded.entry(font.cache_key).or_insert_with(|| letters_of(&font));
        letters.get(&glyph.glyph_id().to_u32()).map(char::to_string).or(by_order)
    }
}

/// Returns the character of ASCII with this code, if it is seen or a space.
fn ascii_graphic(code: u32) -> Option<char> {
    char::from_u32(code).filter(|letter| letter.is_ascii_graphic() || *letter == ' ')
}

/// Returns the letter of a glyph by the order that TrueType fonts have from Apple's: a space is the fourth glyph, and the others
/// of ASCII follow.
fn letter_in_order(glyph: u32) -> Option<char> {
    const BEFORE_SPACE: u32 = 3;
    ascii_graphic(glyph.checked_sub(BEFORE_SPACE)?.checked_add(u32::from(' '))?)
}

impl FontCollection {
    fn letters_for_code(&self, code: u32) -> Option<String> {
        let Self::Characters(known) = self else { return None };
        let cid = match &known.encoding {
            Some(encoding) => {
                CODE_BYTES.into_iter().find_map(|bytes| encoding.lookup_cid_code(code, bytes))?
            }
            None => code,
        };
        match known.letters.lookup_bf_string(cid)? {
            BfString::Char(letter) => Some(letter.to_string()),
            BfString::String(text) => Some(text),
        }
    }
}

/// Returns the composite fonts of a document that have no `ToUnicode`, and a known character collection or numbers of glyphs.
fn find_font_collections(document: &Pdf) -> HashMap<String, FontCollection> {
    let objects = document.objects().into_iter().take(OBJECTS_MAX);
    let fonts = objects.filter_map(|object| match object {
        Object::Dict(dict) => font_collection(&dict),
        _ => None,
    });
    fonts.take(FONTS_MAX).collect()
}

fn font_collection(font: &Dict<'_>) -> Option<(String, FontCollection)> {
    if font.get::<Name<'_>>("Subtype")?.as_str() != "Type0" || font.contains_key("ToUnicode") {
        return None;
    }
    let name = font.get::<Name<'_>>("BaseFont")?;
    let name = match name.as_str().split_once('+') {
        Some((tag, rest)) if tag.len() == 6 => rest.to_owned(),
        _ => name.as_str().to_owned(),
    };
    let encoding = font.get::<Name<'_>>("Encoding")?;
    let is_identity = matches!(encoding.as_str(), "Identity-H" | "Identity-V");
    let descendant = font.get::<Array<'_>>("DescendantFonts")?.iter::<Dict<'_>>().next()?;
    let system = descendant.get::<Dict<'_>>("CIDSystemInfo")?;
    let letters: &[u8] = match system.get::<PdfString<'_>>("Ordering")?.as_bytes() {
        b"Japan1" => b"Adobe-Japan1-UCS2",
        b"GB1" => b"Adobe-GB1-UCS2",
        b"CNS1" => b"Adobe-CNS1-UCS2",
        b"Korea1" => b"Adobe-Korea1-UCS2",
        _ => {
            let is_true_type = descendant.get::<Name<'_>>("Subtype")?.as_str() == "CIDFontType2";
            return (is_identity && is_true_type).then_some((name, FontCollection::Glyphs));
        }
    };
    let encoding = if is_identity { None } else { Some(load_predefined_cmap(encoding.as_str().as_bytes())?) };
    let known = Characters { encoding, letters: load_predefined_cmap(letters)? };
    Some((name, FontCollection::Characters(Box::new(known))))
}

/// Reads a predefined CMap.
fn load_predefined_cmap(name: &[u8]) -> Option<CMap> {
    CMap::parse(load_embedded(CMapName::from_bytes(name))?, load_embedded)
}

/// Returns the letters of the glyphs of an embedded font. A glyph of several letters has the first one; private-use letters
/// are ignored.
fn letters_of(font: &OutlineFontData) -> HashMap<u32, char> {
    let bytes: &[u8] = font.data.as_ref().as_ref();
    let Ok(font) = FontRef::new(bytes) else { return HashMap::new() };
    let mut letters = HashMap::new();
    for (letter, glyph) in font.charmap().mappings().take(LETTERS_MAX) {
        let letter = char::from_u32(letter).filter(|letter| !matches!(letter, '\u{e000}'..='\u{f8ff}'));
        if let Some(letter) = letter {
            letters.entry(glyph.to_u32()).or_insert(letter);
        }
    }
    letters
}
