//! The tables of formats in the README and in `docs/documents.md`: each of their entries is found by the agent's search and cited as
//! the table says, and no format is missing from them.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/compound.rs"]
mod compound;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "support/iwork.rs"]
mod iwork;
#[path = "support/mobi.rs"]
mod mobi;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "support/pst.rs"]
mod outlook;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "support/rar.rs"]
mod rar;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use archive::archive;
use compound::{compound, wide};
use domain::citation::PageKind;
use guest::documents::{Format, extensions, extract_bytes};
use guest::index::Library;
use iwork::message;
use protocol::tool::FoundPassage;
use rar::{RarFile, rar};
use serde_json::json;
use support::Machine;

/// The tables: the file, and how the first row begins.
const README: (&str, &str) = ("README.md", "| kind | files | cited by |");
const DOCUMENTS: (&str, &str) = ("docs/documents.md", "| format | files | place in citations |");

/// A document that has the word. Unless it is plain text, the word is not in its bytes.
struct Sample {
    /// The entries of the tables that it shows to be true. The first is in the README.
    entries: &'static [&'static str],
    name: &'static str,
    content: Vec<u8>,
    word: &'static str,
    /// The citation, as the tables name it.
    cited: &'static str,
}

fn sample(
    entries: &'static [&'static str],
    (name, content): (&'static str, Vec<u8>),
    word: &'static str,
    cited: &'static str,
) -> Sample {
    Sample { entries, name, content, word, cited }
}

fn fixture(name: &'static str) -> (&'static str, Vec<u8>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    (name, std::fs::read(path).expect("the fixture is there"))
}

