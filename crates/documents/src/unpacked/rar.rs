//! The heads of RAR archives, of versions 4 and 5: whether the archive has further parts, encrypted files, and an end.

use super::{ForeignFormat, cut_off};
use crate::ExtractError;

const SIGNATURE_4: &[u8] = b"Rar!\x1a\x07\0";
const SIGNATURE_5: &[u8] = b"Rar!\x1a\x07\x01\0";

/// The meaning of a block for the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RarBlock {
    /// The archive, or a file, is one of several parts.
    Part,
    /// A file, or everything that follows, is encrypted.
    Encrypted,
    /// The end of the archive.
    End,
    /// Anything else, with the length of the block and its content.
    Other { bytes: u64 },
}

pub(super) fn is_rar(head: &[u8]) -> bool {
    head.starts_with(SIGNATURE_4) || head.starts_with(SIGNATURE_5)
}

/// Fails for a multi-part archive, an archive with an encrypted file, and a truncated one.
pub(super) fn check_rar(bytes: &[u8]) -> Result<(), ExtractError> {
    let (mut left, is_version_5) = match bytes.strip_prefix(SIGNATURE_5) {
        Some(blocks) => (blocks, true),
        None => (bytes.strip_prefix(SIGNATURE_4).unwrap_or_default(), false),
    };
    // Archives of version 4 may have no block at their end.
    while is_version_5 || !left.is_empty() {
        let block = if is_version_5 { block_5(left) } else { block_4(left) };
        let rest = match block.ok_or_else(|| cut_off(ForeignFormat::Rar))? {
            RarBlock::Part => {
                return Err(ExtractError::Unsupported {
                    kind: "one of several parts of a RAR archive",
                    remedy: "unpack them together and pack the files as ZIP",
                });
            }
            RarBlock::Encrypted => return Err(ExtractError::Encrypted(ForeignFormat::Rar.name())),
            RarBlock::End => return Ok(()),
            RarBlock::Other { bytes } => usize::try_from(bytes).ok().and_then(|bytes| left.get(bytes..)),
        };
        left = rest.ok_or_else(|| cut_off(ForeignFormat::Rar))?;
    }
    Ok(())
}

/// Reads a block of version 4; `None` if it is cut off.
fn block_4(bytes: &[u8]) -> Option<RarBlock> {
    /// The kinds of blocks, and their flags.
    const ARCHIVE: u8 = 0x73;
    const FILE: u8 = 0x74;
    const END: u8 = 0x7b;
    const ARCHIVE_IS_PART: u16 = 0x01;
    const ARCHIVE_IS_ENCRYPTED: u16 = 0x80;
    const FILE_IS_PART: u16 = 0x03;
    const FILE_IS_ENCRYPTED: u16 = 0x04;
    const FILE_IS_LARGE: u16 = 0x0100;
    const HAS_CONTENT: u16 = 0x8000;
    /// The length of every head, and the place of the upper half of a large file's length.
    const HEAD_BYTES: u16 = 7;
    const LARGE_AT: usize = 32;

    let word = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u16::from_le_bytes);
    let double = |at: usize| bytes.get(at..)?.first_chunk().copied().map(u32::from_le_bytes);
    let (kind, flags, head_bytes) = (*bytes.get(2)?, word(3)?, word(5)?);
    match kind {
        END => return Some(RarBlock::End),
        ARCHIVE if flags & ARCHIVE_IS_PART != 0 => return Some(RarBlock::Part),
        ARCHIVE if flags & ARCHIVE_IS_ENCRYPTED != 0 => return Some(RarBlock::Encrypted),
        FILE if flags & FILE_IS_PART != 0 => return Some(RarBlock::Part),
        FILE if flags & FILE_IS_ENCRYPTED != 0 => return Some(RarBlock::Encrypted),
        _ => {}
    }
    let has_content = kind == FILE || flags & HAS_CONTENT != 0;
    let low = if has_content { u64::from(double(usize::from(HEAD_BYTES))?) } else { 0 };
    let is_large = kind == FILE && flags & FILE_IS_LARGE != 0;
    let high = if is_large { u64::from(double(LARGE_AT)?) } else { 0 };
    // A damaged header may declare zero bytes.
    Some(RarBlock::Other { bytes: (low | high << 32).saturating_add(u64::from(head_bytes.max(HEAD_BYTES))) })
}

/// Reads a block of version 5; `None` if it is cut off.
fn block_5(bytes: &[u8]) -> Option<RarBlock> {
    /// The kinds of blocks, and their flags.
    const ARCHIVE: u64 = 1;
    const FILE: u64 = 2;
    const ENCRYPTION: u64 = 4;
    const END: u64 = 5;
    const ARCHIVE_IS_PART: u64 = 1;
    const HAS_EXTRA: u64 = 1;
    const HAS_CONTENT: u64 = 2;
    const CONTENT_IS_PART: u64 = 0x18;
    /// The checksum before a head.
    const CHECKSUM_BYTES: u64 = 4;

    let mut head = bytes.get(CHECKSUM_BYTES as usize..)?;
    let head_bytes = take_vint(&mut head)?;
    let length_bytes = (bytes.len() - head.len()) as u64;
    let mut head = head.get(..usize::try_from(head_bytes).ok()?)?;
    let (kind, flags) = (take_vint(&mut head)?, take_vint(&mut head)?);
    let extra_bytes = if flags & HAS_EXTRA != 0 { take_vint(&mut head)? } else { 0 };
    let content_bytes = if flags & HAS_CONTENT != 0 { take_vint(&mut head)? } else { 0 };
    match kind {
        END => return Some(RarBlock::End),
        ENCRYPTION => return Some(RarBlock::Encrypted),
        ARCHIVE if take_vint(&mut head)? & ARCHIVE_IS_PART != 0 => return Some(RarBlock::Part),
        FILE if flags & CONTENT_IS_PART != 0 => return Some(RarBlock::Part),
        FILE => {
            let extra_at = head.len().checked_sub(usize::try_from(extra_bytes).ok()?)?;
            if is_encrypted(&head[extra_at..]) {
                return Some(RarBlock::Encrypted);
            }
        }
        _ => {}
    }
    Some(RarBlock::Other { bytes: content_bytes.saturating_add(length_bytes).saturating_add(head_bytes) })
}

/// Returns true if the extra records of a file include an encryption record.
fn is_encrypted(mut records: &[u8]) -> bool {
    const ENCRYPTION: u64 = 1;
    while let Some(bytes) = take_vint(&mut records) {
        let record = usize::try_from(bytes).ok().and_then(|bytes| records.split_at_checked(bytes));
        let Some((mut record, rest)) = record else { return false };
        if take_vint(&mut record) == Some(ENCRYPTION) {
            return true;
        }
        records = rest;
    }
    false
}

/// Takes a number off the front: seven bits a byte, the lowest first, with a continuation bit.
fn take_vint(bytes: &mut &[u8]) -> Option<u64> {
    const BYTES_MAX: usize = 10;
    let mut value = 0_u64;
    for place in 0..BYTES_MAX {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(u32::try_from(place * 7).ok()?)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
