//! Turns lines of Hebrew, Arabic and scripts like them from the order in which they are seen into the order in which they are read.
//!
//! A PDF says where each letter is drawn, and programs draw them in any order. The letters of a line are sorted by their places;
//! then words are read from right to left, and other scripts and numbers from left to right, by the rules of the Unicode
//! bidirectional algorithm as far as they can be inferred from the drawn page.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The brackets that are drawn mirrored in lines from right to left.
const BRACKETS: [(char, char); 4] = [('(', ')'), ('[', ']'), ('{', '}'), ('<', '>')];

/// A glyph on a line, with its letters: a part of the line's text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GlyphPlace {
    pub(super) left: f64,
    pub(super) right: f64,
    /// Where its letters begin and end in the text, in bytes.
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The gaps between the glyphs of a line that are spaces, and the gaps that separate the cells of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gaps {
    pub(super) word: f64,
    pub(super) cell: f64,
}

/// Returns true for letters of Hebrew, Arabic and scripts like them.
pub(super) fn is_right_to_left(letter: char) -> bool {
    matches!(letter, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
        && !is_arabic_number(letter)
}

/// Returns true for digits of Arabic, which are written from left to right, and the signs between and behind them.
fn is_arabic_number(letter: char) -> bool {
    matches!(letter, '\u{600}'..='\u{605}' | '\u{660}'..='\u{66c}' | '\u{6dd}' | '\u{6f0}'..='\u{6f9}')
}

fn is_arabic(letter: char) -> bool {
    matches!(letter, '\u{600}'..='\u{7bf}' | '\u{860}'..='\u{8ff}' | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}')
}

/// Returns true for letters that are read from left to right.
fn is_left_to_right(letter: char) -> bool {
    letter.is_alphabetic() && !is_right_to_left(letter)
}

/// Returns true for signs that belong to the number beside them.
fn is_unit(letter: char) -> bool {
    matches!(letter, '%' | '#' | '$' | '°' | '‰' | '¢'..='¥' | '\u{20a0}'..='\u{20cf}')
}

/// Returns true if a page with these texts is read from right to left.
pub(super) fn is_page_right_to_left<'a>(texts: impl Iterator<Item = &'a str>) -> bool {
    let (mut backward, mut forward) = (0_usize, 0_usize);
    for letter in texts.flat_map(str::chars) {
        backward += usize::from(is_right_to_left(letter));
        forward += usize::from(is_left_to_right(letter));
    }
    backward >= forward
}

/// Returns the text of a line in reading order. The glyphs may have been drawn in any order.
pub(super) fn logical_line(text: &str, glyphs: &[GlyphPlace], gaps: Gaps, is_page_backward: bool) -> String {
    let mut seen = with_marks(text, glyphs);
    seen.sort_by(|(a, _), (b, _)| a.left.total_cmp(&b.left));
    let mut clusters: Vec<String> = Vec::with_capacity(seen.len());
    let mut right = f64::INFINITY;
    for (glyph, letters) in seen {
        match glyph.left - right {
            gap if gap > gaps.cell => clusters.push("\t".to_owned()),
            gap if gap > gaps.word => clusters.push(" ".to_owned()),
            _ => {}
        }
        clusters.push(letters);
        right = glyph.right;
    }
    to_logical_order(&clusters, is_page_backward)
}

/// Returns the glyphs with their letters in the order in which they were drawn, each with its marks: the marks that were drawn
/// before or after it and are nearer to it than to their other neighbor.
fn with_marks(text: &str, glyphs: &[GlyphPlace]) -> Vec<(GlyphPlace, String)> {
    let middle = |glyph: &GlyphPlace| f64::midpoint(glyph.left, glyph.right);
    let mut bases: Vec<(GlyphPlace, String)> = Vec::with_capacity(glyphs.len());
    let mut marks: Vec<(GlyphPlace, &str)> = Vec::new();
    for glyph in glyphs.iter().filter(|glyph| glyph.end > glyph.begin) {
        let letters = text.get(glyph.begin..glyph.end).unwrap_or_default();
        if letters.chars().all(is_combining_mark) {
            marks.push((*glyph, letters));
            continue;
        }
        let mut next = letters.to_owned();
        for (mark, letters) in marks.drain(..) {
            let distance = |base: &GlyphPlace| (middle(base) - middle(&mark)).abs();
            match bases.last_mut().filter(|(before, _)| distance(before) <= distance(glyph)) {
                Some((_, before)) => before.push_str(letters),
                None => next.push_str(letters),
            }
        }
        bases.push((*glyph, next));
    }
    for (mark, letters) in marks {
        match bases.last_mut() {
            Some((_, before)) => before.push_str(letters),
            None => bases.push((mark, letters.to_owned())),
        }
    }
    bases
}

