//! The order of names as people expect it: without regard to case, accented letters beside their base letters, and
//! numbers by their value.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Sorts before everything else in a key, so that a folder comes before the names that only begin like it.
const SEPARATOR: char = '\u{0}';
/// Precedes a symbol, so that symbols sort before digits and letters.
const SYMBOL: char = '\u{1}';
/// Follows a letter with a caron that sorts after its base letter in the Czech and Slovak alphabets.
const AFTER_BASE: char = char::MAX;
const CARON: char = '\u{30c}';

/// Returns the key by which a name or path is sorted. Names that differ only in case or in accents may have the same key.
pub(super) fn name_sort_key(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    let mut letters = name.nfd().flat_map(char::to_lowercase).peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' => key.push(SEPARATOR),
            '0'..='9' => {
                let mut number = String::from(letter);
                while let Some(digit) = letters.next_if(char::is_ascii_digit) {
                    number.push(digit);
                }
                push_number(&mut key, &number);
            }
            CARON if key.ends_with(['c', 'r', 's', 'z']) => key.push(AFTER_BASE),
            mark if is_combining_mark(mark) => {}
            letter if letter.is_alphanumeric() => key.push(letter),
            symbol => key.extend([SYMBOL, symbol]),
        }
    }
    key
}

/// Adds a number so that one with more digits sorts after one with fewer. All begin with the digit 0, so that they sort
/// between symbols and letters.
fn push_number(key: &mut String, number: &str) {
    let digits = number.trim_start_matches('0');
    let count = u32::try_from(digits.len()).ok().and_then(char::from_u32).unwrap_or(char::MAX);
    key.extend(['0', count]);
    key.push_str(digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_sorted(names: &[&str]) {
        let mut sorted = names.to_vec();
        sorted.reverse();
        sorted.sort_by_cached_key(|name| name_sort_key(name));
        assert_eq!(sorted, names);
    }

    #[test]
    fn names_sort_without_regard_to_case() {
        assert_sorted(&["airports.csv", "Budget.xlsx", "contract.pdf", "Titanic.csv", "zoo.txt"]);
    }

    #[test]
    fn accented_letters_sort_beside_base_letters() {
        assert_sorted(&["abeceda", "auto", "cukr", "czech", "čeština", "dům", "Žádost"]);
        assert_sorted(&["áb", "ac", "ád", "rz", "řa", "sz", "ša", "ťa", "tb", "zz", "Ža"]);
        // Composed and decomposed letters are the same.
        assert_eq!(name_sort_key("\u{10c}e\u{161}tina"), name_sort_key("c\u{30c}es\u{30c}tina"));
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        assert_sorted(&["soubor 1.txt", "soubor.txt", "soubor2.txt", "soubor10.txt", "soubory.txt"]);
        assert_sorted(&["2026-03-09", "2026-11-02", "20260101", "100000000000000000000000000001"]);
        assert_eq!(name_sort_key("01"), name_sort_key("1"));
        assert_sorted(&["0", "1", "10"]);
    }

    #[test]
    fn paths_sort_folder_by_folder() {
        assert_sorted(&["a/z.txt", "a b/a.txt", "a2/a.txt", "ab/a.txt"]);
        assert_sorted(&["_x", "0", "x"]);
    }
}
