//! The ids of requests, and the tokens of their progress.

use serde_json::Value;
use serde_json::value::RawValue;

/// The longest id of a request and the longest token of its progress, as JSON, in bytes.
pub(crate) const ID_MAX_BYTES: usize = 256;

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum RequestId {
    Number(i64),
    Text(String),
}

impl RequestId {
    /// Parses an id, or the token of a progress, which has the same form.
    pub(crate) fn parse(raw: &RawValue) -> Option<Self> {
        let text = Some(raw.get()).filter(|text| text.len() <= ID_MAX_BYTES)?;
        match serde_json::from_str(text).ok()? {
            Value::String(text) => Some(Self::Text(text)),
            number => number.as_i64().map(Self::Number),
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Number(number) => Value::from(*number),
            Self::Text(text) => Value::from(text.as_str()),
        }
    }
}
