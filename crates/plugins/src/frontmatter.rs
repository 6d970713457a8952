//! Parses the frontmatter of a Markdown file between two lines of `---`: `key: value` in YAML, or in a text that its
//! author considered YAML.
//!
//! Valid YAML is parsed by `yaml_serde`. Hand-written frontmatter in plugins is often invalid (an unquoted description
//! with a colon) and must still be read, by the tolerant parser here. It also provides the lines of keys and the digits
//! of a version as written (`1.10`). It supports texts, quoted texts, block texts (`|` and `>`) and lists of texts; it
//! skips deeper nesting and treats anchors, aliases and tags as plain text. Both parsers agree on 477 of 482 files of
//! public plugins; in the other 5 the tolerant parser read a list below its key as a text.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The longest frontmatter, in bytes.
pub(crate) const HEAD_MAX_BYTES: usize = 64 * 1024;
/// The maximum number of brackets and aliases in YAML: nesting costs its parser more than length.
const YAML_MARKS_MAX: usize = 1000;
/// The maximum number of entries in a list.
const LIST_MAX: usize = 256;
/// Keys that end a multi-line text whose lines are not indented.
const KEYS: [&str; 12] = [
    "name",
    "description",
    "tools",
    "model",
    "color",
    "license",
    "allowed-tools",
    "metadata",
    "compatibility",
    "version",
    "skills",
    "hooks",
];
/// Keys whose values are always texts.
const PROSE: [&str; 2] = ["name", "description"];
/// The maximum number of keys.
const KEYS_MAX: usize = 256;

/// The problem of a duplicate key.
const DUPLICATE_KEY: &str = "duplicate key: the first value is used";

/// A file with frontmatter.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Frontmatter {
    fields: Vec<Field>,
    /// The text after the frontmatter.
    pub(crate) body: String,
    /// Lines that were not understood: line number, from 1, and reason.
    pub(crate) problems: Vec<(u32, String)>,
}

#[derive(Debug, PartialEq)]
struct Field {
    key: String,
    line: u32,
    value: FieldValue,
}

#[derive(Debug, PartialEq)]
enum FieldValue {
    Text(String),
    List(Vec<String>),
    /// A nested value, which is not used.
    Nested,
}

/// The reason why the frontmatter is not readable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    #[error("the frontmatter has no end: add a line of --- after it")]
    Open,
    #[error("the frontmatter is longer than {HEAD_MAX_BYTES} bytes")]
    TooLong,
}

impl Frontmatter {
    /// Returns the text under this key; joins lists with commas.
    pub(crate) fn get_text(&self, key: &str) -> Option<String> {
        match &self.find_field(key)?.value {
            FieldValue::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            FieldValue::List(items) => Some(items.join(", ")).filter(|text| !text.is_empty()),
            FieldValue::Nested => None,
        }
    }

    /// Returns the names under this key: a list, or a text separated by commas or spaces outside of brackets.
    pub(crate) fn get_names(&self, key: &str) -> Option<Vec<String>> {
        match &self.find_field(key)?.value {
            FieldValue::Text(text) => Some(split_names(text)),
            FieldValue::List(items) => Some(items.clone()),
            FieldValue::Nested => None,
        }
    }

    /// Returns the line of this key.
    pub(crate) fn line_of_key(&self, key: &str) -> Option<u32> {
        self.find_field(key).map(|field| field.line)
    }

    fn find_field(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.key == key)
    }

    /// Adds the lines before the frontmatter to all line numbers.
    fn move_down(&mut self, lines: u32) {
        self.fields.iter_mut().for_each(|field| field.line += lines);
        self.problems.iter_mut().for_each(|(line, _)| *line += lines);
    }

    /// Replaces the values of the tolerant parser by the values of YAML, the first of each key.
    fn apply_yaml(&mut self, entries: YamlEntries) {
        self.problems.retain(|(_, problem)| problem.ends_with(DUPLICATE_KEY));
        for (key, value) in entries.0.into_iter().rev() {
            let Some(value) = value else { continue };
            match self.fields.iter().position(|field| field.key == key) {
                Some(at) if self.fields[at].is_meant_instead_of(&value) => {}
                Some(at) => self.fields[at].value = value,
                None if self.fields.len() < KEYS_MAX => self.fields.push(Field { key, line: 1, value }),
                None => {}
            }
        }
    }
}

