//! Detects the language of a question or a document.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::TextLanguage;
use crate::fold::{fold_text, lowercase_composed};
use crate::token::{TextToken, TokenKind, tokenize_text};

/// Words (folded) that are Czech and not Slovak.
const CZECH: &str = "\
    lze jak jaky jaka jake jakou jakeho jakych jakym kolik kolika kdo kdy co jsou jsem jsme ktery ktera \
    ktere kteri kterou kterych kterym byl byla bylo byly byli muze mohou muzu musi smi jeho jeji pro pri \
    nebo take pouze jestli zda pokud podle mezi pred proc kde ze ve tento teto tato toto jejich vuci mela \
    mel mam bude budou neni smlouva smlouvy smlouve najem najemce den dnu mesicu mesice mesic koho komu cim \
    ceho behem dle jen jenom dlouho pristi vypovedni lhuta lhutu zamestnance reditel pronajimatel ucet dum \
    domu ahoj dobry den dekuji diky prosim je cem nem tom roce";
/// Words (folded) that are Slovak and not Czech.
const SLOVAK: &str = "\
    ako aky aka ake aku akej akeho akych akym akom kolko kolkych kto kedy co je su som sme ktory ktora ktore \
    ktori ktoru ktorej ktorych ktorym bol bola bolo boli moze mozu mozem musi smie jeho jej pre pri alebo \
    tiez iba ci ak podla medzi pred preco kde ze vo tento tejto tato toto ich voci mala mal mam bude budu \
    nie com nom zmluva zmluvy zmluve najom najomca den dni mesiacov mesiace mesiac koho komu cim coho pocas len dlho \
    vypovedna lehota lehotu zamestnanca riaditel prenajimatel ucet dom domu sa si aj ked vsetky sposob \
    zasadnutie zasadnutia konat uvadza mozno vyske vyska okrem spolocnosti odkedy dokedy dovolenky ahoj dobry dakujem vdaka prosim";
/// Words that are English.
const ENGLISH: &str = "\
    the of and is are was were what when who whom whose which how why where does do did must shall may can \
    should for to in by with from this that under if many much long a an or not be has have it its any each \
    on at as will than there per after before";

/// Words (folded) that are German.
const GERMAN: &str = "\
    der die das den dem des ein eine einen einem einer eines und ist sind war wie was wer wem wen wann wo warum \
    welche welcher welches welchen welchem wird werden wurde wurden kann konnen muss mussen darf durfen soll fur von \
    vom mit bei nach auf aus im zum zur uber unter nicht auch als hoch lange viel viele gilt gelten ich wir sie es \
    man oder wenn sich hat haben durch dass dieser dieses diese ihr ihre sein seine kein keine nur noch bis beim \
    innerhalb wegen sowie hallo guten danke bitte worum worauf wofur womit wozu woher wohin geht in an";

/// Words (folded) of other languages: French, Spanish, Italian, Polish.
const OTHER: &str = "\
    le la les des du un une est sont quel quelle quels quelles qui quand comment combien pourquoi ou dans pour par \
    sur avec ne pas plus et ce cette ces il elle ils nous vous sans chez entre peut doit \
    el los las una unos es son que cual cuanto cuando donde quien como por para con del al y en su se puede debe \
    il lo gli uno sono che quale quanto quando dove chi per con del della dei delle nel nella piu puo deve di \
    jest sa czy jaki jaka jakie ile kto gdzie kiedy dlaczego oraz przez dla od nie na z w \
    zapytanie umowa umowy";

/// The number of distinguished languages: all of [`TextLanguage::ALL`], and one for all others.
const KINDS: usize = 5;

/// The place of German among them.
const GERMAN_INDEX: usize = 2;

/// The languages of each of these words, in the order of [`Language::ALL`], and then whether it is of another one.
static KNOWN: LazyLock<HashMap<&'static str, [bool; KINDS]>> = LazyLock::new(|| {
    let mut known: HashMap<&str, [bool; KINDS]> = HashMap::new();
    for (index, words) in [CZECH, SLOVAK, GERMAN, ENGLISH, OTHER].into_iter().enumerate() {
        for word in words.split_whitespace() {
            known.entry(word).or_default()[index] = true;
        }
    }
    known
});

/// The maximum number of words that are examined.
const WORDS_MAX: usize = 2_000;

