//! RAR archives of version 5 whose files are stored: no free program writes them.

/// A file of an archive: its name, its content, the flags of its head, and its extra records.
pub(crate) struct RarFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) content: &'a [u8],
    pub(crate) flags: u64,
    pub(crate) extra: &'a [u8],
}

/// The flags of a header whose content continues in the next part.
pub(crate) const GOES_ON: u64 = 0x10;
/// The extra record of an encrypted file: its length and its kind.
pub(crate) const ENCRYPTION: &[u8] = &[1, 1];

impl<'a> RarFile<'a> {
    pub(crate) fn new(name: &'a str, content: &'a [u8]) -> Self {
        Self { name, content, flags: 0, extra: &[] }
    }
}

/// Makes an archive with these flags.
pub(crate) fn rar_archive(archive_flags: u64, files: &[RarFile<'_>]) -> Vec<u8> {
    let mut archive = b"Rar!\x1a\x07\x01\0".to_vec();
    archive.extend(block_head(&[1, 0, archive_flags], &[]));
    for RarFile { name, content, flags, extra } in files {
        let length = content.len() as u64;
        let extra_length = extra.len() as u64;
        let with_extra = u64::from(!extra.is_empty());
        let mut fields = vec![2, flags | 2 | with_extra];
        if with_extra > 0 {
            fields.push(extra_length);
        }
        // The length of the content, the flag of its checksum, the length again, and the mode of a file.
        fields.extend([length, 4, length, 0o100_644]);
        let method_and_system = [0, 1, name.len() as u64];
        let rest = [
            &rar_checksum(content)[..],
            &method_and_system.into_iter().flat_map(vint_bytes).collect::<Vec<_>>(),
            name.as_bytes(),
            extra,
        ];
        archive.extend(block_head(&fields, &rest.concat()));
        archive.extend(*content);
    }
    archive.extend(block_head(&[5, 0, 0], &[]));
    archive
}

fn block_head(fields: &[u64], rest: &[u8]) -> Vec<u8> {
    let fields: Vec<u8> = fields.iter().copied().flat_map(vint_bytes).collect();
    let length = vint_bytes((fields.len() + rest.len()) as u64);
    let head = [&length, &fields[..], rest].concat();
    [&rar_checksum(&head)[..], &head].concat()
}

fn rar_checksum(bytes: &[u8]) -> [u8; 4] {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum().to_le_bytes()
}

/// Seven bits a byte, the lowest first.
fn vint_bytes(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            bytes.push(byte);
            return bytes;
        }
        bytes.push(byte | 0x80);
    }
}
