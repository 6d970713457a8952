//! Reads messages of Protocol Buffers without their schema: fields by their numbers.

/// A message. Damage ends it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProtoMessage<'a>(pub(super) &'a [u8]);

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ProtoValue<'a> {
    Number(u64),
    /// A text, bytes, or a message.
    Bytes(&'a [u8]),
    Double(f64),
    Float,
}

impl<'a> ProtoMessage<'a> {
    /// Returns the fields in their order.
    pub(super) fn fields(self) -> impl Iterator<Item = (u32, ProtoValue<'a>)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let field = take_field(&mut rest);
            if field.is_none() {
                rest = &[];
            }
            field
        })
    }

    /// Returns the values of a field that are bytes.
    pub(super) fn bytes_fields(self, number: u32) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter_map(move |(of, value)| match value {
            ProtoValue::Bytes(bytes) if of == number => Some(bytes),
            _ => None,
        })
    }

    /// Returns the messages of a field.
    pub(super) fn message_fields(self, number: u32) -> impl Iterator<Item = ProtoMessage<'a>> {
        self.bytes_fields(number).map(ProtoMessage)
    }

    /// Returns the message of a field; an empty one if it is missing.
    pub(super) fn message_field(self, number: u32) -> Self {
        self.message_fields(number).next().unwrap_or_default()
    }

    pub(super) fn number_field(self, number: u32) -> Option<u64> {
        self.fields().find_map(|(of, value)| match value {
            ProtoValue::Number(value) if of == number => Some(value),
            _ => None,
        })
    }

    pub(super) fn text_field(self, number: u32) -> Option<&'a str> {
        self.bytes_fields(number).find_map(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Returns the identifiers of the objects that a field refers to.
    pub(super) fn reference_fields(self, number: u32) -> impl Iterator<Item = u64> {
        self.message_fields(number).filter_map(|reference| reference.number_field(1))
    }

    pub(super) fn reference_field(self, number: u32) -> Option<u64> {
        self.reference_fields(number).next()
    }
}

/// Takes the first field of `rest`; `None` at the end, or if it is damaged.
fn take_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, ProtoValue<'a>)> {
    let key = take_varint(rest)?;
    let value = match key & 7 {
        0 => ProtoValue::Number(take_varint(rest)?),
        1 => ProtoValue::Double(f64::from_le_bytes(take_bytes(rest, 8)?.try_into().ok()?)),
        2 => {
            let length = usize::try_from(take_varint(rest)?).ok()?;
            ProtoValue::Bytes(take_bytes(rest, length)?)
        }
        5 => {
            take_bytes(rest, 4)?;
            ProtoValue::Float
        }
        _ => return None,
    };
    Some((u32::try_from(key >> 3).ok()?, value))
}

/// Takes an integer of seven bits a byte, the lowest first.
pub(super) fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Takes bytes off the beginning of `rest`; `None` if there are fewer.
pub(super) fn take_bytes<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    rest.split_off(..bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_numbers() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1a, 0x02, 0x08, 0x07, 0x35, 0, 0, 0, 0];
        let message = ProtoMessage(&bytes);
        assert_eq!(message.number_field(1), Some(150));
        assert_eq!(message.text_field(2), Some("hi"));
        assert_eq!(message.reference_field(3), Some(7));
        assert_eq!(message.fields().count(), 4);
        assert_eq!(message.number_field(9), None);
    }

    #[test]
    fn damage_ends_a_message() {
        for bytes in [&[0x12, 0x7f, 1][..], &[0xff; 12], &[0x0b], &[0x09, 1, 2]] {
            assert_eq!(ProtoMessage(bytes).fields().count(), 0, "{bytes:?}");
        }
    }
}
