//! The enclosures in which a mark does not count: formulas, code in HTML, and texts of links.
//!
//! An enclosure that has begun is remembered. Its end is searched only at a mark, so that text without marks never
//! waits.

use super::syntax::{ScanResult, ends_paragraph, find_address_end};

/// The longest part of an enclosure after a mark, in bytes. A longer one does not count.
const ENCLOSED_MAX_BYTES: usize = 4096;
/// The elements whose text is code.
const CODE_ELEMENTS: [&str; 5] = ["code", "pre", "kbd", "samp", "tt"];
/// Bounds the brackets of texts of links within one another.
const BRACKETS_MAX: u8 = 16;

/// The enclosure that is open at a place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Enclosures {
    formula: Option<OpenFormula>,
    /// The name of the element of code.
    code: Option<&'static str>,
    /// The brackets that may belong to links.
    brackets: u8,
    /// True if the line is a quote.
    pub(super) quoted: bool,
}

impl Enclosures {
    pub(super) fn close_all(&mut self) {
        *self = Self { quoted: self.quoted, ..Self::default() };
    }

    /// Closes the enclosures that are closed in the other one.
    pub(super) fn retain_of(&mut self, other: &Self) {
        if other.formula.is_none() && other.code.is_none() && other.brackets == 0 {
            self.close_all();
        }
    }

    /// Advances by a token, which is between these characters. Returns true if a formula ends with it.
    pub(super) fn pass_token(&mut self, token: &str, last: char, next: Option<char>) -> bool {
        match token.trim_start_matches([' ', '\t']) {
            "[" => self.brackets = (self.brackets + 1).min(BRACKETS_MAX),
            "]" => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        if let Some(tag) = token.strip_prefix('<') {
            let is_end = tag.starts_with('/');
            let name = tag.trim_start_matches('/');
            let known = CODE_ELEMENTS.iter().find(|known| known.eq_ignore_ascii_case(name));
            if let Some(known) = known {
                self.code = (!is_end).then_some(*known);
            }
        }
        let Some(sign) = Sign::from_token(token) else {
            if let Some(formula) = &mut self.formula {
                token.chars().for_each(|character| formula.body.pass_char(character));
                if token == "\n" && formula.closing == Sign::Dollar {
                    self.formula = None;
                }
            }
            return false;
        };
        let meets = self.formula.as_ref().map(|formula| formula.classify_sign(sign, last, next));
        if meets == Some(SignRelation::Body) {
            if let Some(formula) = &mut self.formula {
                token.chars().for_each(|character| formula.body.pass_char(character));
            }
            return false;
        }
        let is_closed = meets == Some(SignRelation::End);
        self.formula = (!is_closed).then(|| OpenFormula::from_sign(sign, last, next)).flatten();
        is_closed
    }

    /// Moves past the end of an enclosure, or the address of a link.
    pub(super) fn close_enclosure(&mut self, token: &str) {
        if token.starts_with("](") {
            self.brackets = self.brackets.saturating_sub(1);
        } else {
            self.close_all();
        }
    }

    /// Finds the end of the enclosure of the mark at the beginning of a text, which takes up `mark` bytes. Returns the
    /// number of bytes to the end of the enclosure.
    pub(super) fn find_end_around(&self, text: &str, mark: usize, ended: bool) -> ScanResult {
        let formula = self.formula.as_ref().map(|formula| self.end_of_formula(formula.clone(), text, ended));
        let code = self.code.map(|name| self.end_of_code(name, text, mark, ended));
        let link = (self.brackets > 0).then(|| self.end_of_link(text, mark, ended));
        let mut found = ScanResult::Absent;
        for search in [formula, code, link].into_iter().flatten() {
            match search {
                ScanResult::Found(_) => return search,
                ScanResult::Undecided => found = ScanResult::Undecided,
                ScanResult::Absent => {}
            }
        }
        found
    }

    fn end_of_formula(&self, mut formula: OpenFormula, text: &str, ended: bool) -> ScanResult {
        let mut last = ' ';
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            if at > ENCLOSED_MAX_BYTES {
                return ScanResult::Absent;
            }
            if character == '\n' {
                let is_over = formula.closing == Sign::Dollar;
                match if is_over { Some(true) } else { self.ends_block(&text[at + 1..], ended) } {
                    Some(true) => return ScanResult::Absent,
                    Some(false) => {}
                    None => return ScanResult::Undecided,
                }
            }
            let second = characters.peek().map(|(_, next)| *next);
            if matches!(character, '\\' | '$') {
                if second.is_none() && !ended {
                    return ScanResult::Undecided;
                }
                let is_pair = match character {
                    '$' => second == Some('$'),
                    _ => second.is_some_and(|next| next.is_ascii_punctuation()),
                };
                let length = if is_pair { 2 } else { 1 };
                let token = &text[at..at + length];
                let next = text[at + length..].chars().next();
                if is_pair && next.is_none() && !ended && character == '$' {
                    return ScanResult::Undecided;
                }
                if is_pair {
                    characters.next();
                }
                if let Some(sign) = Sign::from_token(token) {
                    match formula.classify_sign(sign, last, next) {
                        SignRelation::End => return ScanResult::Found(at + length),
                        SignRelation::Other => return ScanResult::Absent,
                        SignRelation::Body => {}
                    }
                }
                token.chars().for_each(|character| formula.body.pass_char(character));
                last = token.chars().next_back().unwrap_or(character);
                continue;
            }
            formula.body.pass_char(character);
            last = character;
        }
        end_of_text(text, ended)
    }

