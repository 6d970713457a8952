//! The forms of JSON values in requests. A derived structure accepts an array in place of an object, and names its Rust type
//! in errors; these types do neither.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The names of Rust's types in errors, and what people call them.
const TYPE_NAMES: [(&str, &str); 11] = [
    ("u8", "a whole number"),
    ("u32", "a whole number"),
    ("u64", "a whole number"),
    ("usize", "a whole number"),
    ("i64", "a whole number"),
    ("f64", "a number"),
    ("a string", "a text"),
    ("a borrowed string", "a text"),
    ("a sequence", "an array"),
    ("a map", "an object"),
    ("a boolean", "true or false"),
];

/// Says an error of the parser without names of types.
pub(crate) fn plain_words(message: &str) -> String {
    let message = [
        ("invalid type: map,", "invalid type: object,"),
        ("invalid type: sequence,", "invalid type: array,"),
    ]
    .iter()
    .find_map(|(said, word)| Some(format!("{word}{}", message.strip_prefix(said)?)))
    .unwrap_or_else(|| message.to_owned());
    let Some((begin, rest)) = message.rsplit_once(", expected ") else { return message };
    let (expected, place) =
        rest.split_once(" at line ").map_or((rest, None), |(said, place)| (said, Some(place)));
    let word = if expected.starts_with("struct ") || expected.starts_with("internally tagged enum ") {
        "an object"
    } else {
        TYPE_NAMES.iter().find(|(name, _)| *name == expected).map_or(expected, |(_, word)| *word)
    };
    let place = place.map(|place| format!(" at line {place}")).unwrap_or_default();
    format!("{begin}, expected {word}{place}")
}

/// An object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct JsonObject<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for JsonObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = JsonObject<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<JsonObject<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields)).map(JsonObject)
            }
        }

        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

