//! Fields that requests for completions and for responses share.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Value, json};

use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::AnyText;

/// The maximum number of pairs of `metadata`, and the characters of their names and values.
const METADATA_MAX: usize = 16;
const METADATA_NAME_CHARS: usize = 64;
const METADATA_VALUE_CHARS: usize = 512;
/// The maximum number of tools.
const TOOLS_MAX: usize = 256;

/// The field `metadata`: texts. Other values are their JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Metadata(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetadataVisitor;

        impl<'de> Visitor<'de> for MetadataVisitor {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Metadata, A::Error> {
                let mut pairs = BTreeMap::new();
                while let Some((name, AnyText(value))) = fields.next_entry()? {
                    pairs.insert(name, value);
                }
                Ok(Metadata(pairs))
            }
        }

        deserializer.deserialize_any(MetadataVisitor)
    }
}

impl Metadata {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`OpenAiError`] if there are too many pairs, or one is too long.
    pub(crate) fn check_bounds(&self) -> OpenAiResult<()> {
        let is_long = |(name, value): (&String, &String)| {
            name.chars().count() > METADATA_NAME_CHARS || value.chars().count() > METADATA_VALUE_CHARS
        };
        if self.0.len() > METADATA_MAX || self.0.iter().any(is_long) {
            let message = format!(
                "metadata is too large: send at most {METADATA_MAX} pairs, with names of {METADATA_NAME_CHARS} and \
                 values of {METADATA_VALUE_CHARS} characters"
            );
            return Err(OpenAiError::invalid_field("metadata", message));
        }
        Ok(())
    }

    /// Returns the words of a list, which commas separate.
    pub(crate) fn words(&self, name: &str) -> Vec<String> {
        let words = self.0.get(name).map(String::as_str).unwrap_or_default().split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// Takes a value.
    pub(crate) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Returns the object.
    pub(crate) fn to_value(&self) -> Value {
        json!(self.0)
    }
}

/// Refuses too many tools.
///
/// # Errors
/// [`OpenAiError`].
pub(crate) fn check_tools_count<T>(tools: Option<&[T]>) -> OpenAiResult<()> {
    if tools.is_some_and(|tools| tools.len() > TOOLS_MAX) {
        let message = format!("too many tools: send at most {TOOLS_MAX}");
        return Err(OpenAiError::invalid_field("tools", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_words_split_at_commas() {
        let metadata: Metadata =
            serde_json::from_str(r#"{"jurisdictions": "CZ, SK,", "other": 1, "none": null}"#)
                .expect("metadata");
        assert_eq!(metadata.words("jurisdictions"), ["CZ", "SK"]);
        assert!(metadata.words("skills").is_empty() && metadata.words("none").is_empty());
        assert_eq!(metadata.words("other"), ["1"]);
    }

    #[test]
    fn large_metadata_is_refused() {
        let of = |pairs: Value| serde_json::from_value::<Metadata>(pairs).expect("metadata").check_bounds();
        assert!(of(json!({"a": "á".repeat(512)})).is_ok());
        assert!(of(json!({"a": "x".repeat(513)})).is_err());
        assert!(of(json!({"x".repeat(65): ""})).is_err());
        let many: BTreeMap<String, String> = (0..17).map(|at| (at.to_string(), String::new())).collect();
        assert!(of(json!(many)).is_err());
        assert!(serde_json::from_str::<Metadata>("[]").is_err());
    }
}
