//! The encoders for compressed responses.

use std::io::{self, Write};

use axum::http::HeaderValue;
use bytes::Bytes;
use zstd::stream::raw::CParameter;

/// The level of zstd: low, because readers wait for each event.
const ZSTD_LEVEL: i32 = 1;

/// The shortest repetition that zstd searches for. New text appears twice in an answer's state, as text and
/// as HTML, and is often only a word; the level's default is seven bytes.
const ZSTD_REPEAT_MIN_BYTES: u32 = 5;

/// The window (1 MiB) should contain the previous event, which the next one mostly repeats.
const WINDOW_LOG: u32 = 20;

/// The quality of brotli: the lowest that uses the window.
const BROTLI_QUALITY: u32 = 4;

/// The bytes that brotli buffers before it returns them.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// The level of gzip.
const GZIP_LEVEL: u32 = 4;

/// The encoding of a response, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Zstd,
    Brotli,
    Gzip,
}

impl Encoding {
    /// Returns the encoding that the client prefers by its weights; among equals, the best one. `None` if it
    /// accepts none of them.
    pub(crate) fn negotiate<'a>(accepted: impl Iterator<Item = &'a HeaderValue>) -> Option<Self> {
        let mut weights = [None::<u16>; 3];
        let mut any = 0;
        for item in accepted.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')) {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = parse_weight(parameters);
            match name.trim().to_ascii_lowercase().as_str() {
                "zstd" => weights[0] = Some(weight),
                "br" => weights[1] = Some(weight),
                "gzip" | "x-gzip" => weights[2] = Some(weight),
                "*" => any = weight,
                _ => {}
            }
        }
        let mut best = None;
        for (weight, encoding) in weights.into_iter().zip([Self::Zstd, Self::Brotli, Self::Gzip]) {
            let weight = weight.unwrap_or(any);
            if weight > best.map_or(0, |(best, _)| best) {
                best = Some((weight, encoding));
            }
        }
        best.map(|(_, encoding)| encoding)
    }

    pub(crate) fn to_header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        })
    }
}

/// Parses a weight, in thousandths; 1000 if it is malformed.
fn parse_weight(parameters: &str) -> u16 {
    let value = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>())
    });
    match value {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
        Some(Ok(weight)) => (weight.clamp(0.0, 1.0) * 1000.0) as u16,
        Some(Err(_)) | None => 1000,
    }
}

/// An encoder that writes to memory.
pub(crate) enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// Creates an encoder. `size` is the size of the complete content if known, which can reduce memory.
    pub(crate) fn new(encoding: Encoding, size: Option<u64>) -> io::Result<Self> {
        Ok(match encoding {
            Encoding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                match size {
                    Some(size) => encoder.set_pledged_src_size(Some(size))?,
                    None => encoder.window_log(WINDOW_LOG)?,
                }
                encoder.set_parameter(CParameter::MinMatch(ZSTD_REPEAT_MIN_BYTES))?;
                Self::Zstd(encoder)
            }
            Encoding::Brotli => Self::Brotli(Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER_BYTES,
                BROTLI_QUALITY,
                WINDOW_LOG,
            ))),
            Encoding::Gzip => {
                let level = flate2::Compression::new(GZIP_LEVEL);
                Self::Gzip(flate2::write::GzEncoder::new(Vec::new(), level))
            }
        })
    }

    pub(crate) fn write_input(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Brotli(encoder) => encoder.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    /// Starts a new block at this position, so that later events can refer to it even if their preceding text
    /// differs. zstd remembers only the beginning and end of a long repetition: without the block, a state
    /// with a different beginning would not find the long text that both contain.
    pub(crate) fn start_block(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(_) | Self::Gzip(_) => Ok(()),
        }
    }

    /// Flushes, so that all input can be decoded from the output so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(encoder) => encoder.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }

    /// Removes and returns the available output.
    pub(crate) fn take_output(&mut self) -> Bytes {
        let output = match self {
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Gzip(encoder) => encoder.get_mut(),
        };
        std::mem::take(output).into()
    }

    /// Returns the bytes of available output.
    pub(crate) fn ready_bytes(&self) -> usize {
        match self {
            Self::Zstd(encoder) => encoder.get_ref().len(),
            Self::Brotli(encoder) => encoder.get_ref().len(),
            Self::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    /// Ends the content and returns the rest of the output.
    pub(crate) fn finish(self) -> io::Result<Bytes> {
        Ok(match self {
            Self::Zstd(encoder) => encoder.finish()?,
            Self::Brotli(encoder) => encoder.into_inner(),
            Self::Gzip(encoder) => encoder.finish()?,
        }
        .into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negotiate_prefers_client_weights() {
        for (accepted, expected) in [
            (vec!["gzip, deflate, br, zstd"], Some(Encoding::Zstd)),
            (vec!["gzip, br"], Some(Encoding::Brotli)),
            (vec!["gzip", "br;q=0.5"], Some(Encoding::Gzip)),
            (vec!["zstd;q=0, gzip;q=0.1"], Some(Encoding::Gzip)),
            (vec!["*"], Some(Encoding::Zstd)),
            (vec!["*, zstd;q=0"], Some(Encoding::Brotli)),
            (vec!["identity;q=0"], None),
            (vec!["*;q=0"], None),
            (vec!["deflate"], None),
            (vec![""], None),
            (vec![], None),
        ] {
            let headers: Vec<_> = accepted.iter().map(|text| HeaderValue::from_static(text)).collect();
            assert_eq!(Encoding::negotiate(headers.iter()), expected, "{accepted:?}");
        }
    }
}
