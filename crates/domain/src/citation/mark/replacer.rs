//! Marks of a growing text, for readers that get other text in their place.

use super::{MarkdownPiece, Scanner};

/// A piece of a growing text that no later text changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedPiece<'a> {
    /// Text or code.
    Text(&'a str),
    /// A text with the form of a mark.
    Mark {
        /// The white space and emphasis before the brackets.
        before: &'a str,
        brackets: &'a str,
        /// The emphasis and white space behind the brackets.
        after: &'a str,
        numbers: &'a [u32],
    },
}

/// Splits Markdown that is still being written. Each byte is scanned a bounded number of times.
#[derive(Debug, Clone, Default)]
pub struct MarkReplacer {
    scanner: Scanner,
    pending: String,
}

impl MarkReplacer {
    /// Appends text, and passes on what is decided now: all of it once the text has `ended`.
    pub fn push_text(&mut self, markdown: &str, ended: bool, mut put: impl FnMut(DecidedPiece<'_>)) {
        self.pending.push_str(markdown);
        let mut at = 0;
        while let Some(piece) = self.scanner.next_piece(&self.pending, &mut at, ended) {
            match piece {
                MarkdownPiece::Text(range) | MarkdownPiece::Code(range) => {
                    put(DecidedPiece::Text(&self.pending[range]));
                }
                MarkdownPiece::Mark(mark) => put(DecidedPiece::Mark {
                    before: &self.pending[mark.whole.start..mark.brackets.start],
                    brackets: &self.pending[mark.brackets.clone()],
                    after: &self.pending[mark.brackets.end..mark.whole.end],
                    numbers: &mark.numbers,
                }),
            }
        }
        self.pending.drain(..at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_text_holds_undecided_marks() {
        let text = "The rent is **due** [1], `x[2]` and late [3]";
        for size in 1..=text.len() {
            let mut replacer = MarkReplacer::default();
            let mut out = String::new();
            let mut put = |piece: DecidedPiece<'_>| match piece {
                DecidedPiece::Text(text) => out.push_str(text),
                DecidedPiece::Mark { before, numbers, after, .. } => {
                    out.push_str(&format!("{before}{numbers:?}{after}!"));
                }
            };
            let mut at = 0;
            while at < text.len() {
                let end = (at + size).min(text.len());
                replacer.push_text(&text[at..end], end == text.len(), &mut put);
                at = end;
            }
            assert_eq!(out, "The rent is **due** [1]!, `x[2]` and late [3]!", "{size}");
        }
    }
}
