//! Measures the check of citations on constructed sentences: false alarms and misses.

use text_analysis::proof::prove_claim;

/// The maximum share of supported sentences that are called unproven, in per cent.
const FALSE_ALARMS_MAX_PERCENT: usize = 3;

#[test]
fn few_citations_are_judged_wrongly() {
    check_sentences(include_str!("sentences.txt"), (100, 100), 10);
}

#[test]
fn prove_claim_rarely_misjudges_public_documents() {
    check_sentences(include_str!("sentences_public.txt"), (50, 50), 10);
}

/// A fifth of its wrong sentences swap roles; sentences that name things or peoples are not compared.
#[test]
fn prove_claim_judges_later_documents() {
    check_sentences(include_str!("sentences_later.txt"), (30, 30), 34);
}

#[test]
fn prove_claim_notices_changed_facts() {
    check_sentences(include_str!("sentences_facts.txt"), (80, 40), 10);
}

#[test]
fn sentences_set_apart_are_judged_alike() {
    check_sentences(include_str!("sentences_apart.txt"), (20, 20), 10);
}

/// Checks the sentences of a file with this number of right ones and of wrong ones. At most this share of the wrong
/// ones, in per cent, may be called proven.
#[expect(clippy::print_stdout, reason = "the figures are shown on request")]
fn check_sentences(sentences: &str, of: (usize, usize), misses_max_percent: usize) {
    let (mut passage, mut alarms, mut misses) = ("", Vec::new(), Vec::new());
    let (mut right, mut wrong) = (0, 0);
    for line in sentences.lines() {
        match line.split_at(line.floor_char_boundary(2)) {
            ("= ", text) => passage = text,
            ("+ ", claim) => {
                right += 1;
                if let Err(reason) = prove_claim(claim, &[passage]) {
                    alarms.push(format!("{claim} ({reason})"));
                }
            }
            ("- ", claim) => {
                wrong += 1;
                if prove_claim(claim, &[passage]).is_ok() {
                    misses.push(claim);
                }
            }
            _ => {}
        }
    }
    println!("false alarms: {} of {right}\n{}", alarms.len(), alarms.join("\n"));
    println!("misses: {} of {wrong}\n{}", misses.len(), misses.join("\n"));
    assert_eq!((right, wrong), of);
    assert!(alarms.len() * 100 <= right * FALSE_ALARMS_MAX_PERCENT, "{alarms:#?}");
    assert!(misses.len() * 100 <= wrong * misses_max_percent, "{misses:#?}");
}
