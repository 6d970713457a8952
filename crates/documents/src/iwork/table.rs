//! Reads the cells of a table of iWork.

use std::collections::{BTreeSet, HashMap, HashSet};

use calamine::{ExcelDateTime, ExcelDateTimeType};

use super::kinds;
use super::message::{ProtoMessage, take_bytes};
use super::package::IworkPackage;
use super::text;
use crate::book::{CELL_MAX_BYTES, format_float};
use crate::sheet;
use crate::xml::push_within;

/// The rows of a part of a table, unless it says otherwise.
const TILE_ROWS: u64 = 256;
/// The day in Excel's time from which seconds are counted: 1 January 2001.
const FIRST_DAY: f64 = 36_892.0;
const DAY_SECONDS: f64 = 86_400.0;
/// The exponent that decimal numbers store as zero.
const DECIMAL_BIAS: i32 = 0x1820;

pub(super) struct IworkTable<'a> {
    package: &'a IworkPackage,
    model: ProtoMessage<'a>,
    texts: HashMap<u64, &'a str>,
    /// The identifiers of formatted texts, and the formatted texts that were read.
    rich_texts: HashMap<u64, u64>,
    read_texts: HashMap<u64, String>,
}

impl<'a> IworkTable<'a> {
    /// Returns the table of an object that shows one.
    pub(super) fn from_object(package: &'a IworkPackage, kind: u32, shown: ProtoMessage<'a>) -> Option<Self> {
        let info = match kind {
            kinds::TABLE => shown,
            kinds::TABLE_OF_PAGES => shown.message_field(1),
            _ => return None,
        };
        let model = package.object_message(info.reference_field(2));
        let store = model.message_field(4);
        let texts = list_entries(package, store.reference_field(4))
            .filter_map(|entry| entry.number_field(1).zip(entry.text_field(3)));
        let rich_text = |payload: u64| package.object_message(Some(payload)).reference_field(1);
        let rich_texts = list_entries(package, store.reference_field(17))
            .filter_map(|entry| entry.number_field(1).zip(entry.reference_field(9).and_then(rich_text)));
        let (texts, rich_texts) = (texts.collect(), rich_texts.collect());
        Some(Self { package, model, texts, rich_texts, read_texts: HashMap::new() })
    }

    pub(super) fn name(&self) -> Option<&'a str> {
        self.model.text_field(8).filter(|name| !name.trim().is_empty())
    }

    /// Returns the name if it is shown above the table.
    pub(super) fn shown_title(&self) -> Option<&'a str> {
        self.name().filter(|_| self.model.number_field(22) == Some(1))
    }

    /// Calls `cell` with the row and column from 0 and the text of each cell that is not empty, in reading order, until it returns
    /// `false`.
    pub(super) fn visit_cells(&mut self, mut cell: impl FnMut(u32, u32, &str) -> bool) {
        let storage = self.model.message_field(4).message_field(3);
        let tile_rows = storage.number_field(2).filter(|rows| *rows > 0).unwrap_or(TILE_ROWS);
        let mut tiles: Vec<(u64, u64)> = storage
            .message_fields(1)
            .filter_map(|tile| tile.reference_field(2).map(|id| (tile.number_field(1).unwrap_or(0), id)))
            .collect();
        tiles.sort_unstable();
        let mut seen = HashSet::new();
        for (tile, id) in tiles.into_iter().filter(|(_, id)| seen.insert(*id)) {
            let mut rows: Vec<(u64, ProtoMessage<'_>)> = self
                .package
                .object_message(Some(id))
                .message_fields(5)
                .map(|row| (row.number_field(1).unwrap_or(0), row))
                .collect();
            rows.sort_by_key(|(row, _)| *row);
            for (row, cells) in rows {
                let row =
                    u32::try_from(tile.saturating_mul(tile_rows).saturating_add(row)).unwrap_or(u32::MAX);
                for (column, stored) in (0..).zip(stored_cells(cells)) {
                    let text = stored.and_then(|stored| self.cell_text(stored)).unwrap_or_default();
                    if !text.is_empty() && !cell(row, column, &text) {
                        return;
                    }
                }
            }
        }
    }

    /// Returns the text of a cell; `None` if it is empty.
    fn cell_text(&mut self, stored: &[u8]) -> Option<String> {
        let cell = IworkCell::from_stored(stored)?;
        let text = cell.text.and_then(|key| self.texts.get(&key)).map(|text| (*text).to_owned());
        match cell.kind {
            2 | 10 => Some(cell.decimal.or_else(|| cell.double.map(format_float)).unwrap_or_default()),
            3 => text,
            5 => cell.seconds.map(format_date),
            6 => cell.double.map(|value| if value > 0.0 { "TRUE" } else { "FALSE" }.to_owned()),
            7 => cell.double.map(format_duration),
            9 => {
                let rich_text = cell.rich_text.and_then(|key| self.rich_texts.get(&key).copied());
                rich_text.map(|id| self.rich_text(id)).or(text)
            }
            _ => None,
        }
    }

    fn rich_text(&mut self, id: u64) -> String {
        let read = || {
            let mut out = String::new();
            for paragraph in text::read_paragraphs(self.package, id) {
                push_within(&mut out, &paragraph.text, CELL_MAX_BYTES);
                push_within(&mut out, " ", CELL_MAX_BYTES);
            }
            out
        };
        self.read_texts.entry(id).or_insert_with(read).clone()
    }
}

