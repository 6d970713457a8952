//! Images inside documents that have text: which of them may show text, and their places.

use std::path::Path;

use domain::image::ImageKind;
use domain::unread::{UnreadImage, UnreadImages};
use serde::{Deserialize, Serialize};

use super::archive::ZipReader;
use super::image_file::{ImageFile, ImageFormat};
use super::{DocumentFormat, ExtractError, Extracted, container, detect, loose_images, mail, pdf_files};

/// The maximum number of images of a document whose text is recognized.
pub const IMAGES_MAX: usize = 100;
/// The maximum number of images of a document that are examined, equal to the maximum number of parts of an archive.
pub(super) const LISTED_MAX: usize = 10_000;
/// The minimum sides of an image whose text is recognized, in pixels: smaller ones are symbols and signs.
const WIDTH_MIN: u32 = 200;
const HEIGHT_MIN: u32 = 60;
/// The maximum number of pixels of one image that is not a separate file, and of all such images of a
/// document together.
const PIXELS_MAX: u64 = 25_000_000;
const TOTAL_PIXELS_MAX: u64 = 200_000_000;
/// The largest image in bytes, and the length of the beginning that contains its dimensions.
const IMAGE_MAX_BYTES: u64 = 16 * 1024 * 1024;
const HEAD_BYTES: u64 = 128 * 1024;

/// An image inside a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbeddedImage {
    /// The name of its part in the document's archive, or its area on the page of a PDF, or its identifier in a format without
    /// parts; prefixed with the file if it is in a file inside the document.
    pub part: String,
    /// The page that it is on, where the format has pages.
    pub page: Option<u32>,
    /// The last line before it, where the format has lines.
    pub line: Option<u32>,
    /// The heading above it.
    pub heading: Option<String>,
}

impl EmbeddedImage {
    /// Returns true if it is in a file inside the document.
    pub fn is_of_inner(&self) -> bool {
        self.part.contains('\n')
    }

    /// Returns true if it is a file inside the document, or a scanned page of one.
    pub fn is_whole_of_inner(&self) -> bool {
        self.part.ends_with('\n')
    }

    /// Returns true if it is a scanned page of a file inside the document.
    pub fn is_scanned_page(&self) -> bool {
        self.is_whole_of_inner() && !self.part.ends_with("\n0\n")
    }
}

/// Retains the recognizable images of a document, and counts the images that should be recognized but cannot. Symbols, drawings
/// and addresses of other files are neither.
pub(super) fn retain_recognizable(archive: &mut ZipReader<'_>, document: &mut Extracted) {
    retain_by_pixels(document, |part| count_part_pixels(archive, part));
}

/// Like [`retain_recognizable`], for a document that is not an archive. `find` returns an image by the name of its part.
pub(super) fn retain_recognizable_of(document: &mut Extracted, find: impl Fn(&str) -> Option<Vec<u8>>) {
    retain_by_pixels(document, |part| {
        find(part).map_or(Ok(None), |image| pixels_in(part, &image, image.len() as u64))
    });
}

/// Retains images by the number of their pixels, which is `None` for an image that cannot show text.
fn retain_by_pixels(
    document: &mut Extracted,
    mut pixels: impl FnMut(&str) -> Result<Option<u64>, UnreadImage>,
) {
    let (mut images_left, mut pixels_left) = (IMAGES_MAX, TOTAL_PIXELS_MAX);
    let mut unread = UnreadImages::NONE;
    document.images.retain(|image| {
        // It would be taken for a part of a file inside the document.
        if image.is_of_inner() {
            return false;
        }
        let pixels = match pixels(&image.part) {
            Ok(pixels) => pixels,
            Err(reason) => {
                unread.add_images(reason, 1);
                return false;
            }
        };
        let Some(pixels) = pixels else { return false };
        let left = pixels_left.checked_sub(pixels).filter(|_| images_left > 0);
        match left {
            Some(left) => (pixels_left, images_left) = (left, images_left - 1),
            None => unread.add_images(UnreadImage::TooMany, 1),
        }
        left.is_some()
    });
    document.unread_images.add_all(unread);
}

/// Returns the number of pixels of an image that may show text; `None` if the part is not such an image.
fn count_part_pixels(archive: &mut ZipReader<'_>, part: &str) -> Result<Option<u64>, UnreadImage> {
    let Some(head) = read_image_start(archive, part, HEAD_BYTES)? else { return Ok(None) };
    pixels_in(part, &head, archive.declared_bytes(part))
}

