//! Real files of every format, and malicious files.

#[path = "support/compound.rs"]
mod compound;

use std::fs::File;
use std::path::{Path, PathBuf};

use compound::{compound_file, utf16_bytes};
use documents::passages::split_passages;
use documents::{DocumentFormat, EmbeddedImage, ExtractError, Extracted, extract_bytes, extract_file};

fn fixture_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read_fixture(name: &str) -> Result<Extracted, ExtractError> {
    let path = fixture_path(name);
    extract_file(&path, File::open(&path).expect("the fixture is there"))
}

fn document_text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn pdf_has_pages_paragraphs_and_diacritics() {
    let lease = read_fixture("lease.pdf").unwrap();
    assert_eq!((lease.format, lease.pages), (DocumentFormat::Pdf, Some(2)));
    assert_eq!(lease.segments.iter().map(|segment| segment.page).collect::<Vec<_>>(), [Some(1), Some(2)]);
    let first = &lease.segments[0].text;
    assert!(
        first.starts_with("NÁJEMNÍ SMLOUVA\n\nČl. 1 Předmět nájmu\n\nPronajímatel přenechává nájemci"),
        "{first}"
    );
    assert!(first.contains("o celkové výměře 61 metrů čtverečních.\n"), "{first}");
    assert!(first.contains("Služba\tZáloha (Kč)\nVoda\t900\nTeplo\t1 800\n"), "{first}");
    assert!(lease.segments[1].text.contains("Příliš žluťoučký kůň úpěl ďábelské ódy."));
}

#[test]
fn pdf_passages_know_page_and_article() {
    let pieces = split_passages(&read_fixture("lease.pdf").unwrap(), 1200);
    let notice = pieces.iter().find(|piece| piece.text.contains("Výpovědní doba")).unwrap();
    assert_eq!((notice.page, notice.heading.as_deref()), (Some(2), Some("Čl. 3 Výpověď")));
    let rent = pieces.iter().find(|piece| piece.text.contains("15 800 Kč")).unwrap();
    assert_eq!((rent.page, rent.heading.as_deref()), (Some(1), Some("Čl. 2 Nájemné")));
}

#[test]
fn pdf_unreadable_reports_reason() {
    assert!(matches!(read_fixture("scan.pdf"), Err(ExtractError::NoText { pages: 1 })));
    assert!(matches!(read_fixture("locked.pdf"), Err(ExtractError::Encrypted("PDF"))));
    assert!(matches!(read_fixture("broken.pdf"), Err(ExtractError::Broken { format: "PDF", .. })));
}

#[test]
fn pdf_fonts_without_unicode_are_read() {
    // Two composite fonts without `ToUnicode`: one with CIDs of Adobe-Japan1, one with glyph ids.
    assert_eq!(document_text(&read_fixture("no_unicode.pdf").unwrap()), "Miete: 850 Euro\n\nMiete: 580 Euro");
}

#[test]
fn pdf_true_type_subset_glyph_order() {
    assert_eq!(
        document_text(&read_fixture("glyph_order.pdf").expect("it is read")),
        "The rent is 15 800 crowns."
    );
}

/// Builds a PDF of one page whose only font is `font`, with the objects that the font refers to, from 5 on.
fn pdf_with_font(font: &str, content: &str, objects: &str) -> Vec<u8> {
    format!(
        "%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
         3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F {font}>>>>>>endobj\n\
         4 0 obj<</Length {}>>stream\n{content}\nendstream endobj\n{objects}trailer<</Root 1 0 R>>\n",
        content.len()
    )
    .into_bytes()
}

fn text_with_font(font: &str, content: &str, objects: &str) -> String {
    document_text(
        &extract_bytes(Path::new("a.pdf"), &pdf_with_font(font, content, objects)).expect("it is read"),
    )
}

#[test]
fn pdf_missing_fonts_keep_words_whole() {
    // The widths of the letters differ from every fallback font.
    let widths = ["458"; 95].join(" ");
    let font = format!(
        "<</Type/Font/Subtype/TrueType/BaseFont/SimSun/Encoding/WinAnsiEncoding/FirstChar 32/LastChar 126\
         /Widths[{widths}]/FontDescriptor<</Type/FontDescriptor/FontName/SimSun/Flags 6>>>>"
    );
    let content =
        "BT /F 10 Tf 119 Tz 50 700 Td (APPROVED: REVISION RECORD) Tj 0 -40 Td [(Milan)-300(Wallis)] TJ ET";
    assert_eq!(text_with_font(&font, content, ""), "APPROVED: REVISION RECORD\n\nMilan Wallis");
}

