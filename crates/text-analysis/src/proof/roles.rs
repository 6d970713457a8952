//! Compares who does something: whether what a sentence says of one participant is said of another in its passage.
//!
//! A participant acts if it is the subject of an active sentence, or stands with *by* in a passive one. Languages mark that
//! by the order of words (English), by articles (German) or by endings (Czech, Slovak). A role that cannot be
//! recognized is not compared.

use std::sync::LazyLock;

use crate::Language;
use crate::fold::fold;

use super::aligned::{Alignment, Sentence, Word, holds};

/// One participant a line.
const PARTICIPANTS: &str = include_str!("participants.txt");
/// Words (folded) before one who acts in a passive sentence.
const BY: &str = "by vom von durch seitens";
/// Prepositions and German articles (folded) before a participant that is no subject.
const PREPOSITIONS: &str = "\
    to from with for without against at on upon about between of \
    an bei beim mit ohne fur gegen zu zum zur aus in im des dem den einem einen eines jedem jeden \
    od bez s se so k ke ku pro pre za o u v na proti mezi medzi";
/// Articles (folded) between a preposition and its participant.
const ARTICLES: &str = "\
    the a an his her its their any each every der die das ein eine einer jeder jede kein keine dem den einen einem";
/// Auxiliaries (folded) of the passive, and the endings of the participles after them.
const PASSIVE: &str = "\
    is are was were be been being je jsou byl byla bylo byli byly bude budou su bol bola bolo boli budu";
const PASSIVE_GERMAN: &str = "wird werden wurde wurden worden";
const PARTICIPLE_ENDINGS: [&str; 12] =
    ["ed", "en", "ena", "eno", "eny", "eni", "an", "ana", "ano", "any", "ani", "id"];
/// Participles (folded) that make no passive: their subject is the one that acts.
const DUTIES: &str = "\
    required obliged allowed permitted entitled prohibited authorized povinen opravnen opravnena opravneni povinny opravneny";
/// Words between an auxiliary and its participle.
const PARTICIPLE_DISTANCE_MAX: usize = 3;
/// Adjectives between a participant and its article.
const ADJECTIVES_MAX: usize = 1;
const ADJECTIVE_MIN_CHARS: usize = 4;
/// German endings (folded) of participants whose article `der` is no nominative, and whose `die` may be an accusative.
const FEMININE: [&str; 5] = ["ung", "schaft", "bank", "polizei", "gemeinde"];
/// Words (folded) that may begin another clause with another subject.
const AND: &str = "and und a";
/// The share of a claim's words besides participants that a sentence must contain to tell of the same.
const OVERLAP_MIN: f64 = 0.7;
/// Czech and Slovak participants (folded) whose nominative may be an accusative.
const AMBIGUOUS: &str = "\
    vybor soud sud ministerstvo predstavenstvo shromazdeni zhromazdenie najemce podnajemce schuze prodavajici kupujici dite dieta \
    obec spolecnost spolocnost deti prijemce zastupce soudce spravce";
/// The shortest name that ends German compounds, such as `Gebäudeeigentümer`.
const COMPOUNDED_MIN_BYTES: usize = 6;
/// Endings (folded) of participants, in Czech and Slovak after their root.
const GERMAN_ENDINGS: [&str; 9] = ["", "e", "en", "er", "es", "n", "s", "in", "innen"];
const SLAVIC_ENDINGS: [&str; 23] = [
    "", "a", "e", "i", "u", "y", "ou", "em", "om", "ovi", "ove", "ech", "um", "ami", "emi", "ich", "ov",
    "mi", "im", "och", "ach", "iam", "iach",
];
const INSTRUMENTAL_ENDINGS: [&str; 5] = ["em", "om", "ou", "ami", "emi"];

/// The words of each participant (folded).
static WORDS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let lines = PARTICIPANTS.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(fold).collect()).collect()
});

/// The part that a participant takes in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Acts,
    /// Another one than that acts.
    Undergoes,
    /// It owns or gives something: `the owner's consent`.
    Of,
    /// It is not recognized.
    Unknown,
}

/// A participant of a sentence.
#[derive(Debug)]
struct Part<'a> {
    shown: &'a str,
    participant: usize,
    role: Role,
}

/// Returns the participant of whom the claim says what the passages say of another one.
pub(super) fn changed(alignment: &Alignment<'_, '_>, language: Language) -> Option<String> {
    let said = parts(alignment.said, language);
    let is_other = |part: &Part<'_>| {
        alignment.differs(|claim, cited| {
            let others = parts(cited, language);
            let same_role = || others.iter().filter(|other| other.role == part.role);
            let is_told = part.role == Role::Undergoes
                && others.iter().any(|other| other.participant == part.participant);
            let replaced = same_role().filter(|other| {
                part.role == Role::Acts
                    || said.iter().all(|own| own.role != part.role || own.participant != other.participant)
            });
            let overlap = claim.overlap_of(cited, |word| participant(&word.folded, language).is_none());
            overlap >= OVERLAP_MIN
                && !is_told
                && replaced.count() > 0
                && same_role().all(|other| other.participant != part.participant)
        })
    };
    let compared = said.iter().filter(|part| part.role != Role::Unknown);
    compared.into_iter().find(|part| is_other(part)).map(|part| part.shown.to_owned())
}

fn participant(word: &str, language: Language) -> Option<usize> {
    WORDS.iter().position(|names| names.iter().any(|name| is_form(word, name, language)))
}

