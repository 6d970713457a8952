//! Serializes JSON in segments: one line of JSON in which long, shared texts are not copied.

use std::fmt::{self, Display, Write as _};
use std::io::Write as _;

use bytes::Bytes;
use serde::ser::{self, Impossible, Serialize, SerializeSeq, SerializeStruct, SerializeTuple, Serializer};

use crate::json::json_escape_into;

/// The length in bytes from which on a text may be shared.
pub const SHARED_MIN_BYTES: usize = 4 << 10;

/// The value contains an unsupported type: a map, a float, bytes, or an externally tagged variant with
/// content.
#[derive(Debug, thiserror::Error)]
#[error("JSON serialization failed: {0}")]
pub struct SegmentsError(String);

impl ser::Error for SegmentsError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Serializes `value` as one line of JSON, safe as a line of an event stream, in consecutive segments.
///
/// Each text of at least [`SHARED_MIN_BYTES`] is offered to `shared`, which may return it as the inside of a
/// JSON string ([`json_escape_into`]); it then becomes a separate segment. Texts are offered as they are
/// written: a value that uses `Serializer::collect_str` offers each piece of its `Display`. `room` is the
/// expected size in bytes.
///
/// # Errors
/// [`SegmentsError`].
pub fn to_segments(
    value: &impl Serialize,
    room: usize,
    shared: impl FnMut(&str) -> Option<Bytes>,
) -> Result<Vec<Bytes>, SegmentsError> {
    let mut out = SegmentWriter { done: Vec::new(), open: Vec::with_capacity(room), shared };
    value.serialize(&mut out)?;
    out.close_segment();
    Ok(out.done)
}

struct SegmentWriter<S> {
    done: Vec<Bytes>,
    open: Vec<u8>,
    shared: S,
}

impl<S: FnMut(&str) -> Option<Bytes>> SegmentWriter<S> {
    fn write_text(&mut self, text: &str) {
        if text.len() >= SHARED_MIN_BYTES
            && let Some(escaped) = (self.shared)(text)
        {
            self.close_segment();
            self.done.push(escaped);
        } else {
            json_escape_into(text, &mut self.open);
        }
    }

    /// Writes a number, which needs no escaping.
    fn write_number(&mut self, value: impl Display) {
        // Writing to a growing buffer does not fail.
        let _ = write!(self.open, "{value}");
    }
}

impl<S> SegmentWriter<S> {
    fn close_segment(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
    }

    fn begin_compound(&mut self, begin: u8, end: u8) -> Compound<'_, S> {
        self.open.push(begin);
        Compound { out: self, first: true, end }
    }
}

impl<S: FnMut(&str) -> Option<Bytes>> fmt::Write for SegmentWriter<S> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write_text(text);
        Ok(())
    }
}

fn unsupported_value<T>(what: &str) -> Result<T, SegmentsError> {
    Err(SegmentsError(what.to_owned()))
}

type Done = Result<(), SegmentsError>;

impl<'w, S: FnMut(&str) -> Option<Bytes>> Serializer for &'w mut SegmentWriter<S> {
    type Ok = ();
    type Error = SegmentsError;
    type SerializeSeq = Compound<'w, S>;
    type SerializeTuple = Compound<'w, S>;
    type SerializeTupleStruct = Impossible<(), SegmentsError>;
    type SerializeTupleVariant = Impossible<(), SegmentsError>;
    type SerializeMap = Impossible<(), SegmentsError>;
    type SerializeStruct = Compound<'w, S>;
    type SerializeStructVariant = Impossible<(), SegmentsError>;

