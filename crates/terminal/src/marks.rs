//! Puts the marks of citations into the text of an answer.
//!
//! The interface returns the text without marks, and HTML with a link at each mark. A mark is placed after the
//! letters that precede its link: these are searched for in the text after the previous mark.

use client::{ChatAnswerPart, PartType};

/// The letters before a mark that are compared, at first; fewer if they are not there in one piece.
const CONTEXT_LETTERS: [usize; 4] = [24, 12, 6, 2];
/// The attribute of the links of marks, up to the number.
const CITATION: &str = "data-citation=\"c";

/// A mark in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CitationMark {
    /// Its place in bytes.
    pub(crate) at: usize,
    pub(crate) number: u32,
}

/// Finds the places of the marks in the text of an answer, in order. A mark whose letters are not found is left out.
pub(crate) fn find_marks(text: &str, parts: &[ChatAnswerPart]) -> Vec<CitationMark> {
    let texts = parts.iter().filter(|part| part.kind == PartType::Text);
    let html: String = texts.filter_map(|part| part.content.as_deref()).collect();
    if !html.contains(CITATION) {
        return Vec::new();
    }
    let letters: Vec<(usize, char)> =
        text.char_indices().filter(|(_, letter)| letter.is_alphanumeric()).collect();
    let mut shown = VisibleText { letters: Vec::new(), after: String::new(), numbers: Vec::new() };
    let mut found = Vec::new();
    // The letters of the HTML and of the text up to the mark before.
    let (mut seen, mut end) = (0, 0);
    let mut rest = html.as_str();
    while shown.read_to_mark(&mut rest) {
        let least = end + (shown.letters.len() - seen);
        if let Some(place) = shown.find_letters(&letters, least) {
            (seen, end) = (shown.letters.len(), place);
            let from = place.checked_sub(1).map_or(0, |last| letters[last].0 + letters[last].1.len_utf8());
            let at = from + closing_bytes(&text[from..], &shown.after);
            found.extend(shown.numbers.iter().map(|number| CitationMark { at, number: *number }));
        }
        shown.numbers.clear();
    }
    found
}

/// Writes a piece of a text with its marks. `from` is its place in the text.
pub(crate) fn write_marked(piece: &str, from: usize, marks: &[CitationMark]) -> String {
    let mut out = String::with_capacity(piece.len() + marks.len() * 4);
    let mut written = 0;
    for mark in marks {
        let at = mark.at.saturating_sub(from).min(piece.len());
        out.push_str(&piece[written..at]);
        written = at;
        push_mark(mark.number, &mut out);
    }
    out.push_str(&piece[written..]);
    out
}

/// Appends a mark, apart from a word and next to another mark.
pub(crate) fn push_mark(number: u32, out: &mut String) {
    if !out.ends_with([' ', '\n', ']']) {
        out.push(' ');
    }
    out.push_str(&format!("[{number}]"));
}

/// The text that a reader sees of the HTML so far.
struct VisibleText {
    letters: Vec<char>,
    /// The signs after the last letter.
    after: String,
    /// The numbers of the marks here.
    numbers: Vec<u32>,
}

impl VisibleText {
    /// Reads to the end of the next mark. Returns false at the end.
    fn read_to_mark(&mut self, rest: &mut &str) -> bool {
        while let Some(next) = rest.chars().next() {
            match next {
                '<' => {
                    let (tag, after) = rest.split_once('>').unwrap_or((rest, ""));
                    *rest = after;
                    let number =
                        tag.split_once(CITATION).and_then(|(_, id)| id.split('"').next()?.parse().ok());
                    if let Some(number) = number {
                        *rest = after.split_once("</a>").map_or("", |(_, after)| after);
                        self.numbers.push(number);
                        return true;
                    }
                }
                '&' => {
                    let (name, after) = rest[1..].split_once(';').unwrap_or(("", ""));
                    *rest = after;
                    self.after.push_str(match name {
                        "amp" => "&",
                        "lt" => "<",
                        "gt" => ">",
                        "quot" => "\"",
                        _ => " ",
                    });
                }
                letter => {
                    *rest = &rest[letter.len_utf8()..];
                    if letter.is_alphanumeric() {
                        self.letters.push(letter);
                        self.after.clear();
                    } else {
                        self.after.push(letter);
                    }
                }
            }
        }
        false
    }

