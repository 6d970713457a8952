//! The Czech and Slovak stemmer, on folded words.
//!
//! Runs in two passes. The first removes the inflectional ending (case, number, gender, person) by rules that agree for
//! every form of a word. The second depends only on the result of the first, so that forms that became equal stay
//! equal: it removes suffixes of verbs and adjectives, drops the fleeting vowel (`nájem`, `nájmu`), and normalizes a
//! softened last consonant (`úředník`, `úředníci`). The prefix of negation stays, because it changes the meaning.

use std::sync::LazyLock;

use super::{Irregular, by_form};

/// Words with irregular forms: the stem, then its forms.
const IRREGULAR: &[(&str, &[&str])] = &[
    (
        "den",
        &[
            "den", "dne", "dni", "dnu", "dny", "dnem", "dnech", "dnum", "dna", "dnom", "dnov", "dnoch",
            "dennich",
        ],
    ),
    (
        "rok",
        &[
            "rok", "roku", "roky", "roce", "rokem", "let", "lety", "letech", "letum", "leta", "rokov",
            "rokom", "rokoch", "rokmi",
        ],
    ),
    (
        "tydn",
        &[
            "tyden", "tydne", "tydnu", "tydny", "tydnem", "tydnech", "tyzden", "tyzdna", "tyzdne", "tyzdni",
            "tyzdnov", "tyzdnom", "tyzdnoch", "tydenni", "tyzdenny", "tyzdenna",
        ],
    ),
    (
        "dom",
        &[
            "dum",
            "domu",
            "dome",
            "domem",
            "domy",
            "domech",
            "dom",
            "domom",
            "domov",
            "domoch",
            "domovni",
            "domovniho",
            "domovnim",
            "domovnych",
        ],
    ),
    (
        "dit",
        &[
            "dite", "ditete", "diteti", "deti", "detem", "detmi", "detech", "dieta", "dietata", "dietatu",
            "detom", "detoch",
        ],
    ),
    (
        "clovk",
        &[
            "clovek", "cloveka", "cloveku", "clovekem", "lide", "lidi", "lidem", "lidmi", "lidech", "ludia",
            "ludi", "ludom", "ludmi", "ludoch", "clovekom",
        ],
    ),
    ("pes", &["pes", "psa", "psu", "psi", "psy", "psem", "psum", "psom", "psov"]),
    (
        "penz",
        &[
            "penize", "penez", "penezum", "penezi", "penezich", "peniaze", "penazi", "peniazom", "penazny",
            "penezni",
        ],
    ),
    ("ruk", &["ruka", "ruky", "ruce", "ruku", "rukou", "rukama", "rukach"]),
    ("vuz", &["vuz", "vozu", "vozy", "vozem", "vozech", "voz", "vozom", "vozov"]),
    ("klic", &["klic", "klice", "kluc", "kluce", "klicu", "klucov", "klicem", "klucom", "klicich"]),
    (
        "prac",
        &[
            "prace",
            "praci",
            "praca",
            "pracu",
            "pracou",
            "prac",
            "pracovni",
            "pracovny",
            "pracovne",
            "pracovneho",
            "pracovnej",
            "pracovniho",
            "pracovnim",
            "pracovnich",
            "pracovnych",
            "pracovnom",
        ],
    ),
    ("platnost", &["platnost", "platnosti", "platny", "platna", "platne", "platnou", "platneho"]),
    ("plat", &["plat", "platu", "platy", "platem", "platech"]),
    (
        "plac",
        &[
            "platit",
            "platí",
            "plati",
            "plati",
            "platim",
            "platil",
            "platila",
            "platili",
            "platilo",
            "placeni",
            "placen",
            "placena",
            "placeno",
            "placeny",
            "zaplatit",
            "zaplati",
            "zaplatil",
            "zaplaceni",
            "zaplacen",
            "zaplacena",
            "zaplaceno",
            "zaplateni",
            "zaplatenie",
            "zaplatenia",
            "plateni",
            "platenie",
            "platby",
            "platba",
            "platbu",
            "plateb",
            "platbou",
            "platbe",
            "platieb",
            "platbach",
            "uhrazeni",
            "splatit",
            "plaťte",
            "platcem",
            "zaplatena",
            "zaplatene",
            "platena",
        ],
    ),
    (
        "splatn",
        &[
            "splatnost",
            "splatnosti",
            "splatny",
            "splatna",
            "splatne",
            "splatneho",
            "splatnou",
            "splaceno",
            "splatnych",
        ],
    ),
    (
        "stran",
        &["strana", "strany", "strane", "stranu", "stranou", "stran", "stranam", "stranami", "stranach"],
    ),
    ("vec", &["vec", "veci", "vecem", "vecmi", "vecech", "vecou", "veciam", "veciach"]),
    (
        "koc",
        &[
            "kocka", "kocky", "kocku", "kocek", "kockou", "kockam", "kocce", "macka", "macky", "macku",
            "maciek", "mackou",
        ],
    ),
    (
        "byt",
        &[
            "byt", "bytu", "byte", "bytem", "byty", "bytech", "bytum", "bytom", "bytov", "bytoch", "bytovy",
            "bytova", "bytove", "bytoveho", "bytovych", "bytovou",
        ],
    ),
];

