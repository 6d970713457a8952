//! Decompresses the rich text of messages of Outlook: pieces that repeat earlier text, in a window that is prefilled.

/// The content of the window at the beginning.
const BEGINNING: &[u8] = b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";
const WINDOW_BYTES: usize = 4096;
const HEAD_BYTES: usize = 16;
/// The maximum text length of a message, in bytes.
const TEXT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Returns the rich text; `None` if its form is unknown. A damaged one ends early.
pub(crate) fn decompress_rtf(bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, content) = bytes.split_at_checked(HEAD_BYTES)?;
    let length = u32::from_le_bytes(*head.get(4..)?.first_chunk()?);
    let length = usize::try_from(length).ok()?.min(TEXT_MAX_BYTES);
    match &head[8..12] {
        b"LZFu" => Some(decompress_lzfu(content, length)),
        b"MELA" => Some(content[..content.len().min(length)].to_vec()),
        _ => None,
    }
}

fn decompress_lzfu(content: &[u8], length: usize) -> Vec<u8> {
    let mut window = [b' '; WINDOW_BYTES];
    window[..BEGINNING.len()].copy_from_slice(BEGINNING);
    let mut place = BEGINNING.len();
    let mut out = Vec::new();
    let mut rest = content;
    let mut push = |byte: u8, window: &mut [u8; WINDOW_BYTES], place: &mut usize| {
        window[*place] = byte;
        *place = (*place + 1) % WINDOW_BYTES;
        out.push(byte);
        out.len() < length
    };
    'all: while let Some((flags, after)) = rest.split_first() {
        rest = after;
        for bit in 0..8 {
            if flags >> bit & 1 == 0 {
                let Some((byte, after)) = rest.split_first() else { break 'all };
                rest = after;
                if !push(*byte, &mut window, &mut place) {
                    break 'all;
                }
                continue;
            }
            let Some((reference, after)) = rest.split_first_chunk() else { break 'all };
            rest = after;
            let reference = usize::from(u16::from_be_bytes(*reference));
            let (from, count) = (reference >> 4, (reference & 0xf) + 2);
            // The end refers to the place that is written next.
            if from == place {
                break 'all;
            }
            for step in 0..count {
                let byte = window[(from + step) % WINDOW_BYTES];
                if !push(byte, &mut window, &mut place) {
                    break 'all;
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first example of MS-OXRTFCP.
    const EXAMPLE: &[u8] = &[
        0x2d, 0, 0, 0, 0x2b, 0, 0, 0, 0x4c, 0x5a, 0x46, 0x75, 0xf1, 0xc5, 0xc7, 0xa7, 0x03, 0x00, 0x0a, 0x00,
        0x72, 0x63, 0x70, 0x67, 0x31, 0x32, 0x35, 0x42, 0x32, 0x0a, 0xf3, 0x20, 0x68, 0x65, 0x6c, 0x09, 0x00,
        0x20, 0x62, 0x77, 0x05, 0xb0, 0x6c, 0x64, 0x7d, 0x0a, 0x80, 0x0f, 0xa0,
    ];

    #[test]
    fn decompress_rtf_specification_example() {
        let text = decompress_rtf(EXAMPLE).expect("it is compressed");
        assert_eq!(String::from_utf8_lossy(&text), "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n");
    }

    #[test]
    fn damage_ends_it_early() {
        for length in 0..EXAMPLE.len() {
            assert!(decompress_rtf(&EXAMPLE[..length]).is_none_or(|text| text.len() <= 43));
        }
        assert!(decompress_rtf(&[0xff; 40]).is_none());
        let plain = [&[0; 4][..], &[5, 0, 0, 0], b"MELA", &[0; 4], b"words and more"].concat();
        assert_eq!(decompress_rtf(&plain).as_deref(), Some(&b"words"[..]));
    }
}
