//! Documents as other programs write them: each is made in its test.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/compound.rs"]
mod compound;

use std::io::{Cursor, Read};
use std::path::Path;

use archive::zip_archive;
use compound::{compound_file, utf16_bytes};
use documents::{DocumentFormat, ExtractError, Extracted, extract_bytes};

fn read_document(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it can be read")
}

fn document_text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn relations_xml(of: &[(&str, &str, &str)]) -> String {
    let relation = |(id, kind, target): &(&str, &str, &str)| {
        format!("<Relationship Id=\"{id}\" Type=\"http://x/{kind}\" Target=\"{target}\"/>")
    };
    format!("<Relationships>{}</Relationships>", of.iter().map(relation).collect::<String>())
}

const CHART: &str = "<c:chartSpace><c:title><a:p><a:r><a:t>Spotřeba </a:t></a:r><a:r><a:t>vody</a:t></a:r></a:p></c:title>\
    <c:ser><c:tx><c:pt idx=\"0\"><c:v>2023</c:v></c:pt></c:tx>\
    <c:cat><c:pt idx=\"0\"><c:v>leden</c:v></c:pt><c:pt idx=\"1\"><c:v>únor</c:v></c:pt></c:cat>\
    <c:val><c:pt idx=\"0\"><c:v>17</c:v></c:pt><c:pt idx=\"1\"><c:v>19</c:v></c:pt></c:val></c:ser>\
    <c:ser><c:tx><c:pt idx=\"0\"><c:v>2024</c:v></c:pt></c:tx>\
    <c:val><c:pt idx=\"1\"><c:v>21</c:v></c:pt></c:val></c:ser>\
    <c:valAx><c:title><a:p><a:t>m³</a:t></a:p></c:title></c:valAx></c:chartSpace>";
const CHART_LINES: &str = "Spotřeba vody\nm³\nleden\t2023: 17\núnor\t2023: 19\t2024: 21";
const DIAGRAM: &str = "<dgm:dataModel><dgm:pt><dgm:t><a:p><a:t>Žádost</a:t></a:p></dgm:t></dgm:pt>\
    <dgm:pt><dgm:t><a:p><a:t>Schválení</a:t></a:p></dgm:t></dgm:pt></dgm:dataModel>";

#[test]
fn pptx_charts_and_diagrams_are_text() {
    let document = zip_archive([
        (
            "ppt/presentation.xml",
            "<p:presentation><p:sldId id=\"256\" r:id=\"r1\"/></p:presentation>".to_owned(),
        ),
        ("ppt/_rels/presentation.xml.rels", relations_xml(&[("r1", "slide", "slides/slide1.xml")])),
        ("ppt/slides/slide1.xml", "<p:sld><p:sp><a:p><a:t>Přehled</a:t></a:p></p:sp></p:sld>".to_owned()),
        (
            "ppt/slides/_rels/slide1.xml.rels",
            relations_xml(&[
                ("a", "chart", "../charts/chart1.xml"),
                ("b", "diagramData", "/ppt/diagrams/data1.xml"),
            ]),
        ),
        ("ppt/charts/chart1.xml", CHART.to_owned()),
        ("ppt/diagrams/data1.xml", DIAGRAM.to_owned()),
    ]);
    let slides = read_document("x.pptx", &document);
    assert_eq!(slides.pages, Some(1));
    assert_eq!(document_text(&slides), format!("Přehled\n{CHART_LINES}\nŽádost\nSchválení"));
}