#[test]
fn pdf_control_glyph_read_by_code() {
    let font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R>>";
    let map = "begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <63> <63> <000d> endbfrange \
               endcmap";
    let objects = format!("5 0 obj<</Length {}>>stream\n{map}\nendstream endobj\n", map.len());
    let content = "BT /F 10 Tf 50 700 Td (conditional approach) Tj ET";
    assert_eq!(text_with_font(font, content, &objects), "conditional approach");
}

/// Draws words one after another from right to left: the letters of Hebrew, in lower case, each separately, other words
/// whole.
fn drawn_from_right(y: u32, words: &[&str]) -> String {
    const WIDTH: usize = 5;
    let (mut x, mut content) = (400, String::new());
    for word in words {
        let is_backward = word.starts_with(char::is_lowercase);
        for piece in word.split_inclusive(|letter: char| is_backward && !letter.is_control()) {
            x -= WIDTH * piece.len();
            content.push_str(&format!("1 0 0 1 {x} {y} Tm ({piece}) Tj "));
        }
        x -= 3;
    }
    content
}

#[test]
fn pdf_right_to_left_order_kept() {
    let widths = ["500"; 95].join(" ");
    let font = format!(
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 5 0 R/FirstChar 32/LastChar 126/Widths[{widths}]>>"
    );
    let map = "begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfrange <61> <7a> <05d0> endbfrange \
               endcmap";
    let objects = format!("5 0 obj<</Length {}>>stream\n{map}\nendstream endobj\n", map.len());
    let lines = [
        drawn_from_right(700, &["xfbv", "PDF", "hdz"]),
        drawn_from_right(660, &["znj", "2013", "OFFICE", "ACME", "hdz"]),
        // In display order: from left to right.
        "1 0 0 1 300 620 Tm (zdh ISO 9001 vbfx) Tj ".to_owned(),
        // Words from left to right, one after another from right to left.
        "1 0 0 1 380 580 Tm (vbfx) Tj 1 0 0 1 335 580 Tm (15,800) Tj 1 0 0 1 300 580 Tm (zdhzdh) Tj "
            .to_owned(),
    ];
    let content = format!("BT /F 10 Tf {} ET", lines.concat());
    let read = text_with_font(&font, &content, &objects);
    let lines: Vec<&str> = read.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        lines,
        ["קובץ PDF חדש", "שםי ACME OFFICE 2013 חדש", "קובץ ISO 9001 חדש", "קובץ 15,800 חדשחדש"]
    );
}

#[test]
fn pdf_xfa_form_replaces_advice() {
    let advice = "BT /F 10 Tf 50 700 Td (Please wait... upgrade to the latest version of Adobe Reader) Tj ET";
    let form = |packets: &str, parts: &[&str]| {
        let pages = "2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]\
                     /Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n";
        let content = format!("4 0 obj<</Length {}>>stream\n{advice}\nendstream endobj\n", advice.len());
        let streams: String = parts
            .iter()
            .zip(6..)
            .map(|(part, number)| {
                format!("{number} 0 obj<</Length {}>>stream\n{part}\nendstream endobj\n", part.len())
            })
            .collect();
        format!(
            "%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R/AcroForm 5 0 R/NeedsRendering true>>endobj\n{pages}{content}\
             5 0 obj<</XFA {packets}>>endobj\n{streams}trailer<</Root 1 0 R>>\n"
        )
        .into_bytes()
    };
    let template = "<template><subform name='f'><draw><value><text>Application</text></value></draw><field name='rent'>\
                    <caption><value><text>Rent</text></value></caption></field></subform></template>";
    let data = "<xfa:datasets><xfa:data><f><rent>15 800</rent></f></xfa:data></xfa:datasets>";
    let whole = format!("<xdp:xdp>{template}{data}</xdp:xdp>");
    for document in [form("6 0 R", &[&whole]), form("[(template) 6 0 R (datasets) 7 0 R]", &[template, data])]
    {
        let document = extract_bytes(Path::new("a.pdf"), &document).expect("it is read");
        assert_eq!(document_text(&document), "Application\nRent: 15 800");
        assert_eq!((document.segments[0].page, document.cut_pages), (Some(1), vec![]));
    }
    let empty = extract_bytes(Path::new("a.pdf"), &form("6 0 R", &["<xdp/>"]));
    assert!(matches!(empty, Err(ExtractError::Unsupported { .. })), "its advice is not its text");
}

