//! Distinguishes files with the same name in a ZIP archive; libraries know only the last one.

use std::collections::HashMap;

const END_MARK: &[u8] = b"PK\x05\x06";
const ENTRY_MARK: &[u8] = b"PK\x01\x02";
const END_BYTES: usize = 22;
const ENTRY_BYTES: usize = 46;

/// Returns an archive in which the second file of a name is called `name (2)`; `None` if its list cannot be read.
pub(super) fn rename_duplicates(bytes: &[u8]) -> Option<Vec<u8>> {
    let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let u32_at = |at: usize| usize::try_from(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok();
    let end = bytes.windows(END_MARK.len()).rposition(|window| window == END_MARK)?;
    let begin = end.checked_sub(u32_at(end + 12)?)?;
    let (mut at, mut list, mut seen) = (begin, Vec::new(), HashMap::<Vec<u8>, u32>::new());
    while bytes.get(at..)?.starts_with(ENTRY_MARK) {
        let (name, rest) = (u16_at(at + 28)?, u16_at(at + 30)? + u16_at(at + 32)?);
        let written = bytes.get(at + ENTRY_BYTES..at + ENTRY_BYTES + name)?;
        let count = seen.entry(written.to_vec()).or_default();
        *count += 1;
        let number = *count;
        let name_written = if number > 1 { numbered_name(written, number) } else { written.to_vec() };
        let mut head = bytes.get(at..at + ENTRY_BYTES)?.to_vec();
        head.splice(28..30, u16::try_from(name_written.len()).ok()?.to_le_bytes());
        list.extend(head);
        list.extend(name_written);
        at += ENTRY_BYTES + name;
        list.extend(bytes.get(at..at + rest)?);
        at += rest;
    }
    let mut out = bytes[..begin].to_vec();
    let size = u32::try_from(list.len()).ok()?;
    out.extend(list);
    let mut tail = bytes.get(end..end + END_BYTES)?.to_vec();
    tail.splice(12..16, size.to_le_bytes());
    // Without the comment.
    tail.splice(20..22, [0, 0]);
    out.extend(tail);
    Some(out)
}

/// Returns a name with a number before its extension.
fn numbered_name(name: &[u8], number: u32) -> Vec<u8> {
    let file = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let dot = name[file..].iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
    let dot = dot.map_or(name.len(), |dot| file + dot);
    [&name[..dot], format!(" ({number})").as_bytes(), &name[dot..]].concat()
}
