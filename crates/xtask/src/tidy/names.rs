//! Checks names: a function is found by what it does, a type by what it is among all types, a test by its subject.
//!
//! The limits below are those of the tree as it is, with a little room: they may fall, not rise.

use std::collections::BTreeMap;

use super::{Complaint, SourceFile, SourceTree};

/// The share of functions with one word in their names, in percent, tests apart.
const ONE_WORD_PERCENT_MAX: usize = 10;
/// The number of definitions of one type name.
const SAME_TYPE_NAMES_MAX: usize = 2;
/// The number of words in a test's name.
const TEST_WORDS_MAX: usize = 8;
/// The number of attribute and comment lines above a function that may contain `#[test]`.
const ATTRIBUTE_LINES: usize = 8;
/// One-word names that end like a participle and are verbs or nouns.
const NO_PARTICIPLES: [&str; 7] = ["embed", "exceed", "feed", "need", "proceed", "seed", "speed"];
/// Participles without `-ed` that are nothing else.
const IRREGULAR_PARTICIPLES: [&str; 22] = [
    "asleep", "begun", "bound", "brought", "chosen", "drawn", "given", "gone", "held", "hidden", "kept",
    "known", "lost", "made", "met", "seen", "sent", "shown", "taken", "told", "torn", "written",
];
/// The keywords that a type is defined with.
const TYPE_KEYWORDS: [&str; 4] = ["struct", "enum", "trait", "union"];

/// A definition and its line, from 1.
struct Definition<'a> {
    name: &'a str,
    line: usize,
    is_test: bool,
}

pub(super) fn check_names(tree: &SourceTree) -> Vec<Complaint> {
    let mut out = Vec::new();
    let (mut functions, mut one_word) = (0, 0);
    let mut types: BTreeMap<&str, Vec<(&SourceFile, usize)>> = BTreeMap::new();
    for file in tree.with_suffix(".rs") {
        for function in find_functions(file) {
            if function.is_test {
                check_test_name(file, &function, &mut out);
                continue;
            }
            functions += 1;
            one_word += usize::from(!function.name.trim_matches('_').contains('_'));
            check_function_name(file, &function, &mut out);
        }
        for definition in find_types(file) {
            types.entry(definition.name).or_default().push((file, definition.line));
        }
    }
    for (name, places) in types.iter().filter(|(_, places)| places.len() > SAME_TYPE_NAMES_MAX) {
        for (file, line) in places {
            let text =
                format!("{} types are named `{name}`: say what this one is among all types", places.len());
            push_complaint(&mut out, file, *line, text);
        }
    }
    if one_word * 100 > functions * ONE_WORD_PERCENT_MAX {
        let text =
            format!("{one_word} of {functions} functions have one word: name them as a verb with its object");
        out.push(Complaint { path: "crates".to_owned(), line: 0, rule: "name", text });
    }
    out
}

fn check_test_name(file: &SourceFile, test: &Definition<'_>, out: &mut Vec<Complaint>) {
    if test.name.split('_').count() > TEST_WORDS_MAX {
        let text = format!("`{}` has more than {TEST_WORDS_MAX} words: subject_condition_result", test.name);
        push_complaint(out, file, test.line, text);
    }
}

fn check_function_name(file: &SourceFile, function: &Definition<'_>, out: &mut Vec<Complaint>) {
    let name = function.name;
    let is_participle =
        (name.len() > 3 && name.ends_with("ed") && !name.contains('_') && !NO_PARTICIPLES.contains(&name))
            || IRREGULAR_PARTICIPLES.contains(&name);
    if is_participle || name == "of" {
        let text = format!(
            "`{name}` says nothing alone: a function is a verb with its object, or from_x for a constructor"
        );
        push_complaint(out, file, function.line, text);
    }
}

fn push_complaint(out: &mut Vec<Complaint>, file: &SourceFile, line: usize, text: String) {
    out.push(Complaint { path: file.path.clone(), line, rule: "name", text });
}

