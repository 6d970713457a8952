//! Separates thoughts that a server leaves in the text: between `<think>` and `</think>`, at its beginning or at the
//! beginning of a line. A closing tag without its opening one ends thoughts that began with the text. Models repeat it: a
//! second one after white space is left out, and one on a line of its own ends thoughts that went on, if text follows.

/// The names of the tags, in letters of any case.
const NAMES: [&str; 6] = ["think", "thinking", "thought", "reasoning", "seed:think", "mm:think"];
const TAG_MAX_BYTES: usize = "</seed:think>".len();

/// A part of received text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ThoughtPiece {
    Text(String),
    Thought(String),
    /// All text so far was a thought.
    WasThought,
}

/// Takes the text of a step piece by piece.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    place: ThoughtPlace,
    /// May contain the beginning of a tag.
    held: String,
    /// The tag that closes the thoughts.
    closing: String,
    /// True once an opening tag was seen: a closing one alone means nothing from then on.
    has_tag: bool,
    /// True while another closing tag may end more of the thoughts that began with the text.
    may_go_on: bool,
    /// The last letter of the text that was emitted.
    last: Option<char>,
    fence: CodeFence,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ThoughtPlace {
    /// Nothing but white space has come.
    #[default]
    Beginning,
    Inside,
    /// After thoughts; white space before the text is left out.
    After,
    Text,
    /// After a closing tag behind text. What was text was a thought if more text follows.
    Repeated,
}

/// Tracks whether text is in a fenced block of code.
#[derive(Debug, Default, Clone, Copy)]
struct CodeFence {
    is_open: bool,
    /// True once a line has more than the backticks at its beginning.
    is_past_mark: bool,
    backticks: usize,
}

impl CodeFence {
    fn track_text(mut self, text: &str) -> Self {
        for letter in text.chars() {
            match letter {
                '\n' => (self.is_past_mark, self.backticks) = (false, 0),
                '`' if !self.is_past_mark => {
                    self.backticks += 1;
                    self.is_open ^= self.backticks == 3;
                }
                ' ' => {}
                _ => self.is_past_mark = true,
            }
        }
        self
    }
}

impl Thoughts {
    /// Takes text and returns what is certain, in order.
    pub(super) fn push_text(&mut self, text: &str) -> Vec<ThoughtPiece> {
        let mut out = Vec::new();
        self.held.push_str(text);
        while self.advance_held(&mut out) {}
        out
    }

    /// Returns the text held at the end of the step.
    pub(super) fn take_held(&mut self) -> Option<ThoughtPiece> {
        let held = Some(std::mem::take(&mut self.held)).filter(|held| !held.is_empty())?;
        if self.place == ThoughtPlace::Repeated {
            return None;
        }
        Some(if self.place == ThoughtPlace::Inside {
            ThoughtPiece::Thought(held)
        } else {
            ThoughtPiece::Text(held)
        })
    }

    /// Processes a part of the held text. Returns false if more text is needed.
    fn advance_held(&mut self, out: &mut Vec<ThoughtPiece>) -> bool {
        match self.place {
            ThoughtPlace::Beginning | ThoughtPlace::After => self.begin_thought(),
            ThoughtPlace::Inside => self.close_thought(out),
            ThoughtPlace::Text => self.go_on(out),
            ThoughtPlace::Repeated => self.end_again(out),
        }
    }

    /// Decides whether thoughts begin after leading white space only.
    fn begin_thought(&mut self) -> bool {
        let begun = self.held.trim_start();
        if let Some(rest) = strip_closing_tag(begun).filter(|_| self.place == ThoughtPlace::After) {
            self.held = rest.to_owned();
            return true;
        }
        if begun.is_empty() || may_become_tag(begun) {
            if self.place == ThoughtPlace::After {
                self.held = begun.to_owned();
            }
            return false;
        }
        if let Some((name, rest)) = strip_opening_tag(begun) {
            let (name, rest) = (name.to_owned(), rest.to_owned());
            self.open_thought(&name, rest);
        } else {
            if self.place == ThoughtPlace::After {
                self.held = begun.to_owned();
            }
            self.place = ThoughtPlace::Text;
            (self.last, self.fence) = (None, CodeFence::default());
        }
        true
    }

    fn open_thought(&mut self, name: &str, rest: String) {
        self.closing = format!("</{name}>");
        self.held = rest;
        (self.has_tag, self.may_go_on) = (true, false);
        self.place = ThoughtPlace::Inside;
    }