static BY_FORM: LazyLock<Irregular> = LazyLock::new(|| by_form(IRREGULAR));

/// Words that only appear to have an ending.
const WHOLE_ENDINGS: &[&str] = &[
    "najem", "zajem", "prijem", "objem", "pojem", "dojem", "odjem", "system", "problem", "najom", "zaujem",
    "prodej", "vydej", "olej", "obycej", "predaj", "internet", "telefon", "termin", "telo",
];

/// Endings of cases, numbers, genders and persons, longest first.
const INFLECTIONS: &[&str] = &[
    "ejsiho", "ejsimu", "ejsich", "ejsimi", "ejsieho", //
    "ejsim", "ejsie", "iemu", "ieho", "iach", "iami", "eho", "emu", "iho", "imu", "ymi", "imi", "ami", "emi",
    "ama", "ych", "ich", "ach", "ech", "och", "ovi", "ove", "ova", "ovou", "ovia", "ovom", "iam", "iou",
    "ejsi", //
    "ou", "ym", "im", "em", "om", "am", "um", "mi", "ov", "uv", "ej", "ie", "ia", "iu", "ii", "uj", //
    "a", "e", "i", "o", "u", "y",
];

/// Returns the stem of a folded Czech or Slovak word.
pub(super) fn stem_slavic(word: &str) -> String {
    if let Some(stem) = BY_FORM.get(word) {
        return (*stem).to_owned();
    }
    if !word.is_ascii() || word.len() < 4 || word.bytes().any(|b| b.is_ascii_digit()) {
        return normalize_consonant(word.to_owned());
    }
    let mut stem = remove_inflection(word).to_owned();
    remove_verb_suffix(&mut stem);
    drop_passing_vowel(&mut stem);
    // `smluvní` is now `smluvn`: removes the adjective's consonant, then the ending before it.
    if stem.len() >= 5
        && stem.ends_with('n')
        && stem.as_bytes().get(stem.len() - 2).is_some_and(|b| is_consonant(*b))
    {
        stem.pop();
        drop_passing_vowel(&mut stem);
    }
    while stem.len() > 3 && stem.as_bytes().last() == stem.as_bytes().get(stem.len() - 2) {
        stem.pop();
    }
    normalize_consonant(stem.replace("ou", "u"))
}

/// Returns the word without its inflectional ending.
fn remove_inflection(word: &str) -> &str {
    if WHOLE_ENDINGS.iter().any(|whole| word.ends_with(whole)) {
        return word;
    }
    for ending in INFLECTIONS {
        let Some(rest) = word.strip_suffix(ending) else { continue };
        if rest.len() >= 3 && has_vowel(rest) {
            return rest;
        }
    }
    word
}

/// Removes suffixes of verbs, participles, verbal nouns and qualities.
fn remove_verb_suffix(stem: &mut String) {
    const SUFFIXES: &[(&str, usize)] = &[
        ("ovatelk", 3),
        ("ovatel", 3),
        ("ovavan", 3),
        ("ovavat", 3),
        ("ovan", 3),
        ("ovat", 3),
        ("oval", 3),
        ("ujuc", 3),
        ("ujic", 3),
        ("uje", 3),
        ("ost", 4),
        ("ajic", 4),
        ("ejic", 4),
        ("dan", 9),
        ("at", 3),
        ("it", 3),
        ("al", 3),
        ("il", 3),
        ("an", 3),
        ("en", 3),
        ("av", 5),
        ("aj", 4),
        ("ej", 3),
        ("uj", 3),
        ("ov", 3),
    ];
    if stem.len() > 5 && stem.ends_with("det") {
        stem.truncate(stem.len() - 2);
        return;
    }
    for (suffix, rest) in SUFFIXES {
        if stem.ends_with(suffix) && stem.len() - suffix.len() >= *rest {
            stem.truncate(stem.len() - suffix.len());
            return;
        }
    }
}

