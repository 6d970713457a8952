//! Malicious documents: each is read or refused within its bounds, and the unread parts are reported.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/bounded.rs"]
mod bounded;
#[path = "support/compound.rs"]
mod compound;

use archive::zip_archive;
use bounded::{ReadNothing, document_text, is_too_large, read_document};
use compound::{compound_file, utf16_bytes};
use documents::{ExtractError, PAGES_MAX};
use domain::unread::UnreadImages;

/// Text of this many megabytes after a beginning.
fn text_of_megabytes(begin: &str, megabytes: usize) -> Vec<u8> {
    let mut bytes = begin.as_bytes().to_vec();
    bytes.resize(begin.len() + megabytes * 1_000_000, b'a');
    bytes
}

/// A presentation whose slides all name parts of the archive.
fn pptx_with_slides(slides: &[(String, Vec<u8>)], listed: usize) -> Vec<u8> {
    let ids: String = (0..listed).map(|n| format!("<p:sldId r:id=\"r{}\"/>", n % slides.len())).collect();
    let presentation = format!("<p:presentation><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>");
    let relations: String = slides
        .iter()
        .enumerate()
        .map(|(n, (name, _))| {
            let target = name.trim_start_matches("ppt/");
            format!("<Relationship Id=\"r{n}\" Type=\"x/slide\" Target=\"{target}\"/>")
        })
        .collect();
    let relations = format!("<Relationships>{relations}</Relationships>");
    let fixed = [
        ("ppt/presentation.xml".to_owned(), presentation.into_bytes()),
        ("ppt/_rels/presentation.xml.rels".to_owned(), relations.into_bytes()),
    ];
    zip_archive(fixed.into_iter().chain(slides.iter().cloned()))
}

const SLIDE: &str = "<p:sld><p:cSld><p:sp><p:txBody><a:p><a:r><a:t>";

#[test]
fn presentation_bombs_are_refused() {
    let one = pptx_with_slides(&[("ppt/slides/slide1.xml".to_owned(), text_of_megabytes(SLIDE, 70))], 1);
    assert!(is_too_large(&read_document("one.pptx", &one)));
    // Each part is within its bound, but all together are not. Comments produce no text that would end the reading.
    let slide = |n: usize| {
        (format!("ppt/slides/slide{n}.xml"), text_of_megabytes(&format!("{SLIDE}x</a:t><!--"), 60))
    };
    let many = pptx_with_slides(&(1..=5).map(slide).collect::<Vec<_>>(), 5);
    let outcome = read_document("many.pptx", &many);
    assert!(is_too_large(&outcome) || matches!(outcome, Err(ExtractError::Broken { .. })), "{outcome:?}");
    let small = ("ppt/slides/slide1.xml".to_owned(), format!("{SLIDE}again</a:t></a:r></a:p>").into_bytes());
    let repeated = read_document("repeated.pptx", &pptx_with_slides(&[small], 200_000));
    assert!(repeated.is_err() || repeated.is_ok_and(|slides| slides.pages <= Some(PAGES_MAX)));
    let odp = zip_archive([
        ("mimetype", b"application/vnd.oasis.opendocument.presentation".to_vec()),
        ("content.xml", text_of_megabytes("<office:presentation><draw:page><text:p>", 70)),
    ]);
    assert!(is_too_large(&read_document("bomb.odp", &odp)));
}

/// A document of Word whose main part refers to a part this often.
fn docx_with_references(kind: &str, references: usize, part: Vec<u8>) -> Vec<u8> {
    let relation = |n| format!("<Relationship Id=\"r{n}\" Type=\"x/{kind}\" Target=\"part.xml\"/>");
    let relations: String = (0..references).map(relation).collect();
    let body: String = (0..references).map(|n| format!("<w:p><c:chart r:id=\"r{n}\"/></w:p>")).collect();
    zip_archive([
        ("word/document.xml", format!("<w:body><w:p><w:t>body</w:t></w:p>{body}</w:body>").into_bytes()),
        ("word/_rels/document.xml.rels", format!("<Relationships>{relations}</Relationships>").into_bytes()),
        ("word/part.xml", part),
    ])
}

