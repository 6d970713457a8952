//! Documents as text: what the tools read and the index holds.
//!
//! [`extract`] gives the text of a file in segments that know their page or their lines, [`passages`] cuts
//! the segments into pieces that can be quoted and cited. A format is told by its content first and by its
//! name only where the content leaves it open.
//!
//! Files are hostile. Nothing here guards the process against a parser that eats memory or time: callers
//! in the agent run it in a worker (see [`crate::worker`]), which has limits and can be killed.

use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use domain::unread::UnreadReason;
use serde::{Deserialize, Serialize};

mod archive;
mod clause;
mod detect;
mod html;
mod numbering;
mod odt;
mod output;
pub mod passages;
mod pdf;
mod rtf;
mod sheet;
mod text;
mod word;

/// The largest file that is read, in bytes.
pub const INPUT_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The most text that one document gives, in bytes; what follows is left out and said so.
pub const OUTPUT_MAX_BYTES: usize = 8 * 1024 * 1024;
/// The most pages that are read of one document.
pub const PAGES_MAX: u32 = 5_000;
/// Counts what changes in how documents are read: what failed under another version is tried again.
pub const READER_VERSION: i64 = 1;

/// How a document was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Plain text, also source code and data.
    Text,
    /// Markdown.
    Markdown,
    /// Values separated by commas or tabs, a row a line.
    Table,
    /// HTML.
    Html,
    /// PDF.
    Pdf,
    /// A Word document.
    Docx,
    /// A text of LibreOffice and its kin.
    Odt,
    /// A workbook: each sheet counts as a page, its rows as lines.
    Workbook,
    /// Rich text.
    Rtf,
}

impl Format {
    /// What the format is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markdown => "Markdown",
            Self::Table => "table",
            Self::Html => "HTML",
            Self::Pdf => "PDF",
            Self::Docx => "DOCX",
            Self::Odt => "ODT",
            Self::Workbook => "workbook",
            Self::Rtf => "RTF",
        }
    }

    /// What a page of the format is called, in one word.
    #[must_use]
    pub const fn page_word(self) -> &'static str {
        match self {
            Self::Workbook => "sheet",
            Self::Text
            | Self::Markdown
            | Self::Table
            | Self::Html
            | Self::Pdf
            | Self::Docx
            | Self::Odt
            | Self::Rtf => "page",
        }
    }

    /// Whether a line may end in the middle of a sentence because it was full.
    const fn is_wrapped(self) -> bool {
        matches!(self, Self::Text | Self::Markdown)
    }
}

/// The text of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extracted {
    /// How it was read.
    pub format: Format,
    /// Its text in reading order. Empty segments do not occur.
    pub segments: Vec<Segment>,
    /// How many pages (or sheets) it has, where it has any.
    pub pages: Option<u32>,
    /// How many lines, where they are counted through the document.
    pub lines: Option<u32>,
    /// Whether text was left out beyond [`OUTPUT_MAX_BYTES`] or [`PAGES_MAX`].
    pub truncated: bool,
    /// What could not be read, in words, such as a broken page.
    pub notes: Vec<String>,
    /// Which pages were read, where they can be read one by one; `None` when the document was read as a whole.
    pub span: Option<Span>,
}

/// The pages that were read of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first one, from 1.
    pub first: u32,
    /// The last one; below `first` when none was.
    pub last: u32,
    /// How many the document has, at most [`PAGES_MAX`].
    pub of: u32,
}

/// Which part of a document is read. Formats whose pages cannot be read one by one are read as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The page to begin at, from 1.
    pub first_page: u32,
    /// The page to end with.
    pub last_page: u32,
    /// Text after which no further page is begun, in bytes.
    pub text_max_bytes: usize,
    /// The time after which no further page is begun. One is read whatever the time.
    pub until: Option<Instant>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { first_page: 1, last_page: u32::MAX, text_max_bytes: OUTPUT_MAX_BYTES, until: None }
    }
}

/// A run of text in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The page, from 1, where the format has pages.
    pub page: Option<u32>,
    /// The first and last line of the text, from 1 and inclusive, where the format has lines.
    pub lines: Option<(u32, u32)>,
    /// The heading above the text, where the format marks headings.
    pub heading: Option<String>,
    /// The text; lines end with `\n`, without one at the end. No control characters but `\n` and `\t`.
    pub text: String,
}

