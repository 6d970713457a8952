//! Reads which number formats the cells of an Excel 97 workbook have; the library that reads their values does not
//! provide them.

use std::collections::HashMap;

use encoding_rs::{Encoding, UTF_16LE, WINDOWS_1252};

use super::legacy::{u16_at, u32_at};
use super::mac_letters;
use super::mail::{open_compound_file, read_compound_stream};
use super::number_format::NumberFormats;
use super::text::code_page;

/// The kinds of records.
const FORMULA: u16 = 0x0006;
const END: u16 = 0x000a;
const CODE_PAGE: u16 = 0x0042;
const SHEET: u16 = 0x0085;
const NUMBERS: u16 = 0x00bd;
const STYLE: u16 = 0x00e0;
const NUMBER: u16 = 0x0203;
const SHORT_NUMBER: u16 = 0x027e;
const FORMAT: u16 = 0x041e;
const BEGIN: u16 = 0x0809;
/// The version of workbooks whose texts are in Unicode.
const UNICODE_VERSION: u16 = 0x0600;

/// The number formats of the cells of a workbook.
#[derive(Default)]
pub(super) struct CellFormats {
    formats: NumberFormats,
    /// The styles of the cells of each sheet, by row and column from 0, if they show numbers in another way.
    sheets: Vec<HashMap<(u16, u16), u16>>,
}

impl CellFormats {
    /// Reads the formats of a workbook; none if it is damaged.
    pub(super) fn from_workbook(bytes: &[u8]) -> Self {
        workbook_stream(bytes).and_then(|book| parse_cell_formats(&book)).unwrap_or_default()
    }

    /// Returns a number as its cell shows it; `None` if the cell shows it plainly.
    pub(super) fn format_number(
        &self,
        sheet: usize,
        (row, column): (u32, u32),
        number: f64,
    ) -> Option<String> {
        let cell = (row.try_into().ok()?, column.try_into().ok()?);
        self.formats.format_number(usize::from(*self.sheets.get(sheet)?.get(&cell)?), number)
    }
}

/// The encoding of a workbook's texts.
#[derive(Clone, Copy)]
pub(super) enum TextEncoding {
    /// Regardless of the workbook's code page.
    Unicode,
    CodePage(u16),
}

impl TextEncoding {
    pub(super) fn from_workbook(bytes: &[u8]) -> Self {
        let Some(book) = workbook_stream(bytes) else { return Self::Unicode };
        let mut version = UNICODE_VERSION;
        for (kind, data) in BiffRecords::from_offset(&book, 0) {
            match kind {
                BEGIN => version = u16_at(data, 0).filter(|version| *version > 0).unwrap_or(version),
                CODE_PAGE if version < UNICODE_VERSION => {
                    return u16_at(data, 0).map_or(Self::Unicode, Self::CodePage);
                }
                END => break,
                _ => {}
            }
        }
        if version < UNICODE_VERSION { Self::CodePage(1252) } else { Self::Unicode }
    }

    /// Returns the code page in which the library should read the texts.
    pub(super) const fn code_page(self) -> Option<u16> {
        const UNICODE: u16 = 1200;
        const WINDOWS: u16 = 1252;
        Some(match self {
            Self::Unicode => UNICODE,
            // The values of the first versions for the Mac, and of their files for Windows.
            Self::CodePage(0x8000) => 10_000,
            Self::CodePage(
                page @ (10_000 | 10_007 | 437 | 850 | 852 | 866 | 874 | 932 | 936 | 949 | 950),
            ) => page,
            Self::CodePage(page @ 1250..=1258) => page,
            Self::CodePage(_) => WINDOWS,
        })
    }

    /// Returns the letters of a code page that the library does not support.
    pub(super) fn upper_letters(self) -> Option<&'static str> {
        match self {
            Self::Unicode => None,
            Self::CodePage(page) => mac_letters::upper_half(page),
        }
    }
}

/// Returns the stream of the workbook.
fn workbook_stream(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = open_compound_file(bytes).ok()?;
    read_compound_stream(&mut file, "/Workbook").or_else(|| read_compound_stream(&mut file, "/Book"))
}