#[test]
fn docx_repeated_parts_read_once() {
    let header: String = (0..20_000).map(|n| format!("<w:p><w:t>line {n}</w:t></w:p>")).collect();
    let headers = read_document("headers.docx", &docx_with_references("header", 20_000, header.into_bytes()))
        .expect("it is read");
    assert!(document_text(&headers).ends_with("line 19999\nbody"));
    let point = "<c:ser><c:val><c:pt idx=\"4294967295\"><c:v>1</c:v></c:pt></c:val></c:ser>";
    let charts =
        docx_with_references("chart", 20_000, format!("<c:chartSpace>{}", point.repeat(50_000)).into_bytes());
    let charts = document_text(&read_document("charts.docx", &charts).expect("it is read"));
    assert!(charts.starts_with("body\n") && charts.lines().count() == 2, "{} lines", charts.lines().count());
    assert!(is_too_large(&read_document(
        "bomb.docx",
        &docx_with_references("chart", 2, text_of_megabytes("<c:chartSpace><!--", 70))
    )));
}

#[test]
fn docx_repeated_comments_read_once() {
    let comment = format!(
        "<w:comment w:id=\"0\" w:author=\"{0}\"><w:p><w:t>{0}</w:t></w:p></w:comment>",
        "a".repeat(100_000)
    );
    let references = "<w:commentReference w:id=\"0\"/>".repeat(1_000_000);
    let document = zip_archive([
        ("word/document.xml", format!("<w:p><w:t>x</w:t>{references}</w:p>")),
        ("word/comments.xml", comment),
    ]);
    let document = read_document("a.docx", &document).expect("it is read");
    assert!(document_text(&document).len() < 100_000 && document.truncated);

    // The ends need not match the beginnings.
    let replies = format!("<cm>{}", "<reply><t>a</t></cm>".repeat(1_000_000));
    let slide = ("ppt/slides/s.xml".to_owned(), b"<a:p><a:t>x</a:t></a:p>".to_vec());
    let comments = "<Relationship Id=\"c\" Type=\"x/comments\" Target=\"c.xml\"/>".repeat(10_000);
    let more = [
        ("ppt/slides/_rels/s.xml.rels".to_owned(), format!("<R>{comments}</R>").into_bytes()),
        ("ppt/slides/c.xml".to_owned(), replies.into_bytes()),
    ];
    let slides: Vec<_> = std::iter::once(slide).chain(more).collect();
    let _ = read_document("a.pptx", &pptx_with_slides(&slides, 1));
}

#[test]
fn workbooks_that_unfold_are_bounded() {
    let row = |number: u32, text: &str| {
        format!("<row r=\"{number}\"><c r=\"A{number}\" t=\"inlineStr\"><is><t>{text}</t></is></c></row>")
    };
    let rows: String = (0..20_000).map(|number| row(3 + 2 * number, "x")).collect();
    let titled =
        format!("<worksheet><sheetData>{}{rows}</sheetData></worksheet>", row(1, &"a".repeat(1_000_000)));
    let long = "n".repeat(1_000_000);
    let workbook = |sheet: &str, styles: &str| {
        let sheets = format!(
            "<workbook xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets><sheet name=\"{long}\" sheetId=\"1\" r:id=\"a\"/></sheets></workbook>"
        );
        let relations = "<Relationships><Relationship Id=\"a\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" Target=\"worksheets/sheet1.xml\"/></Relationships>";
        let main = "<Relationships><Relationship Id=\"m\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>";
        zip_archive([
            ("_rels/.rels", main),
            ("xl/workbook.xml", sheets.as_str()),
            ("xl/_rels/workbook.xml.rels", relations),
            ("xl/worksheets/sheet1.xml", sheet),
            ("xl/styles.xml", styles),
        ])
    };
    let document = read_document("a.xlsx", &workbook(&titled, "<styleSheet/>")).expect("it is read");
    assert!(document.segments.len() > 1_000, "{}", document.segments.len());
    let styles = format!(
        "<styleSheet><numFmts><numFmt numFmtId=\"164\" formatCode=\"{}\"/></numFmts><cellXfs>{}</cellXfs></styleSheet>",
        "0".repeat(60_000),
        "<xf numFmtId=\"164\"/>".repeat(100_000)
    );
    let unfolding = read_document("a.xlsx", &workbook("<worksheet><sheetData/></worksheet>", &styles));
    assert!(is_too_large(&unfolding), "{unfolding:?}");

    let images: String =
        (0..9_999).map(|number| format!("<draw:image xlink:href=\"{number}.png\"/>")).collect();
    let again = "<draw:image xlink:href=\"9998.png\"/>".repeat(1_000_000);
    let pictured = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet".to_owned()),
        ("content.xml", format!("<table:table table:name=\"{long}\">{images}{again}</table:table>")),
    ]);
    let _ = read_document("a.ods", &pictured);
    let outside = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        (
            "content.xml",
            "<table:table-row><table:table-cell><text:p>x</text:p></table:table-cell></table:table-row>",
        ),
    ]);
    assert!(
        read_document("a.ods", &outside).is_ok_and(|document| document.segments.is_empty()),
        "it has no sheet"
    );
}