/// Drops the fleeting vowel: an `e`, `o` or `ie` between the last two consonants that only some forms have.
fn drop_passing_vowel(stem: &mut String) {
    let bytes = stem.as_bytes();
    let length = bytes.len();
    if length < 4 || !is_consonant(bytes[length - 1]) {
        return;
    }
    if length >= 6 && &bytes[length - 3..length - 1] == b"ie" && is_consonant(bytes[length - 4]) {
        stem.replace_range(length - 3..length - 1, "");
    } else if matches!(bytes[length - 2], b'e' | b'o') && is_consonant(bytes[length - 3]) {
        stem.remove(length - 2);
    }
}

/// Normalizes a consonant that an ending may have softened.
fn normalize_consonant(mut stem: String) -> String {
    if stem.len() > 3 && stem.ends_with("ct") {
        stem.truncate(stem.len() - 1);
    }
    let last = match stem.as_bytes().last() {
        Some(b'c') if stem.len() > 2 => 'k',
        Some(b'z' | b'g') if stem.len() > 2 => 'h',
        _ => return stem,
    };
    stem.pop();
    stem.push(last);
    stem
}

fn is_consonant(b: u8) -> bool {
    b.is_ascii_lowercase() && !matches!(b, b'a' | b'e' | b'i' | b'o' | b'u' | b'y')
}

fn has_vowel(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::fold_text;

    fn assert_same_stem(forms: &str) {
        let stems: Vec<String> = forms.split_whitespace().map(|form| stem_slavic(&fold_text(form))).collect();
        assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms}: {stems:?}");
    }

    fn assert_different_stems(one: &str, other: &str) {
        assert_ne!(stem_slavic(&fold_text(one)), stem_slavic(&fold_text(other)), "{one} {other}");
    }

    #[test]
    fn czech_forms_meet() {
        for forms in [
            "nájem nájmu nájmem nájmy nájemné nájemní nájemného",
            "nájemce nájemci nájemcem nájemců nájemcům nájemcích",
            "smlouva smlouvy smlouvě smlouvu smlouvou smluv smlouvám smlouvách smlouvami smluvní smluvního",
            "výpověď výpovědi výpovědí výpovědní výpovědních vypovědět",
            "zaměstnanec zaměstnance zaměstnanci zaměstnancem zaměstnanců zaměstnancům",
            "lhůta lhůty lhůtě lhůtu lhůtou lhůt lhůtách",
            "ukončení ukončit ukončil ukončen ukončena ukončením",
            "povinnost povinnosti povinností povinný povinna povinen",
            "účet účtu účty účtů účtem",
            "poplatek poplatku poplatky poplatků poplatkem",
            "úředník úředníka úředníci úředníků",
            "koruna korun koruny korunách",
            "měsíc měsíce měsíců měsíční měsíčně měsících",
            "odměna odměny odměn odměnu odměnou",
            "schůze schůzi schůzí schůzích",
            "Nováková Novákové Novákovou Novák Nováka Novákovi",
            "služba služby služeb službách",
            "upravuje upravují upravovat úprava úpravy",
            "den dny dnů dní dnem dnech",
            "jistota jistoty jistotu jistotou",
            "opravy oprava oprav opravu opravách",
            "platit platí zaplatit platba platby zaplacení",
            "konat konalo koná konání",
            "kácejí kácení kácet",
            "přesčas přesčasu přesčasových",
            "ověřil ověřovatel ověření",
        ] {
            assert_same_stem(forms);
        }
    }

    #[test]
    fn slovak_forms_meet() {
        for forms in [
            "nájom nájmu nájmom nájomné nájomného",
            "nájomca nájomcu nájomcovi nájomcom nájomcov",
            "zmluva zmluvy zmluve zmluvu zmluvou zmlúv zmluvách zmluvný zmluvnej",
            "výpoveď výpovede výpovedi výpovedná výpovednej výpovednú",
            "zamestnanec zamestnanca zamestnancovi zamestnanci zamestnancov",
            "lehota lehoty lehote lehotu lehotou lehôt",
            "konanie konania konaniu konaní",
            "poplatok poplatku poplatky poplatkov",
            "rok roku roky rokov rokoch",
            "účet účtu účtov",
            "schôdza schôdze schôdzi schôdzu",
            "dovolenka dovolenky dovolenku dovoleniek",
        ] {
            assert_same_stem(forms);
        }
    }

    #[test]
    fn other_words_stay_apart() {
        assert_different_stems("nájem", "nájemce");
        assert_different_stems("zaměstnanec", "zaměstnavatel");
        assert_different_stems("platný", "neplatný");
        assert_different_stems("plat", "platnost");
        assert_different_stems("kupující", "kupní");
        assert_different_stems("pronajímatel", "nájemce");
    }
}