/// Returns true if the word is a form of the name, in German also a compound that ends with it.
fn is_form(word: &str, name: &str, language: Language) -> bool {
    let is_ending =
        |rest: Option<&str>, endings: &[&str]| rest.is_some_and(|ending| endings.contains(&ending));
    match language {
        Language::English => is_ending(word.strip_prefix(name), &["", "s", "es"]),
        Language::German if name.len() >= COMPOUNDED_MIN_BYTES => {
            is_ending(word.rfind(name).map(|at| &word[at + name.len()..]), &GERMAN_ENDINGS)
        }
        Language::German => is_ending(word.strip_prefix(name), &GERMAN_ENDINGS),
        Language::Czech | Language::Slovak => {
            is_ending(word.strip_prefix(name.trim_end_matches(['a', 'e', 'i', 'y'])), &SLAVIC_ENDINGS)
        }
    }
}

/// Returns the participants of a sentence with their roles.
fn parts<'a>(sentence: &Sentence<'a>, language: Language) -> Vec<Part<'a>> {
    let mut found: Vec<(Part<'a>, Mark)> = Vec::new();
    for (at, word) in sentence.words.iter().enumerate() {
        let Some(participant) = participant(&word.folded, language) else { continue };
        let mark = match language {
            Language::English => english(sentence, at, found.is_empty()),
            Language::German => german(sentence, at),
            Language::Czech | Language::Slovak => slavic(sentence, at),
        };
        let part = Part { shown: word.token.text, participant, role: Role::Undergoes };
        found.push((part, mark));
    }
    let has_subject = found.iter().any(|(_, mark)| *mark == Mark::Subject);
    let passive = is_passive(sentence);
    let is_coordinated = sentence.has_any(AND);
    for (part, mark) in &mut found {
        part.role = match mark {
            Mark::By if passive => Role::Acts,
            Mark::Subject if !passive => Role::Acts,
            Mark::Ambiguous if !passive && !has_subject => Role::Acts,
            Mark::Of => Role::Of,
            Mark::Ambiguous if !passive && is_coordinated => Role::Unknown,
            _ => Role::Undergoes,
        };
    }
    found.into_iter().map(|(part, _)| part).collect()
}

/// The mark that a participant bears in its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Subject,
    /// The subject, unless another one is.
    Ambiguous,
    By,
    Of,
    Other,
}

/// Returns true if a participle follows an auxiliary of the passive.
fn is_passive(sentence: &Sentence<'_>) -> bool {
    let words = &sentence.words;
    let is_participle = |at: usize| {
        let word = words[at].folded.as_str();
        let is_duty = holds(DUTIES, word) && words.get(at + 1).is_none_or(|next| !holds(BY, &next.folded));
        PARTICIPLE_ENDINGS.iter().any(|ending| word.ends_with(ending)) && !is_duty
    };
    words.iter().enumerate().any(|(at, word)| {
        let mut after = (at + 1..words.len()).take(PARTICIPLE_DISTANCE_MAX);
        holds(PASSIVE_GERMAN, &word.folded) || holds(PASSIVE, &word.folded) && after.any(is_participle)
    })
}

/// Returns the word (folded) before a participant's article and adjective, and the article.
fn before<'b>(sentence: &'b Sentence<'_>, at: usize) -> (&'b str, &'b str) {
    let mut words = sentence.words[..at].iter().rev().peekable();
    for _ in 0..ADJECTIVES_MAX {
        words.next_if(|word| word.content && word.folded.chars().count() >= ADJECTIVE_MIN_CHARS);
    }
    let article = words.next_if(|word| holds(ARTICLES, &word.folded));
    let folded = |word: Option<&'b Word<'_>>| word.map_or("", |word| word.folded.as_str());
    (folded(words.next()), folded(article))
}

fn english(sentence: &Sentence<'_>, at: usize, first: bool) -> Mark {
    let after = &sentence.text[sentence.words[at].token.end()..];
    match before(sentence, at) {
        _ if after.starts_with(['\'', '’']) => Mark::Of,
        ("of", _) => Mark::Of,
        (word, _) if holds(BY, word) => Mark::By,
        (word, _) if holds(PREPOSITIONS, word) => Mark::Other,
        _ if first => Mark::Subject,
        _ => Mark::Other,
    }
}

fn german(sentence: &Sentence<'_>, at: usize) -> Mark {
    let feminine = FEMININE.iter().any(|ending| sentence.words[at].folded.ends_with(ending));
    match before(sentence, at) {
        (word, _) if holds(BY, word) => Mark::By,
        ("des" | "eines", _) => Mark::Of,
        (word, article) if holds(PREPOSITIONS, word) || holds(PREPOSITIONS, article) => Mark::Other,
        (_, "der" | "einer") if feminine => Mark::Of,
        (_, "der" | "ein" | "jeder" | "kein") => Mark::Subject,
        _ => Mark::Ambiguous,
    }
}

fn slavic(sentence: &Sentence<'_>, at: usize) -> Mark {
    let word = sentence.words[at].folded.as_str();
    let is_named = WORDS.iter().flatten().any(|name| name == word);
    match before(sentence, at) {
        (before, _) if holds(PREPOSITIONS, before) => Mark::Other,
        _ if is_named && holds(AMBIGUOUS, word) => Mark::Ambiguous,
        _ if is_named => Mark::Subject,
        _ if INSTRUMENTAL_ENDINGS.iter().any(|ending| word.ends_with(ending)) => Mark::By,
        _ => Mark::Other,
    }
}
