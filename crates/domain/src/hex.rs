//! Lower-case hexadecimal digits, two per byte.

#[must_use]
pub fn encode_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Decodes digits of either case; `None` for other characters or an odd number of digits.
#[must_use]
pub fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    // Number parsers would accept a sign.
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

/// Decodes exactly `LENGTH` bytes; `None` for any other length.
#[must_use]
pub fn decode_array<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    if text.len() == 2 * LENGTH { decode_hex(text)?.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode_hex(&bytes);
        assert_eq!((&text[..6], &text[508..]), ("000102", "feff"));
        assert_eq!((decode_hex(&text), decode_hex(&text.to_uppercase())), (Some(bytes.clone()), Some(bytes)));
        assert_eq!((decode_hex(""), decode_array("0aff")), (Some(Vec::new()), Some([0x0a, 0xff])));
    }

    #[test]
    fn other_texts_are_refused() {
        for wrong in ["0", "0g", "+f", " f", "0x", "č", "0č0"] {
            assert_eq!(decode_hex(wrong), None, "{wrong}");
        }
        assert_eq!((decode_array::<2>("0a"), decode_array::<2>("0aff00")), (None, None));
    }
}
