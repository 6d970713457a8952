//! The tables of formats in the README and in `docs/documents.md`: the agent's search finds each of their entries and cites it as
//! in the table, and no format is missing from them.

#[path = "../../documents/tests/support/archive.rs"]
mod archive;
#[path = "../../documents/tests/support/compound.rs"]
mod compound;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "../../documents/tests/support/iwork.rs"]
mod iwork;
#[path = "../../documents/tests/support/mobi.rs"]
mod mobi;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "../../documents/tests/support/pst.rs"]
mod outlook;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "../../documents/tests/support/rar.rs"]
mod rar;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use archive::zip_archive;
use compound::{compound_file, utf16_bytes};
use documents::{DocumentFormat, extract_bytes, known_extensions};
use domain::citation::PageKind;
use iwork::new_message;
use protocol::tool::FoundPassage;
use rar::{RarFile, rar_archive};
use search_index::DocumentLibrary;
use serde_json::json;
use support::TestMachine;

/// The tables: the file, and how the first row begins.
const README: (&str, &str) = ("README.md", "| kind | files | cited by |");
const DOCUMENTS: (&str, &str) = ("docs/documents.md", "| format | files | place in citations |");

/// A document that has the word. Unless it is plain text, the word is not in its bytes.
struct Sample {
    /// The entries of the tables that it verifies. The first is in the README.
    entries: &'static [&'static str],
    name: &'static str,
    content: Vec<u8>,
    word: &'static str,
    /// The citation, as in the tables.
    cited: &'static str,
}

fn new_sample(
    entries: &'static [&'static str],
    (name, content): (&'static str, Vec<u8>),
    word: &'static str,
    cited: &'static str,
) -> Sample {
    Sample { entries, name, content, word, cited }
}

fn read_fixture(name: &'static str) -> (&'static str, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../documents/tests/fixtures").join(name);
    (name, std::fs::read(path).expect("the fixture is there"))
}

fn all_samples() -> Vec<Sample> {
    let rich = b"{\\rtf1\\ansi A rich text about a cur{\\b lew}.\\par}";
    let csv = b"bird,number\nsparrow,7\n";
    let tsv = b"bird\tnumber\nswallow\t9\n";
    let mut samples = vec![
        new_sample(&["`.pdf`"], read_fixture("lease.pdf"), "ďábelské", "page"),
        new_sample(&["also scanned"], read_fixture("scanned.pdf"), "nájemné", "page"),
        new_sample(
            &["`.pdf`", "also encrypted without a password"],
            read_fixture("unlocked256.pdf"),
            "výpovědi",
            "page",
        ),
        new_sample(&["`.docx`"], read_fixture("minutes.docx"), "střechy", "line"),
        new_sample(&["`.docx`"], read_fixture("paged.docx"), "schválila", "page"),
        new_sample(&["`.doc`"], read_fixture("contract.doc"), "Teplo", "line"),
        new_sample(&["`.odt`"], read_fixture("text.odt"), "poznámka", "line"),
        new_sample(&["`.pages`"], ("a.pages", pages_document("A bullfinch")), "bullfinch", "line"),
        new_sample(
            &["`.odt`", "`.fodt`"],
            ("a.fodt", flat_document("text", "A goldcrest")),
            "goldcrest",
            "line",
        ),
        new_sample(&["`.rtf`"], ("a.rtf", rich.to_vec()), "curlew", "line"),
        new_sample(&["Markdown", "`.md`"], ("a.md", b"# Birds\n\nA **wren**.\n".to_vec()), "wren", "line"),
        new_sample(
            &["Markdown", "`.markdown`"],
            ("a.markdown", b"# Birds\n\nA **crane**.\n".to_vec()),
            "crane",
            "line",
        ),
        new_sample(&["any text"], read_fixture("windows1250.txt"), "žluťoučký", "line"),
        new_sample(
            &["any text", "source code"],
            ("a.rs", b"const OSPREY: u32 = 1;\n".to_vec()),
            "osprey",
            "line",
        ),
        new_sample(&["`.xlsx`"], read_fixture("prices.xlsx"), "Výtah", "sheet and row"),
        new_sample(&["`.xlsb`"], ("a.xlsb", workbook_of_binary_parts("pelican")), "pelican", "sheet and row"),
        new_sample(&["`.xls`"], ("a.xls", workbook_97("cormorant")), "cormorant", "sheet and row"),
        new_sample(&["`.ods`"], ("a.ods", open_workbook("plover")), "plover", "sheet and row"),
        new_sample(&["`.numbers`"], read_fixture("birds.numbers"), "crake", "sheet and row"),
        new_sample(&["CSV", "`.csv`"], ("a.csv", csv.to_vec()), "sparrow", "line"),
        new_sample(&["CSV", "`.tsv`", "TSV"], ("a.tsv", tsv.to_vec()), "swallow", "line"),
        new_sample(&["`.html`"], read_fixture("notice.html"), "Odstávka", "line"),
        new_sample(&["`.html`", "`.htm`"], ("a.htm", b"A bare o<b>sier</b>".to_vec()), "osier", "line"),
        new_sample(&["`.html`", "`.xhtml`"], ("a.xhtml", b"A bare al<b>der</b>".to_vec()), "alder", "line"),
    ];
    samples.extend(message_samples());
    samples.extend(image_samples());
    samples.extend(book_samples());
    samples.extend(slides_and_drawings());
    samples.extend(archive_samples());
    samples
}

