//! Measures the built-in reader on public third-party documents: `bench_documents FOLDER INDEX
//! [tuned|kept|fresh|further|apart|later]... [questions=TABLE] [attached] [embeddings=URL,MODEL]`, with the
//! documents of `fetch.sh` in FOLDER and their index in INDEX. The questions `fresh`, and `further` and
//! `apart`, have separate documents (`fetch.sh FOLDER fresh_sources.tsv`, `further_sources.tsv`) and were
//! written later, `later` (`later_sources.tsv`) last, with words that the documents do not use.
//!
//! The questions and the passages that answer them were written from the documents before the reader was
//! measured on them; a third of the first ones (`kept`), half of the further ones (`apart`) and all of the last
//! are not looked at while the reader is improved. TABLE has the columns of `questions.tsv`, for your documents
//! and questions or the sets of `public_sets.py`; several passages that answer a question are separated by ` ||
//! `. With `attached`, each question has the right document attached. With `embeddings`, passages and queries
//! are embedded by the model of an OpenAI-compatible server.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figures are what it is for")]

#[path = "../../../reader/tests/questions/exchange.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod exchange;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;

use domain::catalog::ProviderName;
use domain::citation::PassagePlace;
use exchange::{DocumentExchange, PassageEmbedder, ReaderAnswer};
use models::{EmbeddingModel, EmbeddingsConfig, VendorConfig, VendorsConfig};
use protocol::tool::FoundPassage;

/// The tables of questions with their parts. Each table has separate documents.
const TABLES: [(&[&str], &str); 4] = [
    (&["tuned", "kept"], include_str!("questions.tsv")),
    (&["fresh"], include_str!("fresh_questions.tsv")),
    (&["further", "apart"], include_str!("further_questions.tsv")),
    (&["later"], include_str!("later_questions.tsv")),
];
/// The parts whose single answers are not shown, so that the reader is not tuned to them.
const APART: [&str; 3] = ["kept", "apart", "later"];

/// A question and the place of its answer.
struct BenchQuestion {
    /// The set of questions that it belongs to.
    part: &'static str,
    language: &'static str,
    /// The file and the passage that answer it; absent when no document does.
    answer: Option<(&'static str, &'static str)>,
    text: &'static str,
}

/// The reason why a right passage is not quoted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// No search returned it.
    NotFound,
    /// It was found, and the reader reported that nothing answers the question, and did not show it among the closest.
    Declined,
    /// The reader reported that nothing answers the question, and showed it among the closest.
    Closest,
    /// It was found, and only others are quoted.
    AnotherChosen,
    /// Another part of it is quoted.
    AnotherPart,
    /// It is quoted after others.
    Later,
}

/// The scores of a group of questions.
#[derive(Default)]
struct ScoreGroup {
    answerable: usize,
    first: usize,
    quoted: usize,
    /// The same among the closest passages, when the reader reported that nothing answers the question.
    closest_first: usize,
    closest: usize,
    unanswerable: usize,
    declined: usize,
    /// Questions for which a search for their own words finds the passage first, and among all that a model gets.
    found_first: usize,
    found: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [documents, index, options @ ..] = arguments.as_slice() else {
        eprintln!(
            "usage: bench_documents FOLDER INDEX [tuned|kept|fresh|further|apart|later]... [questions=TABLE] [attached] \
             [embeddings=URL,MODEL]"
        );
        std::process::exit(2);
    };
    let has = |option: &str| options.iter().any(|given| given == option);
    let tables = TABLES.iter().filter(|(parts, _)| parts.iter().any(|part| has(part)));
    let mut questions: Vec<BenchQuestion> = tables.flat_map(|(_, table)| parse_questions(table)).collect();
    questions.retain(|question| has(question.part));
    for table in options.iter().filter_map(|option| option.strip_prefix("questions=")) {
        let table = std::fs::read_to_string(table).expect("a table of questions");
        questions.extend(parse_questions(table.leak()));
    }
    if questions.is_empty() {
        questions = parse_questions(TABLES[0].1);
    }
    std::fs::create_dir_all(index).expect("a folder for the index");
    let mut exchange = DocumentExchange::with_index(Path::new(documents), Path::new(index));
    if let Some(model) = options.iter().find_map(|option| embedding_model(option)) {
        let embedded = exchange.search_by_meaning(model).await;
        println!("{embedded} passages embedded");
    }
    let mut groups: BTreeMap<&str, ScoreGroup> = BTreeMap::new();
    let mut causes: BTreeMap<Cause, [usize; 2]> = BTreeMap::new();
    for question in &questions {
        if question.answer.is_some_and(|(file, _)| !Path::new(documents).join(file).exists()) {
            println!("left out, as its document is missing: {}", question.text);
            continue;
        }
        let attached = question.answer.filter(|_| has("attached")).map(|(file, _)| format!("/{file}"));
        let files: Vec<&str> = attached.iter().map(String::as_str).collect();
        let answer = exchange.ask_about(question.text, &files).await;
        let right = right_quotes(question, &answer);
        let found = rank_found(question, &exchange.find_passages(question.text).await);
        let half = question_half(question);
        for name in ["all", question.language, ["half 1", "half 2"][half]] {
            let group = groups.entry(name).or_default();
            group.add_answer(question, &answer, &right);
            group.found_first += usize::from(found == Some(0));
            group.found += usize::from(found.is_some());
        }
        if let Some(cause) = miss_cause(question, &answer, &right) {
            causes.entry(cause).or_default()[half] += 1;
        }
        let wrong = match question.answer {
            Some(_) => answer.declined || right.first() != Some(&true),
            None => !answer.declined,
        };
        if !APART.contains(&question.part) && wrong && !(has("half1") && half == 1) {
            let cause = miss_cause(question, &answer, &right);
            println!("\n{cause:?} {:?} {}\n{}", question.answer, question.text, answer.text);
        }
    }
    println!();
    for (cause, [one, other]) in causes {
        println!("{cause:?}: {} ({one} + {other})", one + other);
    }
    for (name, group) in groups {
        println!(
            "{name}: right passage first {} and among the quoted {} of {}; first {} and among {} more as the closest; \
             unanswerable declined {} of {}; searched for as it is, passage first {} and among the found {}",
            group.first,
            group.quoted,
            group.answerable,
            group.closest_first,
            group.closest,
            group.declined,
            group.unanswerable,
            group.found_first,
            group.found
        );
    }
    println!("slowest search: {:?}", exchange.slowest_search());
}

