//! Questions about tables whose passages begin with the headings of their columns.

use domain::citation::mark::find_marks;
use text_analysis::proof::prove_claim;

use super::tests::{question_item, reader_request, sample_passage, search_items, text_of};
use super::*;

const BIRTHS: &str = "Births by region\nRegion\tBoys 2018\tBoys 2019\tGirls 2019\n";

/// Returns the answer to a question whose search found these rows of a table below its headings.
fn answer_from(question: &str, counts: &str, rows: &str) -> String {
    let text = format!("{BIRTHS}{rows}");
    let report = format!(
        "Passages with each word (of 40): {counts}.\nLines of column headings that begin the passages, in order: 2"
    );
    let mut transcript = vec![question_item(question, &[])];
    transcript.extend(search_items("reader-1", &report, vec![sample_passage(1, "/births.xlsx", &text)]));
    transcript.extend(search_items("reader-2", &report, Vec::new()));
    let answer = text_of(&reader_step(&reader_request(transcript)));
    // The cited passage proves the quotation.
    if let Some(mark) = find_marks(&answer).next() {
        assert_eq!(prove_claim(&answer[..mark.brackets.start], &[&text]), Ok(()), "{answer}");
    }
    answer.replace('\\', "")
}

fn region_rows(count: usize) -> String {
    (1..=count).map(|region| format!("Region {region}\t{region}18\t{region}19\t{region}77\n")).collect()
}

#[test]
fn figure_quoted_below_column_headings() {
    let answer =
        answer_from("How many boys in region 7 in 2019?", "boys 9, region 40, 7 1, 2019 9", &region_rows(20));
    let row = "> Births by region  \n> Region | Boys 2018 | Boys 2019 | Girls 2019  \n> **Region 7 | 718 | 719 | 777**";
    assert!(answer.contains(row), "{answer}");
    assert!(!answer.contains("no answer"), "{answer}");
}

#[test]
fn a_small_table_is_quoted_whole() {
    let answer = answer_from(
        "How many boys in region 2 in 2019?",
        "boys 9, region 40, 2 1, 2019 9",
        region_rows(3).trim_end(),
    );
    let whole = "> Births by region  \n> Region | Boys 2018 | Boys 2019 | Girls 2019  \n> Region 1 | 118 | 119 | 177  \n\
                 > **Region 2 | 218 | 219 | 277**  \n> Region 3 | 318 | 319 | 377";
    assert!(answer.contains(whole), "{answer}");
}

#[test]
fn what_stands_nowhere_has_no_answer() {
    for (question, counts) in [
        ("How many boys in region 7 in 2031?", "boys 9, region 40, 7 1, 2031 0"),
        ("How many boys in region 7 of Utopia in 2019?", "boys 9, region 40, 7 1, utopia 0, 2019 9"),
        ("How many zebras in region 7 in 2019?", "zebras 0, region 40, 7 1, 2019 9"),
        ("How many boys in hall D in region 7 in 2019?", "boys 9, hall 9, region 40, 7 1, 2019 9"),
    ] {
        let answer = answer_from(question, counts, &region_rows(20));
        assert!(answer.starts_with("I found no answer"), "{question}: {answer}");
        assert!(answer.contains("come closest"), "{question}: {answer}");
    }
}