fn parse_cell_formats(book: &[u8]) -> Option<CellFormats> {
    let (mut codes, mut styles, mut starts) = (HashMap::new(), Vec::new(), Vec::new());
    let (mut is_unicode, mut encoding) = (false, WINDOWS_1252);
    for (kind, data) in BiffRecords::from_offset(book, 0) {
        match kind {
            BEGIN => is_unicode = u16_at(data, 0)? >= UNICODE_VERSION,
            CODE_PAGE => encoding = code_page(u32::from(u16_at(data, 0)?)).unwrap_or(encoding),
            FORMAT => drop(codes.insert(u16_at(data, 0)?, parse_format_code(data, is_unicode, encoding)?)),
            STYLE => styles.push(u16_at(data, 2)?),
            SHEET => starts.push(u32_at(data, 0)?),
            END => break,
            _ => {}
        }
    }
    let code = |id: &u16| match codes.get(id) {
        Some(code) => code.as_str(),
        None => ssfmt::format_code_from_id(u32::from(*id)).unwrap_or_default(),
    };
    let formats = NumberFormats::from_codes(styles.iter().map(code));
    let sheets = starts.into_iter().map(|start| styled_cells(book, start, &formats)).collect();
    Some(CellFormats { formats, sheets })
}

/// Returns the code of a format.
fn parse_format_code(data: &[u8], is_unicode: bool, encoding: &'static Encoding) -> Option<String> {
    const WIDE: u8 = 1;
    if !is_unicode {
        let length = usize::from(*data.get(2)?);
        return Some(encoding.decode_without_bom_handling(data.get(3..3 + length)?).0.into_owned());
    }
    let (length, flags) = (usize::from(u16_at(data, 2)?), *data.get(4)?);
    let (encoding, length) = if flags & WIDE == 0 { (WINDOWS_1252, length) } else { (UTF_16LE, 2 * length) };
    Some(encoding.decode_without_bom_handling(data.get(5..5 + length)?).0.into_owned())
}

/// Returns the styles of the cells of a sheet that show numbers in another way.
fn styled_cells(book: &[u8], start: usize, formats: &NumberFormats) -> HashMap<(u16, u16), u16> {
    let (mut cells, mut depth) = (HashMap::new(), 0_u32);
    let mut cell = |row, column, style| {
        if formats.has_format(usize::from(style)) {
            cells.insert((row, column), style);
        }
    };
    for (kind, data) in BiffRecords::from_offset(book, start) {
        let head = (u16_at(data, 0), u16_at(data, 2), u16_at(data, 4));
        match (kind, head) {
            (BEGIN, _) => depth += 1,
            // Charts are inside their sheet.
            (END, _) if depth <= 1 => break,
            (END, _) => depth -= 1,
            (NUMBER | SHORT_NUMBER | FORMULA, (Some(row), Some(column), Some(style))) if depth == 1 => {
                cell(row, column, style);
            }
            (NUMBERS, (Some(row), Some(first), _)) if depth == 1 => {
                // Each has a style and a number; the last column follows them.
                let styles = data.get(4..data.len().saturating_sub(2)).unwrap_or_default().chunks_exact(6);
                for (column, pair) in (first..=u16::MAX).zip(styles) {
                    u16_at(pair, 0).into_iter().for_each(|style| cell(row, column, style));
                }
            }
            _ => {}
        }
    }
    cells
}

/// The records of a stream with their kinds.
struct BiffRecords<'a> {
    left: &'a [u8],
}

impl<'a> BiffRecords<'a> {
    fn from_offset(stream: &'a [u8], start: usize) -> Self {
        Self { left: stream.get(start..).unwrap_or_default() }
    }
}

impl<'a> Iterator for BiffRecords<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, length) = (u16_at(self.left, 0)?, usize::from(u16_at(self.left, 2)?));
        let data = self.left.get(4..4 + length)?;
        self.left = &self.left[4 + length..];
        Some((kind, data))
    }
}
