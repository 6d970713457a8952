//! Folding: lower case without diacritics, so that `Výpověď`, `VÝPOVĚĎ` and `vypoved` are equal.

/// Converts to lower case; keeps diacritics and composes decomposed Czech and Slovak letters.
#[must_use]
pub fn lowercase_composed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if let Some(composed) = out.chars().next_back().and_then(|base| compose_letter(base, c)) {
            out.pop();
            out.push(composed);
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Converts to lower case and removes diacritics; letters of other scripts are unchanged.
#[must_use]
pub fn fold_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_combining(c) {
            continue;
        }
        if c.is_ascii() {
            out.push(c.to_ascii_lowercase());
        } else {
            for low in c.to_lowercase() {
                push_folded(&mut out, low);
            }
        }
    }
    out
}

/// Returns true for combining marks.
#[must_use]
pub fn is_combining(c: char) -> bool {
    ('\u{0300}'..='\u{036f}').contains(&c)
}

fn push_folded(out: &mut String, c: char) {
    let plain = match c {
        'á' | 'à' | 'â' | 'ã' | 'ä' | 'å' | 'ā' | 'ă' | 'ą' => "a",
        'č' | 'ç' | 'ć' | 'ċ' => "c",
        'ď' | 'đ' => "d",
        'é' | 'ě' | 'è' | 'ê' | 'ë' | 'ē' | 'ę' | 'ė' => "e",
        'ģ' | 'ğ' => "g",
        'í' | 'ì' | 'î' | 'ï' | 'ī' | 'ı' => "i",
        'ľ' | 'ĺ' | 'ł' | 'ļ' => "l",
        'ň' | 'ñ' | 'ń' | 'ņ' => "n",
        'ó' | 'ò' | 'ô' | 'õ' | 'ö' | 'ő' | 'ø' | 'ō' => "o",
        'ř' | 'ŕ' => "r",
        'š' | 'ś' | 'ş' | 'ș' => "s",
        'ť' | 'ţ' | 'ț' => "t",
        'ú' | 'ů' | 'ù' | 'û' | 'ü' | 'ű' | 'ū' => "u",
        'ý' | 'ÿ' => "y",
        'ž' | 'ź' | 'ż' => "z",
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ﬁ' => "fi",
        'ﬂ' => "fl",
        'ﬀ' => "ff",
        _ if is_combining(c) => "",
        _ => {
            out.push(c);
            return;
        }
    };
    out.push_str(plain);
}

/// Composes a lower-case letter and a combining mark, for Czech and Slovak letters.
fn compose_letter(base: char, mark: char) -> Option<char> {
    let pairs: &[(char, char)] = match mark {
        '\u{0301}' => {
            &[('a', 'á'), ('e', 'é'), ('i', 'í'), ('o', 'ó'), ('u', 'ú'), ('y', 'ý'), ('l', 'ĺ'), ('r', 'ŕ')]
        }
        '\u{030c}' => &[
            ('c', 'č'),
            ('d', 'ď'),
            ('e', 'ě'),
            ('l', 'ľ'),
            ('n', 'ň'),
            ('r', 'ř'),
            ('s', 'š'),
            ('t', 'ť'),
            ('z', 'ž'),
        ],
        '\u{030a}' => &[('u', 'ů')],
        '\u{0302}' => &[('o', 'ô')],
        '\u{0308}' => &[('a', 'ä'), ('o', 'ö'), ('u', 'ü')],
        _ => return None,
    };
    pairs.iter().find(|(plain, _)| *plain == base).map(|(_, composed)| *composed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_diacritics_do_not_matter() {
        assert_eq!(fold_text("VÝPOVĚĎ ľúbezná ŕôä"), "vypoved lubezna roa");
        assert_eq!(fold_text("vy\u{0301}pove\u{030c}d\u{030c}"), "vypoved");
        assert_eq!(lowercase_composed("Vy\u{0301}pove\u{030c}d\u{030c}"), "výpověď");
    }

    #[test]
    fn other_scripts_are_kept() {
        assert_eq!(fold_text("Договор 合同"), "договор 合同");
    }
}
