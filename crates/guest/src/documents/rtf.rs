//! Reads rich text (RTF) as plain text.

use std::collections::HashMap;

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1250, WINDOWS_1252};

use super::output::Writer;
use super::text::code_page;
use super::{Extracted, Format};

/// The maximum depth of groups; deeper ones are treated as being at this depth.
const DEPTH_MAX: usize = 256;
/// The most fonts whose character sets are known.
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
struct Group {
    hidden: bool,
    /// True in the list of fonts.
    lists_fonts: bool,
    font: i32,
    /// The number of characters after `\u` for readers without Unicode.
    fallback: usize,
}

impl Group {
    const OUTERMOST: Self = Self { hidden: false, lists_fonts: false, font: 0, fallback: 1 };
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    groups: Vec<Group>,
    encoding: &'static Encoding,
    /// The encodings of fonts with a character set of their own.
    fonts: HashMap<i32, &'static Encoding>,
    default_font: i32,
    writer: Writer,
    line: String,
    /// Bytes of `\'xx` that are not decoded yet.
    pending: Vec<u8>,
    skip: usize,
    high: Option<u16>,
}

pub(super) fn extract(bytes: &[u8]) -> Extracted {
    let mut reader = Reader {
        bytes,
        at: 0,
        groups: vec![Group::OUTERMOST],
        encoding: WINDOWS_1250,
        fonts: HashMap::new(),
        default_font: 0,
        writer: Writer::new(),
        line: String::new(),
        pending: Vec::new(),
        skip: 0,
        high: None,
    };
    while let Some(byte) = reader.next() {
        reader.step(byte);
        if reader.writer.is_full() {
            break;
        }
    }
    reader.end_line();
    reader.writer.finish(Format::Rtf)
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn group(&self) -> Group {
        self.groups.last().copied().unwrap_or(Group::OUTERMOST)
    }

    fn step(&mut self, byte: u8) {
        match byte {
            b'{' => {
                // What old readers show ends with its group.
                self.skip = 0;
                if self.groups.len() < DEPTH_MAX {
                    self.groups.push(self.group());
                }
            }
            b'}' => {
                self.skip = 0;
                self.flush();
                if self.groups.len() > 1 {
                    self.groups.pop();
                }
            }
            b'\\' => self.control(),
            b'\r' | b'\n' => {}
            _ => self.byte(byte),
        }
    }

    /// Adds a byte of text, in the code page of its font or of the document.
    fn byte(&mut self, byte: u8) {
        if self.skip > 0 {
            self.skip -= 1;
        } else if !self.group().hidden {
            self.pending.push(byte);
        }
    }

    fn flush(&mut self) {
        if !self.pending.is_empty() {
            let encoding = self.fonts.get(&self.group().font).copied().unwrap_or(self.encoding);
            let decoded = encoding.decode_without_bom_handling(&self.pending).0.into_owned();
            self.line.push_str(&decoded);
            self.pending.clear();
        }
    }

    fn push(&mut self, text: &str) {
        self.flush();
        if !self.group().hidden {
            self.line.push_str(text);
        }
    }

    fn end_line(&mut self) {
        self.flush();
        let line = std::mem::take(&mut self.line);
        self.writer.line(&line);
    }

    fn control(&mut self) {
        let Some(first) = self.next() else { return };
        if !first.is_ascii_alphabetic() {
            match first {
                b'\'' => {
                    let digits =
                        self.bytes.get(self.at..self.at + 2).and_then(|hex| std::str::from_utf8(hex).ok());
                    if let Some(byte) = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                        self.at += 2;
                        self.byte(byte);
                    }
                }
                b'~' => self.push(" "),
                b'_' => self.push("-"),
                b'*' => self.hide(),
                b'\\' | b'{' | b'}' => self.byte(first),
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
        self.word(word, number);
    }

    fn change_group(&mut self, change: impl FnOnce(&mut Group)) {
        self.flush();
        if let Some(group) = self.groups.last_mut() {
            change(group);
        }
    }

    fn hide(&mut self) {
        self.change_group(|group| group.hidden = true);
    }

    fn font(&mut self, number: i32) {
        self.change_group(|group| group.font = number);
    }

    fn word(&mut self, word: &[u8], number: Option<i32>) {
        self.skip = 0;
        match word {
            b"par" | b"row" | b"page" | b"sect" if !self.group().hidden => self.end_line(),
            b"line" => self.push(" "),
            b"tab" | b"cell" => self.push("\t"),
            b"endash" => self.push("–"),
            b"emdash" => self.push("—"),
            b"bullet" => self.push("•"),
            b"lquote" | b"rquote" => self.push("'"),
            b"ldblquote" | b"rdblquote" => self.push("\""),
            b"mac" => {
                self.flush();
                self.encoding = MACINTOSH;
            }
            b"ansicpg" => {
                self.flush();
                let page = number.and_then(|number| code_page(number.try_into().ok()?));
                self.encoding = page.unwrap_or(WINDOWS_1252);
            }
            b"fonttbl" => {
                self.hide();
                self.change_group(|group| group.lists_fonts = true);
            }
            b"f" => self.font(number.unwrap_or(0)),
            b"deff" => {
                self.default_font = number.unwrap_or(0);
                self.font(self.default_font);
            }
            b"plain" => self.font(self.default_font),
            b"fcharset" if self.group().lists_fonts && self.fonts.len() < FONTS_MAX => {
                if let Some(encoding) = number.and_then(character_set) {
                    self.fonts.insert(self.group().font, encoding);
                }
            }
            b"uc" => {
                let count = number.and_then(|count| usize::try_from(count).ok()).unwrap_or(1).min(8);
                self.change_group(|group| group.fallback = count);
            }
            b"u" => self.unicode(number.unwrap_or(0)),
            b"bin" => self.at = self.at.saturating_add(usize::try_from(number.unwrap_or(0)).unwrap_or(0)),
            _ if HIDDEN.contains(&word) => self.hide(),
            _ => {}
        }
    }

    /// Adds a UTF-16 unit, negative above 32767; skips the fallback characters for old readers.
    fn unicode(&mut self, number: i32) {
        let unit = u16::try_from(number.rem_euclid(0x1_0000)).unwrap_or(0xfffd);
        self.skip = self.group().fallback;
        let units = match self.high.take() {
            Some(high) => vec![high, unit],
            None if (0xd800..0xdc00).contains(&unit) => {
                self.high = Some(unit);
                return;
            }
            None => vec![unit],
        };
        let text = String::from_utf16_lossy(&units);
        self.push(&text);
    }
}

/// Returns the encoding of a font's character set; `None` of sets that say nothing, or are not of letters.
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
        let extracted = extract(rtf);
        assert_eq!(extracted.segments[0].text, "Nájemné činí 5 000 Kč\n{second}");
    }

    #[test]
    fn items_of_lists_keep_their_first_letter() {
        let rtf = br"{\rtf1\ansi {\listtext\tab\u8226 \tab}First\par {\listtext\tab 2.\tab}Second\par \u352 ?ipka \u353\'9aest\par}";
        assert_eq!(extract(rtf).segments[0].text, "•\tFirst\n2.\tSecond\nŠipka šest");
        let mac = extract(b"{\\rtf1\\mac caf\\'8e\\par}");
        assert_eq!(mac.segments[0].text, "café");
    }

    #[test]
    fn broken_files_end() {
        for rtf in [&b"{\\rtf1 a\\'"[..], b"{\\rtf1 \\u", b"{\\rtf1 \\bin999999999 x", b"{\\rtf1 }}}}} a\\"] {
            let _ = extract(rtf);
        }
    }
}
