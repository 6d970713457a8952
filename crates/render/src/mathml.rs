//! Draws formulas: TeX, as models write it, to MathML, which browsers show natively.
//!
//! TeX is a language of macros, and formulas need few. This reads these, and refuses a formula with any other, which is
//! then shown as written. The output has only elements of MathML Core without links, styles or scripts, with classes for
//! what MathML leaves to style sheets. Time is linear in the length of a formula, times its bounded depth.

mod commands;
mod letters;
mod symbols;
mod tables;

use crate::escape::escape_html;

use letters::Alphabet;
use symbols::{Symbol, find_symbol};

/// Longer formulas are not drawn.
pub(crate) const TEX_MAX_BYTES: usize = 4096;
/// The maximum nesting of a formula.
const DEPTH_MAX: usize = 32;

/// A formula that is not drawn: too deep, not balanced, or with a command that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnsupportedTex;

type Formula = Result<String, UnsupportedTex>;

/// Returns the MathML of a formula, without the signs around it. `None` if it cannot be drawn.
pub(crate) fn tex_to_mathml(tex: &str, is_block: bool) -> Option<String> {
    if tex.len() > TEX_MAX_BYTES || tex.contains(|c: char| c.is_control() && !c.is_whitespace()) {
        return None;
    }
    let shown = Parser { rest: tex, depth: 0, alphabet: Alphabet::Plain }.read_formula().ok()?;
    let display = if is_block { " display=\"block\"" } else { "" };
    let mut out =
        format!("<math{display}><semantics><mrow>{shown}</mrow><annotation encoding=\"application/x-tex\">");
    escape_html(tex.trim(), &mut out);
    out.push_str("</annotation></semantics></math>");
    Some(out)
}

/// Reads a formula from its start.
struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    alphabet: Alphabet,
}

/// An element of a formula, which may have an index and an exponent.
struct Atom {
    html: String,
    kind: AtomKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AtomKind {
    Ordinary,
    /// An operator or an opening bracket: a sign after it belongs to the following term.
    Operator,
    /// A function's name, which is applied to the following term.
    Function,
    /// An element with limits below and above it instead of an index and an exponent.
    Limits,
}

impl Atom {
    const fn new_ordinary(html: String) -> Self {
        Self { html, kind: AtomKind::Ordinary }
    }

    /// Returns its one element, an empty one for hidden content.
    fn some_html(self) -> String {
        if self.html.is_empty() { EMPTY.to_owned() } else { self.html }
    }
}

impl<'t> Parser<'t> {
    /// Reads the whole formula.
    fn read_formula(mut self) -> Formula {
        let first = self.read_row()?;
        let all = if self.rest.starts_with("\\\\") { self.read_lines(first)? } else { first };
        if self.rest.is_empty() { Ok(all) } else { Err(UnsupportedTex) }
    }

    /// Reads a part of this formula separately.
    fn read_part(&self, tex: &'t str) -> Formula {
        Parser { rest: tex, depth: self.depth, alphabet: self.alphabet }.read_formula()
    }

    /// Reads elements up to the end of the row: the row of the formula, of a group, a cell or a line.
    fn read_row(&mut self) -> Formula {
        let mut out = String::new();
        let mut before = AtomKind::Operator;
        loop {
            self.skip_spaces();
            let ends = ["}", "&", "\\\\", "\\cr"].iter().any(|end| self.rest.starts_with(end))
                || ["\\end", "\\right", "\\middle"].iter().any(|end| self.starts_with_command(end));
            if ends || self.rest.is_empty() {
                return Ok(out);
            }
            let is_sign = before == AtomKind::Operator && self.rest.starts_with(['+', '-']);
            let atom = self.read_with_scripts()?;
            if atom.kind == AtomKind::Function && before == AtomKind::Ordinary {
                out.push_str(THIN_SPACE);
            }
            out.push_str(&if is_sign {
                atom.html.replacen("<mo>", "<mo form=\"prefix\">", 1)
            } else {
                atom.html
            });
            if atom.kind == AtomKind::Function {
                out.push_str(APPLIED);
                self.skip_spaces();
                if !self.rest.starts_with(['(', '[', ')', '}']) && !self.starts_with_command("\\left") {
                    out.push_str(THIN_SPACE);
                }
            }
            before = atom.kind;
        }
    }

