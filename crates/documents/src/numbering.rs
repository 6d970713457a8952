//! Computes the numbers that Word displays before list paragraphs. They are not in the text, but contracts are
//! cited by them.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use quick_xml::events::Event;

use super::ExtractError;
use super::xml::{attribute_value, read_events};

/// The number of levels of a list.
const LEVELS: usize = 9;
/// The maximum number of lists in a document.
const LISTS_MAX: usize = 10_000;

#[derive(Debug, Clone, Default)]
struct NumberingLevel {
    format: String,
    text: String,
    start: u32,
}

impl NumberingLevel {
    fn with_default_start() -> Self {
        Self { start: 1, ..Self::default() }
    }
}

/// A list: an abstract list with separate levels. Several lists of one abstract list continue each other, unless they say where
/// they begin.
#[derive(Debug, Default)]
struct NumberedList {
    of: String,
    own: BTreeMap<usize, OwnLevel>,
}

#[derive(Debug, Default)]
struct OwnLevel {
    /// The number of the first paragraph, until it is used. Without one, the list continues.
    begins_at: Option<u32>,
    level: Option<NumberingLevel>,
}

/// The lists of a document and their counters.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    abstracts: HashMap<String, Vec<NumberingLevel>>,
    lists: HashMap<String, NumberedList>,
    /// Paragraph style to abstract list and level.
    styles: HashMap<String, (String, usize)>,
    counters: HashMap<String, [u32; LEVELS]>,
}

impl Numbering {
    pub(super) fn parse(part: impl Read) -> Result<Self, ExtractError> {
        let mut found = Self::default();
        let mut current = String::new();
        // The list and its level that are being read; otherwise an abstract list.
        let (mut list, mut in_list) = (String::new(), false);
        let mut level = 0;
        read_events(part, |event| {
            let (Event::Start(element) | Event::Empty(element)) = event else { return true };
            let value = |name| attribute_value(element, name).unwrap_or_default();
            match element.local_name().as_ref() {
                "abstractNum" => {
                    (current, in_list) = (value("abstractNumId"), false);
                    found
                        .abstracts
                        .insert(current.clone(), vec![NumberingLevel::with_default_start(); LEVELS]);
                }
                "lvl" | "lvlOverride" => level = value("ilvl").parse().unwrap_or(0).min(LEVELS - 1),
                "num" => (list, in_list) = (value("numId"), true),
                "abstractNumId" => {
                    found
                        .lists
                        .insert(list.clone(), NumberedList { of: value("val"), ..NumberedList::default() });
                }
                "startOverride" => {
                    if let Some(list) = found.lists.get_mut(&list) {
                        list.own.entry(level).or_default().begins_at = value("val").parse().ok();
                    }
                }
                "pStyle" if !in_list => {
                    found.styles.insert(value("val"), (current.clone(), level));
                }
                name @ ("numFmt" | "lvlText" | "start") => {
                    let list = found.lists.get_mut(&list).filter(|_| in_list);
                    let entry = match list.map(|list| list.own.entry(level).or_default()) {
                        Some(own) => Some(own.level.get_or_insert_with(NumberingLevel::with_default_start)),
                        None => found.abstracts.get_mut(&current).and_then(|all| all.get_mut(level)),
                    };
                    match (entry, name) {
                        (Some(entry), "numFmt") => entry.format = value("val"),
                        (Some(entry), "lvlText") => entry.text = value("val").chars().take(40).collect(),
                        (Some(entry), _) => entry.start = value("val").parse().unwrap_or(1),
                        (None, _) => {}
                    }
                }
                _ => {}
            }
            found.abstracts.len() + found.lists.len() + found.styles.len() < LISTS_MAX
        })?;
        Ok(found)
    }

    /// Returns the list and level of a paragraph style.
    pub(super) fn of_style(&self, style: &str) -> Option<(String, usize)> {
        let (name, level) = self.styles.get(style)?;
        let list = self.lists.iter().filter(|(_, list)| list.of == *name).map(|(list, _)| list).min()?;
        Some((list.clone(), *level))
    }