/// Finds the functions whose definitions begin a line.
fn find_functions(file: &SourceFile) -> impl Iterator<Item = Definition<'_>> {
    let lines: Vec<&str> = file.text.lines().collect();
    let attributes = lines.clone();
    lines.into_iter().enumerate().filter_map(move |(index, line)| {
        let name = defined_name(line, &["fn"])?;
        let above = attributes[index.saturating_sub(ATTRIBUTE_LINES)..index].iter().rev();
        let is_test = above
            .take_while(|line| line.trim_start().starts_with("#[") || line.trim_start().starts_with("//"))
            .any(|line| line.trim_start() == "#[test]" || line.trim_start().starts_with("#[tokio::test"));
        Some(Definition { name, line: index + 1, is_test })
    })
}

fn find_types(file: &SourceFile) -> impl Iterator<Item = Definition<'_>> {
    let named = |(index, line)| Some((index, defined_name(line, &TYPE_KEYWORDS)?));
    let found = file.text.lines().enumerate().filter_map(named);
    found.map(|(index, name)| Definition { name, line: index + 1, is_test: false })
}

/// Returns the name that a line defines with one of `keywords`, after visibility and qualifiers.
fn defined_name<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    const QUALIFIERS: [&str; 5] = ["pub", "const", "async", "unsafe", "default"];
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    while QUALIFIERS.contains(&word) || word.starts_with("pub(") {
        // `pub(in path)` is two words.
        if word == "pub(in" {
            words.next()?;
        }
        word = words.next()?;
    }
    if !keywords.contains(&word) {
        return None;
    }
    let rest = words.next()?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let complaints = check_names(&SourceTree::from_texts(files));
        complaints.into_iter().map(|complaint| (complaint.path, complaint.line)).collect()
    }

    #[test]
    fn participles_and_of_are_refused() {
        let text = "pub(crate) async fn refused() {}\nfn of(text: &str) {}\nfn seed_bytes() {}\nfn told_apart() {}\n";
        let found = complaints(&[("crates/a/src/lib.rs", text)]);
        assert!(found.contains(&("crates/a/src/lib.rs".to_owned(), 1)));
        assert!(found.contains(&("crates/a/src/lib.rs".to_owned(), 2)));
        assert!(!found.iter().any(|(_, line)| *line > 2), "{found:?}");
    }

    #[test]
    fn share_of_one_word_is_bounded() {
        let long: String = (0..90).map(|number| format!("fn read_{number}() {{}}\n")).collect();
        assert_eq!(complaints(&[("a.rs", &format!("{long}fn read() {{}}\n"))]), []);
        let short: String = ["a", "b", "c", "d", "e", "g", "h", "i", "j", "k", "l"]
            .map(|name| format!("fn {name}() {{}}\n"))
            .concat();
        assert_eq!(complaints(&[("a.rs", &format!("{long}{short}"))]), [("crates".to_owned(), 0)]);
    }

    #[test]
    fn third_type_of_one_name_is_refused() {
        let files =
            [("a.rs", "struct State;"), ("b.rs", "pub enum State {"), ("c.rs", "trait Other: State {}")];
        assert_eq!(complaints(&files), []);
        let third = [files[0], files[1], ("c.rs", "pub(in a) struct State<T>(T);")];
        assert_eq!(complaints(&third).len(), 3);
    }

    #[test]
    fn long_test_names_are_refused() {
        let test =
            |name: &str| format!("#[tokio::test]\nasync fn {name}() {{}}\nfn read_it_all_now() {{}}\n");
        assert_eq!(complaints(&[("a.rs", &test("one_two_three_four_five_six_seven_eight"))]), []);
        let found = complaints(&[("a.rs", &test("one_two_three_four_five_six_seven_eight_nine"))]);
        assert_eq!(found, [("a.rs".to_owned(), 2)]);
    }
}