/// A document of Word whose main part has another name, with headers, a chart and a chunk of HTML.
fn docx_with_chunk(chunk: &str) -> Vec<u8> {
    zip_archive([
        ("_rels/.rels", relations_xml(&[("r1", "officeDocument", "word/document2.xml")])),
        (
            "word/document2.xml",
            "<w:body><w:p><w:r><w:t>Úvod</w:t></w:r><c:chart r:id=\"a\"/></w:p><w:altChunk r:id=\"b\"/>\
             <w:p><w:pPr><w:pStyle w:val=\"N\"/></w:pPr><w:r><w:t>Závěr</w:t></w:r></w:p></w:body>"
                .to_owned(),
        ),
        (
            "word/_rels/document2.xml.rels",
            relations_xml(&[
                ("a", "chart", "charts/chart1.xml"),
                ("b", "aFChunk", "chunk.html"),
                ("c", "header", "header1.xml"),
                ("d", "header", "header2.xml"),
                ("e", "footer", "footer1.xml"),
                ("f", "styles", "styles2.xml"),
            ]),
        ),
        ("word/styles2.xml", "<w:style w:styleId=\"N\"><w:name w:val=\"heading 1\"/></w:style>".to_owned()),
        ("word/charts/chart1.xml", CHART.to_owned()),
        ("word/chunk.html", chunk.to_owned()),
        ("word/header1.xml", "<w:hdr><w:p><w:t>Spis 17 C 5/2024</w:t></w:p></w:hdr>".to_owned()),
        ("word/header2.xml", "<w:hdr><w:p><w:t>Spis 17 C 5/2024</w:t></w:p></w:hdr>".to_owned()),
        ("word/footer1.xml", "<w:ftr><w:p><w:t>Praha</w:t></w:p><w:p><w:t>3</w:t></w:p></w:ftr>".to_owned()),
    ])
}

#[test]
fn docx_parts_found_by_reference() {
    let document = read_document("x.docx", &docx_with_chunk("<h2>Vložené</h2><p>Text z HTML</p>"));
    assert_eq!(document.format, DocumentFormat::Docx);
    assert_eq!(
        document_text(&document),
        format!("Spis 17 C 5/2024\nÚvod\n{CHART_LINES}\nVložené\nText z HTML\nZávěr\nPraha")
    );
    let heading = |line: &str| {
        let found = document.segments.iter().find(|segment| segment.text.contains(line));
        found.expect("the line is there").heading.clone()
    };
    assert_eq!(heading("HTML").as_deref(), Some("Vložené"));
    assert_eq!(heading("Závěr").as_deref(), Some("Závěr"));
    assert_eq!((heading("Spis"), heading("Praha")), (None, None));
}

#[test]
fn docx_notes_fields_symbols_in_place() {
    let run = |inner: &str| format!("<w:r>{inner}</w:r>");
    let paragraph = |inner: &str| format!("<w:p>{inner}</w:p>");
    let note = |kind: &str, id: u32, more: &str, text: &str| {
        format!("<w:{kind} w:id=\"{id}\"{more}><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:{kind}>")
    };
    let body = [
        paragraph(
            &[
                run("<w:t>Lhůta </w:t>"),
                run("<w:sym w:font=\"Symbol\" w:char=\"F0B3\"/>"),
                run("<w:t xml:space=\"preserve\"> 30 dní</w:t>"),
                run("<w:endnoteReference w:id=\"2\"/><w:footnoteReference w:id=\"2\"/>"),
                run("<w:commentReference w:id=\"0\"/><w:commentReference w:id=\"1\"/>"),
            ]
            .concat(),
        ),
        paragraph(
            &[
                run("<w:t xml:space=\"preserve\">Kraj: </w:t><w:fldChar><w:ffData><w:ddList><w:result w:val=\"1\"/>\
                     <w:listEntry w:val=\"Praha\"/><w:listEntry w:val=\"Brno\"/></w:ddList></w:ffData></w:fldChar>"),
                run("<w:t xml:space=\"preserve\">, souhlas: </w:t><w:fldChar><w:ffData><w:checkBox><w:default w:val=\"0\"/>\
                     <w:checked/></w:checkBox></w:ffData></w:fldChar>"),
            ]
            .concat(),
        ),
    ];
    let document = zip_archive([
        ("word/document.xml", format!("<w:body>{}</w:body>", body.concat())),
        ("word/footnotes.xml", note("footnote", 2, "", "Viz § 5.")),
        (
            "word/endnotes.xml",
            note("endnote", 0, " w:type=\"separator\"", "x") + &note("endnote", 2, "", "Podle smlouvy."),
        ),
        (
            "word/comments.xml",
            note("comment", 0, " w:author=\"Jana Nová\"", "Proč tolik?")
                + &note("comment", 1, "", "Souhlasím."),
        ),
    ]);
    assert_eq!(
        document_text(&read_document("x.docx", &document)),
        "Lhůta ≥ 30 dní\nPodle smlouvy.\nViz § 5.\nComment by Jana Nová: Proč tolik?\nComment: Souhlasím.\n\
         Kraj: Brno, souhlas: ☒"
    );
}

