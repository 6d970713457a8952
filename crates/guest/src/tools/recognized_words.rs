//! Chooses the text of an image from the words that text recognition believes to see in it, with its confidence in each. In
//! photographs and drawings it sees words that do not exist, mostly with little confidence.

/// The minimum confidence in a word that is kept, in hundredths.
const CONFIDENCE_MIN: f32 = 60.0;
/// An image has text if it has at least this number of words with this number of letters and this confidence.
const SURE_WORDS_MIN: usize = 3;
const SURE_LETTERS_MIN: usize = 3;
const SURE_CONFIDENCE_MIN: f32 = 70.0;

/// A row of the table of words that tesseract writes.
struct RecognizedWord<'a> {
    /// The numbers of its block, paragraph and line.
    place: [u32; 3],
    confidence: f32,
    text: &'a str,
}

impl<'a> RecognizedWord<'a> {
    /// Parses a row: level, page, block, paragraph, line, word, four sides, confidence, text.
    fn parse(row: &'a str) -> Option<Self> {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, _, block, paragraph, line, _, _, _, _, _, confidence, text] = columns[..] else {
            return None;
        };
        let place = [block.parse().ok()?, paragraph.parse().ok()?, line.parse().ok()?];
        let confidence: f32 = confidence.parse().ok()?;
        let text = text.trim();
        (confidence >= CONFIDENCE_MIN && !text.is_empty()).then_some(Self { place, confidence, text })
    }

    fn is_sure(&self) -> bool {
        let letters = self.text.chars().filter(|letter| letter.is_alphabetic()).count();
        self.confidence >= SURE_CONFIDENCE_MIN && letters >= SURE_LETTERS_MIN
    }
}

/// Returns the text of an image, with a blank line between paragraphs; empty if it shows none.
pub(super) fn text_from_table(table: &str) -> String {
    let words: Vec<RecognizedWord<'_>> = table.lines().filter_map(RecognizedWord::parse).collect();
    let mut out = String::new();
    if words.iter().filter(|word| word.is_sure()).count() < SURE_WORDS_MIN {
        return out;
    }
    let mut before: Option<[u32; 3]> = None;
    for word in &words {
        out.push_str(match before {
            None => "",
            Some(before) if before == word.place => " ",
            Some(before) if before[..2] == word.place[..2] => "\n",
            Some(_) => "\n\n",
        });
        out.push_str(word.text);
        before = Some(word.place);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_row(place: [u32; 3], confidence: &str, word: &str) -> String {
        let [block, paragraph, line] = place;
        format!("5\t1\t{block}\t{paragraph}\t{line}\t1\t0\t0\t9\t9\t{confidence}\t{word}\n")
    }

    #[test]
    fn text_from_table_keeps_sure_words() {
        let head =
            "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext\n";
        let rows = [
            table_row([1, 1, 1], "96.1", "Deposit"),
            table_row([1, 1, 1], "61", "is"),
            table_row([1, 1, 1], "12.5", "~;"),
            table_row([1, 1, 2], "95", "900"),
            table_row([1, 1, 2], "90", "crowns"),
            table_row([2, 1, 1], "88", "Signed"),
        ];
        assert_eq!(text_from_table(&format!("{head}{}", rows.concat())), "Deposit is\n900 crowns\n\nSigned");
    }

    #[test]
    fn a_photograph_has_no_text() {
        let rows = [
            table_row([1, 1, 1], "65", "apt)"),
            table_row([1, 1, 1], "91", "(a"),
            table_row([2, 1, 1], "95", "1"),
            table_row([2, 1, 1], "92", "tree"),
            table_row([3, 1, 1], "30", "Wetter"),
        ];
        assert_eq!(text_from_table(&rows.concat()), "");
        assert_eq!(text_from_table("no table\t"), "");
    }
}
