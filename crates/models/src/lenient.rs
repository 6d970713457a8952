//! Reads vendors' JSON leniently: an invalid field counts as absent and does not affect other fields.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// Deserializes a field, or its default when it has another type.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(serde_json::from_value(Value::deserialize(from)?).unwrap_or_default())
}

/// Deserializes a text, or an object as its JSON; empty when it is of another type.
pub(crate) fn text_or_object<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(from)? {
        Value::String(text) => text,
        object @ Value::Object(_) => object.to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => String::new(),
    })
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

/// Repairs unreadable JSON: replaces invalid numbers (`NaN`), escapes control characters in texts, and removes
/// all but the last of duplicate fields. Returns `None` if the result is still unreadable.
pub(crate) fn mended_json(json: &str) -> Option<String> {
    let value = match serde_json::from_str::<Value>(json) {
        Ok(value) => value,
        Err(_) => serde_json::from_str(&without_odd_letters(json)).ok()?,
    };
    Some(value.to_string())
}

/// Replaces `NaN` and `Infinity` outside of texts by `null`, and control characters within them by their escapes.
fn without_odd_letters(json: &str) -> String {
    const ODD_NUMBERS: [&str; 8] =
        ["-Infinity", "Infinity", "-infinity", "infinity", "-NaN", "NaN", "-nan", "nan"];
    let mut out = String::with_capacity(json.len());
    let (mut rest, mut in_text) = (json, false);
    while let Some(letter) = rest.chars().next() {
        if in_text && letter == '\\' {
            let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let odd = ODD_NUMBERS.into_iter().find(|odd| !in_text && rest.starts_with(odd));
        if let Some(odd) = odd {
            out.push_str("null");
            rest = &rest[odd.len()..];
            continue;
        }
        in_text ^= letter == '"';
        if in_text && letter < ' ' {
            out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            out.push(letter);
        }
        rest = &rest[letter.len_utf8()..];
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mended_json_replaces_odd_numbers() {
        let odd = r#"{"a":NaN,"b":[-Infinity,Infinity,-1],"c":"NaN \" Infinity","d":"\\"}"#;
        let mended = r#"{"a":null,"b":[null,null,-1],"c":"NaN \" Infinity","d":"\\"}"#;
        assert_eq!(mended_json(odd).as_deref(), Some(mended));
        assert_eq!(mended_json("{\"a\":nan}").as_deref(), Some(r#"{"a":null}"#));
        assert_eq!(mended_json("{\"a\":nan"), None);
    }

    #[test]
    fn mended_json_escapes_control_characters() {
        let mended = mended_json("{\n\"a\":\"Who\u{1}le\n\\\"\t.\"\n}");
        assert_eq!(mended.as_deref(), Some(r#"{"a":"Who\u0001le\n\"\t."}"#));
        assert_eq!(mended_json("{\"a\":\"Who\u{1}"), None, "it is cut");
    }

    #[test]
    fn count_reads_every_notation() {
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
