//! The alphabets of mathematics: bold, double-struck, script and the like, each a separate block of characters.

/// An alphabet that a command such as `\mathbb` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Italic letters, as browsers show an identifier of one letter.
    Plain,
    Upright,
    Bold,
    BoldItalic,
    DoubleStruck,
    Script,
    Fraktur,
    SansSerif,
    Monospace,
}

impl Alphabet {
    /// Returns the alphabet of a command, without its backslash.
    pub(super) fn from_command(command: &str) -> Option<Self> {
        Some(match command {
            "mathnormal" | "mathit" => Self::Plain,
            "mathrm" | "mathup" => Self::Upright,
            "mathbf" | "textbf" => Self::Bold,
            "boldsymbol" | "bm" | "pmb" => Self::BoldItalic,
            "mathbb" | "mathbbm" | "Bbb" => Self::DoubleStruck,
            "mathcal" | "mathscr" => Self::Script,
            "mathfrak" => Self::Fraktur,
            "mathsf" => Self::SansSerif,
            "mathtt" => Self::Monospace,
            _ => return None,
        })
    }

    /// Returns a letter or digit in this alphabet, or unchanged.
    pub(super) fn of_character(self, character: char) -> char {
        if let Some(apart) = self.exceptional_letter(character) {
            return apart;
        }
        // The first capital, small letter, capital and small Greek letter, and digit.
        let (capital, small, greek, digit) = match self {
            Self::Plain | Self::Upright => return character,
            Self::Bold => (0x1d400, 0x1d41a, Some((0x1d6a8, 0x1d6c2)), Some(0x1d7ce)),
            Self::BoldItalic => (0x1d468, 0x1d482, Some((0x1d71c, 0x1d736)), Some(0x1d7ce)),
            Self::DoubleStruck => (0x1d538, 0x1d552, None, Some(0x1d7d8)),
            Self::Script => (0x1d49c, 0x1d4b6, None, None),
            Self::Fraktur => (0x1d504, 0x1d51e, None, None),
            Self::SansSerif => (0x1d5a0, 0x1d5ba, None, Some(0x1d7e2)),
            Self::Monospace => (0x1d670, 0x1d68a, None, Some(0x1d7f6)),
        };
        let code = u32::from(character);
        let shifted = match character {
            'A'..='Z' => Some(capital + code - u32::from('A')),
            'a'..='z' => Some(small + code - u32::from('a')),
            '0'..='9' => digit.map(|digit| digit + code - u32::from('0')),
            'Α'..='Ω' => greek.map(|(capital, _)| capital + code - u32::from('Α')),
            'α'..='ω' => greek.map(|(_, small)| small + code - u32::from('α')),
            _ => None,
        };
        shifted.and_then(char::from_u32).unwrap_or(character)
    }

    /// Returns a letter outside the block of its alphabet.
    fn exceptional_letter(self, character: char) -> Option<char> {
        let (from, to) = match self {
            Self::DoubleStruck => ("CHNPQRZ", "ℂℍℕℙℚℝℤ"),
            Self::Script => ("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ"),
            Self::Fraktur => ("CHIRZ", "ℭℌℑℜℨ"),
            _ => return None,
        };
        from.chars().zip(to.chars()).find(|(letter, _)| *letter == character).map(|(_, to)| to)
    }
}
