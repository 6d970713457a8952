//! Vendors' JSON, read field by field and entry by entry: what is odd counts as absent and takes nothing else along.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::sse::Frame;

/// A field that says nothing when it is of another type.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// A field that is a count, however it is written; says nothing when it is none.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(count_of(&Value::deserialize(from)?))
}

/// The count that a value tells, however it is written.
pub(crate) fn count_of(value: &Value) -> Option<u64> {
    /// What a double holds exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => number.as_u64().or_else(|| {
            let number = number.as_f64().filter(|number| (0.0..=EXACT).contains(number))?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is within bounds"
            )]
            Some(number as u64)
        }),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The same frame with each field of its JSON once, the last of several; `None` where that changes nothing.
pub(crate) fn each_once(frame: &Frame) -> Option<Frame> {
    let data = serde_json::from_str::<Value>(&frame.data).ok()?.to_string();
    (data != frame.data).then(|| Frame { event: frame.event.clone(), data })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_read_however_they_are_written() {
        for (value, count) in [
            (json!(7), Some(7)),
            (json!(7.0), Some(7)),
            (json!("7"), Some(7)),
            (json!(-1), None),
            (json!(1e300), None),
            (json!(null), None),
            (json!("x"), None),
            (json!([7]), None),
        ] {
            assert_eq!(count_of(&value), count, "{value}");
        }
    }
}
