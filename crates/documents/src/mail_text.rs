//! The texts of messages: which of their alternatives are read, and how their parts are decoded.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use mail_parser::{Encoding as Transfer, Message, MessagePart, MimeHeaders, PartType};

use super::{html, text};

/// The maximum number of words of a text that are compared with another text.
const COMPARED_MAX_WORDS: usize = 20_000;
/// The share of a text's words that makes another one dispensable: 4 of 5.
const COVERED_OF_FIVE: usize = 4;
/// The minimum length, in bytes, of a line of base64 after the end of another.
const MORE_BASE64_MIN_BYTES: usize = 16;

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A text of a message.
pub(super) enum MailBody {
    Plain(String),
    Page(String),
}

impl MailBody {
    pub(super) fn has_words(&self) -> bool {
        !self.visible_words().is_empty()
    }

    /// Returns the words that a reader sees.
    fn visible_words(&self) -> HashSet<String> {
        match self {
            Self::Plain(text) => collect_words([text.as_str()]),
            Self::Page(page) => {
                let page = html::extract_html(page.as_bytes());
                collect_words(page.segments.iter().map(|segment| segment.text.as_str()))
            }
        }
    }
}

fn collect_words<'a>(texts: impl IntoIterator<Item = &'a str>) -> HashSet<String> {
    let words = texts.into_iter().flat_map(|text| text.split(|letter: char| !letter.is_alphanumeric()));
    let words = words.filter(|word| !word.is_empty()).take(COMPARED_MAX_WORDS);
    words.map(str::to_lowercase).collect()
}

/// Returns the texts of a message in their order: for alternatives, the plain one, unless the page contains more.
pub(super) fn message_bodies(message: &Message<'_>) -> Vec<MailBody> {
    let body = |id: &u32| {
        let part = message.parts.get(*id as usize)?;
        match &part.body {
            PartType::Text(_) => Some((*id, MailBody::Plain(decode_part_text(message, part).into_owned()))),
            PartType::Html(_) => Some((*id, MailBody::Page(decode_part_text(message, part).into_owned()))),
            _ => None,
        }
    };
    let (texts, pages) = (&message.text_body, &message.html_body);
    let sets: [HashSet<u32>; 2] = [texts, pages].map(|ids| ids.iter().copied().collect());
    let of = |ids: &[u32], others: &HashSet<u32>| -> Vec<(u32, MailBody)> {
        ids.iter().filter(|id| !others.contains(id)).filter_map(body).collect()
    };
    let chosen =
        choose_alternatives(of(texts, &sets[1]), of(pages, &sets[0]), |(_, body)| body.visible_words());
    let shared = texts.iter().filter(|id| sets[1].contains(id)).filter_map(body);
    let mut bodies: Vec<(u32, MailBody)> = chosen.into_iter().chain(shared).collect();
    bodies.sort_by_key(|(id, _)| *id);
    bodies.into_iter().map(|(_, body)| body).collect()
}

/// Returns the texts of a message that has its text in two forms.
pub(super) fn of_forms(plain: MailBody, page: MailBody) -> Vec<MailBody> {
    choose_alternatives(vec![plain], vec![page], MailBody::visible_words)
}

/// Returns the plain texts if they contain the words of the pages, the pages if they contain the words of the plain
/// texts, else both.
fn choose_alternatives<T>(
    mut plain: Vec<T>,
    mut pages: Vec<T>,
    words: impl Fn(&T) -> HashSet<String>,
) -> Vec<T> {
    if plain.is_empty() || pages.is_empty() {
        plain.append(&mut pages);
        return plain;
    }
    let all = |bodies: &[T]| bodies.iter().flat_map(&words).collect::<HashSet<String>>();
    let (plain_words, page_words) = (all(&plain), all(&pages));
    let covers = |these: &HashSet<String>, those: &HashSet<String>| {
        let common = those.iter().filter(|word| these.contains(*word)).count();
        common * 5 >= those.len() * COVERED_OF_FIVE
    };
    if covers(&plain_words, &page_words) {
        return plain;
    }
    if covers(&page_words, &plain_words) || plain_words.is_empty() {
        return pages;
    }
    plain.append(&mut pages);
    plain
}

