//! Bodies and heads of messages as mail programs write them: alternatives, missing and wrong character sets, footers of lists,
//! split words, and messages of Outlook.

#[path = "support/compound.rs"]
mod compound;

use std::path::Path;

use compound::{compound_file, utf16_bytes};
use documents::{Extracted, extract_bytes};

fn read_message(name: &str, bytes: impl AsRef<[u8]>) -> Extracted {
    extract_bytes(Path::new(name), bytes.as_ref()).expect("it is read")
}

fn message_text(name: &str, bytes: impl AsRef<[u8]>) -> String {
    let document = read_message(name, bytes);
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

const PAGE: &str = "<html><body><p>The kingfisher order is 4711.</p></body></html>";

fn alternative_message(parts: &[(&str, &str)]) -> String {
    let parts = parts.iter().map(|(kind, body)| format!("--b\r\nContent-Type: {kind}\r\n\r\n{body}\r\n"));
    let parts: String = parts.collect();
    format!(
        "From: a@example.org\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/alternative; boundary=\"b\"\r\n\r\n{parts}--b--\r\n"
    )
}

#[test]
fn eml_wordless_alternative_replaced_by_page() {
    for plain in ["", "  ", "\u{a0}\r\n\u{200b}", "-- \r\n", "[cid:image001.png@01D0]"] {
        let message =
            alternative_message(&[("text/plain; charset=utf-8", plain), ("text/html; charset=utf-8", PAGE)]);
        assert!(message_text("a.eml", &message).ends_with("The kingfisher order is 4711."), "{plain:?}");
        let message =
            alternative_message(&[("text/html; charset=utf-8", PAGE), ("text/plain; charset=utf-8", plain)]);
        assert!(
            message_text("a.eml", &message).contains("The kingfisher order is 4711."),
            "{plain:?} behind"
        );
    }
    let related = "multipart/related; boundary=\"c\"";
    let page = format!("--c\r\nContent-Type: text/html\r\n\r\n{PAGE}\r\n--c--");
    let message = alternative_message(&[("text/plain", ""), (related, &page)]);
    assert!(message_text("a.eml", &message).contains("The kingfisher order is 4711."));
}

#[test]
fn eml_stub_alternative_beside_page() {
    let stub = "Your e-mail program cannot show HTML. Please use another one.";
    let message = alternative_message(&[("text/plain", stub), ("text/html", PAGE)]);
    assert_eq!(
        message_text("a.eml", &message),
        "From: a@example.org\nYour e-mail program cannot show HTML. Please use another one.\n\
         The kingfisher order is 4711."
    );
    let beginning = "The kingfisher";
    let message = alternative_message(&[("text/plain", beginning), ("text/html", PAGE)]);
    assert_eq!(message_text("a.eml", &message), "From: a@example.org\nThe kingfisher order is 4711.");
    let same = "The *kingfisher* order is 4711. https://example.org/order";
    let message = alternative_message(&[("text/plain", same), ("text/html", PAGE)]);
    assert_eq!(message_text("a.eml", &message), format!("From: a@example.org\n{same}"));
}

#[test]
fn eml_without_charset_is_read() {
    const BODY: &[u8] = b"\xc8\xe1p \x9elu\x9dou\xe8k\xfd k\xf9\xf2 p\xf8\xedli\x9a.";
    const WORDS: &str = "Čáp žluťoučký kůň příliš.";
    for kind in [
        "text/plain",
        "text/plain; charset=us-ascii",
        "text/plain; charset=utf-8",
        "text/plain; charset=x-unknown",
    ] {
        let head = format!("MIME-Version: 1.0\nContent-Type: {kind}\n\n");
        assert_eq!(message_text("a.eml", [head.as_bytes(), BODY].concat()), WORDS, "{kind}");
    }
    let subject = [b"Subject: ", BODY, b"\nFrom: \"", BODY, b"\" <a@example.org>\n\nx\n"].concat();
    assert_eq!(message_text("a.eml", subject), format!("Subject: {WORDS}\nFrom: {WORDS} <a@example.org>\nx"));
    let quoted = "Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable\n\n\
                  =C8=E1p =9Elu=9Dou=E8k=FD k=F9=F2 p=F8=EDli=9A.\n";
    assert_eq!(message_text("a.eml", quoted), WORDS);
    let page = [b"Content-Type: text/html\n\n<meta charset=windows-1250><p>", BODY].concat();
    assert_eq!(message_text("a.eml", page), WORDS);
    let utf8 = "Subject: Čáp\nContent-Type: text/plain; charset=iso-8859-1\n\nžluťoučký kůň\n";
    assert_eq!(message_text("a.eml", utf8), "Subject: Čáp\nžluťoučký kůň");
    // Attached texts, too.
    let attached = [
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/csv; name=\"a.csv\"\n\
          Content-Disposition: attachment; filename=\"",
        BODY,
        b"csv\"\n\n",
        BODY,
        b"\n--b--\n",
    ];
    assert_eq!(message_text("a.eml", attached.concat()), format!("Attachment: {WORDS}csv\n{WORDS}"));
}

#[test]
fn bodies_in_utf_16_are_read() {
    let encoded = |big: bool, mark: bool| -> Vec<u8> {
        let words = if mark { "\u{feff}Čáp order 4711" } else { "Čáp order 4711" };
        words
            .encode_utf16()
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect()
    };
    for (big, mark) in [(true, true), (false, true), (true, false), (false, false)] {
        let content = encoded(big, mark);
        let head = b"Subject: x\nContent-Type: text/plain; charset=utf-16\n";
        let plain = [&head[..], b"\n", &content].concat();
        assert_eq!(message_text("a.eml", plain), "Subject: x\nČáp order 4711", "{big} {mark}");
        use base64::Engine;
        let base64 = base64::engine::general_purpose::STANDARD.encode(&content);
        let packed = [&head[..], b"Content-Transfer-Encoding: base64\n\n", base64.as_bytes()].concat();
        assert_eq!(message_text("a.eml", packed), "Subject: x\nČáp order 4711", "{big} {mark}");
    }
    let whole: Vec<u8> =
        "\u{feff}Subject: Čáp\r\nContent-Type: text/plain; charset=windows-1250\r\n\r\nŽluť\r\n"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
    assert_eq!(message_text("a.eml", whole), "Subject: Čáp\nŽluť");
}

#[test]
fn eml_base64_with_footer_is_read() {
    // "The kingfisher order is 4711.\n" and without its last letter.
    for packed in ["VGhlIGtpbmdmaXNoZXIgb3JkZXIgaXMgNDcxMS4K", "VGhlIGtpbmdmaXNoZXIgb3JkZXIgaXMgNDcxMS4="] {
        let footer =
            "_______________________________________________\nUnsubscribe at https://example.org/list\n";
        for between in ["", "\n"] {
            let content = format!("Content-Transfer-Encoding: base64\n\n{packed}\n{between}{footer}");
            let single = format!("Content-Type: text/plain; charset=utf-8\n{content}");
            let read = message_text("a.eml", &single);
            assert!(read.starts_with("The kingfisher order is 4711.\n___"), "{read}");
            assert!(read.ends_with("Unsubscribe at https://example.org/list"), "{read}");
            let page = message_text("a.eml", format!("Content-Type: text/html; charset=utf-8\n{content}"));
            assert!(page.contains("The kingfisher order is 4711."), "{page}");
            let attached = format!(
                "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: text/plain\n\nhello\n--b\n\
                 Content-Type: application/octet-stream; name=\"a.txt\"\n{content}--b--\n"
            );
            let attached = message_text("a.eml", attached);
            assert!(attached.contains("Attachment: a.txt\nThe kingfisher order is 4711."), "{attached}");
        }
    }
}

#[test]
fn eml_split_encoded_words_joined() {
    let message = "Subject: =?utf-8?B?xI0=?=\n =?utf-8?B?w6FwIDQ3MTE=?= =?utf-8?Q?_=C5?= =?utf-8?Q?=BElu=C5=A5?=\n\
                   From: =?UTF-8?Q?=C5?= =?utf-8?Q?=A0=C3=A1rka=2C_B=2E?= <s@example.org>\n\
                   Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/plain\n\
                   Content-Disposition: attachment; filename=\"=?utf-8?B?xI3DoQ==?= =?utf-8?B?cC50eHQ=?=\"\n\nx\n--b--\n";
    assert_eq!(
        message_text("a.eml", message),
        "Subject: čáp 4711 žluť\nFrom: Šárka, B. <s@example.org>\nAttachment: čáp.txt\nx"
    );
    assert_eq!(message_text("a.eml", "Subject: =?utf-8?Q?a?= and =?utf-8?Q?b?=\n\nx"), "Subject: a and b\nx");
    assert_eq!(
        message_text(
            "a.eml",
            "Subject: =?utf-8?Q?a?= =?iso-8859-2?Q?=BE?=\n\nA =?utf-8?Q?a?= =?utf-8?Q?b?= stays"
        ),
        "Subject: ař\nA =?utf-8?Q?a?= =?utf-8?Q?b?= stays".replace('ř', "ž")
    );
}

#[test]
fn flowed_lines_are_joined() {
    let head = "Content-Type: text/plain; format=flowed";
    let deleted = format!("{head}; delsp=yes\n\nThe king \nfisher order is \n 4711.\n");
    assert_eq!(message_text("a.eml", deleted), "The kingfisher order is 4711.");
    let kept = format!(
        "{head}\n\nThe order \nis 4711.\n> It was \n> asked for \n>> by Ada\n From here \non.\n\n-- \nAda \nB\n"
    );
    assert_eq!(
        message_text("a.eml", kept),
        "The order is 4711.\n> It was asked for\n>> by Ada\nFrom here on.\n--\nAda B"
    );
    assert_eq!(message_text("a.eml", "Content-Type: text/plain\n\nA \nB\n"), "A\nB");
}

#[test]
fn msg_date_and_sender_shown_once() {
    const SENT: [u8; 4] = [0x40, 0, 0x39, 0];
    const RECEIVED: [u8; 4] = [0x40, 0, 0x06, 0x0e];
    // 2024-02-29 12:34:56.
    let time = 133_536_836_960_000_000_i64.to_le_bytes();
    for (tag, sender, address, from) in [
        (SENT, "ada@example.org", "ada@example.org", "From: ada@example.org"),
        (RECEIVED, "Ada", "ada@example.org", "From: Ada <ada@example.org>"),
        (SENT, "Ada (ada@example.org)", "ada@example.org", "From: Ada (ada@example.org)"),
        (SENT, "'ADA@example.org'", "ada@example.org", "From: ada@example.org"),
        (SENT, "", "ada@example.org", "From: ada@example.org"),
    ] {
        let message = compound_file(&[
            ("/__properties_version1.0", [&[0; 32][..], &tag, &[6, 0, 0, 0], &time].concat()),
            ("/__substg1.0_0C1A001F", utf16_bytes(sender)),
            ("/__substg1.0_5D01001F", utf16_bytes(address)),
            ("/__substg1.0_1000001F", utf16_bytes("x")),
        ]);
        assert_eq!(message_text("a.msg", message), format!("{from}\nDate: 2024-02-29T12:34:56Z\nx"));
    }
    let head = "Received: x\r\nDate: Thu, 29 Feb 2024 13:34:56 +0100\r\nSubject: y\r\n";
    let message = compound_file(&[
        ("/__properties_version1.0", vec![0; 32]),
        ("/__substg1.0_007D001F", utf16_bytes(head)),
        ("/__substg1.0_1000001F", utf16_bytes("x")),
    ]);
    assert_eq!(message_text("a.msg", message), "Date: 2024-02-29T13:34:56+01:00\nx");
}

#[test]
fn msg_body_chosen_by_words() {
    let plain = b"{\\rtf1\\ansi The kingfisher order is 4711.\\par}";
    let length = |more: usize| u32::try_from(plain.len() + more).expect("it is short").to_le_bytes();
    let rich = [&length(12)[..], &length(0), b"MELA", &[0; 4], plain].concat();
    let message = |streams: &[(&str, Vec<u8>)]| {
        compound_file(&[&[("/__properties_version1.0", vec![0; 32])][..], streams].concat())
    };
    let alone = message(&[("/__substg1.0_10090102", rich.clone())]);
    assert_eq!(message_text("a.msg", alone), "The kingfisher order is 4711.");
    let blank = message(&[("/__substg1.0_1000001F", utf16_bytes(" \r\n")), ("/__substg1.0_10090102", rich)]);
    assert_eq!(message_text("a.msg", blank), "The kingfisher order is 4711.");
    let stub = message(&[
        ("/__substg1.0_1000001F", utf16_bytes("Use another program.")),
        ("/__substg1.0_10130102", PAGE.into()),
    ]);
    assert_eq!(message_text("a.msg", stub), "Use another program.\nThe kingfisher order is 4711.");
    let page = message(&[("/__substg1.0_1013001F", utf16_bytes(PAGE))]);
    assert_eq!(message_text("a.msg", page), "The kingfisher order is 4711.");
}
