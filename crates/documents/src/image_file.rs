//! Image files: photographs as phones make them, and scans. They are decoded for consumers (text recognition, models, browsers)
//! that do not accept their size, orientation or format.

use std::borrow::Cow;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use domain::image::{IMAGE_MAX_BYTES, ImageKind, ImageRef};
use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageReader, Limits, Rgb, RgbImage};

use super::PIXELS_MAX;
use super::drawn::{PageSize, PictureSize};

/// The maximum number of pages of a TIFF.
const PAGES_MAX: usize = 500;
/// The maximum number of pixels of a photograph whose text is recognized; larger ones are shrunk to them.
const RECOGNIZED_PIXELS_MAX: f64 = 16e6;
/// The maximum number of pixels of a HEIC image, which takes nine bytes for each while it is decoded.
const HEIC_PIXELS_MAX: u64 = 64_000_000;
/// The maximum memory of a decoded image, in bytes: the maximum number of pixels with colors.
const DECODED_MAX_BYTES: u64 = 4 * PIXELS_MAX;
/// The quality of pictures as JPEG, from 1 to 100.
const QUALITY: u8 = 85;

/// The formats of image files that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// Among the formats that every model vendor accepts.
    Common(ImageKind),
    Bmp,
    Tiff,
    Heic,
}

impl ImageFormat {
    /// Detects the format by the first bytes.
    pub fn from_signature(bytes: &[u8]) -> Option<Self> {
        if let Some(kind) = ImageKind::from_bytes(bytes) {
            return Some(Self::Common(kind));
        }
        match bytes {
            // Its size, then four bytes that do not occur in text.
            [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => Some(Self::Bmp),
            [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => Some(Self::Tiff),
            _ => is_heic(bytes).then_some(Self::Heic),
        }
    }

    /// Returns the name with its kind: `PNG image`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Common(ImageKind::Png) => "PNG image",
            Self::Common(ImageKind::Jpeg) => "JPEG image",
            Self::Common(ImageKind::Gif) => "GIF image",
            Self::Common(ImageKind::Webp) => "WebP image",
            Self::Bmp => "BMP image",
            Self::Tiff => "TIFF image",
            Self::Heic => "HEIC image",
        }
    }

    /// Returns the maximum number of pixels of an image that is read.
    pub(super) const fn pixels_max(self) -> u64 {
        match self {
            Self::Heic => HEIC_PIXELS_MAX,
            Self::Common(_) | Self::Bmp | Self::Tiff => PIXELS_MAX,
        }
    }

    /// Returns the library's name of the format, if the library decodes it.
    const fn decoded_by_library(self) -> Option<image::ImageFormat> {
        match self {
            Self::Common(ImageKind::Png) => Some(image::ImageFormat::Png),
            Self::Common(ImageKind::Jpeg) => Some(image::ImageFormat::Jpeg),
            Self::Bmp => Some(image::ImageFormat::Bmp),
            Self::Tiff => Some(image::ImageFormat::Tiff),
            Self::Common(ImageKind::Gif | ImageKind::Webp) | Self::Heic => None,
        }
    }
}

/// Returns true for a file with the brands of HEIC. AVIF has the same container.
fn is_heic(bytes: &[u8]) -> bool {
    let Some((head, _)) = bytes.split_first_chunk::<8>() else { return false };
    if !head.ends_with(b"ftyp") {
        return false;
    }
    let end = u32::from_be_bytes([head[0], head[1], head[2], head[3]]).min(256) as usize;
    let brands = bytes.get(8..end.min(bytes.len())).unwrap_or_default();
    let has = |wanted: &[&[u8]]| brands.chunks_exact(4).any(|brand| wanted.contains(&brand));
    has(&[b"heic", b"heix", b"heim", b"heis", b"mif1"]) && !has(&[b"avif", b"avis"])
}

pub struct ImageFile<'a> {
    format: ImageFormat,
    bytes: &'a [u8],
    /// The places of its pages, if it is a TIFF with several.
    directories: Vec<u32>,
}

