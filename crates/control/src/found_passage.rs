//! The passage of a conversation that contains searched words, for the list of results.

/// The number of characters before the first found word, and from it on.
const BEFORE_CHARS: usize = 50;
const AFTER_CHARS: usize = 130;

/// A piece of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPiece {
    pub text: String,
    /// True for a searched word.
    pub is_found: bool,
}

/// Returns the surroundings of the first word of a text that begins with one of these folded words.
pub(crate) fn find_passage(text: &str, words: &[String]) -> Option<Vec<FoundPiece>> {
    let (first, _) = matching_ranges(text, words).next()?;
    let mut start = text[..first].char_indices().rev().nth(BEFORE_CHARS).map_or(0, |(at, _)| at);
    if start > 0 {
        // Words that would be cut are left out.
        start += text[start..first].find(char::is_whitespace).unwrap_or(0);
    }
    let mut end = text[first..].char_indices().nth(AFTER_CHARS).map_or(text.len(), |(at, _)| first + at);
    if end < text.len() {
        end = text[first..end].rfind(char::is_whitespace).map_or(end, |at| first + at);
    }
    let shown = &text[start..end];
    let mut pieces = Vec::new();
    let mut push = |text: &str, is_found| {
        let mut text = one_line(text, pieces.is_empty() && start == 0);
        if pieces.is_empty() {
            text = format!("{}{}", if start > 0 { "… " } else { "" }, text.trim_start());
        }
        if !text.is_empty() {
            pieces.push(FoundPiece { text, is_found });
        }
    };
    let mut at = 0;
    for (from, to) in matching_ranges(shown, words) {
        push(&shown[at..from], false);
        push(&shown[from..to], true);
        at = to;
    }
    let rest = format!("{}{}", shown[at..].trim_end(), if end < text.len() { " …" } else { "" });
    push(&rest, false);
    Some(pieces)
}

/// Returns the ranges of words that begin with one of these.
fn matching_ranges<'a>(text: &'a str, words: &'a [String]) -> impl Iterator<Item = (usize, usize)> + 'a {
    text.split(|letter: char| !letter.is_alphanumeric() && !is_mark(letter))
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - text.as_ptr() as usize, word))
        .filter(|(_, word)| {
            let folded = text_analysis::fold_text(word);
            words.iter().any(|sought| folded.starts_with(sought.as_str()))
        })
        .map(|(at, word)| (at, at + word.len()))
}

/// Returns true for marks that follow their letter in decomposed texts.
const fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}')
}

/// Returns a text on one line without Markdown syntax: markers of quotations and headings at the beginnings of lines,
/// markers of emphasis and code anywhere, and escaping backslashes.
fn one_line(text: &str, mut is_line_start: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            letter if letter.is_whitespace() => {
                is_line_start |= letter == '\n';
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            '>' | '#' if is_line_start => {}
            '*' | '`' => {}
            '\\' if letters.peek().is_some_and(char::is_ascii_punctuation) => {
                is_line_start = false;
                out.extend(letters.next());
            }
            letter if letter.is_control() => {}
            letter => {
                is_line_start = false;
                out.push(letter);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_found(text: &str, words: &[&str]) -> Option<String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let pieces = find_passage(text, &words)?;
        Some(
            pieces
                .iter()
                .map(|piece| if piece.is_found { format!("[{}]", piece.text) } else { piece.text.clone() })
                .collect(),
        )
    }

    #[test]
    fn find_passage_marks_matching_words() {
        assert_eq!(
            render_found("Výpověď nájmu\n\nje písemná.", &["vypov", "pisem"]).unwrap(),
            "[Výpověď] nájmu je [písemná]."
        );
        assert_eq!(render_found("The rent is due.", &["rents", "due"]).unwrap(), "The rent is [due].");
        assert_eq!(render_found("The rent is due.", &["lease"]), None);
        assert_eq!(render_found("", &["a"]), None);
        assert_eq!(
            render_found("## Rent\n> The **rent** is `due`: a > b #1.", &["due"]).unwrap(),
            "Rent The rent is [due]: a > b #1."
        );
        assert_eq!(
            render_found("3\\. The rent \\* is due\\: C:\\x \\", &["due"]).unwrap(),
            "3. The rent * is [due]: C:\\x \\"
        );
        assert_eq!(
            render_found("brent rent", &["rent"]).unwrap(),
            "brent [rent]",
            "from the beginning of a word"
        );
    }

    #[test]
    fn find_passage_cuts_between_words() {
        let text = format!("{}rent {}", "kůň běží ".repeat(100), "dále a dále ".repeat(100));
        let passage = render_found(&text, &["rent"]).unwrap();
        assert!(
            passage.starts_with("… ") && passage.ends_with(" …") && passage.contains(" [rent] dále"),
            "{passage}"
        );
        assert!(passage.chars().count() < BEFORE_CHARS + AFTER_CHARS + 10, "{passage}");
        assert!(render_found(&"x".repeat(10_000), &["x"]).unwrap().chars().count() < 10_010);
    }
}
