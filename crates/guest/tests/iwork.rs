//! Documents of Pages, Numbers and Keynote: what is read of them, and hostile ones.

#[path = "support/archive.rs"]
mod archive;
#[path = "support/iwork.rs"]
mod iwork;

use std::path::Path;

use archive::archive;
use domain::unread::UnreadReason;
use guest::documents::{ExtractError, Extracted, Format, Segment, extract_bytes};
use iwork::{Message, document, message, packed};

const TEXT: u64 = 2001;
const STYLE: u64 = 2022;

fn read(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it is read")
}

/// Returns the segments of a document: the page, the heading, and the text.
fn segments(extracted: &Extracted) -> Vec<(Option<u32>, &str, &str)> {
    extracted.segments.iter().map(parts).collect()
}

fn parts(segment: &Segment) -> (Option<u32>, &str, &str) {
    (segment.page, segment.heading.as_deref().unwrap_or_default(), &segment.text)
}

fn text(content: &str) -> Message {
    message().bytes(3, content)
}

/// A text document with this body and these further objects.
fn pages(body: Message, others: &[(u64, u64, Message)]) -> Vec<u8> {
    let root = message().reference(3, 30).reference(4, 2);
    document(&[&[(1, 10_000, root), (2, TEXT, body)][..], others].concat())
}

#[test]
fn a_text_of_pages_has_headings_footnotes_comments_and_tables_where_they_stand() {
    let style = |name: &str| message().message(1, message().bytes(1, name));
    let changed = message().message(1, message().reference(3, 10));
    let deleted = "gone ";
    let body = format!("Lease\nThe 🏠 rent is due\u{e} monthly. {deleted}\nSee \u{fffc}\nEnd\n");
    let place = |of: &str| body[..body.find(of).expect("it is there")].encode_utf16().count() as u64;
    let table = message().message(1, message().reference(2, 22));
    let store = message().reference(4, 23).message(3, message().message(1, message().reference(2, 24)));
    let cell = [4, 3, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    let row = message().number(1, 0).bytes(3, cell).bytes(4, [0xff, 0xff, 0, 0]);
    let storage = text(&body)
        .attributes(5, &[(0, 11), (place("The"), 12)])
        .attributes(9, &[(place("\u{fffc}"), 20)])
        .attributes(16, &[(place("\u{e}"), 40)])
        .attributes(23, &[(place("rent"), 50)])
        .attributes(17, &[(0, 60)])
        .message(
            22,
            message()
                .message(1, message().number(1, place(deleted)).reference(2, 70))
                .message(1, message().number(1, place("\nSee"))),
        );
    let document = pages(
        storage,
        &[
            (10, STYLE, style("Heading 1")),
            (11, STYLE, changed),
            (12, STYLE, style("Body")),
            (20, 2003, message().reference(1, 21)),
            (21, 6007, table),
            (22, 6001, message().bytes(8, "Deposits").number(22, 1).message(4, store)),
            (23, 6005, message().message(3, message().number(1, 7).bytes(3, "two rents"))),
            (24, 6002, message().message(5, row)),
            (30, 10_012, message().message(1, message().message(4, message().reference(1, 31)))),
            (31, 2011, message().reference(4, 32)),
            (32, TEXT, text("In a box")),
            (40, 2008, message().reference(2, 41)),
            (41, TEXT, text("in advance")),
            (50, 2013, message().reference(1, 51)),
            (51, 3056, message().bytes(1, "Since when?").reference(3, 52)),
            (52, 212, message().bytes(1, "Ada")),
            (60, 10_011, message().reference(23, 61)),
            (61, 10_143, message().reference(1, 62).reference(2, 62)),
            (62, TEXT, text("Confidential")),
            (70, 2060, message()),
        ],
    );
    let extracted = read("lease.pages", &document);
    assert_eq!((extracted.format, extracted.lines), (Format::Pages, Some(9)));
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
        segments(&extracted),
        [(None, "Lease", lines.join("\n").as_str()), (None, "", "Confidential")]
    );
}

