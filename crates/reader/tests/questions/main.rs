//! Measures the built-in reader on our own documents and questions, with text extraction, index, search and reader as
//! in the service, but without a machine.
//!
//! The reader's rules were tuned without the questions that are marked `kept`, which show whether the rules generalise.

#[expect(dead_code, reason = "the measurement on public documents uses the rest")]
mod exchange;
mod score;

use std::path::Path;

use exchange::DocumentExchange;
use score::{Score, ScoredQuestion};

/// The minimum share of answerable questions whose right passage is cited first.
const CITED_FIRST_MIN: f64 = 0.85;
/// The minimum share of unanswerable questions that are recognised.
const UNANSWERABLE_MIN: f64 = 0.90;

#[tokio::test(flavor = "current_thread")]
async fn reader_cites_right_passage_first() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions/documents");
    let exchange = DocumentExchange::over_folder(&documents);
    let questions = ScoredQuestion::load_all();
    let mut scores = Vec::new();
    for (number, question) in questions.iter().enumerate() {
        let answer = exchange.ask_question(&question.question, &[]).await;
        scores.push(Score::from_answer(number, question, answer));
    }
    let report = score::format_report(&questions, &scores);
    println!("{report}");
    println!("slowest search: {:?}", exchange.slowest_search());
    for kept in [false, true] {
        let part: Vec<&Score> = scores.iter().filter(|score| score.kept == kept).collect();
        let (first, unanswered) = score::right_shares(&part);
        assert!(first >= CITED_FIRST_MIN, "cited first: {first:.3}\n{report}");
        assert!(unanswered >= UNANSWERABLE_MIN, "recognised as unanswerable: {unanswered:.3}\n{report}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn follow_up_uses_previous_question() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions/documents");
    let exchange = DocumentExchange::over_folder(&documents);
    let answer =
        exchange.ask_question("A do kdy se vrací?", &["Jak vysokou jistotu složila nájemkyně bytu?"]).await;
    let cited = answer.first.expect("an answer");
    assert_eq!(cited.path, "/najemni-smlouva-byt.pdf");
    assert!(answer.quote.contains("do třiceti dnů"), "{}", answer.text);
}

#[tokio::test(flavor = "current_thread")]
async fn attached_files_alone_are_searched() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions/documents");
    let exchange = DocumentExchange::over_folder(&documents);
    let question = "Jaká je výpovědní doba?";
    for file in ["/pracovni-smlouva.docx", "/najemni-smlouva-byt.pdf"] {
        let answer = exchange.ask_about(question, &[file]).await;
        assert_eq!(answer.first.expect("an answer").path, file);
    }
}

#[tokio::test(flavor = "current_thread")]
async fn demo_documents_answer_demo_questions() {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/documents");
    let exchange = DocumentExchange::over_folder(&documents);
    for (question, file, page, quoted) in [
        (
            "Jaká je výpovědní doba nájmu bytu?",
            "/najemni-smlouva-byt.pdf",
            Some(2),
            "výpovědní doba činí tři měsíce",
        ),
        (
            "What is the notice period after probation?",
            "/employment-contract.docx",
            None,
            "two months for you",
        ),
    ] {
        let answer = exchange.ask_question(question, &[]).await;
        let cited = answer.first.expect("an answer");
        assert_eq!((cited.path.as_str(), cited.page), (file, page), "{}", answer.text);
        assert!(answer.quote.contains(quoted), "{}", answer.text);
    }
}