    /// Returns the number or bullet of the next paragraph of this list and level, followed by a space.
    pub(super) fn next_number(&mut self, list: &str, level: usize) -> String {
        let level = level.min(LEVELS - 1);
        let bullet = || "- ".to_owned();
        let Some(list) = self.lists.get_mut(list) else { return bullet() };
        let Some(abstracts) = self.abstracts.get(&list.of) else { return bullet() };
        let begins_at = list.own.get_mut(&level).and_then(|own| own.begins_at.take());
        let of = |level: usize| {
            list.own.get(&level).and_then(|own| own.level.as_ref()).unwrap_or(&abstracts[level])
        };
        let levels: [&NumberingLevel; LEVELS] = std::array::from_fn(of);
        let counters = self.counters.entry(list.of.clone()).or_insert([0; LEVELS]);
        counters[level] = match (begins_at, counters[level]) {
            (Some(number), _) => number,
            (None, 0) => levels[level].start,
            (None, before) => before.saturating_add(1),
        };
        counters[level + 1..].fill(0);
        for (above, counter) in counters[..level].iter_mut().enumerate() {
            if *counter == 0 {
                *counter = levels[above].start;
            }
        }
        match levels[level].format.as_str() {
            "bullet" | "" => bullet(),
            "none" => String::new(),
            _ => {
                let mut text = levels[level].text.clone();
                for (index, counter) in counters.iter().enumerate() {
                    text = text
                        .replace(&format!("%{}", index + 1), &format_number(&levels[index].format, *counter));
                }
                if text.is_empty() { text } else { text + " " }
            }
        }
    }
}

fn format_number(format: &str, value: u32) -> String {
    match format {
        "lowerLetter" => format_letter(value),
        "upperLetter" => format_letter(value).to_uppercase(),
        "lowerRoman" => format_roman(value).to_lowercase(),
        "upperRoman" => format_roman(value),
        "decimalZero" => format!("{value:02}"),
        _ => value.to_string(),
    }
}

/// Formats a to z, then aa, bb, as Word does.
fn format_letter(value: u32) -> String {
    let Some(index) = value.checked_sub(1) else { return String::new() };
    let c = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
    c.to_string().repeat((index / 26 + 1).min(8) as usize)
}

fn format_roman(value: u32) -> String {
    const DIGITS: [(u32, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut left = value.min(3999);
    let mut out = String::new();
    for (worth, digit) in DIGITS {
        while left >= worth {
            out.push_str(digit);
            left -= worth;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTS: &str = r#"<w:numbering><w:abstractNum w:abstractNumId="0">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Čl. %1"/></w:lvl>
        <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2."/></w:lvl>
        <w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%3)"/></w:lvl>
        </w:abstractNum><w:num w:numId="7"><w:abstractNumId w:val="0"/></w:num></w:numbering>"#;

    #[test]
    fn next_number_counts_like_word() {
        let mut numbering = Numbering::parse(LISTS.as_bytes()).unwrap();
        let shown: Vec<String> =
            [0, 1, 1, 2, 2, 0, 1].into_iter().map(|level| numbering.next_number("7", level)).collect();
        assert_eq!(shown, ["Čl. I ", "I.1. ", "I.2. ", "a) ", "b) ", "Čl. II ", "II.1. "]);
        assert_eq!(numbering.next_number("unknown", 40), "- ");
    }

    #[test]
    fn next_number_restarted_list() {
        let restarted = r#"<w:num w:numId="8"><w:abstractNumId w:val="0"/>
            <w:lvlOverride w:ilvl="1"><w:startOverride w:val="4"/></w:lvlOverride></w:num>
            <w:num w:numId="9"><w:abstractNumId w:val="0"/></w:num></w:numbering>"#;
        let mut numbering = Numbering::parse(LISTS.replace("</w:numbering>", restarted).as_bytes()).unwrap();
        let shown: Vec<String> = [("7", 0), ("7", 1), ("7", 1), ("8", 1), ("8", 1), ("7", 1), ("9", 1)]
            .into_iter()
            .map(|(list, level)| numbering.next_number(list, level))
            .collect();
        assert_eq!(shown, ["Čl. I ", "I.1. ", "I.2. ", "I.4. ", "I.5. ", "I.6. ", "I.7. "]);
    }

    #[test]
    fn next_number_levels_independent() {
        let own = r#"<w:num w:numId="8"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="1">
            <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerRoman"/><w:lvlText w:val="(%2)"/></w:lvl>
            </w:lvlOverride></w:num></w:numbering>"#;
        let mut numbering = Numbering::parse(LISTS.replace("</w:numbering>", own).as_bytes()).unwrap();
        let shown: Vec<String> = ["7", "8", "7"].map(|list| numbering.next_number(list, 1)).into();
        assert_eq!(shown, ["I.1. ", "(ii) ", "I.3. "]);
    }

    #[test]
    fn letters_and_romans() {
        assert_eq!([format_letter(1), format_letter(26), format_letter(27)], ["a", "z", "aa"]);
        assert_eq!([format_roman(4), format_roman(1999), format_roman(0)], ["IV", "MCMXCIX", ""]);
    }
}