    /// Reads an element with its primes, index and exponent.
    fn read_with_scripts(&mut self) -> Result<Atom, UnsupportedTex> {
        self.skip_spaces();
        let base = if self.rest.starts_with(['^', '_', '\'']) {
            Atom::new_ordinary(EMPTY.to_owned())
        } else {
            self.read_atom()?
        };
        let (mut below, mut above) = (None, None);
        let mut has_limits = base.kind == AtomKind::Limits;
        loop {
            self.skip_spaces();
            if self.take_token("\\limits") {
                has_limits = true;
            } else if self.take_token("\\nolimits") {
                has_limits = false;
            } else if self.take_token("_") {
                if below.replace(self.read_argument()?).is_some() {
                    return Err(UnsupportedTex);
                }
            } else if self.take_token("^") {
                if above.replace(self.read_argument()?).is_some() {
                    return Err(UnsupportedTex);
                }
            } else if self.rest.starts_with('\'') {
                let primes = self.read_primes();
                let exponent = if self.take_token("^") { self.read_argument()? } else { String::new() };
                if above.replace(format!("<mrow>{primes}{exponent}</mrow>")).is_some() {
                    return Err(UnsupportedTex);
                }
            } else {
                break;
            }
        }
        let kind = base.kind;
        if below.is_none() && above.is_none() {
            return Ok(base);
        }
        let base_html = base.some_html();
        let html = match (below, above, has_limits) {
            (None, None, _) => base_html,
            (Some(below), None, false) => format!("<msub>{base_html}{below}</msub>"),
            (None, Some(above), false) => format!("<msup>{base_html}{above}</msup>"),
            (Some(below), Some(above), false) => format!("<msubsup>{base_html}{below}{above}</msubsup>"),
            (Some(below), None, true) => format!("<munder>{base_html}{below}</munder>"),
            (None, Some(above), true) => format!("<mover>{base_html}{above}</mover>"),
            (Some(below), Some(above), true) => format!("<munderover>{base_html}{below}{above}</munderover>"),
        };
        Ok(Atom { html, kind })
    }

    fn read_primes(&mut self) -> String {
        let count = self.rest.len() - self.rest.trim_start_matches('\'').len();
        self.rest = &self.rest[count..];
        format!("<mo>{}</mo>", "′".repeat(count))
    }

    /// Reads one element. Everything that nests comes through here.
    fn read_atom(&mut self) -> Result<Atom, UnsupportedTex> {
        if self.depth == DEPTH_MAX {
            return Err(UnsupportedTex);
        }
        self.depth += 1;
        let atom = self.atom_within();
        self.depth -= 1;
        atom
    }

    fn atom_within(&mut self) -> Result<Atom, UnsupportedTex> {
        let first = self.rest.chars().next().ok_or(UnsupportedTex)?;
        match first {
            '\\' => {
                let name = self.take_command();
                self.command_atom(name)
            }
            '{' => self.read_group().map(Atom::new_ordinary),
            '}' | '&' | '^' | '_' => Err(UnsupportedTex),
            '0'..='9' => {
                let number = self.take_number();
                Ok(Atom::new_ordinary(format!("<mn>{}</mn>", self.in_alphabet(number))))
            }
            _ => {
                self.rest = &self.rest[first.len_utf8()..];
                Ok(self.character_atom(first))
            }
        }
    }

    /// Returns a character as an identifier, an operator or a bracket.
    fn character_atom(&self, character: char) -> Atom {
        let operator = |html: &str| Atom { html: html.to_owned(), kind: AtomKind::Operator };
        match character {
            letter if letter.is_alphabetic() => Atom::new_ordinary(self.identifier_element(letter)),
            '(' | '[' => operator(&fence_element(&character.to_string())),
            ')' | ']' | '|' => Atom::new_ordinary(fence_element(&character.to_string())),
            '-' => operator("<mo>−</mo>"),
            '*' => operator("<mo>∗</mo>"),
            '/' => operator("<mo lspace=\"0\" rspace=\"0\">/</mo>"),
            '!' => Atom::new_ordinary("<mo form=\"postfix\">!</mo>".to_owned()),
            '~' => Atom::new_ordinary(space_element("0.25em")),
            '.' | '?' | '%' | '#' | '$' | '@' | '"' | '`' => {
                Atom::new_ordinary(text_element("mi", &character.to_string()))
            }
            other => operator(&text_element("mo", &other.to_string())),
        }
    }

    fn identifier_element(&self, letter: char) -> String {
        let upright = if self.alphabet == Alphabet::Upright { " mathvariant=\"normal\"" } else { "" };
        format!("<mi{upright}>{}</mi>", self.alphabet.of_character(letter))
    }

    fn in_alphabet(&self, text: &str) -> String {
        text.chars().map(|character| self.alphabet.of_character(character)).collect()
    }

    /// Takes a number: digits, with a point and commas within them.
    fn take_number(&mut self) -> &'t str {
        let bytes = self.rest.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut end = 1;
        while is_digit(end) || bytes.get(end) == Some(&b'.') && is_digit(end + 1) {
            end += 1;
        }
        self.take_bytes(end)
    }

    /// Reads a group in braces.
    fn read_group(&mut self) -> Formula {
        self.expect_token("{")?;
        let row = self.read_row()?;
        self.expect_token("}")?;
        Ok(format!("<mrow>{row}</mrow>"))
    }

