//! Books of Mobipocket and Kindle for tests of documents.

/// The options of a book.
#[derive(Clone, Copy, Default)]
pub(crate) struct MobiFile<'a> {
    /// The code page of the text; 0 for a book without Mobipocket's head.
    pub(crate) code_page: u32,
    pub(crate) version: u32,
    pub(crate) packing: u16,
    pub(crate) encryption: u16,
    /// The packed records of text.
    pub(crate) records: &'a [&'a [u8]],
    /// Flags for the trailing data of each record.
    pub(crate) trailers: u16,
    /// The end of the HTML, if other parts follow it.
    pub(crate) html_end: Option<u32>,
    /// The images, which follow the text.
    pub(crate) images: &'a [&'a [u8]],
}

impl MobiFile<'_> {
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let count = u16::try_from(self.records.len()).expect("it has few records");
        let mut head = vec![0; 16 + 232];
        let mut put = |at: usize, value: &[u8]| head[at..at + value.len()].copy_from_slice(value);
        put(0, &self.packing.to_be_bytes());
        put(8, &count.to_be_bytes());
        put(12, &self.encryption.to_be_bytes());
        if self.code_page > 0 {
            put(16, b"MOBI");
            put(20, &232_u32.to_be_bytes());
            put(28, &self.code_page.to_be_bytes());
            put(36, &self.version.to_be_bytes());
            put(192, &u32::from(count + 1).to_be_bytes());
            let first_image = if self.images.is_empty() { u32::MAX } else { u32::from(count + 2) };
            put(108, &first_image.to_be_bytes());
            put(242, &self.trailers.to_be_bytes());
        }
        let parts: Vec<u8> =
            [12, 1, 0, self.html_end.unwrap_or(0)].into_iter().flat_map(u32::to_be_bytes).collect();
        let parts = [b"FDST".to_vec(), parts].concat();
        let mut records = vec![head.as_slice()];
        records.extend(self.records);
        records.push(&parts);
        records.extend(self.images);
        let mut bytes = vec![0; 78];
        bytes[60..68].copy_from_slice(if self.code_page > 0 { b"BOOKMOBI" } else { b"TEXtREAd" });
        let of = u16::try_from(records.len()).expect("they are few");
        bytes[76..78].copy_from_slice(&of.to_be_bytes());
        let mut start = 78 + 8 * records.len();
        for record in &records {
            bytes.extend(u32::try_from(start).expect("it is short").to_be_bytes());
            bytes.extend([0; 4]);
            start += record.len();
        }
        records.iter().for_each(|record| bytes.extend_from_slice(record));
        bytes
    }
}