fn message_samples() -> Vec<Sample> {
    let page = b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=\"b\"\n\n--b\nContent-Type: text/html\n\n\
                 <p>The saved page shows a mag<b>pie</b>.</p>\n--b--\n";
    let mailbox = b"From ada@example.org Mon Jun  2 10:00:00 2025\nSubject: =?utf-8?q?A_st=6Frk?=\n\nIt has moved in.\n";
    vec![
        new_sample(&["`.eml`"], read_fixture("notice.eml"), "výpovědní", "line"),
        new_sample(
            &["`.eml`", "`.emlx`"],
            ("a.emlx", message_of_apple_mail("A tur=6Estone.")),
            "turnstone",
            "line",
        ),
        new_sample(&["with their attachments"], read_fixture("notice.eml"), "odstavec", "line"),
        new_sample(&["`.msg`"], ("a.msg", message_of_outlook("A dunlin.")), "dunlin", "line"),
        new_sample(&["`.mbox`"], ("a.mbox", mailbox.to_vec()), "stork", "line"),
        new_sample(&["`.mht`"], ("a.mht", page.to_vec()), "magpie", "line"),
        new_sample(&["`.mht`", "`.mhtml`"], ("a.mhtml", page.to_vec()), "magpie", "line"),
        new_sample(&["`.zfo`"], read_fixture("data_message.zfo"), "dotaci", "line"),
        new_sample(&["`.p7m`"], read_fixture("signed.pdf.p7m"), "nájemné", "as what is signed"),
        new_sample(
            &["`.asice`"],
            ("a.asice", signed_archive(read_fixture("scanned.pdf"))),
            "nájemné",
            "file",
        ),
        new_sample(
            &["`.asice`", "`.asics`"],
            ("a.asics", signed_archive(("a.txt", b"A wheatear.".to_vec()))),
            "wheatear",
            "file and line",
        ),
        new_sample(
            &["`.asice`", "`.sce`"],
            ("a.sce", signed_archive(("a.txt", b"A whinchat.".to_vec()))),
            "whinchat",
            "file and line",
        ),
        new_sample(
            &["`.asice`", "`.scs`"],
            ("a.scs", signed_archive(("a.txt", b"A dipper.".to_vec()))),
            "dipper",
            "file and line",
        ),
        new_sample(
            &["`.asice`", "`.bdoc`"],
            ("a.bdoc", signed_archive(("a.txt", b"A fieldfare.".to_vec()))),
            "fieldfare",
            "file and line",
        ),
    ]
}

fn image_samples() -> Vec<Sample> {
    vec![
        new_sample(&["PNG"], read_fixture("code_word.png"), "heron", "page"),
        new_sample(&["JPEG"], read_fixture("code_word.jpg"), "otter", "page"),
        new_sample(&["GIF"], read_fixture("code_word.gif"), "badger", "page"),
        new_sample(&["WebP"], read_fixture("code_word.webp"), "falcon", "page"),
        new_sample(&["TIFF"], read_fixture("code_word.tiff"), "lizard", "page"),
        new_sample(&["BMP"], read_fixture("code_word.bmp"), "walrus", "page"),
        new_sample(&["HEIC"], read_fixture("code_word.heic"), "heron", "page"),
    ]
}