#[test]
fn docx_long_notes_are_cut() {
    let long = format!("Pokuta činí 7777 Kč. {}", "a".repeat(70_000));
    let document = zip_archive([
        (
            "word/document.xml",
            "<w:p><w:r><w:t>Smlouva</w:t><w:footnoteReference w:id=\"1\"/><w:footnoteReference w:id=\"2\"/></w:r>\
             <w:r><w:footnoteReference w:id=\"1\"/></w:r></w:p>\
             <w:p><w:r><w:fldChar w:fldCharType=\"begin\"><w:ffData><w:ddList><w:result w:val=\"9\"/>\
             <w:listEntry w:val=\"alfa\"/></w:ddList></w:ffData></w:fldChar></w:r><w:r><w:t>žádná</w:t></w:r></w:p>\
             <w:p><w:r><w:fldChar w:fldCharType=\"begin\"><w:ffData><w:ddList><w:listEntry w:val=\"beta\"/></w:ddList>\
             </w:ffData></w:fldChar></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>beta</w:t></w:r>\
             <w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:t>.</w:t></w:r></w:p>"
                .to_owned(),
        ),
        (
            "word/footnotes.xml",
            format!(
                "<w:footnote w:id=\"1\"><w:p><w:r><w:t>Pod</w:t><w:br/><w:t>čarou</w:t><w:noBreakHyphen/><w:t>a</w:t>\
                 </w:r></w:p></w:footnote><w:footnote w:id=\"2\"><w:p><w:r><w:t>{long}</w:t></w:r></w:p></w:footnote>"
            ),
        ),
    ]);
    let document = read_document("x.docx", &document);
    let text = document_text(&document);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[1]), ("Smlouva", "Pod čarou-a"));
    assert!(lines[2].starts_with("Pokuta činí 7777 Kč.") && lines[2].len() <= 64 << 10, "{}", lines[2].len());
    assert_eq!(lines[3..], ["žádná", "beta."], "a note is shown only at its first reference");
    assert!(document.truncated);
}

#[test]
fn pptx_comments_and_replies_follow_slide() {
    let document = zip_archive([
        ("ppt/presentation.xml", "<p:sldId id=\"256\" r:id=\"r1\"/>".to_owned()),
        (
            "ppt/_rels/presentation.xml.rels",
            relations_xml(&[
                ("r1", "slide", "slides/slide1.xml"),
                ("r2", "authors", "authors.xml"),
                ("r3", "commentAuthors", "commentAuthors.xml"),
            ]),
        ),
        ("ppt/authors.xml", "<p188:author id=\"{A}\" name=\"Petr\"/><p188:author id=\"{B}\" name=\"Eva\"/>".to_owned()),
        ("ppt/commentAuthors.xml", "<p:cmAuthor id=\"0\" name=\"Jan\"/>".to_owned()),
        ("ppt/slides/slide1.xml", "<p:sp><a:p><a:t>Rozpočet</a:t></a:p></p:sp>".to_owned()),
        (
            "ppt/slides/_rels/slide1.xml.rels",
            relations_xml(&[("a", "comments", "../comments/c1.xml"), ("b", "comments", "../comments/c2.xml")]),
        ),
        (
            "ppt/comments/c1.xml",
            "<p188:cm authorId=\"{A}\"><p188:replyLst><p188:reply authorId=\"{B}\"><p188:txBody><a:p><a:t>Ano.</a:t></a:p>\
             </p188:txBody></p188:reply></p188:replyLst><p188:txBody><a:p><a:t>Platí to?</a:t></a:p></p188:txBody></p188:cm>"
                .to_owned(),
        ),
        ("ppt/comments/c2.xml", "<p:cm authorId=\"0\"><p:text>Doplnit zdroj</p:text></p:cm>".to_owned()),
    ]);
    assert_eq!(
        document_text(&read_document("x.pptx", &document)),
        "Rozpočet\nComment by Petr: Platí to?\nComment by Eva: Ano.\nComment by Jan: Doplnit zdroj"
    );
}

