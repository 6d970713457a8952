//! Measures the built-in reader on public documents that nobody here wrote: `bench_documents FOLDER INDEX [tuned|kept]
//! [attached]`, with the documents of `fetch.sh` in FOLDER and their index in INDEX.
//!
//! The questions and the passages that answer them were written from the documents before the reader was measured on
//! them; a third is kept apart (`kept`) and was not looked at while the reader was improved. With `attached`, each
//! question has the right document attached.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what it is for")]

#[path = "../../tests/reader/exchange.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod exchange;

use std::collections::BTreeMap;
use std::path::Path;

use exchange::{Answer, Exchange};

/// A question and the place of its answer.
struct Question {
    kept: bool,
    language: &'static str,
    /// The file and the passage that answer it; absent when no document does.
    answer: Option<(&'static str, &'static str)>,
    text: &'static str,
}

/// The scores of a group of questions.
#[derive(Default)]
struct Group {
    answerable: usize,
    first: usize,
    quoted: usize,
    unanswerable: usize,
    declined: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [documents, index, options @ ..] = arguments.as_slice() else {
        eprintln!("usage: bench_documents FOLDER INDEX [tuned|kept] [attached]");
        std::process::exit(2);
    };
    let has = |option: &str| options.iter().any(|given| given == option);
    let part = |question: &Question| has(if question.kept { "kept" } else { "tuned" });
    let any = !has("kept") && !has("tuned");
    std::fs::create_dir_all(index).expect("a folder for the index");
    let exchange = Exchange::with_index(Path::new(documents), Path::new(index));
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for question in questions().iter().filter(|question| any || part(question)) {
        if question.answer.is_some_and(|(file, _)| !Path::new(documents).join(file).exists()) {
            println!("left out, as its document is missing: {}", question.text);
            continue;
        }
        let attached = question.answer.filter(|_| has("attached")).map(|(file, _)| format!("/{file}"));
        let files: Vec<&str> = attached.iter().map(String::as_str).collect();
        let answer = exchange.ask_about(question.text, &files).await;
        let right = rights(question, &answer);
        for name in ["all", question.language] {
            groups.entry(name).or_default().add(question, &right);
        }
        if !question.kept && right.first() != Some(&true) {
            let verdict = if right.contains(&true) { "later" } else { "WRONG" };
            println!("\n{verdict} {:?} {}\n{}", question.answer, question.text, answer.text);
        }
    }
    println!();
    for (name, group) in groups {
        println!(
            "{name}: right passage first {} and among the quoted {} of {}; unanswerable declined {} of {}",
            group.first, group.quoted, group.answerable, group.declined, group.unanswerable
        );
    }
    println!("slowest search: {:?}", exchange.slowest_search());
}

impl Group {
    fn add(&mut self, question: &Question, right: &[bool]) {
        if question.answer.is_some() {
            self.answerable += 1;
            self.first += usize::from(right.first() == Some(&true));
            self.quoted += usize::from(right.contains(&true));
        } else {
            self.unanswerable += 1;
            self.declined += usize::from(right.first() == Some(&true));
        }
    }
}

/// Returns for each quote whether it shows the passage; for an unanswerable question whether nothing is quoted.
fn rights(question: &Question, answer: &Answer) -> Vec<bool> {
    let Some((file, passage)) = question.answer else { return vec![answer.quotes.is_empty()] };
    let shows = |(cited, quote): &(exchange::Cited, String)| {
        cited.path.trim_start_matches('/') == file && flat(quote).contains(&flat(passage))
    };
    answer.quotes.iter().map(shows).collect()
}

/// Keeps the letters and digits, so that line breaks, hyphens and markup do not matter.
fn flat(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn questions() -> Vec<Question> {
    let given = |field: &'static str| (field != "-").then_some(field);
    include_str!("questions.tsv")
        .lines()
        .skip(1)
        .map(|line| {
            let [part, language, file, passage, text] =
                line.split('\t').collect::<Vec<_>>().try_into().expect("five fields");
            Question { kept: part == "kept", language, answer: given(file).zip(given(passage)), text }
        })
        .collect()
}