fn book_samples() -> Vec<Sample> {
    vec![
        new_sample(&["`.epub`"], read_fixture("rules.epub"), "klid", "section"),
        new_sample(&["`.fb2`"], ("a.fb2", fiction_book("A r<emphasis>uff</emphasis>.")), "ruff", "section"),
        new_sample(&["`.mobi`"], ("a.mobi", mobi_book("A re<b>eve</b>.")), "reeve", "section"),
        new_sample(&["`.mobi`", "`.azw`"], ("a.azw", mobi_book("A gad<b>wall</b>.")), "gadwall", "section"),
        new_sample(&["`.mobi`", "`.azw3`"], ("a.azw3", mobi_book("A wig<b>eon</b>.")), "wigeon", "section"),
        new_sample(&["`.mobi`", "`.prc`"], ("a.prc", mobi_book("A gar<b>ganey</b>.")), "garganey", "section"),
        new_sample(&["`.mobi`", "`.pdb`"], ("a.pdb", mobi_book("A po<b>chard</b>.")), "pochard", "section"),
        new_sample(&["`.ipynb`"], ("a.ipynb", jupyter_notebook("A sho\\u0076eler.")), "shoveler", "line"),
    ]
}

fn slides_and_drawings() -> Vec<Sample> {
    vec![
        new_sample(&["`.pptx`"], read_fixture("budget.pptx"), "Střecha", "slide"),
        new_sample(&["`.odp`"], read_fixture("budget.odp"), "Střecha", "slide"),
        new_sample(&["`.key`"], ("a.key", keynote_document("A corncrake")), "corncrake", "slide"),
        new_sample(&["`.vsdx`"], ("a.vsdx", drawing_of_visio("A nuthatch")), "nuthatch", "page"),
        new_sample(
            &["`.vsdx`", "`.vsdm`"],
            ("a.vsdm", drawing_of_visio("A bluethroat")),
            "bluethroat",
            "page",
        ),
        new_sample(&["`.djvu`"], read_fixture("rooks.djvu"), "colonies", "page"),
        new_sample(&["`.djvu`", "`.djv`"], ("a.djv", read_fixture("rooks.djvu").1), "committee", "page"),
        new_sample(&["`.xps`"], ("a.xps", document_of_xps("A treecreeper")), "treecreeper", "page"),
        new_sample(&["`.xps`", "`.oxps`"], ("a.oxps", document_of_xps("A firecrest")), "firecrest", "page"),
        new_sample(&["`.ppt`"], ("a.ppt", slides_97("A kestrel on a slide")), "kestrel", "slide"),
        new_sample(&["`.odg`"], ("a.odg", open_drawing("lapwing")), "lapwing", "slide"),
    ]
}

fn archive_samples() -> Vec<Sample> {
    vec![
        new_sample(&["`.zip`"], ("names.zip", zip_archive([("goldfinch.bin", "\0")])), "goldfinch", "file"),
        new_sample(
            &["`.zip`"],
            ("texts.zip", zip_archive([("a.txt", "A siskin.")])),
            "siskin",
            "file and line",
        ),
        new_sample(&["`.zip`"], ("scans.zip", zip_archive([read_fixture("scanned.pdf")])), "nájemné", "file"),
        new_sample(
            &["`.zip`"],
            ("images.zip", zip_archive([read_fixture("code_word.png")])),
            "heron",
            "file",
        ),
        new_sample(&["`.7z`"], read_fixture("birds.7z"), "heron", "file"),
        new_sample(
            &["`.tar`"],
            ("a.tar", gunzip_content(read_fixture("birds.tgz"))),
            "wren",
            "file and line",
        ),
        new_sample(&["`.tar.gz`", "`.tgz`"], read_fixture("birds.tgz"), "wren", "file and line"),
        new_sample(&["`.tar.gz`"], ("a.tar.gz", read_fixture("birds.tgz").1), "wren", "file and line"),
        new_sample(&["`.tar.gz`", "`.tar.bz2`"], read_fixture("birds.tar.bz2"), "wren", "file and line"),
        new_sample(&["`.tar.gz`", "`.tar.xz`"], read_fixture("birds.tar.xz"), "wren", "file and line"),
        new_sample(&["`.tar.gz`", "`.tar.zst`"], read_fixture("birds.tar.zst"), "wren", "file and line"),
        new_sample(&["`.gz`"], read_fixture("siskin.txt.gz"), "sings", "file and line"),
        new_sample(
            &["`.pst`"],
            ("a.pst", outlook::pst_file(&[outlook::outlook_message("Birds", "A redpoll.")])),
            "redpoll",
            "file and line",
        ),
        new_sample(
            &["`.rar`"],
            ("a.rar", rar_archive(0, &[RarFile::new("a.txt", b"A bullfinch.")])),
            "bullfinch",
            "file and line",
        ),
        new_sample(&["`.cab`"], read_fixture("birds.cab"), "wren", "file and line"),
        new_sample(&["`.cab`", "`.lzh`"], read_fixture("birds.lzh"), "wren", "file and line"),
        new_sample(&["`.cab`", "`.lha`"], ("a.lha", read_fixture("birds.lzh").1), "wren", "file and line"),
    ]
}

