//! Compares what comes before something and what after it.

use super::aligned::{Alignment, Sentence, Word, holds};
use super::negation::NEGATING;

const BEFORE: &str = "before prior pred vor bevor predtim predtym vorher zuvor beforehand";
const AFTER: &str = "after following po nach nachdem afterwards nachher danach pote potom nasledne";
/// Those of the words above that are adverbs, after which no event is named.
const ADVERBS: &str = "vorher zuvor nachher danach potom pote afterwards beforehand predtim predtym nasledne";
/// The words after a preposition that say before or after which event.
const EVENT_WORDS_MAX: usize = 2;
/// The words between a preposition and what negates it: *not before* is *after*.
const NEGATION_DISTANCE_MAX: usize = 3;

/// Returns true if something is said to be before what the passages say that it comes after, or the other way round.
pub(super) fn is_changed(alignment: &Alignment<'_, '_>) -> bool {
    alignment.differs(|said, cited| {
        is_reversed(said, cited, BEFORE, AFTER) || is_reversed(said, cited, AFTER, BEFORE)
    })
}

fn is_reversed(said: &Sentence<'_>, cited: &Sentence<'_>, own: &str, other: &str) -> bool {
    let (same, reversed) = (events(cited, own), events(cited, other));
    let shares = |event: &[&Word<'_>], others: &[Vec<&Word<'_>>]| {
        others.iter().any(|other| {
            event.is_empty() && other.is_empty()
                || event.iter().any(|word| other.iter().any(|other| word.is(other)))
        })
    };
    events(said, own).iter().any(|event| {
        let is_same = shares(event, &same) || event.is_empty() && !same.is_empty();
        shares(event, &reversed) && !is_same
    })
}

/// Returns the words after each word of the list that no negation word stands beside; none for an adverb.
fn events<'a, 'b>(sentence: &'b Sentence<'a>, list: &str) -> Vec<Vec<&'b Word<'a>>> {
    let event = |(at, word): (usize, &Word<'a>)| {
        let max = if holds(ADVERBS, &word.folded) { 0 } else { EVENT_WORDS_MAX };
        let words = || sentence.words[at + 1..].iter().filter(|word| word.content).take(max).collect();
        let near = &sentence.words[at.saturating_sub(NEGATION_DISTANCE_MAX)..];
        let is_negated =
            near.iter().take(2 * NEGATION_DISTANCE_MAX).any(|word| holds(NEGATING, &word.folded));
        (holds(list, &word.folded) && !is_negated).then(words)
    };
    sentence.words.iter().enumerate().filter_map(event).collect()
}
