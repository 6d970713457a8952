//! Makes the heads of messages readable for the parser: words in an old encoding that no field names, and letters that are split over two
//! encoded words.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use super::{mail_text, text};

/// The maximum number of bytes of a message by which its encoding is detected.
const SAMPLE_MAX_BYTES: usize = 64 * 1024;
/// The range in which a message names its encoding, in bytes from its start.
const NAMED_WITHIN_BYTES: usize = 64 * 1024;

/// Returns a message whose heads are in UTF-8, with encoded words that have whole letters.
pub(super) fn normalize_message_heads(message: &[u8]) -> Cow<'_, [u8]> {
    if let Some((encoding, _)) = Encoding::for_bom(message)
        && [UTF_16LE, UTF_16BE].contains(&encoding)
    {
        let decoded = encoding.decode(message).0.into_owned().into_bytes();
        return Cow::Owned(normalize_message_heads(&decoded).into_owned());
    }
    let mut heads = Heads { message, encoding: None, field: 0..0, copied: 0, out: Vec::new() };
    heads.read_heads();
    if heads.copied == 0 {
        return Cow::Borrowed(message);
    }
    heads.out.extend_from_slice(&message[heads.copied..]);
    Cow::Owned(heads.out)
}

/// The headers of a message and of its parts, and the rewritten message.
struct Heads<'a> {
    message: &'a [u8],
    encoding: Option<&'static Encoding>,
    /// The field that is read.
    field: std::ops::Range<usize>,
    /// The part of the message that is written.
    copied: usize,
    out: Vec<u8>,
}

impl Heads<'_> {
    fn read_heads(&mut self) {
        let (mut at, mut in_head, mut holds_message) = (0, true, false);
        for line in self.message.split_inclusive(|byte| *byte == b'\n') {
            let end = at + line.len();
            let trimmed = line.trim_ascii_end();
            let is_continued = line.starts_with(b" ") || line.starts_with(b"\t");
            if !in_head {
                in_head = trimmed.starts_with(b"--") && trimmed.len() > 2;
                holds_message = false;
            } else if trimmed.is_empty() {
                self.end_field();
                // The header of a nested message follows the part's header.
                in_head = std::mem::take(&mut holds_message);
            } else if is_continued && !self.field.is_empty() {
                self.field.end = end;
            } else {
                self.end_field();
                in_head = is_field(line) || line.starts_with(b"From ");
                self.field = at..end;
                holds_message |= is_kind_of_message(line);
            }
            at = end;
        }
        if in_head {
            self.end_field();
        }
    }

    fn end_field(&mut self) {
        let field = std::mem::take(&mut self.field);
        let Some(content) = self.message.get(field.clone()).filter(|content| is_field(content)) else {
            return;
        };
        let decoded = match std::str::from_utf8(content) {
            Ok(_) => None,
            Err(_) => {
                Some(self.detect_encoding().decode_without_bom_handling(content).0.into_owned().into_bytes())
            }
        };
        let joined = joined_words(decoded.as_deref().unwrap_or(content));
        if let Some(changed) = joined.or(decoded) {
            self.out.extend_from_slice(&self.message[self.copied..field.start]);
            self.out.extend_from_slice(&changed);
            self.copied = field.end;
        }
    }

    /// Returns the encoding that a part names, else the detected encoding of the message.
    fn detect_encoding(&mut self) -> &'static Encoding {
        let message = self.message;
        self.encoding.get_or_insert_with(|| {
            let named = named_encoding(&message[..message.len().min(NAMED_WITHIN_BYTES)]);
            named.unwrap_or_else(|| {
                let mut sample = Vec::new();
                for line in message.split_inclusive(|byte| *byte == b'\n') {
                    if sample.len() >= SAMPLE_MAX_BYTES {
                        break;
                    }
                    if std::str::from_utf8(line).is_err() {
                        sample.extend_from_slice(&line[..line.len().min(SAMPLE_MAX_BYTES)]);
                    }
                }
                text::detect_encoding(&sample).unwrap_or(encoding_rs::WINDOWS_1250)
            })
        })
    }
}

/// Returns true for the first line of a field: a name before a colon.
fn is_field(line: &[u8]) -> bool {
    let name = line.iter().position(|byte| *byte == b':').map(|end| &line[..end]);
    name.is_some_and(|name| !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic()))
}

fn is_kind_of_message(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    line.starts_with(b"content-type:") && line.windows(7).any(|word| word == b"message")
}

/// Returns the first encoding of single letters that a message names.
fn named_encoding(message: &[u8]) -> Option<&'static Encoding> {
    let beginning = String::from_utf8_lossy(message).to_ascii_lowercase();
    let names = beginning.split("charset=").skip(1);
    let encodings = names.filter_map(|rest| {
        let label = rest.trim_start_matches(['"', '\'']);
        let end = label.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_".contains(letter));
        mail_text::named_encoding(&label[..end.unwrap_or(label.len())])
    });
    encodings
        .into_iter()
        .find(|encoding| *encoding != UTF_8 && *encoding != UTF_16LE && *encoding != UTF_16BE)
}

/// A word `=?utf-8?Q?K=C5=AF=C5=88?=` of a head.
struct EncodedWord<'a> {
    charset: &'a str,
    content: Vec<u8>,
    /// The rest after it.
    rest: &'a [u8],
}

/// Returns a field in which encoded words that follow each other in one encoding are one word; `None` without such words.
fn joined_words(field: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut rest, mut is_changed) = (field, false);
    while let Some(at) = rest.windows(2).position(|mark| mark == b"=?") {
        let Some(first) = encoded_word(&rest[at..]) else {
            out.extend_from_slice(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        out.extend_from_slice(&rest[..at]);
        let (mut content, mut after, mut count) = (first.content, first.rest, 1);
        while let Some(next) = encoded_word(after.trim_ascii_start())
            && next.charset.eq_ignore_ascii_case(first.charset)
        {
            content.extend_from_slice(&next.content);
            (after, count) = (next.rest, count + 1);
        }
        if count > 1 {
            is_changed = true;
            out.extend_from_slice(
                format!("=?{}?B?{}?=", first.charset, STANDARD.encode(&content)).as_bytes(),
            );
        } else {
            out.extend_from_slice(&rest[at..rest.len() - after.len()]);
        }
        rest = after;
    }
    out.extend_from_slice(rest);
    is_changed.then_some(out)
}

/// Returns the encoded word that a text begins with.
fn encoded_word(text: &[u8]) -> Option<EncodedWord<'_>> {
    const WORD_MAX_BYTES: usize = 4096;
    let inside = text.strip_prefix(b"=?")?;
    let mut parts = inside[..inside.len().min(WORD_MAX_BYTES)].splitn(4, |byte| *byte == b'?');
    let (charset, kind, content, end) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if !end.starts_with(b"=") {
        return None;
    }
    let content_bytes = match kind {
        b"B" | b"b" => mail_text::from_base64(content).0,
        b"Q" | b"q" => {
            let spaced: Vec<u8> =
                content.iter().map(|byte| if *byte == b'_' { b' ' } else { *byte }).collect();
            mail_text::from_quoted(&spaced)
        }
        _ => return None,
    };
    let rest = &inside[charset.len() + kind.len() + content.len() + 4..];
    Some(EncodedWord { charset: std::str::from_utf8(charset).ok()?, content: content_bytes, rest })
}