#[test]
fn comments_of_libreoffice_follow_their_paragraph() {
    let comment = "<office:annotation><dc:creator>Jana</dc:creator><dc:date>2024-03-05</dc:date>\
                   <text:p>Je to<text:s/>tak?</text:p><text:p>Ověřit.</text:p></office:annotation>";
    let document = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.text".to_owned()),
        (
            "content.xml",
            format!(
                "<office:text><text:p>Nájem{comment} činí 5 000 Kč.</text:p><table:table><table:table-row><table:table-cell>\
                 <text:p>Voda{comment}</text:p></table:table-cell></table:table-row></table:table></office:text>"
            ),
        ),
    ]);
    assert_eq!(
        document_text(&read_document("x.odt", &document)),
        "Nájem činí 5 000 Kč.\nComment by Jana: Je to tak? Ověřit.\nVoda\nComment by Jana: Je to tak? Ověřit."
    );
}

#[test]
fn docx_unreadable_chunks_keep_document() {
    let mut document = docx_with_chunk("");
    for _ in 0..6 {
        document = zip_archive([
            ("_rels/.rels", relations_xml(&[("r1", "officeDocument", "word/document.xml")]).as_bytes()),
            (
                "word/document.xml",
                "<w:body><w:p><w:t>Nad</w:t></w:p><w:altChunk r:id=\"a\"/></w:body>".as_bytes(),
            ),
            ("word/_rels/document.xml.rels", relations_xml(&[("a", "aFChunk", "chunk.docx")]).as_bytes()),
            ("word/chunk.docx", &document),
        ]);
    }
    let text = document_text(&read_document("x.docx", &document));
    assert_eq!(text.matches("Nad").count(), 4, "{text}");
    assert!(text.ends_with("(not read: too many documents inside each other)"), "{text}");
}

#[test]
fn docx_damaged_charts_keep_document() {
    let parts = [("a", "chart", "part.xml"), ("b", "header", "part.xml"), ("c", "header", "other.xml")];
    let document = zip_archive([
        ("word/document.xml", "<w:body><w:p><w:t>Text</w:t><c:chart r:id=\"a\"/></w:p></w:body>".to_owned()),
        ("word/_rels/document.xml.rels", format!("{} <broken", relations_xml(&parts))),
        ("word/part.xml", "<a:p <".to_owned()),
        ("word/other.xml", "<w:hdr><w:p><w:t>Spis</w:t></w:p><w:p <".to_owned()),
    ]);
    assert!(document_text(&read_document("x.docx", &document)).ends_with("Text"));
    let zip = zip_archive([("_rels/.rels", "<Relationship <"), ("a.txt", "x")]);
    assert_eq!(read_document("x.zip", &zip).format, DocumentFormat::Archive);
}

#[test]
fn epub_spine_images_are_no_text() {
    let book = zip_archive([
        ("META-INF/container.xml", "<c><rootfile full-path=\"p.opf\"/></c>"),
        (
            "p.opf",
            "<package><item id=\"a\" href=\"a.jpg\" media-type=\"image/jpeg\"/>\
             <item id=\"b\" href=\"b.svg\" media-type=\"image/svg+xml\"/>\
             <spine><itemref idref=\"a\"/><itemref idref=\"b\"/></spine></package>",
        ),
        ("a.jpg", "letters that mean nothing"),
        ("b.svg", "<svg><text>Map of Prague</text></svg>"),
    ]);
    assert_eq!(document_text(&read_document("x.epub", &book)), "Map of Prague");
}

/// Rewrites the end of an archive as programs do that always write the larger records.
fn with_large_end(mut bytes: Vec<u8>, entries: u64) -> Vec<u8> {
    let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06").expect("an end");
    let tail = bytes.split_off(end);
    let (size, start) = (&tail[12..16], &tail[16..20]);
    let record = [
        &b"PK\x06\x06"[..],
        &44_u64.to_le_bytes(),
        &[45, 0, 45, 0],
        &[0; 8],
        &entries.to_le_bytes(),
        &entries.to_le_bytes(),
        size,
        &[0; 4],
        start,
        &[0; 4],
    ];
    let locator = [&b"PK\x06\x07"[..], &[0; 4], &(end as u64).to_le_bytes(), &[1, 0, 0, 0]];
    let small_end = [&b"PK\x05\x06"[..], &[0; 4], &[0xff; 12], &[0; 2]];
    [bytes, record.concat(), locator.concat(), small_end.concat()].concat()
}

#[test]
fn zip_small_with_zip64_records_read() {
    let document = with_large_end(docx_with_chunk("<p>x</p>"), 9);
    assert!(document_text(&read_document("x.docx", &document)).contains("Úvod"));
    let outcome = extract_bytes(Path::new("x.docx"), &with_large_end(docx_with_chunk("<p>x</p>"), 20_000));
    assert!(matches!(outcome, Err(ExtractError::TooManyParts { .. })), "{outcome:?}");
}

