//! Which addresses a conversation may fetch: those in the user's own words and those that came back to it.
//!
//! Without this set whoever writes a page or a document could have a model send what it knows to an address of theirs.

use std::collections::{HashSet, VecDeque};

use sha2::{Digest, Sha256};

use crate::WebUrl;

/// The most addresses of one conversation; the oldest go when there are more.
pub const ALLOWED_MAX: usize = 4000;
/// The most addresses that one text brings.
const PER_TEXT_MAX: usize = 500;
/// What ends an address in running text, whatever follows.
const ENDS: [char; 9] = ['<', '>', '"', '`', '|', '\\', '“', '”', '„'];
/// What stands after an address and is not of it.
const TRAILING: &[char] = &['.', ',', ';', ':', '!', '?', '\'', '’', '…', '*', '_', '»', ')', ']', '}'];

/// The addresses that a conversation may fetch, in constant memory.
#[derive(Debug, Clone, Default)]
pub struct UrlAllowlist {
    known: HashSet<[u8; 16]>,
    order: VecDeque<[u8; 16]>,
}

impl UrlAllowlist {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An address that came back from a search or a fetch, in its one spelling.
    pub fn add(&mut self, url: &WebUrl) {
        self.insert(url.as_str());
    }

    fn insert(&mut self, address: &str) {
        let key = key(address);
        if !self.known.insert(key) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > ALLOWED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The addresses in the user's own words: as they stand there, and in their one spelling.
    pub fn add_words(&mut self, text: &str) {
        for (written, url) in urls(text) {
            self.insert(&written);
            self.add(&url);
        }
    }

    /// Whether the address may be fetched: letter by letter one that was given. Nothing is trimmed or made alike, since
    /// each difference that did not count would carry something out.
    #[must_use]
    pub fn contains(&self, address: &str) -> bool {
        self.known.contains(&key(address))
    }
}

/// The addresses in a text, as people write them: with a scheme, or a host alone (`example.org/a`, `www.example.org`),
/// which is meant over https. Each as it stands there and in its one spelling.
fn urls(text: &str) -> Vec<(String, WebUrl)> {
    let mut found = Vec::new();
    for word in text.split(|letter: char| letter.is_whitespace() || ENDS.contains(&letter)) {
        if found.len() == PER_TEXT_MAX {
            break;
        }
        found.extend(in_word(word));
    }
    found
}

fn in_word(word: &str) -> Option<(String, WebUrl)> {
    let written = written_in(word)?;
    let url = WebUrl::parse(&written)?;
    Some((written, url))
}

/// The address in a word with its scheme, otherwise as it stands there.
fn written_in(word: &str) -> Option<String> {
    // ASCII letters alone change, so places in one are places in the other.
    let lower = word.to_ascii_lowercase();
    let scheme = ["https://", "http://"].iter().filter_map(|scheme| lower.find(scheme)).min();
    if let Some(at) = scheme {
        return Some(trimmed(&word[at..]).to_owned());
    }
    // The target of a link in Markdown, or something in brackets.
    let bare =
        trimmed(word.rsplit("](").next()?.trim_start_matches(['(', '[', '{', '«', '‚', '\'', '*', '_']));
    let host = bare.split(['/', '?', '#', ':']).next()?;
    let (name, ending) = host.rsplit_once('.')?;
    let is_host = !name.is_empty()
        && ending.chars().count() >= 2
        && ending.chars().all(char::is_alphabetic)
        && host.split('.').all(|label| !label.is_empty())
        && host.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '-'));
    if !is_host || bare.contains('@') {
        return None;
    }
    Some(format!("https://{bare}"))
}

/// The address without what the sentence around it adds; brackets that it opens itself stay.
fn trimmed(text: &str) -> &str {
    // `[a](https://example.org/a)` and `https://example.org](` end with the bracket.
    let mut text = text.split("](").next().unwrap_or(text);
    while let Some(last) = text.chars().next_back().filter(|last| TRAILING.contains(last)) {
        let opening = match last {
            ')' => Some('('),
            ']' => Some('['),
            '}' => Some('{'),
            _ => None,
        };
        let count = |wanted: char| text.chars().filter(|letter| *letter == wanted).count();
        if opening.is_some_and(|opening| count(opening) >= count(last)) {
            break;
        }
        text = &text[..text.len() - last.len_utf8()];
    }
    text
}