    /// Reads the argument of a command: a group, or a single element.
    fn read_argument(&mut self) -> Formula {
        self.skip_spaces();
        if self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            let digit = self.take_bytes(1);
            return Ok(text_element("mn", &self.in_alphabet(digit)));
        }
        Ok(self.read_atom()?.some_html())
    }

    /// Reads an argument in an alphabet.
    fn argument_in(&mut self, alphabet: Alphabet) -> Formula {
        let around = std::mem::replace(&mut self.alphabet, alphabet);
        let argument = self.read_argument();
        self.alphabet = around;
        argument
    }

    /// Takes an argument in braces unchanged.
    fn raw_argument(&mut self) -> Result<&'t str, UnsupportedTex> {
        self.expect_token("{")?;
        let mut depth = 0_usize;
        let mut is_escaped = false;
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'{' => depth += 1,
                b'}' if depth == 0 => {
                    let raw = self.take_bytes(at);
                    self.expect_token("}")?;
                    return Ok(raw);
                }
                b'}' => depth -= 1,
                _ => {}
            }
        }
        Err(UnsupportedTex)
    }

    /// Takes an argument in square brackets, if one follows.
    fn optional_argument(&mut self) -> Option<&'t str> {
        self.skip_spaces();
        let raw = self.rest.strip_prefix('[')?;
        let mut depth = 0_usize;
        for (at, byte) in raw.bytes().enumerate() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.checked_sub(1)?,
                b']' if depth == 0 => {
                    self.rest = &raw[at + 1..];
                    return Some(&raw[..at]);
                }
                _ => {}
            }
        }
        None
    }

    /// Takes a command, and returns its name: letters, or one character.
    fn take_command(&mut self) -> &'t str {
        let name = &self.rest[1..];
        let letters = name.len() - name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let length = if letters > 0 { letters } else { name.chars().next().map_or(0, char::len_utf8) };
        self.take_bytes(1 + length);
        &name[..length]
    }

    fn take_bytes(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Returns true if exactly this command follows, not a longer one.
    fn starts_with_command(&self, command: &str) -> bool {
        let after = self.rest.strip_prefix(command);
        let is_word = command.ends_with(|c: char| c.is_ascii_alphabetic());
        after.is_some_and(|after| !is_word || !after.starts_with(|c: char| c.is_ascii_alphabetic()))
    }

    /// Takes a token, if it follows.
    fn take_token(&mut self, token: &str) -> bool {
        self.skip_spaces();
        let stands = self.starts_with_command(token);
        if stands {
            self.take_bytes(token.len());
        }
        stands
    }

    fn expect_token(&mut self, token: &str) -> Result<(), UnsupportedTex> {
        if self.take_token(token) { Ok(()) } else { Err(UnsupportedTex) }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

const EMPTY: &str = "<mrow></mrow>";
const THIN_SPACE: &str = "<mspace width=\"0.1667em\"></mspace>";
/// Tells screen readers that a function is applied.
const APPLIED: &str = "<mo>\u{2061}</mo>";

fn text_element(name: &str, text: &str) -> String {
    let mut out = format!("<{name}>");
    escape_html(text, &mut out);
    out.push_str(&format!("</{name}>"));
    out
}

fn fence_element(text: &str) -> String {
    format!("<mo stretchy=\"false\">{text}</mo>")
}

fn space_element(width: &str) -> String {
    format!("<mspace width=\"{width}\"></mspace>")
}

/// Returns a table command's symbol as an element.
fn symbol_atom(symbol: Symbol, alphabet: Alphabet) -> Atom {
    let in_alphabet =
        |text: &str| text.chars().map(|character| alphabet.of_character(character)).collect::<String>();
    match symbol {
        Symbol::Identifier(text) => {
            // Capital Greek letters are upright in TeX.
            let is_upright = text.starts_with(char::is_uppercase);
            let text = in_alphabet(text);
            let html = text_element("mi", &text);
            Atom::new_ordinary(if is_upright {
                html.replacen("<mi>", "<mi mathvariant=\"normal\">", 1)
            } else {
                html
            })
        }
        Symbol::Operator(text) => Atom { html: text_element("mo", text), kind: AtomKind::Operator },
        Symbol::Fence(text) => Atom::new_ordinary(fence_element(text)),
        Symbol::Sum(text) => Atom { html: text_element("mo", text), kind: AtomKind::Limits },
        Symbol::Integral(text) => Atom::new_ordinary(text_element("mo", text)),
        Symbol::Function(text) => Atom { html: text_element("mi", text), kind: AtomKind::Function },
        Symbol::Limit(text) => Atom {
            html: format!("<mo movablelimits=\"true\" lspace=\"0.1667em\" rspace=\"0.1667em\">{text}</mo>"),
            kind: AtomKind::Limits,
        },
        Symbol::Space(width) => Atom::new_ordinary(space_element(width)),
        Symbol::Nothing => Atom::new_ordinary(String::new()),
    }
}

#[cfg(test)]
mod tests;