fn samples() -> Vec<Sample> {
    let page = b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=\"b\"\n\n--b\nContent-Type: text/html\n\n\
                 <p>The saved page shows a mag<b>pie</b>.</p>\n--b--\n";
    let mailbox = b"From ada@example.org Mon Jun  2 10:00:00 2025\nSubject: =?utf-8?q?A_st=6Frk?=\n\nIt has moved in.\n";
    let rich = b"{\\rtf1\\ansi A rich text about a cur{\\b lew}.\\par}";
    let csv = b"bird,number\nsparrow,7\n";
    let tsv = b"bird\tnumber\nswallow\t9\n";
    let mut samples = vec![
        sample(&["`.pdf`"], fixture("lease.pdf"), "ďábelské", "page"),
        sample(&["also scanned"], fixture("scanned.pdf"), "nájemné", "page"),
        sample(
            &["`.pdf`", "also encrypted without a password"],
            fixture("unlocked256.pdf"),
            "výpovědi",
            "page",
        ),
        sample(&["`.docx`"], fixture("minutes.docx"), "střechy", "line"),
        sample(&["`.docx`"], fixture("paged.docx"), "schválila", "page"),
        sample(&["`.doc`"], fixture("contract.doc"), "Teplo", "line"),
        sample(&["`.odt`"], fixture("text.odt"), "poznámka", "line"),
        sample(&["`.pages`"], ("a.pages", pages("A bullfinch")), "bullfinch", "line"),
        sample(&["`.odt`", "`.fodt`"], ("a.fodt", flat("text", "A goldcrest")), "goldcrest", "line"),
        sample(&["`.rtf`"], ("a.rtf", rich.to_vec()), "curlew", "line"),
        sample(&["Markdown", "`.md`"], ("a.md", b"# Birds\n\nA **wren**.\n".to_vec()), "wren", "line"),
        sample(
            &["Markdown", "`.markdown`"],
            ("a.markdown", b"# Birds\n\nA **crane**.\n".to_vec()),
            "crane",
            "line",
        ),
        sample(&["any text"], fixture("windows1250.txt"), "žluťoučký", "line"),
        sample(
            &["any text", "source code"],
            ("a.rs", b"const OSPREY: u32 = 1;\n".to_vec()),
            "osprey",
            "line",
        ),
        sample(&["`.xlsx`"], fixture("prices.xlsx"), "Výtah", "sheet and row"),
        sample(&["`.xlsb`"], ("a.xlsb", workbook_of_binary_parts("pelican")), "pelican", "sheet and row"),
        sample(&["`.xls`"], ("a.xls", workbook_97("cormorant")), "cormorant", "sheet and row"),
        sample(&["`.ods`"], ("a.ods", open_workbook("plover")), "plover", "sheet and row"),
        sample(&["`.numbers`"], fixture("birds.numbers"), "crake", "sheet and row"),
        sample(&["CSV", "`.csv`"], ("a.csv", csv.to_vec()), "sparrow", "line"),
        sample(&["CSV", "`.tsv`", "TSV"], ("a.tsv", tsv.to_vec()), "swallow", "line"),
        sample(&["`.html`"], fixture("notice.html"), "Odstávka", "line"),
        sample(&["`.html`", "`.htm`"], ("a.htm", b"A bare o<b>sier</b>".to_vec()), "osier", "line"),
        sample(&["`.html`", "`.xhtml`"], ("a.xhtml", b"A bare al<b>der</b>".to_vec()), "alder", "line"),
        sample(&["`.eml`"], fixture("notice.eml"), "výpovědní", "line"),
        sample(
            &["`.eml`", "`.emlx`"],
            ("a.emlx", message_of_apple_mail("A tur=6Estone.")),
            "turnstone",
            "line",
        ),
        sample(&["with their attachments"], fixture("notice.eml"), "odstavec", "line"),
        sample(&["`.msg`"], ("a.msg", message_of_outlook("A dunlin.")), "dunlin", "line"),
        sample(&["`.mbox`"], ("a.mbox", mailbox.to_vec()), "stork", "line"),
        sample(&["`.mht`"], ("a.mht", page.to_vec()), "magpie", "line"),
        sample(&["`.mht`", "`.mhtml`"], ("a.mhtml", page.to_vec()), "magpie", "line"),
        sample(&["`.zfo`"], fixture("data_message.zfo"), "dotaci", "line"),
        sample(&["`.p7m`"], fixture("signed.pdf.p7m"), "nájemné", "as what is signed"),
        sample(&["`.asice`"], ("a.asice", signed_archive(fixture("scanned.pdf"))), "nájemné", "file"),
        sample(
            &["`.asice`", "`.asics`"],
            ("a.asics", signed_archive(("a.txt", b"A wheatear.".to_vec()))),
            "wheatear",
            "file and line",
        ),
        sample(
            &["`.asice`", "`.sce`"],
            ("a.sce", signed_archive(("a.txt", b"A whinchat.".to_vec()))),
            "whinchat",
            "file and line",
        ),
        sample(
            &["`.asice`", "`.scs`"],
            ("a.scs", signed_archive(("a.txt", b"A dipper.".to_vec()))),
            "dipper",
            "file and line",
        ),
        sample(
            &["`.asice`", "`.bdoc`"],
            ("a.bdoc", signed_archive(("a.txt", b"A fieldfare.".to_vec()))),
            "fieldfare",
            "file and line",
        ),
        sample(&["PNG"], fixture("code_word.png"), "heron", "page"),
        sample(&["JPEG"], fixture("code_word.jpg"), "otter", "page"),
        sample(&["GIF"], fixture("code_word.gif"), "badger", "page"),
        sample(&["WebP"], fixture("code_word.webp"), "falcon", "page"),
        sample(&["TIFF"], fixture("code_word.tiff"), "lizard", "page"),
        sample(&["BMP"], fixture("code_word.bmp"), "walrus", "page"),
        sample(&["HEIC"], fixture("code_word.heic"), "heron", "page"),
    ];
    samples.extend(books());
    samples.extend(slides_and_drawings());
    samples.extend(archives());
    samples
}

