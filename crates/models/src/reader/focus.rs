//! What kind of thing a question asks for, and whether a text has one.

use language::fold;
use language::token::{Kind, tokens};

/// What would be an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Focus {
    /// An amount or a count.
    Number,
    /// A date or an hour.
    When,
    /// A length of time or a frequency.
    HowLong,
    /// A person or a body.
    Who,
    /// Anything.
    Open,
}

const NUMBER: &[&str] = &[
    "kolik", "kolika", "kolikati", "kolko", "kolkych", "kolkym", "much", "many", "old", "high", "large",
    "big", "tall",
];
const WHEN: &[&str] = &["kdy", "kedy", "when", "dokdy", "dokedy", "odkdy", "odkedy", "datum", "date"];
const WHO: &[&str] = &["kdo", "kto", "who", "whom", "whose", "koho", "komu", "kym", "kim", "cie", "ci"];
/// A first word of these with a second of `LONG` asks for a length of time.
const HOW: &[&str] = &["jak", "ako", "how"];
const LONG: &[&str] =
    &["dlouho", "dlouha", "dlouhy", "dlouhou", "dlho", "dlha", "dlhy", "long", "often", "casto"];
/// Nouns that name an amount of money, and those that name a length of time.
const MONEY: &[&str] = &[
    "cena",
    "cenu",
    "castka",
    "castku",
    "castky",
    "castce",
    "suma",
    "sumu",
    "vyse",
    "vysi",
    "vyske",
    "vyska",
    "vysku",
    "sazba",
    "sazbu",
    "mzda",
    "mzdu",
    "najemne",
    "najomne",
    "kauce",
    "kauci",
    "kaucia",
    "jistota",
    "zabezpeka",
    "poplatek",
    "poplatok",
    "pokuta",
    "pokutu",
    "pokuty",
    "odmena",
    "odmenu",
    "priplatek",
    "priplatok",
    "sleva",
    "zlava",
    "price",
    "fee",
    "fees",
    "rent",
    "rental",
    "salary",
    "deposit",
    "fine",
    "cost",
    "costs",
    "amount",
    "cap",
    "discount",
    "stoji",
    "zisk",
    "plocha",
    "vymera",
    "dostupnost",
    "uroven",
    "danu",
    "dan",
    "rate",
    "quantity",
    "maximum",
    "minimum",
    "maximalni",
    "minimalni",
    "maximalny",
    "minimalny",
];
const SPANS: &[&str] =
    &["doba", "dobu", "lhuta", "lhutu", "lehota", "lehotu", "period", "notice", "warranty", "zaruka"];

/// Months and days of the week, folded, by their beginnings.
const CALENDAR: &[&str] = &[
    "leden",
    "ledna",
    "lednu",
    "unor",
    "brezn",
    "brezen",
    "duben",
    "dubna",
    "dubnu",
    "kveten",
    "kvetn",
    "cerven",
    "cervn",
    "cervenc",
    "srpen",
    "srpna",
    "srpnu",
    "zari",
    "rijen",
    "rijn",
    "listopad",
    "prosin",
    "januar",
    "februar",
    "marec",
    "marca",
    "april",
    "maj",
    "jun",
    "jul",
    "august",
    "september",
    "septembr",
    "oktober",
    "oktobr",
    "november",
    "novembr",
    "december",
    "decembr",
    "january",
    "february",
    "march",
    "may",
    "june",
    "july",
    "october",
    "pondel",
    "uter",
    "utor",
    "stred",
    "ctvrt",
    "stvrt",
    "patek",
    "patok",
    "piatok",
    "sobot",
    "nedel",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];
/// Units of time, folded, by their beginnings.
const UNITS: &[&str] = &[
    "den", "dne", "dni", "dnu", "dny", "dnem", "day", "tyden", "tydn", "tyzd", "week", "mesic", "mesiac",
    "month", "rok", "roc", "roky", "let", "year", "hodin", "hour", "minut", "sekund", "ctvrtlet", "stvrtrok",
    "quarter", "pololet", "polrok", "doziv", "neurcit",
];
/// Number words, folded, by their beginnings.
const NUMERALS: &[&str] = &[
    "jeden",
    "jedna",
    "jednu",
    "jedno",
    "jednom",
    "dva",
    "dve",
    "dvou",
    "dvoch",
    "tri",
    "trech",
    "troch",
    "ctyr",
    "styr",
    "pet",
    "piat",
    "sest",
    "siedm",
    "sedm",
    "sedem",
    "osm",
    "osem",
    "devet",
    "devat",
    "deset",
    "desat",
    "jedenact",
    "jedenast",
    "dvan",
    "trin",
    "ctrn",
    "strn",
    "patn",
    "pätn",
    "dvac",
    "dvad",
    "tric",
    "trid",
    "ctyric",
    "padesat",
    "sto",
    "tisic",
    "polov",
    "dvoj",
    "troj",
    "stvor",
    "nekolik",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
    "thirty",
    "forty",
    "fifty",
    "sixty",
    "ninety",
    "hundred",
    "thousand",
    "half",
    "once",
    "twice",
    "jednou",
    "dvakrat",
    "trikrat",
    "raz",
    "quarterly",
    "monthly",
    "daily",
    "weekly",
    "annually",
];
/// Titles before or after a person's name, folded.
const TITLES: &[&str] = &[
    "ing", "mgr", "judr", "mudr", "rndr", "phdr", "bc", "dr", "mr", "mrs", "ms", "doc", "prof", "pani",
    "pan", "paní", "ltd", "sro", "inc", "gmbh",
];

