//! Separates thoughts that a server leaves in the text: between `<think>` and `</think>`, at its beginning.

const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

/// A part of what arrived as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thought(String),
}

/// Takes the text of a step piece by piece.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    place: Place,
    /// May be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has come.
    #[default]
    Beginning,
    Inside,
    /// After thoughts; white space before the text is left out.
    After,
    Text,
}

impl Thoughts {
    /// Takes text and returns what is certain, in order.
    pub(super) fn take(&mut self, text: &str) -> Vec<Piece> {
        let mut out = Vec::new();
        self.held.push_str(text);
        if self.place == Place::Beginning {
            let begun = self.held.trim_start();
            if begun.len() < OPENING.len() && OPENING.starts_with(begun) {
                return out;
            }
            self.place = match begun.strip_prefix(OPENING) {
                Some(rest) => {
                    self.held = rest.to_owned();
                    Place::Inside
                }
                None => Place::Text,
            };
        }
        if self.place == Place::Inside {
            match self.held.split_once(CLOSING) {
                Some((thought, rest)) => {
                    push(&mut out, Piece::Thought(thought.to_owned()));
                    self.held = rest.to_owned();
                    self.place = Place::After;
                }
                None => {
                    let kept = self.held.len() - beginning_of_closing(&self.held);
                    let held = self.held.split_off(kept);
                    push(&mut out, Piece::Thought(std::mem::replace(&mut self.held, held)));
                }
            }
        }
        if self.place == Place::After {
            self.held = self.held.trim_start().to_owned();
            if !self.held.is_empty() {
                self.place = Place::Text;
            }
        }
        if self.place == Place::Text {
            push(&mut out, Piece::Text(std::mem::take(&mut self.held)));
        }
        out
    }

    /// Returns what was held at the end of the step.
    pub(super) fn end(&mut self) -> Option<Piece> {
        let held = Some(std::mem::take(&mut self.held)).filter(|held| !held.is_empty())?;
        Some(if self.place == Place::Inside { Piece::Thought(held) } else { Piece::Text(held) })
    }
}

fn push(out: &mut Vec<Piece>, piece: Piece) {
    let (Piece::Text(text) | Piece::Thought(text)) = &piece;
    if !text.is_empty() {
        out.push(piece);
    }
}

/// Returns how many bytes at the end of a text may be the beginning of the closing tag.
fn beginning_of_closing(text: &str) -> usize {
    (1..CLOSING.len()).rev().find(|length| text.ends_with(&CLOSING[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the thoughts and the text that come of pieces of these sizes.
    fn separated(whole: &str, size: usize) -> (String, String) {
        let (mut thoughts, mut thought, mut text) = (Thoughts::default(), String::new(), String::new());
        let mut take = |piece: Piece| match piece {
            Piece::Text(more) => text.push_str(&more),
            Piece::Thought(more) => thought.push_str(&more),
        };
        for piece in whole.as_bytes().chunks(size) {
            thoughts.take(str::from_utf8(piece).expect("ASCII")).into_iter().for_each(&mut take);
        }
        thoughts.end().into_iter().for_each(take);
        (thought, text)
    }

    #[test]
    fn thoughts_at_the_beginning_are_no_text_however_they_are_cut() {
        for (whole, thought, text) in [
            ("<think>a < b</think>\n\nYes.", "a < b", "Yes."),
            ("\n<think>\nHm.</think>Yes.", "\nHm.", "Yes."),
            ("<think></think>Yes.", "", "Yes."),
            ("<think>cut off </t", "cut off </t", ""),
            ("Yes, <think> is a tag.</think>", "", "Yes, <think> is a tag.</think>"),
            ("<thin", "", "<thin"),
            ("  Yes.", "", "  Yes."),
        ] {
            for size in 1..=whole.len() {
                let expected = (thought.to_owned(), text.to_owned());
                assert_eq!(separated(whole, size), expected, "{whole:?} in pieces of {size}");
            }
        }
    }
}
