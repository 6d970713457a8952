//! Reads the lists of models that vendors give.

use serde_json::Value;

use crate::lenient;

/// The longest name of a model that is taken from a list, in bytes.
const NAME_MAX_BYTES: usize = 256;
/// The longest label of a model that is taken from a list, in characters.
const LABEL_MAX_CHARS: usize = 200;

/// A model that a vendor's server says it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// The vendor's name for it.
    pub name: String,
    /// How many tokens it reads and writes together, where the server says so.
    pub context_tokens: Option<u32>,
    /// The most tokens that it writes in one step, where the server says so.
    pub output_max_tokens: Option<u32>,
    /// What people call it, where the server says so.
    pub label: Option<String>,
    /// Whether it takes an effort of reasoning, where the server says so.
    pub reasons: Option<bool>,
    /// Whether the vendor has others in its place.
    pub deprecated: bool,
    /// When it was made, in seconds since 1970; 0 where the server does not say.
    pub created: u64,
}

/// A vendor's list of models, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing {
    /// The models, each name once, in the list's order.
    pub(crate) models: Vec<Discovered>,
    /// How many entries could not be read.
    pub(crate) unreadable: usize,
}

impl Listing {
    /// Reads the list that stands under one of the names, or is the body itself. `read` makes a model of an entry; of
    /// one that is no model, or not to be offered, it makes nothing.
    pub(crate) fn read(
        body: &[u8],
        names: &[&str],
        read: impl Fn(&Value, &str) -> Option<Discovered>,
    ) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let list = match &body {
            Value::Array(list) => list.as_slice(),
            Value::Object(fields) => match names.iter().find_map(|name| fields.get(*name)) {
                Some(Value::Array(list)) => list.as_slice(),
                None | Some(Value::Null) if body["error"].is_null() => &[],
                None | Some(_) => return None,
            },
            _ => return None,
        };
        let mut told = Self::default();
        for entry in list {
            let Some(name) = name_of(entry) else {
                told.unreadable += 1;
                continue;
            };
            let Some(model) = read(entry, name) else { continue };
            if told.models.iter().all(|other| other.name != model.name) {
                told.models.push(model);
            }
        }
        Some(told)
    }
}

/// The name of a model: one that can stand in a catalog.
fn name_of(entry: &Value) -> Option<&str> {
    let name = [&entry["id"], &entry["name"]].into_iter().find_map(Value::as_str)?;
    let fits = !name.trim().is_empty() && name.len() <= NAME_MAX_BYTES;
    (fits && !name.chars().any(char::is_control)).then_some(name)
}

/// The first of these fields that tells a count of tokens.
pub(crate) fn tokens(entry: &Value, fields: &[&str]) -> Option<u32> {
    let told = fields.iter().filter_map(|field| u32::try_from(lenient::count_of(&entry[*field])?).ok());
    told.into_iter().find(|count| *count > 0)
}

/// What people call a model, on one line.
pub(crate) fn label(entry: &Value, field: &str) -> Option<String> {
    let shown = entry[field].as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = shown.chars().filter(|letter| !letter.is_control()).take(LABEL_MAX_CHARS).collect();
    (!shown.is_empty()).then_some(shown)
}