/// Returns the entries of a list, which may lie in several objects.
fn list_entries(package: &IworkPackage, list: Option<u64>) -> impl Iterator<Item = ProtoMessage<'_>> {
    let list = package.object_message(list);
    let segments: BTreeSet<u64> = list.reference_fields(4).collect();
    let segments = segments.into_iter().map(|segment| package.object_message(Some(segment)));
    std::iter::once(list).chain(segments).flat_map(|list| list.message_fields(3))
}

/// Returns the stored cells of a row by their columns.
fn stored_cells(row: ProtoMessage<'_>) -> impl Iterator<Item = Option<&'_ [u8]>> {
    let bytes = |number: u32| row.bytes_fields(number).next().unwrap_or_default();
    // Programs since 2017 write both forms, or the second alone.
    let is_new = !bytes(6).is_empty();
    let (cells, offsets) = if is_new { (bytes(6), bytes(7)) } else { (bytes(3), bytes(4)) };
    let unit = if is_new && row.number_field(8) == Some(1) { 4 } else { 1 };
    offsets.chunks_exact(2).map(move |offset| {
        let offset = u16::from_le_bytes([offset[0], offset[1]]);
        if offset == u16::MAX { None } else { cells.get(usize::from(offset) * unit..) }
    })
}

#[derive(Debug, Default, PartialEq)]
struct IworkCell {
    kind: u8,
    /// A number that is exact.
    decimal: Option<String>,
    double: Option<f64>,
    /// Seconds since the beginning of 2001.
    seconds: Option<f64>,
    /// The keys of its text.
    text: Option<u64>,
    rich_text: Option<u64>,
}

impl IworkCell {
    fn from_stored(stored: &[u8]) -> Option<Self> {
        if *stored.first()? < 5 { Self::read_old(stored) } else { Self::read_new(stored) }
    }

    /// Reads a cell as programs since 2017 write it: flags say which values follow, in the order of the flags.
    fn read_new(stored: &[u8]) -> Option<Self> {
        let mut rest = stored;
        let head = take_bytes(&mut rest, 12)?;
        let flags = u32::from_le_bytes(head[8..12].try_into().ok()?);
        let has = |flag: u32| flags & flag != 0;
        let mut cell = Self { kind: head[1], ..Self::default() };
        if has(0x1) {
            cell.decimal = format_decimal(take_bytes(&mut rest, 16)?.try_into().ok()?);
        }
        if has(0x2) {
            cell.double = Some(take_double(&mut rest)?);
        }
        if has(0x4) {
            cell.seconds = Some(take_double(&mut rest)?);
        }
        if has(0x8) {
            cell.text = Some(take_key(&mut rest)?);
        }
        if has(0x10) {
            cell.rich_text = Some(take_key(&mut rest)?);
        }
        Some(cell)
    }

    /// Reads a cell as older programs write it: styles and formulas precede the values.
    fn read_old(stored: &[u8]) -> Option<Self> {
        let mut rest = stored;
        let version = *stored.first()?;
        let is_first = version < 2;
        let (head, before) = if is_first { (8, 0x018e) } else { (12, 0x0d8e) };
        let head = take_bytes(&mut rest, head)?;
        let flags = u32::from_le_bytes(head[4..8].try_into().ok()?);
        let has = |flag: u32| flags & flag != 0;
        let skip = |mask: u32| (flags & mask).count_ones() as usize * 4;
        let mut cell = Self { kind: head[if version < 4 { 2 } else { 1 }], ..Self::default() };
        take_bytes(&mut rest, skip(before))?;
        if has(0x200) {
            cell.rich_text = Some(take_key(&mut rest)?);
        }
        take_bytes(&mut rest, skip(if is_first { 0x1000 } else { 0x3000 }))?;
        if has(0x10) {
            cell.text = Some(take_key(&mut rest)?);
        }
        if has(0x20) {
            cell.double = Some(take_double(&mut rest)?);
        }
        if has(0x40) {
            cell.seconds = Some(take_double(&mut rest)?);
        }
        Some(cell)
    }
}

fn take_key(rest: &mut &[u8]) -> Option<u64> {
    Some(u32::from_le_bytes(take_bytes(rest, 4)?.try_into().ok()?).into())
}

fn take_double(rest: &mut &[u8]) -> Option<f64> {
    Some(f64::from_le_bytes(take_bytes(rest, 8)?.try_into().ok()?))
}

/// Formats a decimal number of 128 bits: a sign, 14 bits of exponent, and the digits as an integer.
fn format_decimal(bytes: [u8; 16]) -> Option<String> {
    let number = u128::from_le_bytes(bytes);
    let exponent = i32::try_from(number >> 113 & 0x3fff).ok()? - DECIMAL_BIAS;
    let digits = (number & ((1 << 113) - 1)).to_string();
    let sign = if number >> 127 == 1 && digits != "0" { "-" } else { "" };
    let value: f64 = format!("{sign}{digits}e{exponent}").parse().ok()?;
    Some(format_float(value))
}

/// Formats a time as workbooks do.
pub(super) fn format_date(seconds: f64) -> String {
    let days = FIRST_DAY + seconds / DAY_SECONDS;
    sheet::shown_time(ExcelDateTime::new(days, ExcelDateTimeType::DateTime, false))
}

/// Formats a duration as workbooks do.
pub(super) fn format_duration(seconds: f64) -> String {
    sheet::shown_time(ExcelDateTime::new(seconds / DAY_SECONDS, ExcelDateTimeType::TimeDelta, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_decimal_parts(number: u128, exponent: i32, is_negative: bool) -> Option<String> {
        let exponent = u128::try_from(exponent + DECIMAL_BIAS).expect("it is in its range");
        format_decimal((number | exponent << 113 | u128::from(is_negative) << 127).to_le_bytes())
    }

    #[test]
    fn decimal_numbers_are_read() {
        assert_eq!(format_decimal_parts(1, -1, false).as_deref(), Some("0.1"));
        assert_eq!(format_decimal_parts(123_450, -2, true).as_deref(), Some("-1234.5"));
        assert_eq!(format_decimal_parts(7, 3, false).as_deref(), Some("7000"));
        assert_eq!(format_decimal_parts(0, 0, true).as_deref(), Some("0"));
    }

    #[test]
    fn times_are_counted_from_2001() {
        assert_eq!(format_date(0.0), "2001-01-01");
        assert_eq!(format_date(DAY_SECONDS * 365.0 + 3_600.0), "2002-01-01 01:00:00");
        assert_eq!(format_duration(3_725.0), "1:02:05");
    }

    #[test]
    fn damaged_cells_are_empty() {
        for stored in [&[][..], &[5, 2], &[5, 3, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1], &[3; 11]] {
            assert_eq!(IworkCell::from_stored(stored), None, "{stored:?}");
        }
    }
}