/// Returns the language of a text, or `None` if it cannot be determined or is none of these. Works for short questions and
/// whole documents. Words that German and English share decide nothing.
#[must_use]
pub fn detect_language(text: &str) -> Option<TextLanguage> {
    let mut scores = [0_u32; KINDS];
    let has_diacritics = text.chars().any(|c| c.is_alphabetic() && !c.is_ascii());
    let tokens = tokenize_text(text);
    let words = tokens.iter().filter(|token| token.kind == TokenKind::Word).take(WORDS_MAX);
    for (at, token) in words.enumerate() {
        let folded = fold_text(token.text);
        // At the beginning it is also the Czech and Slovak `and`: `A kauce?`
        if at == 0 && folded == "a" {
            continue;
        }
        // With diacritics `čo` is Slovak and `co` Czech; without, it is either.
        if folded == "co" && has_diacritics {
            scores[usize::from(lowercase_composed(token.text) != "co")] += 3;
        }
        let mut known = KNOWN.get(folded.as_str()).copied().unwrap_or_default();
        if known[GERMAN_INDEX]
            && is_name_part(text, token)
            && !["sie", "ihr", "ihre"].contains(&folded.as_str())
        {
            known[GERMAN_INDEX] = false;
        }
        for (score, known) in scores.iter_mut().zip(known) {
            *score += if known { 2 } else { 0 };
        }
        for c in lowercase_composed(token.text).chars() {
            match c {
                'ě' | 'ř' | 'ů' => scores[0] += 4,
                'ľ' | 'ĺ' | 'ŕ' => scores[1] += 4,
                'ô' => {
                    scores[1] += 4;
                    scores[4] += 3;
                }
                'ä' => {
                    scores[1] += 3;
                    scores[2] += 4;
                }
                'ö' | 'ü' | 'ß' => scores[2] += 4,
                'é' => scores.iter_mut().for_each(|score| *score += 1),
                'à' | 'â' | 'ç' | 'è' | 'ê' | 'î' | 'ï' | 'ñ' | 'œ' | 'ù' | 'û' | 'ą' | 'ę' | 'ł' | 'ś'
                | 'ź' | 'ż' | 'ć' | 'ń' | 'ò' | 'ì' | '¿' => scores[4] += 4,
                'á' | 'č' | 'ď' | 'í' | 'ň' | 'š' | 'ť' | 'ú' | 'ý' | 'ž' => {
                    scores[0] += 1;
                    scores[1] += 1;
                }
                _ => {}
            }
        }
        scores[1] += u32::from(has_slovak_ending(&folded));
    }
    let best = scores.iter().copied().max().filter(|best| *best > 0)?;
    if scores[KINDS - 1] == best {
        return None;
    }
    let mut bests = TextLanguage::ALL.into_iter().zip(scores).filter(|(_, score)| *score == best);
    let (first, _) = bests.next()?;
    let is_shared = first == TextLanguage::German && bests.any(|(other, _)| other == TextLanguage::English);
    (!is_shared).then_some(first)
}

/// Returns true for a capitalised word that does not begin a sentence or is abbreviated: `Dem.` in `Congo, Dem. Rep. in 2000`.
fn is_name_part(text: &str, token: &TextToken<'_>) -> bool {
    let mut letters = token.text.chars();
    let is_capitalised =
        letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase);
    let before = text[..token.start].trim_end_matches([' ', '\t', '"', '„', '“', '(', '*', '#']);
    let begins = before.is_empty() || before.ends_with(['.', '!', '?', ':', ';', '\n', '-', '–', '•']);
    let stop = text[token.end()..].strip_prefix('.');
    is_capitalised && (!begins || stop.is_some_and(|rest| rest.contains(char::is_alphanumeric)))
}

/// Returns true if a word has an ending that is Slovak and not Czech: `zamestnancov`, `konanie`.
fn has_slovak_ending(folded: &str) -> bool {
    const ENDINGS: [&str; 6] = ["ov", "och", "anie", "enie", "ania", "enia"];
    folded.len() > 5 && ENDINGS.iter().any(|ending| folded.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_questions_tell_their_language() {
        for (question, language) in [
            ("Jaká je výpovědní lhůta?", TextLanguage::Czech),
            ("jaka je vypovedni lhuta", TextLanguage::Czech),
            ("Kolik činí kauce?", TextLanguage::Czech),
            ("Kdo byl zvolen předsedou?", TextLanguage::Czech),
            ("Aká je výpovedná lehota?", TextLanguage::Slovak),
            ("aka je vypovedna lehota", TextLanguage::Slovak),
            ("Koľko dní dovolenky má zamestnanec?", TextLanguage::Slovak),
            ("kto je predseda predstavenstva", TextLanguage::Slovak),
            ("What is the notice period?", TextLanguage::English),
            ("how much is the deposit", TextLanguage::English),
            ("Kdy se koná schůze?", TextLanguage::Czech),
            ("Kedy sa koná zasadnutie?", TextLanguage::Slovak),
            ("Co je mapa povinností?", TextLanguage::Czech),
            ("Čo je mapa povinností?", TextLanguage::Slovak),
            ("Wie hoch ist die Miete?", TextLanguage::German),
            ("Wie lange ist die Kündigungsfrist für den Mieter?", TextLanguage::German),
            ("Welche Frist gilt nach der Probezeit?", TextLanguage::German),
            ("Ahoj", TextLanguage::Czech),
            ("Dobrý den", TextLanguage::Czech),
            ("Ďakujem", TextLanguage::Slovak),
            ("Guten Tag", TextLanguage::German),
            ("Kündigungsfrist", TextLanguage::German),
            ("výpovědní doba", TextLanguage::Czech),
            ("O čem to je?", TextLanguage::Czech),
            ("O čom to je?", TextLanguage::Slovak),
            ("Worum geht es?", TextLanguage::German),
            ("A v roce 2020?", TextLanguage::Czech),
            ("do kdy musi platit", TextLanguage::Czech),
            ("Was kostet das in 2020?", TextLanguage::German),
            ("What was the income of Congo, Dem. Rep. in 2000?", TextLanguage::English),
        ] {
            assert_eq!(detect_language(question), Some(language), "{question}");
        }
        for unknown in [
            "12 500",
            "Hello",
            "A kauce?",
            "A v r. 2020?",
            "notice period",
            "Congo, Dem. Rep.: income in 2000",
            "Korea, Dem. People's Rep. in 1990",
            "Congo Dem Rep income in 2000",
            "Quelle est la durée du préavis ?",
            "Quel est le montant du loyer mensuel ?",
            "¿Cuál es el plazo de preaviso?",
            "Qual è il periodo di preavviso?",
            "Jaki jest okres wypowiedzenia umowy?",
        ] {
            assert_eq!(detect_language(unknown), None, "{unknown}");
        }
    }
}