    /// Decides what a closing tag behind text means.
    fn end_again(&mut self, out: &mut Vec<ThoughtPiece>) -> bool {
        if self.held.trim().is_empty() {
            return false;
        }
        out.push(ThoughtPiece::WasThought);
        self.place = ThoughtPlace::After;
        true
    }

    /// Emits thoughts up to the closing tag.
    fn close_thought(&mut self, out: &mut Vec<ThoughtPiece>) -> bool {
        if let Some((thought, rest)) = self.held.split_once(&self.closing) {
            push_piece(out, ThoughtPiece::Thought(thought.to_owned()));
            self.held = rest.to_owned();
            self.place = ThoughtPlace::After;
            return true;
        }
        let closing = &self.closing;
        let begun = (1..closing.len()).rev().find(|length| self.held.ends_with(&closing[..*length]));
        let held = self.held.split_off(self.held.len() - begun.unwrap_or(0));
        push_piece(out, ThoughtPiece::Thought(std::mem::replace(&mut self.held, held)));
        false
    }

    /// Emits text up to a tag at the beginning of a line.
    fn go_on(&mut self, out: &mut Vec<ThoughtPiece>) -> bool {
        let mut from = 0;
        while let Some(found) = self.held[from..].find('<') {
            let at = from + found;
            let (before, rest) = self.held.split_at(at);
            let previous = before.chars().last().or(self.last);
            let starts_line = previous.is_none_or(|letter| letter == '\n');
            match strip_opening_tag(rest) {
                Some((name, behind)) if starts_line => {
                    let (name, behind, before) = (name.to_owned(), behind.to_owned(), before.to_owned());
                    push_piece(out, ThoughtPiece::Text(before));
                    self.open_thought(&name, behind);
                    return true;
                }
                Some(_) => (self.has_tag, self.may_go_on) = (true, false),
                None => {}
            }
            let closes = !self.has_tag && previous != Some('`');
            let closes_again = self.may_go_on && starts_line && !self.fence.track_text(before).is_open;
            if (closes || closes_again)
                && let Some(behind) = strip_closing_tag(rest)
            {
                let (behind, before) = (behind.to_owned(), before.to_owned());
                push_piece(out, ThoughtPiece::Text(before));
                if closes {
                    out.push(ThoughtPiece::WasThought);
                }
                self.place = if closes { ThoughtPlace::After } else { ThoughtPlace::Repeated };
                (self.has_tag, self.may_go_on, self.held) = (true, true, behind);
                return true;
            }
            if may_become_tag(rest) && (starts_line || !self.has_tag || self.may_go_on) {
                let held = self.held.split_off(at);
                self.emit_text(out);
                self.held = held;
                return false;
            }
            from = at + 1;
        }
        self.emit_text(out);
        false
    }

    fn emit_text(&mut self, out: &mut Vec<ThoughtPiece>) {
        self.last = self.held.chars().last().or(self.last);
        self.fence = self.fence.track_text(&self.held);
        push_piece(out, ThoughtPiece::Text(std::mem::take(&mut self.held)));
    }
}

fn push_piece(out: &mut Vec<ThoughtPiece>, piece: ThoughtPiece) {
    let is_empty = match &piece {
        ThoughtPiece::Text(text) | ThoughtPiece::Thought(text) => text.is_empty(),
        ThoughtPiece::WasThought => false,
    };
    if !is_empty {
        out.push(piece);
    }
}

/// Returns the name of the opening tag at the beginning as written, and the text after it.
fn strip_opening_tag(text: &str) -> Option<(&str, &str)> {
    name_and_rest(text.strip_prefix('<')?)
}

/// Returns what follows a closing tag at the beginning.
fn strip_closing_tag(text: &str) -> Option<&str> {
    name_and_rest(text.strip_prefix("</")?).map(|(_, rest)| rest)
}

/// Splits the rest of a tag after its name.
fn name_and_rest(inner: &str) -> Option<(&str, &str)> {
    NAMES.iter().find_map(|name| {
        let (written, rest) = inner.split_at_checked(name.len())?;
        Some((written, rest.strip_prefix('>')?)).filter(|_| written.eq_ignore_ascii_case(name))
    })
}

