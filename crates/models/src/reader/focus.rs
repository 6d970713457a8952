//! Classifies the kind of thing that a question asks for, and finds it in texts.

use text_analysis::fold;
use text_analysis::token::{Kind, tokens};

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

const NUMBER: &str = "\
    kolik kolika kolikati kolko kolkych kolkym much many old high large big tall viel viele vielen wieviel hoch gross \
    teuer";
const WHEN: &str = "kdy kedy when dokdy dokedy odkdy odkedy datum date obdobi obdobie terminu soon wann";
const WHO: &str = "kdo kto who whom whose koho komu kym kim cie ci wer wem wen wessen";
const BEING: &str = "je jsou su byl byla bol bola is are was were ist sind waren";
const WHERE: &str = "kde kam where odkud odkial wo woher wohin";
/// Prefixes of words for places, folded.
const PLACES: &str = "\
    mist miest adres address ulic street road sidl hotel namest budov building sal dvor sklad warehouse yard \
    kancelar office room skol school hall urad mest town court soud sud venue place city ort strasse gebaude haus stadt amt gericht";
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

/// Prefixes of words about payment.
const PAYING: &str = "\
    plat stoj stoji hrad uhrad pay paid cost cini prispiv vyplat vyplac stal contrib zahl kost betrag";
/// Prefixes of currencies and `per cent`.
const CURRENCIES: &str = "kc korun czk eur euro gbp usd dolar dollar pound pence cent percent procent";
/// Nouns for sizes and shares.
const SIZES: &str = "\
    plocha plochu vymera vymeru dostupnost uroven quantity maximum minimum maximalni minimalni maximalny \
    minimalny velky velka velke velikost velkost pocet number size area";

/// Prefixes of months and days of the week, folded.
const CALENDAR: &str = "\
    leden ledna lednu unor brezn brezen duben dubna dubnu kveten kvetn cerven cervn cervenc srpen srpna \
    srpnu zari rijen rijn listopad prosin januar februar marec marca april maj jun jul august september \
    septembr oktober oktobr november novembr december decembr january february march may june july october \
    pondel uter utor stred ctvrt stvrt patek patok piatok sobot nedel monday tuesday wednesday thursday \
    friday saturday sunday \
    marz juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag";
/// Words that begin a condition.
const CONDITIONS: &str = "\
    pokud jestlize li kdyz pri po az dnem ak ked dnom ihned okamzite if when once upon after before unless until while \
    wenn falls nach sobald bei sofern solange immediately";
/// Words (folded) before a number that refers to a part of a document.
const REFERRING: &str = "\
    odst odstavec ods odsek pism cl clanek clanok bod bodu bode c abs absatz nr nummer satz art article section sec \
    paragraph para chapter kapitola kap kapitel page strana figure fig table tabulka tabulky";
/// Prefixes of units of time, folded.
const UNITS: &str = "\
    tag werktag woch monat jahr stund quartal unbefrist \
    den dne dni dnu dny dnem day tyden tydn tyzd week mesic mesiac month rok roc roky let year hodin hour \
    minut sekund ctvrtlet stvrtrok quarter pololet polrok doziv neurcit";
/// Prefixes of number words, folded.
const NUMERALS: &str = "\
    zwei drei vier funf sechs sieben acht neun zehn elf zwolf zwanzig dreissig vierzig funfzig hundert tausend halb \
    jeden jedna jednu jedno jednom dva dve dvou dvoch tri trech troch ctyr styr pet piat sest siedm sedm \
    sedem osm osem devet devat deset desat jedenact jedenast dvan trin ctrn strn patn pätn dvac dvad tric \
    trid ctyric padesat sto tisic polov dvoj troj stvor nekolik one two three four five six seven eight nine \
    ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty \
    fifty sixty ninety hundred thousand half once twice jednou dvakrat trikrat raz quarterly monthly daily \
    weekly annually";
/// Titles before or after a person's name, folded.
const TITLES: &str = "\
    ing mgr judr mudr rndr phdr bc dr mr mrs ms doc prof pani pan paní ltd sro inc gmbh";

