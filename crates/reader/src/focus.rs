//! Classifies the kind of thing that a question asks for, and finds it in texts.

use text_analysis::fold_text;
use text_analysis::token::{TokenKind, tokenize_text};

use super::vocabulary::{
    CALENDAR, CONDITIONS, CURRENCIES, HOURS, MONTHS_BESIDE_NUMBERS, NUMERALS, PLACES, REFERRING, TITLES,
    UNITS, list_contains, matches_list,
};

/// The kind of the expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    /// A sum of money or a percentage.
    Money,
    Number,
    /// A date or a time of day.
    When,
    /// A duration or a frequency.
    HowLong,
    /// A person or organisation that does something.
    Who,
    /// The name of a person.
    Name,
    Where,
    Open,
}

/// Adjectives that ask for a number after a word of `HOW`.
const MANY: &str = "\
    much many old high large big tall viel viele vielen hoch gross teuer alt velky velka velke vysoky vysoka vysoke";
/// Words that ask for a number by themselves.
const COUNT: &str = "kolik kolika kolikati kolko kolkych kolkym kolkymi wieviel";
/// Words before what is counted.
const COUNTING: &str = "kolik kolika kolko kolkych kolkym kolkymi many much viel viele vielen wieviel";
/// Words at the beginning of a question and after it, which together ask what something means.
const WHAT: &str = "what co cim was wofur";
const MEANING: &str = "\
    is are does mean means je jsou su znamena znamenaju dela robi rozumi rozumie ist sind bedeutet bedeuten heisst \
    steht umfasst umfassen";
const WHEN: &str = "kdy kedy when dokdy dokedy odkdy odkedy wann";
/// Nouns for points in time.
const TIMES: &str = "datum date obdobi obdobie terminu soon";
const WHO: &str = "kdo kto who whom whose koho komu kym kim cie ci wer wem wen wessen";
/// Verbs of a question about one person; other verbs may ask about several.
const BEING_ONE: &str = "je byl byla bol bola is was were ist waren";
const WHERE: &str = "kde kam where odkud odkial wo woher wohin";
/// Further words that begin a question. The words after them, including `when` and `who`, do not begin a
/// separate question.
const OTHER_QUESTIONS: &str = "\
    what which how why co cim jak jaky jaka jake jakou jakeho jakem jakym jakych ktery ktera ktere kterou kterem kteremu \
    kterych proc ako aky aka ake aku akeho akom akym akych ktory ktora ktore ktoru ktorom ktoreho preco was wie warum \
    welche welcher welches welchen welchem wofur womit wodurch woran worin";
/// A word of `HOW` followed by one of `LONG` asks for a duration.
const HOW: &str = "jak ako how wie";
const LONG: &str = "dlouho dlouha dlouhy dlouhou dlho dlha dlhy long often casto lange lang oft";
/// Nouns for amounts of money, and for durations.
const MONEY: &str = "\
    cena cenu castka castku castky castce suma sumu vyse vysi vyske vyska vysku sazba sazbu mzda mzdu \
    najemne najomne kauce kauci kaucia jistota zabezpeka poplatek poplatok pokuta pokutu pokuty odmena \
    odmenu priplatek priplatok sleva zlava price fee fees rent rental salary deposit fine cost costs amount \
    cap discount stoji zisk danu dan rate preis miete kaution gebuhr lohn gehalt strafe kosten abfindung \
    betrag zuschlag";
const SPANS: &str = "doba dobu lhuta lhutu lehota lehotu period notice warranty zaruka frist dauer zeit";

const PAYING: &str = "\
    plat* stoj* hrad* uhrad* pay* paid cost* cini prispiv* vyplat* vyplac* stal* contrib* zahl* kost* betrag*";
/// Nouns for sizes and shares.
const SIZES: &str = "\
    plocha plochu vymera vymeru dostupnost uroven quantity maximum minimum maximalni minimalni maximalny \
    minimalny velky velka velke velikost velkost pocet number size area vek age alter hohe \
    cislo cislem cislom cisla nummer port porte portu verze verzia verzi version";

/// Words (folded) that ask for a summary by themselves, and words that do so after a word of `MAKING`.
const SUMMARISE: &str = "\
    summarise summarize shrn shrnte shrnout zhrn zhrnte zhrnut zusammenfassen fasse fassen";
const SUMMARY: &str = "summary shrnuti souhrn zhrnutie suhrn zusammenfassung";
const MAKING: &str = "\
    give write make create prepare napis napiste vytvor vytvorte udelej udelejte priprav pripravte sprav spravte urob \
    urobte daj dajte dej dejte schreib schreibe erstelle gib mach";
/// The words at the beginning of a question that are looked at for them.
const COMMAND_WORDS_MAX: usize = 6;
/// Words (folded) that ask for a sum.
const TOTALS: &str = "celkem dohromady uhrnem spolu celkovo total altogether sum insgesamt zusammen";