fn gunzip_content((_, bytes): (&str, Vec<u8>)) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut unpacked).expect("it is compressed");
    unpacked
}

fn signed_archive(file: (&str, Vec<u8>)) -> Vec<u8> {
    zip_archive([
        file,
        ("META-INF/signatures001.xml", b"<signature/>".to_vec()),
        ("mimetype", b"asic".to_vec()),
    ])
}

fn pages_document(content: &str) -> Vec<u8> {
    iwork::iwork_document(&[
        (1, 10_000, new_message().with_reference(4, 2)),
        (2, 2001, new_message().with_bytes(3, content)),
    ])
}

fn fiction_book(text: &str) -> Vec<u8> {
    format!("<FictionBook><body><section><p>{text}</p></section></body></FictionBook>").into_bytes()
}

fn mobi_book(text: &str) -> Vec<u8> {
    let html = format!("<html><body><p>{text}</p></body></html>");
    mobi::MobiFile { code_page: 65_001, packing: 1, records: &[html.as_bytes()], ..mobi::MobiFile::default() }
        .into_bytes()
}

fn jupyter_notebook(text: &str) -> Vec<u8> {
    format!("{{\"cells\": [{{\"cell_type\": \"markdown\", \"source\": [\"{text}\"]}}]}}").into_bytes()
}

fn keynote_document(title: &str) -> Vec<u8> {
    iwork::iwork_document(&[
        (1, 1, new_message().with_reference(2, 2)),
        (2, 2, new_message().with_message(3, new_message().with_reference(2, 3))),
        (3, 4, new_message().with_reference(2, 4)),
        (4, 5, new_message().with_reference(5, 5)),
        (5, 7, new_message().with_reference(4, 6)),
        (6, 2001, new_message().with_bytes(3, title)),
    ])
}

fn drawing_of_visio(text: &str) -> Vec<u8> {
    let relations = "<Relationships><Relationship Id='a' Type='x/page' Target='page1.xml'/></Relationships>";
    zip_archive([
        ("visio/pages/pages.xml", "<Pages><Page Name='Birds'><Rel r:id='a'/></Page></Pages>".to_owned()),
        ("visio/pages/_rels/pages.xml.rels", relations.to_owned()),
        ("visio/pages/page1.xml", format!("<PageContents><Text>{text}</Text></PageContents>")),
    ])
}

fn document_of_xps(text: &str) -> Vec<u8> {
    zip_archive([
        ("FixedDocSeq.fdseq", "<DocumentReference Source='/1.fdoc'/>".to_owned()),
        ("1.fdoc", "<PageContent Source='/1.fpage'/>".to_owned()),
        ("1.fpage", format!("<Glyphs OriginX='1' OriginY='1' UnicodeString='{text}'/>")),
    ])
}

/// A document of LibreOffice that is a single file.
fn flat_document(kind: &str, text: &str) -> Vec<u8> {
    format!(
        "<office:document office:mimetype=\"application/vnd.oasis.opendocument.{kind}\"><office:body>\
         <text:p>{text}</text:p></office:body></office:document>"
    )
    .into_bytes()
}

fn message_of_apple_mail(text: &str) -> Vec<u8> {
    let message = format!("Subject: Birds\nContent-Transfer-Encoding: quoted-printable\n\n{text}\n");
    format!("{:<10}\n{message}<?xml version=\"1.0\"?><plist/>\n", message.len()).into_bytes()
}

