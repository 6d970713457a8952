//! Decompresses responses of servers that compress without being asked to.

use std::io::Write;

use flate2::write::{MultiGzDecoder, ZlibDecoder};

/// The number of compressed bytes that are decompressed at once, so that little of a malicious response is held.
const PIECE_BYTES: usize = 1024;

/// Decompresses a response body.
pub(crate) enum Inflate {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
}

impl Inflate {
    /// Returns the decompressor for a `Content-Encoding`; `None` for any that is not known.
    pub(crate) fn for_encoding(encoding: &str) -> Option<Self> {
        match encoding.trim().to_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            "deflate" => Some(Self::Zlib(Box::new(ZlibDecoder::new(Vec::new())))),
            _ => None,
        }
    }

    /// Decompresses bytes, up to `max_bytes`. Returns `None` for malformed ones, and for more.
    pub(crate) fn inflate_bytes(&mut self, bytes: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for piece in bytes.chunks(PIECE_BYTES) {
            let inflated = match self {
                Self::Gzip(decoder) => {
                    decoder.write_all(piece).and_then(|()| decoder.flush()).ok()?;
                    std::mem::take(decoder.get_mut())
                }
                Self::Zlib(decoder) => {
                    decoder.write_all(piece).and_then(|()| decoder.flush()).ok()?;
                    std::mem::take(decoder.get_mut())
                }
            };
            out.extend_from_slice(&inflated);
            if out.len() > max_bytes {
                return None;
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn inflate_bytes_streams_within_bounds() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"data: first\n\n").unwrap();
        encoder.flush().unwrap();
        let first = encoder.get_ref().len();
        encoder.write_all(b"data: second\n\n").unwrap();
        let bytes = encoder.finish().unwrap();
        let mut inflate = Inflate::for_encoding("GZIP").unwrap();
        assert_eq!(inflate.inflate_bytes(&bytes[..first], 100).unwrap(), b"data: first\n\n");
        assert_eq!(inflate.inflate_bytes(&bytes[first..], 100).unwrap(), b"data: second\n\n");
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&vec![b'x'; 1024 * 1024]).unwrap();
        let bomb = encoder.finish().unwrap();
        assert_eq!(Inflate::for_encoding("gzip").unwrap().inflate_bytes(&bomb, 1024), None);
        assert_eq!(Inflate::for_encoding("gzip").unwrap().inflate_bytes(b"not compressed", 100), None);
        assert!(Inflate::for_encoding("br").is_none());
    }
}