/// Returns true if a text may become a tag.
fn may_become_tag(text: &str) -> bool {
    if text.len() >= TAG_MAX_BYTES {
        return false;
    }
    let text = text.to_ascii_lowercase();
    NAMES.iter().any(|name| format!("<{name}>").starts_with(&text) || format!("</{name}>").starts_with(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the thoughts and the text that come of pieces of these sizes.
    fn separate_thoughts(whole: &str, size: usize) -> (String, String) {
        let (mut thoughts, mut thought, mut text) = (Thoughts::default(), String::new(), String::new());
        let mut take = |piece: ThoughtPiece| match piece {
            ThoughtPiece::Text(more) => text.push_str(&more),
            ThoughtPiece::Thought(more) => thought.push_str(&more),
            ThoughtPiece::WasThought => {
                thought.push_str(&text);
                text.clear();
            }
        };
        for piece in whole.as_bytes().chunks(size) {
            thoughts.push_text(str::from_utf8(piece).expect("ASCII")).into_iter().for_each(&mut take);
        }
        thoughts.take_held().into_iter().for_each(take);
        (thought, text)
    }

    #[test]
    fn thoughts_separated_at_any_cut() {
        for (whole, thought, text) in [
            ("<think>a < b</think>\n\nYes.", "a < b", "Yes."),
            ("\n<think>\nHm.</think>Yes.", "\nHm.", "Yes."),
            ("<think></think>Yes.", "", "Yes."),
            ("<think>cut off </t", "cut off </t", ""),
            ("Yes, <think> is a tag.</think>", "", "Yes, <think> is a tag.</think>"),
            ("Say `</think>` or `<think>`.", "", "Say `</think>` or `<think>`."),
            ("<thin", "", "<thin"),
            ("  Yes.", "", "  Yes."),
            ("a < b and </b> is HTML\n<p>", "", "a < b and </b> is HTML\n<p>"),
            ("<thinking>Hm.</thinking>Yes.", "Hm.", "Yes."),
            ("<THINK>Hm.</THINK>Yes.", "Hm.", "Yes."),
            ("<seed:think>Hm.</seed:think>Yes.", "Hm.", "Yes."),
            ("<mm:think>Hm.</mm:think>\n\nYes.", "Hm.", "Yes."),
            ("Hm.</Think>Yes.", "Hm.", "Yes."),
            ("<mm:thing>Yes.", "", "<mm:thing>Yes."),
            ("<thinking>a</think>b</thinking>Yes.", "a</think>b", "Yes."),
            ("Hmm, let me see.\n</think>\n\nWhole.", "Hmm, let me see.\n", "Whole."),
            ("Hm </think>Whole.", "Hm ", "Whole."),
            ("</think>Whole.", "", "Whole."),
            ("<think>a</think>\n<think>b</think>Yes.", "ab", "Yes."),
            ("<think>a</think>Yes.\n<think>b</think>\nNo.", "ab", "Yes.\nNo."),
            ("<think>a</think>Yes </think> no.", "a", "Yes </think> no."),
            ("<think>a</think>\n\n</think>\n\nYes.", "a", "Yes."),
            ("<think>a</think></think>\n</think>Yes.", "a", "Yes."),
            ("<think>a</think>\n</think>", "a", ""),
            ("Hm.\n</think>\n\n</think>\n\nYes.", "Hm.\n", "Yes."),
            ("Hm.</think>\nMore.\n</think>\n\nYes.", "Hm.More.\n", "Yes."),
            ("Hm.</think>a\n</think>\nb\n</think>\nYes.", "Hm.a\nb\n", "Yes."),
            ("Hm.</think>\nYes.\n</think>\n", "Hm.", "Yes.\n"),
            ("Hm.</think>Use </think> there.", "Hm.", "Use </think> there."),
            ("Hm.</think>Use `</think>`.\n`</think>`", "Hm.", "Use `</think>`.\n`</think>`"),
            ("Hm.</think>So:\n```\n</think>\n```\nYes.", "Hm.", "So:\n```\n</think>\n```\nYes."),
            ("Hm.</think>`<think>` or\n</think>\nYes.", "Hm.", "`<think>` or\n</think>\nYes."),
            ("<think>a</think>Yes.\n</think>\nNo.", "a", "Yes.\n</think>\nNo."),
        ] {
            for size in 1..=whole.len() {
                let expected = (thought.to_owned(), text.to_owned());
                assert_eq!(separate_thoughts(whole, size), expected, "{whole:?} in pieces of {size}");
            }
        }
    }
}
