//! The URLs that a conversation may fetch: those in the user's own words and those returned to it by searches and
//! fetches.
//!
//! Without the allowlist, the author of a page or document could make a model send data to a URL of their choice.

use std::collections::{HashSet, VecDeque};

use sha2::{Digest, Sha256};

use crate::WebUrl;

/// The maximum number of URLs per conversation; the oldest are evicted.
pub const ALLOWED_MAX: usize = 4000;
/// The maximum number of URLs taken from one text.
const PER_TEXT_MAX: usize = 500;
/// Characters that end a URL in running text.
const ENDS: [char; 9] = ['<', '>', '"', '`', '|', '\\', '“', '”', '„'];
/// Characters that are stripped from the end of a URL.
const TRAILING: &[char] = &['.', ',', ';', ':', '!', '?', '\'', '’', '…', '*', '_', '»', ')', ']', '}'];

/// The URLs that a conversation may fetch, in constant memory.
#[derive(Debug, Clone, Default)]
pub struct UrlAllowlist {
    known: HashSet<[u8; 16]>,
    order: VecDeque<[u8; 16]>,
}

impl UrlAllowlist {
    /// Creates an empty allowlist.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a URL returned by a search or a fetch, in its canonical form.
    pub fn add_url(&mut self, url: &WebUrl) {
        self.insert_address(url.as_str());
    }

    fn insert_address(&mut self, address: &str) {
        let key = address_key(address);
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

    /// Adds the URLs in the user's own words, as written and in their canonical form.
    pub fn add_words(&mut self, text: &str) {
        for (written, url) in find_urls(text) {
            self.insert_address(&written);
            self.add_url(&url);
        }
    }

    /// Returns true if the URL may be fetched: it must equal an added one exactly. Nothing is trimmed or
    /// normalized, because every ignored difference could carry data out.
    #[must_use]
    pub fn contains(&self, address: &str) -> bool {
        self.known.contains(&address_key(address))
    }
}

/// Finds the URLs in a text: with a scheme, or only a host (`example.org/a`, `www.example.org`), which implies
/// https. Returns each as written and in its canonical form.
fn find_urls(text: &str) -> Vec<(String, WebUrl)> {
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

/// Returns the URL in a word, with its scheme if it has one, otherwise as written.
fn written_in(word: &str) -> Option<String> {
    // Only ASCII letters change, so byte offsets stay the same.
    let lower = word.to_ascii_lowercase();
    let scheme = ["https://", "http://"].iter().filter_map(|scheme| lower.find(scheme)).min();
    if let Some(at) = scheme {
        return Some(trim_punctuation(&word[at..]).to_owned());
    }
    // The target of a Markdown link, or a URL in brackets.
    let bare = trim_punctuation(
        word.rsplit("](").next()?.trim_start_matches(['(', '[', '{', '«', '‚', '\'', '*', '_']),
    );
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

/// Removes punctuation of the surrounding sentence from a URL; balanced brackets stay.
fn trim_punctuation(text: &str) -> &str {
    // `[a](https://example.org/a)` and `https://example.org](` end at the bracket.
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

fn address_key(address: &str) -> [u8; 16] {
    let digest = Sha256::digest(address.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web_url(text: &str) -> WebUrl {
        WebUrl::parse(text).expect("an address")
    }

    fn urls_in(text: &str) -> Vec<String> {
        find_urls(text).iter().map(|(_, url)| url.to_string()).collect()
    }

    #[test]
    fn find_urls_as_people_write_them() {
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
            assert_eq!(urls_in(text), [wanted], "{text}");
        }
        for text in
            ["", "no address. None", "me@example.org", "1.2", "§ 2235 odst. 1", "a..b", "...", ".org", "e.g."]
        {
            assert!(urls_in(text).is_empty(), "{text}: {:?}", urls_in(text));
        }
        assert_eq!(urls_in(&"https://example.org ".repeat(PER_TEXT_MAX + 1)).len(), PER_TEXT_MAX);
    }

    #[test]
    fn allowlist_contains_only_exact_urls() {
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
        allowed.add_url(&web_url("https://found.example/a"));
        assert!(allowed.contains("https://found.example/a"));
        assert!(!allowed.contains("https://found.example/a/") && !allowed.contains("http://found.example/a"));
    }

    #[test]
    fn allowlist_adds_written_and_canonical_forms() {
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
        let page = |number: usize| web_url(&format!("https://example.org/{number}"));
        for number in 0..=ALLOWED_MAX {
            allowed.add_url(&page(number));
            allowed.add_url(&page(number));
        }
        assert!(!allowed.contains(page(0).as_str()));
        assert!(allowed.contains(page(1).as_str()) && allowed.contains(page(ALLOWED_MAX).as_str()));
        assert_eq!(allowed.known.len(), ALLOWED_MAX);
    }
}