/// Why a file gives no text.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// It could not be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// It is larger than [`INPUT_MAX_BYTES`].
    #[error("the file has {size} bytes; documents are read up to {INPUT_MAX_BYTES} bytes")]
    TooLarge {
        /// Its size in bytes.
        size: u64,
    },
    /// It is no document.
    #[error("the file is binary ({kind}, {size} bytes) and has no text to read")]
    Binary {
        /// What it seems to be.
        kind: &'static str,
        /// Its size in bytes.
        size: u64,
    },
    /// It is a document in a form that is not read.
    #[error("{kind} cannot be read; {remedy}")]
    Unsupported {
        /// What it is.
        kind: &'static str,
        /// What helps.
        remedy: &'static str,
    },
    /// It needs a password.
    #[error("the {0} file is encrypted and needs a password")]
    Encrypted(&'static str),
    /// It has pages, but no text on them.
    #[error("the PDF has {pages} pages without any text, probably scanned images")]
    NoText {
        /// How many pages.
        pages: u32,
    },
    /// It unpacks to more than any honest document.
    #[error("the file unpacks to more than {bound} bytes and is not read")]
    Bomb {
        /// The bound that it broke.
        bound: u64,
    },
    /// It does not hold to its format.
    #[error("the {format} file is broken: {reason}")]
    Broken {
        /// What it should be.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
}

impl ExtractError {
    /// The kind of reason, for programs.
    #[must_use]
    pub fn reason(&self) -> UnreadReason {
        match self {
            Self::TooLarge { .. } | Self::Bomb { .. } => UnreadReason::TooLarge,
            Self::Binary { kind, .. } if kind.contains("image") => UnreadReason::Image,
            Self::Binary { .. } | Self::Unsupported { .. } => UnreadReason::UnknownForm,
            Self::Encrypted(_) => UnreadReason::Encrypted,
            Self::NoText { .. } => UnreadReason::NoText,
            Self::Read(_) | Self::Broken { .. } => UnreadReason::Broken,
        }
    }

    fn broken(format: &'static str, reason: impl std::fmt::Display) -> Self {
        let mut reason = reason.to_string().replace(char::is_control, " ");
        reason.truncate(reason.floor_char_boundary(REASON_MAX_BYTES));
        Self::Broken { format, reason }
    }
}

/// The longest reason that a parser's error may give.
const REASON_MAX_BYTES: usize = 300;

/// The text of the file. `path` is only looked at for its extension.
///
/// # Errors
/// When the file is too large, binary, encrypted, broken, or in a form that is not read.
pub fn extract(path: &Path, file: File) -> Result<Extracted, ExtractError> {
    extract_part(path, file, &Bounds::default())
}

/// The text of a part of the file, as far as its format can be read in parts.
///
/// # Errors
/// As [`extract`].
pub fn extract_part(path: &Path, file: File, bounds: &Bounds) -> Result<Extracted, ExtractError> {
    let size = file.metadata()?.len();
    if size > INPUT_MAX_BYTES {
        return Err(ExtractError::TooLarge { size });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    file.take(INPUT_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_MAX_BYTES {
        return Err(ExtractError::TooLarge { size: bytes.len() as u64 });
    }
    extract_bytes_part(path, &bytes, bounds)
}

/// The text of a file's content.
///
/// # Errors
/// As [`extract`].
pub fn extract_bytes(path: &Path, bytes: &[u8]) -> Result<Extracted, ExtractError> {
    extract_bytes_part(path, bytes, &Bounds::default())
}

fn extract_bytes_part(path: &Path, bytes: &[u8], bounds: &Bounds) -> Result<Extracted, ExtractError> {
    use detect::Content;
    match detect::content(path, bytes)? {
        Content::Pdf => pdf::extract(bytes, bounds),
        Content::Docx(archive) => guarded("DOCX", || word::extract(archive)),
        Content::Odt(archive) => guarded("ODT", || odt::extract(archive)),
        Content::Workbook(kind) => guarded("workbook", || sheet::extract(bytes, kind)),
        Content::Rtf => guarded("RTF", || Ok(rtf::extract(bytes))),
        Content::Html => guarded("HTML", || Ok(html::extract(bytes))),
        Content::Plain(format) => text::extract(bytes, format),
    }
}

/// A parser's panic, by which some libraries answer odd files, becomes an error.
fn guarded(
    format: &'static str,
    parse: impl FnOnce() -> Result<Extracted, ExtractError>,
) -> Result<Extracted, ExtractError> {
    catch_unwind(AssertUnwindSafe(parse))
        .unwrap_or_else(|_| Err(ExtractError::broken(format, "its parser gave up")))
}