#[test]
fn office_part_lists_too_long_refused() {
    let padded = |list: &str| format!("{list}<!--{}-->", "x".repeat(5_000_000)).into_bytes();
    let slide = ("ppt/slides/slide1.xml".to_owned(), format!("{SLIDE}once</a:t></a:r></a:p>").into_bytes());
    assert!(is_too_large(&read_document("list.pptx", &pptx_with_slides(&[slide], 300_000))));
    let list = padded("<Relationships/>");
    let body = b"<w:body><w:p><w:t>body</w:t></w:p></w:body>".to_vec();
    let document = zip_archive([("word/document.xml", body), ("word/_rels/document.xml.rels", list)]);
    assert!(is_too_large(&read_document("list.docx", &document)));
}

/// A document of Word with these images, whose beginnings declare their sides.
fn docx_with_images(images: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<u8> {
    let images: Vec<(String, Vec<u8>)> = images.into_iter().collect();
    let drawn: String = (0..images.len()).map(|n| format!("<w:p><a:blip r:embed=\"r{n}\"/></w:p>")).collect();
    let relation = |(n, (name, _)): (usize, &(String, Vec<u8>))| {
        format!("<Relationship Id=\"r{n}\" Type=\"x/image\" Target=\"{name}\"/>")
    };
    let relations: String = images.iter().enumerate().map(relation).collect();
    let fixed = [
        ("word/document.xml".to_owned(), format!("<w:body><w:p><w:t>body</w:t></w:p>{drawn}").into_bytes()),
        (
            "word/_rels/document.xml.rels".to_owned(),
            format!("<Relationships>{relations}</Relationships>").into_bytes(),
        ),
    ];
    zip_archive(
        fixed.into_iter().chain(images.into_iter().map(|(name, image)| (format!("word/{name}"), image))),
    )
}

fn png_header(width: u32, height: u32) -> Vec<u8> {
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &sides, &[8, 0, 0, 0, 0]].concat()
}

#[test]
fn unread_images_counted_by_reason() {
    let odd = [
        ("tall.png", png_header(400, 100_000)),
        ("heavy.png", [png_header(400, 400), vec![0; 17 << 20]].concat()),
        ("unfolding.png", [png_header(400, 400), vec![0; 70 << 20]].concat()),
        ("damaged.png", b"no image".to_vec()),
        ("headless.gif", b"GIF89a".to_vec()),
        ("symbol.png", png_header(32, 32)),
        ("drawing.emf", b"\x01\0\0\0l\0\0\0".to_vec()),
    ];
    let odd = odd.map(|(name, image)| (name.to_owned(), image));
    let many = (0..130).map(|n| (format!("{n}.png"), png_header(400, 400)));
    let document =
        read_document("many.docx", &docx_with_images(odd.into_iter().chain(many))).expect("it is read");
    assert_eq!(document.images.len(), 100);
    assert_eq!(document.unread_images, UnreadImages::from_counts([3, 0, 30, 2]));

    let large = (0..10).map(|n| (format!("{n}.png"), png_header(5_000, 5_000)));
    let document = read_document("large.docx", &docx_with_images(large)).expect("it is read");
    assert_eq!((document.images.len(), document.unread_images), (8, UnreadImages::from_counts([0, 0, 2, 0])));
}

