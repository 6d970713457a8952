//! Workbooks: cells as they are shown, and the content beside them. Each is made in its test.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/compound.rs"]
mod compound;

use std::path::Path;

use archive::zip_archive;
use compound::{compound_file, utf16_bytes};
use documents::{Extracted, extract_bytes};

const TYPES: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";

fn read_workbook(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it can be read")
}

fn segment_places(workbook: &Extracted) -> Vec<(Option<u32>, &str)> {
    workbook.segments.iter().map(|segment| (segment.page, segment.text.as_str())).collect()
}

fn relations_xml(of: &[(&str, &str, &str)]) -> String {
    let relation = |(id, kind, target): &(&str, &str, &str)| {
        format!("<Relationship Id=\"{id}\" Type=\"{TYPES}/{kind}\" Target=\"{target}\"/>")
    };
    let packages = "http://schemas.openxmlformats.org/package/2006/relationships";
    format!(
        "<Relationships xmlns=\"{packages}\">{}</Relationships>",
        of.iter().map(relation).collect::<String>()
    )
}

fn sheet_xml(cells: &str) -> String {
    format!("<worksheet xmlns=\"{MAIN}\"><sheetData><row r=\"1\">{cells}</row></sheetData></worksheet>")
}

fn text_cell(name: &str, text: &str) -> String {
    format!("<c r=\"{name}\" t=\"inlineStr\"><is><t>{text}</t></is></c>")
}

/// Creates a workbook of two sheets, `Byty` and `Ceny`, with further parts.
fn xlsx_workbook(sheets: [String; 2], more: Vec<(&str, Vec<u8>)>) -> Vec<u8> {
    let [first, second] = sheets;
    let parts = [
        ("_rels/.rels", relations_xml(&[("m", "officeDocument", "xl/workbook.xml")])),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{TYPES}\"><sheets><sheet name=\"Byty\" sheetId=\"1\" r:id=\"a\"/>\
                 <sheet name=\"Ceny\" sheetId=\"2\" r:id=\"b\"/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            relations_xml(&[
                ("a", "worksheet", "worksheets/sheet1.xml"),
                ("b", "worksheet", "worksheets/sheet2.xml"),
                ("c", "styles", "styles.xml"),
            ]),
        ),
        ("xl/worksheets/sheet1.xml", first),
        ("xl/worksheets/sheet2.xml", second),
    ];
    zip_archive(parts.map(|(name, part)| (name, part.into_bytes())).into_iter().chain(more))
}

fn picture_fixture() -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/code_word.png");
    std::fs::read(path).expect("the fixture is there")
}

#[test]
fn xlsx_notes_and_images_on_sheet() {
    let more = vec![
        (
            "xl/worksheets/_rels/sheet2.xml.rels",
            relations_xml(&[
                ("x", "comments", "../comments1.xml"),
                ("y", "drawing", "../drawings/drawing1.xml"),
            ])
            .into_bytes(),
        ),
        (
            "xl/comments1.xml",
            b"<comments><comment ref=\"A1\"><text><r><t>bez\nDPH</t></r></text></comment></comments>"
                .to_vec(),
        ),
        (
            "xl/drawings/drawing1.xml",
            "<xdr:wsDr><xdr:sp><a:p><a:t>Ceny platí do června.</a:t></a:p></xdr:sp></xdr:wsDr>".into(),
        ),
        (
            "xl/drawings/_rels/drawing1.xml.rels",
            relations_xml(&[("i", "image", "../media/image1.png"), ("j", "image", "../media/none.png")])
                .into_bytes(),
        ),
        ("xl/media/image1.png", picture_fixture()),
    ];
    let workbook =
        xlsx_workbook([sheet_xml(&text_cell("A1", "Byt")), sheet_xml(&text_cell("A1", "Cena"))], more);
    let workbook = read_workbook("x.xlsx", &workbook);
    assert_eq!(
        segment_places(&workbook),
        [(Some(1), "Byt"), (Some(2), "Cena"), (Some(2), "A1: bez DPH\nCeny platí do června.")]
    );
    let images: Vec<_> = workbook.images.iter().map(|image| (image.part.as_str(), image.page)).collect();
    assert_eq!(images, [("xl/media/image1.png", Some(2))]);
    assert_eq!(workbook.images[0].heading.as_deref(), Some("Ceny"));
}

