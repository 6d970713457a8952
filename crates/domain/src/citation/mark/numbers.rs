//! The numbers in the brackets of a mark.

use super::{MARK_MAX, MARK_NUMBERS_MAX};

/// The longest text between the brackets, in bytes.
const LIST_MAX_BYTES: usize = 96;

/// Scans `1]`, `1, 2]`, `1; 2]` and `1-3]`. Returns the number of bytes before the bracket, with the numbers; `None` inside if it is
/// something else, outside if more text is needed.
#[expect(clippy::option_option, reason = "undecided, no list, and the list are three answers")]
pub(super) fn numbers(text: &str, ended: bool) -> Option<Option<(usize, Vec<u32>)>> {
    let mut list = List { text, at: 0, numbers: Vec::new() };
    match list.read() {
        Ok(()) => Some(Some((list.at, list.numbers))),
        Err(End::Missing) if !ended => None,
        Err(End::Missing | End::Other) => Some(None),
    }
}

/// The reason why a list ends before its bracket.
enum End {
    /// The text ends.
    Missing,
    Other,
}

struct List<'t> {
    text: &'t str,
    at: usize,
    numbers: Vec<u32>,
}

impl List<'_> {
    /// Reads to the closing bracket.
    fn read(&mut self) -> Result<(), End> {
        loop {
            let first = self.number()?;
            self.space();
            let last = if self.take(['-', '\u{2013}'])? {
                self.space();
                let last = self.number()?;
                self.space();
                if last <= first {
                    return Err(End::Other);
                }
                last
            } else {
                first
            };
            if (last - first) as usize >= MARK_NUMBERS_MAX - self.numbers.len() {
                return Err(End::Other);
            }
            self.numbers.extend(first..=last);
            if !self.take([',', ';'])? {
                // A space is part of a list only between its numbers.
                return if self.text[self.at..].starts_with(']') && !self.text[..self.at].ends_with(' ') {
                    Ok(())
                } else {
                    Err(End::Other)
                };
            }
            self.space();
        }
    }

    fn number(&mut self) -> Result<u32, End> {
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
        match rest[..digits].parse() {
            _ if rest.is_empty() => Err(End::Missing),
            Ok(number) if digits <= 3 && number <= MARK_MAX && !rest.starts_with('0') => {
                self.at += digits;
                Ok(number)
            }
            _ => Err(End::Other),
        }
    }

    fn space(&mut self) {
        self.at += usize::from(self.text[self.at..].starts_with(' '));
    }

    /// Takes one of two signs, if it is next.
    fn take(&mut self, signs: [char; 2]) -> Result<bool, End> {
        if self.at > LIST_MAX_BYTES {
            return Err(End::Other);
        }
        let Some(next) = self.text[self.at..].chars().next() else { return Err(End::Missing) };
        let is_taken = signs.contains(&next);
        self.at += if is_taken { next.len_utf8() } else { 0 };
        Ok(is_taken)
    }
}