/// Returns the letters of a line in reading order; letters of one glyph stay together.
fn to_logical_order(seen: &[String], is_page_backward: bool) -> String {
    let has = |text: &String, is: fn(char) -> bool| text.contains(is);
    let mut read = String::new();
    if is_page_backward || !seen.iter().any(|text| has(text, is_left_to_right)) {
        push_backward(seen, &mut read);
        return read;
    }
    let mut rest = seen;
    while let Some(text) = rest.first() {
        if !has(text, is_right_to_left) {
            read.push_str(text);
            rest = &rest[1..];
            continue;
        }
        let end =
            rest.iter().position(|text| text == "\t" || has(text, is_left_to_right)).unwrap_or(rest.len());
        let end = rest[..end].iter().rposition(|text| has(text, is_right_to_left)).map_or(1, |last| last + 1);
        push_backward(&rest[..end], &mut read);
        rest = &rest[end..];
    }
    read
}

/// Appends letters that are read from right to left, except words of other scripts and numbers.
fn push_backward(seen: &[String], read: &mut String) {
    // The brackets beside letters from right to left, by their places in the read text.
    let mut brackets = Vec::new();
    let mut forward_end = seen.len();
    let mut follows_arabic = false;
    for (at, text) in seen.iter().enumerate().rev() {
        if text.contains(is_right_to_left) || text == "\t" {
            push_forward(&seen[at + 1..forward_end], follows_arabic, read, &mut brackets);
            forward_end = at;
            follows_arabic = text.contains(is_arabic);
            // Shapes of letters are letters again.
            read.extend(text.nfkc());
        }
    }
    push_forward(&seen[..forward_end], follows_arabic, read, &mut brackets);
    mirror_brackets(read, &brackets);
}

/// Appends a piece between letters from right to left: its words are read from left to right, and numbers alone one after another
/// from right to left. The spaces and signs around them stay where they are.
fn push_forward(seen: &[String], follows_arabic: bool, read: &mut String, brackets: &mut Vec<usize>) {
    let is_word = |text: &String| text.contains(char::is_alphanumeric);
    let has_words = seen.iter().any(|text| text.contains(is_left_to_right));
    let mut rest = seen.len();
    while let Some(last) = seen[..rest].iter().rposition(is_word) {
        let first = match seen[..last].iter().rposition(|text| is_end_of_number(text, follows_arabic)) {
            Some(before) if !has_words => before + 1,
            _ => 0,
        };
        let first = seen[first..=last].iter().position(is_word).map_or(last, |word| first + word);
        let (first, last) = with_signs(&seen[..rest], first, last, follows_arabic && !has_words);
        push_reversed(&seen[last + 1..rest], read, brackets);
        read.extend(seen[first..=last].iter().map(String::as_str));
        rest = first;
    }
    push_reversed(&seen[..rest], read, brackets);
}

/// Returns true for a sign between two numbers that are read separately.
fn is_end_of_number(text: &str, follows_arabic: bool) -> bool {
    text.chars().all(|letter| letter.is_whitespace() || (follows_arabic && matches!(letter, '-' | '+')))
}

/// Returns a piece with the signs beside it that belong to its numbers, and the brackets that match brackets in it.
fn with_signs(seen: &[String], first: usize, last: usize, is_arabic_number: bool) -> (usize, usize) {
    let (mut first, mut last) = (first, last);
    let is_open = |piece: &[String], open: char, close: char| {
        let count = |sign: char| piece.iter().filter(|text| text.contains(sign)).count();
        count(open) > count(close)
    };
    for _ in 0..BRACKETS.len() {
        let mut is_grown = false;
        if let Some(next) = seen.get(last + 1) {
            let closes = BRACKETS
                .iter()
                .any(|(open, close)| next.contains(*close) && is_open(&seen[first..=last], *open, *close));
            if closes || (!is_arabic_number && next.contains(is_unit)) {
                (last, is_grown) = (last + 1, true);
            }
        }
        if let Some(before) = first.checked_sub(1).and_then(|before| seen.get(before)) {
            let opens = BRACKETS
                .iter()
                .any(|(open, close)| before.contains(*open) && is_open(&seen[first..=last], *close, *open));
            if opens || (!is_arabic_number && before.contains(is_unit)) {
                (first, is_grown) = (first - 1, true);
            }
        }
        if !is_grown {
            break;
        }
    }
    (first, last)
}