impl ScoreGroup {
    fn add_answer(&mut self, question: &BenchQuestion, answer: &ReaderAnswer, right: &[bool]) {
        let (first, any) = (usize::from(right.first() == Some(&true)), usize::from(right.contains(&true)));
        match (&question.answer, answer.declined) {
            (None, declined) => {
                self.unanswerable += 1;
                self.declined += usize::from(declined);
            }
            (Some(_), false) => {
                self.answerable += 1;
                self.first += first;
                self.quoted += any;
            }
            (Some(_), true) => {
                self.answerable += 1;
                self.closest_first += first;
                self.closest += any;
            }
        }
    }
}

/// Returns for each quote whether it shows the passage.
fn right_quotes(question: &BenchQuestion, answer: &ReaderAnswer) -> Vec<bool> {
    let Some((file, passage)) = question.answer else { return Vec::new() };
    let shows = |(cited, quote): &(exchange::CitedPlace, String)| {
        cited.path.trim_start_matches('/') == file && has_passage(quote, passage)
    };
    answer.quotes.iter().map(shows).collect()
}

/// Returns why the right passage is not quoted first; `None` if it is, or if no document answers the question.
fn miss_cause(question: &BenchQuestion, answer: &ReaderAnswer, right: &[bool]) -> Option<Cause> {
    let (file, passage) = question.answer?;
    let is_right = |found: &&domain::citation::NumberedPassage| {
        let PassagePlace::File { path, .. } = &found.place else { return false };
        path.trim_start_matches('/') == file && has_passage(&found.text, passage)
    };
    let numbers: Vec<u32> = answer.found.iter().filter(is_right).map(|found| found.number).collect();
    if answer.declined && right.contains(&true) {
        Some(Cause::Closest)
    } else if right.first() == Some(&true) {
        None
    } else if right.contains(&true) {
        Some(Cause::Later)
    } else if numbers.is_empty() {
        Some(Cause::NotFound)
    } else if answer.declined {
        Some(Cause::Declined)
    } else if answer.quotes.iter().any(|(cited, _)| numbers.contains(&cited.number)) {
        Some(Cause::AnotherPart)
    } else {
        Some(Cause::AnotherChosen)
    }
}

/// Assigns a question to one of two halves by its text, so that rules tuned with one half can be checked with
/// the other.
fn question_half(question: &BenchQuestion) -> usize {
    let hash = question.text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::from(hash.count_ones() % 2 == 1)
}

/// Returns the position of the passage that answers a question among those found.
fn rank_found(question: &BenchQuestion, found: &[FoundPassage]) -> Option<usize> {
    let (file, passage) = question.answer?;
    let shows = |found: &FoundPassage| {
        found.path.trim_start_matches('/') == file && has_passage(&found.text, passage)
    };
    found.iter().position(shows)
}

/// Returns the model of an option `embeddings=URL,MODEL`.
impl PassageEmbedder for EmbeddingModel {
    fn space(&self) -> &str {
        self.space()
    }

    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> Pin<Box<dyn Future<Output = Vec<Vec<f32>>> + 'a>> {
        Box::pin(async move { self.embed_passages(texts).await.expect("vectors").vectors })
    }
}

fn embedding_model(option: &str) -> Option<EmbeddingModel> {
    let (url, model) = option.strip_prefix("embeddings=")?.split_once(',')?;
    let openai = Some(VendorConfig { base_url: Some(url.to_owned()), ..VendorConfig::default() });
    let config = EmbeddingsConfig {
        provider: ProviderName::OpenAi,
        model: model.to_owned(),
        dimensions: None,
        input_millis: 0,
        passage_prefix: String::new(),
        query_prefix: String::new(),
    };
    let vendors = VendorsConfig { openai, ..VendorsConfig::default() };
    Some(EmbeddingModel::new(&config, &vendors).expect("a server's URL and a model"))
}

/// Returns true if a text contains one of the passages that answer a question.
fn has_passage(text: &str, passages: &str) -> bool {
    let text = flatten_text(text);
    passages.split(" || ").any(|passage| text.contains(&flatten_text(passage)))
}

/// Keeps the letters and digits, so that line breaks, hyphens and markup do not matter.
fn flatten_text(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn parse_questions(table: &'static str) -> Vec<BenchQuestion> {
    let given = |field: &'static str| (field != "-").then_some(field);
    table
        .lines()
        .skip(1)
        .map(|line| {
            let [part, language, file, passage, text] =
                line.split('\t').collect::<Vec<_>>().try_into().expect("five fields");
            BenchQuestion { part, language, answer: given(file).zip(given(passage)), text }
        })
        .collect()
}
