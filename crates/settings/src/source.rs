//! The sources of values: arguments, environment, file and defaults, in this order.
//!
//! `ServiceSettings::from_sources` reads each key once, with its type and default. Keys that nothing has read are unknown and are
//! rejected with the nearest known key.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Number, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::form::{SettingForm, path_form, quote_toml, single_line, text_schema};
use crate::raw::Raw;

/// The largest configuration or secret file, in bytes.
const FILE_MAX_BYTES: u64 = 1 << 20;
/// The prefix of environment variables.
const PREFIX: &str = "CAUSERIE_";
/// The variable that names the configuration file.
const CONFIG: &str = "CAUSERIE_CONFIG";
/// The short variable of the database.
const DATABASE: &str = "CAUSERIE_DATABASE";
/// Variables shared with other programs: used if ours is not set.
const ALIASES: &[(&str, &str)] = &[
    ("database.url", DATABASE),
    ("anthropic.api_key", "ANTHROPIC_API_KEY"),
    ("anthropic.base_url", "ANTHROPIC_BASE_URL"),
    ("openai.api_key", "OPENAI_API_KEY"),
    ("openai.base_url", "OPENAI_BASE_URL"),
    ("web.searxng_url", "SEARXNG_URL"),
    ("web.brave_api_key", "BRAVE_API_KEY"),
    ("web.tavily_api_key", "TAVILY_API_KEY"),
    ("google.api_key", "GEMINI_API_KEY"),
    ("google.api_key", "GOOGLE_API_KEY"),
    ("google.base_url", "GEMINI_BASE_URL"),
    ("google.base_url", "GOOGLE_GEMINI_BASE_URL"),
    ("log.level", "RUST_LOG"),
    ("otlp.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otlp.headers", "OTEL_EXPORTER_OTLP_HEADERS"),
    ("otlp.service_name", "OTEL_SERVICE_NAME"),
];
/// Variables with our prefix that are not settings: used by `ask`, for the choice of the file, in builds and tests.
pub(crate) const OTHERS: &[&str] = &[
    CONFIG,
    DATABASE,
    "CAUSERIE_URL",
    "CAUSERIE_API_KEY",
    "CAUSERIE_GUEST",
    "CAUSERIE_BIN",
    "CAUSERIE_BASE_URL",
];
/// The number of a sample table in a list of tables, and the name of other sample tables.
pub(crate) const LIST_ITEM: &str = "1";
pub(crate) const ANY_NAME: &str = "*";
/// The text that replaces secrets in output.
const REDACTED: &str = "(secret)";

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    /// An argument.
    Argument(&'static str),
    /// An environment variable.
    Variable(String),
    /// A line of the configuration file.
    File(PathBuf, usize),
    /// The default.
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(name) => f.write_str(name),
            Self::Variable(name) => f.write_str(name),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Default => f.write_str("default"),
        }
    }
}

/// The effective value of a key.
#[derive(Debug, Clone)]
pub struct Effective {
    /// The key.
    pub key: Cow<'static, str>,
    /// The value as TOML; `None` if unset. Never a secret.
    pub value: Option<String>,
    /// The origin of the value.
    pub origin: SettingOrigin,
}

struct SettingEntry {
    raw: Raw,
    line: usize,
}

