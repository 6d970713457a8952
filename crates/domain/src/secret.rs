//! Secrets of the operator, such as keys of vendors, that no log and no error shows.

use std::fmt;

/// From this length on a word of a secret counts as a secret of its own, in bytes.
const WORD_MIN_BYTES: usize = 16;
/// Stands for a secret.
const REDACTED: &str = "[secret]";

/// A text that only its server may see.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for whoever sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns a server's text without the secret, should the server have repeated it.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        // Of `Bearer …` the second word is the secret; what is short is none.
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
