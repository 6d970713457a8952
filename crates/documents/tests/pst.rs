//! Data files of Outlook: their messages are files of an archive.

#[path = "support/pst.rs"]
mod outlook;

use std::path::Path;

use documents::{DocumentFormat, ExtractError, Extracted, extract_bytes};
use outlook::{
    OutlookMessage, PstValue, attachment_properties, outlook_message, pst_file, renew_checksums,
    text_property,
};

fn read_pst(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_bytes(Path::new("a.pst"), bytes)
}

fn document_text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

fn sample_letter() -> OutlookMessage {
    OutlookMessage {
        properties: vec![
            text_property(0x001a, "IPM.Note"),
            text_property(0x0037, "\u{1}\u{5}Re: The čáp/stork"),
            (0x0039, PstValue::Time(133_536_836_960_000_000)),
            text_property(0x0c1a, "Ada"),
            text_property(0x5d01, "ada@example.org"),
            text_property(
                0x1000,
                "It has moved in.\r\nContent-Type: text/html\r\n\r\n--outlook\r\nIt stays.",
            ),
        ],
        recipients: vec![(1, "Bob", "bob@example.org"), (1, "Čeněk", ""), (2, "Dora", "dora@example.org")],
        attachments: vec![
            attachment_properties("birds.csv", b"bird,number\nstork,1\n"),
            attachment_properties("program", b"\x7fELF\0\0"),
        ],
    }
}

#[test]
fn pst_messages_are_files_with_attachments() {
    let document =
        read_pst(&pst_file(&[sample_letter(), outlook_message("Second", "A wren.")])).expect("it is read");
    assert_eq!((document.format, document.pages), (DocumentFormat::Archive, Some(2)));
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
    assert_eq!(document_text(&document), expected);
    let wren = document.segments.last().expect("it has text");
    let inner = wren.inner.as_deref().expect("it is of a file");
    assert_eq!((wren.page, wren.lines, &*inner.name), (Some(2), Some((1, 2)), "Letters/Second.eml"));
    assert_eq!(document.unread_files, [1], "the program is not read");
}

#[test]
fn pst_html_read_without_plain_text() {
    let mut message = outlook_message("Page", "");
    message.properties.push((0x1013, PstValue::Bytes(b"<p>An \xf8e<b>zba</b></p>".to_vec())));
    message.properties.push((0x3fde, PstValue::Number(1250)));
    let document = read_pst(&pst_file(&[message])).expect("it is read");
    assert!(document_text(&document).ends_with("An řezba"), "{}", document_text(&document));
}

#[test]
fn pst_external_attachment_is_named() {
    let mut message = outlook_message("Link", "See the attachment.");
    message.attachments.push(vec![text_property(0x3707, "plan.pdf"), (0x3705, PstValue::Number(4))]);
    let document = read_pst(&pst_file(&[message])).expect("it is read");
    assert!(
        document_text(&document).contains("unread (plan.pdf is not in the message)"),
        "{}",
        document_text(&document)
    );
    assert_eq!(document.unread_files, [1]);
}

#[test]
fn pst_unsupported_or_damaged_is_refused() {
    let file = pst_file(&[outlook_message("First", "A wren.")]);
    let refused = |bytes: &[u8]| read_pst(bytes).expect_err("it is not read").to_string();
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
fn pst_damaged_message_named_others_read() {
    let mut file =
        pst_file(&[outlook_message("First", "A wren sings."), outlook_message("Second", "A rook.")]);
    let wren: Vec<u8> = "A wren".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let at = file.windows(wren.len()).position(|window| window == wren).expect("it is there");
    file[at] ^= 1;
    let document = read_pst(&file).expect("the other one is read");
    let text = document_text(&document);
    assert!(text.contains("Letters/First.eml\n(not read: the message file is broken"), "{text}");
    assert!(text.contains("A rook.") && document.unread_files == [1], "{text}");
}

#[test]
fn pst_any_damage_is_survived() {
    let file = pst_file(&[sample_letter()]);
    for at in (0..file.len()).filter(|at| *at < 600 || file[*at] != 0) {
        for change in [0x01, 0x55, 0xff] {
            let mut damaged = file.clone();
            damaged[at] ^= change;
            for is_resealed in [false, true] {
                if is_resealed {
                    renew_checksums(&mut damaged);
                }
                if let Err(error) = read_pst(&damaged) {
                    assert!(error.to_string().len() < 400, "byte {at}: {error}");
                }
            }
        }
    }
}
