//! Compound files for tests of documents: the containers of Microsoft Office before 2007 and of Outlook.

use std::io::{Cursor, Write};

/// Builds a compound file of these streams.
pub(crate) fn compound_file(streams: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).expect("in memory");
    for (name, content) in streams {
        if let Some((folder, _)) = name[1..].rsplit_once('/') {
            file.create_storage_all(format!("/{folder}")).expect("in memory");
        }
        file.create_stream(name).expect("in memory").write_all(content).expect("in memory");
    }
    file.flush().expect("in memory");
    file.into_inner().into_inner()
}

/// Encodes a text as such files do.
pub(crate) fn utf16_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
