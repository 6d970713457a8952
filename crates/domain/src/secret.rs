//! Secrets of the operator, such as vendors' keys, which no log or error reveals.

use std::fmt;

/// The length in bytes from which on a word of a secret is redacted on its own.
const WORD_MIN_BYTES: usize = 16;
/// Shorter secrets are redacted only as whole words: `x` also occurs in `max_tokens`.
const PART_MIN_BYTES: usize = 8;
/// The replacement for a secret.
const REDACTED: &str = "[secret]";

/// A text that is only sent to its server.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for sending it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Removes the secret from a server's text, in case the server repeated it.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        // In `Bearer …` the second word is the secret; short words are not secret.
        let words = self.0.split_whitespace().filter(|word| word.len() >= WORD_MIN_BYTES || *word == self.0);
        words.fold(text.to_owned(), |text, word| {
            if word.len() >= PART_MIN_BYTES {
                text.replace(word, REDACTED)
            } else {
                replace_whole_words(&text, word)
            }
        })
    }
}

/// Redacts a word where it is not part of a longer one.
fn replace_whole_words(text: &str, word: &str) -> String {
    let joins = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (at, found) in text.match_indices(word) {
        let end = at + found.len();
        if !joins(text[..at].chars().next_back()) && !joins(text[end..].chars().next()) {
            out.push_str(&text[copied..at]);
            out.push_str(REDACTED);
            copied = end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_never_shown_or_repeated() {
        let secret = Secret::new("Bearer a-very-secret-token");
        assert!(!format!("{secret:?}").contains("secret-token"));
        assert_eq!(secret.redact("Bearer of a-very-secret-token!"), "Bearer of [secret]!");
        assert_eq!(Secret::new("key").redact("a key"), "a [secret]");
        assert_eq!(Secret::new("").redact("words"), "words");
        assert_eq!(
            Secret::new("sk-12345").redact("keysk-12345"),
            "key[secret]",
            "a long one is redacted everywhere"
        );
    }

    #[test]
    fn redact_short_secret_as_whole_word() {
        let text = "max_tokens of x, context (x) and x1: 'x'";
        assert_eq!(
            Secret::new("x").redact(text),
            "max_tokens of [secret], context ([secret]) and x1: '[secret]'"
        );
        assert_eq!(Secret::new("1").redact("1: 4096 of 1"), "[secret]: 4096 of [secret]");
        assert_eq!(Secret::new("token").redact("tokens token"), "tokens [secret]");
        assert_eq!(Secret::new("é").redact("café é"), "café [secret]");
    }
}