impl Focus {
    /// Classifies a question.
    pub(super) fn of(question: &str) -> Self {
        let folded = fold(question);
        let words: Vec<&str> = tokens(&folded)
            .into_iter()
            .filter(|token| token.kind == Kind::Word)
            .map(|token| token.text)
            .collect();
        let has = |list: &str| words.iter().any(|word| holds(list, word));
        let asks_day = words.windows(2).any(|pair| {
            matches!(
                pair[0],
                "ktery" | "ktory" | "kteremu" | "what" | "which" | "jakeho" | "akeho" | "welchem" | "welcher"
            ) && matches!(pair[1], "den" | "day" | "dne" | "dna" | "datum" | "date" | "tag")
        });
        if words.windows(2).any(|pair| holds(HOW, pair[0]) && holds(LONG, pair[1])) {
            Self::HowLong
        } else if has(WHEN) || asks_day {
            Self::When
        } else if has(NUMBER)
            && (words.iter().any(|word| *word == "za" || begins_with(word, PAYING)) || has(MONEY))
        {
            Self::Money
        } else if has(NUMBER) {
            Self::Number
        } else if words.windows(2).any(|pair| holds(WHO, pair[0]) && holds(BEING, pair[1])) {
            Self::Name
        } else if has(WHO) {
            Self::Who
        } else if has(WHERE) {
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
            // `When does it end?` may ask for a condition, too.
            Self::When => {
                if words(text).iter().any(|(_, word)| holds(CONDITIONS, word)) {
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
                if words(text).iter().any(|(_, word)| begins_with(word, PLACES)) {
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

/// Returns true when a list, separated by spaces, contains the word.
fn holds(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Returns true when the word starts with a prefix of the list.
fn begins_with(word: &str, list: &str) -> bool {
    list.split_whitespace().any(|start| word.starts_with(start))
}

/// Returns the folded words and numbers of a text.
fn words(text: &str) -> Vec<(Kind, String)> {
    tokens(text).into_iter().map(|token| (token.kind, fold(token.text))).collect()
}

/// Returns true for a number that is neither a paragraph reference nor an item's number.
fn has_number(text: &str) -> bool {
    let body = without_item_number(text);
    let words = words(body);
    let refers = |at: usize| at.checked_sub(1).is_some_and(|before| holds(REFERRING, &words[before].1));
    words.iter().enumerate().any(|(at, (kind, word))| match kind {
        Kind::Number => !refers(at),
        Kind::Word => begins_with(word, NUMERALS) || word.bytes().next().is_some_and(|b| b.is_ascii_digit()),
        Kind::Section => false,
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
    let words = words(body);
    let is_number = |at: usize| {
        words.get(at).is_some_and(|(kind, word)| *kind == Kind::Number || begins_with(word, NUMERALS))
    };
    words.iter().enumerate().any(|(at, (_, word))| {
        begins_with(word, CURRENCIES) && ((at.saturating_sub(3)..at).any(is_number) || is_number(at + 1))
    })
}

fn has_date(text: &str) -> bool {
    let words = words(without_item_number(text));
    let has_hours = words
        .iter()
        .any(|(_, word)| begins_with(word, "hod hour") || matches!(word.as_str(), "am" | "pm" | "m"));
    words.iter().enumerate().any(|(at, (kind, word))| match kind {
        Kind::Word => begins_with(word, CALENDAR) && word.len() > 2,
        Kind::Number => {
            let year = word.len() == 4 && (word.starts_with("19") || word.starts_with("20"));
            let hour =
                word.len() >= 4 && word.len() <= 5 && (word.contains(':') || word.contains('.') && has_hours);
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

/// Returns true for two capitalised words in a row, or one after a title.
fn has_name(text: &str) -> bool {
    let tokens = tokens(text);
    tokens.windows(2).any(|pair| {
        let capital =
            |text: &str| text.chars().next().is_some_and(char::is_uppercase) && text.chars().count() > 1;
        let between = text.get(pair[0].end()..pair[1].start).unwrap_or_default();
        let together = between.chars().all(|c| c == ' ' || c == '.' || c == '\n');
        together
            && capital(pair[1].text)
            && (holds(TITLES, &fold(pair[0].text)) || (capital(pair[0].text) && !between.contains('.')))
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
    fn the_focus_is_told_in_three_languages() {
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
