//! Adds the operator's options to requests.

use std::collections::BTreeMap;

use domain::step::StepError;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error;

/// The key of options for every model.
const EVERY_MODEL: &str = "*";

/// Parameters that options cannot override.
const RESERVED: [&str; 5] = ["model", "stream", "messages", "input", "contents"];

/// Raw request options: JSON objects by the vendor's name of a model, or `*` for every model. A model's own options
/// take precedence.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestOptions(BTreeMap<String, Map<String, Value>>);

impl RequestOptions {
    /// Parses `{"model": {"option": …}}`.
    ///
    /// # Errors
    /// Returns the JSON error and its line.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json).map(Self)
    }

    /// Returns the options for a model.
    pub(crate) fn for_model(&self, model: &str) -> Map<String, Value> {
        let mut options = self.0.get(EVERY_MODEL).cloned().unwrap_or_default();
        if let Some(own) = self.0.get(model) {
            merge_options(&mut options, own);
        }
        options
    }

    /// Adds options for one model.
    pub(crate) fn with_model(&self, model: &str, more: &Map<String, Value>) -> Self {
        let mut options = self.clone();
        merge_options(options.0.entry(model.to_owned()).or_default(), more);
        options
    }
}

/// Serializes a request and merges the operator's options into it.
pub(crate) fn encode_with_options(
    request: &impl Serialize,
    options: &Map<String, Value>,
) -> Result<Vec<u8>, StepError> {
    let unwritable = |_| error::rejected_step("the request cannot be serialized");
    if options.is_empty() {
        return serde_json::to_vec(request).map_err(unwritable);
    }
    let mut body = serde_json::to_value(request).map_err(unwritable)?;
    if let Value::Object(body) = &mut body {
        let mut options = options.clone();
        options.retain(|name, _| !RESERVED.contains(&name.as_str()));
        merge_options(body, &options);
    }
    serde_json::to_vec(&body).map_err(unwritable)
}

/// Merges options into an object: objects recursively, other values by replacement.
pub(crate) fn merge_options(into: &mut Map<String, Value>, options: &Map<String, Value>) {
    for (name, option) in options {
        match (into.get_mut(name), option) {
            (Some(Value::Object(inner)), Value::Object(option)) => merge_options(inner, option),
            _ => {
                into.insert(name.clone(), option.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_options_parse_with_precedence() {
        let guide = include_str!("../../../docs/models.md");
        let (_, example) = guide.split_once("```json\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let options = RequestOptions::parse(example).unwrap();
        assert_eq!(options.for_model("gpt-5.2")["text"]["verbosity"], "low");
        assert!(options.for_model("another").is_empty());
        let options =
            RequestOptions::parse(r#"{"*": {"a": {"b": 1, "c": 2}}, "m": {"a": {"b": 3}}}"#).unwrap();
        assert_eq!(options.for_model("m")["a"], serde_json::json!({"b": 3, "c": 2}));
        for wrong in ["[]", r#"{"m": 1}"#, "{"] {
            assert!(RequestOptions::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn encode_with_options_keeps_reserved_fields() {
        let request =
            serde_json::json!({"model": "m", "stream": true, "messages": [1], "a": {"b": 1, "c": 2}});
        let options = serde_json::json!({"a": {"b": 3, "d": [4]}, "e": 5, "model": "x", "stream": false,
            "messages": [], "input": []});
        let merged = encode_with_options(&request, options.as_object().unwrap()).unwrap();
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        let expected = serde_json::json!({"model": "m", "stream": true, "messages": [1],
            "a": {"b": 3, "c": 2, "d": [4]}, "e": 5});
        assert_eq!(merged, expected);
    }
}