#[test]
fn xlsx_numbers_read_as_shown() {
    let number =
        |name: &str, style: u32, value: &str| format!("<c r=\"{name}\" s=\"{style}\"><v>{value}</v></c>");
    let cells = [
        number("A1", 0, "1234.5"),
        number("B1", 1, "0.21"),
        number("C1", 2, "1234567.5"),
        number("D1", 3, "1001"),
        number("E1", 4, "45356"),
        number("F1", 9, "7"),
        text_cell("G1", "0.21"),
        number("H1", 4, "-5"),
        number("I1", 4, "3000000"),
        number("J1", 5, "0"),
        number("K1", 5, "0.000965856481"),
        number("L1", 6, "-0.0625"),
    ];
    let styles = format!(
        "<styleSheet xmlns=\"{MAIN}\"><numFmts><numFmt numFmtId=\"164\" formatCode=\"#,##0.00\\ &quot;Kč&quot;\"/>\
         <numFmt numFmtId=\"165\" formatCode=\"00000\"/></numFmts><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"9\"/>\
         <xf numFmtId=\"164\"/><xf numFmtId=\"165\"/><xf numFmtId=\"14\"/>\
         <xf numFmtId=\"20\"/><xf numFmtId=\"46\"/></cellXfs></styleSheet>"
    );
    let workbook = xlsx_workbook(
        [sheet_xml(&cells.concat()), sheet_xml("")],
        vec![("xl/styles.xml", styles.into_bytes())],
    );
    assert_eq!(
        segment_places(&read_workbook("x.xlsx", &workbook)),
        [(
            Some(1),
            "1234.5\t21%\t1234567.50 Kč\t01001\t2024-03-05\t7\t0.21\t-5\t3000000\t00:00:00\t00:01:23.450\t-1:30:00"
        )]
    );
}

#[test]
fn xls_numbers_read_as_shown() {
    let record = |kind: u16, pieces: &[&[u8]]| {
        let body = pieces.concat();
        let length = u16::try_from(body.len()).expect("it is short");
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), &body].concat()
    };
    let words = |words: &[u16]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let begin = |kind: u16| record(0x0809, &[&words(&[0x0600, kind]), &[0; 12]]);
    let end = || record(0x000a, &[]);
    let style = |format: u16| record(0x00e0, &[&words(&[0, format]), &[0; 16]]);
    let number = |column: u16, style: u16, value: f64| {
        record(0x0203, &[&words(&[0, column, style]), &value.to_le_bytes()])
    };
    let short = |value: u32| (value << 2 | 2).to_le_bytes();
    let kilograms = "0.0\" kg\"";
    let crowns = "#,##0\\ \"Kč\"";
    let globals = |at: u32| {
        [
            begin(5),
            record(0x041e, &[&words(&[164, 8]), &[0], kilograms.as_bytes()]),
            record(0x041e, &[&words(&[165, 11]), &[1], &utf16_bytes(crowns)]),
            style(0),
            style(9),
            style(164),
            style(165),
            record(0x0085, &[&at.to_le_bytes(), &[0, 0, 4, 0], b"Ceny"]),
            end(),
        ]
        .concat()
    };
    let at = u32::try_from(globals(0).len()).expect("it is short");
    let sheet = [
        begin(0x10),
        number(0, 0, 0.21),
        number(1, 1, 0.21),
        begin(0x20),
        number(2, 1, 0.21),
        end(),
        record(0x027e, &[&words(&[0, 3, 2]), &short(7)]),
        record(0x00bd, &[&words(&[0, 4, 3]), &short(1500), &words(&[0]), &short(1500), &words(&[5])]),
        end(),
    ];
    let workbook =
        read_workbook("x.xls", &compound_file(&[("/Workbook", [globals(at), sheet.concat()].concat())]));
    let (_, shown) = segment_places(&workbook)[0];
    assert!(shown.starts_with("0.21\t21%"), "{shown}");
    assert!(shown.ends_with("7.0 kg\t1500 Kč\t1500"), "{shown}");
}