    fn end_of_code(&self, name: &str, text: &str, mark: usize, ended: bool) -> ScanResult {
        let rest = &text[mark..];
        for (at, _) in rest.match_indices(['<', '\n']).take_while(|(at, _)| *at <= ENCLOSED_MAX_BYTES) {
            let after = &rest[at..];
            if let Some(line) = after.strip_prefix('\n') {
                match self.ends_block(line, ended) {
                    Some(true) => return ScanResult::Absent,
                    Some(false) => {}
                    None => return ScanResult::Undecided,
                }
                continue;
            }
            let length = "</".len() + name.len();
            if at + length > ENCLOSED_MAX_BYTES {
                return ScanResult::Absent;
            }
            let tag = after.get(..length.min(after.len())).unwrap_or("");
            if tag.len() == length && tag.starts_with("</") && tag[2..].eq_ignore_ascii_case(name) {
                return ScanResult::Found(mark + at + length);
            }
        }
        end_of_text(rest, ended)
    }

    /// Looks for the bracket that ends the text of a link, and its address.
    fn end_of_link(&self, text: &str, mark: usize, ended: bool) -> ScanResult {
        let rest = text.as_bytes();
        let (mut depth, mut at) = (0_u32, mark);
        let mut open = self.brackets;
        while let Some(byte) = rest.get(at).filter(|_| at <= ENCLOSED_MAX_BYTES) {
            match byte {
                b'\\' => at += 1,
                b'[' => depth += 1,
                b']' if depth > 0 => depth -= 1,
                b']' => {
                    match rest.get(at + 1) {
                        None if !ended => return ScanResult::Undecided,
                        Some(b'(') => match find_address_end(&rest[at..], ended) {
                            ScanResult::Found(length) => return ScanResult::Found(at + length),
                            ScanResult::Undecided => return ScanResult::Undecided,
                            ScanResult::Absent => {}
                        },
                        _ => {}
                    }
                    open -= 1;
                    if open == 0 {
                        return ScanResult::Absent;
                    }
                }
                b'\n' => match self.ends_block(text.get(at + 1..).unwrap_or(""), ended) {
                    Some(true) => return ScanResult::Absent,
                    Some(false) => {}
                    None => return ScanResult::Undecided,
                },
                _ => {}
            }
            at += 1;
        }
        end_of_text(text, ended)
    }

    /// Returns true if a line ends the block before it. The lines of a quote belong together.
    fn ends_block(&self, line: &str, ended: bool) -> Option<bool> {
        let content = line.trim_start_matches([' ', '\t']);
        if self.quoted && content.starts_with('>') {
            return self.ends_block(content.trim_start_matches(['>', ' ']), ended);
        }
        ends_paragraph(line.as_bytes(), ended)
    }
}

