//! Formulas in Markdown: `\(a_1^2\)`, `\[…\]`, `$…$` and `$$…$$`. As Markdown they would lose their backslashes and underscores,
//! so they are escaped, and appear in the HTML as written. A page can draw them there.

use std::ops::Range;

use html::{HtmlToken, HtmlTokens};

use crate::escape::escape_html;
use crate::mathml::{self, TEX_MAX_BYTES};

/// A formula within a text.
#[derive(Debug, PartialEq, Eq)]
struct TextFormula {
    /// Its place, including the signs around it.
    whole: Range<usize>,
    tex: Range<usize>,
    /// True if it is on a separate line.
    is_block: bool,
}

/// The formulas of a text, in order. A formula stays within a paragraph, and one between single dollar signs within a line.
struct Formulas<'t> {
    text: &'t str,
    at: usize,
    /// The possible beginning of a formula, and its closing sign.
    open: Option<(usize, &'static str)>,
}

impl<'t> Formulas<'t> {
    const fn new(text: &'t str) -> Self {
        Self { text, at: 0, open: None }
    }

    /// Returns true if a dollar sign may begin a formula: an amount has no letter or digit before its sign.
    fn may_begin(&self, at: usize) -> bool {
        let is_apart = !self.text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '$');
        is_apart && self.text[at + 1..].starts_with(|c: char| !c.is_whitespace())
    }

    /// Returns true if a dollar sign may end the formula before it.
    fn may_end(&self, at: usize) -> bool {
        let is_near = !self.text[..at].ends_with(char::is_whitespace);
        is_near && !self.text[at + 1..].starts_with(|c: char| c.is_alphanumeric() || c == '$')
    }
}

impl Iterator for Formulas<'_> {
    type Item = TextFormula;

    fn next(&mut self) -> Option<TextFormula> {
        while let Some(found) = self.text[self.at..].find(['\\', '$', '\n']) {
            let at = self.at + found;
            let from = &self.text[at..];
            let token = match from.char_indices().nth(2).map_or(from, |(end, _)| &from[..end]) {
                single if single.starts_with('$') && single != "$$" => "$",
                single if single.starts_with('\n') && single != "\n\n" => "\n",
                pair => pair,
            };
            self.at = at + token.len();
            if token == "\n\n" {
                // A third line end follows the second one as well.
                self.at = at + 1;
            }
            let closed =
                self.open.filter(|(_, closing)| *closing == token && (token != "$" || self.may_end(at)));
            if let Some((begin, closing)) = closed {
                let tex = begin + closing.len()..at;
                if is_formula(&self.text[tex.clone()], closing) {
                    self.open = None;
                    let is_block = matches!(closing, "\\]" | "$$");
                    return Some(TextFormula { whole: begin..self.at, tex, is_block });
                }
            }
            self.open = match (token, self.open) {
                ("\\(", _) => Some((at, "\\)")),
                ("\\[", _) => Some((at, "\\]")),
                ("$$", _) => Some((at, "$$")),
                ("$", None | Some((_, "$"))) => self.may_begin(at).then_some((at, "$")),
                ("\n\n" | "\\)" | "\\]", _) | ("\n", Some((_, "$"))) => None,
                (_, open) => open,
            };
        }
        None
    }
}

/// Returns true for a text with a command, an index or an exponent, and for one without words that has a variable: signs may
/// be escaped in prose, too.
fn is_formula(body: &str, closing: &str) -> bool {
    let is_letter = |character: &char| character.is_alphabetic();
    let mut before = ' ';
    let (mut has_word, mut has_letter) = (false, false);
    for character in body.chars() {
        let is_command = before == '\\' && character.is_ascii_alphabetic();
        if is_command || before != '\\' && matches!(character, '^' | '_') {
            return true;
        }
        has_word |= is_letter(&before) && is_letter(&character);
        has_letter |= is_letter(&character);
        // Of two backslashes, the second one escapes nothing.
        before = if before == '\\' && character == '\\' { ' ' } else { character };
    }
    // A letter in square brackets may be a check mark.
    has_letter && !has_word && (closing != "\\]" || body.contains(['=', '+', '-', '<', '>', '/']))
}

/// Appends Markdown text, in which formulas are escaped.
pub(crate) fn push_text(text: &str, out: &mut String) {
    let mut written = 0;
    for formula in Formulas::new(text) {
        out.push_str(&text[written..formula.whole.start]);
        written = formula.whole.end;
        push_formula(text, formula.whole, out);
    }
    out.push_str(&text[written..]);
}

/// Appends the end of a growing Markdown text, without an unfinished formula.
pub(crate) fn push_growing_text(text: &str, out: &mut String) {
    let mut formulas = Formulas::new(text);
    formulas.by_ref().for_each(drop);
    let begun =
        formulas.open.filter(|(begin, closing)| *closing != "$" && text.len() - begin <= TEX_MAX_BYTES);
    push_text(&text[..begun.map_or(text.len(), |(begin, _)| begin)], out);
}

/// Appends a formula, escaped line by line.
fn push_formula(text: &str, formula: Range<usize>, out: &mut String) {
    let begin = text[..formula.start].rfind('\n').map_or(0, |end| end + 1);
    let is_quoted = text[begin..formula.start].trim_start().starts_with('>');
    for (number, line) in text[formula].split('\n').enumerate() {
        let mut line = line;
        if number > 0 {
            out.push('\n');
            if is_quoted {
                let content = line.trim_start_matches([' ', '>']);
                out.push_str(&line[..line.len() - content.len()]);
                line = content;
            }
        }
        // Spaces at its end would break the line.
        for character in line.trim_end().chars() {
            if character.is_ascii_punctuation() {
                out.push('\\');
            }
            out.push(character);
        }
    }
}

