//! The objects of a document of iWork: compressed files of messages, which refer to each other by identifiers.

use std::collections::HashMap;
use std::ops::Range;

use snap::raw::{Decoder, decompress_len};

use super::message::{ProtoMessage, take_bytes, take_varint};
use crate::ExtractError;
use crate::archive::{PART_MAX_BYTES, ZipReader};
use crate::container::FileContainer;

/// The maximum total of the objects, in bytes.
const OBJECTS_MAX_BYTES: usize = 96 * 1024 * 1024;
/// The maximum number of objects.
const OBJECTS_MAX: usize = 1_000_000;
/// Files with nothing that is shown: the state of windows, templates, and changes of others.
const SKIPPED: [&str; 4] = ["ViewState", "MasterSlide", "TemplateSlide", "OperationStorage"];
/// The archive in which some programs store the files of the objects.
pub(super) const INDEX: &str = "Index.zip";

/// The objects of a document.
#[derive(Default)]
pub(super) struct IworkPackage {
    files: Vec<Vec<u8>>,
    objects: HashMap<u64, Object>,
    bytes: usize,
    /// The folder of the archive in which the document lies.
    root: String,
}

/// The place of an object.
struct Object {
    kind: u32,
    file: usize,
    range: Range<usize>,
}

impl IworkPackage {
    /// Unpacks the objects of a document.
    ///
    /// # Errors
    /// Fails if it is encrypted, too large, or damaged.
    pub(super) fn from_archive(archive: &mut ZipReader<'_>, root: &str) -> Result<Self, ExtractError> {
        let mut package = Self { root: root.to_owned(), ..Self::default() };
        package.load_objects(archive)?;
        if package.objects.is_empty()
            && let Some(index) = archive.read_part_start(&format!("{root}{INDEX}"), PART_MAX_BYTES)?
        {
            package.load_objects(&mut ZipReader::from_bytes(&index)?)?;
        }
        if package.objects.is_empty() {
            return Err(ExtractError::broken_file("iWork", "it has no objects"));
        }
        Ok(package)
    }

    /// Returns the message of an object with the number of its kind.
    pub(super) fn get(&self, id: u64) -> Option<(u32, ProtoMessage<'_>)> {
        let Object { kind, file, range } = self.objects.get(&id)?;
        Some((*kind, ProtoMessage(self.files.get(*file)?.get(range.clone())?)))
    }

    /// Returns the message of an object; an empty one if the object does not exist.
    pub(super) fn object_message(&self, id: Option<u64>) -> ProtoMessage<'_> {
        id.and_then(|id| self.get(id)).map(|(_, message)| message).unwrap_or_default()
    }

    /// Returns the first object of a kind.
    pub(super) fn first_of_kind(&self, kind: u32) -> Option<ProtoMessage<'_>> {
        let id = self.objects.iter().filter(|(_, object)| object.kind == kind).map(|(id, _)| *id).min()?;
        self.get(id).map(|(_, message)| message)
    }

    /// Returns the name of the archive's part with a file that the document shows.
    pub(super) fn data_part_name(&self, file: &str) -> String {
        format!("{}Data/{file}", self.root)
    }

    fn load_objects(&mut self, archive: &mut ZipReader<'_>) -> Result<(), ExtractError> {
        for file in archive.list_files() {
            let name = file.name.rsplit('/').next().unwrap_or_default();
            if !name.ends_with(".iwa") || SKIPPED.iter().any(|skipped| name.starts_with(skipped)) {
                continue;
            }
            let content = archive.unpack_file(file.index)?;
            self.add_file(&content)?;
        }
        Ok(())
    }

    /// Adds the objects of a file, up to where it is damaged.
    fn add_file(&mut self, content: &[u8]) -> Result<(), ExtractError> {
        let data = unpack_snappy_blocks(content, OBJECTS_MAX_BYTES - self.bytes)?;
        let file = self.files.len();
        let mut rest = data.as_slice();
        while let Some(object) = next_object(&mut rest, data.len()) {
            if self.objects.len() >= OBJECTS_MAX {
                return Err(ExtractError::TooManyParts { bound: OBJECTS_MAX });
            }
            if let Some((id, kind, range)) = object {
                self.objects.entry(id).or_insert(Object { kind, file, range });
            }
        }
        self.bytes += data.len();
        self.files.push(data);
        Ok(())
    }
}

/// Takes the next object of a file: its identifier with the kind and place of its first message. Messages that follow change it while
/// several people edit the document.
fn next_object(rest: &mut &[u8], file_bytes: usize) -> Option<Option<(u64, u32, Range<usize>)>> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let info = ProtoMessage(take_bytes(rest, length)?);
    let mut object = None;
    for message in info.message_fields(2) {
        let start = file_bytes - rest.len();
        let length = usize::try_from(message.number_field(3).unwrap_or(0)).ok()?;
        take_bytes(rest, length)?;
        let kind = message.number_field(1).and_then(|kind| u32::try_from(kind).ok());
        if object.is_none() {
            object = info.number_field(1).zip(kind).map(|(id, kind)| (id, kind, start..start + length));
        }
    }
    Some(object)
}

/// Unpacks a file: blocks of Snappy, each after a zero and its length in three bytes.
fn unpack_snappy_blocks(content: &[u8], max_bytes: usize) -> Result<Vec<u8>, ExtractError> {
    let too_large = || ExtractError::Bomb { bound: OBJECTS_MAX_BYTES as u64 };
    let broken = |error| ExtractError::broken_file("iWork", error);
    let (mut rest, mut data) = (content, Vec::new());
    while let Some(&[_, low, middle, high]) = take_bytes(&mut rest, 4) {
        let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        let length = length.min(rest.len());
        let block = take_bytes(&mut rest, length).unwrap_or_default();
        let start = data.len();
        let end = start + decompress_len(block).map_err(broken)?;
        if end > max_bytes {
            return Err(too_large());
        }
        data.resize(end, 0);
        let written = Decoder::new().decompress(block, &mut data[start..]).map_err(broken)?;
        data.truncate(start + written);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_unpacked_within_the_bound() {
        let packed = snap::raw::Encoder::new().compress_vec(&[7; 1000]).expect("it is short");
        let length = u8::try_from(packed.len()).expect("it is short");
        let block: Vec<u8> = [0, length, 0, 0].into_iter().chain(packed).collect();
        let two = block.repeat(2);
        assert_eq!(unpack_snappy_blocks(&two, 2000).expect("two blocks").len(), 2000);
        assert!(matches!(unpack_snappy_blocks(&two, 1999), Err(ExtractError::Bomb { .. })));
        assert!(matches!(
            unpack_snappy_blocks(&[0, 3, 0, 0, 0xff, 0xff, 0xff], 2000),
            Err(ExtractError::Broken { .. })
        ));
    }
}