/// Like [`count_part_pixels`], for a part with this beginning and length.
fn pixels_in(part: &str, head: &[u8], bytes: u64) -> Result<Option<u64>, UnreadImage> {
    let Some(kind) = ImageKind::from_bytes(head) else {
        return if has_name_of_kind(part) { Err(UnreadImage::Failed) } else { Ok(None) };
    };
    match pixels_of(kind.dimensions(head).ok_or(UnreadImage::Failed)?, PIXELS_MAX) {
        Ok(Some(_)) if bytes > IMAGE_MAX_BYTES => Err(UnreadImage::TooLarge),
        pixels => pixels,
    }
}

/// Returns an image file as a document whose only part is the image, if it may show text; `None` for other files.
pub(super) fn of_image(bytes: &[u8]) -> Option<Extracted> {
    let mut image = Extracted::empty(DocumentFormat::Text);
    let file = ImageFile::from_bytes(bytes).filter(|_| detect::is_image(bytes))?;
    let pixels = match file.page_sides(1) {
        Some(sides) => pixels_of(sides, file.format().pixels_max()),
        // The text recognition program reads more kinds of them.
        None if matches!(file.format(), ImageFormat::Tiff | ImageFormat::Bmp) => Ok(Some(0)),
        None => Err(UnreadImage::Failed),
    };
    match pixels {
        Ok(Some(_)) => {
            image.images.push(EmbeddedImage { part: String::new(), page: None, line: None, heading: None });
        }
        Ok(None) => {}
        Err(reason) => image.unread_images.add_images(reason, 1),
    }
    Some(image)
}

/// Returns the number of pixels of an image with these sides if it may show text.
fn pixels_of((width, height): (u32, u32), pixels_max: u64) -> Result<Option<u64>, UnreadImage> {
    if width < WIDTH_MIN || height < HEIGHT_MIN {
        return Ok(None);
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels <= pixels_max { Ok(Some(pixels)) } else { Err(UnreadImage::TooLarge) }
}

/// Returns true if the name promises an image of a kind that is recognized.
fn has_name_of_kind(part: &str) -> bool {
    let extension = Path::new(part).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        ["png", "jpg", "jpeg", "gif", "webp"].contains(&extension.to_ascii_lowercase().as_str())
    })
}

/// Names a part of a file inside the document: the file (its number in an archive, or the name that the reader of messages gives it),
/// the page in it, if it has pages, and the part. A file that is an image, and a scanned page, have no part.
fn part_of_inner(file: &str, page: Option<u32>, part: &str) -> String {
    format!("{file}\n{}\n{part}", page.unwrap_or_default())
}

/// Returns the images and scanned pages of a file inside the document, with their places in that file.
pub(super) fn images_of_inner(file: &str, inner: &Extracted) -> Vec<EmbeddedImage> {
    let image = |image: &EmbeddedImage| EmbeddedImage {
        part: part_of_inner(file, image.page, &image.part),
        ..image.clone()
    };
    let scan = |page: &u32| EmbeddedImage {
        part: part_of_inner(file, Some(*page), ""),
        page: Some(*page),
        line: None,
        heading: None,
    };
    inner.images.iter().map(image).chain(inner.scans.iter().map(scan)).collect()
}

/// Returns the name of the file inside a document that contains an image, and the image in that file; `None` for an image of the
/// document itself.
fn split_inner_image(part: &str) -> Option<(&str, EmbeddedImage)> {
    let (file, rest) = part.split_once('\n')?;
    let (page, part) = rest.split_once('\n')?;
    let page = page.parse().ok().filter(|page| *page > 0);
    Some((file, EmbeddedImage { part: part.to_owned(), page, line: None, heading: None }))
}

/// Returns the number of the file that contains an image, and the image in that file; `None` if the file has no number (only
/// files of archives do).
pub(super) fn in_archived(part: &str) -> Option<(usize, EmbeddedImage)> {
    let (file, image) = split_inner_image(part)?;
    Some((file.parse().ok()?, image))
}

/// Returns the file inside the document that contains an image, and the image in that file; `None` for an image of the document
/// itself.
pub(super) fn in_inner(document: &[u8], part: &str) -> Option<(Vec<u8>, EmbeddedImage)> {
    let (file, image) = split_inner_image(part)?;
    let number = file.parse();
    let content = if let Ok(number) = number
        && let Some(content) = container::unpack_single_file(document, number).ok()?
    {
        content
    } else if file.starts_with(pdf_files::PREFIX) {
        pdf_files::attached_file_content(document, file)?
    } else {
        mail::find_mail_attachment(document, file)?
    };
    Some((content, image))
}