#[test]
fn slides_of_keynote_are_pages_in_their_order_with_notes() {
    let placeholder = |text: u64| message().message(1, message().reference(4, text));
    let slide = |id: u64| {
        message().reference(5, id + 1).reference(42, id + 3).reference(42, id + 3).reference(27, id + 6)
    };
    let parts = |id: u64, title: &str, body: &str, note: &str| {
        vec![
            (id, 5, slide(id)),
            (id + 1, 7, placeholder(id + 2)),
            (id + 2, TEXT, text(title)),
            // A group with a shape.
            (id + 3, 3008, message().reference(2, id + 4).reference(2, id + 3)),
            (id + 4, 2011, message().reference(4, id + 5)),
            (id + 5, TEXT, text(body)),
            (id + 6, 15, message().reference(1, id + 7)),
            (id + 7, TEXT, text(note)),
        ]
    };
    let tree = message().reference(2, 3).reference(2, 4);
    let mut objects = vec![
        (1, 1, message().reference(2, 2)),
        (2, 2, message().message(3, tree)),
        (3, 4, message().reference(2, 200)),
        (4, 4, message().reference(2, 100)),
    ];
    objects.extend(parts(100, "Second", "of two", ""));
    objects.extend(parts(200, "First", "of all\nlines", "Say hello"));
    let extracted = read("talk.key", &document(&objects));
    assert_eq!((extracted.format, extracted.pages), (Format::Presentation, Some(2)));
    assert_eq!(
        segments(&extracted),
        [
            (Some(1), "First", "First\nof all\nlines\nNotes:\nSay hello"),
            (Some(2), "Second", "Second\nof two")
        ]
    );
}

#[test]
fn images_are_found_beside_the_text_before_them() {
    let image = |data: u64| message().message(11, message().number(1, data));
    let file =
        |id: u64, name: &str| message().number(1, id).bytes(2, "digest").bytes(3, "old.png").bytes(4, name);
    // Other lists have the same numbers.
    let component = message().number(1, 7).bytes(2, "Document").bytes(3, "Document.iwa");
    let metadata =
        message().message(3, component).message(4, file(7, "bird-1.png")).message(4, file(8, "none.png"));
    let objects = [
        (1, 10_000, message().reference(4, 2)),
        (2, TEXT, text("Look:\n\u{fffc}\n\u{fffc}\nEnd").attributes(9, &[(6, 3), (8, 4)])),
        (3, 2003, message().reference(1, 5)),
        (4, 2003, message().reference(1, 6)),
        (5, 3005, image(7)),
        (6, 3005, image(8)),
        (9, 11_006, metadata),
    ];
    let picture = include_bytes!("fixtures/code_word.png");
    let document = archive([("Index/Document.iwa", packed(&objects)), ("Data/bird-1.png", picture.to_vec())]);
    let images = read("a.pages", &document).images;
    let places: Vec<_> = images.iter().map(|image| (image.part.as_str(), image.line)).collect();
    assert_eq!(places, [("Data/bird-1.png", Some(1))]);
}

