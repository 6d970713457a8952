//! Form fields and signs of Word documents, which are not part of their text.

use quick_xml::events::BytesStart;

use super::xml::attribute_value;

/// A form field of Word before 2007 without a text value: a list or a check box.
pub(super) struct FormField {
    is_list: bool,
    choice: usize,
    entries: Vec<String>,
    is_checked: bool,
}

impl FormField {
    /// The maximum number of entries of a list; Word takes 25.
    const ENTRIES_MAX: usize = 1000;

    /// Begins a field by the name of its element.
    pub(super) fn from_element_name(name: &str) -> Self {
        Self { is_list: name == "ddList", choice: 0, entries: Vec::new(), is_checked: false }
    }

    /// Takes a property of the field.
    pub(super) fn set_property(&mut self, name: &str, value: Option<String>) {
        match name {
            "listEntry" if self.entries.len() < Self::ENTRIES_MAX => self.entries.extend(value),
            // The default comes before the value that was chosen.
            "default" | "result" | "checked" => {
                let value = value.unwrap_or_else(|| "1".to_owned());
                self.choice = value.parse().unwrap_or(0);
                self.is_checked = !matches!(value.as_str(), "0" | "false" | "off");
            }
            _ => {}
        }
    }

    /// Returns the chosen entry of a list, or the mark of a check box.
    pub(super) fn display_text(&self) -> &str {
        match (self.is_list, self.is_checked) {
            (true, _) => self.entries.get(self.choice).map_or("", String::as_str),
            (false, true) => "☒",
            (false, false) => "☐",
        }
    }
}

/// Returns the letter that an element represents: a break, a tab stop, a hyphen, or a sign of a font of symbols.
pub(super) fn element_sign(element: &BytesStart<'_>) -> Option<char> {
    match element.local_name().as_ref() {
        // Tab stops of a paragraph have the same element name, and a position.
        "tab" if attribute_value(element, "val").is_none() => Some('\t'),
        "br" | "cr" => Some(' '),
        "noBreakHyphen" => Some('-'),
        "sym" => {
            let of = |name| attribute_value(element, name).unwrap_or_default();
            lookup_symbol(&of("font"), &of("char"))
        }
        _ => None,
    }
}

/// The letters of the font Symbol in the places of `A` to `Z` and `a` to `z`.
const GREEK_CAPITALS: &str = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ";
const GREEK_SMALL: &str = "αβχδεφγηιϕκλμνοπθρστυϖωξψζ";
/// Further signs of fonts of symbols by their code.
const SYMBOL: [(u32, char); 32] = [
    (0xa2, '′'),
    (0xa3, '≤'),
    (0xa5, '∞'),
    (0xac, '←'),
    (0xad, '↑'),
    (0xae, '→'),
    (0xaf, '↓'),
    (0xb0, '°'),
    (0xb1, '±'),
    (0xb2, '″'),
    (0xb3, '≥'),
    (0xb4, '×'),
    (0xb5, '∝'),
    (0xb6, '∂'),
    (0xb7, '•'),
    (0xb8, '÷'),
    (0xb9, '≠'),
    (0xba, '≡'),
    (0xbb, '≈'),
    (0xbc, '…'),
    (0xc7, '∩'),
    (0xc8, '∪'),
    (0xce, '∈'),
    (0xd2, '®'),
    (0xd3, '©'),
    (0xd4, '™'),
    (0xd5, '∏'),
    (0xd6, '√'),
    (0xdb, '⇔'),
    (0xde, '⇒'),
    (0xe5, '∑'),
    (0xf2, '∫'),
];
const WINGDINGS: [(u32, char); 8] =
    [(0x6f, '☐'), (0xa8, '☐'), (0xe0, '→'), (0xe8, '→'), (0xfb, '✗'), (0xfc, '✓'), (0xfd, '☒'), (0xfe, '☑')];
const WINGDINGS_2: [(u32, char); 5] = [(0x4f, '✗'), (0x50, '✓'), (0x52, '☑'), (0x53, '☒'), (0xa3, '☐')];

/// Returns the sign with a hexadecimal code in a font; `None` if it is unknown.
fn lookup_symbol(font: &str, code: &str) -> Option<char> {
    let code = u32::from_str_radix(code, 16).ok()?;
    // Fonts of symbols have their signs from U+F000 on, too.
    let low = if (0xf000..0xf100).contains(&code) { code - 0xf000 } else { code };
    let among = |signs: &[(u32, char)]| signs.iter().find(|(one, _)| *one == low).map(|(_, sign)| *sign);
    let letter = |letters: &str, first: char| {
        let place = low.checked_sub(u32::from(first))?;
        letters.chars().nth(usize::try_from(place).ok()?)
    };
    match font {
        "Symbol" => among(&SYMBOL)
            .or_else(|| letter(GREEK_CAPITALS, 'A'))
            .or_else(|| letter(GREEK_SMALL, 'a'))
            .or_else(|| char::from_u32(low).filter(|sign| (' '..='~').contains(sign))),
        "Wingdings" => among(&WINGDINGS),
        "Wingdings 2" => among(&WINGDINGS_2),
        _ => char::from_u32(code)
            .filter(|sign| !sign.is_control() && !('\u{e000}'..='\u{f8ff}').contains(sign)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_sign_symbol_fonts_as_shown() {
        for (font, code, sign) in [
            ("Symbol", "F0B3", Some('≥')),
            ("Symbol", "F061", Some('α')),
            ("Symbol", "F057", Some('Ω')),
            ("Symbol", "002B", Some('+')),
            ("Wingdings", "F0FE", Some('☑')),
            ("Wingdings 2", "F0A3", Some('☐')),
            ("Wingdings", "F041", None),
            ("Arial", "2264", Some('≤')),
            ("Arial", "F0B3", None),
            ("Symbol", "x", None),
        ] {
            assert_eq!(lookup_symbol(font, code), sign, "{font} {code}");
        }
    }
}
