//! Archives that a program of the machine unpacks, because no reader here supports them: RAR, cabinets, LHA. The program converts
//! them to tar. It accepts parts of archives, encrypted files and missing ends silently, so the headers are checked before.

use super::ExtractError;

mod rar;

/// The beginning of a file by which such an archive is recognized, in bytes.
pub const HEAD_BYTES: usize = 21;
/// The maximum number of bytes that a program may unpack of one archive. It is kept in memory.
pub const UNPACKED_MAX_BYTES: u64 = 128 * 1024 * 1024;

/// The format of an archive that a program unpacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignFormat {
    Rar,
    Cabinet,
    Lha,
}

impl ForeignFormat {
    /// Returns the format by the beginning of a file, up to [`HEAD_BYTES`] of it.
    pub fn from_signature(head: &[u8]) -> Option<Self> {
        // The bytes after a cabinet's signature are reserved and zero.
        if head.starts_with(b"MSCF\0\0\0\0") {
            return Some(Self::Cabinet);
        }
        if let [_, _, b'-', b'l', b'h' | b'z', method, b'-', ..] = head
            && method.is_ascii_alphanumeric()
            && head.get(20).is_some_and(|version| *version <= 3)
        {
            return Some(Self::Lha);
        }
        rar::is_rar(head).then_some(Self::Rar)
    }

    /// Returns the name of the format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rar => "RAR",
            Self::Cabinet => "CAB",
            Self::Lha => "LHA",
        }
    }

    /// Returns the words for an archive of the format.
    pub const fn archive_description(self) -> &'static str {
        match self {
            Self::Rar => "a RAR archive",
            Self::Cabinet => "a cabinet",
            Self::Lha => "an LHA archive",
        }
    }

    /// Returns the error of an archive that is not unpacked.
    pub const fn unsupported_error(self) -> ExtractError {
        ExtractError::Unsupported { kind: self.archive_description(), remedy: "pack its files as ZIP" }
    }

    /// Checks the problems of an archive that the program would not report.
    ///
    /// # Errors
    /// Fails for a multi-part archive, an archive with an encrypted file, and a truncated one.
    pub fn check_archive(self, bytes: &[u8]) -> Result<(), ExtractError> {
        match self {
            Self::Rar => rar::check_rar(bytes),
            Self::Cabinet => check_cabinet(bytes),
            Self::Lha => Ok(()),
        }
    }
}

/// The files of an archive as a program has unpacked them.
#[derive(Debug)]
pub struct UnpackedArchive {
    pub format: ForeignFormat,
    /// A tar archive, at most [`UNPACKED_MAX_BYTES`]. The last file in it may be cut off.
    pub tar: Vec<u8>,
    /// True if the program unpacked everything without an error.
    pub is_whole: bool,
}

/// The error of an archive that ends too early.
fn cut_off(format: ForeignFormat) -> ExtractError {
    ExtractError::broken_file(format.name(), "its end is missing")
}

fn check_cabinet(bytes: &[u8]) -> Result<(), ExtractError> {
    /// The flags of a cabinet that continues another one, or is continued.
    const HAS_OTHERS: u8 = 0b11;
    if bytes.get(30).is_some_and(|flags| flags & HAS_OTHERS != 0) {
        return Err(ExtractError::Unsupported {
            kind: "one of several parts of a cabinet",
            remedy: "unpack them together and pack the files as ZIP",
        });
    }
    let declared = bytes.get(8..12).and_then(|field| field.first_chunk()).copied().map(u32::from_le_bytes);
    match declared {
        Some(declared) if u64::from(declared) <= bytes.len() as u64 => Ok(()),
        _ => Err(cut_off(ForeignFormat::Cabinet)),
    }
}
