//! Vendors' JSON, read field by field and entry by entry: what is odd counts as absent and takes nothing else along.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

use crate::provider::Discovered;
use crate::wire::Frame;

/// The longest name of a model that is taken from a list, in bytes.
const NAME_MAX_BYTES: usize = 256;
/// The longest label of a model that is taken from a list, in characters.
const LABEL_MAX_CHARS: usize = 200;

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

/// A vendor's list of models, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing {
    /// The models, each name once, in the list's order.
    pub(crate) models: Vec<Discovered>,
    /// How many entries could not be read.
    pub(crate) odd: usize,
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
                told.odd += 1;
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
    let told = fields.iter().filter_map(|field| u32::try_from(count_of(&entry[*field])?).ok());
    told.into_iter().find(|count| *count > 0)
}

/// What people call a model, on one line.
pub(crate) fn label(entry: &Value, field: &str) -> Option<String> {
    let shown = entry[field].as_str()?.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = shown.chars().filter(|letter| !letter.is_control()).take(LABEL_MAX_CHARS).collect();
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};

    use domain::step::{StepError, StepEvent};
    use serde_json::json;

    use super::*;
    use crate::decoder::{Decoder, Next};
    use crate::format::Format;

    fn read(format: Format, body: &Value) -> Option<Listing> {
        format.models(body.to_string().as_bytes())
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.models.iter().map(|model| model.name.as_str()).collect()
    }

    /// How a format calls the list, and a model's name in it.
    fn words(format: Format) -> (&'static str, &'static str, &'static str) {
        match format {
            Format::Gemini => ("models", "name", "models/"),
            Format::Anthropic | Format::ChatCompletions | Format::Responses => ("data", "id", ""),
        }
    }

    #[test]
    fn one_odd_entry_drops_no_other_in_any_format() {
        for format in Format::ALL {
            let (list, name, prefix) = words(format);
            let named = |word: &str| json!({ name: format!("{prefix}{word}") });
            let odd = [
                json!(null),
                json!(1),
                json!("text"),
                json!([]),
                json!({}),
                json!({ name: null }),
                json!({ name: 7 }),
                json!({ name: "" }),
                json!({ name: "two\nlines" }),
                json!({ name: "x".repeat(1000) }),
                json!({ "object": "model" }),
            ];
            let mut entries = vec![named("first")];
            entries.extend(odd.clone());
            entries.extend([named("last"), named("first")]);
            let told = read(format, &json!({ list: entries, "unknown": {} })).expect("a list");
            assert_eq!((names(&told), told.odd), (vec!["first", "last"], odd.len()), "{format:?}");
        }
    }

    #[test]
    fn one_odd_field_drops_no_entry_in_any_format() {
        let odd =
            [json!(null), json!("x"), json!(-1), json!(1e300), json!([1]), json!({"a": 1}), json!(true)];
        let fields = [
            "created",
            "created_at",
            "display_name",
            "displayName",
            "max_input_tokens",
            "max_tokens",
            "lifecycle",
            "capabilities",
            "context_length",
            "max_model_len",
            "context_window",
            "inputTokenLimit",
            "outputTokenLimit",
            "supportedGenerationMethods",
            "thinking",
            "owned_by",
            "unknown",
        ];
        for format in Format::ALL {
            let (list, name, prefix) = words(format);
            for field in fields {
                for value in &odd {
                    let body = json!({ list: [{ name: format!("{prefix}m"), field: value }] });
                    let told = read(format, &body).expect("a list");
                    assert_eq!((names(&told), told.odd), (vec!["m"], 0), "{format:?} {body}");
                }
            }
        }
    }

    #[test]
    fn all_names_of_the_context_may_stand_side_by_side() {
        let of = |entry: Value| {
            let body = json!({ "data": [entry] });
            read(Format::ChatCompletions, &body).expect("a list").models.remove(0).context_tokens
        };
        let (long, served) = (Some(131_072), Some(4096));
        assert_eq!(of(json!({"id": "m", "context_length": 131_072, "max_model_len": 4096})), served);
        assert_eq!(of(json!({"id": "m", "max_model_len": null, "context_length": 131_072})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": "odd", "context_window": "131072"})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": 0, "context_length": 131_072.0})), long);
        assert_eq!(of(json!({"id": "m"})), None);
        let twice = br#"{"data":[{"id":"a","id":"m","context_length":1,"context_length":4096}],"data":
            [{"id":"a","id":"m","context_length":1,"context_length":4096}]}"#;
        let told = Format::ChatCompletions.models(twice).expect("a list");
        assert_eq!((names(&told), told.models[0].context_tokens), (vec!["m"], served));
    }

    #[test]
    fn what_is_no_list_is_none_and_an_empty_one_is_empty() {
        for format in Format::ALL {
            let (list, ..) = words(format);
            for none in [
                json!({ list: {} }),
                json!({ list: "x" }),
                json!({"error": {"code": 1}}),
                json!("x"),
                json!(null),
            ] {
                assert_eq!(read(format, &none), None, "{format:?} {none}");
            }
            assert_eq!(format.models(b"<html>"), None);
            for empty in [json!({ list: [] }), json!({ list: null }), json!({}), json!([])] {
                assert_eq!(read(format, &empty), Some(Listing::default()), "{format:?} {empty}");
            }
        }
        let bare = read(Format::ChatCompletions, &json!([{"id": "m"}])).expect("some servers send it so");
        assert_eq!(names(&bare), ["m"]);
    }

    /// What a step comes to whose stream has these frames: its text, and whether its usage is known.
    fn said(format: Format, frames: &[Value]) -> Result<(String, bool), StepError> {
        let mut decoder = Decoder::new(format, false, HashSet::new());
        let (mut text, mut finished, mut ready) = (String::new(), None, VecDeque::new());
        let mut next = Next::More;
        for frame in frames {
            if next == Next::More {
                next = decoder.push(format!("data: {frame}\n\n").as_bytes(), &mut ready)?;
            }
        }
        if next == Next::More {
            decoder.ended(&mut ready)?;
        }
        for event in ready {
            match event {
                StepEvent::Text(more) => text.push_str(&more),
                StepEvent::Finished { usage, .. } => finished = Some(usage.is_some()),
                _ => {}
            }
        }
        Ok((text, finished.expect("it was finished")))
    }

    /// A stream of each format that says "Hi", in which `odd` stands wherever no word of the answer does.
    fn stream(format: Format, odd: &Value) -> Vec<Value> {
        match format {
            Format::ChatCompletions => vec![
                json!({"object": odd, "usage": odd, "choices": [null, {"index": odd, "finish_reason": odd, "delta": {
                    "role": odd, "content": "Hi", "refusal": odd, "reasoning": odd, "reasoning_content": odd,
                    "annotations": odd, "tool_calls": [null]}}], "created": odd}),
                json!({"choices": [{"delta": {}, "message": null, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": odd,
                    "prompt_tokens_details": odd, "completion_tokens_details": {"reasoning_tokens": odd}}}),
            ],
            Format::Anthropic => vec![
                json!({"type": "message_start", "message": {"id": odd, "usage": {"input_tokens": 1,
                    "cache_read_input_tokens": odd, "output_tokens_details": odd}}}),
                json!({"type": odd, "index": odd, "message": odd, "usage": odd}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "citations": odd}}),
                json!({"type": "content_block_delta", "index": 0, "usage": odd, "message": odd, "delta":
                    {"type": "text_delta", "text": "Hi", "signature": odd, "thinking": odd, "stop_reason": odd}}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "text": odd}, "usage": odd}),
                json!({"type": "message_stop"}),
            ],
            Format::Responses => vec![
                json!({"type": odd, "output_index": odd, "content_index": odd, "summary_index": odd}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi",
                    "summary_index": odd, "annotation": odd}),
                json!({"type": "response.completed", "response": {"error": null, "incomplete_details": odd,
                    "usage": {"input_tokens": 1, "output_tokens": odd, "input_tokens_details": odd,
                    "output_tokens_details": {"reasoning_tokens": odd}}}}),
            ],
            Format::Gemini => vec![
                json!({"usageMetadata": odd, "promptFeedback": odd, "candidates": [null, {"index": odd,
                    "finishReason": odd, "groundingMetadata": odd, "citationMetadata": odd, "content": {"role": odd,
                    "parts": [{"text": "Hi", "thought": odd, "thoughtSignature": null}]}}]}),
                json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1,
                    "candidatesTokenCount": odd, "thoughtsTokenCount": odd}}),
            ],
        }
    }

    #[test]
    fn one_odd_field_takes_no_word_of_an_answer_along() {
        for format in Format::ALL {
            for odd in [json!(null), json!([1]), json!({"a": 1}), json!(-1.5), json!(false)] {
                let came = said(format, &stream(format, &odd));
                assert_eq!(came, Ok(("Hi".to_owned(), true)), "{format:?} {odd}");
            }
        }
    }

    #[test]
    fn a_field_that_comes_twice_is_read_as_its_last() {
        for (format, frames) in [
            (
                Format::ChatCompletions,
                r#"{"choices":[{"index":0,"index":0,"delta":{"content":"H","content":"Hi"},"finish_reason":"stop"}]}"#,
            ),
            (
                Format::Gemini,
                r#"{"candidates":[],"candidates":[{"content":{"parts":[{"text":"H","text":"Hi"}]},"finishReason":"STOP"}]}"#,
            ),
        ] {
            let mut decoder = Decoder::new(format, false, HashSet::new());
            let mut ready = VecDeque::new();
            let stream = format!("data: {frames}\n\n");
            assert_eq!(decoder.push(stream.as_bytes(), &mut ready), Ok(Next::More), "{format:?}");
            decoder.ended(&mut ready).expect("it was finished");
            assert_eq!(ready.front(), Some(&StepEvent::Text("Hi".to_owned())), "{format:?}");
        }
    }

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
