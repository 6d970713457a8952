//! Parts of Office documents in UTF-16, which the standard allows and few programs write, as UTF-8.

use std::io::{Cursor, Read, Write};

use encoding_rs::{CoderResult, Decoder, Encoding, UTF_16BE, UTF_16LE};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::ExtractError;
use super::archive::TOTAL_MAX_BYTES;

/// The length of the beginning that determines the encoding, in bytes.
const START_BYTES: usize = 4;
/// The bytes that are decoded at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// Returns the encoding of a part that begins like this, if it is UTF-16.
fn detect_utf16(start: &[u8]) -> Option<&'static Encoding> {
    match start {
        [0xff, 0xfe, b'<', 0] | [b'<', 0, b'?', 0] => Some(UTF_16LE),
        [0xfe, 0xff, 0, b'<'] | [0, b'<', 0, b'?'] => Some(UTF_16BE),
        _ => None,
    }
}

/// Reads until the buffer is full.
fn fill_buffer(source: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// A part whose text is in UTF-8; other parts are unchanged.
pub(super) struct Utf8Part<R> {
    inner: R,
    /// The beginning, which was read to know the encoding.
    start: Cursor<Vec<u8>>,
    decoder: Option<Decoder>,
    decoded: Cursor<Vec<u8>>,
    is_ended: bool,
}

impl<R: Read> Utf8Part<R> {
    pub(super) fn new(mut inner: R) -> std::io::Result<Self> {
        let mut start = vec![0; START_BYTES];
        let filled = fill_buffer(&mut inner, &mut start)?;
        start.truncate(filled);
        let decoder = detect_utf16(&start).map(Encoding::new_decoder_with_bom_removal);
        Ok(Self {
            inner,
            start: Cursor::new(start),
            decoder,
            decoded: Cursor::new(Vec::new()),
            is_ended: false,
        })
    }

    fn read_bytes(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.start.read(buffer)? {
            0 => self.inner.read(buffer),
            read => Ok(read),
        }
    }
}

impl<R: Read> Read for Utf8Part<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(mut decoder) = self.decoder.take() else { return self.read_bytes(buffer) };
        let mut read = self.decoded.read(buffer)?;
        while read == 0 && !self.is_ended && !buffer.is_empty() {
            let mut chunk = [0; CHUNK_BYTES];
            let filled = self.read_bytes(&mut chunk)?;
            self.is_ended = filled == 0;
            // Two bytes become at most three.
            let mut text = vec![0; 2 * CHUNK_BYTES];
            let (result, _, written, _) = decoder.decode_to_utf8(&chunk[..filled], &mut text, self.is_ended);
            debug_assert_eq!(result, CoderResult::InputEmpty, "there is room for all");
            text.truncate(written);
            self.decoded = Cursor::new(text);
            read = self.decoded.read(buffer)?;
        }
        self.decoder = Some(decoder);
        Ok(read)
    }
}

/// Returns an archive with its parts in UTF-8, for a library that requires it; `None` if they already are.
pub(super) fn in_utf8(bytes: &[u8]) -> Result<Option<Vec<u8>>, ExtractError> {
    let broken = |error| ExtractError::broken_file("ZIP", error);
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(broken)?;
    let is_text = |name: &str| [".xml", ".rels", ".vml"].iter().any(|end| name.ends_with(end));
    let mut texts = Vec::new();
    for index in 0..zip.len() {
        let name = zip.by_index_raw(index).ok().and_then(|part| part.name().ok().map(|name| is_text(&name)));
        if name == Some(true) {
            texts.push(index);
        }
    }
    let mut is_wide = false;
    for index in texts {
        let Ok(mut part) = zip.by_index(index) else { continue };
        let mut start = [0; START_BYTES];
        is_wide |= fill_buffer(&mut part, &mut start).is_ok() && detect_utf16(&start).is_some();
    }
    if !is_wide {
        return Ok(None);
    }
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let mut left = TOTAL_MAX_BYTES;
    for index in 0..zip.len() {
        let Ok(part) = zip.by_index(index) else { continue };
        let Ok(name) = part.name().map(std::borrow::Cow::into_owned) else { continue };
        let mut content = Vec::new();
        let failed = |error| ExtractError::broken_file("ZIP", error);
        Utf8Part::new(part).map_err(failed)?.take(left + 1).read_to_end(&mut content).map_err(failed)?;
        left = left.checked_sub(content.len() as u64).ok_or(ExtractError::Bomb { bound: TOTAL_MAX_BYTES })?;
        out.start_file(name, options).map_err(broken)?;
        out.write_all(&content).map_err(failed)?;
    }
    out.finish().map(|out| Some(out.into_inner())).map_err(broken)
}
