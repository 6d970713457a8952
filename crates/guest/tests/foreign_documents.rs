//! Documents as other programs write them: each is made in its test.

use std::path::Path;

use guest::documents::{Extracted, extract_bytes};

fn read(name: &str, bytes: &[u8]) -> Extracted {
    extract_bytes(Path::new(name), bytes).expect("it can be read")
}

fn text(document: &Extracted) -> String {
    document.segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn fonts_of_rich_text_have_their_own_letters() {
    let rtf = br"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset238 Arial CE;}{\f2\fcharset204 Arial Cyr;}}\f0 caf\'e9 \f1 \'e8l\'e1nek {\f2 \'e4\'e0} \'f8\plain  \'e8\par}";
    assert_eq!(text(&read("x.rtf", rtf)), "café článek да ř è");
}

#[test]
fn texts_say_their_encoding() {
    let feed = b"<?xml version=\"1.0\" encoding='iso-8859-2'?><t>h\xf5m\xe9r\xf5 es\xf5</t>";
    assert!(text(&read("x.xml", feed)).contains("hőmérő eső"));
    assert_eq!(text(&read("x.txt", b"\x1b$B=P\x1b(B 7")), "出 7");
}

#[test]
fn text_in_drawings_of_pages_is_read() {
    let page = b"<p>a</p><svg><title>Icon</title><style>x{}</style><desc>d</desc><text>Tr\xc5\xbeby<tspan> 2024</tspan></text><text>17 %</text></svg><p>b</p>";
    assert_eq!(text(&read("x.html", page)), "a\nTržby 2024\n17 %\nb");
}
