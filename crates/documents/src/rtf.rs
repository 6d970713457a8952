//! Reads rich text (RTF) as plain text.

use std::collections::HashMap;

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1250, WINDOWS_1252};

use super::output::DocumentWriter;
use super::text::code_page;
use super::{DocumentFormat, Extracted};

/// The maximum depth of groups; deeper ones are treated as being at this depth.
const DEPTH_MAX: usize = 256;
/// The maximum number of fonts whose character sets are known.
const FONTS_MAX: usize = 10_000;
/// Groups without text of the document.
const HIDDEN: &[&[u8]] = &[
    b"colortbl",
    b"stylesheet",
    b"info",
    b"pict",
    b"object",
    b"header",
    b"footer",
    b"headerl",
    b"headerr",
    b"footerl",
    b"footerr",
    b"listtable",
    b"listoverridetable",
    b"rsidtbl",
    b"themedata",
    b"fldinst",
    b"generator",
];

#[derive(Debug, Clone, Copy)]
struct RtfGroup {
    hidden: bool,
    /// True in the list of fonts.
    lists_fonts: bool,
    font: i32,
    /// The number of characters after `\u` for readers without Unicode.
    fallback: usize,
}

impl RtfGroup {
    const OUTERMOST: Self = Self { hidden: false, lists_fonts: false, font: 0, fallback: 1 };
}

struct RtfReader<'a> {
    bytes: &'a [u8],
    at: usize,
    groups: Vec<RtfGroup>,
    encoding: &'static Encoding,
    /// The encodings of fonts with a specific character set.
    fonts: HashMap<i32, &'static Encoding>,
    default_font: i32,
    writer: DocumentWriter,
    line: String,
    /// Bytes of `\'xx` that are not decoded yet.
    pending: Vec<u8>,
    skip: usize,
    high: Option<u16>,
    /// True in a paragraph that is the large initial of the next one.
    is_drop_cap: bool,
}

pub(super) fn extract_rtf(bytes: &[u8]) -> Extracted {
    let mut reader = RtfReader {
        bytes,
        at: 0,
        groups: vec![RtfGroup::OUTERMOST],
        encoding: WINDOWS_1250,
        fonts: HashMap::new(),
        default_font: 0,
        writer: DocumentWriter::new(),
        line: String::new(),
        pending: Vec::new(),
        skip: 0,
        high: None,
        is_drop_cap: false,
    };
    while let Some(byte) = reader.next_byte() {
        reader.interpret_byte(byte);
        if reader.writer.is_full() {
            break;
        }
    }
    reader.end_line();
    reader.writer.finish_document(DocumentFormat::Rtf)
}