#[test]
fn odf_encrypted_is_named() {
    let locked = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.text"),
        ("META-INF/manifest.xml", "<manifest:encryption-data/>"),
        ("encrypted-package", "x"),
    ]);
    assert!(matches!(extract_bytes(Path::new("x.odt"), &locked), Err(ExtractError::Encrypted(_))));
}

#[test]
fn odg_drawings_read_by_page() {
    let page =
        |text: &str| format!("<draw:page><draw:frame><text:p>{text}</text:p></draw:frame></draw:page>");
    let drawing = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.graphics".to_owned()),
        ("content.xml", format!("<office:drawing>{}{}</office:drawing>", page("Půdorys"), page("Řez"))),
    ]);
    let drawing = read_document("x.odg", &drawing);
    assert_eq!((document_text(&drawing).as_str(), drawing.pages), ("Půdorys\nŘez", Some(2)));
}

#[test]
fn compound_file_missing_sectors_read() {
    let mut message = compound_file(&[
        ("/__properties_version1.0", vec![0; 32]),
        ("/__substg1.0_1000001F", utf16_bytes("Krátká zpráva")),
    ]);
    // Entries of the table beyond the file's end that are marked as used.
    let sector = 1_usize << message[30];
    let table = sector * (1 + usize::from(message[76]));
    let sectors = message.len() / sector - 1;
    for entry in message[table..table + sector].chunks_exact_mut(4).skip(sectors) {
        entry.copy_from_slice(&0xffff_fffe_u32.to_le_bytes());
    }
    assert_eq!(document_text(&read_document("x.msg", &message)), "Krátká zpráva");
}

#[test]
fn msg_encoding_and_nested_messages_read() {
    let properties =
        [&[0; 32][..], &[3, 0, 0xfd, 0x3f, 6, 0, 0, 0], &1250_u32.to_le_bytes(), &[0; 4]].concat();
    const INNER: &str = "/__attach_version1.0_#00000000/__substg1.0_3701000D";
    let message = compound_file(&[
        ("/__properties_version1.0", properties),
        ("/__substg1.0_0037001E", b"\x8e\xe1dost".to_vec()),
        ("/__substg1.0_0C1A001E", b"\x8a\xe1rka".to_vec()),
        ("/__substg1.0_0C1F001E", b"sarka@example.org".to_vec()),
        ("/__substg1.0_1000001E", b"viz p\xf8\xedloha".to_vec()),
        (&format!("{INNER}/__substg1.0_0037001F"), utf16_bytes("Vložená")),
        (&format!("{INNER}/__substg1.0_1000001F"), utf16_bytes("Vnitřní text")),
    ]);
    assert_eq!(
        document_text(&read_document("x.msg", &message)),
        "Subject: Žádost\nFrom: Šárka <sarka@example.org>\nviz příloha\n\
         Attached message\nSubject: Vložená\nVnitřní text"
    );
}

#[test]
fn mbox_and_mhtml_read_as_messages() {
    let mailbox = "From jana@example.org Mon Jun  2 10:00:00 2025\nSubject: =?utf-8?q?Prvn=C3=AD?=\n\nText A\n>From B\n\n\
                   From petr@example.org Tue Jun  3 10:00:00 2025\nSubject: Second\n\
                   Content-Transfer-Encoding: quoted-printable\n\nText=20C\n";
    let mailbox = read_document("export", mailbox.as_bytes());
    assert_eq!(mailbox.format, DocumentFormat::Message);
    assert_eq!(document_text(&mailbox), "Subject: První\nText A\nFrom B\nSubject: Second\nText C");
    let prose = read_document("x.txt", b"From here on it is prose.\nAnd it goes on: so it is.\n");
    assert_eq!(prose.format, DocumentFormat::Text);

    let page = "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=\"b\"\n\n\
                --b\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\
                Content-Location: file:///C:/export.htm\n\n<h1>N=C3=A1jem</h1><p>=C4=8Cin=C3=AD 5 000</p>\n\
                --b\nContent-Type: text/css\nContent-Location: file:///C:/a.css\n\np{color:red}\n--b--\n";
    assert_eq!(document_text(&read_document("export.doc", page.as_bytes())), "Nájem\nČiní 5 000");
}

