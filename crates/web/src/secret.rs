//! Keys that no log and no error shows.

use std::fmt;

use reqwest::header::HeaderValue;

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
        if self.0.is_empty() { words.to_owned() } else { words.replace(&self.0, "[secret]") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