/// Returns true for a command to summarise: `Summarise the lease.`, `Could you give me a short summary of it?`
pub(super) fn asks_summary(question: &str) -> bool {
    let folded = fold_text(question);
    let words: Vec<&str> =
        folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let begin = &words[..words.len().min(COMMAND_WORDS_MAX)];
    let has = |list: &str| begin.iter().any(|word| list.split_whitespace().any(|known| known == *word));
    let splits = begin.first().is_some_and(|word| word.starts_with("fass"));
    if splits {
        return words.contains(&"zusammen");
    }
    has(SUMMARISE) && !begin.iter().any(|word| word.starts_with("fass")) || has(MAKING) && has(SUMMARY)
}

/// Returns true for a question about a sum over several places.
pub(super) fn asks_total(question: &str) -> bool {
    let folded = fold_text(question);
    let mut words = folded.split(|c: char| !c.is_alphanumeric());
    words.any(|word| TOTALS.split_whitespace().any(|known| known == word))
}

impl Focus {
    pub(super) fn classify_question(question: &str) -> Self {
        let folded = fold_text(question);
        let words: Vec<&str> = tokenize_text(&folded)
            .into_iter()
            .filter(|token| token.kind == TokenKind::Word)
            .map(|token| token.text)
            .collect();
        let has = |list: &str| words.iter().any(|word| list_contains(list, word));
        // `What is sent when it fails?` asks for no time.
        let asked = words.iter().find(|word| {
            [COUNT, WHEN, WHO, WHERE, OTHER_QUESTIONS].iter().any(|list| list_contains(list, word))
        });
        let asks = |list: &str| asked.is_some_and(|word| list_contains(list, word));
        let asks_number = has(COUNT)
            || words.windows(2).any(|pair| list_contains(HOW, pair[0]) && list_contains(MANY, pair[1]));
        let asks_day = words.windows(2).any(|pair| {
            matches!(
                pair[0],
                "ktery"
                    | "ktory"
                    | "kteremu"
                    | "kterem"
                    | "ktorom"
                    | "what"
                    | "which"
                    | "jakeho"
                    | "akeho"
                    | "jakem"
                    | "akom"
                    | "welchem"
                    | "welcher"
            ) && matches!(
                pair[1],
                "den" | "day" | "dne" | "dna" | "datum" | "date" | "tag" | "year" | "roce" | "roku" | "jahr"
            )
        });
        if words.windows(2).any(|pair| list_contains(HOW, pair[0]) && list_contains(LONG, pair[1])) {
            Self::HowLong
        } else if asks(WHEN) || has(TIMES) || asks_day {
            Self::When
        } else if asks_number
            && (words.iter().any(|word| *word == "za" || matches_list(word, PAYING)) || has(MONEY))
        {
            Self::Money
        } else if asks_number {
            Self::Number
        } else if asks(WHO)
            && words.windows(2).any(|pair| list_contains(WHO, pair[0]) && list_contains(BEING_ONE, pair[1]))
        {
            Self::Name
        } else if asks(WHO) {
            Self::Who
        } else if asks(WHERE) {
            Self::Where
        } else if has(SPANS) && asks_which(&words) {
            Self::HowLong
        } else if has(MONEY) && asks_which(&words) {
            Self::Money
        } else if has(SIZES) && asks_which(&words) {
            Self::Number
        } else {
            Self::Open
        }
    }

    /// Returns how well a text contains the kind of answer, from 0 to 1.
    pub(super) fn met_by(self, text: &str) -> f64 {
        match self {
            Self::Open => 1.0,
            Self::Money if has_money(text) => 1.0,
            Self::Money => {
                if has_number(text) {
                    0.3
                } else {
                    0.0
                }
            }
            Self::Number => f64::from(u8::from(has_number(text))),
            Self::When if has_date(text) || has_span(text) => 1.0,
            // `When does it end?` may also ask for a condition.
            Self::When => {
                if fold_words(text).iter().any(|(_, word)| list_contains(CONDITIONS, word)) {
                    0.6
                } else {
                    0.0
                }
            }
            Self::HowLong => f64::from(u8::from(has_span(text) || has_date(text))),
            Self::Who if has_name(text) => 1.0,
            Self::Who => 0.5,
            Self::Name => f64::from(u8::from(has_name(text))),
            Self::Where => {
                if fold_words(text).iter().any(|(_, word)| matches_list(word, PLACES)) || has_path(text) {
                    1.0
                } else {
                    0.5
                }
            }
        }
    }
}