/// Returns the text of a part, in the encoding that it names unless its bytes are another.
pub(super) fn decode_part_text<'a>(message: &'a Message<'_>, part: &'a MessagePart<'_>) -> Cow<'a, str> {
    let (PartType::Text(parsed) | PartType::Html(parsed)) = &part.body else { return Cow::Borrowed("") };
    let Some((content, footer)) = without_transfer(message, part) else { return Cow::Borrowed(parsed) };
    let is_plain = matches!(part.body, PartType::Text(_));
    let mut text = match (part_charset(part), is_plain) {
        (Some(label), _) => match Encoding::for_label(label.as_bytes()) {
            Some(_) => decode_with_charset(&content, named_encoding(label)),
            // Encodings that are known to the parser alone.
            None if !parsed.contains('\u{fffd}') => parsed.clone().into_owned(),
            None => decode_with_charset(&content, None),
        },
        (None, true) => decode_with_charset(&content, None),
        (None, false) => text::decode_declared(&content, "charset="),
    };
    if !footer.trim_ascii().is_empty() {
        text.push('\n');
        text.push_str(&text::decode_text(footer));
    }
    let attribute = |name: &str| part.content_type().and_then(|kind| kind.attribute(name));
    if is_plain && attribute("format").is_some_and(|format| format.eq_ignore_ascii_case("flowed")) {
        let deletes = attribute("delsp").is_some_and(|value| value.eq_ignore_ascii_case("yes"));
        return Cow::Owned(unflow_lines(&text, deletes));
    }
    Cow::Owned(text)
}

/// Returns the content of an attachment.
pub(super) fn attachment_content<'a>(
    message: &'a Message<'_>,
    part: &'a MessagePart<'_>,
) -> Option<Cow<'a, [u8]>> {
    match &part.body {
        PartType::Binary(content) | PartType::InlineBinary(content) => Some(Cow::Borrowed(content)),
        PartType::Text(_) | PartType::Html(_) => {
            if part_charset(part).is_none()
                && let Some((content, _)) = without_transfer(message, part)
            {
                return Some(content);
            }
            Some(match decode_part_text(message, part) {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            })
        }
        PartType::Message(_) | PartType::Multipart(_) => None,
    }
}

fn part_charset<'a>(part: &'a MessagePart<'_>) -> Option<&'a str> {
    part.content_type().and_then(|kind| kind.attribute("charset")).map(str::trim)
}

/// Returns the encoding of a name; `None` for encodings that say nothing about letters.
pub(super) fn named_encoding(label: &str) -> Option<&'static Encoding> {
    const OF_NO_LETTERS: [&str; 4] = ["us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us"];
    let says_nothing = OF_NO_LETTERS.iter().any(|name| name.eq_ignore_ascii_case(label));
    Encoding::for_label(label.as_bytes()).filter(|_| !says_nothing)
}

/// Decodes a text by the encoding that it names, if it is valid.
fn decode_with_charset(content: &[u8], named: Option<&'static Encoding>) -> String {
    let is_wide = |encoding: &&Encoding| [UTF_16LE, UTF_16BE].contains(encoding);
    let is_utf_8 = !content.is_ascii() && std::str::from_utf8(content).is_ok();
    match named {
        Some(encoding) if is_wide(&encoding) => {
            let seen = text::detect_encoding(content).filter(is_wide);
            seen.unwrap_or(encoding).decode(content).0.into_owned()
        }
        Some(encoding) if encoding != UTF_8 && !(is_utf_8 && encoding.is_single_byte()) => {
            encoding.decode(content).0.into_owned()
        }
        _ => text::decode_text(content),
    }
}