#[test]
fn docx_headings_rows_lists_footnotes_read() {
    let minutes = read_fixture("minutes.docx").unwrap();
    assert_eq!((minutes.format, minutes.pages, minutes.lines), (DocumentFormat::Docx, None, Some(12)));
    let lines: Vec<String> = document_text(&minutes).lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "Zápis z porady",
            "1. Účastníci",
            "Přítomni byli Jana Dvořáková, Petr Svoboda a Šárka Říhová.",
            "2. Rozpočet",
            "Porada schválila rozpočet podle následující tabulky.",
            "Částky jsou uvedeny včetně DPH & poplatků.",
            "Položka\tČástka",
            "Oprava střechy\t240 000 Kč",
            "Výtah\t85 000 Kč",
            "Úkoly do příště:",
            "- objednat znalce",
            "- svolat shromáždění",
        ]
    );
    let pieces = split_passages(&minutes, 1200);
    let lift = pieces.iter().find(|piece| piece.text.contains("Výtah")).unwrap();
    assert_eq!((lift.heading.as_deref(), lift.lines), (Some("2. Rozpočet"), Some((8, 9))));
}

#[test]
fn docx_pages_follow_word_breaks() {
    let paged = read_fixture("paged.docx").unwrap();
    assert_eq!((paged.pages, paged.lines), (Some(2), None));
    let second = paged.segments.iter().find(|segment| segment.page == Some(2)).unwrap();
    assert!(second.text.starts_with("Porada schválila"));
}

#[test]
fn workbook_sheets_become_pages() {
    let prices = read_fixture("prices.xlsx").unwrap();
    assert_eq!((prices.format, prices.pages), (DocumentFormat::Workbook, Some(2)));
    assert_eq!(
        prices.segments[0].text,
        "Služba\tCena\tPlatí od\nÚklid\t500\t2024-03-01\nVýtah\t1234.5\t2024-04-01"
    );
    assert_eq!(prices.segments[0].heading.as_deref(), Some("Ceník: Služba | Cena | Platí od"));
    assert_eq!((prices.segments[1].page, prices.segments[1].lines), (Some(2), Some((3, 4))));
    assert_eq!(prices.segments[1].text, "\tPodáno\n\t17\ttrue");
}

#[test]
fn slides_become_pages_with_notes() {
    for name in ["budget.pptx", "budget.odp"] {
        let slides = read_fixture(name).unwrap();
        assert_eq!((slides.format, slides.pages), (DocumentFormat::Presentation, Some(2)), "{name}");
        let pages: Vec<_> = slides.segments.iter().map(|segment| segment.page).collect();
        assert_eq!(pages, [Some(1), Some(2)]);
        assert_eq!(
            slides.segments[0].text, "Rozpočet 2025\nNávrh pro shromáždění\nNotes:\nZačít otázkou na výtah.",
            "{name}"
        );
        assert_eq!(slides.segments[1].heading.as_deref(), Some("Výtah"));
        let second = slides.segments[1].text.replace("- ", "");
        assert_eq!(second, "Výtah\nOprava stojí 85 000 Kč\nPoložka\tČástka\nStřecha\t240 000 Kč", "{name}");
    }
}

#[test]
fn epub_read_in_reading_order() {
    let book = read_fixture("rules.epub").unwrap();
    assert_eq!((book.format, book.pages), (DocumentFormat::Book, Some(2)));
    let second = book.segments.iter().rfind(|segment| segment.page == Some(2)).unwrap();
    assert_eq!(second.heading.as_deref(), Some("Noční klid"));
    assert!(second.text.ends_with("Noční klid je od 22 do 6 hodin."), "{}", second.text);
}

