//! Compares the units of numbers, and whether they are lower or upper limits.

use super::aligned::{AlignedSentence, Alignment, SentenceWord, list_contains};
use super::facts::CURRENCIES;

/// Units, by whole words (after `=`) or beginnings of words (folded). One unit a line.
const UNITS: &[&str] = &[
    "second sekund",
    "minut =min",
    "hour hodin stund =h =hrs",
    "=day =days =den =dne =dny =dnu =dni =dnech =dnum =dnom =dnoch =tag =tage =tagen =tages daily denn taglich",
    "week tyden tydn tyzden tyzdn woche wochentlich",
    "month mesic mesiac mesacn monat",
    "year =rok =roku =roky =rokov =rokem =roce =rokom =let =lety =letech rocn jahr annual",
    "percent procent prozent percent =%",
    "=km",
    "=m meter metre metr",
    "=cm",
    "=mm",
    "=kg kilogram",
    "=g gram",
    "eur =€",
    "=czk =kc korun crown",
    "=usd dollar =$",
    "=gbp =£",
    "=kb =kib kilobyte",
    "=mb =mib megabyte",
    "=gb =gib gigabyte",
];
/// Words (folded) before a unit that make it a rate: `per day`.
const RATE: &str = "per pro za je every each kazd kazde kazdy kazdou kazdu kazdy kazdeho kazdeho jede jeden jedes jedem jeder";
/// The beginnings (folded) of words that are rates by themselves.
const RATES: [&str; 14] = [
    "monthly", "daily", "weekly", "annual", "yearly", "hourly", "mesicn", "mesacn", "denn", "rocn", "tydn",
    "tyzdn", "jahrlich", "taglich",
];
/// Words (folded) that make a number a lower limit, an upper limit, or a bound to exceed or stay below.
const AT_LEAST: &str = "\
    least minimum minimal mindestens wenigstens alespon aspon nejmene najmenej minimalne minimalni minimalny nejdrive najskor \
    fruhestens earliest";
const AT_MOST: &str = "\
    most maximum maximal hochstens nejvyse nejvice najviac nanajvys maximalne maximalni maximalny nejpozdeji najneskor \
    spatestens latest up exceeding";
const ABOVE: &str = "over above nad";
const BELOW: &str = "below under pod unter";
/// Words (folded) that are never followed by the unit of a number: articles; `den` is also a day in Czech.
const NO_UNITS: &str = "a an den";
/// The words between a number and its unit, or between it and its limit.
const BETWEEN_MAX: usize = 3;

/// Distinguishes a lower limit from an upper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// A number with its unit and limit.
struct Quantity<'a> {
    shown: &'a str,
    value: &'a str,
    unit: Option<usize>,
    limit: Option<Limit>,
}

/// Returns the first number of the claim that differs in the passages.
pub(super) fn find_changed_quantity(
    alignments: &[Alignment<'_, '_>],
    cited: &[AlignedSentence<'_>],
) -> Option<String> {
    let known: Vec<Quantity<'_>> = cited.iter().flat_map(find_quantities).collect();
    let known_rates: Vec<usize> = cited.iter().flat_map(find_rates).map(|(unit, _)| unit).collect();
    let is_other_rate = |(unit, _): &(usize, &str)| !known_rates.is_empty() && !known_rates.contains(unit);
    alignments.iter().find_map(|alignment| {
        let beside: Vec<Quantity<'_>> =
            alignment.cited.iter().flat_map(|sentence| find_quantities(sentence)).collect();
        let is_other = |number: &Quantity<'_>| {
            let here = same_value(number, &beside);
            let same = if here.is_empty() { same_value(number, &known) } else { here };
            all_contradict(same.iter().map(|other| other.unit), number.unit, |unit, other| unit != other)
                || all_contradict(same.iter().map(|other| other.limit), number.limit, is_contrary)
                || stands_elsewhere(number, alignment)
        };
        let number = find_quantities(alignment.said).into_iter().find(is_other).map(|number| number.shown);
        let rate = || find_rates(alignment.said).into_iter().find(is_other_rate).map(|(_, shown)| shown);
        number.or_else(rate).map(str::to_owned)
    })
}

