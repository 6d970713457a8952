//! Documents of Pages, Numbers and Keynote: their content, and hostile ones.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/iwork.rs"]
mod iwork;

use std::path::Path;

use archive::zip_archive;
use documents::{DocumentFormat, DocumentSegment, ExtractError, Extracted, extract_bytes};
use domain::unread::UnreadReason;
use iwork::{IworkMessage, iwork_document, new_message, pack_objects};

const TEXT: u64 = 2001;
const STYLE: u64 = 2022;

fn read_iwork(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it is read")
}

/// Returns the segments of a document: the page, the heading, and the text.
fn segment_parts(extracted: &Extracted) -> Vec<(Option<u32>, &str, &str)> {
    extracted.segments.iter().map(parts_of_segment).collect()
}

fn parts_of_segment(segment: &DocumentSegment) -> (Option<u32>, &str, &str) {
    (segment.page, segment.heading.as_deref().unwrap_or_default(), &segment.text)
}

fn text_storage(content: &str) -> IworkMessage {
    new_message().with_bytes(3, content)
}

/// A text document with this body and these further objects.
fn pages_document(body: IworkMessage, others: &[(u64, u64, IworkMessage)]) -> Vec<u8> {
    let root = new_message().with_reference(3, 30).with_reference(4, 2);
    iwork_document(&[&[(1, 10_000, root), (2, TEXT, body)][..], others].concat())
}

