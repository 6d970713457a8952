//! Compares obligations, permissions and prohibitions.

use super::aligned::{AlignedSentence, Alignment, list_contains};
use super::negation;

const MUST: &str = "\
    must shall required obliged obligated musi musia musis povinen povinna povinny povinni povinne nutne nutno treba potreba \
    muss mussen musst verpflichtet";
const MAY: &str = "\
    may allowed permit permits permitted entitled muze mohou smi smeji lze mozne mozno opravnen opravnena opravneni opravneny moze mozu \
    smie smu kann konnen darf durfen berechtigt";
/// Words (folded) that permit something, but are also used for obligations.
const CAN: &str = "can could";
const FORBIDDEN: &str = "\
    forbidden prohibited disallowed verboten untersagt unzulassig zakazano zakazane zakazana zakazan zakaz zakazany";
/// Words (folded) of conditions, which still permit something.
const CONDITIONS: &str = "\
    unless except without if when only provided subject ohne ausser wenn falls sofern nur bez pokud jestlize jen pouze krome \
    ak iba len okrem ledaze with consent";

/// The share of a claim's words that a sentence must contain to speak of the same duty.
const OVERLAP_MIN: f64 = 0.75;

/// Returns true if the claim permits something that the passages require or forbid, or requires something that they
/// permit.
pub(super) fn is_changed(alignment: &Alignment<'_, '_>) -> bool {
    alignment.differs_everywhere(|said, cited| {
        permits_what_is_forbidden(said, cited)
            || said.overlap_with(cited) >= OVERLAP_MIN
                && (has_only(said, MUST, MAY) && has_only(cited, MAY, MUST)
                    || has_only(said, MAY, MUST) && has_only(cited, MUST, MAY))
    })
}

/// Returns true if the claim unconditionally permits something that the sentence forbids, even with an exception.
fn permits_what_is_forbidden(said: &AlignedSentence<'_>, cited: &AlignedSentence<'_>) -> bool {
    let permits =
        (said.has_any(MAY) || said.has_any(CAN)) && !negation::is_negating(said) && !said.has_any(CONDITIONS);
    let forbids = cited.has_any(FORBIDDEN)
        || cited.has_any(MAY) && negation::is_negating(cited)
        || is_not_allowed(cited);
    permits && forbids && !said.has_any(FORBIDDEN)
}

/// Returns true if the sentence has `shall not`, or a verb such as `nesmí`.
fn is_not_allowed(sentence: &AlignedSentence<'_>) -> bool {
    let shall_not = sentence
        .words
        .windows(2)
        .any(|pair| list_contains("shall must", &pair[0].folded) && pair[1].folded == "not");
    shall_not
        || sentence.has_any("nesmi nesmie nesmeji nesmu nemuze nemohou nemoze nemozu nelze nemozno cannot")
}

fn has_only(sentence: &AlignedSentence<'_>, list: &str, other: &str) -> bool {
    let negated = negation::is_negating(sentence) || is_not_allowed(sentence);
    sentence.has_any(list) && !sentence.has_any(other) && !negated
}
