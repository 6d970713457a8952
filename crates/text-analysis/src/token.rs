//! Tokenizer: words and numbers with their positions in the text.

use crate::fold::is_combining;

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Letters, possibly with digits: `byt`, `2kk`.
    Word,
    /// Digits, possibly grouped like an amount: `12 500,50`.
    Number,
    /// A number after a paragraph sign: `§ 12`.
    Section,
}

/// A word or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextToken<'a> {
    pub kind: TokenKind,
    /// The original text; of a section only the number.
    pub text: &'a str,
    /// The byte offset of `text`.
    pub start: usize,
}

impl TextToken<'_> {
    /// Returns the byte offset after its end.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start + self.text.len()
    }
}

/// Returns the tokens of a text, in order.
#[must_use]
pub fn tokenize_text(text: &str) -> Vec<TextToken<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut after_section_sign = false;
    while let Some(c) = text[at..].chars().next() {
        if c.is_ascii_digit() {
            let end = number_end(text, at);
            if let Some(word_end) = word_after_digits(text, at, end) {
                found.push(TextToken { kind: TokenKind::Word, text: &text[at..word_end], start: at });
                at = word_end;
            } else {
                let kind = if after_section_sign { TokenKind::Section } else { TokenKind::Number };
                let end = if after_section_sign { digits_end(text, at) } else { end };
                found.push(TextToken { kind, text: &text[at..end], start: at });
                at = end;
            }
            after_section_sign = false;
        } else if c.is_alphanumeric() {
            let end = word_end(text, at);
            found.push(TextToken { kind: TokenKind::Word, text: &text[at..end], start: at });
            at = end;
            after_section_sign = false;
        } else {
            after_section_sign = c == '§' || (after_section_sign && c.is_whitespace());
            at += c.len_utf8();
        }
    }
    found
}

/// Normalizes a number, without grouping and with a decimal point: `12 500,50` becomes `12500.50`.
#[must_use]
pub fn normal_number(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let groups: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).collect();
    let separators: Vec<char> = text.chars().filter(|c| !c.is_ascii_digit()).collect();
    for (index, group) in groups.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| separators.get(at));
        if let Some(separator) = before
            && matches!(separator, '.' | ',')
            && (group.len() != 3
                || index > 1 && separators.first() != Some(separator) && index + 1 == groups.len())
        {
            out.push('.');
        }
        out.push_str(group);
    }
    out
}

fn word_end(text: &str, from: usize) -> usize {
    text[from..]
        .char_indices()
        .find(|(_, c)| !c.is_alphanumeric() && !is_combining(*c))
        .map_or(text.len(), |(at, _)| from + at)
}

fn digits_end(text: &str, from: usize) -> usize {
    text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |at| from + at)
}

/// Returns the end of a word that begins with digits (`2kk`, `10a`).
fn word_after_digits(text: &str, from: usize, number_end: usize) -> Option<usize> {
    let digits_end = digits_end(text, from);
    if digits_end != number_end {
        return None;
    }
    let next = text[digits_end..].chars().next()?;
    if next.is_alphabetic() { Some(word_end(text, digits_end)) } else { None }
}

/// Returns the end of a number with its groups of three and its decimals.
fn number_end(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = digits_end(text, from);
    let first_length = end - from;
    loop {
        let Some(separator) = text[end..].chars().next() else { return end };
        let next = end + separator.len_utf8();
        let group = digits_end(text, next) - next;
        let grouped = group == 3 && first_length <= 3 && bytes.get(from) != Some(&b'0');
        match separator {
            ' ' | '\u{a0}' | '\u{202f}' | '\u{2009}' | '\'' if grouped => end = next + group,
            '.' | ',' if grouped => end = next + group,
            '.' | ',' if group == 1 || group == 2 => {
                // A decimal part ends the number, unless it belongs to a date: `1.3.2024`.
                let after = next + group;
                let date = separator == '.' && bytes.get(after) == Some(&b'.');
                return if date { end } else { after };
            }
            _ => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_texts(text: &str) -> Vec<&str> {
        tokenize_text(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn amounts_are_one_token() {
        assert_eq!(token_texts("12 500,50 Kč"), ["12 500,50", "Kč"]);
        assert_eq!(token_texts("EUR 1,250.00 per"), ["EUR", "1,250.00", "per"]);
        assert_eq!(normal_number("12 500,50"), "12500.50");
        assert_eq!(normal_number("1,250.00"), "1250.00");
        assert_eq!(normal_number("1\u{a0}250\u{a0}000"), "1250000");
        assert_eq!(normal_number("12.500"), "12500");
        assert_eq!(normal_number("0,05"), "0.05");
    }

    #[test]
    fn dates_and_sections_are_taken_apart() {
        assert_eq!(token_texts("dne 1. 3. 2024"), ["dne", "1", "3", "2024"]);
        assert_eq!(token_texts("1.3.2024"), ["1", "3", "2024"]);
        let found = tokenize_text("podle § 12 odst. 2");
        assert_eq!(found[1].kind, TokenKind::Section);
        assert_eq!(found[1].text, "12");
        assert_eq!(found[3].kind, TokenKind::Number);
    }

    #[test]
    fn words_keep_their_places() {
        let text = "Byt 2kk, žlutý.";
        let found = tokenize_text(text);
        assert_eq!(found.iter().map(|token| token.text).collect::<Vec<_>>(), ["Byt", "2kk", "žlutý"]);
        for token in found {
            assert_eq!(&text[token.start..token.end()], token.text);
        }
    }
}
