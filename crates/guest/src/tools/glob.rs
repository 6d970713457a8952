//! Matches globs against workspace paths: `*`, `?`, `**`, `[a-z]`, `{one,two}`; ignores case and diacritics.
//!
//! `globset` was evaluated and rejected: it adds a regex engine to the agent, 928 KB of machine code (1,237 KB
//! against 309 KB for an otherwise empty program), and it rejects `x[`, which is an ordinary name here.

/// The longest glob, in characters.
const GLOB_MAX_CHARS: usize = 500;
/// The maximum number of patterns that braces may expand to.
const ALTERNATIVES_MAX: usize = 100;

#[derive(Debug)]
pub(crate) struct Glob {
    /// The path components of each alternative.
    patterns: Vec<Vec<String>>,
}

impl Glob {
    /// Compiles a glob. Without a slash it matches names at any depth; a leading slash anchors it at the workspace.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.chars().count() > GLOB_MAX_CHARS {
            return Err(format!("the glob is longer than {GLOB_MAX_CHARS} characters"));
        }
        let text =
            text.strip_prefix(protocol::tool::WORKSPACE).filter(|rest| rest.starts_with('/')).unwrap_or(text);
        let mut alternatives = Vec::new();
        expand_braces(&text_analysis::fold_text(text), &mut alternatives)?;
        let patterns = alternatives
            .into_iter()
            .map(|pattern| {
                let anchored = pattern.contains('/');
                let names =
                    pattern.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned);
                let mut names: Vec<String> = names.collect();
                if pattern.ends_with('/') {
                    names.push("**".to_owned());
                }
                if !anchored {
                    names.insert(0, "**".to_owned());
                }
                names
            })
            .collect();
        Ok(Self { patterns })
    }

    /// Returns true if it matches a folded path relative to the workspace.
    pub(crate) fn matches_path(&self, folded_path: &str) -> bool {
        let names: Vec<&str> = folded_path.split('/').filter(|name| !name.is_empty()).collect();
        self.patterns.iter().any(|pattern| path_matches(pattern, &names))
    }
}

/// Expands braces to alternatives, the innermost of each level from left to right.
fn expand_braces(text: &str, into: &mut Vec<String>) -> Result<(), String> {
    let Some(open) = text.find('{') else {
        into.push(text.to_owned());
        return if into.len() > ALTERNATIVES_MAX {
            Err("the glob has too many alternatives".to_owned())
        } else {
            Ok(())
        };
    };
    let mut depth = 0;
    let mut cuts = vec![open];
    let mut close = None;
    for (at, c) in text[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    close = Some(open + at);
                    break;
                }
            }
            ',' if depth == 1 => cuts.push(open + at),
            _ => {}
        }
    }
    let close = close.ok_or("the glob has an unclosed {")?;
    cuts.push(close);
    for pair in cuts.windows(2) {
        let middle = &text[pair[0] + 1..pair[1]];
        expand_braces(&format!("{}{middle}{}", &text[..open], &text[close + 1..]), into)?;
    }
    Ok(())
}

/// Matches path components; `**` matches any number of them. Backtracks to one position only, so the time is
/// bounded by the product of the lengths.
fn path_matches(pattern: &[String], names: &[&str]) -> bool {
    match_greedy(
        pattern.len(),
        names.len(),
        |at| pattern[at] == "**",
        |at, name| name_matches(&pattern[at], names[name]),
    )
}

fn name_matches(pattern: &str, name: &str) -> bool {
    let tokens = parse_tokens(pattern);
    let name: Vec<char> = name.chars().collect();
    match_greedy(
        tokens.len(),
        name.len(),
        |at| matches!(tokens[at], GlobToken::Any),
        |at, index| tokens[at].matches_char(name[index]),
    )
}