/// All sources of values, and the values and problems found so far.
pub struct SettingSources {
    arguments: Vec<(&'static str, &'static str, String)>,
    variables: BTreeMap<String, String>,
    file: Option<(PathBuf, BTreeMap<String, SettingEntry>)>,
    pub(crate) read: Vec<Effective>,
    /// The JSON Schema of each key that was read.
    pub(crate) schemas: Vec<(Cow<'static, str>, Value)>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

impl SettingSources {
    /// Creates the sources from arguments (key, name of the argument, value) and variables, without a file.
    #[must_use]
    pub fn new(
        arguments: Vec<(&'static str, &'static str, String)>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        // An empty variable counts as unset.
        let variables = variables.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect();
        Self {
            arguments,
            variables,
            file: None,
            read: Vec::new(),
            schemas: Vec::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Creates sources with a sample of each table whose name has a variable part, so that all keys are read.
    pub(crate) fn with_sample_tables() -> Self {
        let sample = |key: String| {
            let raw = Raw::Text("sample".to_owned());
            (key, SettingEntry { raw, line: 1 })
        };
        let keys = [
            format!("model.{LIST_ITEM}.id"),
            format!("mcp.{ANY_NAME}.url"),
            format!("mcp.{ANY_NAME}.headers.{ANY_NAME}"),
        ];
        let entries = keys.into_iter().map(sample).collect();
        Self { file: Some((PathBuf::new(), entries)), ..Self::new(Vec::new(), []) }
    }

    /// Reads the configuration file. Its problems are reported together with all others.
    #[must_use]
    pub fn with_file(mut self, path: &Path) -> Self {
        match read_bounded_file(path) {
            Ok(text) => {
                let entries = self.parse_file(path, &text);
                self.file = Some((path.to_owned(), entries));
            }
            Err(error) => self.problems.push(format!("{}: {error}", path.display())),
        }
        self
    }

    /// Returns the configuration file that the environment names.
    pub(crate) fn named_file(&self) -> Option<PathBuf> {
        self.variables.get(CONFIG).map(PathBuf::from)
    }

    /// Returns the value of a key, or its default.
    pub(crate) fn value_or_default<T>(&mut self, key: &'static str, default: T, form: SettingForm<T>) -> T {
        let found = self.find_parsed(key, &form);
        let key = Cow::Borrowed(key);
        self.schemas.push((key.clone(), form.schema));
        let (value, origin) =
            found.map_or((default, SettingOrigin::Default), |(value, origin)| (value, origin));
        self.read.push(Effective { key, value: Some((form.show)(&value)), origin });
        value
    }

    /// Returns the value of a key without a default.
    pub(crate) fn optional_value<T>(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        form: SettingForm<T>,
    ) -> Option<T> {
        let key = key.into();
        let (value, origin) = self.find_parsed(&key, &form).unzip();
        let shown = value.as_ref().map(form.show);
        self.schemas.push((key.clone(), form.schema));
        self.read.push(Effective { key, value: shown, origin: origin.unwrap_or(SettingOrigin::Default) });
        value
    }

    /// Returns a secret, given by `key` itself or by `file_key`, the path of a file that contains it.
    pub(crate) fn secret_value(
        &mut self,
        key: impl Into<Cow<'static, str>>,
        file_key: impl Into<Cow<'static, str>>,
    ) -> Option<String> {
        let (key, file_key) = (key.into(), file_key.into());
        self.schemas.extend([&key, &file_key].map(|key| (key.clone(), text_schema())));
        let (here, there) = (self.find_raw(&key), self.find_raw(&file_key));
        let of = |found: &Option<(Raw, SettingOrigin)>| {
            found.as_ref().map_or(SettingOrigin::Default, |(_, origin)| origin.clone())
        };
        let (origin, file_origin) = (of(&here), of(&there));
        let shown = here.as_ref().map(|_| quote_toml(REDACTED));
        self.read.push(Effective { key: key.clone(), value: shown, origin: origin.clone() });
        let file = there.and_then(|(raw, origin)| self.parse_raw(&file_key, &path_form(), &raw, &origin));
        let shown = file.as_ref().map(|path| quote_toml(&path.to_string_lossy()));
        self.read.push(Effective { key: file_key.clone(), value: shown, origin: file_origin.clone() });
        match (here, file) {
            (Some(_), Some(_)) => {
                self.problems.push(format!(
                    "{file_origin}: {file_key} and {key} ({origin}) cannot be combined: remove one of them"
                ));
                None
            }
            (Some((raw, origin)), None) => {
                if let SettingOrigin::File(path, _) = &origin {
                    self.warn_when_open(&path.clone());
                }
                // The error message must not contain the secret.
                match single_line(&raw) {
                    Ok(text) => Some(text.trim().to_owned()),
                    Err(_) => {
                        self.problems.push(format!("{origin}: {key}: expected one line of text"));
                        None
                    }
                }
            }
            (None, Some(path)) => self.read_secret(&file_key, &file_origin, &path),
            (None, None) => None,
        }
    }

    /// Returns the names of keys and tables under a table of the file.
    pub(crate) fn table_names(&self, table: &str) -> BTreeSet<String> {
        let entries = self.file.iter().flat_map(|(_, entries)| entries.keys());
        let inner = entries.filter_map(|key| key.strip_prefix(table)?.strip_prefix('.'));
        inner.map(|key| key.split('.').next().unwrap_or(key).to_owned()).collect()
    }

    /// Records a problem with a key.
    pub(crate) fn record_problem(&mut self, key: &str, what: impl fmt::Display) {
        let origin = self.read.iter().find(|read| read.key == key).map(|read| read.origin.clone());
        let place = match origin {
            None | Some(SettingOrigin::Default) => String::new(),
            Some(origin) => format!("{origin}: "),
        };
        self.problems.push(format!("{place}{key}: {what}"));
    }

    /// Records a warning.
    pub(crate) fn record_warning(&mut self, what: String) {
        self.warnings.push(what);
    }

    /// Returns all problems if there are any.
    pub(crate) fn check_problems(self) -> Result<(), Vec<String>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    /// Returns the effective settings and warnings, or all problems.
    pub(crate) fn into_effective(mut self) -> Result<(Vec<Effective>, Vec<String>), Vec<String>> {
        let known: Vec<&str> = self.read.iter().map(|read| read.key.as_ref()).collect();
        if let Some((path, entries)) = &self.file {
            for (name, entry) in entries.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
                let hint =
                    nearest_name(name, known.iter().copied()).map(|known| format!("; did you mean {known}?"));
                let (path, line, hint) = (path.display(), entry.line, hint.unwrap_or_default());
                self.problems.push(format!("{path}:{line}: unknown key {name}{hint}"));
            }
        }
        let variables: Vec<String> = known.iter().map(|key| variable_name(key)).collect();
        for name in self.variables.keys().filter(|name| name.starts_with(PREFIX)) {
            // Other programs may set variables with our prefix, such as Kubernetes for a service of this name.
            if !variables.contains(name) && !OTHERS.contains(&name.as_str()) {
                let hint =
                    nearest_name(without_prefix(name), variables.iter().map(|name| without_prefix(name)));
                let hint = hint.map(|known| format!("; did you mean {PREFIX}{known}?")).unwrap_or_default();
                self.warnings.push(format!("{name}: unknown variable{hint}"));
            }
        }
        if self.problems.is_empty() { Ok((self.read, self.warnings)) } else { Err(self.problems) }
    }

    fn find_parsed<T>(&mut self, key: &str, form: &SettingForm<T>) -> Option<(T, SettingOrigin)> {
        let (raw, origin) = self.find_raw(key)?;
        let value = self.parse_raw(key, form, &raw, &origin)?;
        Some((value, origin))
    }

    fn parse_raw<T>(
        &mut self,
        key: &str,
        form: &SettingForm<T>,
        raw: &Raw,
        origin: &SettingOrigin,
    ) -> Option<T> {
        match (form.read)(raw) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(format!("{origin}: {key}: {error}"));
                None
            }
        }
    }

    fn find_raw(&self, key: &str) -> Option<(Raw, SettingOrigin)> {
        if let Some((_, name, value)) = self.arguments.iter().find(|(of, _, _)| *of == key) {
            return Some((Raw::Typed(value.clone()), SettingOrigin::Argument(name)));
        }
        let aliases = ALIASES.iter().filter(|(of, _)| *of == key).map(|(_, name)| (*name).to_owned());
        for name in std::iter::once(variable_name(key)).chain(aliases) {
            if let Some(value) = self.variables.get(&name) {
                return Some((Raw::Typed(value.trim().to_owned()), SettingOrigin::Variable(name)));
            }
        }
        let (path, entries) = self.file.as_ref()?;
        let entry = entries.get(key)?;
        Some((entry.raw.clone(), SettingOrigin::File(path.clone(), entry.line)))
    }

    fn read_secret(&mut self, key: &str, origin: &SettingOrigin, path: &Path) -> Option<String> {
        let text = match read_bounded_file(path) {
            Ok(text) => text,
            Err(error) => {
                self.problems.push(format!("{origin}: {key}: {}: {error}", path.display()));
                return None;
            }
        };
        self.warn_when_open(path);
        let secret = text.trim();
        if secret.is_empty() || secret.contains(char::is_control) {
            self.problems.push(format!("{origin}: {key}: {}: expected one line of text", path.display()));
            return None;
        }
        Some(secret.to_owned())
    }

    /// Warns if other users can read a secret. This is not an error, because in a container there may be no other
    /// users.
    pub(crate) fn warn_when_open(&mut self, path: &Path) {
        let open = std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o004 != 0);
        let warning = format!(
            "{}: contains a secret, but every user of this host can read it: restrict its permissions",
            path.display()
        );
        if open && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn parse_file(&mut self, path: &Path, text: &str) -> BTreeMap<String, SettingEntry> {
        let mut entries = BTreeMap::new();
        match DeTable::parse(text) {
            Ok(table) => flatten_table(table.get_ref(), "", text, &mut entries),
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                self.problems.push(format!("{}:{line}: {}", path.display(), error.message()));
            }
        }
        entries
    }
}

