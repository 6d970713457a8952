//! Keeps formulas as they are written: `\(a_1^2\)`, `\[…\]` and `$$…$$` would lose their backslashes and underscores as Markdown.
//! A client can draw them, for example with KaTeX.

/// Appends Markdown text, in which formulas are escaped. A formula stays within a paragraph.
pub(crate) fn push_text(text: &str, out: &mut String) {
    let mut written = 0;
    // Where a formula may begin, and what would close it.
    let mut open: Option<(usize, &str)> = None;
    let mut at = 0;
    while let Some(found) = text[at..].find(['\\', '$', '\n']) {
        at += found;
        let from = &text[at..];
        let token = from.char_indices().nth(2).map_or(from, |(end, _)| &from[..end]);
        let begun = open.filter(|(_, closing)| *closing == token);
        open = match (token, begun) {
            (_, Some((begin, closing))) if is_formula(&text[begin + closing.len()..at]) => {
                out.push_str(&text[written..begin]);
                written = at + token.len();
                escape(&text[begin..written], out);
                None
            }
            ("\\(", _) => Some((at, "\\)")),
            ("\\[", _) => Some((at, "\\]")),
            ("$$", _) => Some((at, "$$")),
            ("\n\n" | "\\)" | "\\]", _) => None,
            _ => open,
        };
        let is_pair = token.starts_with('\\') || token == "$$";
        at += if is_pair { token.len() } else { 1 };
    }
    out.push_str(&text[written..]);
}

/// Returns true for a text with a command, or an index or exponent. Brackets may be escaped in prose, too.
fn is_formula(body: &str) -> bool {
    let mut characters = body.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if characters.next().is_some_and(|next| next.is_ascii_alphabetic()) => return true,
            '^' | '_' => return true,
            _ => {}
        }
    }
    false
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        if character.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_escaped_and_nothing_else_is() {
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
        ] {
            let mut out = String::new();
            push_text(text, &mut out);
            assert_eq!(out, expected, "{text}");
        }
    }
}