#[test]
fn tables_of_numbers_are_sheets() {
    let bytes = include_bytes!("fixtures/birds.numbers");
    let extracted = read("birds.numbers", bytes);
    assert_eq!((extracted.format, extracted.pages), (Format::Workbook, Some(3)));
    assert_eq!(
        segments(&extracted),
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
fn the_folder_of_a_document_and_the_archive_in_it_are_read() {
    let objects = packed(&[(1, 10_000, message().reference(4, 2)), (2, TEXT, text("A reed warbler"))]);
    let index = archive([("Index/Document.iwa", objects)]);
    let folder = archive([("a.pages/Index.zip", index), ("a.pages/Metadata/Properties.plist", Vec::new())]);
    assert_eq!(segments(&read("a.pages.zip", &folder))[0].2, "A reed warbler");
    // Several documents are an archive of them.
    let two = archive([("a.pages/Index/Document.iwa", "x"), ("b.pages/Index/Document.iwa", "x")]);
    assert_eq!(read("two.zip", &two).format, Format::Archive);
}

/// A document before 2013 with this content.
fn old(part: &str, content: &str) -> Vec<u8> {
    archive([(part, content), ("buildVersionHistory.plist", "")])
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
        segments(&read("a.pages", &old("index.xml", pages))),
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
        segments(&read("a.key", &old("index.apxl", keynote))),
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
        segments(&read("a.numbers", &old("index.xml", numbers))),
        [
            (Some(1), "May, Rents: Flat | Rent", "Flat\tRent\nCellar\t812.5\n\t\t2009-10-01"),
            (Some(1), "May, Rents", "In euros")
        ]
    );
}

#[test]
fn encrypted_and_damaged_documents_are_named_as_such() {
    let reason =
        |bytes: &[u8]| extract_bytes(Path::new("a.pages"), bytes).map(|_| ()).map_err(|error| error.reason());
    let encrypted = archive([("Index/Document.iwa", vec![1, 2, 3]), (".iwph", Vec::new())]);
    assert_eq!(reason(&encrypted), Err(UnreadReason::Encrypted));
    let document = pages(text("A text"), &[]);
    assert_eq!(reason(&document), Ok(()));
    let empty = archive([("Index/Document.iwa", "")]);
    assert_eq!(reason(&empty), Err(UnreadReason::Broken));
    let damaged = archive([("Index/Document.iwa", [0, 3, 0, 0, 5, 0xfc, 0xff])]);
    assert_eq!(reason(&damaged), Err(UnreadReason::Broken));
}

#[test]
fn hostile_references_end() {
    // Texts that anchor each other, groups in themselves, and styles that change each other.
    let anchored = |id: u64| text("\u{fffc}x").attributes(9, &[(0, id)]).attributes(5, &[(0, 90)]);
    let mut objects = vec![
        (2, TEXT, anchored(1_000)),
        (90, STYLE, message().message(1, message().reference(3, 91))),
        (91, STYLE, message().message(1, message().reference(3, 90))),
        (92, 2003, message().reference(1, 93)),
        (93, 3008, message().reference(2, 93).reference(2, 92)),
    ];
    for id in (1_000..40_000).step_by(3) {
        objects.push((id, 2003, message().reference(1, id + 1)));
        objects.push((id + 1, 2011, message().reference(4, id + 2)));
        objects.push((id + 2, TEXT, anchored(id + 3)));
    }
    let root = (1, 10_000, message().reference(4, 2));
    let extracted = read("a.pages", &document(&[&[root][..], &objects].concat()));
    assert!(segments(&extracted)[0].2.starts_with("x\nx"));
    // Blocks that say they are larger than all that is read.
    let block = [0, 6, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    let bomb = archive([("Index/Document.iwa", block)]);
    let error = extract_bytes(Path::new("a.pages"), &bomb).expect_err("it is too large");
    assert!(matches!(error, ExtractError::Bomb { .. }), "{error}");
}

#[test]
fn cells_that_share_a_place_and_a_long_text_stay_within_the_bound() {
    let choice = format!("<sf:t sfa:ID='T'><sf:ct sfa:s='{}'/></sf:t>", "x".repeat(8_000));
    let again = "<sf:pm sf:ct='0'><sf:proxied-cell-ref sfa:IDREF='T'/></sf:pm>".repeat(100_000);
    for (root, folder) in [("ls:document", "ls:workspace"), ("sl:document", "sf:text-body")] {
        let document = format!(
            "<{root}><{folder}><sf:tabular-model><sf:datasource><sf:pm sf:ct='0'><sf:menu-choices>{choice}</sf:menu-choices>\
             <sf:proxied-cell-ref sfa:IDREF='T'/></sf:pm>{again}</sf:datasource></sf:tabular-model></{folder}></{root}>"
        );
        let extracted = read("a.numbers", &old("index.xml", &document));
        let bytes: usize = extracted.segments.iter().map(|segment| segment.text.len()).sum();
        assert!(bytes <= 8 * 1024 * 1024 && extracted.truncated, "{bytes} bytes of {root}");
    }
}

#[test]
fn marks_and_cells_that_share_a_long_text_stay_within_the_bound() {
    let long = "x".repeat(8_000);
    let marks = 3_000;
    let shared: Vec<(u64, u64)> = (0..marks).map(|place| (place, 40)).collect();
    let body = text(&"\u{e}".repeat(marks as usize))
        .attributes(16, &shared)
        .attributes(23, &(0..marks).map(|place| (place, 50)).collect::<Vec<_>>());
    let others = [
        (40, 2008, message().reference(2, 41)),
        (41, TEXT, text(&long)),
        (50, 2013, message().reference(1, 51)),
        (51, 3056, message().bytes(1, &long)),
    ];
    let extracted = read("a.pages", &pages(body, &others));
    let bytes: usize = extracted.segments.iter().map(|segment| segment.text.len()).sum();
    assert!((4 << 20..=8 << 20).contains(&bytes), "{bytes} bytes");
    // One row whose cells are one text.
    let table = message().message(1, message().reference(2, 22));
    let store = message().reference(4, 23).message(3, message().message(1, message().reference(2, 24)));
    let cell = [4, 3, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0];
    let row = message().number(1, 0).bytes(3, cell).bytes(4, [0, 0].repeat(500));
    let table = [
        (20, 2003, message().reference(1, 21)),
        (21, 6007, table),
        (22, 6001, message().number(22, 1).message(4, store)),
        (23, 6005, message().message(3, message().number(1, 7).bytes(3, "y".repeat(1 << 20)))),
        (24, 6002, message().message(5, row)),
    ];
    let extracted = read("a.pages", &pages(text("\u{fffc}").attributes(9, &[(0, 20)]), &table));
    let line = extracted.segments[0].text.lines().next().expect("a row");
    let cells: Vec<&str> = line.split('\t').collect();
    assert!(cells.len() > 60 && cells.iter().all(|cell| cell.len() <= 128 * 1024), "{} cells", cells.len());
}
