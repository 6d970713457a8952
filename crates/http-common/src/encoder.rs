//! The three encodings that responses are compressed with.

use std::io::{self, Write};

use axum::http::HeaderValue;
use bytes::Bytes;
use zstd::stream::raw::CParameter;

/// Level of zstd: event streams are compressed while somebody waits.
const ZSTD_LEVEL: i32 = 1;

/// The shortest repetition that zstd looks for. What an answer grew by stands in its state twice, as text and as HTML,
/// and is often but a word; the level alone would look for seven bytes.
const ZSTD_REPEAT_MIN_BYTES: u32 = 5;

/// An event repeats the one before, so the window (1 MiB) should hold one.
const WINDOW_LOG: u32 = 20;

/// Quality of brotli: the least that makes use of the window.
const BROTLI_QUALITY: u32 = 4;

/// Bytes that brotli gathers before it hands them on.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// Level of gzip.
const GZIP_LEVEL: u32 = 4;

/// How a response is compressed, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Zstd,
    Brotli,
    Gzip,
}

impl Encoding {
    /// What the client likes best of what there is, by its weights, and ours among equals; nothing when it
    /// accepts none of them.
    pub(crate) fn negotiated<'a>(accepted: impl Iterator<Item = &'a HeaderValue>) -> Option<Self> {
        let mut weights = [None::<u16>; 3];
        let mut any = 0;
        for item in accepted.filter_map(|list| list.to_str().ok()).flat_map(|list| list.split(',')) {
            let (name, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = weight(parameters);
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

    pub(crate) fn header(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        })
    }
}

/// A weight in thousandths; what cannot be read counts as whole.
fn weight(parameters: &str) -> u16 {
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

/// An encoder that writes into memory.
pub(crate) enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// `size` is that of the whole content where it is known; then less memory may do.
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

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Brotli(encoder) => encoder.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    /// Parts what was written from what comes, so that the next event repeats the latter from here on also when it does
    /// not repeat the former. Of a long repetition zstd remembers where it began and ended, and nothing in between: a
    /// state that begins otherwise than the one before would find none of a long text that both go on with.
    pub(crate) fn part(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(_) | Self::Gzip(_) => Ok(()),
        }
    }

    /// Makes the output such that all that was written can be read from it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(encoder) => encoder.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }

    /// Takes the output that is there.
    pub(crate) fn take(&mut self) -> Bytes {
        let output = match self {
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Gzip(encoder) => encoder.get_mut(),
        };
        std::mem::take(output).into()
    }

    /// Bytes of output that are there.
    pub(crate) fn ready(&self) -> usize {
        match self {
            Self::Zstd(encoder) => encoder.get_ref().len(),
            Self::Brotli(encoder) => encoder.get_ref().len(),
            Self::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    /// Ends the content and takes the rest of the output.
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
    fn the_clients_weights_go_before_our_order() {
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
            assert_eq!(Encoding::negotiated(headers.iter()), expected, "{accepted:?}");
        }
    }
}