/// Returns the bytes of a part without the encoding in which it is sent, and the trailing bytes outside that encoding; `None` if
/// they are no longer there.
fn without_transfer<'a>(
    message: &'a Message<'_>,
    part: &'a MessagePart<'_>,
) -> Option<(Cow<'a, [u8]>, &'a [u8])> {
    let (from, to) = (part.offset_body as usize, part.offset_end as usize);
    let raw = message.raw_message.get(from..to)?;
    let named = match part.content_transfer_encoding() {
        Some(name) if name.eq_ignore_ascii_case("base64") => Transfer::Base64,
        Some(name) if name.eq_ignore_ascii_case("quoted-printable") => Transfer::QuotedPrintable,
        _ => Transfer::None,
    };
    Some(match named {
        Transfer::Base64 => {
            let (content, footer) = from_base64(raw);
            (Cow::Owned(content), footer)
        }
        Transfer::QuotedPrintable => (Cow::Owned(from_quoted(raw)), &raw[raw.len()..]),
        Transfer::None => (Cow::Borrowed(raw), &raw[raw.len()..]),
    })
}

/// Decodes base64 up to its end, and returns the rest.
pub(super) fn from_base64(raw: &[u8]) -> (Vec<u8>, &[u8]) {
    let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
    let (mut content, mut piece) = (Vec::new(), Vec::new());
    let (mut at, mut is_ended) = (0, false);
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let codes = line.trim_ascii();
        let goes_on = !is_ended || codes.len() >= MORE_BASE64_MIN_BYTES && codes.len().is_multiple_of(4);
        if !codes.iter().all(is_code) || !codes.is_empty() && !goes_on {
            break;
        }
        at += line.len();
        is_ended |= codes.is_empty() && !(content.is_empty() && piece.is_empty());
        for part in codes.split_inclusive(|byte| *byte == b'=') {
            piece.extend(part.iter().filter(|byte| **byte != b'='));
            if part.ends_with(b"=") {
                is_ended = true;
                push_piece(&mut content, &mut piece);
            }
        }
    }
    push_piece(&mut content, &mut piece);
    (content, &raw[at..])
}

fn push_piece(content: &mut Vec<u8>, piece: &mut Vec<u8>) {
    // An incomplete code is not a byte.
    if piece.len() % 4 == 1 {
        piece.pop();
    }
    content.extend(LENIENT.decode(&*piece).unwrap_or_default());
    piece.clear();
}

/// Decodes quoted-printable; other bytes stay.
pub(super) fn from_quoted(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'=' {
            out.push(*byte);
            continue;
        }
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let is_hex = |hex: &&str| hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(code) = hex.filter(is_hex).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            out.push(code);
            rest = &after[2..];
            continue;
        }
        // A line that continues; trailing blanks may have been added.
        let blank = after.iter().take_while(|byte| b" \t\r".contains(byte)).count();
        match after.get(blank) {
            Some(b'\n') => rest = &after[blank + 1..],
            None => rest = &[],
            Some(_) => out.push(b'='),
        }
    }
    out
}

/// Joins lines that were broken to fit (RFC 3676): a line that ends with a space continues in the next one.
fn unflow_lines(text: &str, deletes_space: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Option<usize> = None;
    for line in text.lines() {
        let depth = line.bytes().take_while(|byte| *byte == b'>').count();
        let content = &line[depth..];
        // A space at the beginning only keeps it from being taken for something else.
        let (words, is_stuffed) = match content.strip_prefix(' ') {
            Some(words) => {
                (words, depth == 0 && !words.starts_with(['>', ' ']) && !words.starts_with("From "))
            }
            None => (content, false),
        };
        let is_signature = words == "-- ";
        if open == Some(depth) && !is_signature {
            // Where the space before the line end is deleted, an optional space separates words.
            if deletes_space && is_stuffed {
                out.push(' ');
            }
        } else {
            if !out.is_empty() {
                out.push('\n');
            }
            out.extend(std::iter::repeat_n('>', depth));
            if depth > 0 {
                out.push(' ');
            }
        }
        let is_open = words.ends_with(' ') && !is_signature;
        out.push_str(if is_open && deletes_space { &words[..words.len() - 1] } else { words });
        open = is_open.then_some(depth);
    }
    out
}
