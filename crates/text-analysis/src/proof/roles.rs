//! Compares who does something: whether the passage attributes to another participant what the sentence says.
//!
//! A participant acts if it is the subject of an active sentence, or follows *by* in a passive one. Languages mark that by
//! the order of words (English), by articles (German) or by endings (Czech, Slovak). A role that cannot be recognized is
//! not compared.

use std::sync::LazyLock;

use crate::TextLanguage;
use crate::fold::fold_text;

use super::aligned::{AlignedSentence, Alignment, SentenceWord, list_contains};

/// One participant a line.
const PARTICIPANTS: &str = include_str!("participants.txt");
/// Words (folded) before the actor in a passive sentence.
const BY: &str = "by vom von durch seitens";
/// Prepositions and German articles (folded) before a participant that is not the subject.
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
/// Participles (folded) that do not form a passive: their subject acts.
const DUTIES: &str = "\
    required obliged allowed permitted entitled prohibited authorized povinen opravnen opravnena opravneni povinny opravneny";
/// Words between an auxiliary and its participle.
const PARTICIPLE_DISTANCE_MAX: usize = 3;
/// Adjectives between a participant and its article.
const ADJECTIVES_MAX: usize = 1;
const ADJECTIVE_MIN_CHARS: usize = 4;
/// German endings (folded) of participants whose article `der` is not a nominative, and whose `die` may be an accusative.
const FEMININE: [&str; 5] = ["ung", "schaft", "bank", "polizei", "gemeinde"];
/// Words (folded) that may begin another clause with another subject.
const AND: &str = "and und a";
/// The share of a claim's words besides participants that a sentence must contain to describe the same.
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
    lines.map(|line| line.split_whitespace().map(fold_text).collect()).collect()
});

/// The part that a participant takes in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParticipantRole {
    Acts,
    /// Another participant than the actor.
    Undergoes,
    /// It owns or gives something: `the owner's consent`.
    Of,
    /// It is not recognized.
    Unknown,
}

/// A participant of a sentence.
#[derive(Debug)]
struct SentenceParticipant<'a> {
    shown: &'a str,
    participant: usize,
    role: ParticipantRole,
}

/// Returns the participant to whom the claim attributes something that the passages attribute to another.
pub(super) fn find_changed_participant(
    alignment: &Alignment<'_, '_>,
    language: TextLanguage,
) -> Option<String> {
    let said = find_participants(alignment.said, language);
    let is_other = |part: &SentenceParticipant<'_>| {
        alignment.differs_everywhere(|claim, cited| {
            let others = find_participants(cited, language);
            let same_role = || others.iter().filter(|other| other.role == part.role);
            let is_told = part.role == ParticipantRole::Undergoes
                && others.iter().any(|other| other.participant == part.participant);
            let replaced = same_role().filter(|other| {
                part.role == ParticipantRole::Acts
                    || said.iter().all(|own| own.role != part.role || own.participant != other.participant)
            });
            let overlap = claim.overlap_of(cited, |word| participant_index(&word.folded, language).is_none());
            overlap >= OVERLAP_MIN
                && !is_told
                && replaced.count() > 0
                && same_role().all(|other| other.participant != part.participant)
        })
    };
    let compared = said.iter().filter(|part| part.role != ParticipantRole::Unknown);
    compared.into_iter().find(|part| is_other(part)).map(|part| part.shown.to_owned())
}

fn participant_index(word: &str, language: TextLanguage) -> Option<usize> {
    WORDS.iter().position(|names| names.iter().any(|name| is_form(word, name, language)))
}

/// Returns true if the word is a form of the name, in German also a compound that ends with it.
fn is_form(word: &str, name: &str, language: TextLanguage) -> bool {
    let is_ending =
        |rest: Option<&str>, endings: &[&str]| rest.is_some_and(|ending| endings.contains(&ending));
    match language {
        TextLanguage::English => is_ending(word.strip_prefix(name), &["", "s", "es"]),
        TextLanguage::German if name.len() >= COMPOUNDED_MIN_BYTES => {
            is_ending(word.rfind(name).map(|at| &word[at + name.len()..]), &GERMAN_ENDINGS)
        }
        TextLanguage::German => is_ending(word.strip_prefix(name), &GERMAN_ENDINGS),
        TextLanguage::Czech | TextLanguage::Slovak => {
            is_ending(word.strip_prefix(name.trim_end_matches(['a', 'e', 'i', 'y'])), &SLAVIC_ENDINGS)
        }
    }
}