impl Field {
    /// Returns true if the author meant the tolerant parser's value rather than the value of YAML: a description with a
    /// colon, which is a nested value in YAML, or with `#1`, where a comment begins in YAML.
    fn is_meant_instead_of(&self, yaml: &FieldValue) -> bool {
        let FieldValue::Text(text) = &self.value else { return false };
        match yaml {
            FieldValue::Nested => PROSE.contains(&self.key.as_str()) && !text.is_empty(),
            FieldValue::Text(cut) => text.strip_prefix(cut.trim_end()).is_some_and(|rest| {
                let comment = rest.trim_start();
                rest != comment && comment.starts_with('#')
            }),
            FieldValue::List(_) => false,
        }
    }
}

/// The keys of YAML frontmatter; values are missing if they are numbers or flags, because their exact notation
/// matters.
struct YamlEntries(Vec<(String, Option<FieldValue>)>);

/// Returns `None` if the text is not valid YAML.
fn parse_yaml(head: &str) -> Option<YamlEntries> {
    let marks = head.bytes().filter(|byte| matches!(byte, b'[' | b'{' | b'*')).count();
    if marks > YAML_MARKS_MAX { None } else { yaml_serde::from_str(head).ok() }
}

impl<'de> Deserialize<'de> for YamlEntries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct YamlKeyVisitor;
        impl<'de> Visitor<'de> for YamlKeyVisitor {
            type Value = YamlEntries;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("keys with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlEntries, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, YamlValue(value))) = map.next_entry()? {
                    entries.push((key, value));
                }
                Ok(YamlEntries(entries))
            }
        }
        deserializer.deserialize_map(YamlKeyVisitor)
    }
}

/// A value; `None` if the tolerant parser's value must be used.
struct YamlValue(Option<FieldValue>);

impl<'de> Deserialize<'de> for YamlValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Option<FieldValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Text(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Option<FieldValue>, E> {
        Ok(Some(FieldValue::Text(String::new())))
    }

    fn visit_bool<E>(self, _flag: bool) -> Result<Option<FieldValue>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _number: i64) -> Result<Option<FieldValue>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _number: u64) -> Result<Option<FieldValue>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _number: f64) -> Result<Option<FieldValue>, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<FieldValue>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(FieldValue::Nested))
    }

    /// Reads a list of texts; lists with other items are left to the tolerant parser.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<FieldValue>, A::Error> {
        let mut texts = Some(Vec::new());
        while let Some(YamlValue(item)) = list.next_element()? {
            match (item, &mut texts) {
                (Some(FieldValue::Text(text)), Some(texts)) if texts.len() < LIST_MAX => texts.push(text),
                (Some(FieldValue::Text(_)), _) => {}
                _ => texts = None,
            }
        }
        Ok(texts.map(FieldValue::List))
    }
}

/// Returns true if a file begins with frontmatter.
pub(crate) fn has_frontmatter(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.trim_start_matches(['\n', '\r']).lines().next().is_some_and(|line| line.trim_end() == "---")
}

/// Parses a file. A file without a first line of `---` has no frontmatter.
pub(crate) fn parse_frontmatter(text: &str) -> Result<Frontmatter, HeadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = text;
    let text = text.trim_start_matches(['\n', '\r']);
    let skipped = u32::try_from(whole.matches('\n').count() - text.matches('\n').count()).unwrap_or(0);
    let mut rest = text.split_inclusive('\n');
    let first = rest.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Ok(Frontmatter { body: text.to_owned(), ..Frontmatter::default() });
    }
    let mut lines = Vec::new();
    let mut taken = first.len();
    for line in rest {
        taken += line.len();
        if taken > HEAD_MAX_BYTES {
            return Err(HeadError::TooLong);
        }
        let bare = line.trim_end_matches(['\n', '\r']);
        if matches!(bare.trim_end(), "---" | "...") {
            let end = taken - line.len();
            let mut head = FrontmatterLines { lines, at: 0 }.parse_fields();
            head.move_down(skipped);
            if let Some(entries) = parse_yaml(&text[first.len()..end]) {
                head.apply_yaml(entries);
            }
            text[taken..].trim_start_matches(['\n', '\r']).clone_into(&mut head.body);
            return Ok(head);
        }
        lines.push(bare);
    }
    parse_unclosed(text, &lines, skipped)
}