#[test]
fn rtf_fonts_use_own_charset() {
    let rtf = br"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset238 Arial CE;}{\f2\fcharset204 Arial Cyr;}}\f0 caf\'e9 \f1 \'e8l\'e1nek {\f2 \'e4\'e0} \'f8\plain  \'e8\par}";
    assert_eq!(document_text(&read_document("x.rtf", rtf)), "café článek да ř è");
}

#[test]
fn texts_say_their_encoding() {
    let feed = b"<?xml version=\"1.0\" encoding='iso-8859-2'?><t>h\xf5m\xe9r\xf5 es\xf5</t>";
    assert!(document_text(&read_document("x.xml", feed)).contains("hőmérő eső"));
    assert_eq!(document_text(&read_document("x.txt", b"\x1b$B=P\x1b(B 7")), "出 7");
}

#[test]
fn html_svg_text_is_read() {
    let page = b"<p>a</p><svg><title>Icon</title><style>x{}</style><desc>d</desc><text>Tr\xc5\xbeby<tspan> 2024</tspan></text><text>17 %</text></svg><p>b</p>";
    assert_eq!(document_text(&read_document("x.html", page)), "a\nTržby 2024\n17 %\nb");
}

#[test]
fn visio_shape_text_and_data_read() {
    let drawing = visio_drawing();
    let extracted = extract_bytes(Path::new("x.vsdx"), &drawing).expect("it is read");
    assert_eq!((extracted.format, extracted.pages), (DocumentFormat::Drawing, Some(2)));
    let texts: Vec<_> =
        extracted.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect();
    assert_eq!(
        texts,
        [(Some(1), "Network\nRouter\nof the hall\nAddress: 10.0.0.1"), (Some(2), "Floor\nAttic")]
    );
}

/// A drawing of Visio with two pages.
fn visio_drawing() -> Vec<u8> {
    let relation = |id: &str, target: &str| {
        format!(
            "<Relationship Id='{id}' Type='http://schemas.microsoft.com/visio/2010/relationships/page' Target='{target}'/>"
        )
    };
    let relations = format!(
        "<Relationships>{}{}</Relationships>",
        relation("a", "page2.xml"),
        relation("b", "page1.xml")
    );
    let pages = "<Pages xmlns:r='r'><Page ID='0' Name='Network'><PageSheet/><Rel r:id='b'/></Page>\
                 <Page ID='4' Name='Floor'><Rel r:id='a'/></Page></Pages>";
    let shapes = "<PageContents><Shapes><Shape><Cell N='Value' V='no data'/><Section N='Property'>\
                  <Row N='R'><Cell N='Label' V='Address'/><Cell N='Value' V='10.0.0.1'/></Row><Row N='S'><Cell N='Label' V='Empty'/></Row>\
                  </Section></Shape></Shapes></PageContents>";
    let network = shapes.replace("<Shape>", "<Shape><Text><cp IX='0'/>Router\nof the hall\n</Text>");
    zip_archive([
        ("visio/document.xml", "<VisioDocument/>".to_owned()),
        ("visio/pages/pages.xml", pages.to_owned()),
        ("visio/pages/_rels/pages.xml.rels", relations),
        ("visio/pages/page1.xml", network),
        (
            "visio/pages/page2.xml",
            "<PageContents><Shapes><Shape><Text>Attic</Text></Shape></Shapes></PageContents>".to_owned(),
        ),
    ])
}

#[test]
fn staroffice_kind_read_from_manifest() {
    let manifest = "<manifest:manifest><manifest:file-entry manifest:media-type='application/vnd.sun.xml.writer' \
                    manifest:full-path='/'/></manifest:manifest>";
    let content = "<office:document-content><office:body><text:p>A letter</text:p></office:body></office:document-content>";
    let document = zip_archive([("content.xml", content), ("META-INF/manifest.xml", manifest)]);
    let extracted = extract_bytes(Path::new("x.sxw"), &document).expect("it is read");
    assert_eq!((extracted.format, extracted.segments[0].text.as_str()), (DocumentFormat::Odt, "A letter"));
    // The list of a signed archive names the kinds of the files in it.
    let signed = [
        ("mimetype", "application/vnd.etsi.asic-e+zip"),
        ("content.xml", content),
        ("META-INF/manifest.xml", manifest),
    ];
    let extracted = extract_bytes(Path::new("x.asice"), &zip_archive(signed)).expect("it is read");
    assert_eq!(extracted.format, DocumentFormat::Archive);
}