/// Returns the participants of a sentence with their roles.
fn find_participants<'a>(
    sentence: &AlignedSentence<'a>,
    language: TextLanguage,
) -> Vec<SentenceParticipant<'a>> {
    let mut found: Vec<(SentenceParticipant<'a>, RoleMark)> = Vec::new();
    for (at, word) in sentence.words.iter().enumerate() {
        let Some(participant) = participant_index(&word.folded, language) else { continue };
        let mark = match language {
            TextLanguage::English => english_mark(sentence, at, found.is_empty()),
            TextLanguage::German => german_mark(sentence, at),
            TextLanguage::Czech | TextLanguage::Slovak => slavic_mark(sentence, at),
        };
        let part =
            SentenceParticipant { shown: word.token.text, participant, role: ParticipantRole::Undergoes };
        found.push((part, mark));
    }
    let has_subject = found.iter().any(|(_, mark)| *mark == RoleMark::Subject);
    let passive = is_passive(sentence);
    let is_coordinated = sentence.has_any(AND);
    for (part, mark) in &mut found {
        part.role = match mark {
            RoleMark::By if passive => ParticipantRole::Acts,
            RoleMark::Subject if !passive => ParticipantRole::Acts,
            RoleMark::Ambiguous if !passive && !has_subject => ParticipantRole::Acts,
            RoleMark::Of => ParticipantRole::Of,
            RoleMark::Ambiguous if !passive && is_coordinated => ParticipantRole::Unknown,
            _ => ParticipantRole::Undergoes,
        };
    }
    found.into_iter().map(|(part, _)| part).collect()
}

/// The grammatical mark of a participant in its sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RoleMark {
    Subject,
    /// The subject, unless another participant is.
    Ambiguous,
    By,
    Of,
    Other,
}

/// Returns true if a participle follows an auxiliary of the passive.
fn is_passive(sentence: &AlignedSentence<'_>) -> bool {
    let words = &sentence.words;
    let is_participle = |at: usize| {
        let word = words[at].folded.as_str();
        let is_duty = list_contains(DUTIES, word)
            && words.get(at + 1).is_none_or(|next| !list_contains(BY, &next.folded));
        PARTICIPLE_ENDINGS.iter().any(|ending| word.ends_with(ending)) && !is_duty
    };
    words.iter().enumerate().any(|(at, word)| {
        let mut after = (at + 1..words.len()).take(PARTICIPLE_DISTANCE_MAX);
        list_contains(PASSIVE_GERMAN, &word.folded)
            || list_contains(PASSIVE, &word.folded) && after.any(is_participle)
    })
}

/// Returns the word (folded) before a participant's article and adjective, and the article.
fn words_before<'b>(sentence: &'b AlignedSentence<'_>, at: usize) -> (&'b str, &'b str) {
    let mut words = sentence.words[..at].iter().rev().peekable();
    for _ in 0..ADJECTIVES_MAX {
        words.next_if(|word| word.content && word.folded.chars().count() >= ADJECTIVE_MIN_CHARS);
    }
    let article = words.next_if(|word| list_contains(ARTICLES, &word.folded));
    let folded = |word: Option<&'b SentenceWord<'_>>| word.map_or("", |word| word.folded.as_str());
    (folded(words.next()), folded(article))
}

fn english_mark(sentence: &AlignedSentence<'_>, at: usize, first: bool) -> RoleMark {
    let after = &sentence.text[sentence.words[at].token.end()..];
    match words_before(sentence, at) {
        _ if after.starts_with(['\'', '’']) => RoleMark::Of,
        ("of", _) => RoleMark::Of,
        (word, _) if list_contains(BY, word) => RoleMark::By,
        (word, _) if list_contains(PREPOSITIONS, word) => RoleMark::Other,
        _ if first => RoleMark::Subject,
        _ => RoleMark::Other,
    }
}

fn german_mark(sentence: &AlignedSentence<'_>, at: usize) -> RoleMark {
    let feminine = FEMININE.iter().any(|ending| sentence.words[at].folded.ends_with(ending));
    match words_before(sentence, at) {
        (word, _) if list_contains(BY, word) => RoleMark::By,
        ("des" | "eines", _) => RoleMark::Of,
        (word, article) if list_contains(PREPOSITIONS, word) || list_contains(PREPOSITIONS, article) => {
            RoleMark::Other
        }
        (_, "der" | "einer") if feminine => RoleMark::Of,
        (_, "der" | "ein" | "jeder" | "kein") => RoleMark::Subject,
        _ => RoleMark::Ambiguous,
    }
}

fn slavic_mark(sentence: &AlignedSentence<'_>, at: usize) -> RoleMark {
    let word = sentence.words[at].folded.as_str();
    let is_named = WORDS.iter().flatten().any(|name| name == word);
    match words_before(sentence, at) {
        (before, _) if list_contains(PREPOSITIONS, before) => RoleMark::Other,
        _ if is_named && list_contains(AMBIGUOUS, word) => RoleMark::Ambiguous,
        _ if is_named => RoleMark::Subject,
        _ if INSTRUMENTAL_ENDINGS.iter().any(|ending| word.ends_with(ending)) => RoleMark::By,
        _ => RoleMark::Other,
    }
}