impl Focus {
    /// What the question asks for.
    pub(super) fn of(question: &str) -> Self {
        let folded = fold(question);
        let words: Vec<&str> = tokens(&folded)
            .into_iter()
            .filter(|token| token.kind == Kind::Word)
            .map(|token| token.text)
            .collect();
        let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
        let asks_day = words.windows(2).any(|pair| {
            matches!(pair[0], "ktery" | "ktory" | "kteremu" | "what" | "which" | "jakeho" | "akeho")
                && matches!(pair[1], "den" | "day" | "dne" | "dna" | "datum" | "date")
        });
        if words.windows(2).any(|pair| HOW.contains(&pair[0]) && LONG.contains(&pair[1])) {
            Self::HowLong
        } else if has(WHEN) || asks_day {
            Self::When
        } else if has(NUMBER) {
            Self::Number
        } else if has(WHO) {
            Self::Who
        } else if has(SPANS) && asks_which(&words) {
            Self::HowLong
        } else if has(MONEY) && asks_which(&words) {
            Self::Number
        } else {
            Self::Open
        }
    }

    /// How well a text has what the question asks for, from 0 to 1.
    pub(super) fn met_by(self, text: &str) -> f64 {
        match self {
            Self::Open => 1.0,
            Self::Number => f64::from(u8::from(has_number(text))),
            Self::When => f64::from(u8::from(has_date(text) || has_span(text))),
            Self::HowLong => f64::from(u8::from(has_span(text) || has_date(text))),
            Self::Who if has_name(text) => 1.0,
            Self::Who => 0.5,
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
        )
    })
}

fn begins_with(word: &str, list: &[&str]) -> bool {
    list.iter().any(|start| word.starts_with(start))
}

/// The folded words and numbers, so that each check sees them the same way.
fn words(text: &str) -> Vec<(Kind, String)> {
    tokens(text).into_iter().map(|token| (token.kind, fold(token.text))).collect()
}

/// A number that is no reference to a paragraph and no mere item's number.
fn has_number(text: &str) -> bool {
    let body = without_item_number(text);
    words(body).iter().any(|(kind, word)| match kind {
        Kind::Number => true,
        Kind::Word => begins_with(word, NUMERALS) || word.bytes().next().is_some_and(|b| b.is_ascii_digit()),
        Kind::Section => false,
    })
}

fn has_date(text: &str) -> bool {
    let words = words(without_item_number(text));
    words.iter().enumerate().any(|(at, (kind, word))| match kind {
        Kind::Word => begins_with(word, CALENDAR) && word.len() > 2,
        Kind::Number => {
            let year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20"));
            let hour = word.len() >= 4 && word.contains(['.', ':']) && word.len() <= 5;
            let day = words
                .get(at + 1)
                .is_some_and(|(next, month)| *next == Kind::Number && month.len() <= 2 && word.len() <= 2);
            year || hour || day
        }
        Kind::Section => false,
    })
}

fn has_span(text: &str) -> bool {
    let body = without_item_number(text);
    has_number(body) && words(body).iter().any(|(_, word)| begins_with(word, UNITS))
        || words(body)
            .iter()
            .any(|(_, word)| word.starts_with("neurcit") || word.starts_with("tri") && word.contains("mesic"))
}

/// Two names in a row, or one after a title.
fn has_name(text: &str) -> bool {
    let tokens = tokens(text);
    tokens.windows(2).any(|pair| {
        let capital =
            |text: &str| text.chars().next().is_some_and(char::is_uppercase) && text.chars().count() > 1;
        let between = text.get(pair[0].end()..pair[1].start).unwrap_or_default();
        let together = between.chars().all(|c| c == ' ' || c == '.' || c == '\n');
        together
            && capital(pair[1].text)
            && (TITLES.contains(&fold(pair[0].text).as_str())
                || (capital(pair[0].text) && !between.contains('.')))
    })
}

/// The text without the number of the item or section that it begins with.
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
    fn the_focus_is_told_in_three_languages() {
        for (question, focus) in [
            ("Kolik činí kauce?", Focus::Number),
            ("Jaká je výše nájemného?", Focus::Number),
            ("Koľko dní dovolenky?", Focus::Number),
            ("How much is the deposit?", Focus::Number),
            ("Kdy se koná schůze?", Focus::When),
            ("Dokedy sa vráti zábezpeka?", Focus::When),
            ("Jak dlouhá je zkušební doba?", Focus::HowLong),
            ("How long is the warranty?", Focus::HowLong),
            ("Jaká je výpovědní doba?", Focus::HowLong),
            ("Kdo byl zvolen?", Focus::Who),
            ("Může mít nájemce psa?", Focus::Open),
        ] {
            assert_eq!(Focus::of(question), focus, "{question}");
        }
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
}