    fn serialize_str(self, text: &str) -> Done {
        self.open.push(b'"');
        self.write_text(text);
        self.open.push(b'"');
        Ok(())
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Done {
        self.open.push(b'"');
        write!(self, "{value}").map_err(ser::Error::custom)?;
        self.open.push(b'"');
        Ok(())
    }

    fn serialize_bool(self, value: bool) -> Done {
        self.open.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i64(self, value: i64) -> Done {
        self.write_number(value);
        Ok(())
    }

    fn serialize_u64(self, value: u64) -> Done {
        self.write_number(value);
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Done {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Done {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Done {
        self.serialize_i64(value.into())
    }

    fn serialize_u8(self, value: u8) -> Done {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Done {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Done {
        self.serialize_u64(value.into())
    }

    fn serialize_f32(self, _value: f32) -> Done {
        unsupported_value("a float")
    }

    fn serialize_f64(self, _value: f64) -> Done {
        unsupported_value("a float")
    }

    fn serialize_char(self, value: char) -> Done {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_bytes(self, _value: &[u8]) -> Done {
        unsupported_value("bytes")
    }

    fn serialize_none(self) -> Done {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        self.open.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Done {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _name: &'static str, _index: u32, variant: &'static str) -> Done {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _name: &'static str, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _value: &T,
    ) -> Done {
        unsupported_value(variant)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<Compound<'w, S>, SegmentsError> {
        Ok(self.begin_compound(b'[', b']'))
    }

    fn serialize_tuple(self, _length: usize) -> Result<Compound<'w, S>, SegmentsError> {
        Ok(self.begin_compound(b'[', b']'))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, SegmentsError> {
        unsupported_value(name)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, SegmentsError> {
        unsupported_value(variant)
    }

    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, SegmentsError> {
        unsupported_value("a map")
    }

    fn serialize_struct(self, _name: &'static str, _length: usize) -> Result<Compound<'w, S>, SegmentsError> {
        Ok(self.begin_compound(b'{', b'}'))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, SegmentsError> {
        unsupported_value(variant)
    }
}

/// An array or object that is being written.
struct Compound<'w, S> {
    out: &'w mut SegmentWriter<S>,
    first: bool,
    end: u8,
}

impl<S: FnMut(&str) -> Option<Bytes>> Compound<'_, S> {
    fn write_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        if !std::mem::take(&mut self.first) {
            self.out.open.push(b',');
        }
        value.serialize(&mut *self.out)
    }

    fn end_compound(self) -> Done {
        self.out.open.push(self.end);
        Ok(())
    }
}

impl<S: FnMut(&str) -> Option<Bytes>> SerializeSeq for Compound<'_, S> {
    type Ok = ();
    type Error = SegmentsError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.write_item(value)
    }

    fn end(self) -> Done {
        self.end_compound()
    }
}

impl<S: FnMut(&str) -> Option<Bytes>> SerializeTuple for Compound<'_, S> {
    type Ok = ();
    type Error = SegmentsError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Done {
        self.write_item(value)
    }

    fn end(self) -> Done {
        self.end_compound()
    }
}

impl<S: FnMut(&str) -> Option<Bytes>> SerializeStruct for Compound<'_, S> {
    type Ok = ();
    type Error = SegmentsError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Done {
        let begin: &[u8] = if std::mem::take(&mut self.first) { b"\"" } else { b",\"" };
        self.out.open.extend_from_slice(begin);
        self.out.open.extend_from_slice(key.as_bytes());
        self.out.open.extend_from_slice(b"\":");
        value.serialize(&mut *self.out)
    }

    fn end(self) -> Done {
        self.end_compound()
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Whole<'a> {
        some_text: &'a str,
        shown: DisplayedPieces<'a>,
        numbers: (u32, i64),
        list: Vec<Option<bool>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<char>,
    }

    /// Displays its pieces one by one.
    struct DisplayedPieces<'a>(&'a [&'a str]);

    impl Serialize for DisplayedPieces<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&format_args!("{}{}", self.0[0], self.0[1]))
        }
    }

    #[test]
    fn segments_are_json_with_shared_texts() {
        let long = "ž\"\u{2028}".repeat(SHARED_MIN_BYTES);
        let whole = Whole {
            some_text: "a\n\u{85}",
            shown: DisplayedPieces(&["short", &long]),
            numbers: (7, -1),
            list: vec![Some(true), None],
            absent: None,
        };
        let mut escaped = Vec::new();
        json_escape_into(&long, &mut escaped);
        let escaped = Bytes::from(escaped);
        let expected = json!({
            "someText": "a\n\u{85}", "shown": format!("short{long}"), "numbers": [7, -1], "list": [true, null],
        });
        let copied = to_segments(&whole, 0, |_| None).unwrap();
        assert_eq!(copied.len(), 1);
        let shared = to_segments(&whole, 0, |text| (text == long).then(|| escaped.clone())).unwrap();
        assert_eq!(shared.len(), 3);
        assert_eq!(shared[1].as_ptr(), escaped.as_ptr());
        assert_eq!(shared.concat(), copied.concat());
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&copied[0]).unwrap(), expected);
        assert!(!copied[0].windows(2).any(|pair| pair == "\u{85}".as_bytes()), "a line of an event stream");
        assert!(to_segments(&0.5, 0, |_| None).is_err());
    }
}