/// Returns the content of an image of a document, if it can be recognized.
pub(super) fn find_image_content(document: &[u8], part: &str) -> Option<Vec<u8>> {
    if let Some(image) = loose_images::find_loose_image(document, part) {
        pixels_in(part, &image, image.len() as u64).ok()??;
        return Some(image);
    }
    let mut archive = ZipReader::from_bytes(document).ok()?;
    count_part_pixels(&mut archive, part).ok()??;
    let image = read_image_start(&mut archive, part, IMAGE_MAX_BYTES + 1).ok()??;
    (image.len() as u64 <= IMAGE_MAX_BYTES).then_some(image)
}

/// Returns the beginning of a part; `None` if the part does not exist.
fn read_image_start(
    archive: &mut ZipReader<'_>,
    part: &str,
    max_bytes: u64,
) -> Result<Option<Vec<u8>>, UnreadImage> {
    let too_large = |error| match error {
        ExtractError::Bomb { .. } => UnreadImage::TooLarge,
        _ => UnreadImage::Failed,
    };
    archive.read_part_start(part, max_bytes).map_err(too_large)
}

#[cfg(test)]
mod tests {
    use super::super::{embedded_image, extract_bytes};
    use super::*;
    use std::io::{Cursor, Write};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    const IMAGE: &[u8] = include_bytes!("../tests/fixtures/code_word.png");
    const SCAN: &[u8] = include_bytes!("../tests/fixtures/scanned.pdf");
    const DOCUMENT: &[u8] = include_bytes!("../tests/fixtures/pictured.docx");

    fn zip_archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(content).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn message_with_attachments(attachments: &[(&str, &[u8])]) -> Vec<u8> {
        let boundary: usize = attachments.iter().map(|(_, content)| content.len()).sum();
        let head = format!("Content-Type: multipart/mixed; boundary=\"{boundary}\"\r\n\r\n");
        let mut message = format!("Subject: Papers\r\nMIME-Version: 1.0\r\n{head}").into_bytes();
        for (name, content) in attachments {
            let head = format!(
                "--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary\r\n\
                 Content-Disposition: attachment; filename=\"{name}\"\r\n\r\n"
            );
            message.extend([head.as_bytes(), content, b"\r\n"].concat());
        }
        message.extend(format!("--{boundary}--\r\n").into_bytes());
        message
    }

    /// Returns the places of the images of a document, and their contents.
    fn find_document_images(name: &str, document: &[u8]) -> Vec<(Option<u32>, String, Vec<u8>)> {
        let read = extract_bytes(Path::new(name), document).unwrap();
        assert!(read.unread_images.is_empty() && read.unread_files.is_empty(), "{read:?}");
        let image = |image: &EmbeddedImage| {
            let (content, _) = embedded_image(document, image).expect("it is found again");
            (image.page, image.heading.clone().unwrap_or_default(), content)
        };
        read.images.iter().map(image).collect()
    }

    #[test]
    fn embedded_image_in_inner_files_found() {
        let inner = find_document_images("pictured.docx", DOCUMENT).remove(0).2;
        let scan = embedded_image(
            SCAN,
            &EmbeddedImage { part: String::new(), page: Some(1), line: None, heading: None },
        );
        let scan = scan.expect("it is drawn").0;
        let files =
            [("text.txt", &b"Text."[..]), ("photo.png", IMAGE), ("a/scan.pdf", SCAN), ("b.docx", DOCUMENT)];
        let known = [("image", IMAGE), ("scan", &scan[..]), ("inner", &inner[..])];
        let name_of =
            |content: &[u8]| known.iter().find(|(_, known)| *known == content).expect("it is one of them").0;
        let found = |name: &str, document: &[u8]| -> Vec<&str> {
            find_document_images(name, document).iter().map(|(_, _, content)| name_of(content)).collect()
        };
        let zip = zip_archive(&files);
        assert_eq!(found("files.zip", &zip), ["image", "scan", "inner"]);
        let places: Vec<_> = find_document_images("files.zip", &zip)
            .into_iter()
            .map(|(page, heading, _)| (page, heading))
            .collect();
        let place = |page, heading: &str| (Some(page), heading.to_owned());
        assert_eq!(places[..2], [place(2, "photo.png"), place(3, "a/scan.pdf, page 1")]);
        assert!(places[2].0 == Some(4) && places[2].1.starts_with("b.docx"), "{places:?}");

        let mail = message_with_attachments(&files);
        assert_eq!(found("mail.eml", &mail), ["image", "scan", "inner"]);
        let places: Vec<_> =
            find_document_images("mail.eml", &mail).into_iter().map(|(_, heading, _)| heading).collect();
        assert_eq!(places[..2], ["Attachment: photo.png", "Attachment: a/scan.pdf"]);
        assert!(
            !["Attachment: photo.png", "Attachment: a/scan.pdf"].contains(&places[2].as_str()),
            "{places:?}"
        );

        let (inner_mail, inner_zip) = (message_with_attachments(&files), zip_archive(&files));
        let nested = message_with_attachments(&[
            ("first.eml", &inner_mail),
            ("text.txt", b"Text."),
            ("then.zip", &inner_zip),
        ]);
        assert_eq!(found("mail.eml", &nested), ["image", "scan", "inner"].repeat(2));
        let nested = zip_archive(&[("mail.eml", &mail), ("3", IMAGE)]);
        assert_eq!(found("files.zip", &nested), ["image", "scan", "inner", "image"]);
    }