fn books() -> Vec<Sample> {
    vec![
        sample(&["`.epub`"], fixture("rules.epub"), "klid", "section"),
        sample(&["`.fb2`"], ("a.fb2", fiction_book("A r<emphasis>uff</emphasis>.")), "ruff", "section"),
        sample(&["`.mobi`"], ("a.mobi", book("A re<b>eve</b>.")), "reeve", "section"),
        sample(&["`.mobi`", "`.azw`"], ("a.azw", book("A gad<b>wall</b>.")), "gadwall", "section"),
        sample(&["`.mobi`", "`.azw3`"], ("a.azw3", book("A wig<b>eon</b>.")), "wigeon", "section"),
        sample(&["`.mobi`", "`.prc`"], ("a.prc", book("A gar<b>ganey</b>.")), "garganey", "section"),
        sample(&["`.mobi`", "`.pdb`"], ("a.pdb", book("A po<b>chard</b>.")), "pochard", "section"),
        sample(&["`.ipynb`"], ("a.ipynb", notebook("A sho\\u0076eler.")), "shoveler", "line"),
    ]
}

fn slides_and_drawings() -> Vec<Sample> {
    vec![
        sample(&["`.pptx`"], fixture("budget.pptx"), "Střecha", "slide"),
        sample(&["`.odp`"], fixture("budget.odp"), "Střecha", "slide"),
        sample(&["`.key`"], ("a.key", keynote("A corncrake")), "corncrake", "slide"),
        sample(&["`.vsdx`"], ("a.vsdx", drawing_of_visio("A nuthatch")), "nuthatch", "page"),
        sample(&["`.vsdx`", "`.vsdm`"], ("a.vsdm", drawing_of_visio("A bluethroat")), "bluethroat", "page"),
        sample(&["`.djvu`"], fixture("rooks.djvu"), "colonies", "page"),
        sample(&["`.djvu`", "`.djv`"], ("a.djv", fixture("rooks.djvu").1), "committee", "page"),
        sample(&["`.xps`"], ("a.xps", document_of_xps("A treecreeper")), "treecreeper", "page"),
        sample(&["`.xps`", "`.oxps`"], ("a.oxps", document_of_xps("A firecrest")), "firecrest", "page"),
        sample(&["`.ppt`"], ("a.ppt", slides_97("A kestrel on a slide")), "kestrel", "slide"),
        sample(&["`.odg`"], ("a.odg", drawing("lapwing")), "lapwing", "slide"),
    ]
}

fn archives() -> Vec<Sample> {
    vec![
        sample(&["`.zip`"], ("names.zip", archive([("goldfinch.bin", "\0")])), "goldfinch", "file"),
        sample(&["`.zip`"], ("texts.zip", archive([("a.txt", "A siskin.")])), "siskin", "file and line"),
        sample(&["`.zip`"], ("scans.zip", archive([fixture("scanned.pdf")])), "nájemné", "file"),
        sample(&["`.zip`"], ("images.zip", archive([fixture("code_word.png")])), "heron", "file"),
        sample(&["`.7z`"], fixture("birds.7z"), "heron", "file"),
        sample(&["`.tar`"], ("a.tar", unpacked(fixture("birds.tgz"))), "wren", "file and line"),
        sample(&["`.tar.gz`", "`.tgz`"], fixture("birds.tgz"), "wren", "file and line"),
        sample(&["`.tar.gz`"], ("a.tar.gz", fixture("birds.tgz").1), "wren", "file and line"),
        sample(&["`.tar.gz`", "`.tar.bz2`"], fixture("birds.tar.bz2"), "wren", "file and line"),
        sample(&["`.tar.gz`", "`.tar.xz`"], fixture("birds.tar.xz"), "wren", "file and line"),
        sample(&["`.tar.gz`", "`.tar.zst`"], fixture("birds.tar.zst"), "wren", "file and line"),
        sample(&["`.gz`"], fixture("siskin.txt.gz"), "sings", "file and line"),
        sample(
            &["`.pst`"],
            ("a.pst", outlook::pst(&[outlook::outlook_message("Birds", "A redpoll.")])),
            "redpoll",
            "file and line",
        ),
        sample(
            &["`.rar`"],
            ("a.rar", rar(0, &[RarFile::new("a.txt", b"A bullfinch.")])),
            "bullfinch",
            "file and line",
        ),
        sample(&["`.cab`"], fixture("birds.cab"), "wren", "file and line"),
        sample(&["`.cab`", "`.lzh`"], fixture("birds.lzh"), "wren", "file and line"),
        sample(&["`.cab`", "`.lha`"], ("a.lha", fixture("birds.lzh").1), "wren", "file and line"),
    ]
}