fn asks_which(words: &[&str]) -> bool {
    words.iter().any(|word| {
        matches!(
            *word,
            "jaka"
                | "jaky"
                | "jake"
                | "jakou"
                | "jakych"
                | "jakym"
                | "jakem"
                | "aka"
                | "aky"
                | "ake"
                | "aku"
                | "akej"
                | "akych"
                | "akym"
                | "akom"
                | "akeho"
                | "what"
                | "which"
                | "kolik"
                | "kolko"
                | "cini"
                | "welche"
                | "welcher"
                | "welches"
                | "welchen"
                | "welchem"
                | "wie"
        )
    })
}

/// Returns true for a folded word before what is counted.
pub(super) fn counts_next(folded: &str) -> bool {
    list_contains(COUNTING, folded)
}

/// Returns true for a question that asks what something means, is or does.
pub(super) fn asks_meaning(question: &str) -> bool {
    let folded = fold_text(question);
    let mut words = folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.next().is_some_and(|word| list_contains(WHAT, word))
        && words.next().is_some_and(|word| list_contains(MEANING, word))
}

/// Returns the indexes of the tokens of a text that are numbers, but refer to no part of a document, and whether they are
/// in digits.
pub(super) fn number_places(text: &str) -> Vec<(usize, bool)> {
    let words = fold_words(text);
    let refers =
        |at: usize| at.checked_sub(1).is_some_and(|before| list_contains(REFERRING, &words[before].1));
    let is_number = |at: usize, kind: TokenKind, word: &str| match kind {
        TokenKind::Number => !refers(at),
        TokenKind::Word => matches_list(word, NUMERALS),
        TokenKind::Section => false,
    };
    let of_item = without_item_number(text).len() < text.trim_start().len();
    let places = words.iter().enumerate().filter(|(at, (kind, word))| is_number(*at, *kind, word));
    let places = places.filter(|(at, _)| !(of_item && *at == 0));
    places.map(|(at, (kind, _))| (at, *kind == TokenKind::Number)).collect()
}

/// Returns the folded words and numbers of a text.
fn fold_words(text: &str) -> Vec<(TokenKind, String)> {
    tokenize_text(text).into_iter().map(|token| (token.kind, fold_text(token.text))).collect()
}

/// Returns true for a number that is neither a paragraph reference nor an item's number.
fn has_number(text: &str) -> bool {
    let body = without_item_number(text);
    let words = fold_words(body);
    let refers =
        |at: usize| at.checked_sub(1).is_some_and(|before| list_contains(REFERRING, &words[before].1));
    words.iter().enumerate().any(|(at, (kind, word))| match kind {
        TokenKind::Number => !refers(at),
        TokenKind::Word => {
            matches_list(word, NUMERALS) || word.bytes().next().is_some_and(|b| b.is_ascii_digit())
        }
        TokenKind::Section => false,
    })
}

/// Returns true for a number next to a currency or percent sign, and for a table row, whose header contains the unit.
fn has_money(text: &str) -> bool {
    let body = without_item_number(text);
    if text.contains('\t') || text.matches(';').count() >= 3 {
        return has_number(body);
    }
    if body.contains(['€', '£', '$', '%']) {
        return has_number(body);
    }
    let words = fold_words(body);
    let is_number = |at: usize| {
        words.get(at).is_some_and(|(kind, word)| *kind == TokenKind::Number || matches_list(word, NUMERALS))
    };
    words.iter().enumerate().any(|(at, (_, word))| {
        matches_list(word, CURRENCIES) && ((at.saturating_sub(3)..at).any(is_number) || is_number(at + 1))
    })
}

/// Returns true for a path of a file or folder, or a URL.
fn has_path(text: &str) -> bool {
    text.split_whitespace()
        .any(|word| word.trim_start_matches(['(', '`', '"', '[']).starts_with(['/', '~']) && word.len() > 3)
        || text.contains("://")
}

fn has_date(text: &str) -> bool {
    let words = fold_words(without_item_number(text));
    let has_hours =
        words.iter().any(|(_, word)| matches_list(word, HOURS) || matches!(word.as_str(), "am" | "pm" | "m"));
    let is_number = |at: usize| words.get(at).is_some_and(|(kind, _)| *kind == TokenKind::Number);
    let is_number_beside = |at: usize| is_number(at + 1) || at.checked_sub(1).is_some_and(is_number);
    words.iter().enumerate().any(|(at, (kind, word))| match kind {
        TokenKind::Word => {
            matches_list(word, CALENDAR) || matches_list(word, MONTHS_BESIDE_NUMBERS) && is_number_beside(at)
        }
        TokenKind::Number => {
            let year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20"));
            let hour =
                word.len() >= 4 && word.len() <= 5 && (word.contains(':') || word.contains('.') && has_hours);
            let day = words.get(at + 1).is_some_and(|(next, month)| {
                *next == TokenKind::Number && month.len() <= 2 && word.len() <= 2
            });
            year || hour || day
        }
        TokenKind::Section => false,
    })
}

