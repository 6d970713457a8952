//! Escaping of text for JSON that is also safe as one line of an event stream, for all readers' definitions
//! of a line.

/// The bytes that are checked at once, because most text needs no escape.
const WORD_BYTES: usize = size_of::<u64>();

/// Returns a word of which each byte is this one.
const fn repeat_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; WORD_BYTES])
}

/// Returns a word whose lowest byte that is not zero is the first byte that may need an escape.
const fn mark_escapes(word: u64) -> u64 {
    const fn mark_zeros(word: u64) -> u64 {
        word.wrapping_sub(repeat_byte(1)) & !word & repeat_byte(0x80)
    }
    let controls = word.wrapping_sub(repeat_byte(0x20)) & !word & repeat_byte(0x80);
    controls
        | mark_zeros(word ^ repeat_byte(b'"'))
        | mark_zeros(word ^ repeat_byte(b'\\'))
        | mark_zeros(word ^ repeat_byte(0xC2))
        | mark_zeros(word ^ repeat_byte(0xE2))
}

const fn may_need_escape(byte: u8) -> bool {
    byte < 0x20 || matches!(byte, b'"' | b'\\' | 0xC2 | 0xE2)
}

/// Returns the number of bytes before the first one that may need an escape.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (at, word) in words.iter().enumerate() {
        let marks = mark_escapes(u64::from_le_bytes(*word));
        if marks != 0 {
            return at * WORD_BYTES + marks.trailing_zeros() as usize / 8;
        }
    }
    let in_rest = rest.iter().position(|byte| may_need_escape(*byte)).unwrap_or(rest.len());
    words.len() * WORD_BYTES + in_rest
}

/// Appends text as the inside of a JSON string, without the quotes. Also escapes U+0085, U+2028 and U+2029,
/// because some readers of event streams treat them as line ends. Escaping pieces separately gives the same
/// result as escaping the complete text.
pub fn json_escape_into(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + bytes.len() / 16);
    let (mut copied, mut at) = (0, plain_length(bytes));
    while let Some(byte) = bytes.get(at) {
        let (length, escaped): (usize, &[u8]) = match byte {
            b'"' => (1, b"\\\""),
            b'\\' => (1, b"\\\\"),
            b'\n' => (1, b"\\n"),
            b'\r' => (1, b"\\r"),
            b'\t' => (1, b"\\t"),
            0..0x20 => (1, b""),
            0xC2 if bytes[at..].starts_with(b"\xC2\x85") => (2, b"\\u0085"),
            0xE2 if bytes[at..].starts_with(b"\xE2\x80\xA8") => (3, b"\\u2028"),
            0xE2 if bytes[at..].starts_with(b"\xE2\x80\xA9") => (3, b"\\u2029"),
            _ => {
                at += 1 + plain_length(&bytes[at + 1..]);
                continue;
            }
        };
        out.extend_from_slice(&bytes[copied..at]);
        if escaped.is_empty() {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.extend_from_slice(escaped);
        }
        copied = at + length;
        at = copied + plain_length(&bytes[copied..]);
    }
    out.extend_from_slice(&bytes[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escape_to_string(text: &str) -> String {
        let mut out = Vec::new();
        json_escape_into(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_line_ends_are_escaped() {
        assert_eq!(
            escape_to_string("a\"\\\n\r\t\u{1}\u{7f}č\u{85}\u{2028}\u{2029}\u{2027}"),
            "a\\\"\\\\\\n\\r\\t\\u0001\u{7f}č\\u0085\\u2028\\u2029\u{2027}"
        );
    }

    proptest! {
        #[test]
        fn it_reads_back(parts in prop::collection::vec(
            prop_oneof![any::<String>(), "[\u{0}-\u{20}\"\\\\\u{80}-\u{90}\u{2020}-\u{2030}]*"], 0..4
        )) {
            let whole = parts.concat();
            let text = escape_to_string(&whole);
            prop_assert_eq!(&parts.iter().map(|part| escape_to_string(part)).collect::<String>(), &text);
            prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{text}\"")).unwrap(), whole);
            let ends_a_line = |c: char| c.is_control() && c != '\u{7f}' && (c as u32) < 0x20
                || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
            prop_assert!(!text.contains(ends_a_line));
        }
    }
}
