//! Shows the numbers of a workbook's cells by their number formats: `19%`, `1234.50 Kč`, `01001`.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::rc::Rc;

use ssfmt::{FormatOptions, Locale, NumberFormat};

/// The maximum length of a format code, in bytes; Excel takes 255 characters.
const CODE_MAX_BYTES: usize = 1024;
/// The maximum number of different format codes; cells of further ones show the plain number.
const CODES_MAX: usize = 4096;
/// Stands for the separator of thousands, and is removed: which one people expect depends on their language.
const THOUSANDS: char = '\u{e000}';

/// The number formats of a workbook.
#[derive(Default)]
pub(super) struct NumberFormats {
    by_code: HashMap<String, Option<Rc<NumberFormat>>>,
    /// The format of each style of cells, where it has one that shows a number in another way.
    of_styles: Vec<Option<Rc<NumberFormat>>>,
}

impl NumberFormats {
    /// Parses the format codes of the styles of cells.
    pub(super) fn of<'a>(codes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut formats = Self::default();
        for code in codes {
            let format = formats.parsed(code);
            formats.of_styles.push(format);
        }
        formats
    }

    /// Returns true if the cells of a style show numbers in another way.
    pub(super) fn has(&self, style: usize) -> bool {
        self.of_styles.get(style).is_some_and(Option::is_some)
    }

    fn parsed(&mut self, code: &str) -> Option<Rc<NumberFormat>> {
        if let Some(known) = self.by_code.get(code) {
            return known.clone();
        }
        if code.len() > CODE_MAX_BYTES || self.by_code.len() >= CODES_MAX {
            return None;
        }
        let format = parse(code).map(Rc::new);
        self.by_code.insert(code.to_owned(), format.clone());
        format
    }

    /// Returns a number as the cells of a style show it; `None` if they show it plainly.
    pub(super) fn shown(&self, style: usize, number: f64) -> Option<String> {
        let format = self.of_styles.get(style)?.as_ref().filter(|_| number.is_finite())?;
        shown(format, number)
    }
}

/// Parses a format code; `None` if it shows numbers plainly, or dates, or is malformed.
fn parse(code: &str) -> Option<NumberFormat> {
    if code.is_empty() || code.eq_ignore_ascii_case("General") {
        return None;
    }
    // The parser panics on some malformed codes.
    let format = catch_unwind(|| NumberFormat::parse(code)).ok()?.ok()?;
    let shows_numbers = !format.is_text_format() && !format.sections().iter().any(|one| one.has_date_parts());
    shows_numbers.then_some(format)
}

fn shown(format: &NumberFormat, number: f64) -> Option<String> {
    let locale = Locale { thousands_separator: THOUSANDS, ..Locale::en_us() };
    let text = format.try_format(number, &FormatOptions { locale, ..FormatOptions::default() }).ok()?;
    let text = text.replace(THOUSANDS, "");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return None;
    }
    // Some formats show negative numbers by their color alone.
    let shows_sign = number >= 0.0 || text.contains(['-', '(', '\u{2212}']);
    let has_digits = text.contains(|c: char| c.is_ascii_digit() && c != '0');
    Some(if shows_sign || !has_digits { text } else { format!("-{text}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(code: &str, number: f64) -> Option<String> {
        parse(code).and_then(|format| shown(&format, number))
    }

    #[test]
    fn numbers_show_as_in_the_sheet_without_separators_of_thousands() {
        for (code, number, text) in [
            ("0%", 0.19, "19%"),
            ("0.0%", 0.0525, "5.3%"),
            ("#,##0.00\\ \"Kč\"", 1_234_567.5, "1234567.50 Kč"),
            ("#,##0\\ [$Kč-405]", 12_000.0, "12000 Kč"),
            ("_-* #,##0.00\\ [$€-1]_-;-* #,##0.00\\ [$€-1]_-", -1234.5, "-1234.50 €"),
            ("\"$\"#,##0_);\\(\"$\"#,##0\\)", -9900.0, "($9900)"),
            ("#,##0;[Red]#,##0", -5.0, "-5"),
            ("00000", 1001.0, "01001"),
            ("000\\ 00", 12_000.0, "120 00"),
            ("0.0,,\" M\"", 2_500_000.0, "2.5 M"),
            ("\"yes\";;\"no\"", 0.0, "no"),
            ("# ?/?", 2.5, "2 1/2"),
            ("General\" kg\"", 1.5, "1.5 kg"),
        ] {
            assert_eq!(by(code, number).as_deref(), Some(text), "{code} of {number}");
        }
    }

    #[test]
    fn plain_hidden_and_malformed_formats_show_no_other_number() {
        for code in ["General", "", "@", "yyyy-mm-dd", "[h]:mm", "]General", "é[$€-407]General"] {
            assert_eq!(by(code, 5.0), None, "{code}");
        }
    }
}
