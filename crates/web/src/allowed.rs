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
pub struct Allowed {
    known: HashSet<[u8; 16]>,
    order: VecDeque<[u8; 16]>,
}

impl Allowed {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An address that came back from a search or a fetch.
    pub fn add(&mut self, url: &WebUrl) {
        let key = key(url);
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

    /// The addresses in a text: the user's own words, or what a search or a fetch told the model.
    pub fn add_words(&mut self, text: &str) {
        for url in urls(text) {
            self.add(&url);
        }
    }

    /// Whether the address may be fetched. Over http or https makes no difference, nor does a slash at its end.
    #[must_use]
    pub fn contains(&self, url: &WebUrl) -> bool {
        self.known.contains(&key(url))
    }
}

/// The addresses in a text, as people write them: with a scheme, or a host alone (`example.org/a`, `www.example.org`).
fn urls(text: &str) -> Vec<WebUrl> {
    let mut found = Vec::new();
    for word in text.split(|letter: char| letter.is_whitespace() || ENDS.contains(&letter)) {
        if found.len() == PER_TEXT_MAX {
            break;
        }
        found.extend(in_word(word));
    }
    found
}

fn in_word(word: &str) -> Option<WebUrl> {
    // ASCII letters alone change, so places in one are places in the other.
    let lower = word.to_ascii_lowercase();
    let scheme = ["https://", "http://"].iter().filter_map(|scheme| lower.find(scheme)).min();
    if let Some(at) = scheme {
        return WebUrl::parse(trimmed(&word[at..]));
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
    WebUrl::parse(&format!("https://{bare}"))
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

fn key(url: &WebUrl) -> [u8; 16] {
    let bare = url.as_str();
    let bare = bare.split_once("://").map_or(bare, |(_, rest)| rest);
    let digest = Sha256::digest(bare.trim_end_matches('/').as_bytes());
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
        urls(text).iter().map(ToString::to_string).collect()
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
    fn only_what_was_said_or_came_back_is_allowed() {
        let mut allowed = Allowed::new();
        allowed.add_words("What does http://example.org/lease/ say?");
        assert!(allowed.contains(&url("http://example.org/lease/")));
        assert!(allowed.contains(&url("https://example.org/lease")), "the same over TLS");
        assert!(allowed.contains(&url("https://example.org/lease#end")));
        for other in [
            "https://example.org/",
            "https://example.org/lease/2",
            "https://example.org/lease?secret=1",
            "https://evil.example.org/lease",
            "https://example.org:8443/lease",
        ] {
            assert!(!allowed.contains(&url(other)), "{other}");
        }
        allowed.add(&url("https://found.example/a"));
        assert!(allowed.contains(&url("https://found.example/a")));
    }

    #[test]
    fn the_oldest_go_first() {
        let mut allowed = Allowed::new();
        let page = |number: usize| url(&format!("https://example.org/{number}"));
        for number in 0..=ALLOWED_MAX {
            allowed.add(&page(number));
            allowed.add(&page(number));
        }
        assert!(!allowed.contains(&page(0)));
        assert!(allowed.contains(&page(1)) && allowed.contains(&page(ALLOWED_MAX)));
        assert_eq!(allowed.known.len(), ALLOWED_MAX);
    }
}