impl<'a> ImageFile<'a> {
    /// Opens an image; `None` for other files.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let format = ImageFormat::from_signature(bytes)?;
        let directories = if format == ImageFormat::Tiff { list_tiff_directories(bytes) } else { Vec::new() };
        Some(Self { format, bytes, directories })
    }

    #[must_use]
    pub const fn format(&self) -> ImageFormat {
        self.format
    }

    /// Returns the number of pages.
    #[must_use]
    pub fn page_count(&self) -> u32 {
        u32::try_from(self.directories.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Returns the width and height of a page, counted from 1, in pixels, after rotation. `None` if they are unknown.
    pub fn page_sides(&self, page: u32) -> Option<(u32, u32)> {
        let sides = || match self.format {
            ImageFormat::Heic => heic_rs::probe(self.bytes).ok().map(|image| (image.width, image.height)),
            ImageFormat::Common(kind) => {
                let (width, height) = kind.dimensions(self.bytes)?;
                Some(if swaps_sides(self.read_orientation()) { (height, width) } else { (width, height) })
            }
            ImageFormat::Bmp | ImageFormat::Tiff => {
                let bytes = self.file_starting_at(page)?;
                Some(open_decoder(&bytes, self.format.decoded_by_library()?)?.dimensions())
            }
        };
        catch_decoder_panic(sides).filter(|(width, height)| *width > 0 && *height > 0)
    }

    /// Returns true if its format is decoded.
    pub const fn is_decodable(&self) -> bool {
        matches!(self.format, ImageFormat::Heic) || self.format.decoded_by_library().is_some()
    }

    /// Returns true if it has more pixels than are decoded.
    pub fn is_too_large(&self) -> bool {
        let pixels = |(width, height)| u64::from(width) * u64::from(height);
        self.page_sides(1).is_some_and(|sides| pixels(sides) > self.format.pixels_max())
    }

    /// Returns the reference with which a model sees the unchanged file; `None` if it is too large, rotated, or of
    /// another format.
    pub fn as_it_is(&self, path: &str) -> Option<ImageRef> {
        (!self.is_turned()).then(|| ImageRef::from_file(path, self.bytes).ok()).flatten()
    }

    /// Returns true if it must be rotated for display, which models ignore.
    fn is_turned(&self) -> bool {
        self.read_orientation() != Orientation::NoTransforms
    }

    /// Returns the rotation from its metadata.
    fn read_orientation(&self) -> Orientation {
        let Some(format) = self.format.decoded_by_library() else { return Orientation::NoTransforms };
        catch_decoder_panic(|| open_decoder(self.bytes, format)?.orientation().ok())
            .unwrap_or(Orientation::NoTransforms)
    }

    /// Draws a page, counted from 1, as a JPEG that is no larger than the image. Returns `None` if the page does not exist or it
    /// cannot be decoded.
    pub fn draw_page(&self, page: u32, size: PictureSize) -> Option<Vec<u8>> {
        let (width, height) = self.page_sides(page)?;
        let (columns, rows) = (size.pixels)(PageSize { width, height });
        let draw = || encode_jpeg(&self.decode_page(page, (columns.min(width), rows.min(height)))?);
        catch_decoder_panic(draw).filter(|picture| picture.len() <= IMAGE_MAX_BYTES)
    }

    /// Decodes a page, shrinks it to this displayed width and height, and rotates it.
    fn decode_page(&self, page: u32, (columns, rows): (u32, u32)) -> Option<DynamicImage> {
        let shrunk = |image: DynamicImage, columns, rows| match (image.width(), image.height()) {
            sides if sides == (columns, rows) => image,
            _ => image.thumbnail_exact(columns, rows),
        };
        let Some(format) = self.format.decoded_by_library() else {
            return Some(shrunk(decode_heic(self.bytes)?, columns, rows));
        };
        let bytes = self.file_starting_at(page)?;
        let mut decoder = open_decoder(&bytes, format)?;
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let (width, height) = decoder.dimensions();
        let is_too_large = u64::from(width) * u64::from(height) > self.format.pixels_max();
        if is_too_large || decoder.total_bytes() > DECODED_MAX_BYTES {
            return None;
        }
        let image = DynamicImage::from_decoder(decoder).ok()?;
        let (columns, rows) = if swaps_sides(orientation) { (rows, columns) } else { (columns, rows) };
        let mut image = shrunk(image, columns, rows);
        image.apply_orientation(orientation);
        Some(image)
    }

    /// Returns a file whose first page is this one.
    fn file_starting_at(&self, page: u32) -> Option<Cow<'a, [u8]>> {
        let index = (page as usize).checked_sub(1)?;
        if index == 0 {
            return Some(Cow::Borrowed(self.bytes));
        }
        let place = *self.directories.get(index)?;
        let mut file = self.bytes.to_vec();
        let is_little_endian = file.starts_with(b"II");
        let place = if is_little_endian { place.to_le_bytes() } else { place.to_be_bytes() };
        file.get_mut(FIRST_DIRECTORY..FIRST_DIRECTORY + 4)?.copy_from_slice(&place);
        Some(Cow::Owned(file))
    }
}