#[test]
fn eml_read_with_attachments() {
    let message = read_fixture("notice.eml").unwrap();
    assert_eq!(message.format, DocumentFormat::Message);
    assert_eq!(
        document_text(&message).lines().collect::<Vec<_>>(),
        [
            "Subject: Výpověď smlouvy č. 7",
            "From: Jana Dvořáková <jana@example.org>",
            "To: spravce@example.org",
            "Date: 2025-06-02T10:00:00+02:00",
            "Dobrý den,",
            "výpovědní doba je tři měsíce.",
            "Attachment: příloha.odt",
            "Úvod",
            "První odstavec (poznámka).",
            "- položka",
            "A\t1",
            "Attachment: a.png",
            "Attached message",
            "Subject: Původní dotaz",
            "From: petr@example.org",
            "Jaká je výpovědní doba?",
        ]
    );
    assert_eq!(message.unread_images.total_images(), 1, "the attached image is damaged");
}

/// Messages in messages, each with the next one as a file.
#[test]
fn eml_nested_messages_read_to_depth() {
    let mut message = "Subject: innermost\n\nsecret depth\n".to_owned();
    for number in 0..20 {
        message = format!(
            "Subject: {number}\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b{number}\"\n\n\
             --b{number}\nContent-Type: application/octet-stream\n\
             Content-Disposition: attachment; filename=\"inner.eml\"\n\n{message}\n--b{number}--\n"
        );
    }
    let read = extract_bytes(Path::new("outer.eml"), message.as_bytes()).unwrap();
    let text = document_text(&read);
    assert!(text.contains("too many documents inside each other") && !text.contains("secret"), "{text}");
}

#[test]
fn old_office_files_detected_by_content() {
    let contract = read_fixture("contract.doc").unwrap();
    assert_eq!(contract.format, DocumentFormat::Doc);
    assert_eq!(
        document_text(&contract),
        "Smlouva\nNájemné činí 15 800 Kč.\nVoda\t900\nTeplo\t1 800\nKonec s odkazem."
    );

    let message = compound_file(&[
        ("/__properties_version1.0", vec![0; 32]),
        ("/__substg1.0_0037001F", utf16_bytes("Dotaz")),
        ("/__substg1.0_0C1A001F", utf16_bytes("Šárka Říhová")),
        ("/__substg1.0_1000001F", utf16_bytes("Kdy bude voda?\r\nDíky")),
        ("/__attach_version1.0_#00000000/__substg1.0_3707001F", utf16_bytes("plán.txt")),
        ("/__attach_version1.0_#00000000/__substg1.0_37010102", "v úterý".into()),
    ]);
    let message = extract_bytes(Path::new("x.msg"), &message).unwrap();
    assert_eq!(message.format, DocumentFormat::Message);
    assert_eq!(
        document_text(&message),
        "Subject: Dotaz\nFrom: Šárka Říhová\nKdy bude voda?\nDíky\nAttachment: plán.txt\nv úterý"
    );

    let record = |kind: u16, version: u16, body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap();
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &length.to_le_bytes(), body].concat()
    };
    let list = [record(1011, 0, &[0; 20]), record(4000, 0, &utf16_bytes("Úvod")), record(1011, 0, &[0; 20])]
        .concat();
    let slides = [record(1006, 15, &[]), record(1006, 15, &record(4008, 0, b"In a box"))].concat();
    let content = [record(1000, 15, &record(4080, 15, &list)), slides].concat();
    let slides = extract_bytes(Path::new("x"), &compound_file(&[("/PowerPoint Document", content)])).unwrap();
    assert_eq!((slides.format, slides.pages), (DocumentFormat::Presentation, Some(2)));
    assert_eq!((slides.segments[0].text.as_str(), slides.segments[1].text.as_str()), ("Úvod", "In a box"));

    let locked = compound_file(&[("/EncryptedPackage", vec![0; 64]), ("/EncryptionInfo", vec![0; 64])]);
    assert!(matches!(extract_bytes(Path::new("x.pptx"), &locked), Err(ExtractError::Encrypted("Office"))));
    let unknown = compound_file(&[("/Other", vec![1; 64])]);
    assert!(matches!(extract_bytes(Path::new("x.doc"), &unknown), Err(ExtractError::Binary { .. })));
}