fn message_of_outlook(text: &str) -> Vec<u8> {
    compound_file(&[("/__properties_version1.0", vec![0; 32]), ("/__substg1.0_1000001F", utf16_bytes(text))])
}

fn slides_97(text: &str) -> Vec<u8> {
    let record = |kind: u16, version: u16, body: &[u8]| {
        let length = u32::try_from(body.len()).expect("it is short");
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &length.to_le_bytes(), body].concat()
    };
    let slide = record(1006, 15, &record(4008, 0, text.as_bytes()));
    compound_file(&[("/PowerPoint Document", slide)])
}

/// A workbook of Excel 97 with one cell.
fn workbook_97(cell: &str) -> Vec<u8> {
    let record = |kind: u16, body: &[u8]| {
        let length = u16::try_from(body.len()).expect("it is short");
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body].concat()
    };
    let begin = |kind: u8| record(0x0809, &[&[0, 6, kind, 0][..], &[0; 12]].concat());
    let text = |text: &str, length: &[u8]| [length, &[0], text.as_bytes()].concat();
    let length = u16::try_from(cell.len()).expect("it is short").to_le_bytes();
    let label = record(0x0204, &[&[0; 6][..], &text(cell, &length)].concat());
    let end = record(0x000a, &[]);
    let sheet_at = |at: u32| record(0x0085, &[&at.to_le_bytes()[..], &[0, 0], &text("Birds", &[5])].concat());
    let globals = |at: u32| [begin(5), sheet_at(at), end.clone()].concat();
    let at = u32::try_from(globals(0).len()).expect("it is short");
    compound_file(&[("/Workbook", [globals(at), begin(0x10), label, end.clone()].concat())])
}

/// A workbook whose parts are records, with one cell.
fn workbook_of_binary_parts(cell: &str) -> Vec<u8> {
    let record = |kind: u16, body: &[u8]| {
        let [low, high] = [kind & 0x7f, kind >> 7].map(|part| u8::try_from(part).expect("seven bits"));
        let kind = if high > 0 { vec![low | 0x80, high] } else { vec![low] };
        [&kind[..], &[u8::try_from(body.len()).expect("it is short")], body].concat()
    };
    let text = |text: &str| {
        let length = u32::try_from(text.len()).expect("it is short");
        [&length.to_le_bytes()[..], &utf16_bytes(text)].concat()
    };
    let sheet = [&[0; 8][..], &text("r1"), &text("Birds")].concat();
    let workbook = [record(0x9c, &sheet), record(0x90, &[]), record(0x9d, &[])].concat();
    let row = [record(0x00, &[0; 4]), record(0x06, &[&[0; 8][..], &text(cell)].concat())].concat();
    let cells = [record(0x94, &[0; 16]), record(0x91, &[]), row, record(0x92, &[])].concat();
    let relations =
        b"<Relationships><Relationship Id=\"r1\" Target=\"worksheets/sheet1.bin\"/></Relationships>";
    zip_archive([
        ("xl/workbook.bin", workbook),
        ("xl/_rels/workbook.bin.rels", relations.to_vec()),
        ("xl/worksheets/sheet1.bin", cells),
    ])
}

fn open_document(kind: &str, body: &str) -> Vec<u8> {
    let content =
        format!("<office:document-content><office:body>{body}</office:body></office:document-content>");
    zip_archive([
        ("mimetype", format!("application/vnd.oasis.opendocument.{kind}")),
        ("META-INF/manifest.xml", "<manifest:manifest/>".to_owned()),
        ("content.xml", content),
    ])
}

fn open_workbook(cell: &str) -> Vec<u8> {
    let cell =
        format!("<table:table-cell office:value-type=\"string\"><text:p>{cell}</text:p></table:table-cell>");
    let rows =
        format!("<table:table table:name=\"Birds\"><table:table-row>{cell}</table:table-row></table:table>");
    open_document("spreadsheet", &format!("<office:spreadsheet>{rows}</office:spreadsheet>"))
}

fn open_drawing(text: &str) -> Vec<u8> {
    let page = format!("<draw:page><draw:frame><text:p>{text}</text:p></draw:frame></draw:page>");
    open_document("graphics", &format!("<office:drawing>{page}</office:drawing>"))
}