/// A text, or an array of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TextOrList<T> {
    Text(String),
    List(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOrList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = TextOrList<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an array")
            }

            fn visit_str<E>(self, text: &str) -> Result<TextOrList<T>, E> {
                Ok(TextOrList::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<TextOrList<T>, E> {
                Ok(TextOrList::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<TextOrList<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(TextOrList::List)
            }
        }

        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

/// A text, or an object that has it in the field `F`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedText<const URL: bool>(pub(crate) String);

/// An image: its URL, or an object with it.
pub(crate) type UrlText = NamedText<true>;
/// An id, or an object with it.
pub(crate) type IdText = NamedText<false>;

impl<'de, const URL: bool> Deserialize<'de> for NamedText<URL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<const URL: bool>;

        impl<'de, const URL: bool> Visitor<'de> for TextVisitor<URL> {
            type Value = NamedText<URL>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(if URL {
                    "a URL or an object with a url"
                } else {
                    "an id or an object with an id"
                })
            }

            fn visit_str<E>(self, text: &str) -> Result<NamedText<URL>, E> {
                Ok(NamedText(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<NamedText<URL>, E> {
                Ok(NamedText(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<NamedText<URL>, A::Error> {
                let wanted = if URL { "url" } else { "id" };
                let mut found = None;
                while let Some(name) = fields.next_key::<String>()? {
                    if name == wanted {
                        found = Some(fields.next_value::<String>()?);
                    } else {
                        fields.next_value::<IgnoredAny>()?;
                    }
                }
                found.map(NamedText).ok_or_else(|| A::Error::custom(format_args!("{wanted} is missing")))
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

/// A text, or JSON whose text stands for it; `null` is the empty text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct AnyText(pub(crate) String);

impl<'de> Deserialize<'de> for AnyText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| {
            Self(match value {
                Value::Null => String::new(),
                Value::String(text) => text,
                other => other.to_string(),
            })
        })
    }
}

/// A field without effect: whether the client asks for something by it. Its value is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum UnusedField {
    /// `null`, zero, or nothing in it.
    #[default]
    Empty,
    Bool(bool),
    Set,
}

impl<'de> Deserialize<'de> for UnusedField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldVisitor;

        impl<'de> Visitor<'de> for FieldVisitor {
            type Value = UnusedField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_unit<E>(self) -> Result<UnusedField, E> {
                Ok(UnusedField::Empty)
            }

            fn visit_bool<E>(self, value: bool) -> Result<UnusedField, E> {
                Ok(UnusedField::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<UnusedField, E> {
                Ok(if value == 0 { UnusedField::Empty } else { UnusedField::Set })
            }

            fn visit_u64<E>(self, value: u64) -> Result<UnusedField, E> {
                Ok(if value == 0 { UnusedField::Empty } else { UnusedField::Set })
            }

            fn visit_f64<E>(self, value: f64) -> Result<UnusedField, E> {
                Ok(if value == 0.0 { UnusedField::Empty } else { UnusedField::Set })
            }

            fn visit_str<E>(self, text: &str) -> Result<UnusedField, E> {
                Ok(if text.is_empty() { UnusedField::Empty } else { UnusedField::Set })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<UnusedField, A::Error> {
                let mut field = UnusedField::Empty;
                while items.next_element::<IgnoredAny>()?.is_some() {
                    field = UnusedField::Set;
                }
                Ok(field)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<UnusedField, A::Error> {
                let mut field = UnusedField::Empty;
                while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    field = UnusedField::Set;
                }
                Ok(field)
            }
        }

        deserializer.deserialize_any(FieldVisitor)
    }
}

impl UnusedField {
    /// Returns true for a value that asks for something.
    pub(crate) const fn is_set(self) -> bool {
        matches!(self, Self::Bool(true) | Self::Set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| plain_words(&error.to_string()))
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Sample {
        #[serde(default)]
        size: Option<u32>,
    }

    #[test]
    fn objects_are_no_arrays() {
        assert_eq!(read::<JsonObject<Sample>>(r#"{"size": 5}"#), Ok(JsonObject(Sample { size: Some(5) })));
        for json in ["[5]", "5", "\"a\"", "null"] {
            let error = read::<JsonObject<Sample>>(json).expect_err(json);
            assert!(error.contains("expected an object"), "{error}");
        }
        let error = read::<JsonObject<Sample>>(r#"{"size": "5"}"#).expect_err("an error");
        assert_eq!(error, "invalid type: string \"5\", expected a whole number at line 1 column 12");
    }

    #[test]
    fn lists_and_names_have_two_forms() {
        assert_eq!(read("\"a\""), Ok(TextOrList::<u32>::Text("a".to_owned())));
        assert_eq!(read("[1, 2]"), Ok(TextOrList::List(vec![1, 2])));
        let error = read::<TextOrList<u32>>("{}").expect_err("an error");
        assert!(error.starts_with("invalid type: object, expected a text or an array"), "{error}");
        for json in ["\"a\"", r#"{"id": "a"}"#, r#"{"more": [1], "id": "a"}"#] {
            assert_eq!(read(json), Ok(NamedText::<false>("a".to_owned())), "{json}");
        }
        assert_eq!(read(r#"{"url": "a"}"#), Ok(NamedText::<true>("a".to_owned())));
        assert!(read::<IdText>(r#"{"url": "a"}"#).is_err());
        assert!(read::<UrlText>("[\"a\"]").is_err());
    }

    #[test]
    fn any_text_is_its_json() {
        for (json, text) in [("\"{}\"", "{}"), (r#"{"a": 1}"#, r#"{"a":1}"#), ("null", ""), ("5", "5")] {
            assert_eq!(read(json), Ok(AnyText(text.to_owned())));
        }
    }

    #[test]
    fn unused_fields_tell_whether_they_are_set() {
        for (json, is_set) in [
            ("null", false),
            ("false", false),
            ("true", true),
            ("0.0", false),
            ("0", false),
            ("7", true),
            ("[]", false),
            ("[1]", true),
            ("{}", false),
            (r#"{"a": [{}]}"#, true),
            ("\"\"", false),
            ("\"x\"", true),
        ] {
            assert_eq!(read::<UnusedField>(json).map(UnusedField::is_set), Ok(is_set), "{json}");
        }
    }
}
