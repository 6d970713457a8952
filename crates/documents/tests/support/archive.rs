//! Archives for tests of documents.

use std::io::{Cursor, Write};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// Creates an archive of these parts.
pub(crate) fn zip_archive<N: AsRef<str>, C: AsRef<[u8]>>(parts: impl IntoIterator<Item = (N, C)>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in parts {
        zip.start_file(name.as_ref(), options).expect("an entry");
        zip.write_all(content.as_ref()).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
}
