//! Passages, their places, and the marks by which answers cite them.

use std::fmt;

pub mod cited;
pub mod mark;

pub use cited::{CITED_MAX, CitationMarkers, NumberedCitation, VendorCitation, marker_position};
pub use mark::{
    CitationMark, DecidedPiece, MARK_MAX, MARK_NUMBERS_MAX, MarkReplacer, MarkdownPiece, Renumbered,
    Stripper, cited_numbers, decided_pieces, find_marks, renumber_marks, split_pieces, strip_marks,
};

/// The place of a passage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PassagePlace {
    /// In a file of the workspace.
    File {
        /// The workspace path: `/uploads/lease.pdf`.
        path: String,
        /// The page, from 1, in formats with pages.
        page: Option<u32>,
        /// The first and last line, from 1, in formats with lines.
        lines: Option<(u32, u32)>,
        /// The name of the page: of a sheet, or of a file in an archive with the page in it.
        page_name: Option<String>,
    },
    Web {
        url: String,
        title: String,
    },
}

/// The kind of a document's pages, by which people call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    Page,
    Slide,
    /// Of a workbook. Its lines are rows.
    Sheet,
    Section,
    File,
}

impl PageKind {
    /// Returns the kind of the pages of a file, by its extension.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
        match extension.as_deref() {
            Some(
                "xlsx" | "xlsm" | "xltx" | "xltm" | "xlsb" | "xls" | "xlt" | "ods" | "ots" | "sxc" | "fods"
                | "numbers",
            ) => Self::Sheet,
            Some(
                "pptx" | "pptm" | "ppsx" | "ppsm" | "potx" | "potm" | "ppt" | "pps" | "pot" | "odp" | "otp"
                | "sxi" | "fodp" | "odg" | "otg" | "fodg" | "key",
            ) => Self::Slide,
            Some("epub" | "ibooks" | "fb2" | "mobi" | "azw" | "azw3" | "prc" | "pdb") => Self::Section,
            Some(
                "zip" | "asice" | "asics" | "sce" | "scs" | "bdoc" | "7z" | "tar" | "tgz" | "tbz" | "tbz2"
                | "txz" | "tzst" | "gz" | "gzip" | "bz2" | "bz" | "xz" | "zst" | "zstd" | "rar" | "cab"
                | "lzh" | "lha" | "pst",
            ) => Self::File,
            _ => Self::Page,
        }
    }

    /// Returns true if lines are counted on each page.
    #[must_use]
    pub const fn has_lines(self) -> bool {
        matches!(self, Self::Sheet | Self::File)
    }
}

impl fmt::Display for PassagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, page, lines, page_name } => {
                f.write_str(path)?;
                if let Some(page) = page {
                    write!(f, ", page {page}")?;
                }
                if let Some(name) = page_name {
                    write!(f, " ({name})")?;
                }
                if let Some((first, last)) = lines {
                    write!(f, ", lines {first}-{last}")?;
                }
                Ok(())
            }
            Self::Web { url, title } => write!(f, "{title} <{url}>"),
        }
    }
}

/// A piece of text that a tool found, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    pub place: PassagePlace,
    pub text: String,
}

/// A passage with its number in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberedPassage {
    /// The number, from 1, by which the answer cites it.
    pub number: u32,
    pub place: PassagePlace,
    pub text: String,
}
