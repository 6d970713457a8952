//! Markdown on a terminal, styled while it is written.
//!
//! The text arrives in pieces and is styled incrementally: emphasis, code, headings, lists and quotes get
//! styles of the terminal and lose their marks. Elements that need the whole block (tables, links) are printed
//! as source.

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const ITALIC: &str = "\x1b[3m";
const CODE: &str = "\x1b[36m";
/// The longest start of a line that decides what the line is: `###### `, or a fence with its indentation.
const LINE_START_MAX_CHARS: usize = 8;

/// Styles Markdown that arrives in pieces.
#[derive(Debug, Default)]
pub(crate) struct MarkdownStyler {
    line: MarkdownLine,
    /// The start of a line, or marks of emphasis, that what follows decides about.
    held: String,
    bold: bool,
    italic: bool,
    code: bool,
    fenced: bool,
    /// The last character that was printed, after which a mark may end emphasis.
    last: char,
}

/// The kind of the current line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum MarkdownLine {
    /// Not known yet.
    #[default]
    Start,
    Heading,
    Quote,
    Text,
    /// A line of code.
    Code,
    /// The line of a fence, which is not printed.
    Fence,
}

impl MarkdownStyler {
    /// Returns the styled form of the next piece. May hold back a few characters until the next piece.
    pub(crate) fn push_piece(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len() + 16);
        for c in piece.chars() {
            self.push_char(c, &mut out);
        }
        out
    }

    /// Returns the text held back, and ends all styles.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        if self.line == MarkdownLine::Start {
            self.start_line(&mut out);
        }
        self.resolve_marks(None, &mut out);
        if self.has_style() {
            out.push_str(RESET);
        }
        *self = Self::default();
        out
    }

    fn has_style(&self) -> bool {
        self.bold
            || self.italic
            || self.code
            || matches!(self.line, MarkdownLine::Heading | MarkdownLine::Quote | MarkdownLine::Code)
    }

    fn push_char(&mut self, c: char, out: &mut String) {
        if c == '\n' {
            self.end_line(out);
            return;
        }
        match self.line {
            MarkdownLine::Start => {
                self.held.push(c);
                if !is_undecided(&self.held, self.fenced) {
                    self.start_line(out);
                }
            }
            MarkdownLine::Fence => {}
            MarkdownLine::Code => out.push(c),
            MarkdownLine::Heading | MarkdownLine::Quote | MarkdownLine::Text => self.push_inline(c, out),
        }
    }

    /// Decides the kind of the line by its held start, and prints the start.
    fn start_line(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let trimmed = held.trim_start();
        let indent = &held[..held.len() - trimmed.len()];
        if trimmed.starts_with("```") {
            self.fenced = !self.fenced;
            self.line = MarkdownLine::Fence;
            return;
        }
        if self.fenced {
            self.line = MarkdownLine::Code;
            out.push_str(CODE);
            out.push_str(&held);
            return;
        }
        let heading = trimmed.trim_start_matches('#');
        let rest = if heading.len() < trimmed.len() && heading.starts_with(' ') {
            self.line = MarkdownLine::Heading;
            out.push_str(BOLD);
            &heading[1..]
        } else if let Some(rest) = trimmed.strip_prefix("> ") {
            self.line = MarkdownLine::Quote;
            out.push_str(DIM);
            out.push_str("│ ");
            rest
        } else if let Some(rest) = trimmed.strip_prefix("- ").or_else(|| trimmed.strip_prefix("* ")) {
            self.line = MarkdownLine::Text;
            out.push_str(indent);
            out.push_str("• ");
            rest
        } else {
            self.line = MarkdownLine::Text;
            &held
        };
        let rest = rest.to_owned();
        for c in rest.chars() {
            self.push_inline(c, out);
        }
    }

    fn end_line(&mut self, out: &mut String) {
        if self.line == MarkdownLine::Start {
            self.start_line(out);
        }
        self.resolve_marks(None, out);
        if self.has_style() {
            out.push_str(RESET);
        }
        if self.line != MarkdownLine::Fence {
            out.push('\n');
        }
        *self = Self { fenced: self.fenced, last: '\n', ..Self::default() };
    }

    fn push_inline(&mut self, c: char, out: &mut String) {
        if c == '*' && !self.code && self.held.len() < 3 {
            self.held.push(c);
            return;
        }
        self.resolve_marks(Some(c), out);
        if c == '`' {
            self.code = !self.code;
            self.restore_styles(out);
        } else {
            out.push(c);
        }
        self.last = c;
    }

    /// Lets the held marks begin or end emphasis, or prints them, depending on the next character.
    fn resolve_marks(&mut self, follower: Option<char>, out: &mut String) {
        let count = std::mem::take(&mut self.held).len();
        if count == 0 {
            return;
        }
        let ends = !self.last.is_whitespace();
        let begins = follower.is_some_and(|c| !c.is_whitespace());
        let wanted = |open: bool| if open { ends } else { begins };
        let (bold, italic) = (count >= 2, count != 2);
        if (bold && !wanted(self.bold)) || (italic && !wanted(self.italic)) {
            out.extend(std::iter::repeat_n('*', count));
            self.last = '*';
            return;
        }
        self.bold ^= bold;
        self.italic ^= italic;
        self.restore_styles(out);
    }

    /// Prints the styles that apply from here.
    fn restore_styles(&self, out: &mut String) {
        out.push_str(RESET);
        match self.line {
            MarkdownLine::Heading => out.push_str(BOLD),
            MarkdownLine::Quote => out.push_str(DIM),
            _ => {}
        }
        for (wanted, style) in [(self.bold, BOLD), (self.italic, ITALIC), (self.code, CODE)] {
            if wanted {
                out.push_str(style);
            }
        }
    }
}