#[test]
fn epub_sections_read_once_within_bounds() {
    let container = "<container><rootfiles><rootfile full-path=\"b.opf\"/></rootfiles></container>";
    let package = |refs: usize| {
        let refs = "<itemref idref=\"s\"/>".repeat(refs);
        format!(
            "<package><manifest><item id=\"s\" href=\"s.xhtml\"/></manifest><spine>{refs}</spine></package>"
        )
    };
    let book = |refs: usize, section: Vec<u8>| {
        zip_archive([
            ("META-INF/container.xml", container.as_bytes().to_vec()),
            ("b.opf", package(refs).into_bytes()),
            ("s.xhtml", section),
        ])
    };
    let read_once =
        read_document("often.epub", &book(100_000, b"<html><body><p>The word is crane.</p>".to_vec()));
    assert_eq!(document_text(&read_once.expect("a book")).matches("crane").count(), 1);
    // A section without text, of maximum length, listed the maximum number of times.
    assert!(
        read_document("empty.epub", &book(100_000, text_of_megabytes("<html><body><p hidden title=\"", 15)))
            .is_ok()
    );
    assert!(is_too_large(&read_document("bomb.epub", &book(1, text_of_megabytes("<html><body><p>", 70)))));
    let climbing = zip_archive([
        ("META-INF/container.xml", container.replace("b.opf", "../../../../etc/passwd")),
        ("b.opf", String::new()),
    ]);
    assert!(read_document("climbing.epub", &climbing).is_err_or_empty());
}