/// Returns the entries of a table, each with its row's words for the citation.
fn table_entries((file, head): (&str, &str)) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(path).expect("the page is there");
    let rows = text.lines().skip_while(|line| !line.starts_with(head)).skip(2);
    let mut entries = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        for item in cells[1].split(", ") {
            let names: Vec<String> =
                item.split('`').skip(1).step_by(2).map(|name| format!("`{name}`")).collect();
            let names = if names.is_empty() { vec![item.to_owned()] } else { names };
            entries.extend(names.into_iter().map(|name| (name, cells[2].to_owned())));
        }
    }
    assert!(entries.len() > 20, "{file} has the table: {entries:?}");
    entries
}

#[test]
fn format_tables_match_readers() {
    let samples = all_samples();
    let known: BTreeSet<&str> = samples.iter().flat_map(|sample| sample.entries).copied().collect();
    for table in [README, DOCUMENTS] {
        for (entry, cited) in table_entries(table) {
            assert!(known.contains(&*entry), "{}: no document shows that {entry} is read", table.0);
            let of_entry = samples.iter().filter(|sample| sample.entries.contains(&&*entry));
            for sample in of_entry {
                let says = sample.cited.contains(&*cited) || cited.contains(sample.cited);
                assert!(says, "{}: {entry} is cited by {}, not by {cited}", table.0, sample.cited);
            }
        }
    }
    let has = |table, entry: &str| table_entries(table).iter().any(|(named, _)| named == entry);
    for entry in samples.iter().map(|sample| sample.entries[0]) {
        assert!(has(README, entry), "the README's table lacks {entry}");
    }
    for extension in known.iter().filter(|entry| entry.starts_with('`')) {
        assert!(has(DOCUMENTS, extension), "the larger table lacks {extension}");
    }
}

#[test]
fn known_extensions_are_in_larger_table() {
    let named: BTreeSet<String> = table_entries(DOCUMENTS).into_iter().map(|(entry, _)| entry).collect();
    for extension in known_extensions() {
        let read = extract_bytes(Path::new(&format!("a.{extension}")), b"plain words");
        let is_text = read.is_ok_and(|document| document.format == DocumentFormat::Text);
        assert!(is_text || named.contains(&format!("`.{extension}`")), "the table lacks .{extension}");
    }
}

#[test]
fn page_kind_same_by_extension() {
    for sample in all_samples() {
        // A program unpacks the others.
        let Ok(document) = extract_bytes(Path::new(sample.name), &sample.content) else { continue };
        let word = match PageKind::from_path(sample.name) {
            PageKind::Page => "page",
            PageKind::Sheet => "sheet",
            PageKind::Slide => "slide",
            PageKind::Section => "section",
            PageKind::File => "file",
        };
        assert!(document.pages.is_none() || document.format.page_word() == word, "{}: {word}", sample.name);
    }
}

/// Searches until the document was read to its end.
async fn search_until_indexed(machine: &TestMachine, path: &str, word: &str) -> Vec<FoundPassage> {
    loop {
        let found = machine.call_tool("search", json!({ "query": word, "paths": [path] })).await;
        assert!(!found.failed, "{}", found.text);
        if found.unread.iter().all(|file| file.reason != "indexing") {
            return found.passages;
        }
    }
}

#[tokio::test]
async fn search_finds_and_cites_every_format() {
    let mut machine = TestMachine::new();
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    for sample in all_samples() {
        machine.put_file(sample.name, &sample.content);
        let path = format!("/{}", sample.name);
        let found = search_until_indexed(&machine, &path, sample.word).await;
        let has_word = |passage: &&FoundPassage| {
            passage.path == path && passage.text.to_lowercase().contains(&sample.word.to_lowercase())
        };
        let passage = found.iter().find(has_word);
        let passage =
            passage.unwrap_or_else(|| panic!("{}: {} is not found: {found:?}", sample.name, sample.word));
        let place = (passage.page.is_some(), passage.lines.is_some());
        let expected = match sample.cited {
            "line" => (false, true),
            "sheet and row" | "file and line" => (true, true),
            _ => (true, false),
        };
        assert_eq!(place, expected, "{} is cited by {}: {passage:?}", sample.name, sample.cited);
    }
}