#[test]
fn pages_headings_notes_tables_in_place() {
    let style = |name: &str| new_message().with_message(1, new_message().with_bytes(1, name));
    let changed = new_message().with_message(1, new_message().with_reference(3, 10));
    let deleted = "gone ";
    let body = format!("Lease\nThe 🏠 rent is due\u{e} monthly. {deleted}\nSee \u{fffc}\nEnd\n");
    let place = |of: &str| body[..body.find(of).expect("it is there")].encode_utf16().count() as u64;
    let table = new_message().with_message(1, new_message().with_reference(2, 22));
    let store = new_message()
        .with_reference(4, 23)
        .with_message(3, new_message().with_message(1, new_message().with_reference(2, 24)));
    let cell = [4, 3, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    let row = new_message().with_number(1, 0).with_bytes(3, cell).with_bytes(4, [0xff, 0xff, 0, 0]);
    let storage = text_storage(&body)
        .with_attributes(5, &[(0, 11), (place("The"), 12)])
        .with_attributes(9, &[(place("\u{fffc}"), 20)])
        .with_attributes(16, &[(place("\u{e}"), 40)])
        .with_attributes(23, &[(place("rent"), 50)])
        .with_attributes(17, &[(0, 60)])
        .with_message(
            22,
            new_message()
                .with_message(1, new_message().with_number(1, place(deleted)).with_reference(2, 70))
                .with_message(1, new_message().with_number(1, place("\nSee"))),
        );
    let document = pages_document(
        storage,
        &[
            (10, STYLE, style("Heading 1")),
            (11, STYLE, changed),
            (12, STYLE, style("Body")),
            (20, 2003, new_message().with_reference(1, 21)),
            (21, 6007, table),
            (22, 6001, new_message().with_bytes(8, "Deposits").with_number(22, 1).with_message(4, store)),
            (
                23,
                6005,
                new_message().with_message(3, new_message().with_number(1, 7).with_bytes(3, "two rents")),
            ),
            (24, 6002, new_message().with_message(5, row)),
            (
                30,
                10_012,
                new_message()
                    .with_message(1, new_message().with_message(4, new_message().with_reference(1, 31))),
            ),
            (31, 2011, new_message().with_reference(4, 32)),
            (32, TEXT, text_storage("In a box")),
            (40, 2008, new_message().with_reference(2, 41)),
            (41, TEXT, text_storage("in advance")),
            (50, 2013, new_message().with_reference(1, 51)),
            (51, 3056, new_message().with_bytes(1, "Since when?").with_reference(3, 52)),
            (52, 212, new_message().with_bytes(1, "Ada")),
            (60, 10_011, new_message().with_reference(23, 61)),
            (61, 10_143, new_message().with_reference(1, 62).with_reference(2, 62)),
            (62, TEXT, text_storage("Confidential")),
            (70, 2060, new_message()),
        ],
    );
    let extracted = read_iwork("lease.pages", &document);
    assert_eq!((extracted.format, extracted.lines), (DocumentFormat::Pages, Some(9)));
    let lines = [
        "Lease",
        "The 🏠 rent is due (in advance) monthly.",
        "Comment by Ada: Since when?",
        "See",
        "Deposits",
        "two rents",
        "End",
        "In a box",
    ];
    assert_eq!(
        segment_parts(&extracted),
        [(None, "Lease", lines.join("\n").as_str()), (None, "", "Confidential")]
    );
}

#[test]
fn keynote_slides_are_pages_with_notes() {
    let placeholder = |text: u64| new_message().with_message(1, new_message().with_reference(4, text));
    let slide = |id: u64| {
        new_message()
            .with_reference(5, id + 1)
            .with_reference(42, id + 3)
            .with_reference(42, id + 3)
            .with_reference(27, id + 6)
    };
    let parts = |id: u64, title: &str, body: &str, note: &str| {
        vec![
            (id, 5, slide(id)),
            (id + 1, 7, placeholder(id + 2)),
            (id + 2, TEXT, text_storage(title)),
            // A group with a shape.
            (id + 3, 3008, new_message().with_reference(2, id + 4).with_reference(2, id + 3)),
            (id + 4, 2011, new_message().with_reference(4, id + 5)),
            (id + 5, TEXT, text_storage(body)),
            (id + 6, 15, new_message().with_reference(1, id + 7)),
            (id + 7, TEXT, text_storage(note)),
        ]
    };
    let tree = new_message().with_reference(2, 3).with_reference(2, 4);
    let mut objects = vec![
        (1, 1, new_message().with_reference(2, 2)),
        (2, 2, new_message().with_message(3, tree)),
        (3, 4, new_message().with_reference(2, 200)),
        (4, 4, new_message().with_reference(2, 100)),
    ];
    objects.extend(parts(100, "Second", "of two", ""));
    objects.extend(parts(200, "First", "of all\nlines", "Say hello"));
    let extracted = read_iwork("talk.key", &iwork_document(&objects));
    assert_eq!((extracted.format, extracted.pages), (DocumentFormat::Presentation, Some(2)));
    assert_eq!(
        segment_parts(&extracted),
        [
            (Some(1), "First", "First\nof all\nlines\nNotes:\nSay hello"),
            (Some(2), "Second", "Second\nof two")
        ]
    );
}

#[test]
fn iwork_images_follow_their_text() {
    let image = |data: u64| new_message().with_message(11, new_message().with_number(1, data));
    let file = |id: u64, name: &str| {
        new_message().with_number(1, id).with_bytes(2, "digest").with_bytes(3, "old.png").with_bytes(4, name)
    };
    // Other lists have the same numbers.
    let component = new_message().with_number(1, 7).with_bytes(2, "Document").with_bytes(3, "Document.iwa");
    let metadata = new_message()
        .with_message(3, component)
        .with_message(4, file(7, "bird-1.png"))
        .with_message(4, file(8, "none.png"));
    let objects = [
        (1, 10_000, new_message().with_reference(4, 2)),
        (2, TEXT, text_storage("Look:\n\u{fffc}\n\u{fffc}\nEnd").with_attributes(9, &[(6, 3), (8, 4)])),
        (3, 2003, new_message().with_reference(1, 5)),
        (4, 2003, new_message().with_reference(1, 6)),
        (5, 3005, image(7)),
        (6, 3005, image(8)),
        (9, 11_006, metadata),
    ];
    let picture = include_bytes!("fixtures/code_word.png");
    let document =
        zip_archive([("Index/Document.iwa", pack_objects(&objects)), ("Data/bird-1.png", picture.to_vec())]);
    let images = read_iwork("a.pages", &document).images;
    let places: Vec<_> = images.iter().map(|image| (image.part.as_str(), image.line)).collect();
    assert_eq!(places, [("Data/bird-1.png", Some(1))]);
}

#[test]
fn tables_of_numbers_are_sheets() {
    let bytes = include_bytes!("fixtures/birds.numbers");
    let extracted = read_iwork("birds.numbers", bytes);
    assert_eq!((extracted.format, extracted.pages), (DocumentFormat::Workbook, Some(3)));
    assert_eq!(
        segment_parts(&extracted),
        [
            (
                Some(1),
                "Birds, Sightings: Bird | Number | Seen | Sure",
                "Bird\tNumber\tSeen\tSure\nbittern\t3\t2024-03-05\tTRUE\ncrake\t1.25\t2024-04-06 07:30:00\tFALSE\nDrosselrohrsänger\t-12000\t2024-05-01\tTRUE"
            ),
            (Some(2), "Birds, Places: Place | Depth", "Place\tDepth\nreed bed\t1:02:00")
        ]
    );
}

#[test]
fn iwork_folder_and_inner_archive_read() {
    let objects = pack_objects(&[
        (1, 10_000, new_message().with_reference(4, 2)),
        (2, TEXT, text_storage("A reed warbler")),
    ]);
    let index = zip_archive([("Index/Document.iwa", objects)]);
    let folder =
        zip_archive([("a.pages/Index.zip", index), ("a.pages/Metadata/Properties.plist", Vec::new())]);
    assert_eq!(segment_parts(&read_iwork("a.pages.zip", &folder))[0].2, "A reed warbler");
    // Several documents are an archive of them.
    let two = zip_archive([("a.pages/Index/Document.iwa", "x"), ("b.pages/Index/Document.iwa", "x")]);
    assert_eq!(read_iwork("two.zip", &two).format, DocumentFormat::Archive);
}

/// A document before 2013 with this content.
fn old_iwork_document(part: &str, content: &str) -> Vec<u8> {
    zip_archive([(part, content), ("buildVersionHistory.plist", "")])
}

#[test]
fn documents_before_2013_are_read() {
    let pages = "<sl:document xmlns:sl='l' xmlns:sf='f' xmlns:sfa='a'>\
        <sl:section-prototypes><sf:p>Sample</sf:p></sl:section-prototypes>\
        <sf:stylesheet><sf:paragraphstyle sfa:ID='P-1' sf:name='Heading'/></sf:stylesheet>\
        <sf:headers><sf:p>Confidential</sf:p></sf:headers>\
        <sf:annotation><sf:p>Since when?</sf:p></sf:annotation>\
        <sf:text-body><sf:p sf:style='P-1'>Lease<sf:br/></sf:p>\
        <sf:p>The rent<sf:ghost-text>Lorem</sf:ghost-text> is<sf:lnbr/>due &amp; paid<sf:br/></sf:p></sf:text-body></sl:document>";
    assert_eq!(
        segment_parts(&read_iwork("a.pages", &old_iwork_document("index.xml", pages))),
        [
            (None, "", "Comment: Since when?"),
            (None, "Lease", "Lease\nThe rent is due & paid"),
            (None, "", "Confidential")
        ]
    );
    let keynote = "<key:presentation xmlns:key='k' xmlns:sf='f'><key:master-slides><sf:p>Sample</sf:p></key:master-slides>\
        <key:slide><key:title-placeholder><sf:p>First</sf:p></key:title-placeholder><key:notes><sf:p>Hello</sf:p></key:notes></key:slide>\
        <key:slide><key:body-placeholder><sf:p>Second</sf:p></key:body-placeholder></key:slide></key:presentation>";
    assert_eq!(
        segment_parts(&read_iwork("a.key", &old_iwork_document("index.apxl", keynote))),
        [(Some(1), "First", "First\nNotes:\nHello"), (Some(2), "", "Second")]
    );
    let numbers = "<ls:document xmlns:ls='l' xmlns:sf='f' xmlns:sfa='a'><ls:workspace ls:workspace-name='May'>\
        <sf:tabular-model sf:name='Rents'><sf:grid><sf:datasource>\
        <sf:t sf:ct='0'><sf:ct sfa:s='Flat'/></sf:t><sf:t><sf:ct sfa:s='Rent'/></sf:t>\
        <sf:pm sf:ct='255'><sf:menu-choices><sf:t sfa:ID='T-1'><sf:ct sfa:s='Attic'/></sf:t><sf:t sfa:ID='T-2'><sf:ct sfa:s='Cellar'/></sf:t>\
        </sf:menu-choices><sf:proxied-cell-ref sfa:IDREF='T-2'/></sf:pm>\
        <sf:f><sf:fo sf:fs='=1'/><sf:r><sf:rn sf:v='812.50000000000001'/></sf:r></sf:f>\
        <sf:d sf:ct='257' sf:cell-date='276048000'/>\
        </sf:datasource></sf:grid></sf:tabular-model><sf:p>In euros</sf:p></ls:workspace></ls:document>";
    assert_eq!(
        segment_parts(&read_iwork("a.numbers", &old_iwork_document("index.xml", numbers))),
        [
            (Some(1), "May, Rents: Flat | Rent", "Flat\tRent\nCellar\t812.5\n\t\t2009-10-01"),
            (Some(1), "May, Rents", "In euros")
        ]
    );
}

#[test]
fn iwork_encrypted_and_damaged_named() {
    let reason = |bytes: &[u8]| {
        extract_bytes(Path::new("a.pages"), bytes).map(|_| ()).map_err(|error| error.unread_reason())
    };
    let encrypted = zip_archive([("Index/Document.iwa", vec![1, 2, 3]), (".iwph", Vec::new())]);
    assert_eq!(reason(&encrypted), Err(UnreadReason::Encrypted));
    let document = pages_document(text_storage("A text"), &[]);
    assert_eq!(reason(&document), Ok(()));
    let empty = zip_archive([("Index/Document.iwa", "")]);
    assert_eq!(reason(&empty), Err(UnreadReason::Broken));
    let damaged = zip_archive([("Index/Document.iwa", [0, 3, 0, 0, 5, 0xfc, 0xff])]);
    assert_eq!(reason(&damaged), Err(UnreadReason::Broken));
}

#[test]
fn hostile_references_end() {
    // Texts that anchor each other, groups in themselves, and styles that change each other.
    let anchored =
        |id: u64| text_storage("\u{fffc}x").with_attributes(9, &[(0, id)]).with_attributes(5, &[(0, 90)]);
    let mut objects = vec![
        (2, TEXT, anchored(1_000)),
        (90, STYLE, new_message().with_message(1, new_message().with_reference(3, 91))),
        (91, STYLE, new_message().with_message(1, new_message().with_reference(3, 90))),
        (92, 2003, new_message().with_reference(1, 93)),
        (93, 3008, new_message().with_reference(2, 93).with_reference(2, 92)),
    ];
    for id in (1_000..40_000).step_by(3) {
        objects.push((id, 2003, new_message().with_reference(1, id + 1)));
        objects.push((id + 1, 2011, new_message().with_reference(4, id + 2)));
        objects.push((id + 2, TEXT, anchored(id + 3)));
    }
    let root = (1, 10_000, new_message().with_reference(4, 2));
    let extracted = read_iwork("a.pages", &iwork_document(&[&[root][..], &objects].concat()));
    assert!(segment_parts(&extracted)[0].2.starts_with("x\nx"));
    // Blocks that declare a size above the limit.
    let block = [0, 6, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    let bomb = zip_archive([("Index/Document.iwa", block)]);
    let error = extract_bytes(Path::new("a.pages"), &bomb).expect_err("it is too large");
    assert!(matches!(error, ExtractError::Bomb { .. }), "{error}");
}

#[test]
fn numbers_cells_sharing_text_are_bounded() {
    let choice = format!("<sf:t sfa:ID='T'><sf:ct sfa:s='{}'/></sf:t>", "x".repeat(8_000));
    let again = "<sf:pm sf:ct='0'><sf:proxied-cell-ref sfa:IDREF='T'/></sf:pm>".repeat(10_000);
    for (root, folder) in [("ls:document", "ls:workspace"), ("sl:document", "sf:text-body")] {
        let document = format!(
            "<{root}><{folder}><sf:tabular-model><sf:datasource><sf:pm sf:ct='0'><sf:menu-choices>{choice}</sf:menu-choices>\
             <sf:proxied-cell-ref sfa:IDREF='T'/></sf:pm>{again}</sf:datasource></sf:tabular-model></{folder}></{root}>"
        );
        let extracted = read_iwork("a.numbers", &old_iwork_document("index.xml", &document));
        let bytes: usize = extracted.segments.iter().map(|segment| segment.text.len()).sum();
        assert!(bytes <= 8 * 1024 * 1024 && extracted.truncated, "{bytes} bytes of {root}");
    }
}

#[test]
fn pages_marks_sharing_text_are_bounded() {
    let long = "x".repeat(8_000);
    let marks = 3_000;
    let shared: Vec<(u64, u64)> = (0..marks).map(|place| (place, 40)).collect();
    let body = text_storage(&"\u{e}".repeat(marks as usize))
        .with_attributes(16, &shared)
        .with_attributes(23, &(0..marks).map(|place| (place, 50)).collect::<Vec<_>>());
    let others = [
        (40, 2008, new_message().with_reference(2, 41)),
        (41, TEXT, text_storage(&long)),
        (50, 2013, new_message().with_reference(1, 51)),
        (51, 3056, new_message().with_bytes(1, &long)),
    ];
    let extracted = read_iwork("a.pages", &pages_document(body, &others));
    let bytes: usize = extracted.segments.iter().map(|segment| segment.text.len()).sum();
    assert!((4 << 20..=8 << 20).contains(&bytes), "{bytes} bytes");
    // One row whose cells are one text.
    let table = new_message().with_message(1, new_message().with_reference(2, 22));
    let store = new_message()
        .with_reference(4, 23)
        .with_message(3, new_message().with_message(1, new_message().with_reference(2, 24)));
    let cell = [4, 3, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    let row = new_message().with_number(1, 0).with_bytes(3, cell).with_bytes(4, [0, 0].repeat(500));
    let table = [
        (20, 2003, new_message().with_reference(1, 21)),
        (21, 6007, table),
        (22, 6001, new_message().with_number(22, 1).with_message(4, store)),
        (
            23,
            6005,
            new_message().with_message(3, new_message().with_number(1, 7).with_bytes(3, "y".repeat(1 << 20))),
        ),
        (24, 6002, new_message().with_message(5, row)),
    ];
    let extracted = read_iwork(
        "a.pages",
        &pages_document(text_storage("\u{fffc}").with_attributes(9, &[(0, 20)]), &table),
    );
    let line = extracted.segments[0].text.lines().next().expect("a row");
    let cells: Vec<&str> = line.split('\t').collect();
    assert!(cells.len() > 60 && cells.iter().all(|cell| cell.len() <= 128 * 1024), "{} cells", cells.len());
}
