//! Images for models: properties read from the first bytes, and references in a transcript.
//!
//! A transcript never contains the bytes of an image: it names the file, or a page of a document, and a digest of the
//! image. The file is read again for each step, the page drawn again for each answer, and the image is omitted if it has
//! changed.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// The largest image in bytes, so that base64 stays below the strictest vendor's limit of 5 MB.
pub const IMAGE_MAX_BYTES: usize = 3_900_000;
/// The longest side of an image in pixels, by the strictest vendor's limit.
pub const IMAGE_SIDE_MAX: u32 = 8000;
/// The maximum number of images of one request; the newest are used.
pub const IMAGES_MAX: usize = 20;
/// The maximum size of the images of one request: as base64 they fit into the strictest vendor's limit of 20 MB.
pub const IMAGES_MAX_BYTES: usize = 14_000_000;
/// The estimated tokens of an image: about what vendors count for a medium size.
pub const IMAGE_TOKENS: u64 = 1600;

/// The image formats that every vendor accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageKind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl ImageKind {
    pub const ALL: [Self; 4] = [Self::Png, Self::Jpeg, Self::Gif, Self::Webp];

    /// Returns the MIME type.
    #[must_use]
    pub const fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the kind with this MIME type.
    #[must_use]
    pub fn of_mime(mime: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.mime_type() == mime)
    }

    /// Detects the kind by the first bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }

    /// Returns the width and height in pixels from the image's header.
    #[must_use]
    pub fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        let big = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let little = |at: usize, count: usize| {
            let piece = bytes.get(at..at + count)?;
            Some(piece.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)))
        };
        match self {
            Self::Png => Some((big(16)?, big(20)?)),
            Self::Gif => Some((little(6, 2)?, little(8, 2)?)),
            Self::Jpeg => sides_of_jpeg(bytes),
            Self::Webp => match bytes.get(12..16)? {
                b"VP8X" => Some((little(24, 3)? + 1, little(27, 3)? + 1)),
                b"VP8L" => {
                    let bits = little(21, 4)?;
                    Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
                }
                b"VP8 " => Some((little(26, 2)? & 0x3fff, little(28, 2)? & 0x3fff)),
                _ => None,
            },
        }
    }
}

/// Scans the segments for the frame header with the size.
fn sides_of_jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| Some(u32::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let mut at = 2;
    // Each iteration advances by at least two bytes.
    while *bytes.get(at)? == 0xff {
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((word(at + 7)?, word(at + 5)?));
            }
            _ => at += 2 + (word(at + 2)? as usize).max(2),
        }
    }
    None
}

/// The reason why a file cannot be shown as an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefError {
    /// It is not of a supported kind.
    #[error("it is not a PNG, JPEG, GIF or WebP image")]
    OtherKind,
    /// It exceeds the size limit.
    #[error("it is larger than {IMAGE_MAX_BYTES} bytes")]
    TooLarge,
    /// It exceeds the limit on its sides, or they cannot be determined.
    #[error("its width or height is unknown or not between 1 and {IMAGE_SIDE_MAX} pixels")]
    Sides,
}

/// A reference to an image in a transcript: a workspace file with exactly these bytes, or the picture of a page of one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageRef {
    pub path: String,
    /// The page, from 1, of which it is the picture; `None` of an image file.
    pub page: Option<u32>,
    pub kind: ImageKind,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
}

impl ImageRef {
    /// Creates a reference to the image in the file at `path`.
    ///
    /// # Errors
    /// [`ImageRefError`].
    pub fn from_file(path: &str, bytes: &[u8]) -> Result<Self, ImageRefError> {
        if bytes.len() > IMAGE_MAX_BYTES {
            return Err(ImageRefError::TooLarge);
        }
        let kind = ImageKind::from_bytes(bytes).ok_or(ImageRefError::OtherKind)?;
        let fits = |side: u32| (1..=IMAGE_SIDE_MAX).contains(&side);
        if !kind.dimensions(bytes).is_some_and(|(width, height)| fits(width) && fits(height)) {
            return Err(ImageRefError::Sides);
        }
        Ok(Self { path: path.to_owned(), page: None, kind, sha256: Sha256::digest(bytes).into() })
    }

    /// Creates a reference to the picture of a page of the document at `path`.
    ///
    /// # Errors
    /// As [`Self::from_bytes`].
    pub fn of_page(path: &str, page: u32, picture: &[u8]) -> Result<Self, ImageRefError> {
        Ok(Self { page: Some(page), ..Self::from_file(path, picture)? })
    }
}

impl fmt::Display for ImageRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.path)?;
        self.page.map_or(Ok(()), |page| write!(formatter, ", page {page}"))
    }
}

/// An image with its bytes, for one request.
#[derive(Clone, PartialEq, Eq)]
pub struct LoadedImage {
    /// Its reference in the transcript.
    pub of: ImageRef,
    pub bytes: Arc<[u8]>,
}

impl fmt::Debug for LoadedImage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Image({}, {} bytes)", self.of, self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png_header(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    #[test]
    fn image_kind_detects_dimensions() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x03x\xff\xc2\0\x0b\x08\0\x10\0\x20\x03";
        let gif = b"GIF89a\x05\0\x07\0";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\0\x07\0";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x80\x01\0";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x04\0\0\x06\0\0";
        for (bytes, kind, sides) in [
            (png_header(3, 9).as_slice(), ImageKind::Png, (3, 9)),
            (jpeg, ImageKind::Jpeg, (32, 16)),
            (gif, ImageKind::Gif, (5, 7)),
            (lossy, ImageKind::Webp, (5, 7)),
            (lossless, ImageKind::Webp, (5, 7)),
            (extended, ImageKind::Webp, (5, 7)),
        ] {
            assert_eq!(ImageKind::from_bytes(bytes), Some(kind));
            assert_eq!(kind.dimensions(bytes), Some(sides), "{kind:?}");
            for end in 0..bytes.len() {
                let _ = kind.dimensions(&bytes[..end]); // must not panic for truncated images
            }
            assert_eq!(ImageKind::of_mime(kind.mime_type()), Some(kind));
        }
        assert_eq!(ImageKind::from_bytes(b"%PDF-1.7"), None);
    }

    #[test]
    fn image_beyond_vendor_limits_is_rejected() {
        assert!(ImageRef::from_file("/a.png", &png_header(8000, 1)).is_ok());
        assert_eq!(ImageRef::from_file("/a.png", &png_header(8001, 1)), Err(ImageRefError::Sides));
        assert_eq!(ImageRef::from_file("/a.png", &png_header(0, 1)), Err(ImageRefError::Sides));
        assert_eq!(ImageRef::from_file("/a.png", b"BM"), Err(ImageRefError::OtherKind));
        let mut large = png_header(1, 1);
        large.resize(IMAGE_MAX_BYTES + 1, 0);
        assert_eq!(ImageRef::from_file("/a.png", &large), Err(ImageRefError::TooLarge));
        assert_ne!(
            ImageRef::from_file("/a.png", &png_header(1, 2)),
            ImageRef::from_file("/a.png", &png_header(1, 1)),
            "other bytes"
        );
    }
}