/// Returns true while this start of a line may become more than one kind of line.
fn is_undecided(held: &str, fenced: bool) -> bool {
    if held.chars().count() >= LINE_START_MAX_CHARS {
        return false;
    }
    let trimmed = held.trim_start();
    if fenced {
        return "```".starts_with(trimmed);
    }
    matches!(trimmed, "" | "-" | "*" | ">" | "`" | "``") || trimmed.chars().all(|c| c == '#')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Styles the text in pieces of so many characters, with readable names of the styles.
    fn style_in_pieces(text: &str, piece_chars: usize) -> String {
        let mut markdown = MarkdownStyler::default();
        let mut out = String::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(piece_chars) {
            out.push_str(&markdown.push_piece(&piece.iter().collect::<String>()));
        }
        out.push_str(&markdown.finish());
        for (code, name) in [(RESET, "</>"), (BOLD, "<b>"), (DIM, "<d>"), (ITALIC, "<i>"), (CODE, "<c>")] {
            out = out.replace(code, name);
        }
        out
    }

    #[test]
    fn markdown_marks_styled_across_pieces() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a **bold** b", "a </><b>bold</> b"),
            ("an *italic* b", "an </><i>italic</> b"),
            ("***both***", "</><b><i>both</>"),
            ("2 * 3 * 4", "2 * 3 * 4"),
            ("x`let *a*`y", "x</><c>let *a*</>y"),
            ("# Head\nbody", "<b>Head</>\nbody"),
            ("#hash", "#hash"),
            ("- one\n  - *two*", "• one\n  • </><i>two</>"),
            ("*open at the end of its line\nnext", "</><i>open at the end of its line</>\nnext"),
            ("> said\nx", "<d>│ said</>\nx"),
            ("a\n```rust\n# *x*\n```\nb", "a\n<c># *x*</>\nb"),
            ("**", "**"),
            ("-", "-"),
            ("[1] cited", "[1] cited"),
        ] {
            for piece in [1, 2, 3, 100] {
                assert_eq!(style_in_pieces(text, piece), expected, "{text:?} in pieces of {piece}");
            }
        }
    }
}