/// Creates a workbook of LibreOffice of one sheet.
fn open_workbook(rows: &str, shapes: &str) -> Vec<u8> {
    let content = format!(
        "<office:spreadsheet><table:tracked-changes><text:p>old</text:p></table:tracked-changes>\
         <table:table table:name=\"Ceník\">{shapes}{rows}</table:table></office:spreadsheet>"
    );
    zip_archive([
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet".to_vec()),
        ("content.xml", content.into_bytes()),
        ("Pictures/1.png", picture_fixture()),
    ])
}

#[test]
fn ods_cells_read_as_shown() {
    let cell = |attributes: &str, content: &str| {
        format!("<table:table-cell {attributes}>{content}</table:table-cell>")
    };
    let number = |kind: &str, value: &str, shown: &str| {
        cell(
            &format!("office:value-type=\"{kind}\" office:value=\"{value}\""),
            &format!("<text:p>{shown}</text:p>"),
        )
    };
    let date = |value: &str| {
        cell(&format!("office:value-type=\"date\" office:date-value=\"{value}\""), "<text:p>5.3.24</text:p>")
    };
    let note = "<office:annotation><dc:creator>Jana</dc:creator><dc:date>2024-03-05</dc:date><text:p>bez DPH,</text:p>\
                <text:p>ověřit</text:p></office:annotation>";
    let rows = [
        format!(
            "<table:table-row>{}{}{}{}</table:table-row>",
            number("percentage", "0.21", "21 %"),
            number("currency", "1234.5", "1 234,50 Kč"),
            date("2024-03-05"),
            date("2024-03-05T10:30:00.5")
        ),
        "<table:table-row table:number-rows-repeated=\"3\"><table:table-cell table:number-columns-repeated=\"1024\"/></table:table-row>".to_owned(),
        format!(
            "<table:table-row table:number-rows-repeated=\"2\">{}<table:covered-table-cell><text:p>under</text:p>\
             </table:covered-table-cell>{}</table:table-row>",
            cell("table:number-columns-repeated=\"2\"", "<text:p>dva<text:s text:c=\"2\"/>roky</text:p><text:p>ano</text:p>"),
            cell("office:value-type=\"float\" office:value=\"7\"", note)
        ),
    ];
    let shapes = "<table:shapes><draw:custom-shape><text:p>Platí do června.</text:p></draw:custom-shape>\
                  <draw:frame><draw:image xlink:href=\"Pictures/1.png\"/></draw:frame></table:shapes>";
    let workbook = read_workbook("x.ods", &open_workbook(&rows.concat(), shapes));
    let lines: Vec<_> =
        workbook.segments.iter().map(|segment| (segment.lines, segment.text.as_str())).collect();
    assert_eq!(
        lines,
        [
            (Some((1, 1)), "21 %\t1 234,50 Kč\t2024-03-05\t2024-03-05 10:30:00"),
            (Some((5, 6)), "dva  roky ano\tdva  roky ano\t\t7\ndva  roky ano\tdva  roky ano\t\t7"),
            (None, "Platí do června.\nD5: bez DPH, ověřit"),
        ]
    );
    assert_eq!(
        workbook.segments[0].heading.as_deref().map(|heading| heading.starts_with("Ceník")),
        Some(true)
    );
    assert_eq!((workbook.images.len(), workbook.images[0].page), (1, Some(1)));
}

#[test]
fn ods_values_replace_missing_text() {
    let cell = |attributes: &str| format!("<table:table-cell office:value-type={attributes}/>");
    let cells = [
        cell("\"string\" office:string-value=\"objednat\""),
        cell("\"time\" office:time-value=\"PT02H30M00S\""),
        cell("\"percentage\" office:value=\"0.21\""),
        cell("\"currency\" office:currency=\"CZK\" office:value=\"1234.5\""),
        "<table:table-cell office:value-type=\"date\" office:date-value=\"\"><text:h>zítra</text:h></table:table-cell>".to_owned(),
    ];
    let workbook = open_workbook(&format!("<table:table-row>{}</table:table-row>", cells.concat()), "");
    assert_eq!(
        segment_places(&read_workbook("x.ods", &workbook)),
        [(Some(1), "objednat\t02h30m00s\t21%\t1234.5 CZK\tzítra")]
    );
}