/// Returns the environment variable of a key.
pub(crate) fn variable_name(key: &str) -> String {
    format!("{PREFIX}{}", key.to_uppercase().replace('.', "_"))
}

/// Returns the environment variables that are valid UTF-8.
pub fn environment_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Reads a text file of bounded size.
pub(crate) fn read_bounded_file(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("the file is larger than {FILE_MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

pub(crate) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

fn flatten_table(table: &DeTable<'_>, under: &str, text: &str, entries: &mut BTreeMap<String, SettingEntry>) {
    for (name, value) in table {
        let key =
            if under.is_empty() { name.get_ref().to_string() } else { format!("{under}.{}", name.get_ref()) };
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() && !is_whole(&key) => {
                flatten_table(inner, &key, text, entries);
                continue;
            }
            // A list of tables is flattened to numbered tables.
            DeValue::Array(list) if !list.is_empty() && list.iter().all(|one| one.get_ref().is_table()) => {
                for (number, inner) in list.iter().filter_map(|one| one.get_ref().as_table()).enumerate() {
                    flatten_table(inner, &format!("{key}.{}", number + 1), text, entries);
                }
                continue;
            }
            _ => {}
        }
        entries
            .insert(key, SettingEntry { raw: raw_from_toml(value), line: line_of(text, name.span().start) });
    }
}

/// Returns true if a table is a single value: the options of a model, whose names are the vendor's.
fn is_whole(key: &str) -> bool {
    let options = key.strip_prefix("model.").and_then(|key| key.split_once('.'));
    options.is_some_and(|(_, key)| key == "options")
}

/// Converts a TOML value to JSON; `None` if JSON has no equivalent.
pub(crate) fn toml_to_json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()?)
        }
        DeValue::Float(number) => {
            Value::Number(Number::from_f64(number.as_str().replace('_', "").parse().ok()?)?)
        }
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(_) => return None,
        DeValue::Array(list) => {
            Value::Array(list.iter().map(|one| toml_to_json(one.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(name, value)| Some((name.get_ref().to_string(), toml_to_json(value.get_ref())?)))
                .collect::<Option<_>>()?,
        ),
    })
}