fn read_fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(path).expect("the fixture is there")
}

#[test]
fn flat_odf_files_are_read() {
    let flat = |name: &str, kind: &str| {
        let mut archive = zip::ZipArchive::new(Cursor::new(read_fixture(name))).expect("an archive");
        let mut content = String::new();
        archive.by_name("content.xml").expect("its content").read_to_string(&mut content).expect("a text");
        let styles = "<office:master-styles><text:p>A header</text:p></office:master-styles>";
        content
            .replace(
                "<office:document-content ",
                &format!("<office:document office:mimetype=\"application/vnd.oasis.opendocument.{kind}\" "),
            )
            .replace("<office:body>", &format!("{styles}<office:body>"))
            .replace("</office:document-content>", "</office:document>")
    };
    for (name, kind, flat_name) in [("text.odt", "text", "x.fodt"), ("budget.odp", "presentation", "x.fodp")]
    {
        let whole = extract_bytes(Path::new(name), &read_fixture(name)).expect("it is read");
        let single = extract_bytes(Path::new(flat_name), flat(name, kind).as_bytes()).expect("it is read");
        assert_eq!((single.format, &single.segments), (whole.format, &whole.segments), "{name}");
    }
    let sheet = "<?xml version=\"1.0\"?><office:document xmlns:office=\"o\" office:mimetype=\"application/vnd.oasis.opendocument.spreadsheet\">\
                 <text:p>A header</text:p><office:body><office:spreadsheet><table:table table:name=\"May\"><table:table-row><table:table-cell>\
                 <text:p>Rent<draw:image><office:binary-data>aGVsbG8=</office:binary-data></draw:image></text:p></table:table-cell></table:table-row>\
                 </table:table></office:spreadsheet></office:body></office:document>";
    let extracted = extract_bytes(Path::new("x.fods"), sheet.as_bytes()).expect("it is read");
    assert_eq!((extracted.format, extracted.segments[0].text.as_str()), (DocumentFormat::Workbook, "Rent"));
}

#[test]
fn xps_lines_joined_from_pieces() {
    let piece = |x: u32, y: u32, text: &str| {
        format!(
            "<Canvas><Glyphs FontRenderingEmSize='12' OriginX='{x}' OriginY='{y}' UnicodeString='{text}'/></Canvas>"
        )
    };
    let first = [
        piece(72, 80, "R"),
        piece(79, 80, "ent is"),
        piece(130, 81, "due "),
        piece(155, 80, "monthly"),
        piece(72, 95, "{}{in advance}"),
        piece(90, 120, ""),
    ];
    let page = |content: &str| format!("<FixedPage xmlns='x'>{content}</FixedPage>");
    // Microsoft's programs write UTF-16.
    let utf16: Vec<u8> = std::iter::once(0xfeff)
        .chain(page(&first.concat()).encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let list = |name: &str, sources: &[&str]| {
        sources.iter().map(|source| format!("<{name} Source='{source}'/>")).collect::<String>().into_bytes()
    };
    let relations = "<Relationships><Relationship Id='a' Type='http://schemas.openxps.org/oxps/v1.0/fixedrepresentation' \
                     Target='/Documents.fdseq'/></Relationships>";
    let document = zip_archive([
        ("_rels/.rels", relations.as_bytes().to_vec()),
        ("Documents.fdseq", list("DocumentReference", &["Documents/1/FixedDoc.fdoc"])),
        (
            "Documents/1/FixedDoc.fdoc",
            list("PageContent", &["Pages/2.fpage", "/Documents/1/Pages/1.fpage", "Pages/2.fpage"]),
        ),
        ("Documents/1/Pages/1.fpage", page(&piece(10, 10, "The second")).into_bytes()),
        ("Documents/1/Pages/2.fpage", utf16),
    ]);
    let extracted = extract_bytes(Path::new("x.oxps"), &document).expect("it is read");
    assert_eq!((extracted.format, extracted.pages), (DocumentFormat::Xps, Some(2)));
    let texts: Vec<_> =
        extracted.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect();
    assert_eq!(texts, [(Some(1), "Rent is due monthly\n{in advance}"), (Some(2), "The second")]);
}
