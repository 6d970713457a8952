//! The numbers in the brackets of a mark.

use super::{MARK_MAX, MARK_NUMBERS_MAX};

/// The longest text between the brackets, in bytes.
const LIST_MAX_BYTES: usize = 96;

/// Scans `1]`, `1, 2]`, `1; 2]` and `1-3]`. Returns the number of bytes before the bracket, with the numbers; `None` inside if it is
/// something else, outside if more text is needed.
#[expect(clippy::option_option, reason = "undecided, no list, and the list are three answers")]
pub(super) fn scan_numbers(text: &str, ended: bool) -> Option<Option<(usize, Vec<u32>)>> {
    let mut list = NumberList { text, at: 0, numbers: Vec::new() };
    match list.read_list() {
        Ok(()) => Some(Some((list.at, list.numbers))),
        Err(ListEndReason::Missing) if !ended => None,
        Err(ListEndReason::Missing | ListEndReason::Other) => Some(None),
    }
}

/// The reason why a list ends before its bracket.
enum ListEndReason {
    Missing,
    Other,
}

struct NumberList<'t> {
    text: &'t str,
    at: usize,
    numbers: Vec<u32>,
}

impl NumberList<'_> {
    /// Reads to the closing bracket.
    fn read_list(&mut self) -> Result<(), ListEndReason> {
        loop {
            let first = self.read_number()?;
            self.skip_space();
            let last = if self.take_sign(['-', '\u{2013}'])? {
                self.skip_space();
                let last = self.read_number()?;
                self.skip_space();
                if last <= first {
                    return Err(ListEndReason::Other);
                }
                last
            } else {
                first
            };
            if (last - first) as usize >= MARK_NUMBERS_MAX - self.numbers.len() {
                return Err(ListEndReason::Other);
            }
            self.numbers.extend(first..=last);
            if !self.take_sign([',', ';'])? {
                // A space is part of a list only between its numbers.
                return if self.text[self.at..].starts_with(']') && !self.text[..self.at].ends_with(' ') {
                    Ok(())
                } else {
                    Err(ListEndReason::Other)
                };
            }
            self.skip_space();
        }
    }

    fn read_number(&mut self) -> Result<u32, ListEndReason> {
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
        match rest[..digits].parse() {
            _ if rest.is_empty() => Err(ListEndReason::Missing),
            Ok(number) if digits <= 3 && number <= MARK_MAX && !rest.starts_with('0') => {
                self.at += digits;
                Ok(number)
            }
            _ => Err(ListEndReason::Other),
        }
    }

    fn skip_space(&mut self) {
        self.at += usize::from(self.text[self.at..].starts_with(' '));
    }

    /// Takes one of two signs, if it is next.
    fn take_sign(&mut self, signs: [char; 2]) -> Result<bool, ListEndReason> {
        if self.at > LIST_MAX_BYTES {
            return Err(ListEndReason::Other);
        }
        let Some(next) = self.text[self.at..].chars().next() else { return Err(ListEndReason::Missing) };
        let is_taken = signs.contains(&next);
        self.at += if is_taken { next.len_utf8() } else { 0 };
        Ok(is_taken)
    }
}