/// Matches a pattern whose only repetition is "any number of anything".
fn match_greedy(
    pattern_len: usize,
    text_len: usize,
    is_star: impl Fn(usize) -> bool,
    matches: impl Fn(usize, usize) -> bool,
) -> bool {
    let (mut pattern, mut text) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while text < text_len {
        if pattern < pattern_len && is_star(pattern) {
            back = Some((pattern, text));
            pattern += 1;
        } else if pattern < pattern_len && matches(pattern, text) {
            pattern += 1;
            text += 1;
        } else if let Some((star, at)) = back {
            pattern = star + 1;
            text = at + 1;
            back = Some((star, at + 1));
        } else {
            return false;
        }
    }
    (pattern..pattern_len).all(is_star)
}

#[derive(Debug)]
enum GlobToken {
    Any,
    One,
    Char(char),
    Class { ranges: Vec<(char, char)>, negated: bool },
}

impl GlobToken {
    fn matches_char(&self, c: char) -> bool {
        match self {
            Self::Any => false,
            Self::One => true,
            Self::Char(own) => *own == c,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

fn parse_tokens(pattern: &str) -> Vec<GlobToken> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        at += 1;
        found.push(match c {
            '*' => GlobToken::Any,
            '?' => GlobToken::One,
            '\\' if at < chars.len() => {
                at += 1;
                GlobToken::Char(chars[at - 1])
            }
            '[' => match parse_class(&chars[at..]) {
                Some((token, used)) => {
                    at += used;
                    token
                }
                None => GlobToken::Char('['),
            },
            c => GlobToken::Char(*c),
        });
    }
    found
}

fn parse_class(chars: &[char]) -> Option<(GlobToken, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let start = usize::from(negated);
    let close = chars.iter().skip(start + 1).position(|c| *c == ']')? + start + 1;
    let mut ranges = Vec::new();
    let mut at = start;
    while at < close {
        if at + 2 < close && chars[at + 1] == '-' {
            ranges.push((chars[at], chars[at + 2]));
            at += 3;
        } else {
            ranges.push((chars[at], chars[at]));
            at += 1;
        }
    }
    Some((GlobToken::Class { ranges, negated }, close + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob_matches(glob: &str, path: &str) -> bool {
        Glob::new(glob).unwrap().matches_path(&text_analysis::fold_text(path))
    }

    #[test]
    fn globs_match_as_people_expect() {
        for (glob, path) in [
            ("**", "a/b/c.txt"),
            ("*.pdf", "uploads/deep/Smlouva.PDF"),
            ("/uploads/*.pdf", "uploads/a.pdf"),
            ("uploads/**", "uploads/a/b"),
            ("uploads/", "uploads/a/b"),
            ("/workspace/uploads/*", "uploads/a"),
            ("**/výpověď*", "x/y/Vypoved 2.docx"),
            ("*.{pdf,docx}", "a.docx"),
            ("{a,b{c,d}}/x", "bd/x"),
            ("file[0-9].t?t", "file7.txt"),
            ("[!a]x", "bx"),
            ("a/**/z", "a/z"),
            ("a/**/z", "a/b/c/z"),
            ("x[", "x["),
        ] {
            assert!(glob_matches(glob, path), "{glob} {path}");
        }
    }

    #[test]
    fn and_nothing_else() {
        for (glob, path) in [
            ("/*.pdf", "uploads/a.pdf"),
            ("uploads/*.pdf", "uploads/x/a.pdf"),
            ("*.pdf", "a.pdf.txt"),
            ("a?c", "abbc"),
            ("[!a]x", "ax"),
            ("a/**/z", "b/z"),
        ] {
            assert!(!glob_matches(glob, path), "{glob} {path}");
        }
        assert!(Glob::new("{a,b").is_err());
        assert!(Glob::new(&"{a,b}".repeat(20)).is_err());
    }

    #[test]
    fn hard_patterns_take_no_time() {
        let glob = format!("{}b", "*a".repeat(100));
        assert!(!glob_matches(&glob, &"a".repeat(200)));
        assert!(!glob_matches(&"**/a/".repeat(50), &"a/b/".repeat(40)));
    }
}
