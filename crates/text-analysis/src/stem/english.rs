//! The English stemmer, on folded words. Removes plural, tense, the silent `e` and common endings of nouns and adverbs.
//! Keeps endings that name another person or thing (`employer`, `employee`).

use std::sync::LazyLock;

use super::{Irregular, by_form};

/// Words with irregular forms.
const IRREGULAR: &[(&str, &[&str])] = &[
    ("pay", &["pay", "pays", "paid", "paying", "payment", "payments", "payable"]),
    ("hold", &["hold", "holds", "held", "holding"]),
    ("keep", &["keep", "keeps", "kept", "keeping"]),
    ("leav", &["leave", "leaves", "leaving"]),
    ("person", &["person", "persons", "people"]),
    ("child", &["child", "children"]),
    ("buy", &["buy", "buys", "bought", "buying"]),
    ("sell", &["sell", "sells", "sold", "selling"]),
    ("send", &["send", "sends", "sent", "sending"]),
    ("begin", &["begin", "begins", "began", "begun", "beginning"]),
    ("los", &["lose", "loses", "lost", "losing", "loss", "losses"]),
    ("bring", &["bring", "brings", "brought", "bringing"]),
    ("writ", &["write", "writes", "wrote", "written", "writing"]),
    ("choos", &["choose", "chooses", "chose", "chosen", "choosing"]),
    ("lead", &["lead", "leads", "led", "leading"]),
    ("build", &["build", "builds", "built"]),
    ("mean", &["mean", "means", "meant", "meaning"]),
    ("win", &["win", "wins", "won", "winning"]),
    ("mak", &["make", "makes", "made", "making"]),
    ("run", &["run", "runs", "ran", "running"]),
    ("know", &["know", "knows", "knew", "known", "knowing"]),
    ("grow", &["grow", "grows", "grew", "grown", "growing"]),
    ("speak", &["speak", "speaks", "spoke", "spoken", "speaking"]),
    ("com", &["come", "comes", "came", "coming"]),
    ("becom", &["become", "becomes", "became", "becoming"]),
    ("see", &["see", "sees", "saw", "seen", "seeing"]),
    ("stand", &["stand", "stands", "stood", "standing"]),
    ("day", &["day", "days", "daily"]),
    ("business", &["business", "businesses"]),
    ("process", &["process", "processes", "processing", "processed"]),
    ("address", &["address", "addresses", "addressed"]),
    ("access", &["access", "accesses", "accessed", "accessing"]),
    ("news", &["news"]),
    ("during", &["during"]),
    ("building", &["building", "buildings"]),
    ("meeting", &["meeting", "meetings", "meet", "met", "meets"]),
    ("parking", &["parking", "park", "parked"]),
];

static BY_FORM: LazyLock<Irregular> = LazyLock::new(|| by_form(IRREGULAR));

/// Returns the stem of a folded English word.
pub(super) fn stem_english(word: &str) -> String {
    if let Some(stem) = BY_FORM.get(word) {
        return (*stem).to_owned();
    }
    if !word.is_ascii() || word.len() < 4 || word.bytes().any(|b| b.is_ascii_digit()) {
        return word.to_owned();
    }
    let mut stem = word.to_owned();
    remove_plural(&mut stem);
    remove_tense(&mut stem);
    remove_suffix(&mut stem);
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    if stem.len() > 2 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    stem
}

fn remove_plural(stem: &mut String) {
    if stem.ends_with("sses") || stem.ends_with("xes") || stem.ends_with("ches") || stem.ends_with("shes") {
        stem.truncate(stem.len() - 2);
    } else if stem.ends_with("ies") && stem.len() > 4 {
        stem.truncate(stem.len() - 3);
        stem.push('y');
    } else if stem.ends_with('s') && !stem.ends_with("ss") && !stem.ends_with("us") && !stem.ends_with("is") {
        stem.pop();
    }
}

fn remove_tense(stem: &mut String) {
    if stem.ends_with("eed") && stem.len() > 4 {
        stem.pop();
        return;
    }
    for suffix in ["ing", "ed"] {
        let Some(rest) = stem.strip_suffix(suffix) else { continue };
        if rest.len() < 3 || !has_vowel(rest) || rest.ends_with("ee") {
            continue;
        }
        let doubled = rest.as_bytes()[rest.len() - 1] == rest.as_bytes()[rest.len() - 2]
            && !rest.ends_with("ll")
            && !rest.ends_with("ss");
        let keep = if doubled { rest.len() - 1 } else { rest.len() };
        stem.truncate(keep);
        return;
    }
}

fn remove_suffix(stem: &mut String) {
    const SUFFIXES: &[(&str, &str, usize)] = &[
        ("ification", "ify", 2),
        ("ization", "iz", 3),
        ("isation", "iz", 3),
        ("ational", "at", 3),
        ("fulness", "ful", 3),
        ("iveness", "iv", 3),
        ("ation", "at", 3),
        ("ments", "", 4),
        ("ment", "", 4),
        ("ness", "", 4),
        ("ally", "al", 3),
        ("ibly", "ibl", 3),
        ("ably", "abl", 3),
        ("ise", "iz", 4),
        ("ize", "iz", 4),
        ("ion", "", 3),
        ("ly", "", 4),
        ("al", "", 5),
    ];
    for (suffix, put, rest) in SUFFIXES {
        if !stem.ends_with(suffix) || stem.len() - suffix.len() < *rest {
            continue;
        }
        let keep = stem.len() - suffix.len();
        if *suffix == "ion" && !matches!(stem.as_bytes()[keep - 1], b's' | b't') {
            continue;
        }
        stem.truncate(keep);
        stem.push_str(put);
        return;
    }
}

fn has_vowel(text: &str) -> bool {
    text.bytes().any(|b| matches!(b, b'a' | b'e' | b'i' | b'o' | b'u' | b'y'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_meet() {
        for forms in [
            "tenant tenants",
            "terminate terminates terminated terminating termination",
            "notify notifies notified notification notifications",
            "party parties",
            "pay pays paid payment payable",
            "agree agrees agreed agreement agreements",
            "invoice invoices invoiced invoicing",
            "lease leases leased leasing",
            "month months monthly",
            "expense expenses",
            "rent rents rented",
            "delivery deliveries",
            "deliver delivered delivering delivers",
        ] {
            let stems: Vec<String> = forms.split_whitespace().map(stem_english).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms}: {stems:?}");
        }
    }

    #[test]
    fn persons_stay_apart() {
        assert_ne!(stem_english("employer"), stem_english("employee"));
        assert_ne!(stem_english("lessor"), stem_english("lessee"));
    }
}
