//! Secrets of the operator, such as vendors' keys, which no log or error reveals.

use std::fmt;

/// The length in bytes from which on a word of a secret is redacted on its own.
const WORD_MIN_BYTES: usize = 16;
/// The replacement for a secret.
const REDACTED: &str = "[secret]";

/// A text that is only sent to its server.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
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
        // In `Bearer …` the second word is the secret; short words are not.
        let words = self.0.split_whitespace().filter(|word| word.len() >= WORD_MIN_BYTES || *word == self.0);
        words.fold(text.to_owned(), |text, word| text.replace(word, REDACTED))
    }
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
    fn a_secret_is_not_shown_nor_repeated() {
        let secret = Secret::new("Bearer a-very-secret-token");
        assert!(!format!("{secret:?}").contains("secret-token"));
        assert_eq!(secret.redact("Bearer of a-very-secret-token!"), "Bearer of [secret]!");
        assert_eq!(Secret::new("key").redact("a key"), "a [secret]");
        assert_eq!(Secret::new("").redact("words"), "words");
    }
}
