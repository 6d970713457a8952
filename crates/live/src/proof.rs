//! Checks the citations of a finished text against the passages that they cite.
//!
//! A claim is the text between the previous mark and this one, in the last sentence; for an attribution below a block
//! quote (`— lease.pdf, page 2 [1]`), the quote. Consecutive marks prove a claim together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use domain::citation::{CitationMark, find_marks, strip_marks};
use text_analysis::proof::{Unproven, prove_claim};
use text_analysis::sentence::split_sentences;

/// The maximum number of claims of a text that are checked; citations of further claims are not checked.
const CLAIMS_MAX: usize = 200;
/// Bounds the passages that prove one claim together; a claim with more is not checked.
const PASSAGES_OF_CLAIM_MAX: usize = 16;
/// Bounds the passages' text that the claims of one answer are compared with; further claims are not checked.
const COMPARED_MAX_BYTES: usize = 512 << 10;
/// A claim with fewer words includes the sentence before it.
const CLAIM_WORDS_MIN: usize = 3;

/// Returns for each cited number whether the passages contain all its claims, with the first thing that they do not
/// contain. Omits numbers without a passage, and numbers with an unchecked claim, unless another claim is unproven.
pub(crate) fn prove_citations<'a>(
    markdown: &str,
    is_source: impl Fn(u32) -> bool,
    passage: impl Fn(u32) -> Option<&'a str>,
) -> BTreeMap<u32, Result<(), Unproven>> {
    let mut proofs: BTreeMap<u32, Result<(), Unproven>> = BTreeMap::new();
    let mut begin = 0;
    let mut compared = 0;
    let mut unchecked = BTreeSet::new();
    for (index, (numbers, range)) in mark_clusters(markdown, &is_source).into_iter().enumerate() {
        let before = &markdown[begin..range.start];
        begin = range.end;
        if index >= CLAIMS_MAX || numbers.len() > PASSAGES_OF_CLAIM_MAX {
            unchecked.extend(numbers);
            continue;
        }
        let known: Vec<(u32, &str)> =
            numbers.into_iter().filter_map(|number| Some((number, passage(number)?))).collect();
        let passages: Vec<&str> = known.iter().map(|(_, text)| *text).collect();
        compared += passages.iter().map(|text| text.len()).sum::<usize>();
        if compared > COMPARED_MAX_BYTES {
            unchecked.extend(known.into_iter().map(|(number, _)| number));
            continue;
        }
        if passages.is_empty() {
            continue;
        }
        let proof = prove_claim(&claim_before(before, &is_source), &passages);
        for (number, _) in known {
            let so_far = proofs.entry(number).or_insert(Ok(()));
            if so_far.is_ok() {
                so_far.clone_from(&proof);
            }
        }
    }
    proofs.retain(|number, proof| proof.is_err() || !unchecked.contains(number));
    proofs
}

/// Returns the numbers of marks that follow one another, with the range that the marks take up.
fn mark_clusters(markdown: &str, is_source: impl Fn(u32) -> bool) -> Vec<(BTreeSet<u32>, Range<usize>)> {
    let mut found: Vec<(BTreeSet<u32>, Range<usize>)> = Vec::new();
    for CitationMark { brackets, numbers: own, .. } in
        find_marks(markdown).filter(|mark| mark.is_known(&is_source))
    {
        match found.last_mut() {
            Some((numbers, range))
                if markdown[range.end..brackets.start].trim_matches([',', ' ']).is_empty() =>
            {
                numbers.extend(own);
                range.end = brackets.end;
            }
            _ => found.push((own.into_iter().collect(), brackets)),
        }
    }
    found
}

/// Returns the claim at the end of a text.
fn claim_before(before: &str, is_source: impl Fn(u32) -> bool) -> String {
    let before = strip_marks(before, is_source);
    let (rest, last) = before.trim_end().rsplit_once("\n\n").unwrap_or(("", before.trim_end()));
    let is_attribution = last.trim_start().starts_with(['—', '–']);
    let above = rest.trim_end().rsplit("\n\n").next().unwrap_or_default();
    if is_attribution && above.starts_with('>') {
        return above.to_owned();
    }
    if last.trim_start().starts_with('>') {
        return last.trim_start().to_owned();
    }
    let found = split_sentences(last);
    let mut start = found.last().map_or(0, |range| range.start);
    for range in found.iter().rev() {
        start = range.start;
        if last[start..].split_whitespace().count() >= CLAIM_WORDS_MIN {
            break;
        }
    }
    last[start..].trim_start_matches(['.', ',', ';', ' ']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENT: &str = "The monthly rent is 18,500 crowns.";
    const NOTICE: &str = "The notice period is three months.";

    fn verify_marks(markdown: &str) -> Vec<(u32, bool)> {
        let passage = |number| [RENT, NOTICE].get(number as usize - 1).copied();
        prove_citations(markdown, |number| passage(number).is_some(), passage)
            .into_iter()
            .map(|(number, proof)| (number, proof.is_ok()))
            .collect()
    }

    #[test]
    fn mark_checked_with_own_claim() {
        for (markdown, expected) in [
            (
                "It is cold. The rent is 18,500 crowns [1]. The notice period is 3 months. [2]",
                vec![(1, true), (2, true)],
            ),
            (
                "The rent is 19,500 crowns [1], the notice period is 3 months [2].",
                vec![(1, false), (2, true)],
            ),
            (
                "The rent of 18,500 crowns ends after a notice period of three months [1][2].",
                vec![(1, true), (2, true)],
            ),
            ("The rent is 18,500 crowns [1].\n\nThe rent is 1 crown [1].", vec![(1, false)]),
            ("> The monthly rent is 18,500 crowns.\n\n— **lease.pdf**, page 27 [1]", vec![(1, true)]),
            ("> The monthly rent is 2 crowns.\n\n— **lease.pdf**, page 27 [1]", vec![(1, false)]),
            ("The rent is 18,500 crowns [7].", vec![]),
        ] {
            assert_eq!(verify_marks(markdown), expected, "{markdown}");
        }
    }
    #[test]
    fn repeated_mark_checked_once() {
        let repeated = "[1]".repeat(50_000);
        let (numbers, range) = mark_clusters(&repeated, |_| true).remove(0);
        assert_eq!((numbers, range), (BTreeSet::from([1]), 0..repeated.len()));
        assert_eq!(verify_marks(&format!("The rent is 18,500 crowns {repeated}.")), [(1, true)]);
    }

    #[test]
    fn claim_comparison_is_bounded() {
        let long = RENT.repeat(COMPARED_MAX_BYTES / RENT.len() + 1);
        let said = "The rent is 18,500 crowns";
        let passage = |number| Some(if number == 2 { long.as_str() } else { RENT });
        let proven = prove_citations(&format!("{said} [1]. {said} [2]. {said} [3]."), |_| true, passage);
        assert_eq!(proven.into_keys().collect::<Vec<_>>(), [1]);
        let many: String = (1..=PASSAGES_OF_CLAIM_MAX + 1).map(|number| format!("[{number}]")).collect();
        let checked = "The rent is 18,500 crowns [1]. ";
        for (before, expected) in [("", None), (checked, None), ("It is 1 crown [1]. ", Some((1, false)))] {
            let markdown = format!("{before}The rent is 18,500 crowns {many}.");
            let first = prove_citations(&markdown, |_| true, |_| Some(RENT)).into_iter().next();
            assert_eq!(first.map(|(number, proof)| (number, proof.is_ok())), expected, "{before}");
        }
    }
}