#[test]
fn html_odt_and_old_encodings() {
    let notice = read_fixture("notice.html").unwrap();
    assert_eq!(
        document_text(&notice),
        "Oznámenie\nOdstávka vody\nVoda nepôjde v utorok 5. marca od 8.00 do 14.00 h.\nKontakt\nMeno\tTelefón\n\
         Ľubica Šťastná\t0900 123 456"
    );
    assert_eq!(
        document_text(&read_fixture("text.odt").unwrap()),
        "Úvod\nPrvní odstavec (poznámka).\n- položka\nA\t1"
    );
    assert_eq!(
        document_text(&read_fixture("windows1250.txt").unwrap()),
        "Příliš žluťoučký kůň úpěl ďábelské ódy.\nDruhý řádek."
    );
}

#[test]
fn statutes_are_cut_at_their_sections() {
    let pieces = split_passages(&read_fixture("statute.txt").unwrap(), 1200);
    let shown: Vec<_> =
        pieces.iter().map(|piece| (piece.heading.as_deref().unwrap_or(""), piece.lines.unwrap())).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!(shown[2], ("§ 2 Výjimky", (11, 13)));
    assert!(pieces[1].text.contains("Podle § 2 odst. 1 se nepostupuje."));
}

#[test]
fn harm_is_refused() {
    assert!(matches!(read_fixture("bomb.docx"), Err(ExtractError::Bomb { .. })));
    assert!(read_fixture("empty.txt").unwrap().segments.is_empty());
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let error = extract_bytes(Path::new("picture.pdf"), png).unwrap_err();
    assert_eq!(error.to_string(), "the file is binary (PNG image, 16 bytes) and has no text to read");
}

/// Extraction answers for every mutation of a document.
#[test]
fn damaged_files_never_bring_it_down() {
    for name in ["lease.pdf", "minutes.docx", "prices.xlsx", "text.odt", "notice.html"] {
        let bytes = std::fs::read(fixture_path(name)).unwrap();
        for step in 1..12 {
            let mut cut = bytes[..bytes.len() * step / 12].to_vec();
            let _ = extract_bytes(Path::new(name), &cut);
            for at in (step..cut.len()).step_by(97) {
                cut[at] ^= 0x5a;
            }
            let _ = extract_bytes(Path::new(name), &cut);
        }
    }
}

/// Creates an archive of these parts.
fn zip_parts(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, zip::write::SimpleFileOptions::default()).expect("an entry");
        std::io::Write::write_all(&mut zip, content).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
}

/// The header of a PNG: only the header is examined before text recognition.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    bytes
}

fn image_at(part: &str, page: Option<u32>, line: Option<u32>, heading: Option<&str>) -> EmbeddedImage {
    EmbeddedImage { part: part.to_owned(), page, line, heading: heading.map(str::to_owned) }
}

