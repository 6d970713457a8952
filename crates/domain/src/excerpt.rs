//! Excerpts of client input, for error messages.

use std::fmt;

/// The maximum number of characters of client input in a message.
pub const EXCERPT_MAX_CHARS: usize = 100;

/// Formats the beginning of a text in quotes, so that a message stays short.
#[derive(Debug, Clone, Copy)]
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.char_indices().nth(EXCERPT_MAX_CHARS) {
            None => write!(f, "{:?}", self.0),
            Some((end, _)) => write!(f, "{:?}…", &self.0[..end]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpt_cuts_between_characters() {
        assert_eq!(Excerpt("a\"b").to_string(), "\"a\\\"b\"");
        let exact = "č".repeat(EXCERPT_MAX_CHARS);
        assert_eq!(Excerpt(&exact).to_string(), format!("\"{exact}\""));
        assert_eq!(Excerpt(&format!("{exact}ž")).to_string(), format!("\"{exact}\"…"));
    }
}