fn same_value<'b, 'a>(number: &Quantity<'_>, all: &'b [Quantity<'a>]) -> Vec<&'b Quantity<'a>> {
    all.iter().filter(|other| other.value == number.value).collect()
}

/// Returns true if all others are known and contradict this one.
fn all_contradict<T: Copy>(
    others: impl Iterator<Item = Option<T>>,
    own: Option<T>,
    is_contrary: impl Fn(T, T) -> bool,
) -> bool {
    let Some(own) = own else { return false };
    let mut others = others.peekable();
    others.peek().is_some() && others.all(|other| other.is_some_and(|other| is_contrary(own, other)))
}

const fn is_contrary(one: Limit, other: Limit) -> bool {
    use Limit::{Above, AtLeast, AtMost, Below};
    matches!((one, other), (AtLeast, AtMost) | (AtMost, AtLeast) | (Above, Below) | (Below, Above))
}

/// Returns true if the sentences that say the same have another number of this unit, which the claim lacks.
fn stands_elsewhere(number: &Quantity<'_>, alignment: &Alignment<'_, '_>) -> bool {
    let said = find_quantities(alignment.said);
    number.unit.is_some()
        && alignment.differs_everywhere(|_, cited| {
            let cited = find_quantities(cited);
            let is_new = |other: &Quantity<'_>| {
                other.unit == number.unit && said.iter().all(|own| own.value != other.value)
            };
            cited.iter().all(|other| other.value != number.value) && cited.iter().any(is_new)
        })
}

fn find_quantities<'a>(sentence: &'a AlignedSentence<'_>) -> Vec<Quantity<'a>> {
    let quantity = |(at, word): (usize, &'a SentenceWord<'_>)| {
        let value = word.value.as_deref()?;
        Some(Quantity {
            shown: word.token.text,
            value,
            unit: unit_after(sentence, at),
            limit: limit_before(sentence, at),
        })
    };
    sentence.words.iter().enumerate().filter_map(quantity).collect()
}

/// Returns the unit of the number at this place: a symbol or currency beside it, or one of the next words.
fn unit_after(sentence: &AlignedSentence<'_>, at: usize) -> Option<usize> {
    let token = sentence.words[at].token;
    let after = sentence.text[token.end()..].trim_start().chars().next();
    let before = sentence.text[..token.start].trim_end().chars().next_back();
    let symbols = [after, before].into_iter().flatten().filter(|symbol| !symbol.is_alphanumeric());
    let currency = sentence.words[..at].last().filter(|word| CURRENCIES.contains(&word.folded.as_str()));
    let is_near = |word: &&SentenceWord<'_>| {
        word.value.is_none() && !list_contains(RATE, &word.folded) && !list_contains(NO_UNITS, &word.folded)
    };
    let next = sentence.words[at + 1..].iter().take(BETWEEN_MAX).take_while(is_near);
    let beside = symbols.map(String::from).find_map(|symbol| find_unit(&symbol));
    beside.or_else(|| currency.into_iter().chain(next).find_map(|word| find_unit(&word.folded)))
}

fn limit_before(sentence: &AlignedSentence<'_>, at: usize) -> Option<Limit> {
    let before = &sentence.words[at.saturating_sub(BETWEEN_MAX)..at];
    let beside = before.last().map(|word| word.folded.as_str()).unwrap_or_default();
    if list_contains(ABOVE, beside) {
        return Some(Limit::Above);
    }
    if list_contains(BELOW, beside) {
        return Some(Limit::Below);
    }
    let near = before.iter().rev().take_while(|word| word.value.is_none());
    near.map(|word| word.folded.as_str()).find_map(|word| {
        let at_least = list_contains(AT_LEAST, word).then_some(Limit::AtLeast);
        at_least.or_else(|| list_contains(AT_MOST, word).then_some(Limit::AtMost))
    })
}

/// Returns the units of a sentence by which something is counted: `per day`, `monthly`.
fn find_rates<'a>(sentence: &'a AlignedSentence<'_>) -> Vec<(usize, &'a str)> {
    let words = &sentence.words;
    let rate = |(at, word): (usize, &'a SentenceWord<'_>)| {
        let unit = find_unit(&word.folded)?;
        let before = words[..at].iter().rev().take(BETWEEN_MAX).take_while(|word| word.value.is_none());
        let is_rate = RATES.iter().any(|rate| word.folded.starts_with(rate))
            || before.into_iter().any(|before| list_contains(RATE, &before.folded));
        is_rate.then_some((unit, word.token.text))
    };
    words.iter().enumerate().filter_map(rate).collect()
}

fn find_unit(word: &str) -> Option<usize> {
    let is = |name: &str| match name.strip_prefix('=') {
        Some(whole) => word == whole,
        None => word.starts_with(name),
    };
    UNITS.iter().position(|names| names.split_whitespace().any(is))
}
