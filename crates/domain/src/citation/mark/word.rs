//! The word before a bracket, which decides whether it may be a mark or is an index.
//!
//! `A[2]`, `x_1[3]`, `user.names[1]`, `f(x)[1]`, `2024[1]` and `\\item[1]` are not citations, and neither is anything
//! in a URL. Models often write a mark at the end of a word without a space, "two months[1].": behind a plain word of
//! two letters or more it is a mark if the word ends with it.

/// Names that texts index, and that are not words of a language.
const NAMES: [&[u8]; 20] = [
    b"arr", b"args", b"argv", b"vec", b"buf", b"str", b"tmp", b"ptr", b"idx", b"elem", b"lst", b"mat",
    b"env", b"obj", b"foo", b"bar", b"baz", b"nums", b"vals", b"cols",
];
/// The letters of a word that are compared with [`NAMES`].
const NAME_MAX_BYTES: usize = 4;
/// Letters from here on belong to scripts without spaces between words, or to their punctuation.
const UNSPACED: char = '\u{2e80}';

/// The marks that may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admits {
    Mark,
    /// A mark, unless the text after it continues like after an index.
    MarkAtEndOfWord,
    Nothing,
}

/// The end of the part of a line that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordState {
    last: char,
    /// The letters at the end, with the hyphens and apostrophes between them.
    letters: u8,
    name: [u8; NAME_MAX_BYTES],
    /// False in a text that looks like a name of a program.
    is_plain: bool,
    /// True in an argument of a call: behind a parenthesis that follows a letter.
    in_call: bool,
    /// True if a parenthesis closed such arguments.
    after_call: bool,
    /// The characters of `://` that were read.
    scheme: u8,
    in_url: bool,
}

impl Default for WordState {
    fn default() -> Self {
        Self {
            last: '\n',
            letters: 0,
            name: [0; NAME_MAX_BYTES],
            is_plain: true,
            in_call: false,
            after_call: false,
            scheme: 0,
            in_url: false,
        }
    }
}

impl WordState {
    /// Returns the state after closed text, where a mark may follow.
    pub(super) fn after_closed() -> Self {
        Self { last: ')', ..Self::default() }
    }

    /// Returns the last character.
    pub(super) const fn last_char(&self) -> char {
        self.last
    }

    /// Advances by a character.
    pub(super) fn pass_char(&mut self, character: char) {
        if character.is_ascii_lowercase() && self.letters > 0 {
            // Within a word, as nearly all characters are.
            (self.last, self.after_call) = (character, false);
            self.push_letter(character);
            return;
        }
        let last = std::mem::replace(&mut self.last, character);
        self.after_call = character == ')' && self.in_call;
        if character.is_whitespace() || matches!(character, '<' | '>') || character >= UNSPACED {
            let in_call = self.in_call && character != '\n';
            *self = Self { last: character, in_call, ..Self::default() };
            return;
        }
        if is_letter(character) {
            // A capital within a word, as programs write names.
            self.is_plain &= !(character.is_uppercase() && last.is_lowercase());
            if self.letters == 0 {
                self.name = [0; NAME_MAX_BYTES];
                self.is_plain &= !matches!(last, '.' | '_' | '\\' | '$' | '@' | '#');
            }
            self.push_letter(character);
            return;
        }
        self.scheme = match (character, self.scheme) {
            (':', _) if is_letter(last) => 1,
            ('/', 1) => 2,
            ('/', 2) => 3,
            _ => 0,
        };
        let begins_host = self.letters == 3 && self.name == *b"www\0" && character == '.';
        self.in_url |= begins_host || self.scheme == 3;
        match character {
            '-' | '\'' | '\u{2019}' | '\u{2010}' | '\u{2011}' if self.letters > 0 => return,
            '_' => self.is_plain = false,
            '(' => self.in_call = is_letter(last) || last.is_numeric(),
            ')' => self.in_call = false,
            _ if character.is_numeric() => self.is_plain &= self.letters == 0,
            '.' | ':' | '/' => {}
            _ => self.is_plain = true,
        }
        self.letters = 0;
    }

    fn push_letter(&mut self, letter: char) {
        if let Some(place) = self.name.get_mut(usize::from(self.letters)) {
            *place = u8::try_from(letter.to_ascii_lowercase()).unwrap_or(0);
        }
        self.letters = self.letters.saturating_add(1);
    }

    /// Classifies a bracket that follows immediately.
    pub(super) fn admitted_bracket(&self) -> Admits {
        let last = self.last;
        if self.in_url || self.after_call || last.is_numeric() {
            return Admits::Nothing;
        }
        if matches!(last, '[' | ']' | '{' | '}' | '\\') {
            return Admits::Nothing;
        }
        if last >= UNSPACED || !is_letter(last) {
            return Admits::Mark;
        }
        let is_name =
            NAMES.iter().any(|name| name.len() == usize::from(self.letters) && self.name.starts_with(name));
        if self.letters > 1 && self.is_plain && !self.in_call && !is_name {
            Admits::MarkAtEndOfWord
        } else {
            Admits::Nothing
        }
    }
}

/// Returns true for a letter, or a sign above or below one.
fn is_letter(character: char) -> bool {
    character.is_alphabetic() || matches!(character, '\u{300}'..='\u{36f}')
}

/// Returns true if a word with a mark at its end ends before this text; `None` if more text is needed.
pub(super) fn ends_word(text: &str, ended: bool) -> Option<bool> {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return ended.then_some(true) };
    let second = characters.next();
    let is_undecided = second.is_none() && !ended;
    let is_end = match first {
        // An assignment, or a sum.
        ' ' if is_undecided => return None,
        ' ' => !matches!(second, Some('=' | '+')),
        '.' | ',' | ';' | ':' | '!' | '?' if is_undecided => return None,
        '.' | ',' | ';' | ':' | '!' | '?' => !second
            .is_some_and(|next| next < UNSPACED && (next.is_alphanumeric() || matches!(next, '_' | '='))),
        // A mark after the mark.
        '[' if is_undecided => return None,
        '[' => second.is_some_and(|next| next.is_ascii_digit()),
        ')' | '"' | '\'' | '*' | '_' | '~' | '|' | '<' | '\n' | '\t' | '\r' => true,
        _ => first >= UNSPACED || !first.is_ascii() && !first.is_alphanumeric(),
    };
    Some(is_end)
}
