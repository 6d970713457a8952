//! Reads vendors' lists of models.

use serde_json::Value;

use crate::lenient;

/// Models with longer names are skipped.
const NAME_MAX_BYTES: usize = 256;
/// Longer labels are truncated.
const LABEL_MAX_CHARS: usize = 200;

/// A model in a vendor's list. Optional fields are absent when the server does not report them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// The vendor's name of the model.
    pub name: String,
    /// The context window, input and output together.
    pub context_tokens: Option<u32>,
    /// The limit of output tokens per step.
    pub output_max_tokens: Option<u32>,
    pub label: Option<String>,
    /// Accepts a reasoning effort.
    pub reasons: Option<bool>,
    /// The vendor has a newer model in its place.
    pub deprecated: bool,
    /// The creation time, in seconds since 1970; 0 when the server does not report it.
    pub created: u64,
}

/// The readable entries of a vendor's list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ModelListing {
    /// The models in the list's order, without duplicates.
    pub(crate) models: Vec<Discovered>,
    /// The number of unreadable entries.
    pub(crate) unreadable: usize,
}

impl ModelListing {
    /// Reads the list in the first of the named fields, or the body itself. `read` converts an entry, and returns
    /// `None` for one that should not be offered.
    pub(crate) fn parse_body(
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
        let mut listing = Self::default();
        for entry in list {
            let Some(name) = name_of(entry) else {
                listing.unreadable += 1;
                continue;
            };
            let Some(model) = read(entry, name) else { continue };
            if listing.models.iter().all(|other| other.name != model.name) {
                listing.models.push(model);
            }
        }
        Some(listing)
    }
}

/// Returns the name of an entry, if the catalog can use it.
fn name_of(entry: &Value) -> Option<&str> {
    let name = [&entry["id"], &entry["name"]].into_iter().find_map(Value::as_str)?;
    let fits = !name.trim().is_empty() && name.len() <= NAME_MAX_BYTES;
    (fits && !name.chars().any(char::is_control)).then_some(name)
}

/// Returns the first of these fields that contains a token count.
pub(crate) fn token_count(entry: &Value, fields: &[&str]) -> Option<u32> {
    let counts = fields.iter().filter_map(|field| u32::try_from(lenient::count_of(&entry[*field])?).ok());
    counts.into_iter().find(|count| *count > 0)
}

/// Reads a display name as one line.
pub(crate) fn display_name(entry: &Value, field: &str) -> Option<String> {
    let label = entry[field].as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let label: String = label.chars().filter(|letter| !letter.is_control()).take(LABEL_MAX_CHARS).collect();
    (!label.is_empty()).then_some(label)
}
