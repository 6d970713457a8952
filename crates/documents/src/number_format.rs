//! Shows the numbers of a workbook's cells by their number formats: `19%`, `1234.50 Kč`, `01001`.

use std::collections::HashMap;
use std::panic::catch_unwind;
use std::rc::Rc;

use ssfmt::{FormatOptions, Locale, NumberFormat};

/// The maximum length of a format code, in bytes; Excel takes 255 characters.
const CODE_MAX_BYTES: usize = 1024;
/// The maximum number of different format codes; cells of further ones show the plain number.
const CODES_MAX: usize = 4096;
/// Represents the thousands separator, and is removed: the expected one depends on the language.
const THOUSANDS: char = '\u{e000}';
/// Represents a literal slash, which the parser would read as a fraction's.
const SLASH: char = '\u{e001}';
/// From here on, numbers have only precise digits, and are shown plainly.
const NUMBER_MAX: f64 = 1e15;
/// Numbers up to this are rounded by their decimal value, as people expect: 1.005 to 1.01.
const DECIMAL_MAX: f64 = 1e11;

/// The number formats of a workbook.
#[derive(Default)]
pub(super) struct NumberFormats {
    by_code: HashMap<String, Option<Rc<CellNumberFormat>>>,
    /// The format of each cell style, if it changes how numbers are shown.
    of_styles: Vec<Option<Rc<CellNumberFormat>>>,
}

struct CellNumberFormat {
    format: NumberFormat,
    /// True if negative numbers differ from others by their color alone.
    hides_sign: bool,
}

impl NumberFormats {
    /// Parses the format codes of the styles of cells.
    pub(super) fn from_codes<'a>(codes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut formats = Self::default();
        for code in codes {
            let format = formats.parse_cached(code);
            formats.of_styles.push(format);
        }
        formats
    }

    /// Returns true if the cells of a style show numbers in another way.
    pub(super) fn has_format(&self, style: usize) -> bool {
        self.of_styles.get(style).is_some_and(Option::is_some)
    }

    fn parse_cached(&mut self, code: &str) -> Option<Rc<CellNumberFormat>> {
        if let Some(known) = self.by_code.get(code) {
            return known.clone();
        }
        if code.len() > CODE_MAX_BYTES || self.by_code.len() >= CODES_MAX {
            return None;
        }
        let format = CellNumberFormat::parse(code).map(Rc::new);
        self.by_code.insert(code.to_owned(), format.clone());
        format
    }

    /// Returns a number as the cells of a style show it; `None` if they show it plainly.
    pub(super) fn format_number(&self, style: usize, number: f64) -> Option<String> {
        self.of_styles.get(style)?.as_ref()?.format_value(number)
    }
}

impl CellNumberFormat {
    /// Parses a format code; `None` if it shows numbers plainly, or dates, or is malformed.
    fn parse(code: &str) -> Option<Self> {
        if code.is_empty() || code.eq_ignore_ascii_case("General") {
            return None;
        }
        let sections = Sections::from_code(code);
        // The parser panics on some malformed codes.
        let format = catch_unwind(|| NumberFormat::parse(&sections.code)).ok()?.ok()?;
        let shows_numbers =
            !format.is_text_format() && !format.sections().iter().any(|one| one.has_date_parts());
        let hides_sign =
            matches!(sections.shapes.as_slice(), [positive, negative, ..] if positive == negative);
        shows_numbers.then_some(Self { format, hides_sign })
    }

    /// Returns the shown form of a number; `None` if it is shown plainly.
    fn format_value(&self, number: f64) -> Option<String> {
        if number.is_nan() || number.abs() >= NUMBER_MAX {
            return None;
        }
        let value = if number.abs() < DECIMAL_MAX { number * (1.0 + 4.0 * f64::EPSILON) } else { number };
        let locale = Locale { thousands_separator: THOUSANDS, ..Locale::en_us() };
        let options = FormatOptions { locale, ..FormatOptions::default() };
        let text = self.format.try_format(value, &options).ok()?.replace(THOUSANDS, "").replace(SLASH, "/");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // A format may show only a sign in place of the number, if it is not 0.
        if text.is_empty() || (text == "-" && number != 0.0) {
            return None;
        }
        Some(if number < 0.0 && self.hides_sign { format!("-{text}") } else { text })
    }
}

/// The sections of a format code: for positive, negative and other numbers.
struct Sections {
    /// The code with [`SLASH`] in place of slashes that are text.
    code: String,
    /// Each section without colors, conditions and padding.
    shapes: Vec<String>,
}

impl Sections {
    fn from_code(code: &str) -> Self {
        let (mut out, mut shapes) = (String::with_capacity(code.len()), vec![String::new()]);
        let (mut is_quoted, mut in_brackets) = (false, false);
        let mut letters = code.chars();
        while let Some(letter) = letters.next() {
            let shape = shapes.last_mut();
            match letter {
                '"' => {
                    is_quoted = !is_quoted;
                    out.push(letter);
                }
                _ if is_quoted => {
                    out.push(if letter == '/' { SLASH } else { letter });
                    shape.into_iter().for_each(|shape| shape.push(letter));
                }
                '\\' => {
                    let Some(text) = letters.next() else { break };
                    out.extend([letter, if text == '/' { SLASH } else { text }]);
                    shape.into_iter().for_each(|shape| shape.push(text));
                }
                // The letter after these only specifies a width.
                '_' | '*' => out.extend(std::iter::once(letter).chain(letters.next())),
                ';' if !in_brackets => {
                    out.push(letter);
                    shapes.push(String::new());
                }
                _ => {
                    in_brackets = letter == '[' || (in_brackets && letter != ']');
                    // Currencies are in brackets, too: `[$€-407]`.
                    let is_text = !letter.is_whitespace() && !in_brackets && letter != ']';
                    shape.into_iter().filter(|_| is_text).for_each(|shape| shape.push(letter));
                    out.push(letter);
                }
            }
        }
        Self { code: out, shapes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_by_code(code: &str, number: f64) -> Option<String> {
        CellNumberFormat::parse(code).and_then(|format| format.format_value(number))
    }

    #[test]
    fn format_value_without_thousands_separators() {
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
            ("000000\\/0000", 9_001_011_234.0, "900101/1234"),
            ("00\"/\"00", 1223.0, "12/23"),
            ("0%", 0.285, "29%"),
            ("0.00", 1.005, "1.01"),
            ("0.00", 12_345_678_901_234.5, "12345678901234.50"),
            ("#,##0.00\" e-shop\";[Red]#,##0.00\" e-shop\"", -12.5, "-12.50 e-shop"),
            ("#,##0.00\" Dr\";#,##0.00\" Cr\"", -12.5, "12.50 Cr"),
            ("▲0.0;▼0.0", -12.5, "▼12.5"),
            ("0_);[Red]0_)", -3.0, "-3"),
        ] {
            assert_eq!(format_by_code(code, number).as_deref(), Some(text), "{code} of {number}");
        }
    }

    #[test]
    fn format_value_plain_hidden_malformed_none() {
        for code in ["General", "", "@", "yyyy-mm-dd", "[h]:mm", "]General", "é[$€-407]General"] {
            assert_eq!(format_by_code(code, 5.0), None, "{code}");
        }
        assert_eq!(format_by_code("[Green]General;[Red]-General", -50.0), None);
        for number in [1e20, -1e15, f64::INFINITY, f64::NAN] {
            assert_eq!(format_by_code("#,##0", number), None);
        }
    }
}
