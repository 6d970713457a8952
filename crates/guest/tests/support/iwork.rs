//! Documents of Pages and Keynote for tests.

use crate::archive::archive;

/// A message of Protocol Buffers that is being written.
#[derive(Clone, Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// Adds a number.
    pub(crate) fn number(mut self, field: u64, value: u64) -> Self {
        push_varint(&mut self.0, field << 3);
        push_varint(&mut self.0, value);
        self
    }

    /// Adds a text or bytes.
    pub(crate) fn bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        push_varint(&mut self.0, field << 3 | 2);
        push_varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend(value.as_ref());
        self
    }

    /// Adds a message.
    pub(crate) fn message(self, field: u64, value: Self) -> Self {
        self.bytes(field, value.0)
    }

    /// Adds a reference to an object.
    pub(crate) fn reference(self, field: u64, id: u64) -> Self {
        self.message(field, message().number(1, id))
    }

    /// Adds a table of attributes: the places of a text, and the objects at them.
    pub(crate) fn attributes(self, field: u64, entries: &[(u64, u64)]) -> Self {
        let entry = |(place, id): &(u64, u64)| message().number(1, *place).reference(2, *id);
        self.message(field, entries.iter().map(entry).fold(message(), |table, entry| table.message(1, entry)))
    }
}

/// Begins a message.
pub(crate) fn message() -> Message {
    Message::default()
}

/// Creates a document of objects: their identifiers, kinds and messages.
pub(crate) fn document(objects: &[(u64, u64, Message)]) -> Vec<u8> {
    archive([("Index/Document.iwa", packed(objects))])
}

/// Packs objects into a file.
pub(crate) fn packed(objects: &[(u64, u64, Message)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (id, kind, content) in objects {
        let length = content.0.len() as u64;
        let info = message().number(1, *id).message(2, message().number(1, *kind).number(3, length));
        push_varint(&mut data, info.0.len() as u64);
        data.extend(info.0);
        data.extend(&content.0);
    }
    data.chunks(65_536).flat_map(block).collect()
}

fn block(data: &[u8]) -> Vec<u8> {
    let packed = snap::raw::Encoder::new().compress_vec(data).expect("it is short");
    let [low, middle, high, _] = u32::try_from(packed.len()).expect("it is short").to_le_bytes();
    [&[0, low, middle, high][..], &packed].concat()
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(u8::try_from(number % 128).expect("it is small") | 128);
        number /= 128;
    }
    out.push(u8::try_from(number).expect("it is small"));
}
