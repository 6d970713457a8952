//! Keys that no log and no error shows.

use std::fmt;

use reqwest::header::HeaderValue;

/// From this length on a word of a header is taken for a secret of its own, in bytes.
const SECRET_MIN_BYTES: usize = 16;

/// A key, or another text that only its server may see.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The header's value of this text after `before`; `None` when no header can carry it.
    pub(crate) fn header(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// A server's words without the text, should it have repeated it.
    pub(crate) fn redact(&self, words: &str) -> String {
        // Of `Bearer …` the second word is the secret; what is short is none.
        let parts =
            self.0.split_whitespace().filter(|part| part.len() >= SECRET_MIN_BYTES || *part == self.0);
        parts.fold(words.to_owned(), |words, part| words.replace(part, "[secret]"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_nor_repeated() {
        let secret = Secret::new("Bearer a-very-secret-token");
        assert!(!format!("{secret:?}").contains("secret-token"));
        assert!(!format!("{:?}", secret.header("")).contains("secret-token"));
        assert_eq!(secret.redact("Bearer of a-very-secret-token!"), "Bearer of [secret]!");
        assert_eq!(Secret::new("key").redact("a key"), "a [secret]");
        assert_eq!(Secret::new("").redact("words"), "words");
        assert!(Secret::new("a\nb").header("").is_none());
    }
}
