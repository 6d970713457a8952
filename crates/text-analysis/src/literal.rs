//! Literals: exact terms of a question as documents write them, such as options, variables and paths.

/// The maximum number of literals that are taken from a text, and of the bytes of each.
const LITERALS_MAX: usize = 4;
const LITERAL_MAX_BYTES: usize = 80;
/// A word with at least this number of capitals is an identifier.
const CAPITALS_MIN: usize = 5;
const QUOTES: [char; 5] = ['"', '„', '“', '”', '`'];

/// Returns the distinct literals of a question: `--oneline`, `/etc/hosts`, `mail_check`, `HISTSIZE`, a phrase in quotes.
#[must_use]
pub fn extract_literals(text: &str) -> Vec<String> {
    let balanced = text.matches(QUOTES).count().is_multiple_of(2);
    let quoted = text.split(QUOTES).skip(1).step_by(2).map(str::trim);
    let quoted = quoted.filter(|phrase| balanced && phrase.chars().any(char::is_alphanumeric));
    let tokens = text.split_whitespace().map(|token| {
        let token = token.trim_matches(|c| QUOTES.contains(&c) || "'(),;:!?".contains(c));
        token.trim_end_matches('.')
    });
    let mut found: Vec<String> = Vec::new();
    for literal in quoted.chain(tokens.filter(|token| is_literal(token))) {
        if found.len() == LITERALS_MAX {
            break;
        }
        if literal.len() <= LITERAL_MAX_BYTES && !found.iter().any(|one| one == literal) {
            found.push(literal.to_owned());
        }
    }
    found
}

/// Returns the position of a literal in a text, where it is not part of a longer one.
#[must_use]
pub fn literal_at(text: &str, literal: &str) -> Option<usize> {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    text.match_indices(literal).map(|(at, _)| at).find(|at| {
        let before = text[..*at].chars().next_back();
        let after = text[at + literal.len()..].chars().next();
        !before.is_some_and(goes_on) && !after.is_some_and(goes_on)
    })
}

fn is_literal(token: &str) -> bool {
    let option = token.trim_start_matches('-');
    let inner = token.trim_matches(|c: char| !c.is_alphanumeric());
    let is_option = option.len() < token.len() && option.starts_with(char::is_alphabetic);
    let is_path = token.strip_prefix('/').is_some_and(|path| path.starts_with(char::is_alphabetic));
    let is_file = inner.contains('.') && inner.split('.').all(|part| part.starts_with(char::is_alphabetic));
    let is_capitals = token.len() >= CAPITALS_MIN
        && token.starts_with(|c: char| c.is_ascii_uppercase())
        && token.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    is_option || is_path || is_file || is_capitals || inner.contains('_') || inner.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extract_literals_skips_words() {
        let question =
            "Does --no-merges, in /etc/gitconfig or a.conf, set merge_check and HISTSIZE for \"bare trees\"?";
        let expected = ["bare trees", "--no-merges", "/etc/gitconfig", "a.conf", "merge_check", "HISTSIZE"];
        assert_eq!(extract_literals(question), expected[..LITERALS_MAX]);
        assert_eq!(extract_literals("What do merge_check and HISTSIZE mean?"), expected[4..]);
        for words in ["Kolik činí kauce od 1. 3. 2024?", "What is TLS?", "Je byt č. 5 v dome, t.j. A-12?"]
        {
            assert!(extract_literals(words).iter().all(|literal| literal == "t.j"), "{words}");
        }
    }

    #[test]
    fn literal_in_longer_name_differs() {
        assert_eq!(literal_at("/opt/bin and /opt.", "/opt"), Some(13));
        assert_eq!(literal_at("--merges-only", "--merges"), None);
    }
}
