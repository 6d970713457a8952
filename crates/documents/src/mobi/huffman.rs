//! Unpacks the text of books that are packed by a dictionary: codes of different lengths represent phrases, which may be
//! packed too.

/// The bits of a number's place in the dictionary: the longest code.
const CODE_BITS: u32 = 32;
/// The maximum number of phrases of a dictionary.
const PHRASES_MAX: usize = 1 << 20;
/// The maximum nesting depth of packed phrases.
const DEPTH_MAX: u32 = 24;
/// The maximum number of codes that are read for one record, including the codes of packed phrases.
const CODES_MAX: u32 = 1 << 20;
/// The bit of a phrase's length that marks one that is not packed.
const IS_PLAIN: u16 = 0x8000;

pub(super) struct Huffman<'a> {
    /// For the first eight bits of a code: its length, whether that is certain, and its maximum code.
    by_byte: Vec<Short>,
    /// The minimum and maximum code of each length, in the upper bits.
    by_length: Vec<(u32, u32)>,
    /// The phrases, and whether they are not packed.
    phrases: Vec<(&'a [u8], bool)>,
}

#[derive(Clone, Copy)]
struct Short {
    length: u32,
    is_certain: bool,
    greatest: u32,
}

impl<'a> Huffman<'a> {
    /// Reads the record of the codes and the records of the phrases after it. Returns nothing if they are damaged.
    pub(super) fn from_records(records: &mut impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let codes = records.next().filter(|codes| codes.starts_with(b"HUFF"))?;
        let table = |at: usize, count: usize| -> Option<Vec<u32>> {
            let start = be_u32_at(codes, at)? as usize;
            (0..count).map(|index| be_u32_at(codes, start.checked_add(index * 4)?)).collect()
        };
        let by_byte = table(8, 256)?.into_iter().map(|entry| {
            let length = entry & 0x1f;
            let greatest = upper_end(entry >> 8, length)?;
            Some(Short { length, is_certain: entry & 0x80 != 0, greatest })
        });
        let by_byte = by_byte.collect::<Option<Vec<_>>>()?;
        let ends = table(12, 64)?;
        let by_length = ends.chunks_exact(2).zip(1..).map(|(ends, length)| {
            Some((ends[0].checked_shl(CODE_BITS - length)?, upper_end(ends[1], length)?))
        });
        let by_length = by_length.collect::<Option<Vec<_>>>()?;
        let mut phrases = Vec::new();
        for record in records.filter(|record| record.starts_with(b"CDIC")) {
            let all = (be_u32_at(record, 8)? as usize).min(PHRASES_MAX);
            let here = 1_usize.checked_shl(be_u32_at(record, 12)?)?.min(all.saturating_sub(phrases.len()));
            for index in 0..here {
                let start = 16 + usize::from(be_u16_at(record, 16 + index * 2)?);
                let length = be_u16_at(record, start)?;
                let phrase = record.get(start + 2..)?.get(..usize::from(length & !IS_PLAIN))?;
                phrases.push((phrase, length & IS_PLAIN != 0));
            }
        }
        (!phrases.is_empty()).then_some(Self { by_byte, by_length, phrases })
    }

    /// Unpacks a record. Returns nothing if it is damaged or unpacks to more than the limit.
    pub(super) fn unpack_record(&self, record: &[u8], max_bytes: usize) -> Option<Vec<u8>> {
        let mut unpacking = Unpacking { out: Vec::new(), max_bytes, codes_left: CODES_MAX };
        self.unpack_phrases(record, &mut unpacking, 0)?;
        Some(unpacking.out)
    }

    fn unpack_phrases(&self, packed: &[u8], unpacking: &mut Unpacking, depth: u32) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        let bits = packed.len() * 8;
        let mut at = 0;
        while at < bits {
            let code = bits_at(packed, at);
            let Short { mut length, is_certain, mut greatest } = self.by_byte[(code >> 24) as usize];
            if !is_certain {
                let longer = (length.max(1)..=CODE_BITS)
                    .find(|length| code >= self.by_length[*length as usize - 1].0)?;
                (length, greatest) = (longer, self.by_length[longer as usize - 1].1);
            }
            at += length as usize;
            // The padding bits of the last byte are not a code.
            if length == 0 || at > bits {
                return (length > 0).then_some(());
            }
            unpacking.codes_left = unpacking.codes_left.checked_sub(1)?;
            let place = greatest.checked_sub(code)? >> (CODE_BITS - length);
            let (phrase, is_plain) = *self.phrases.get(place as usize)?;
            if is_plain {
                unpacking.push_phrase(phrase)?;
            } else {
                self.unpack_phrases(phrase, unpacking, depth + 1)?;
            }
        }
        Some(())
    }
}