fn unpacked((_, bytes): (&str, Vec<u8>)) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&*bytes).read_to_end(&mut unpacked).expect("it is compressed");
    unpacked
}

fn signed_archive(file: (&str, Vec<u8>)) -> Vec<u8> {
    archive([file, ("META-INF/signatures001.xml", b"<signature/>".to_vec()), ("mimetype", b"asic".to_vec())])
}

fn pages(content: &str) -> Vec<u8> {
    iwork::document(&[(1, 10_000, message().reference(4, 2)), (2, 2001, message().bytes(3, content))])
}

fn fiction_book(text: &str) -> Vec<u8> {
    format!("<FictionBook><body><section><p>{text}</p></section></body></FictionBook>").into_bytes()
}

fn book(text: &str) -> Vec<u8> {
    let html = format!("<html><body><p>{text}</p></body></html>");
    mobi::Book { code_page: 65_001, packing: 1, records: &[html.as_bytes()], ..mobi::Book::default() }.bytes()
}

fn notebook(text: &str) -> Vec<u8> {
    format!("{{\"cells\": [{{\"cell_type\": \"markdown\", \"source\": [\"{text}\"]}}]}}").into_bytes()
}

fn keynote(title: &str) -> Vec<u8> {
    iwork::document(&[
        (1, 1, message().reference(2, 2)),
        (2, 2, message().message(3, message().reference(2, 3))),
        (3, 4, message().reference(2, 4)),
        (4, 5, message().reference(5, 5)),
        (5, 7, message().reference(4, 6)),
        (6, 2001, message().bytes(3, title)),
    ])
}

fn drawing_of_visio(text: &str) -> Vec<u8> {
    let relations = "<Relationships><Relationship Id='a' Type='x/page' Target='page1.xml'/></Relationships>";
    archive([
        ("visio/pages/pages.xml", "<Pages><Page Name='Birds'><Rel r:id='a'/></Page></Pages>".to_owned()),
        ("visio/pages/_rels/pages.xml.rels", relations.to_owned()),
        ("visio/pages/page1.xml", format!("<PageContents><Text>{text}</Text></PageContents>")),
    ])
}

fn document_of_xps(text: &str) -> Vec<u8> {
    archive([
        ("FixedDocSeq.fdseq", "<DocumentReference Source='/1.fdoc'/>".to_owned()),
        ("1.fdoc", "<PageContent Source='/1.fpage'/>".to_owned()),
        ("1.fpage", format!("<Glyphs OriginX='1' OriginY='1' UnicodeString='{text}'/>")),
    ])
}

/// A document of LibreOffice that is a single file.
fn flat(kind: &str, text: &str) -> Vec<u8> {
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
    compound(&[("/__properties_version1.0", vec![0; 32]), ("/__substg1.0_1000001F", wide(text))])
}