fn raw_from_toml(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Raw::Number(number.as_str().to_owned()),
        DeValue::Integer(_) => Raw::Other("a number that is not decimal"),
        DeValue::Float(number) => Raw::Number(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Array(list) => {
            let texts = list.iter().map(|one| one.get_ref().as_str().map(ToOwned::to_owned));
            texts.collect::<Option<_>>().map_or(Raw::Other("a list"), Raw::List)
        }
        table @ DeValue::Table(_) => match toml_to_json(table) {
            Some(Value::Object(table)) => Raw::Table(table),
            _ => Raw::Other("a table with dates or with numbers that JSON does not support"),
        },
    }
}

/// Returns the part of a variable's name that tells it from others.
fn without_prefix(variable: &str) -> &str {
    variable.strip_prefix(PREFIX).unwrap_or(variable)
}

/// Returns the known name that is most similar to `wrong`, if one is similar enough.
fn nearest_name<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = wrong.chars().count().div_ceil(3).max(2);
    // A key under a wrong table counts as similar, however long the table's name is.
    let last = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let far = |known: &str| if last(wrong) == last(known) { 1 } else { levenshtein_distance(wrong, known) };
    let (away, name) = known.map(|name| (far(name), name)).min_by_key(|(away, _)| *away)?;
    (away <= most).then_some(name)
}

/// Returns the Levenshtein distance.
fn levenshtein_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut corner = above;
        row[0] = above + 1;
        for (at, wanted) in other.iter().enumerate() {
            let replaced = corner + usize::from(letter != *wanted);
            corner = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(corner + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name_ignores_far_names() {
        let known = ["listen", "machine.memory_bytes", "machine.idle_timeout", "quota.bytes_max"];
        let near = |wrong| nearest_name(wrong, known.into_iter());
        assert_eq!(near("lisen"), Some("listen"));
        assert_eq!(near("machin.memory_bytes"), Some("machine.memory_bytes"));
        assert_eq!(near("machine.memory_byte"), Some("machine.memory_bytes"));
        assert_eq!(near("limits.idle_timeout"), Some("machine.idle_timeout"));
        assert_eq!(near("idle_timeout"), Some("machine.idle_timeout"));
        assert_eq!(near("entirely.different"), None);
        assert_eq!(levenshtein_distance("kitten", "sitting"), 3);
        assert_eq!(levenshtein_distance("", "abc"), 3);
    }
}