/// Parses a file whose frontmatter has no end: it ends before its first empty line or heading, if text follows.
fn parse_unclosed(text: &str, lines: &[&str], skipped: u32) -> Result<Frontmatter, HeadError> {
    let is_end = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let count = lines.iter().position(is_end).ok_or(HeadError::Open)?;
    let body: String = text.split_inclusive('\n').skip(count + 1).collect();
    if count == 0 || body.trim().is_empty() {
        return Err(HeadError::Open);
    }
    let mut head = FrontmatterLines { lines: lines[..count].to_vec(), at: 0 }.parse_fields();
    let end = u32::try_from(count + 2).unwrap_or(u32::MAX);
    head.problems.push((end, "a line of --- is missing: the frontmatter is assumed to end here".to_owned()));
    head.move_down(skipped);
    body.trim_start_matches(['\n', '\r']).clone_into(&mut head.body);
    Ok(head)
}

struct FrontmatterLines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> FrontmatterLines<'a> {
    fn parse_fields(mut self) -> Frontmatter {
        let mut head = Frontmatter::default();
        let mut runs_on = false;
        while let Some(line) = self.next_line() {
            // The first line of the file is the delimiter.
            let number = u32::try_from(self.at).unwrap_or(u32::MAX).saturating_add(1);
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let known = key_of(line).filter(|(key, _)| !runs_on || KEYS.contains(key));
            let Some((key, value)) = known else {
                // A multi-line text whose lines are not indented.
                let Some(Field { value: FieldValue::Text(text), .. }) = head.fields.last_mut() else {
                    head.problems.push((number, "not `key: value`: the line is ignored".to_owned()));
                    continue;
                };
                text.push(' ');
                text.push_str(line.trim());
                if !runs_on {
                    let problem = "not `key: value`: this and the following lines are treated as part of the text above";
                    head.problems.push((number, problem.to_owned()));
                }
                runs_on = true;
                continue;
            };
            runs_on = false;
            let value = self.parse_value(key, value);
            if head.fields.iter().any(|field| field.key == key) {
                head.problems.push((number, format!("{key} {DUPLICATE_KEY}")));
            } else if head.fields.len() < KEYS_MAX {
                head.fields.push(Field { key: key.to_owned(), line: number, value });
            }
        }
        head
    }

    fn next_line(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied()?;
        self.at += 1;
        Some(line)
    }

    /// Returns the next line if it continues the previous value: indented, or blank before an indented line.
    fn next_continuation(&mut self) -> Option<&'a str> {
        let ahead =
            self.lines[self.at.min(self.lines.len())..].iter().find(|line| !line.trim().is_empty())?;
        if !is_indented(ahead) {
            return None;
        }
        self.next_line()
    }

    fn parse_value(&mut self, key: &str, first: &'a str) -> FieldValue {
        match first.as_bytes().first() {
            Some(b'|') if is_block(first) => FieldValue::Text(self.read_block(false)),
            Some(b'>') if is_block(first) => FieldValue::Text(self.read_block(true)),
            Some(b'"' | b'\'') => self.read_quoted(first),
            Some(b'[') => self.read_flow_list(first),
            Some(b'{') => {
                while self.next_continuation().is_some() {}
                FieldValue::Nested
            }
            None | Some(b'#') => self.read_nested(PROSE.contains(&key)),
            Some(_) => {
                let mut text = without_comment(first).to_owned();
                self.fold_into(&mut text);
                FieldValue::Text(if matches!(text.as_str(), "~" | "null") { String::new() } else { text })
            }
        }
    }

    /// Appends continuation lines: separated by a space, or by a line feed after an empty line.
    fn fold_into(&mut self, text: &mut String) {
        while let Some(line) = self.next_continuation() {
            let line = line.trim();
            if line.is_empty() {
                text.push('\n');
            } else {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push(' ');
                }
                text.push_str(line);
            }
        }
    }

    fn read_block(&mut self, folded: bool) -> String {
        let mut text = String::new();
        let mut indent = None;
        while let Some(line) = self.next_continuation() {
            if line.trim().is_empty() {
                text.push('\n');
                continue;
            }
            let own = line.len() - line.trim_start().len();
            let indent = *indent.get_or_insert(own);
            let piece = &line[own.min(indent)..];
            if folded && !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text.push_str(piece.trim_end());
            if !folded {
                text.push('\n');
            }
        }
        text
    }

    fn read_quoted(&mut self, first: &str) -> FieldValue {
        let back = self.at;
        let mut whole = first.to_owned();
        loop {
            if let Some((text, rest)) = split_quoted(&whole) {
                if rest.trim().is_empty() || rest.trim_start().starts_with('#') {
                    return FieldValue::Text(text);
                }
                break;
            }
            let Some(line) = self.next_continuation() else { break };
            whole.push(if line.trim().is_empty() { '\n' } else { ' ' });
            whole.push_str(line.trim());
        }
        // The quotation does not end: the text is taken literally.
        self.at = back;
        let mut text = first.to_owned();
        self.fold_into(&mut text);
        FieldValue::Text(text)
    }

    fn read_flow_list(&mut self, first: &str) -> FieldValue {
        let mut whole = without_comment(first).to_owned();
        while !whole.trim_end().ends_with(']') {
            let Some(line) = self.next_continuation() else { break };
            whole.push(' ');
            whole.push_str(without_comment(line.trim()));
        }
        let inner = whole.trim().trim_start_matches('[').trim_end_matches(']');
        let items = inner.split(',').map(|item| strip_quotes(item.trim())).filter(|item| !item.is_empty());
        FieldValue::List(items.take(LIST_MAX).collect())
    }

    /// Reads the value below a key without a value on its line.
    fn read_nested(&mut self, is_prose: bool) -> FieldValue {
        let ahead = self.lines[self.at.min(self.lines.len())..].iter().find(|line| !line.trim().is_empty());
        let Some(ahead) = ahead else { return FieldValue::Text(String::new()) };
        if ahead.trim_start() == "-" || ahead.trim_start().starts_with("- ") {
            return self.read_list();
        }
        if !is_prose && is_indented(ahead) && key_of(ahead.trim()).is_some() {
            while self.next_continuation().is_some() {}
            return FieldValue::Nested;
        }
        let mut text = String::new();
        self.fold_into(&mut text);
        FieldValue::Text(text)
    }

    fn read_list(&mut self) -> FieldValue {
        let mut items = Vec::new();
        while let Some(line) = self.lines.get(self.at).copied() {
            let item = line.trim();
            if let Some(item) = item.strip_prefix("- ") {
                items.push(strip_quotes(without_comment(item.trim())));
            } else if !item.is_empty() && item != "-" && !is_indented(line) {
                break;
            }
            self.at += 1;
        }
        items.truncate(LIST_MAX);
        FieldValue::List(items)
    }
}