#[test]
fn entities_are_never_expanded() {
    let laughs: String =
        (1..30).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let head = format!("<!DOCTYPE x [<!ENTITY l0 \"ha\"><!ENTITY f SYSTEM \"file:///etc/passwd\">{laughs}]>");
    let slide = format!("{head}{SLIDE}Before &l29; &f; after</a:t></a:r></a:p>");
    let slides = pptx_with_slides(&[("ppt/slides/slide1.xml".to_owned(), slide.into_bytes())], 1);
    let section = format!("{head}<html><body><p>Before &l29; &f; after</p></body></html>");
    let book = zip_archive([
        (
            "META-INF/container.xml",
            format!(
                "{head}<container><rootfile full-path=\"&f;b.opf\"/><rootfile full-path=\"b.opf\"/></container>"
            ),
        ),
        ("b.opf", "<package><item id=\"s\" href=\"s.xhtml\"/><itemref idref=\"s\"/></package>".to_owned()),
        ("s.xhtml", section),
    ]);
    let odp = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.presentation".to_owned()),
        ("content.xml", format!("{head}<office:presentation><draw:page><text:p>&l29;&f; after</text:p>")),
    ]);
    for (name, bytes) in [("a.pptx", slides), ("a.epub", book), ("a.odp", odp)] {
        if let Ok(document) = read_document(name, &bytes) {
            let text = document_text(&document);
            assert!(
                text.len() < 10_000 && !text.contains("root:") && !text.contains("haha"),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn zip_names_as_text_millions_refused() {
    let long_name = "n".repeat(60_000);
    let names = [
        "../../../etc/passwd",
        "a\u{1b}[2J\nb\u{7}.txt",
        "C:\\x\\..\\y",
        "\u{202e}fdp.exe",
        &long_name,
        "ordinary.txt",
    ];
    let named = read_document("names.zip", &zip_archive(names.map(|name| (name, "x")))).expect("an archive");
    let shown = document_text(&named);
    assert!(shown.contains("ordinary.txt\nx") && shown.contains("../../../etc/passwd"), "{shown}");
    assert!(shown.len() < 1_000 && !shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
    let nested =
        (0..200).fold(b"the innermost".to_vec(), |inner, n| zip_archive([(format!("{n}.zip"), inner)]));
    let nested = document_text(&read_document("nested.zip", &nested).expect("an archive"));
    assert!(nested.ends_with("(not read: too many documents inside each other)"), "{nested}");
    assert!(nested.lines().count() < 10, "{nested}");
    let many = zip_archive((0..20_000).map(|n| (n.to_string(), "")));
    let refused = read_document("many.zip", &many);
    assert!(is_too_large(&refused), "{refused:?}");
    // The end declares more than exist, and fewer.
    let mut liar = zip_archive((0..3).map(|n| (n.to_string(), "x")));
    let end = liar.len() - 22;
    for count in [0_u16, 1, 4, 9_999, 65_535] {
        liar[end + 8..end + 10].copy_from_slice(&count.to_le_bytes());
        liar[end + 10..end + 12].copy_from_slice(&count.to_le_bytes());
        drop(read_document("liar.zip", &liar));
    }
}

/// A message with attachments, each a type, a name and its content, between boundaries of this number.
fn eml_with_attachments(boundary: usize, attachments: &[(&str, &str, Vec<u8>)]) -> Vec<u8> {
    let mut out = format!(
        "From: a@example.org\r\nSubject: outer\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B{boundary}B\r\n\r\n"
    )
    .into_bytes();
    for (kind, name, content) in attachments {
        let head = format!(
            "--B{boundary}B\r\nContent-Type: {kind}\r\nContent-Disposition: attachment; filename=\"{name}\"\r\n\r\n"
        );
        out.extend(head.as_bytes());
        out.extend(content);
        out.extend(b"\r\n");
    }
    out.extend(format!("--B{boundary}B--\r\n").as_bytes());
    out
}

#[test]
fn eml_nested_messages_are_bounded() {
    let innermost = b"From: z@example.org\r\nSubject: innermost\r\n\r\nThe word is heron.\r\n".to_vec();
    let nested = |depth: usize| {
        (0..depth).fold(innermost.clone(), |inner, level| {
            eml_with_attachments(level, &[("message/rfc822", "inner.eml", inner)])
        })
    };
    assert!(document_text(&read_document("shallow.eml", &nested(2)).expect("a message")).contains("heron"));
    let deep = document_text(&read_document("deep.eml", &nested(60)).expect("a message"));
    assert!(
        !deep.contains("heron") && deep.contains("not read: too many documents inside each other"),
        "{deep}"
    );
    let many: Vec<_> =
        (0..400).map(|n| ("text/plain", "note.txt", format!("note {n}.").into_bytes())).collect();
    let many = document_text(&read_document("many.eml", &eml_with_attachments(0, &many)).expect("a message"));
    assert!(many.contains("note 49.") && !many.contains("note 50."), "the first fifty");
    assert!(many.contains("further attachments are not read"), "and it says so");
    let names: Vec<_> = ["../../etc/passwd.txt", &"n".repeat(50_000), "x\u{1b}]0;y.txt"]
        .map(|name| ("text/plain", name.to_owned()))
        .into();
    let odd: Vec<_> = names.iter().map(|(kind, name)| (*kind, name.as_str(), b"text".to_vec())).collect();
    assert!(read_document("names.eml", &eml_with_attachments(0, &odd)).is_ok());
}

#[test]
fn eml_endless_heads_read_in_time() {
    for body in [
        "To: ".to_owned() + &"a <b@c>,".repeat(500_000),
        "Subject: ".to_owned() + &"=?utf-8?Q?=41?= ".repeat(300_000),
        "Content-Type: multipart/mixed; boundary=x\r\n\r\n".to_owned() + &"--x\r\n\r\n".repeat(300_000),
        "X: y\r\n".repeat(500_000),
        "Content-Type: text/plain; ".to_owned() + &"a=b; ".repeat(500_000),
    ] {
        drop(read_document("head.eml", format!("From: a@example.org\r\n{body}\r\n\r\ntext").as_bytes()));
    }
}

fn msg_with_attachments(subject: &str, attachment: Option<&[u8]>, copies: u32) -> Vec<u8> {
    let mut streams = vec![
        ("/__properties_version1.0".to_owned(), vec![0; 32]),
        ("/__substg1.0_0037001F".to_owned(), utf16_bytes(subject)),
    ];
    for number in 0..copies {
        let folder = format!("/__attach_version1.0_#{number:08X}");
        streams.push((format!("{folder}/__substg1.0_3707001F"), utf16_bytes("inner.msg")));
        streams.push((format!("{folder}/__substg1.0_37010102"), attachment.unwrap_or_default().to_vec()));
    }
    let streams: Vec<(&str, Vec<u8>)> =
        streams.iter().map(|(name, content)| (name.as_str(), content.clone())).collect();
    compound_file(&streams)
}

#[test]
fn msg_nested_messages_are_bounded() {
    let deep = (0..8).fold(msg_with_attachments("the innermost", None, 0), |inner, n| {
        msg_with_attachments(&format!("level {n}"), Some(&inner), 1)
    });
    let text_of = |bytes: &[u8]| document_text(&read_document("a.msg", bytes).expect("a message"));
    let deep = text_of(&deep);
    assert!(deep.contains("level 7") && !deep.contains("innermost"), "{deep}");
    assert!(deep.contains("not read: too many documents inside each other"), "{deep}");
    // Ten in each of ten in each of ten: all together fifty are read.
    let wide = (0..3).fold(msg_with_attachments("leaf", None, 0), |inner, n| {
        msg_with_attachments(&format!("level {n}"), Some(&inner), 10)
    });
    let wide = text_of(&wide);
    assert!(wide.matches("Subject: leaf").count() <= 50, "{wide}");
    assert!(wide.contains("further attachments are not read"), "{wide}");
}

#[test]
fn compound_file_looping_chains_end() {
    let sound = msg_with_attachments("sound", Some(&[b'x'; 20_000]), 3);
    // The table of sectors is the first sector after the header in files that this library writes.
    for at in (512..1_024).step_by(4) {
        for next in [0_u32, 1, 2, u32::MAX - 5, 0x7fff_ffff] {
            let mut bent = sound.clone();
            bent[at..at + 4].copy_from_slice(&next.to_le_bytes());
            drop(read_document("bent.msg", &bent));
        }
    }
    // Sizes and counts of the head.
    for at in (24..76).step_by(2) {
        for value in [0_u16, 1, 0x7fff, 0xffff] {
            let mut bent = sound.clone();
            bent[at..at + 2].copy_from_slice(&value.to_le_bytes());
            drop(read_document("bent.doc", &bent));
        }
    }
}

#[test]
fn old_office_pieces_and_records_bounded() {
    // A document whose pieces all are the whole of its main stream, which shows nothing.
    let mut main = vec![1_u8; 4_000_000];
    main[0..4].copy_from_slice(&[0xec, 0xa5, 0xc1, 0]);
    main[0x0a..0x0c].copy_from_slice(&[0, 0]);
    let count: u32 = 100_000;
    let mut table = vec![2_u8];
    table.extend((count * 12 + 4).to_le_bytes());
    table.extend((0..=count).flat_map(|n| (n % 800 * 2_000_000).to_le_bytes()));
    table.extend((0..count).flat_map(|_| [0, 0, 0, 0, 0, 0x40, 0, 0]));
    main[0x01a2..0x01a6].copy_from_slice(&0_u32.to_le_bytes());
    main[0x01a6..0x01aa].copy_from_slice(&u32::try_from(table.len()).expect("short").to_le_bytes());
    drop(read_document("pieces.doc", &compound_file(&[("/WordDocument", main), ("/0Table", table)])));
    // Containers in containers, each of the rest's length; slides without end; lengths beyond the stream.
    let record = |version: u16, kind: u16, length: u32| {
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &length.to_le_bytes()].concat()
    };
    let nested: Vec<u8> = (0..200_000).flat_map(|_| record(15, 1000, u32::MAX)).collect();
    let slides: Vec<u8> = (0..1_000_000).flat_map(|_| record(15, 1006, 0)).collect();
    let listed: Vec<u8> = record(15, 4080, u32::MAX)
        .into_iter()
        .chain((0..1_000_000).flat_map(|_| record(0, 1011, 0)))
        .collect();
    for content in [nested, slides, listed] {
        drop(read_document("records.ppt", &compound_file(&[("/PowerPoint Document", content)])));
    }
}

/// Creates a PDF of one page of these objects, each with its number; object 4 is its content.
fn pdf_with_objects(resources: &str, objects: &[(usize, String)]) -> Vec<u8> {
    let mut all = vec![
        (1, "<</Type/Catalog/Pages 2 0 R>>".to_owned()),
        (2, "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned()),
        (
            3,
            format!(
                "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<<{resources}>>/Contents 4 0 R>>"
            ),
        ),
    ];
    all.extend_from_slice(objects);
    let mut out = "%PDF-1.7\n".to_owned();
    for (number, body) in all {
        out.push_str(&format!("{number} 0 obj\n{body}\nendobj\n"));
    }
    out.push_str("trailer\n<</Size 99/Root 1 0 R>>\n%%EOF");
    out.into_bytes()
}

fn pdf_stream(entries: &str, content: &str) -> String {
    format!("<<{entries}/Length {}>>\nstream\n{content}\nendstream", content.len())
}

#[test]
fn pdf_recursive_forms_read_in_part() {
    let font = (30, "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned());
    // Twelve forms, each drawing the next one ten times: 10^12 texts, or 10^12 clips without text.
    for (drawn, is_text) in [("BT /A 9 Tf 50 700 Td (once more) Tj ET ", true), ("", false)] {
        let mut objects =
            vec![(4, pdf_stream("", "BT /A 9 Tf 50 750 Td (The rent is 850.) Tj ET /F Do")), font.clone()];
        for number in 10..22 {
            let entries = format!(
                "/Type/XObject/Subtype/Form/BBox[0 0 600 800]/Resources<</XObject<</F {} 0 R>>/Font<</A 30 0 R>>>>",
                number + 1
            );
            objects.push((number, pdf_stream(&entries, &format!("{drawn}{}", "/F Do ".repeat(10)))));
        }
        objects.push((22, pdf_stream("/Type/XObject/Subtype/Form/BBox[0 0 9 9]", "")));
        let document = read_document(
            "forms.pdf",
            &pdf_with_objects("/XObject<</F 10 0 R>>/Font<</A 30 0 R>>", &objects),
        )
        .unwrap();
        assert!(
            document_text(&document).starts_with("The rent is 850."),
            "{:?}",
            document_text(&document).get(..80)
        );
        assert_eq!(document_text(&document).contains("once more"), is_text);
        assert_eq!(document.notes, ["page 1 could not be read whole"]);
        assert_eq!((document.cut_pages, document.scans), (vec![1], vec![]), "it is no scan");
    }
}

#[test]
fn pdf_too_many_lines_marked_cut() {
    let font = (30, "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned());
    for (lines, cut_pages) in [(100, vec![]), (20_100, vec![1])] {
        let lines: String = (0..lines).map(|line| format!("0 -9 Td (Line {line}.) Tj ")).collect();
        let content = pdf_stream("", &format!("BT /A 9 Tf 50 750 Td {lines} ET"));
        let document = read_document(
            "lines.pdf",
            &pdf_with_objects("/Font<</A 30 0 R>>", &[(4, content), font.clone()]),
        )
        .unwrap();
        assert!(document_text(&document).contains("Line 99."));
        assert_eq!(document.notes.len(), cut_pages.len());
        assert_eq!((document.cut_pages, document.scans), (cut_pages, vec![]));
    }
}

#[test]
fn odt_any_images_keep_document_readable() {
    let png = |width: u32, height: u32| {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
        bytes
    };
    let document = |images: &[Vec<u8>]| {
        let text = |number: usize| {
            format!("<text:p>Line {number}<draw:image xlink:href='Pictures/{number}.png'/></text:p>")
        };
        let content = format!("<o>{}</o>", (0..images.len()).map(text).collect::<String>());
        let mut parts = vec![
            ("mimetype".to_owned(), b"application/vnd.oasis.opendocument.text".to_vec()),
            ("content.xml".to_owned(), content.into_bytes()),
        ];
        let images = images.iter().enumerate();
        parts.extend(images.map(|(number, image)| (format!("Pictures/{number}.png"), image.clone())));
        read_document("a.odt", &zip_archive(parts)).expect("its text is read")
    };
    assert!(document(&vec![png(300, 300); 3_000]).images.len() <= 100);
    // More pixels than are decoded, for one image and for all of them.
    assert!(document(&[png(100_000, 100_000), png(u32::MAX, u32::MAX), png(0, 0)]).images.is_empty());
    assert!(document(&vec![png(5_000, 5_000); 50]).images.len() <= 8);
    // Parts that unpack to more than the limit, and one that is not an image.
    let mut long = png(640, 480);
    long.resize(70_000_000, 0);
    assert!(document(&[long, b"GIF8".to_vec(), b"\xff\xd8\xff\xe0\xff\xff".to_vec()]).images.is_empty());
}