fn has_span(text: &str) -> bool {
    let body = without_item_number(text);
    has_number(body) && fold_words(body).iter().any(|(_, word)| matches_list(word, UNITS))
        || fold_words(body)
            .iter()
            .any(|(_, word)| word.starts_with("neurcit") || word.starts_with("tri") && word.contains("mesic"))
}

/// Returns true for two capitalised words in a row, or one after a title.
fn has_name(text: &str) -> bool {
    let tokens = tokenize_text(text);
    tokens.windows(2).any(|pair| {
        let capital =
            |text: &str| text.chars().next().is_some_and(char::is_uppercase) && text.chars().count() > 1;
        let between = text.get(pair[0].end()..pair[1].start).unwrap_or_default();
        let together = between.chars().all(|c| c == ' ' || c == '.' || c == '\n');
        together
            && capital(pair[1].text)
            && (list_contains(TITLES, &fold_text(pair[0].text))
                || (capital(pair[0].text) && !between.contains('.')))
    })
}

/// Removes the leading number of an item or section.
fn without_item_number(text: &str) -> &str {
    let trimmed = text.trim_start();
    let mark = trimmed.split_whitespace().next().unwrap_or_default();
    let body = mark.trim_start_matches('(').trim_end_matches([')', '.']);
    let is_mark = body.len() <= 6
        && !body.is_empty()
        && body.chars().all(|c| c.is_ascii_digit() || c == '.')
        && (mark.len() > body.len() || body.contains('.'));
    if is_mark { trimmed[mark.len()..].trim_start() } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_question_in_three_languages() {
        for (question, focus) in [
            ("Kolik činí kauce?", Focus::Money),
            ("Jaká je výše nájemného?", Focus::Money),
            ("Koľko dní dovolenky?", Focus::Number),
            ("How much is the deposit?", Focus::Money),
            ("Kdy se koná schůze?", Focus::When),
            ("Dokedy sa vráti zábezpeka?", Focus::When),
            ("Jak dlouhá je zkušební doba?", Focus::HowLong),
            ("How long is the warranty?", Focus::HowLong),
            ("Jaká je výpovědní doba?", Focus::HowLong),
            ("Kdo byl zvolen?", Focus::Name),
            ("Kdo platí opravy?", Focus::Who),
            ("Může mít nájemce psa?", Focus::Open),
        ] {
            assert_eq!(Focus::classify_question(question), focus, "{question}");
        }
    }

    #[test]
    fn inner_words_keep_question_focus() {
        for (question, focus) in [
            ("What is sent when the connection fails?", Focus::Open),
            ("Which values are reasonable for people who poll a server?", Focus::Open),
            ("Was geschieht, wenn der Mieter, wo auch immer, nicht zahlt?", Focus::Open),
            ("Which program opens large files?", Focus::Open),
            ("Until when must it be paid?", Focus::When),
            ("Wie hoch ist die Strafe?", Focus::Money),
            ("Aký vek musí mať člen?", Focus::Number),
        ] {
            assert_eq!(Focus::classify_question(question), focus, "{question}");
        }
    }

    #[test]
    fn number_like_prefixes_do_not_match() {
        for text in
            ["The files are stored here", "All tenants signed it", "in the centre", "The petition was late"]
        {
            assert!(!has_number(text), "{text}");
        }
        for text in ["Zařízení mají být čistá", "It may be shared", "The majority decides", "středisko"]
        {
            assert!(!has_date(text), "{text}");
        }
        assert!(has_date("on 5 May") && has_date("v květnu"));
        assert!(!has_money("3 European centres"));
        assert!(!has_span("3 letters of denial") && has_span("do 3 let"));
    }

    #[test]
    fn numbers_of_items_are_no_amounts() {
        assert!(!has_number("2. Výpověď musí být písemná."));
        assert!(has_number("2. Kauce činí 10 000 Kč."));
        assert!(has_number("výpovědní doba činí tři měsíce"));
        assert!(has_date("do 31. května"));
        assert!(has_span("within forty-five days"));
        assert!(has_name("zvolen Ing. Marek Dostál"));
    }

    #[test]
    fn a_command_to_summarise_is_recognized() {
        for question in [
            "Summarise the lease.",
            "Please summarize this document in three sentences",
            "Could you give me a summary of the contract?",
            "Stručně shrň smlouvu",
            "Zhrňte dokument",
            "Napiš shrnutí smlouvy.",
            "Fasse den Vertrag zusammen.",
        ] {
            assert!(asks_summary(question), "{question}");
        }
        for question in [
            "What does the summary of the report say?",
            "Kdo napsal souhrn?",
            "Who gives notice?",
            "Wie fasst man das zusammen?",
        ] {
            assert!(!asks_summary(question), "{question}");
        }
        assert!(asks_total("Kolik to stojí celkem?") && !asks_total("How much is the rent?"));
    }
}