/// Returns an image for text recognition: as a portable graymap if it is rotated, too large, or of an unsupported format;
/// otherwise unchanged.
pub(super) fn for_recognition(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let Some(image) = ImageFile::from_bytes(&bytes) else { return Some(bytes) };
    // Recognition reads the others itself, with their resolution, and all pages of a TIFF.
    let is_read = match image.format {
        ImageFormat::Heic => false,
        ImageFormat::Common(ImageKind::Jpeg | ImageKind::Png) | ImageFormat::Bmp => {
            let fits = |(width, height)| f64::from(width) * f64::from(height) <= RECOGNIZED_PIXELS_MAX;
            image.page_sides(1).is_none_or(fits) && !image.is_turned()
        }
        ImageFormat::Common(ImageKind::Gif | ImageKind::Webp) | ImageFormat::Tiff => true,
    };
    if is_read {
        return Some(bytes);
    }
    let gray = catch_decoder_panic(|| {
        let sides = recognized_sides(image.page_sides(1)?);
        Some(image.decode_page(1, sides)?.into_luma8())
    });
    match gray {
        Some(gray) => {
            let mut out = format!("P5\n{} {}\n255\n", gray.width(), gray.height()).into_bytes();
            out.extend_from_slice(gray.as_raw());
            Some(out)
        }
        None => (image.format != ImageFormat::Heic).then_some(bytes),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not above the side")]
fn recognized_sides((width, height): (u32, u32)) -> (u32, u32) {
    let pixels = f64::from(width) * f64::from(height);
    let scale = (RECOGNIZED_PIXELS_MAX / pixels).sqrt().min(1.0);
    let side = |side: u32| ((f64::from(side) * scale) as u32).max(1);
    (side(width), side(height))
}

fn open_decoder(bytes: &[u8], format: image::ImageFormat) -> Option<impl ImageDecoder + '_> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODED_MAX_BYTES);
    reader.limits(limits);
    reader.into_decoder().ok()
}

const fn swaps_sides(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

fn decode_heic(bytes: &[u8]) -> Option<DynamicImage> {
    let options = heic_rs::DecodeOptions::default().with_max_pixels(Some(HEIC_PIXELS_MAX)).with_alpha(false);
    let heic_rs::Image { data, width, height, .. } = heic_rs::decode(bytes, &options).ok()?;
    RgbImage::from_raw(width, height, data).map(DynamicImage::ImageRgb8)
}

/// Returns an image as a JPEG; transparent pixels are white.
fn encode_jpeg(image: &DynamicImage) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut encoder = JpegEncoder::new_with_quality(&mut out, QUALITY);
    let encoded = match image {
        DynamicImage::ImageLuma8(_) | DynamicImage::ImageLuma16(_) => {
            encoder.encode_image::<GrayImage>(&image.to_luma8())
        }
        image if image.color().has_alpha() => {
            let onto_white = |pixel: &image::Rgba<u8>| {
                let [red, green, blue, alpha] = pixel.0.map(u32::from);
                let mixed = |color: u32| ((color * alpha + 255 * (255 - alpha)) / 255).min(255) as u8;
                Rgb([mixed(red), mixed(green), mixed(blue)])
            };
            let image = image.to_rgba8();
            let pixels = image.pixels().flat_map(|pixel| onto_white(pixel).0).collect();
            encoder.encode_image(&RgbImage::from_raw(image.width(), image.height(), pixels)?)
        }
        image => encoder.encode_image(&image.to_rgb8()),
    };
    encoded.ok().map(|()| out)
}

/// The place of the first page's place in a TIFF.
const FIRST_DIRECTORY: usize = 4;

/// Returns the places of the pages of a TIFF.
fn list_tiff_directories(tiff: &[u8]) -> Vec<u32> {
    let is_little_endian = tiff.starts_with(b"II");
    let number = |at: usize, count: usize| {
        let bytes = tiff.get(at..at.checked_add(count)?)?;
        let sum = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(match is_little_endian {
            true => bytes.iter().rev().fold(0, sum),
            false => bytes.iter().fold(0, sum),
        })
    };
    let after = |at: usize| {
        let entries = number(at, 2)? as usize;
        number(at.checked_add(2 + 12 * entries)?, 4)
    };
    let mut places = Vec::new();
    let mut next = number(FIRST_DIRECTORY, 4);
    while let Some(place) = next.filter(|place| *place > 0 && !places.contains(place))
        && places.len() < PAGES_MAX
    {
        places.push(place);
        next = after(place as usize);
    }
    places
}

/// Returns nothing where a decoder panics.
fn catch_decoder_panic<T>(decode: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(decode)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest side of a picture that is shrunk.
    const SIDE: u32 = 1_568;
    const UNCHANGED: PictureSize = PictureSize { pixels: |size| (size.width, size.height), max_bytes: None };
    const SHRUNK: PictureSize = PictureSize { pixels: shrunk_sides, max_bytes: None };

    fn shrunk_sides(size: PageSize) -> (u32, u32) {
        let longest = size.width.max(size.height);
        (size.width * SIDE / longest, size.height * SIDE / longest)
    }

    const PNG: &[u8] = include_bytes!("../tests/fixtures/code_word.png");
    const HEIC: &[u8] = include_bytes!("../tests/fixtures/code_word.heic");
    /// The same, stored on its side.
    const TURNED: &[u8] = include_bytes!("../tests/fixtures/turned.jpg");
    /// An empty page, and the same.
    const PAGES: &[u8] = include_bytes!("../tests/fixtures/pages.tiff");
    const OTHERS: [&[u8]; 5] = [
        include_bytes!("../tests/fixtures/code_word.bmp"),
        include_bytes!("../tests/fixtures/code_word.gif"),
        include_bytes!("../tests/fixtures/code_word.jpg"),
        include_bytes!("../tests/fixtures/code_word.tiff"),
        include_bytes!("../tests/fixtures/code_word.webp"),
    ];

    /// Asserts that a picture shows the same as the PNG.
    fn assert_shows_the_word(picture: &[u8]) {
        let gray = |image: &[u8]| image::load_from_memory(image).expect("it is an image").into_luma8();
        let (expected, shown) = (gray(PNG), gray(picture));
        assert_eq!(shown.dimensions(), expected.dimensions());
        let pixels = expected.as_raw().iter().zip(shown.as_raw());
        let difference: u64 = pixels.map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
        assert!(difference / (500 * 80) < 10, "{difference}");
    }

    fn pgm_to_png(image: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (rows, head) =
            (image.strip_prefix(b"P5\n500 80\n255\n").expect("a graymap"), Cursor::new(&mut out));
        let gray = GrayImage::from_raw(500, 80, rows.to_vec()).expect("all rows");
        gray.write_to(&mut { head }, image::ImageFormat::Png).expect("a PNG");
        out
    }

    fn blank_png(width: u32, height: u32) -> Vec<u8> {
        let mut out = Cursor::new(Vec::new());
        GrayImage::new(width, height).write_to(&mut out, image::ImageFormat::Png).expect("a PNG");
        out.into_inner()
    }

    #[test]
    fn draw_page_any_format_upright() {
        for (file, page) in
            [(HEIC, 1), (TURNED, 1), (PAGES, 2), (OTHERS[0], 1), (OTHERS[2], 1), (OTHERS[3], 1)]
        {
            let image = ImageFile::from_bytes(file).expect("an image");
            assert_eq!(image.page_sides(page), Some((500, 80)), "{}", image.format.name());
            for size in [SHRUNK, UNCHANGED] {
                let picture = image.draw_page(page, size).expect("it is drawn");
                assert_eq!(ImageKind::from_bytes(&picture), Some(ImageKind::Jpeg));
                assert_shows_the_word(&picture);
            }
        }
        let pages = ImageFile::from_bytes(PAGES).expect("an image");
        assert_eq!((pages.page_count(), pages.page_sides(1)), (2, Some((300, 120))));
        assert_eq!((pages.draw_page(3, SHRUNK), pages.draw_page(0, SHRUNK)), (None, None));
    }

    #[test]
    fn draw_page_model_accepted_format_unchanged() {
        let is_seen = |file: &[u8]| ImageFile::from_bytes(file).expect("an image").as_it_is("/a").is_some();
        assert_eq!(OTHERS.map(is_seen), [false, true, true, false, true]);
        assert!(is_seen(PNG) && !is_seen(HEIC) && !is_seen(TURNED));
        let wide = blank_png(8001, 40);
        assert!(!is_seen(&wide) && is_seen(&blank_png(8000, 40)));
        let drawn =
            ImageFile::from_bytes(&wide).and_then(|image| image.draw_page(1, SHRUNK)).expect("it is drawn");
        assert_eq!(ImageKind::Jpeg.dimensions(&drawn), Some((SIDE, 7)));
    }

    #[test]
    fn image_for_recognition_becomes_graymap() {
        for file in [HEIC, TURNED] {
            assert_shows_the_word(&pgm_to_png(&for_recognition(file.to_vec()).expect("it is decoded")));
        }
        for file in OTHERS.into_iter().chain([PNG, PAGES, b"no image"]) {
            assert_eq!(for_recognition(file.to_vec()).as_deref(), Some(file));
        }
        let shrunk = for_recognition(blank_png(8000, 4000)).expect("it is shrunk");
        assert!(shrunk.starts_with(b"P5\n5656 2828\n255\n"));
        assert_eq!(for_recognition(HEIC[..HEIC.len() / 2].to_vec()), None);
    }

    #[test]
    fn transparent_images_lie_on_white() {
        let mut out = Cursor::new(Vec::new());
        let half = image::RgbaImage::from_fn(8, 8, |column, _| {
            image::Rgba(if column < 4 { [0, 0, 0, 0] } else { [200, 0, 0, 255] })
        });
        half.write_to(&mut out, image::ImageFormat::Png).expect("a PNG");
        let file = out.into_inner();
        let drawn = ImageFile::from_bytes(&file)
            .and_then(|image| image.draw_page(1, UNCHANGED))
            .expect("it is drawn");
        let drawn = image::load_from_memory(&drawn).expect("a picture").into_rgb8();
        assert!(drawn.get_pixel(0, 0).0.iter().all(|color| *color > 230), "{:?}", drawn.get_pixel(0, 0));
        assert!(drawn.get_pixel(7, 7).0[0] > 150 && drawn.get_pixel(7, 7).0[1] < 60);
    }

    #[test]
    fn image_file_rejects_damaged_files() {
        for text in [
            &b"BMW builds cars in Munich."[..],
            b"II* is a star",
            b"MM",
            b"",
            b"\0\0\0\x18ftypisom\0\0\0\0mp42",
        ] {
            assert_eq!(ImageFormat::from_signature(text), None, "{text:?}");
        }
        let avif = b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf";
        let heic = b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic";
        assert_eq!(
            (ImageFormat::from_signature(avif), ImageFormat::from_signature(heic)),
            (None, Some(ImageFormat::Heic))
        );
        for file in OTHERS.into_iter().chain([PNG, HEIC, TURNED, PAGES]) {
            for end in (0..file.len()).step_by(7) {
                let Some(image) = ImageFile::from_bytes(&file[..end]) else { continue };
                let _ = (image.as_it_is("/a"), image.draw_page(image.page_count(), SHRUNK));
            }
        }
        let endless = b"II*\0\x08\0\0\0\0\0\x08\0\0\0";
        assert_eq!(
            ImageFile::from_bytes(endless).expect("a TIFF").page_count(),
            1,
            "its page follows itself"
        );
    }

    #[test]
    fn decode_page_too_many_pixels_refused() {
        let huge = [
            &b"BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0"[..],
            &20_000_u32.to_le_bytes(),
            &20_000_u32.to_le_bytes(),
        ];
        let huge = [&huge.concat()[..], b"\x01\0\x18\0", &[0; 24]].concat();
        let image = ImageFile::from_bytes(&huge).expect("a BMP");
        assert!(image.is_too_large());
        assert_eq!(image.draw_page(1, UNCHANGED), None);
    }
}