#[test]
fn images_inside_documents_have_their_places() {
    let word = read_fixture("pictured.docx").expect("it is read");
    assert_eq!(word.images, [image_at("word/media/image1.png", None, Some(2), None)]);
    assert!(read_fixture("minutes.docx").expect("it is read").images.is_empty());
    let manual = read_fixture("pictured.pdf").expect("it is read");
    assert_eq!(manual.images, [image_at("area 60 135 492 202", Some(2), None, None)]);
    assert!(
        read_fixture("scanned.pdf").expect("it is read").images.is_empty(),
        "a scan is recognized with its page"
    );

    let blip = |id: &str| format!("<p:pic><a:blip r:embed='{id}'/></p:pic>");
    let title = "<p:sp><p:ph type='title'/><a:p><a:t>Prices</a:t></a:p></p:sp>";
    let relation = |id: &str, kind: &str, target: &str| {
        format!("<Relationship Id='{id}' Type='x/{kind}' Target='{target}'/>")
    };
    let slides = [
        ("ppt/presentation.xml", "<p:sldId id='1' r:id='a'/><p:sldId id='2' r:id='b'/>".to_owned()),
        (
            "ppt/_rels/presentation.xml.rels",
            relation("a", "slide", "slides/slide1.xml") + &relation("b", "slide", "slides/slide2.xml"),
        ),
        ("ppt/slides/slide1.xml", blip("logo") + &blip("small")),
        (
            "ppt/slides/_rels/slide1.xml.rels",
            relation("logo", "image", "../media/logo.png")
                + &relation("small", "image", "../media/small.png"),
        ),
        ("ppt/slides/slide2.xml", format!("{title}{}{}{}", blip("logo"), blip("chart"), blip("web"))),
        (
            "ppt/slides/_rels/slide2.xml.rels",
            relation("logo", "image", "../media/logo.png")
                + &relation("chart", "image", "../media/chart.png")
                + &relation("web", "image", "https://example.test/a.png"),
        ),
    ];
    let mut parts: Vec<(&str, Vec<u8>)> =
        slides.into_iter().map(|(name, text)| (name, format!("<r>{text}</r>").into_bytes())).collect();
    parts.extend([
        ("ppt/media/logo.png", png_header(300, 100)),
        ("ppt/media/small.png", png_header(199, 100)),
        ("ppt/media/chart.png", png_header(640, 480)),
    ]);
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    let shown = extract_bytes(Path::new("a.pptx"), &zip_parts(&parts)).expect("it is read");
    let expected = [
        image_at("ppt/media/logo.png", Some(1), None, None),
        image_at("ppt/media/chart.png", Some(2), None, Some("Prices")),
    ];
    assert_eq!(shown.images, expected, "{shown:?}");

    let book: [(&str, &[u8]); 6] = [
        ("mimetype", b"application/epub+zip"),
        ("META-INF/container.xml", b"<c><rootfile full-path='b/book.opf'/></c>"),
        (
            "b/book.opf",
            b"<p><item id='1' href='t/1.xhtml'/><item id='2' href='t/2.xhtml'/><itemref idref='1'/><itemref idref='2'/></p>",
        ),
        ("b/t/1.xhtml", b"<p>One <img src='../p/small%20one.png'/></p>"),
        ("b/t/2.xhtml", b"<h1>Plan</h1><p>Two</p><img src='../p/a%20b.png'/><img src='https://example.test/c.png'/>"),
        ("b/p/a b.png", &png_header(640, 480)),
    ];
    let sections = extract_bytes(Path::new("a.epub"), &zip_parts(&book)).expect("it is read");
    assert_eq!(sections.images, [image_at("b/p/a b.png", Some(2), None, Some("Plan"))], "{sections:?}");
    let page =
        extract_bytes(Path::new("a.html"), b"<html><p>One</p><img src='a.png'></html>").expect("it is read");
    assert!(page.images.is_empty(), "an image of a page is another file");

    let frame = "<draw:frame><draw:image xlink:href='./Pictures/a.png'/></draw:frame>";
    let content = format!(
        "<o><text:h>Plan</text:h><text:p>One</text:p><text:p>{frame}</text:p><text:p>Two</text:p></o>"
    );
    let odt: [(&str, &[u8]); 3] = [
        ("mimetype", b"application/vnd.oasis.opendocument.text"),
        ("content.xml", content.as_bytes()),
        ("Pictures/a.png", &png_header(640, 480)),
    ];
    let text = extract_bytes(Path::new("a.odt"), &zip_parts(&odt)).expect("it is read");
    assert_eq!(text.images, [image_at("Pictures/a.png", None, Some(2), Some("Plan"))]);
    let content = format!("<o><draw:page><text:p>One</text:p></draw:page><draw:page>{frame}</draw:page></o>");
    let odp: [(&str, &[u8]); 3] = [
        ("mimetype", b"application/vnd.oasis.opendocument.presentation"),
        ("content.xml", content.as_bytes()),
        ("Pictures/a.png", &png_header(640, 480)),
    ];
    let slides = extract_bytes(Path::new("a.odp"), &zip_parts(&odp)).expect("it is read");
    assert_eq!(slides.images, [image_at("Pictures/a.png", Some(2), None, None)]);
}

#[test]
fn apple_mail_message_read_without_wrapper() {
    let message = "Subject: Rent\nFrom: ada@example.org\n\nIt is due.\n";
    let whole = format!("{}\n{message}<?xml version=\"1.0\"?><plist><dict/></plist>\n", message.len());
    let read = |content: &str| {
        let read = extract_bytes(Path::new("a.emlx"), content.as_bytes()).expect("it is read");
        read.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(read(&whole), read(message));
    assert!(read(message).contains("It is due."));
    // A length beyond the end of the file.
    assert_eq!(read(&format!("999999\n{message}")), read(message));
}