/// Appends a text of rendered HTML, in which formulas are drawn as MathML. Formulas that cannot be drawn, or exceed the bytes
/// left in `room`, stay as written.
///
/// `text` is the text between two tags. The annotation of a formula contains its TeX.
pub fn draw_formulas(text: &str, room: &mut usize, out: &mut String) {
    let decoded = match text.contains(['\\', '$']).then(|| HtmlTokens::new(text).next()) {
        Some(Some(HtmlToken::Text(decoded))) => decoded,
        _ => return out.push_str(text),
    };
    let mut written = 0;
    for TextFormula { whole, tex, is_block } in Formulas::new(&decoded) {
        // Formulas that cannot be drawn take time too.
        *room = room.saturating_sub(tex.len());
        let drawn = (*room > 0).then(|| mathml::tex_to_mathml(&decoded[tex], is_block)).flatten();
        let Some(drawn) = drawn.filter(|drawn| drawn.len() <= *room) else { continue };
        *room -= drawn.len();
        escape_html(&decoded[written..whole.start], out);
        written = whole.end;
        if is_block {
            // A wide one can be scrolled, also with the keyboard.
            out.push_str("<span class=\"formula\" tabindex=\"0\">");
            out.push_str(&drawn);
            out.push_str("</span>");
        } else {
            out.push_str(&drawn);
        }
    }
    if written == 0 {
        return out.push_str(text);
    }
    escape_html(&decoded[written..], out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_text_escapes_only_formulas() {
        for (text, expected) in [
            (r"So \(a_1^2\) is it.", r"So \\\(a\_1\^2\\\) is it."),
            (r"\[\frac{1}{2}\]", r"\\\[\\frac\{1\}\{2\}\\\]"),
            ("$$x_1$$ and $5", r"\$\$x\_1\$\$ and $5"),
            (r"\(in prose\) and \[see \_there\_\]", r"\(in prose\) and \[see \_there\_\]"),
            (r"\\(a_1\\)", r"\\(a_1\\)"),
            (r"\(a_1 is not closed", r"\(a_1 is not closed"),
            ("\\(a_1\n\nb\\)", "\\(a_1\n\nb\\)"),
            ("costs $5 or $6_000", "costs $5 or $6_000"),
            ("at the end \\", "at the end \\"),
            ("so $x_1$, $n$ and $n + 1 = m$.", r"so \$x\_1\$, \$n\$ and \$n \+ 1 \= m\$."),
            (r"let \(x\) be", r"let \\\(x\\\) be"),
            (r"\[x\] done, \(1\) first", r"\[x\] done, \(1\) first"),
            ("$5 to $6, US$5 and A$6", "$5 to $6, US$5 and A$6"),
            ("$HOME_A and $B_C, $a_b/$c", "$HOME_A and $B_C, $a_b/$c"),
            ("$a_1\nb_1$", "$a_1\nb_1$"),
            ("> \\[\n> a_1  \n> \\]", "> \\\\\\[\n> a\\_1\n> \\\\\\]"),
            ("\\[\n> a_1 \\]", "\\\\\\[\n\\> a\\_1 \\\\\\]"),
        ] {
            let mut out = String::new();
            push_text(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }

    #[test]
    fn push_growing_text_withholds_open_formula() {
        for (text, expected) in [
            (r"So \(a_1", "So "),
            (r"So \[ \frac{1", "So "),
            ("so $$ x_1", "so "),
            ("costs $5 and", "costs $5 and"),
            ("so \\(a\n\nnext", "so \\(a\n\nnext"),
            (r"\(a_1\) and", r"\\\(a\_1\\\) and"),
        ] {
            let mut out = String::new();
            push_growing_text(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
        let long = format!(r"\(a_1 {}", "x".repeat(TEX_MAX_BYTES));
        let mut out = String::new();
        push_growing_text(&long, &mut out);
        assert_eq!(out, long);
    }

    fn draw_to_string(text: &str) -> String {
        let mut out = String::new();
        draw_formulas(text, &mut 100_000, &mut out);
        out
    }

    #[test]
    fn formulas_of_rendered_html_are_drawn() {
        assert_eq!(
            draw_to_string(r"If a &lt; b, \(a_1 &lt; b\) &amp; \(\unknown{x}\)."),
            "If a &lt; b, <math><semantics><mrow><msub><mi>a</mi><mn>1</mn></msub><mo>&lt;</mo><mi>b</mi></mrow>\
             <annotation encoding=\"application/x-tex\">a_1 &lt; b</annotation></semantics></math> &amp; \\(\\unknown{x}\\)."
        );
        let block = draw_to_string("\\[\nx = 1\n\\]");
        assert!(
            block.starts_with("<span class=\"formula\" tabindex=\"0\"><math display=\"block\">"),
            "{block}"
        );
        for text in ["costs $5 &amp; \"more\"", "plain", r"\(x_{\)"] {
            assert_eq!(draw_to_string(text), text);
        }
    }

    #[test]
    fn draw_formulas_respects_room() {
        let text = r"\(x_1\) ".repeat(10);
        let (mut room, mut out) = (500, String::new());
        draw_formulas(&text, &mut room, &mut out);
        let count = out.matches("<math>").count();
        assert!((1..10).contains(&count), "{out}");
        assert!(out.ends_with(r"\(x_1\) "), "{out}");
    }
}
