//! Reads vendors' JSON leniently: an invalid field counts as absent and does not affect other fields.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::sse::Frame;

/// Deserializes a field, or its default when it has another type.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// Deserializes a count in any notation; `None` when it is invalid.
pub(crate) fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(count_of(&Value::deserialize(from)?))
}

/// Reads a count in any notation.
pub(crate) fn count_of(value: &Value) -> Option<u64> {
    /// The largest range of integers that a double represents exactly.
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

/// Removes duplicate fields from a frame's JSON; the last one counts. Returns `None` when that changes nothing.
pub(crate) fn without_duplicates(frame: &Frame) -> Option<Frame> {
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
