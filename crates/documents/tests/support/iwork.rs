//! Documents of Pages and Keynote for tests.

use crate::archive::zip_archive;

/// A message of Protocol Buffers that is being written.
#[derive(Clone, Default)]
pub(crate) struct IworkMessage(Vec<u8>);

impl IworkMessage {
    pub(crate) fn with_number(mut self, field: u64, value: u64) -> Self {
        push_varint(&mut self.0, field << 3);
        push_varint(&mut self.0, value);
        self
    }

    /// Adds a text or bytes.
    pub(crate) fn with_bytes(mut self, field: u64, value: impl AsRef<[u8]>) -> Self {
        push_varint(&mut self.0, field << 3 | 2);
        push_varint(&mut self.0, value.as_ref().len() as u64);
        self.0.extend(value.as_ref());
        self
    }

    pub(crate) fn with_message(self, field: u64, value: Self) -> Self {
        self.with_bytes(field, value.0)
    }

    /// Adds a reference to an object.
    pub(crate) fn with_reference(self, field: u64, id: u64) -> Self {
        self.with_message(field, new_message().with_number(1, id))
    }

    /// Adds a table of attributes: the places of a text, and the objects at them.
    pub(crate) fn with_attributes(self, field: u64, entries: &[(u64, u64)]) -> Self {
        let entry = |(place, id): &(u64, u64)| new_message().with_number(1, *place).with_reference(2, *id);
        self.with_message(
            field,
            entries.iter().map(entry).fold(new_message(), |table, entry| table.with_message(1, entry)),
        )
    }
}

pub(crate) fn new_message() -> IworkMessage {
    IworkMessage::default()
}

/// Creates a document of objects: their identifiers, kinds and messages.
pub(crate) fn iwork_document(objects: &[(u64, u64, IworkMessage)]) -> Vec<u8> {
    zip_archive([("Index/Document.iwa", pack_objects(objects))])
}

/// Packs objects into a file.
pub(crate) fn pack_objects(objects: &[(u64, u64, IworkMessage)]) -> Vec<u8> {
    let mut data = Vec::new();
    for (id, kind, content) in objects {
        let length = content.0.len() as u64;
        let info = new_message()
            .with_number(1, *id)
            .with_message(2, new_message().with_number(1, *kind).with_number(3, length));
        push_varint(&mut data, info.0.len() as u64);
        data.extend(info.0);
        data.extend(&content.0);
    }
    data.chunks(65_536).flat_map(snappy_block).collect()
}

fn snappy_block(data: &[u8]) -> Vec<u8> {
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