impl RtfReader<'_> {
    fn next_byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn current_group(&self) -> RtfGroup {
        self.groups.last().copied().unwrap_or(RtfGroup::OUTERMOST)
    }

    fn interpret_byte(&mut self, byte: u8) {
        match byte {
            b'{' => {
                // The fallback for old readers ends with its group.
                self.skip = 0;
                if self.groups.len() < DEPTH_MAX {
                    self.groups.push(self.current_group());
                }
            }
            b'}' => {
                self.skip = 0;
                self.flush_pending();
                if self.groups.len() > 1 {
                    self.groups.pop();
                }
            }
            b'\\' => self.read_control(),
            b'\r' | b'\n' => {}
            _ => self.push_byte(byte),
        }
    }

    /// Adds a byte of text, in the code page of its font or of the document.
    fn push_byte(&mut self, byte: u8) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if !self.current_group().hidden {
            self.pending.push(byte);
        }
    }

    fn flush_pending(&mut self) {
        if !self.pending.is_empty() {
            let encoding = self.fonts.get(&self.current_group().font).copied().unwrap_or(self.encoding);
            let decoded = encoding.decode_without_bom_handling(&self.pending).0.into_owned();
            self.line.push_str(&decoded);
            self.pending.clear();
        }
    }

    fn push_text(&mut self, text: &str) {
        self.flush_pending();
        if !self.current_group().hidden {
            self.line.push_str(text);
        }
    }

    fn end_line(&mut self) {
        self.flush_pending();
        let line = std::mem::take(&mut self.line);
        self.writer.add_line(&line);
    }

    fn read_control(&mut self) {
        let Some(first) = self.next_byte() else { return };
        if !first.is_ascii_alphabetic() {
            match first {
                b'\'' => {
                    let digits =
                        self.bytes.get(self.at..self.at + 2).and_then(|hex| std::str::from_utf8(hex).ok());
                    if let Some(byte) = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                        self.at += 2;
                        self.push_byte(byte);
                    }
                }
                b'~' => self.push_text(" "),
                b'_' => self.push_text("-"),
                b'*' => self.hide_group(),
                b'\\' | b'{' | b'}' => self.push_byte(first),
                _ => {}
            }
            return;
        }
        let start = self.at - 1;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_alphabetic) {
            self.at += 1;
        }
        let word = &self.bytes[start..self.at];
        let digits = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let number =
            std::str::from_utf8(&self.bytes[digits..self.at]).ok().and_then(|text| text.parse::<i32>().ok());
        if self.bytes.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.apply_control_word(word, number);
    }

    fn change_group(&mut self, change: impl FnOnce(&mut RtfGroup)) {
        self.flush_pending();
        if let Some(group) = self.groups.last_mut() {
            change(group);
        }
    }

    fn hide_group(&mut self) {
        self.change_group(|group| group.hidden = true);
    }

    fn set_font(&mut self, number: i32) {
        self.change_group(|group| group.font = number);
    }

    fn apply_control_word(&mut self, word: &[u8], number: Option<i32>) {
        self.skip = 0;
        match word {
            b"pard" => self.is_drop_cap = false,
            b"dropcapli" => self.is_drop_cap = number != Some(0),
            // The initial belongs to the next paragraph.
            b"par" if self.is_drop_cap => self.flush_pending(),
            b"par" | b"row" | b"page" | b"sect" if !self.current_group().hidden => self.end_line(),
            b"line" => self.push_text(" "),
            b"tab" | b"cell" => self.push_text("\t"),
            b"endash" => self.push_text("–"),
            b"emdash" => self.push_text("—"),
            b"bullet" => self.push_text("•"),
            b"lquote" | b"rquote" => self.push_text("'"),
            b"ldblquote" | b"rdblquote" => self.push_text("\""),
            b"mac" => {
                self.flush_pending();
                self.encoding = MACINTOSH;
            }
            b"ansicpg" => {
                self.flush_pending();
                let page = number.and_then(|number| code_page(number.try_into().ok()?));
                self.encoding = page.unwrap_or(WINDOWS_1252);
            }
            b"fonttbl" => {
                self.hide_group();
                self.change_group(|group| group.lists_fonts = true);
            }
            b"f" => self.set_font(number.unwrap_or(0)),
            b"deff" => {
                self.default_font = number.unwrap_or(0);
                self.set_font(self.default_font);
            }
            b"plain" => self.set_font(self.default_font),
            b"fcharset" if self.current_group().lists_fonts && self.fonts.len() < FONTS_MAX => {
                if let Some(encoding) = number.and_then(character_set) {
                    self.fonts.insert(self.current_group().font, encoding);
                }
            }
            b"uc" => {
                let count = number.and_then(|count| usize::try_from(count).ok()).unwrap_or(1).min(8);
                self.change_group(|group| group.fallback = count);
            }
            b"u" => self.push_unicode(number.unwrap_or(0)),
            b"bin" => self.at = self.at.saturating_add(usize::try_from(number.unwrap_or(0)).unwrap_or(0)),
            _ if HIDDEN.contains(&word) => self.hide_group(),
            _ => {}
        }
    }

    /// Adds a UTF-16 unit, negative above 32767; skips the fallback characters for old readers.
    fn push_unicode(&mut self, number: i32) {
        let unit = u16::try_from(number.rem_euclid(0x1_0000)).unwrap_or(0xfffd);
        self.skip = self.current_group().fallback;
        let units = match self.high.take() {
            Some(high) => vec![high, unit],
            None if (0xd800..0xdc00).contains(&unit) => {
                self.high = Some(unit);
                return;
            }
            None => vec![unit],
        };
        let text = String::from_utf16_lossy(&units);
        self.push_text(&text);
    }
}

/// Returns the encoding of a font's character set; `None` for sets that are unspecific, or do not contain letters.
fn character_set(number: i32) -> Option<&'static Encoding> {
    code_page(match number {
        77 => 10_000,
        128 => 932,
        129 => 949,
        134 => 936,
        136 => 950,
        161 => 1253,
        162 => 1254,
        163 => 1258,
        177 => 1255,
        178 => 1256,
        186 => 1257,
        204 => 1251,
        222 => 874,
        238 => 1250,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_through_and_dress_goes() {
        let rtf = br"{\rtf1\ansi\ansicpg1250{\fonttbl{\f0 Arial;}}{\*\generator X;}\f0 \b N\'e1jemn\'e9\b0  \u269?in\'ed 5\~000 K\'e8\par \{second\}\par}";
        let extracted = extract_rtf(rtf);
        assert_eq!(extracted.segments[0].text, "Nájemné činí 5 000 Kč\n{second}");
    }

    #[test]
    fn extract_rtf_list_items_keep_letter() {
        let rtf = br"{\rtf1\ansi {\listtext\tab\u8226 \tab}First\par {\listtext\tab 2.\tab}Second\par \u352 ?ipka \u353\'9aest\par}";
        assert_eq!(extract_rtf(rtf).segments[0].text, "•\tFirst\n2.\tSecond\nŠipka šest");
        let mac = extract_rtf(b"{\\rtf1\\mac caf\\'8e\\par}");
        assert_eq!(mac.segments[0].text, "café");
    }

    #[test]
    fn drop_cap_begins_its_paragraph() {
        let rtf = br"{\rtf1\ansi {\pard\dropcapli3\dropcapt1 W\par}\pard hen it rains.\par\pard Next.\par}";
        assert_eq!(extract_rtf(rtf).segments[0].text, "When it rains.\nNext.");
    }

    #[test]
    fn broken_files_end() {
        for rtf in [&b"{\\rtf1 a\\'"[..], b"{\\rtf1 \\u", b"{\\rtf1 \\bin999999999 x", b"{\\rtf1 }}}}} a\\"] {
            let _ = extract_rtf(rtf);
        }
    }
}
