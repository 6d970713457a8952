//! Data files of Outlook: their messages are files of an archive.

#[path = "support/pst.rs"]
mod outlook;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::path::Path;

use guest::documents::{ExtractError, Extracted, Format, extract_bytes};
use guest::index::Library;
use outlook::{OutlookMessage, Value, attachment, outlook_message, pst, reseal, words};
use serde_json::json;
use support::Machine;

fn read(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_bytes(Path::new("a.pst"), bytes)
}

fn text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn letter() -> OutlookMessage {
    OutlookMessage {
        properties: vec![
            words(0x001a, "IPM.Note"),
            words(0x0037, "\u{1}\u{5}Re: The čáp/stork"),
            (0x0039, Value::Time(133_536_836_960_000_000)),
            words(0x0c1a, "Ada"),
            words(0x5d01, "ada@example.org"),
            words(0x1000, "It has moved in.\r\nContent-Type: text/html\r\n\r\n--outlook\r\nIt stays."),
        ],
        recipients: vec![(1, "Bob", "bob@example.org"), (1, "Čeněk", ""), (2, "Dora", "dora@example.org")],
        attachments: vec![
            attachment("birds.csv", b"bird,number\nstork,1\n"),
            attachment("program", b"\x7fELF\0\0"),
        ],
    }
}

#[test]
fn messages_are_files_with_their_folder_people_and_attachments() {
    let document = read(&pst(&[letter(), outlook_message("Second", "A wren.")])).expect("it is read");
    assert_eq!((document.format, document.pages), (Format::Archive, Some(2)));
    let expected = "Letters/Re: The čáp-stork.eml\n\
        Subject: Re: The čáp/stork\n\
        From: Ada <ada@example.org>\n\
        To: Bob <bob@example.org>, Čeněk\n\
        Cc: Dora <dora@example.org>\n\
        Date: 2024-02-29T12:34:56Z\n\
        It has moved in.\n\
        Content-Type: text/html\n\
        --outlook\n\
        It stays.\n\
        Attachment: birds.csv\n\
        bird\tnumber\n\
        stork\t1\n\
        Attachment: program\n\
        (not read: the file is binary (ELF program, 6 bytes) and has no text to read)\n\
        Letters/Second.eml\n\
        Subject: Second\n\
        A wren.";
    assert_eq!(text(&document), expected);
    let wren = document.segments.last().expect("it has text");
    let inner = wren.inner.as_deref().expect("it is of a file");
    assert_eq!((wren.page, wren.lines, &*inner.name), (Some(2), Some((1, 2)), "Letters/Second.eml"));
    assert_eq!(document.unread_files, [1], "the program is not read");
}

#[test]
fn a_page_is_read_where_there_is_no_plain_text() {
    let mut message = outlook_message("Page", "");
    message.properties.push((0x1013, Value::Bytes(b"<p>An \xf8e<b>zba</b></p>".to_vec())));
    message.properties.push((0x3fde, Value::Number(1250)));
    let document = read(&pst(&[message])).expect("it is read");
    assert!(text(&document).ends_with("An řezba"), "{}", text(&document));
}

#[test]
fn an_attachment_that_is_elsewhere_is_named() {
    let mut message = outlook_message("Link", "See the attachment.");
    message.attachments.push(vec![words(0x3707, "plan.pdf"), (0x3705, Value::Number(4))]);
    let document = read(&pst(&[message])).expect("it is read");
    assert!(text(&document).contains("unread (plan.pdf is not in the message)"), "{}", text(&document));
    assert_eq!(document.unread_files, [1]);
}

#[test]
fn other_kinds_and_damaged_files_are_refused_with_the_reason() {
    let file = pst(&[outlook_message("First", "A wren.")]);
    let refused = |bytes: &[u8]| read(bytes).expect_err("it is not read").to_string();
    let mut offline = file.clone();
    offline[8..10].copy_from_slice(b"SO");
    assert!(refused(&offline).contains("offline data file of Outlook (OST)"), "{}", refused(&offline));
    let mut newer = file.clone();
    newer[10] = 36;
    assert!(refused(&newer).contains("offline data file of Outlook (OST)"), "{}", refused(&newer));
    let cut = refused(&file[..file.len() / 2]);
    assert!(cut.starts_with("the Outlook file is broken: "), "{cut}");
}

#[test]
fn a_damaged_message_is_named_and_the_others_are_read() {
    let mut file = pst(&[outlook_message("First", "A wren sings."), outlook_message("Second", "A rook.")]);
    let wren: Vec<u8> = "A wren".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let at = file.windows(wren.len()).position(|window| window == wren).expect("it is there");
    file[at] ^= 1;
    let document = read(&file).expect("the other one is read");
    let text = text(&document);
    assert!(text.contains("Letters/First.eml\n(not read: the message file is broken"), "{text}");
    assert!(text.contains("A rook.") && document.unread_files == [1], "{text}");
}

#[test]
fn no_damage_brings_it_down_whether_its_checksums_are_right_or_not() {
    let file = pst(&[letter()]);
    for at in (0..file.len()).filter(|at| *at < 600 || file[*at] != 0) {
        for change in [0x01, 0x55, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            for is_resealed in [false, true] {
                if is_resealed {
                    reseal(&mut damaged);
                }
                if let Err(error) = read(&damaged) {
                    assert!(error.to_string().len() < 400, "byte {at}: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn text_of_an_image_that_is_attached_is_found_in_its_message() {
    let mut machine = Machine::new();
    let index = machine.outside().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(Library::new(&machine.limits.workspace, &index));
    let mut message = outlook_message("Photograph", "See the picture.");
    message.attachments.push(attachment("bird.webp", include_bytes!("fixtures/code_word.webp")));
    machine.put("a.pst", pst(&[outlook_message("First", "A wren."), message]));
    let found = loop {
        let found = machine.call("search", json!({ "query": "falcon", "paths": ["/a.pst"] })).await;
        if found.unread.iter().all(|file| file.reason != "indexing") {
            break found;
        }
    };
    let passage = found.passages.iter().find(|passage| passage.text.contains("falcon"));
    let passage = passage.unwrap_or_else(|| panic!("{found:?}"));
    let place = (passage.page, passage.page_name.as_deref());
    assert_eq!(place, (Some(2), Some("Letters/Photograph.eml")), "{found:?}");
    assert!(found.unread.is_empty(), "{found:?}");
}