fn key(address: &str) -> [u8; 16] {
    let digest = Sha256::digest(address.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> WebUrl {
        WebUrl::parse(text).expect("an address")
    }

    fn told(text: &str) -> Vec<String> {
        urls(text).iter().map(|(_, url)| url.to_string()).collect()
    }

    #[test]
    fn addresses_are_found_as_people_write_them() {
        for (text, wanted) in [
            ("Read https://example.org/a?b=c#d, please.", "https://example.org/a?b=c"),
            ("(see http://example.org/x_(y))", "http://example.org/x_(y)"),
            ("[the act](https://example.org/act)!", "https://example.org/act"),
            ("<https://example.org/a>", "https://example.org/a"),
            ("„https://example.org/a“", "https://example.org/a"),
            ("HTTPS://EXAMPLE.ORG/A", "https://example.org/A"),
            ("podívej se na justice.cz.", "https://justice.cz/"),
            ("www.example.org/a", "https://www.example.org/a"),
            ("(example.org/a:b)", "https://example.org/a:b"),
            ("**example.org**", "https://example.org/"),
            ("háček.cz", "https://xn--hek-ela4t.cz/"),
        ] {
            assert_eq!(told(text), [wanted], "{text}");
        }
        for text in
            ["", "no address. None", "me@example.org", "1.2", "§ 2235 odst. 1", "a..b", "...", ".org", "e.g."]
        {
            assert!(told(text).is_empty(), "{text}: {:?}", told(text));
        }
        assert_eq!(told(&"https://example.org ".repeat(PER_TEXT_MAX + 1)).len(), PER_TEXT_MAX);
    }

    #[test]
    fn only_what_was_said_or_came_back_is_allowed_letter_by_letter() {
        let mut allowed = UrlAllowlist::new();
        allowed.add_words("What does http://example.org/lease/ say, and https://example.org/%C3%A1?b=c#d?");
        assert!(allowed.contains("http://example.org/lease/"));
        assert!(allowed.contains("https://example.org/%C3%A1?b=c#d"), "as it stands in the user's words");
        assert!(allowed.contains("https://example.org/%C3%A1?b=c"), "in its one spelling");
        for other in [
            "https://example.org/lease/",
            "http://example.org/lease",
            "http://example.org/lease//",
            "http://example.org/lease/////////",
            "http://example.org//lease/",
            "http://example.org/lease/.",
            "http://example.org/./lease/",
            "http://example.org/a/../lease/",
            "http://example.org/lease/?",
            "http://example.org/lease/#",
            "http://example.org/lease/#secret",
            "http://example.org:80/lease/",
            "http://example.org./lease/",
            "http://EXAMPLE.org/lease/",
            "HTTP://example.org/lease/",
            "http://example.org/%6cease/",
            "http:/example.org/lease/",
            "http:\\\\example.org\\lease\\",
            "http://@example.org/lease/",
            " http://example.org/lease/",
            "http://example.org/lease/ ",
            "http://example.org/le\tase/",
            "http://example.org/lease/\n",
            "http://example.org/lease/.,;!",
            "https://example.org/%c3%a1?b=c",
            "https://example.org/\u{e1}?b=c",
            "https://example.org/%C3%A1?b=c&",
            "https://example.org/%C3%A1?b=c#e",
            "https://example.org/",
            "https://example.org/lease/2",
            "https://example.org/lease?secret=1",
            "https://evil.example.org/lease",
            "https://example.org:8443/lease",
            "",
        ] {
            assert!(!allowed.contains(other), "{other:?}");
        }
        allowed.add(&url("https://found.example/a"));
        assert!(allowed.contains("https://found.example/a"));
        assert!(!allowed.contains("https://found.example/a/") && !allowed.contains("http://found.example/a"));
    }

    #[test]
    fn what_people_write_is_allowed_as_they_write_it_and_as_the_web_does() {
        let mut allowed = UrlAllowlist::new();
        allowed.add_words("HTTPS://Example.ORG, justice.cz a h\u{e1}\u{10d}ek.cz/a");
        for address in [
            "HTTPS://Example.ORG",
            "https://example.org/",
            "https://justice.cz",
            "https://justice.cz/",
            "https://h\u{e1}\u{10d}ek.cz/a",
            "https://xn--hek-ela4t.cz/a",
        ] {
            assert!(allowed.contains(address), "{address}");
        }
        assert!(!allowed.contains("https://example.org") && !allowed.contains("http://justice.cz"));
    }

    #[test]
    fn the_oldest_go_first() {
        let mut allowed = UrlAllowlist::new();
        let page = |number: usize| url(&format!("https://example.org/{number}"));
        for number in 0..=ALLOWED_MAX {
            allowed.add(&page(number));
            allowed.add(&page(number));
        }
        assert!(!allowed.contains(page(0).as_str()));
        assert!(allowed.contains(page(1).as_str()) && allowed.contains(page(ALLOWED_MAX).as_str()));
        assert_eq!(allowed.known.len(), ALLOWED_MAX);
    }
}