/// Appends signs that are read from right to left.
fn push_reversed(seen: &[String], read: &mut String, brackets: &mut Vec<usize>) {
    for text in seen.iter().rev() {
        if mirror_bracket(text).is_some() {
            brackets.push(read.len());
        }
        read.push_str(text);
    }
}

/// Returns the matching bracket.
fn mirror_bracket(text: &str) -> Option<char> {
    let mut letters = text.chars();
    let letter = letters.next().filter(|_| letters.next().is_none())?;
    BRACKETS.iter().find_map(|(open, close)| match letter {
        _ if letter == *open => Some(*close),
        _ if letter == *close => Some(*open),
        _ => None,
    })
}

/// Mirrors brackets if more of them are pairs then: some documents contain the letter, and others its drawn shape.
fn mirror_brackets(read: &mut String, brackets: &[usize]) {
    let pairs = |are_mirrored: bool| {
        let (mut depth, mut pairs) = (0_usize, 0_usize);
        for at in brackets {
            let opens = BRACKETS.iter().any(|(open, _)| read[*at..].starts_with(*open));
            if opens != are_mirrored {
                depth += 1;
            } else if depth > 0 {
                (depth, pairs) = (depth - 1, pairs + 1);
            }
        }
        pairs
    };
    if pairs(true) <= pairs(false) {
        return;
    }
    // Each is one byte.
    for at in brackets {
        if let Some(other) = mirror_bracket(&read[*at..=*at]) {
            read.replace_range(*at..=*at, other.encode_utf8(&mut [0; 4]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_backward(seen: &str) -> String {
        let seen: Vec<String> = seen.chars().map(String::from).collect();
        to_logical_order(&seen, true)
    }

    #[test]
    fn logical_order_right_to_left_lines() {
        assert_eq!(read_backward("םולש"), "שלום");
        assert_eq!(read_backward(".2024 תנשב םולש"), "שלום בשנת 2024.");
        assert_eq!(read_backward("PDF 2.0 ץבוק"), "קובץ PDF 2.0");
        assert_eq!(read_backward(".הז PDF (2.0) ץבוק"), "קובץ PDF (2.0) זה.");
        assert_eq!(read_backward("50% לש החנה"), "הנחה של 50%");
        assert_eq!(read_backward("2024 2023 םינשב"), "בשנים 2023 2024");
        assert_eq!(read_backward("2024-05-17 ךיראתב"), "בתאריך 2024-05-17");
        assert_eq!(read_backward("٢٠٢٤ ماع"), "عام ٢٠٢٤");
        assert_eq!(read_backward("2021-2020 ماع"), "عام 2020-2021");
        assert_eq!(read_backward("b\tא"), "א\tb");
    }

    #[test]
    fn brackets_enclose_what_they_enclosed() {
        assert_eq!(read_backward("(הלודג) ריד"), "דיר (גדולה)", "their shapes");
        assert_eq!(read_backward(")הלודג( ריד"), "דיר (גדולה)", "their letters");
        assert_eq!(read_backward("א (א"), "א( א", "one alone stays");
    }

    #[test]
    fn logical_order_keeps_embedded_rtl_words() {
        let seen: Vec<String> = "The word םולש לש means 5".chars().map(String::from).collect();
        assert_eq!(to_logical_order(&seen, false), "The word של שלום means 5");
    }

    #[test]
    fn logical_order_glyphs_by_place() {
        let text = "ש\u{5b8}לוPDFםx";
        let places = [
            (90.0, 2),
            (94.0, 2),
            (80.0, 2),
            (70.0, 2),
            (30.0, 1),
            (40.0, 1),
            (50.0, 1),
            (60.0, 2),
            (20.0, 1),
        ];
        let mut begin = 0;
        let glyphs: Vec<GlyphPlace> = places
            .into_iter()
            .map(|(left, bytes)| {
                let glyph = GlyphPlace { left, right: left + 9.5, begin, end: begin + bytes };
                begin = glyph.end;
                glyph
            })
            .collect();
        let gaps = Gaps { word: 3.0, cell: 30.0 };
        assert_eq!(logical_line(text, &glyphs, gaps, true), "ש\u{5b8}לוםxPDF");
    }
}