fn slides_97(text: &str) -> Vec<u8> {
    let record = |kind: u16, version: u16, body: &[u8]| {
        let length = u32::try_from(body.len()).expect("it is short");
        [&version.to_le_bytes()[..], &kind.to_le_bytes(), &length.to_le_bytes(), body].concat()
    };
    let slide = record(1006, 15, &record(4008, 0, text.as_bytes()));
    compound(&[("/PowerPoint Document", slide)])
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
    compound(&[("/Workbook", [globals(at), begin(0x10), label, end.clone()].concat())])
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
        [&length.to_le_bytes()[..], &wide(text)].concat()
    };
    let sheet = [&[0; 8][..], &text("r1"), &text("Birds")].concat();
    let workbook = [record(0x9c, &sheet), record(0x90, &[]), record(0x9d, &[])].concat();
    let row = [record(0x00, &[0; 4]), record(0x06, &[&[0; 8][..], &text(cell)].concat())].concat();
    let cells = [record(0x94, &[0; 16]), record(0x91, &[]), row, record(0x92, &[])].concat();
    let relations =
        b"<Relationships><Relationship Id=\"r1\" Target=\"worksheets/sheet1.bin\"/></Relationships>";
    archive([
        ("xl/workbook.bin", workbook),
        ("xl/_rels/workbook.bin.rels", relations.to_vec()),
        ("xl/worksheets/sheet1.bin", cells),
    ])
}

fn open_document(kind: &str, body: &str) -> Vec<u8> {
    let content =
        format!("<office:document-content><office:body>{body}</office:body></office:document-content>");
    archive([
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

fn drawing(text: &str) -> Vec<u8> {
    let page = format!("<draw:page><draw:frame><text:p>{text}</text:p></draw:frame></draw:page>");
    open_document("graphics", &format!("<office:drawing>{page}</office:drawing>"))
}

/// Returns the entries of a table, each with its row's words for the citation.
fn entries((file, head): (&str, &str)) -> Vec<(String, String)> {
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
fn the_tables_name_what_is_read_and_nothing_else() {
    let samples = samples();
    let known: BTreeSet<&str> = samples.iter().flat_map(|sample| sample.entries).copied().collect();
    for table in [README, DOCUMENTS] {
        for (entry, cited) in entries(table) {
            assert!(known.contains(&*entry), "{}: no document shows that {entry} is read", table.0);
            let of_entry = samples.iter().filter(|sample| sample.entries.contains(&&*entry));
            for sample in of_entry {
                let says = sample.cited.contains(&*cited) || cited.contains(sample.cited);
                assert!(says, "{}: {entry} is cited by {}, not by {cited}", table.0, sample.cited);
            }
        }
    }
    let has = |table, entry: &str| entries(table).iter().any(|(named, _)| named == entry);
    for entry in samples.iter().map(|sample| sample.entries[0]) {
        assert!(has(README, entry), "the README's table lacks {entry}");
    }
    for extension in known.iter().filter(|entry| entry.starts_with('`')) {
        assert!(has(DOCUMENTS, extension), "the larger table lacks {extension}");
    }
}

#[test]
fn every_extension_that_decides_about_a_format_is_in_the_larger_table() {
    let named: BTreeSet<String> = entries(DOCUMENTS).into_iter().map(|(entry, _)| entry).collect();
    for extension in extensions() {
        let read = extract_bytes(Path::new(&format!("a.{extension}")), b"plain words");
        let is_text = read.is_ok_and(|document| document.format == Format::Text);
        assert!(is_text || named.contains(&format!("`.{extension}`")), "the table lacks .{extension}");
    }
}

#[test]
fn pages_are_called_alike_by_the_reader_of_a_format_and_by_the_extension() {
    for sample in samples() {
        // A program unpacks the others.
        let Ok(document) = extract_bytes(Path::new(sample.name), &sample.content) else { continue };
        let word = match PageKind::of(sample.name) {
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
async fn search(machine: &Machine, path: &str, word: &str) -> Vec<FoundPassage> {
    loop {
        let found = machine.call("search", json!({ "query": word, "paths": [path] })).await;
        assert!(!found.failed, "{}", found.text);
        if found.unread.iter().all(|file| file.reason != "indexing") {
            return found.passages;
        }
    }
}

#[tokio::test]
async fn a_word_of_each_format_in_the_tables_is_found_and_cited() {
    let mut machine = Machine::new();
    let index = machine.outside().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(Library::new(&machine.limits.workspace, &index));
    for sample in samples() {
        machine.put(sample.name, &sample.content);
        let path = format!("/{}", sample.name);
        let found = search(&machine, &path, sample.word).await;
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
