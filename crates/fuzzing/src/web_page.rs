//! Fuzzes web pages: the extracted text stays within its bounds, has no invisible characters, and links only to the
//! web.

use std::collections::HashSet;

use egress::{
    Fetched, LINK_TEXT_MAX_BYTES, LINKS_MAX, PASSAGE_MAX_BYTES, PASSAGES_MAX, TITLE_MAX_BYTES, UrlAllowlist,
    WebPage, WebUrl, read_body,
};

const KINDS: [&str; 8] = [
    "text/html",
    "text/html; charset=windows-1250",
    "text/html;charset=utf-16",
    "application/xhtml+xml; charset=x",
    "text/plain; charset=iso-8859-2",
    "application/json",
    "application/octet-stream",
    "",
];

/// Runs one input. Its first byte selects the content type, the compression and the passage to start from.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&how, body)) = data.split_first() else { return };
    let kind = KINDS[usize::from(how) % KINDS.len()];
    let coding = if how & 0x40 == 0 { "" } else { "gzip" };
    let from = usize::from(how >> 7) * 3;
    let url = || WebUrl::parse("https://www.example.cz/a/b?c").expect("an address");
    match read_body(url(), kind, coding, body.to_vec(), from) {
        Ok(Fetched::Page(page)) => {
            assert_bounds(&page, from);
            let again = read_body(url(), kind, coding, body.to_vec(), from);
            assert_eq!(again, Ok(Fetched::Page(page)), "read again");
        }
        Ok(Fetched::Document(document)) => assert!(coding == "gzip" || document.bytes == body),
        Err(error) => {
            let message = error.to_string();
            assert!(!message.contains(is_hidden) && message.len() < 1000, "{message:?}");
        }
    }
}

fn assert_bounds(page: &WebPage, from: usize) {
    assert!(!page.title.is_empty() && page.title.len() <= TITLE_MAX_BYTES, "{:?}", page.title);
    assert!(!page.title.contains(is_hidden), "{:?}", page.title);
    assert!(page.passages.len() <= PASSAGES_MAX);
    for passage in &page.passages {
        assert!(!passage.text.is_empty() && passage.text.len() <= PASSAGE_MAX_BYTES);
        let hidden = |letter: char| is_hidden(letter) && letter != '\n' && letter != '\t';
        assert!(!passage.text.contains(hidden), "{:?}", passage.text);
    }
    assert!(page.next_passage.is_none_or(|next| next == from + PASSAGES_MAX));
    assert!(page.links.len() <= LINKS_MAX);
    let (mut seen, mut allowed) = (HashSet::new(), UrlAllowlist::new());
    for link in &page.links {
        let address = link.url.as_str();
        assert!(seen.insert(address), "{address} twice");
        assert!(address.starts_with("http://") || address.starts_with("https://"), "{address}");
        assert!(
            !address.contains(is_hidden) && WebUrl::parse(address).as_ref() == Some(&link.url),
            "{address:?}"
        );
        assert!(link.text.len() <= LINK_TEXT_MAX_BYTES && !link.text.contains(is_hidden), "{:?}", link.text);
        allowed.add_url(&link.url);
        assert!(allowed.contains(address), "{address}");
    }
}

/// Returns true for control, bidirectional and invisible characters.
fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}
