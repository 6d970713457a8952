//! Compares the order of events in time.

use super::aligned::{AlignedSentence, Alignment, SentenceWord, list_contains};
use super::negation::NEGATING;

const BEFORE: &str = "before prior pred vor bevor predtim predtym vorher zuvor beforehand";
const AFTER: &str = "after following po nach nachdem afterwards nachher danach pote potom nasledne";
/// The adverbs among the words above, after which no event is named.
const ADVERBS: &str = "vorher zuvor nachher danach potom pote afterwards beforehand predtim predtym nasledne";
/// The number of words after a preposition that name its event.
const EVENT_WORDS_MAX: usize = 2;
/// The maximum number of words between a preposition and its negation: *not before* is *after*.
const NEGATION_DISTANCE_MAX: usize = 3;

/// Returns true if the claim reverses the order in time of the passages.
pub(super) fn is_changed(alignment: &Alignment<'_, '_>) -> bool {
    alignment.differs_everywhere(|said, cited| {
        is_reversed(said, cited, BEFORE, AFTER) || is_reversed(said, cited, AFTER, BEFORE)
    })
}

fn is_reversed(said: &AlignedSentence<'_>, cited: &AlignedSentence<'_>, own: &str, other: &str) -> bool {
    let (same, reversed) = (words_after_events(cited, own), words_after_events(cited, other));
    let shares = |event: &[&SentenceWord<'_>], others: &[Vec<&SentenceWord<'_>>]| {
        others.iter().any(|other| {
            event.is_empty() && other.is_empty()
                || event.iter().any(|word| other.iter().any(|other| word.is_form_of(other)))
        })
    };
    words_after_events(said, own).iter().any(|event| {
        let is_same = shares(event, &same) || event.is_empty() && !same.is_empty();
        shares(event, &reversed) && !is_same
    })
}

/// Returns the words after each word of the list without an adjacent negation; empty for an adverb.
fn words_after_events<'a, 'b>(
    sentence: &'b AlignedSentence<'a>,
    list: &str,
) -> Vec<Vec<&'b SentenceWord<'a>>> {
    let event = |(at, word): (usize, &SentenceWord<'a>)| {
        let max = if list_contains(ADVERBS, &word.folded) { 0 } else { EVENT_WORDS_MAX };
        let words = || sentence.words[at + 1..].iter().filter(|word| word.content).take(max).collect();
        let near = &sentence.words[at.saturating_sub(NEGATION_DISTANCE_MAX)..];
        let is_negated =
            near.iter().take(2 * NEGATION_DISTANCE_MAX).any(|word| list_contains(NEGATING, &word.folded));
        (list_contains(list, &word.folded) && !is_negated).then(words)
    };
    sentence.words.iter().enumerate().filter_map(event).collect()
}