    /// Returns the number of the text's letters up to the end of the letters that precede the mark: at least `least`.
    fn find_letters(&self, text: &[(usize, char)], least: usize) -> Option<usize> {
        if self.letters.is_empty() {
            return Some(0);
        }
        CONTEXT_LETTERS.iter().find_map(|letters| {
            let context = &self.letters[self.letters.len().saturating_sub(*letters)..];
            (least.max(context.len())..=text.len()).find(|end| {
                text[end - context.len()..*end].iter().map(|(_, letter)| letter).eq(context.iter())
            })
        })
    }
}

/// Returns the bytes of the signs that belong to the word before the mark: signs that precede it in the HTML,
/// and signs that close emphasis, code or a link.
fn closing_bytes(text: &str, signs: &str) -> usize {
    let closes = |c: char| matches!(c, '*' | '_' | '~' | '`');
    let mut rest = text;
    for sign in signs.chars().filter(|sign| !sign.is_whitespace()) {
        let inner = rest.trim_start_matches(|c: char| closes(c) || c == '\\');
        let Some(after) = rest.strip_prefix(sign).or_else(|| inner.strip_prefix(sign)) else { break };
        rest = after;
    }
    rest = rest.trim_start_matches(closes);
    if rest.starts_with("](") {
        rest = rest.split_once(')').map_or(rest, |(_, after)| after);
    }
    text.len() - rest.len()
}

#[cfg(test)]
pub(crate) mod tests {
    use client::PartState;

    use super::*;

    /// Returns a part of this type with HTML.
    pub(crate) fn text_part(html: &str) -> ChatAnswerPart {
        ChatAnswerPart {
            part_id: "t".to_owned(),
            kind: PartType::Text,
            content: Some(html.to_owned()),
            tool_name: None,
            tool_call_id: None,
            state: Some(PartState::Complete),
            query: None,
            path: None,
            skill_id: None,
            name: None,
            full_name: None,
            citations: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Returns HTML in which each `[n]` is the link of a mark.
    pub(crate) fn link_marks(html: &str) -> String {
        (1..=9).fold(html.to_owned(), |html, number| {
            let link = format!("<a href=\"/x\" data-citation=\"c{number}\" rel=\"x\">({number})</a>");
            html.replace(&format!("[{number}]"), &link)
        })
    }

    #[test]
    fn marks_stand_where_their_links_do() {
        for (text, html, expected) in [
            ("It ends in May.", "<p>It ends in May [1].</p>", "It ends in May [1]."),
            (
                "It ends in **May.** Soon",
                "<p>It ends in <strong>May.</strong> [2] Soon</p>",
                "It ends in **May.** [2] Soon",
            ),
            (
                "See [here](https://here.test/a) and *there*, too.",
                "<p>See <a href=\"https://here.test/a\">here</a> [1] and <em>there</em> [2][3], too.</p>",
                "See [here](https://here.test/a) [1] and *there* [2][3], too.",
            ),
            (
                "1. a rent\n2. a rent & more\n",
                "<ol><li>a rent [1]</li>\n<li>a rent &amp; more [2]</li>\n</ol>",
                "1. a rent [1]\n2. a rent & more [2]\n",
            ),
            (
                "| a | b |\n|---|---|\n| c | d |",
                "<table><td>a</td><td>b</td><td>c [1]</td><td>d</td></table>",
                "| a | b |\n|---|---|\n| c [1] | d |",
            ),
            ("Nothing of it", "<p>Entirely other words [1]</p>", "Nothing of it"),
        ] {
            let found = find_marks(text, &[text_part(&link_marks(html))]);
            assert_eq!(write_marked(text, 0, &found), expected);
        }
    }
}
