//! Documents of Office in the forms that few programs write: other encodings, single XML files, equations, files inside documents.

#[path = "support/archive.rs"]
mod archive;

use std::io::Write;
use std::path::Path;

use archive::zip_archive;
use documents::{DocumentFormat, Extracted, extract_bytes};

fn read_office(name: &str, bytes: impl AsRef<[u8]>) -> Extracted {
    extract_bytes(Path::new(name), bytes.as_ref()).expect("it is read")
}

fn document_text(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let document = read_office(name, bytes);
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn utf16_with_mark(text: &str, is_big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(|unit| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

fn docx_with_body(body: &str) -> Vec<u8> {
    zip_archive([("word/document.xml", format!("<w:document><w:body>{body}</w:body></w:document>"))])
}

#[test]
fn parts_in_utf_16_are_read() {
    for is_big in [false, true] {
        let declared = "<?xml version=\"1.0\" encoding=\"UTF-16\"?>";
        let body = "<w:document><w:body><w:p><w:r><w:t>Čáp 4711 𝄞</w:t></w:r></w:p></w:body></w:document>";
        let long = body.replace("4711", &"4711 ".repeat(5_000));
        for text_of in [format!("{declared}{body}"), body.to_owned(), long] {
            let document = zip_archive([("word/document.xml", utf16_with_mark(&text_of, is_big))]);
            let text = document_text("a.docx", document);
            assert!(text.starts_with("Čáp 4711 ") && text.ends_with("𝄞"), "{text}");
        }
        let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>\
                     <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>Čáp</t></is></c><c r=\"B1\"><v>4711</v></c></row>\
                     </sheetData></worksheet>";
        let book = "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" \
                    xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>\
                    <sheet name=\"Ceník\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>";
        let relations = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
                         <Relationship Id=\"r1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet\" \
                         Target=\"worksheets/sheet1.xml\"/></Relationships>";
        let package = relations.replace("worksheets/sheet1.xml", "xl/workbook.xml");
        let package = package.replace("relationships/worksheet", "relationships/officeDocument");
        let workbook = zip_archive([
            ("_rels/.rels", package.into()),
            ("xl/workbook.xml", utf16_with_mark(book, is_big)),
            ("xl/_rels/workbook.xml.rels", relations.into()),
            ("xl/worksheets/sheet1.xml", utf16_with_mark(sheet, is_big)),
        ]);
        let workbook = read_office("a.xlsx", workbook);
        assert_eq!(workbook.segments[0].text, "Čáp\t4711");
        assert_eq!(workbook.segments[0].heading.as_deref(), Some("Ceník: Čáp | 4711"));
    }
}

#[test]
fn excel_xml_workbooks_are_read() {
    let book = "<?xml version=\"1.0\"?>\n<?mso-application progid=\"Excel.Sheet\"?>\n\
        <Workbook xmlns=\"urn:schemas-microsoft-com:office:spreadsheet\" xmlns:ss=\"urn:schemas-microsoft-com:office:spreadsheet\">\
        <Styles><Style ss:ID=\"s1\"><NumberFormat ss:Format=\"Percent\"/></Style></Styles>\
        <Worksheet ss:Name=\"Prices\"><Table><Row><Cell><Data ss:Type=\"String\">Bird</Data></Cell>\
        <Cell><Data ss:Type=\"String\">Price</Data></Cell></Row>\
        <Row ss:Index=\"4\"><Cell ss:MergeAcross=\"1\"><Data ss:Type=\"String\">King<B>fisher</B> &amp; co</Data></Cell>\
        <Cell><Data ss:Type=\"Number\">4711</Data></Cell><Cell ss:Index=\"6\" ss:StyleID=\"s1\"><Data ss:Type=\"Number\">0.21</Data>\
        <Comment><ss:Data>As agreed</ss:Data></Comment></Cell></Row>\
        <Row><Cell/><Cell><Data ss:Type=\"DateTime\">2024-03-05T00:00:00.000</Data></Cell>\
        <Cell><Data ss:Type=\"Boolean\">1</Data></Cell></Row></Table></Worksheet>\
        <Worksheet ss:Name=\"Birds\"><Table><Row><Cell><Data ss:Type=\"String\">Heron</Data></Cell></Row></Table></Worksheet></Workbook>";
    for name in ["a.xls", "a.xml"] {
        let document = read_office(name, book);
        assert_eq!((document.format, document.pages), (DocumentFormat::Workbook, Some(2)));
        let rows: Vec<_> = document.segments.iter().map(|part| (part.text.as_str(), part.lines)).collect();
        assert_eq!(
            rows,
            [
                ("Bird\tPrice", Some((1, 1))),
                ("Kingfisher & co\t\t4711\t\t\t21.00%\n\t2024-03-05\ttrue", Some((4, 5))),
                ("As agreed", None),
                ("Heron", Some((1, 1))),
            ]
        );
    }
    assert_eq!(document_text("a.xls", utf16_with_mark(book, false)), document_text("a.xls", book));
    let page = "<table><tr><td>Bird<td>Price<tr><td>Kingfisher<td>4711</table>";
    assert_eq!(document_text("a.xls", page), "Bird\tPrice\nKingfisher\t4711");
    assert_eq!(
        document_text("a.xls", format!("<meta charset=utf-8>{page}")),
        "Bird\tPrice\nKingfisher\t4711"
    );
}

#[test]
fn word_xml_documents_are_read() {
    let body = "<w:body><wx:sect><w:p><w:pPr><w:pStyle w:val=\"H\"/></w:pPr><w:r><w:t>Order</w:t></w:r></w:p>\
                <w:p><w:r><w:t>Kingfisher 4711</w:t></w:r></w:p>\
                <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>\
                </wx:sect></w:body>";
    let styles = "<w:styles><w:style w:type=\"paragraph\" w:styleId=\"H\"><w:name w:val=\"heading 1\"/></w:style></w:styles>";
    let old = format!(
        "<?xml version=\"1.0\"?><?mso-application progid=\"Word.Document\"?>\
         <w:wordDocument xmlns:w=\"http://schemas.microsoft.com/office/word/2003/wordml\">{styles}{body}</w:wordDocument>"
    );
    for name in ["a.doc", "a.xml"] {
        let document = read_office(name, &old);
        assert_eq!(document.segments[0].text, "Order\nKingfisher 4711\na\tb");
        assert_eq!(document.segments[0].heading.as_deref(), Some("Order"));
    }
    let package = "<?xml version=\"1.0\"?><?mso-application progid=\"Word.Document\"?>\
        <pkg:package xmlns:pkg=\"http://schemas.microsoft.com/office/2006/xmlPackage\">\
        <pkg:part pkg:name=\"/_rels/.rels\" pkg:contentType=\"x\"><pkg:xmlData><Relationships>\
        <Relationship Id=\"r1\" Type=\"x/officeDocument\" Target=\"word/main.xml\"/></Relationships></pkg:xmlData></pkg:part>\
        <pkg:part pkg:name=\"/word/main.xml\" pkg:contentType=\"x\"><pkg:xmlData><w:document xmlns:w=\"x\"><w:body>\
        <w:p><w:r><w:t>Kingfisher order 4711</w:t></w:r></w:p></w:body></w:document></pkg:xmlData></pkg:part>\
        <pkg:part pkg:name=\"/word/media/a.bin\" pkg:contentType=\"x\"><pkg:binaryData>QUJD</pkg:binaryData></pkg:part></pkg:package>";
    let document = read_office("a.xml", package);
    assert_eq!(
        (document.format, document.segments[0].text.as_str()),
        (DocumentFormat::Docx, "Kingfisher order 4711")
    );
}

fn math_run(text: &str) -> String {
    format!("<m:r><w:rPr><w:i/></w:rPr><m:t>{text}</m:t></m:r>")
}

fn math_argument(name: &str, content: &str) -> String {
    format!("<m:{name}>{content}</m:{name}>")
}

#[test]
fn equations_keep_what_their_layout_says() {
    let brackets =
        |content: &str| format!("<m:d><m:dPr><m:ctrlPr/></m:dPr>{}</m:d>", math_argument("e", content));
    let power = math_argument(
        "sSup",
        &(math_argument("e", &brackets(&math_run("1+x"))) + &math_argument("sup", &math_run("n"))),
    );
    let fraction =
        math_argument("f", &(math_argument("num", &math_run("a")) + &math_argument("den", &math_run("b+c"))));
    let longer = math_argument(
        "sSup",
        &(math_argument("e", &math_run("e")) + &math_argument("sup", &math_run("n+1"))),
    );
    let sum = format!(
        "<m:nary><m:naryPr><m:chr m:val=\"∑\"/></m:naryPr>{}{}{}</m:nary>",
        math_argument("sub", &math_run("i=1")),
        math_argument("sup", &math_run("n")),
        math_argument(
            "e",
            &math_argument(
                "sSub",
                &(math_argument("e", &math_run("x")) + &math_argument("sub", &math_run("i")))
            )
        )
    );
    let root =
        math_argument("rad", &(math_argument("deg", &math_run("3")) + &math_argument("e", &math_run("27"))));
    let square = format!(
        "<m:rad><m:radPr><m:degHide m:val=\"1\"/></m:radPr><m:deg/>{}</m:rad>",
        math_argument("e", &math_run("2"))
    );
    let choose = format!(
        "<m:f><m:fPr><m:type m:val=\"noBar\"/></m:fPr>{}{}</m:f>",
        math_argument("num", &math_run("n")),
        math_argument("den", &math_run("k"))
    );
    let sets = format!(
        "<m:d><m:dPr><m:begChr m:val=\"[\"/><m:sepChr m:val=\",\"/><m:endChr m:val=\")\"/></m:dPr>{}{}</m:d>",
        math_argument("e", &math_run("0")),
        math_argument("e", &math_run("1"))
    );
    let cells =
        math_argument("mr", &(math_argument("e", &math_run("a")) + &math_argument("e", &math_run("b"))));
    let matrix = brackets(&math_argument("m", &format!("{cells}{cells}")));
    for (equation, written) in [
        (power, "(1+x)^n"),
        (fraction, "(a)/(b+c)"),
        (longer, "e^(n+1)"),
        (sum, "∑_(i=1)^n x_i"),
        (root, "√(3&27)"),
        (square, "√(2)"),
        (choose, "(n¦k)"),
        (sets, "[0,1)"),
        (matrix, "(a, b; a, b)"),
    ] {
        let inside = format!("<w:r><w:t xml:space=\"preserve\">so </w:t></w:r><m:oMath>{equation}</m:oMath>");
        assert_eq!(
            document_text("a.docx", docx_with_body(&format!("<w:p>{inside}</w:p>"))),
            format!("so {written}")
        );
        let alone = format!("<w:p><m:oMathPara><m:oMath>{equation}</m:oMath></m:oMathPara></w:p>");
        assert_eq!(document_text("a.docx", docx_with_body(&alone)), written);
    }
    let deep = format!("{}x{}", "<m:e>".repeat(500), "</m:e>".repeat(500));
    let deep = format!("<w:p><m:oMath>{deep}</m:oMath><w:r><w:t>after</w:t></w:r></w:p>");
    assert!(document_text("a.docx", docx_with_body(&deep)).ends_with("after"));
}

#[test]
fn embedded_files_read_or_named() {
    let relations = "<Relationships><Relationship Id=\"r1\" Type=\"x/package\" Target=\"embeddings/inner.docx\"/>\
                     <Relationship Id=\"r2\" Type=\"x/oleObject\" Target=\"embeddings/object.bin\"/></Relationships>";
    let document = "<w:body><w:p><w:r><w:t>Order</w:t><w:object><o:OLEObject ProgID=\"Word.Document\" r:id=\"r1\"/></w:object></w:r></w:p>\
                    <w:p><w:r><w:object><o:OLEObject ProgID=\"Package\" r:id=\"r2\"/></w:object></w:r></w:p>\
                    <w:p><w:r><w:t>Drawing</w:t><w:drawing><wp:docPr id=\"1\" name=\"a\" descr=\"A kingfisher on a branch\"/>\
                    <pic:cNvPr id=\"1\" name=\"a\" descr=\"A kingfisher on a branch\"/></w:drawing></w:r></w:p>\
                    <w:p><w:r><w:drawing><wp:docPr id=\"2\" name=\"b\" descr=\"photo.png\"/></w:drawing></w:r></w:p></w:body>";
    let inner = docx_with_body("<w:p><w:r><w:t>Kingfisher 4711</w:t></w:r></w:p>");
    let outer = zip_archive([
        ("word/document.xml", document.as_bytes().to_vec()),
        ("word/_rels/document.xml.rels", relations.as_bytes().to_vec()),
        ("word/embeddings/inner.docx", inner),
        ("word/embeddings/object.bin", b"\0\x01\x02\x03".to_vec()),
    ]);
    let read = document_text("a.docx", outer);
    let lines: Vec<&str> = read.lines().collect();
    assert_eq!(lines[..3], ["Order", "Embedded file: inner.docx", "Kingfisher 4711"]);
    assert_eq!(lines[3], "Embedded file: object.bin");
    assert!(lines[4].starts_with("(not read: "), "{read}");
    assert_eq!(lines[5..], ["Drawing", "Picture: A kingfisher on a branch"]);
}

/// An archive with two files of one name, by the name that the second has in its list.
fn of_one_name() -> Vec<u8> {
    let mut bytes = zip_archive([("a.txt", "The first kingfisher."), ("b.txt", "The second heron.")]);
    let list = bytes.windows(4).position(|mark| mark == b"PK\x01\x02").expect("a list");
    for at in list..bytes.len() - 5 {
        if bytes[at..].starts_with(b"b.txt") {
            (&mut bytes[at..]).write_all(b"a.txt").expect("as long");
        }
    }
    bytes
}

#[test]
fn zip_same_named_files_both_read() {
    let document = read_office("a.zip", of_one_name());
    let mut names: Vec<_> = document
        .segments
        .iter()
        .filter_map(|part| part.inner.as_ref())
        .map(|file| file.name.as_str())
        .collect();
    names.dedup();
    assert_eq!(names, ["a.txt", "a (2).txt"]);
    let text: String = document.segments.iter().map(|part| part.text.as_str()).collect();
    assert!(text.contains("The first kingfisher.") && text.contains("The second heron."), "{text}");
    assert!(document.unread_files.is_empty());
}

const FORMULA: &str = "<math xmlns=\"http://www.w3.org/1998/Math/MathML\"><semantics><mrow><msup><mrow><mo>(</mo><mn>1</mn><mo>+</mo>\
    <mi>x</mi><mo>)</mo></mrow><mi>n</mi></msup><mo>=</mo><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mi>c</mi></mrow></mfrac></mrow>\
    <annotation encoding=\"StarMath 5.0\">(1+x)^n = {a} over {b+c}</annotation></semantics></math>";

#[test]
fn odf_pictures_and_objects_in_place() {
    let frame = |inside: &str| format!("<draw:frame>{inside}</draw:frame>");
    let picture = frame(
        "<draw:image xlink:href='Pictures/1.png'/><svg:title>pic.png</svg:title><svg:desc>A heron by the lake</svg:desc>",
    );
    let object = |number: u32| frame(&format!("<draw:object xlink:href='./Object {number}'/>"));
    let content = format!(
        "<office:document-content><office:body><office:text><text:p>Before{picture} after.</text:p>\
         <text:p>The formula {} holds.</text:p><text:p>{}{}</text:p><text:p>The end.</text:p></office:text></office:body>\
         </office:document-content>",
        object(1),
        object(2),
        object(3)
    );
    let workbook = "<office:document-content><office:body><office:spreadsheet><table:table table:name='S'><table:table-row>\
        <table:table-cell office:value-type='string'><text:p>Rent</text:p></table:table-cell><table:table-cell office:value-type='float' \
        office:value='4711'><text:p>4711</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet></office:body>\
        </office:document-content>";
    let chart = "<office:document-content><office:body><office:chart><chart:chart><chart:title><text:p>Rents by year</text:p></chart:title>\
        </chart:chart></office:chart></office:body></office:document-content>";
    let parts = |kind: &str, content: &str| {
        zip_archive([
            ("mimetype", format!("application/vnd.oasis.opendocument.{kind}")),
            ("content.xml", content.to_owned()),
            ("Object 1/content.xml", FORMULA.to_owned()),
            ("Object 2/content.xml", workbook.to_owned()),
            ("Object 3/content.xml", chart.to_owned()),
        ])
    };
    assert_eq!(
        document_text("a.odt", parts("text", &content)),
        "Before after.\nPicture: A heron by the lake\nThe formula (1+x)^n=(a)/(b+c) holds.\nEmbedded file: Object 2\nRent\t4711\n\
         Rents by year\nThe end."
    );
    let sheet = format!(
        "<office:document-content><office:body><office:spreadsheet><table:table table:name='S'><table:table-row><table:table-cell \
         office:value-type='string'><text:p>Herons</text:p>{picture}{}</table:table-cell></table:table-row></table:table>\
         </office:spreadsheet></office:body></office:document-content>",
        object(2)
    );
    let workbook = document_text("a.ods", parts("spreadsheet", &sheet));
    assert_eq!(
        workbook,
        "Herons\nPicture: A heron by the lake\nEmbedded file: Object 2\nRent\t4711".replace('\t', " ")
    );
}

#[test]
fn xlsx_pictures_and_files_are_read() {
    let relation = |id: &str, kind: &str, target: &str| {
        format!(
            "<Relationship Id=\"{id}\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}\" Target=\"{target}\"/>"
        )
    };
    let relations = |inside: &[String]| {
        format!(
            "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{}</Relationships>",
            inside.concat()
        )
    };
    let book = "<workbook xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\" \
                xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\"><sheets>\
                <sheet name=\"S\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>";
    let sheet = "<worksheet xmlns=\"http://schemas.openxmlformats.org/spreadsheetml/2006/main\"><sheetData>\
                 <row r=\"1\"><c r=\"A1\" t=\"inlineStr\"><is><t>Herons</t></is></c></row></sheetData></worksheet>";
    let drawing = "<xdr:wsDr><xdr:pic><xdr:nvPicPr><xdr:cNvPr id=\"2\" name=\"1\" descr=\"A heron by the lake\"/></xdr:nvPicPr></xdr:pic>\
                   <xdr:sp><xdr:txBody><a:p><a:r><a:t>A text box</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:wsDr>";
    let workbook = zip_archive([
        ("_rels/.rels", relations(&[relation("r1", "officeDocument", "xl/workbook.xml")]).into_bytes()),
        ("xl/workbook.xml", book.into()),
        (
            "xl/_rels/workbook.xml.rels",
            relations(&[relation("r1", "worksheet", "worksheets/sheet1.xml")]).into_bytes(),
        ),
        ("xl/worksheets/sheet1.xml", sheet.into()),
        (
            "xl/worksheets/_rels/sheet1.xml.rels",
            relations(&[
                relation("r1", "drawing", "../drawings/drawing1.xml"),
                relation("r2", "package", "../embeddings/terms.docx"),
            ])
            .into_bytes(),
        ),
        ("xl/drawings/drawing1.xml", drawing.into()),
        (
            "xl/embeddings/terms.docx",
            docx_with_body("<w:p><w:r><w:t>Notice is three months.</w:t></w:r></w:p>"),
        ),
    ]);
    assert_eq!(
        document_text("a.xlsx", workbook),
        "Herons\nPicture: A heron by the lake\nA text box\nEmbedded file: terms.docx\nNotice is three months."
    );
}

#[test]
fn html_pictures_have_alternative_text() {
    let page = "<p><img src=a.png alt='A heron by the lake'></p><p>See <img src=b.gif alt='the red arrow'> here<img alt='logo.png'>.</p>\
                <figure><img alt=''><figcaption>Figure 1: Nests</figcaption></figure>";
    assert_eq!(
        document_text("a.html", page),
        "Picture: A heron by the lake\nSee (Picture: the red arrow) here.\nFigure 1: Nests"
    );
}

#[test]
fn html_equations_match_office_ones() {
    let row = |inside: &str| format!("<p>So <math>{inside}</math> holds.</p>");
    let cases = [
        (FORMULA, "(1+x)^n=(a)/(b+c)"),
        (
            "<munderover><mo>&sum;</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><msub><mi>x</mi><mi>i</mi></msub>",
            "∑_(i=1)^n x_i",
        ),
        ("<msqrt><mn>2</mn></msqrt><mo>+</mo><mroot><mn>27</mn><mn>3</mn></mroot>", "√(2)+√(3&27)"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a,b)"),
        ("<mi>sin</mi><mo>&ApplyFunction;</mo><mi>x</mi>", "sin x"),
        ("<mover accent='true'><mi>x</mi><mo>^</mo></mover>", "x\u{302}"),
        (
            "<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable>",
            "(1, 2; 3, 4)",
        ),
        (
            "<semantics><mrow></mrow><annotation encoding='application/x-tex'>x^2</annotation></semantics>",
            "x^2",
        ),
    ];
    for (math, written) in cases {
        assert_eq!(document_text("a.html", row(math)), format!("So {written} holds."));
    }
    // KaTeX draws the same equation again.
    let drawn_twice = "<p>So <span class=katex><span class=katex-mathml><math><mi>x</mi></math></span>\
                       <span class=katex-html><span><span>x</span></span></span></span> holds.</p>";
    assert_eq!(document_text("a.html", drawn_twice), "So x holds.");
    for odd in ["<p>a<math><mi>b</mi><p>c", "<p>a<math><mrow><mi>b</mi></math><p>c</math>"] {
        assert_eq!(document_text("a.html", odd), "ab\nc", "the page goes on");
    }
    let deep = format!("<math>{}<mi>x</mi></math><p>y", "<mrow>".repeat(100_000));
    assert!(document_text("a.html", deep).ends_with('y'));
}

#[test]
fn drop_cap_begins_its_paragraph() {
    let run = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let paragraph = |text: &str| format!("<w:p>{}</w:p>", run(text));
    let cap = |kind: &str, text: &str| {
        let frame = format!("<w:pPr><w:framePr w:dropCap=\"{kind}\" w:lines=\"3\"/></w:pPr>");
        format!("<w:p>{frame}{}</w:p>", run(text))
    };
    let table = format!("<w:tbl><w:tr><w:tc>{}{}</w:tc></w:tr></w:tbl>", cap("drop", "C"), paragraph("ell"));
    for (body, expected) in [
        (cap("drop", "W") + &paragraph("hen it rains.") + &paragraph("Next."), "When it rains.\nNext."),
        (cap("margin", "W") + "<w:p/>" + &paragraph("hen"), "When"),
        (cap("none", "Frame") + &paragraph("Text"), "Frame\nText"),
        (paragraph("First") + &cap("drop", "W"), "First\nW"),
        (cap("drop", "W") + &table, "W\nCell"),
    ] {
        assert_eq!(document_text("a.docx", docx_with_body(&body)), expected, "{body}");
    }
    let own = "<style:style style:name=\"D\"><style:paragraph-properties><style:drop-cap style:lines=\"3\"/>\
               </style:paragraph-properties></style:style>";
    let content = format!(
        "<office:document-content><office:automatic-styles>{own}</office:automatic-styles><office:body><office:text>\
         <text:p text:style-name=\"D\"><text:span>W</text:span>hen it rains.</text:p></office:text></office:body>\
         </office:document-content>"
    );
    let odt = zip_archive([
        ("mimetype", "application/vnd.oasis.opendocument.text".to_owned()),
        ("content.xml", content),
    ]);
    assert_eq!(document_text("a.odt", odt), "When it rains.");
}