/// Returns the result of a search that met the end of the text.
const fn end_of_text(text: &str, ended: bool) -> ScanResult {
    if ended || text.len() > ENCLOSED_MAX_BYTES { ScanResult::Absent } else { ScanResult::Undecided }
}

/// Scans a `<` and returns the bytes of the token: `<code`, `</code`, or the sign alone. `None` if more text is needed.
pub(super) fn html_code_tag(text: &str, ended: bool) -> Option<usize> {
    let slash = usize::from(text[1..].starts_with('/'));
    let name = &text.as_bytes()[1 + slash..];
    let letters = name.iter().take(5).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let tag = &name[..letters];
    let is_begun = |known: &&'static str| {
        known.len() >= letters && known.as_bytes()[..letters].eq_ignore_ascii_case(tag)
    };
    match name.get(letters) {
        None if !ended && CODE_ELEMENTS.iter().any(is_begun) => None,
        None | Some(b'>' | b' ' | b'\t' | b'\n' | b'/')
            if CODE_ELEMENTS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(tag)) =>
        {
            Some(1 + slash + letters)
        }
        _ => Some(1),
    }
}

/// A sign that opens or closes formulas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Dollar,
    Dollars,
    OpenInline,
    CloseInline,
    OpenBlock,
    CloseBlock,
}

impl Sign {
    fn from_token(token: &str) -> Option<Self> {
        Some(match token {
            "$" => Self::Dollar,
            "$$" => Self::Dollars,
            "\\(" => Self::OpenInline,
            "\\)" => Self::CloseInline,
            "\\[" => Self::OpenBlock,
            "\\]" => Self::CloseBlock,
            _ => return None,
        })
    }
}

/// The relation of a sign to the open formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignRelation {
    End,
    Body,
    /// The open enclosure is not a formula.
    Other,
}

/// A formula that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OpenFormula {
    closing: Sign,
    body: FormulaBody,
}

impl OpenFormula {
    /// Begins a formula, if the sign between these characters may begin one.
    fn from_sign(sign: Sign, last: char, next: Option<char>) -> Option<Self> {
        let closing = match sign {
            // An amount has a letter or digit before its sign.
            Sign::Dollar if last.is_alphanumeric() || last == '$' => return None,
            Sign::Dollar if next.is_none_or(char::is_whitespace) => return None,
            Sign::Dollar | Sign::Dollars => sign,
            Sign::OpenInline => Sign::CloseInline,
            Sign::OpenBlock => Sign::CloseBlock,
            Sign::CloseInline | Sign::CloseBlock => return None,
        };
        Some(Self { closing, body: FormulaBody::default() })
    }

    /// Classifies a sign between these characters.
    fn classify_sign(&self, sign: Sign, last: char, next: Option<char>) -> SignRelation {
        if sign == Sign::Dollar && self.closing != Sign::Dollar {
            return SignRelation::Body;
        }
        let may_end = sign != Sign::Dollar
            || !last.is_whitespace() && !next.is_some_and(|next| next.is_alphanumeric() || next == '$');
        if sign == self.closing && may_end && self.body.is_formula() {
            SignRelation::End
        } else {
            SignRelation::Other
        }
    }
}

/// The text of a formula so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FormulaBody {
    after_letter: bool,
    after_backslash: bool,
    has_word: bool,
    has_command: bool,
}

impl FormulaBody {
    fn pass_char(&mut self, character: char) {
        let is_letter = character.is_alphabetic();
        let is_command = self.after_backslash && character.is_ascii_alphabetic();
        self.has_command |= is_command || !self.after_backslash && matches!(character, '^' | '_');
        self.has_word |= self.after_letter && is_letter;
        self.after_letter = is_letter;
        // Of two backslashes, the second one escapes nothing.
        self.after_backslash = character == '\\' && !self.after_backslash;
    }

    /// Returns true for a text with a command, an index or an exponent, and for one without words: signs may be escaped in
    /// prose, too.
    const fn is_formula(&self) -> bool {
        self.has_command || !self.has_word
    }
}