#[test]
fn xlsx_overlong_notes_are_cut() {
    let comment = format!("<comment ref=\"A1\"><text><t>{}</t></text></comment>", "x".repeat(1 << 20));
    let more = vec![
        (
            "xl/worksheets/_rels/sheet1.xml.rels",
            relations_xml(&[("x", "comments", "../comments1.xml")]).into_bytes(),
        ),
        ("xl/comments1.xml", format!("<comments>{}</comments>", comment.repeat(8)).into_bytes()),
    ];
    let workbook =
        read_workbook("x.xlsx", &xlsx_workbook([sheet_xml(&text_cell("A1", "Byt")), sheet_xml("")], more));
    let longest = workbook.segments.iter().map(|segment| segment.text.len()).max();
    assert!(workbook.truncated && longest.is_some_and(|longest| longest > 7 << 20), "{longest:?}");
}

#[test]
fn ods_endless_repeated_cells_cut() {
    let text = "x".repeat(5000);
    let row = format!(
        "<table:table-row table:number-rows-repeated=\"4000000000\"><table:table-cell table:number-columns-repeated=\"4000000000\">\
         <text:p>{text}</text:p></table:table-cell></table:table-row>"
    );
    let workbook = read_workbook("x.ods", &open_workbook(&row, ""));
    assert!(workbook.truncated);
    let bytes: usize = workbook.segments.iter().map(|segment| segment.text.len()).sum();
    assert!((1..=8 << 20).contains(&bytes), "{bytes}");
}

/// A workbook of Excel of a version, with the code page that it names and the bytes of one cell.
fn old_workbook(version: u16, code_page: u16, cell: &[u8]) -> Vec<u8> {
    let record = |kind: u16, body: &[u8]| {
        let length = u16::try_from(body.len()).expect("it is short");
        [&kind.to_le_bytes()[..], &length.to_le_bytes(), body].concat()
    };
    let begin = |kind: u8| record(0x0809, &[&version.to_le_bytes()[..], &[kind, 0], &[0; 4]].concat());
    let is_unicode = version == 0x0600;
    let text = |text: &[u8], length: &[u8], is_wide: bool| match is_unicode {
        true => [length, &[u8::from(is_wide)], text].concat(),
        false => [length, text].concat(),
    };
    let letters = if is_unicode { cell.len() / 2 } else { cell.len() };
    let length = u16::try_from(letters).expect("it is short").to_le_bytes();
    let label = record(0x0204, &[&[0; 6][..], &text(cell, &length, true)].concat());
    let end = record(0x000a, &[]);
    let sheet =
        |at: u32| record(0x0085, &[&at.to_le_bytes()[..], &[0, 0], &text(b"Birds", &[5], false)].concat());
    let globals =
        |at: u32| [begin(5), record(0x0042, &code_page.to_le_bytes()), sheet(at), end.clone()].concat();
    let at = u32::try_from(globals(0).len()).expect("it is short");
    let stream = [globals(at), begin(0x10), label, end.clone()].concat();
    compound_file(&[(if is_unicode { "/Workbook" } else { "/Book" }, stream)])
}

#[test]
fn code_pages_count_only_before_unicode() {
    for code_page in [0, 367, 1200, 1250, 1252, 10_000, 10_029, 65_001] {
        let workbook =
            read_workbook("a.xls", &old_workbook(0x0600, code_page, &utf16_bytes("Čáp žluťoučký")));
        assert_eq!(workbook.segments[0].text, "Čáp žluťoučký", "{code_page}");
    }
    for (code_page, cell, letters) in [
        (1250, &b"\xc8\xe1p"[..], "Čáp"),
        (1251, b"\xc0\xe8\xf1\xf2", "Аист"),
        (10_029, b"\x89\x87p \xeclu\xe9", "Čáp žluť"),
        (10_000, b"caf\x8e", "café"),
        (0x8000, b"caf\x8e", "café"),
        (10_006, b"\xa1\xe2", "Γβ"),
        (367, b"caf\xe9", "café"),
        (0, b"caf\xe9", "café"),
    ] {
        let workbook = read_workbook("a.xls", &old_workbook(0x0500, code_page, cell));
        assert_eq!(workbook.segments[0].text, letters, "{code_page}");
    }
}