struct Unpacking {
    out: Vec<u8>,
    max_bytes: usize,
    codes_left: u32,
}

impl Unpacking {
    fn push_phrase(&mut self, phrase: &[u8]) -> Option<()> {
        self.out.extend_from_slice(phrase);
        (self.out.len() <= self.max_bytes).then_some(())
    }
}

/// Returns the maximum 32-bit number that begins with a code of this number of bits.
fn upper_end(code: u32, length: u32) -> Option<u32> {
    if length == 0 {
        return Some(0);
    }
    let end = (u64::from(code) + 1) << CODE_BITS.checked_sub(length)?;
    Some((end - 1) as u32)
}

/// Returns the 32 bits from a place on, with zeros after the end.
fn bits_at(bytes: &[u8], at: usize) -> u32 {
    let mut window = [0; 8];
    let rest = &bytes[at / 8..];
    let length = rest.len().min(5);
    window[..length].copy_from_slice(&rest[..length]);
    (u64::from_be_bytes(window) << (at % 8) >> CODE_BITS) as u32
}

fn be_u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    super::u32_at(bytes, at)
}

fn be_u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    super::u16_at(bytes, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dictionary in which each byte is a code: the last phrase is 0xff less its place.
    fn dictionary_records(phrases: &[(&[u8], bool)]) -> Vec<Vec<u8>> {
        let number = |number: usize| u32::try_from(number).expect("it is small").to_be_bytes();
        let mut codes = [b"HUFF".as_slice(), &[0; 4], &number(16), &number(16 + 1024)].concat();
        codes.extend([0xff_88_u32; 256].into_iter().flat_map(u32::to_be_bytes));
        codes.extend([0; 256]);
        let mut list = [b"CDIC".as_slice(), &[0; 4], &number(phrases.len()), &number(8)].concat();
        let mut texts = Vec::new();
        for (phrase, is_plain) in phrases {
            let at = u16::try_from(phrases.len() * 2 + texts.len()).expect("it is short");
            list.extend(at.to_be_bytes());
            let length = u16::try_from(phrase.len()).expect("it is short");
            texts.extend((length | if *is_plain { IS_PLAIN } else { 0 }).to_be_bytes());
            texts.extend_from_slice(phrase);
        }
        list.extend(texts);
        vec![codes, list]
    }

    fn unpack_with_phrases(phrases: &[(&[u8], bool)], record: &[u8]) -> Option<Vec<u8>> {
        let records = dictionary_records(phrases);
        let huffman = Huffman::from_records(&mut records.iter().map(Vec::as_slice)).expect("a dictionary");
        huffman.unpack_record(record, 64)
    }

    #[test]
    fn phrases_are_packed_in_each_other() {
        let phrases: [(&[u8], bool); 3] = [(b"a ", true), (b"wren", true), (&[0xff, 0xfe], false)];
        assert_eq!(unpack_with_phrases(&phrases, &[0xfd, 0xfe]).as_deref(), Some(&b"a wrenwren"[..]));
        assert_eq!(unpack_with_phrases(&phrases, &[0xfc]), None, "there is no fourth phrase");
    }

    #[test]
    fn huffman_recursive_and_long_phrases_refused() {
        assert_eq!(unpack_with_phrases(&[(&[0xff], false)], &[0xff]), None);
        assert_eq!(unpack_with_phrases(&[(b"wren", true)], &[0xff; 17]), None);
        // Two phrases that consist of each other's codes take no more time.
        assert_eq!(unpack_with_phrases(&[(b"", true), (&[0xff; 200], false)], &[0xfe; 60_000]), None);
    }

    #[test]
    fn huffman_cut_dictionary_is_none() {
        let records = dictionary_records(&[(b"wren", true)]);
        for end in 0..records[1].len() {
            let mut cut = [records[0].as_slice(), &records[1][..end]].into_iter();
            assert!(Huffman::from_records(&mut cut).is_none(), "{end}");
        }
        for end in 0..records[0].len() {
            let mut cut = [&records[0][..end], records[1].as_slice()].into_iter();
            assert!(Huffman::from_records(&mut cut).is_none(), "{end}");
        }
    }
}
