//! Images in a document that is a single file, not an archive. Their parts are named by the format and its identifier of
//! the image.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{fiction_book, mobi, notebook};

/// Reads base64 leniently, as other programs do.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns an image of a document; `None` if no image has this name.
pub(super) fn find_loose_image(document: &[u8], part: &str) -> Option<Vec<u8>> {
    let (format, name) = part.split_once(':')?;
    match format {
        mobi::IMAGES => mobi::find_mobi_image(document, name),
        fiction_book::IMAGES => fiction_book::find_fiction_book_image(document, name),
        notebook::IMAGES => notebook::find_notebook_image(document, name),
        _ => None,
    }
}

/// Names an image of a document of a format.
pub(super) fn image_part_name(format: &str, name: impl std::fmt::Display) -> String {
    format!("{format}:{name}")
}

/// Decodes an image encoded as text, with or without line breaks; `None` if it is damaged.
pub(super) fn decode_base64_image(letters: &str) -> Option<Vec<u8>> {
    let letters: Vec<u8> = letters.bytes().filter(|letter| !letter.is_ascii_whitespace()).collect();
    BASE64.decode(letters).ok()
}

#[cfg(test)]
#[path = "../tests/support/mobi.rs"]
mod book;

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};
    use std::path::Path;

    use base64::engine::general_purpose::STANDARD as WRITER;
    use domain::unread::{UnreadImage, UnreadImages};

    use super::super::{EmbeddedImage, embedded_image, extract_bytes};
    use super::book::MobiFile;
    use super::*;

    const PNG: &[u8] = include_bytes!("../tests/fixtures/code_word.png");
    const JPEG: &[u8] = include_bytes!("../tests/fixtures/code_word.jpg");
    const DAMAGED: &[u8] = b"\x89PNG\r\n\x1a\nand no more";

    fn name_of(content: &[u8]) -> &'static str {
        match content {
            PNG => "PNG",
            JPEG => "JPEG",
            _ => "another",
        }
    }

    /// Returns the images of a document with their pages or lines, and checks that they are found again, also in an archive.
    fn find_document_images(name: &str, document: &[u8]) -> Vec<(u32, &'static str)> {
        let read = extract_bytes(Path::new(name), document).unwrap();
        assert!(read.unread_images.is_empty(), "{read:?}");
        let found = |document: &[u8], image: &EmbeddedImage| {
            name_of(&embedded_image(document, image).expect("it is found again").0)
        };
        let images: Vec<_> = read
            .images
            .iter()
            .map(|image| (image.page.or(image.line).expect("a place"), found(document, image)))
            .collect();
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(document).unwrap();
        let archive = writer.finish().unwrap().into_inner();
        let inner = extract_bytes(Path::new("a.zip"), &archive).unwrap();
        let archived: Vec<_> = inner.images.iter().map(|image| found(&archive, image)).collect();
        assert_eq!(archived, images.iter().map(|(_, name)| *name).collect::<Vec<_>>());
        images
    }

    /// Wraps encoded text in lines, as programs do.
    fn base64_lines(content: &[u8]) -> String {
        let letters = WRITER.encode(content);
        letters.as_bytes().chunks(76).map(|line| format!("{}\n", str::from_utf8(line).unwrap())).collect()
    }

    fn fiction_book(body: &str, images: &[(&str, &[u8])]) -> Vec<u8> {
        let binary = |(id, content): &(&str, &[u8])| {
            format!("<binary id=\"{id}\" content-type=\"image/png\">{}</binary>", base64_lines(content))
        };
        let binaries: String = images.iter().map(binary).collect();
        format!(
            "<?xml version=\"1.0\"?>\n<FictionBook xmlns:l=\"http://www.w3.org/1999/xlink\"><description><title-info>\
             <book-title>Birds</book-title><coverpage><image l:href=\"#cover\"/></coverpage></title-info></description>\
             <body>{body}</body>{binaries}</FictionBook>"
        )
        .into_bytes()
    }

    #[test]
    fn fiction_book_images_on_their_pages() {
        let body = "<section><p>One.<image l:href=\"#a.png\"/></p></section>\
            <section><image l:href=\"#b\"></image><p>Two.</p><image l:href=\"#a.png\"/>\
            <image l:href=\"#none\"/><image l:href=\"https://example.org/a.png\"/></section>";
        let book = fiction_book(body, &[("cover", PNG), ("a.png", PNG), ("b", JPEG)]);
        assert_eq!(
            find_document_images("a.fb2", &book),
            [(2, "PNG"), (3, "JPEG")],
            "after the page of the title"
        );
    }

    #[test]
    fn kindle_images_on_their_pages() {
        let book = |version: u32, html: &str| {
            let images: &[&[u8]] = &[b"a font", PNG, JPEG];
            let html_end = u32::try_from(html.len()).ok();
            let records: &[&[u8]] = &[html.as_bytes()];
            MobiFile {
                code_page: 65_001,
                version,
                packing: 1,
                records,
                html_end,
                images,
                ..MobiFile::default()
            }
            .into_bytes()
        };
        let old = "<html><body><p>One.</p><img recindex=\"00002\"/><mbp:pagebreak/><img recindex=\"3\"/><p>Two.</p>\
            <img recindex=\"1\"/><img recindex=\"99\"/><img recindex=\"x\"/><img src=\"a.png\"/></body></html>";
        assert_eq!(find_document_images("a.mobi", &book(6, old)), [(1, "PNG"), (2, "JPEG")]);
        let new = "<html><body><p>One.</p></body></html>\
            <html><body><img src=\"kindle:embed:0003?mime=image/jpg\"/></body></html>\
            <html><body><img src=\"kindle:embed:0002?mime=image/png\"/><p>Two.</p><img src=\"kindle:embed:000W\"/>\
            <img src=\"kindle:embed:0000\"/></body></html>";
        assert_eq!(
            find_document_images("a.azw3", &book(8, new)),
            [(1, "JPEG"), (2, "PNG")],
            "one alone belongs to the page before"
        );
    }

    #[test]
    fn notebook_images_after_their_lines() {
        let (png, jpeg) = (WRITER.encode(PNG), base64_lines(JPEG));
        let notebook = serde_json::json!({ "cells": [
            { "cell_type": "markdown", "source": "# Birds\r\n\r\n![](attachment:a.png)",
              "attachments": { "a.png": { "image/png": png } } },
            { "cell_type": "code", "source": "plot()", "outputs": [
                { "output_type": "display_data", "data": { "image/jpeg": [jpeg], "text/plain": "<Figure>" } } ] },
            { "cell_type": "markdown", "source": "The end.", "attachments": 7 },
        ] });
        // The text before the second: a heading, the image's address, three lines of code, three of output.
        assert_eq!(
            find_document_images("a.ipynb", notebook.to_string().as_bytes()),
            [(3, "PNG"), (11, "JPEG")]
        );
        let earlier = serde_json::json!({ "worksheets": [{ "cells": [
            { "cell_type": "code", "input": "plot()", "outputs": [{ "output_type": "pyout", "png": png }] } ] }] });
        assert_eq!(find_document_images("a.ipynb", earlier.to_string().as_bytes()), [(3, "PNG")]);
    }

    #[test]
    fn damaged_images_are_counted_or_none() {
        let cell = serde_json::json!({ "cell_type": "code", "source": "plot()", "outputs": [
            { "data": { "image/png": WRITER.encode(DAMAGED) } }, { "data": { "image/png": "no letters!" } } ] });
        let notebook = serde_json::json!({ "cells": [cell] }).to_string();
        let book =
            fiction_book("<section><p>One.</p><image l:href=\"#a.png\"/></section>", &[("a.png", DAMAGED)]);
        for (name, document) in [("a.ipynb", notebook.as_bytes()), ("a.fb2", &book)] {
            let read = extract_bytes(Path::new(name), document).unwrap();
            let failed = UnreadImages::of_reason(UnreadImage::Failed, 1);
            assert_eq!((read.images.as_slice(), read.unread_images), (&[][..], failed), "{name}");
        }
        for part in ["", "mobi:1", "fb2:a.png", "ipynb:0.png", "ipynb:x", "mobi:99999", "other:1"] {
            for document in [&b"{}"[..], b"<FictionBook>", b"", b"PK", PNG] {
                assert_eq!(find_loose_image(document, part), None, "{part}");
            }
        }
    }
}