    #[test]
    fn embedded_image_placed_at_attachment() {
        let zip = zip_archive(&[("kitchen.png", IMAGE), ("notes.txt", b"These are notes.")]);
        let mail = message_with_attachments(&[
            ("first.txt", b"One.\nTwo."),
            ("photos.zip", &zip),
            ("last.png", IMAGE),
        ]);
        let read = extract_bytes(Path::new("mail.eml"), &mail).unwrap();
        let lines: Vec<&str> = read.segments.iter().flat_map(|segment| segment.text.lines()).collect();
        let places: Vec<(Option<&str>, &str)> = read
            .images
            .iter()
            .map(|image| (image.heading.as_deref(), lines[image.line.unwrap() as usize - 1]))
            .collect();
        let expected =
            [("kitchen.png", "Attachment: photos.zip"), ("Attachment: last.png", "Attachment: last.png")];
        assert_eq!(places, expected.map(|(heading, line)| (Some(heading), line)));
    }

    #[test]
    fn embedded_image_behind_unread_messages_found() {
        const LAST: &[u8] = include_bytes!("../tests/fixtures/code_word.jpg");
        let parts = |boundary: &str, parts: &[(&str, &[u8])]| {
            let head = format!(
                "Subject: {boundary}\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\r\n"
            );
            let mut message = head.into_bytes();
            for (kind, content) in parts {
                let head = format!(
                    "\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: binary\r\n\r\n"
                );
                message.extend([head.as_bytes(), content].concat());
            }
            [&message[..], format!("\r\n--{boundary}--\r\n").as_bytes()].concat()
        };
        let deep = (0..6).fold(parts("deep", &[("image/png", IMAGE)]), |inner, depth| {
            parts(&format!("b{depth}"), &[("message/rfc822", &inner)])
        });
        let mail =
            parts("top", &[("text/plain", b"See below."), ("message/rfc822", &deep), ("image/jpeg", LAST)]);
        let from = b"From ada@example.org Mon Jun  2 10:00:00 2025\n";
        let mailbox = [&from[..], &mail, b"\n", from, &mail].concat();
        let one = zip_archive(&[("mail.eml", &mail)]);
        let two = zip_archive(&[("inner.zip", &one)]);
        for (name, document, images) in
            [("mail.eml", &mail, 1), ("box.mbox", &mailbox, 2), ("one.zip", &one, 1), ("two.zip", &two, 1)]
        {
            let read = extract_bytes(Path::new(name), document).unwrap();
            assert!(!read.unread_files.is_empty(), "{name}: a message lies too deep");
            let found: Vec<_> =
                read.images.iter().map(|image| embedded_image(document, image).unwrap().0).collect();
            assert_eq!(found.len(), images, "{name}");
            assert!(found.iter().all(|content| content == LAST), "{name}");
        }
    }

    #[test]
    fn embedded_image_missing_part_is_none() {
        let (zip, mail) =
            (zip_archive(&[("photo.png", IMAGE)]), message_with_attachments(&[("photo.png", IMAGE)]));
        for part in
            ["", "\n", "2\n0\n", "0\n0\n", "99999999999\n0\n", "photo.png\n1\nx", "photo.png", "1\n0\n1\n0\n"]
        {
            let image = EmbeddedImage { part: part.to_owned(), page: None, line: None, heading: None };
            let found = embedded_image(&mail, &image).filter(|_| !part.is_empty());
            assert!(found.is_none(), "{part:?}");
        }
        let image = EmbeddedImage { part: "1\n0\n".to_owned(), page: None, line: None, heading: None };
        assert!(embedded_image(&zip, &image).is_none(), "there is no second file");
    }
}