fn is_indented(line: &str) -> bool {
    line.starts_with([' ', '\t'])
}

/// Returns true if a value begins a block text: `|` or `>` with optional indicators.
fn is_block(value: &str) -> bool {
    let rest = without_comment(&value[1..]).trim();
    rest.len() <= 2 && rest.bytes().all(|byte| matches!(byte, b'+' | b'-' | b'1'..=b'9'))
}

/// Splits an unindented line into key and value.
fn key_of(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty()
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    let divided = value.is_empty() || value.starts_with([' ', '\t']);
    (is_key && divided).then(|| (key, value.trim()))
}

/// Removes a comment: ` # ` and the rest. `case #1` does not contain one.
fn without_comment(text: &str) -> &str {
    let begins = |at: &usize| text[at + 2..].chars().next().is_none_or(char::is_whitespace);
    let mut found = text.match_indices(" #").map(|(at, _)| at);
    found.find(begins).map_or(text, |at| &text[..at]).trim_end()
}

/// Removes the quotes around a text, if there are any.
fn strip_quotes(text: &str) -> String {
    match split_quoted(text) {
        Some((inner, "")) => inner,
        _ => text.to_owned(),
    }
}

/// Returns a quoted text and the rest after it; `None` if the quotation does not end.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' if quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == '\'') => {
                chars.next();
                out.push('\'');
            }
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => {}
                'u' => {
                    let digits: String =
                        (0..4).filter_map(|_| chars.next().map(|(_, digit)| digit)).collect();
                    let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
                    out.push(code.unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                other => out.push(other),
            },
            c if c == quote => return Some((out, &text[at + 1..])),
            c => out.push(c),
        }
    }
    None
}

/// Splits names separated by commas or spaces; `Bash(git add:*)` is one name.
fn split_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            names.push(String::new());
        } else if let Some(name) = names.last_mut() {
            name.push(c);
        }
    }
    names.retain(|name| !name.is_empty());
    names.truncate(LIST_MAX);
    names
}

#[cfg(test)]
mod tests;
