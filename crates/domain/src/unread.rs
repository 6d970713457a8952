//! Attached files that could not be read, and the sentence that reports them in an answer.
//!
//! The machine reports a reason from a closed set, never free text. So the only untrusted text that enters an answer
//! this way is the name of a file that the user attached.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::shown_name::shown_name;

/// The maximum number of unread files of one result.
pub const UNREAD_MAX: usize = 100;
/// The maximum number of files that an answer names; the rest are counted.
const NAMED_MAX: usize = 20;
/// The longest name that an answer shows, in characters.
const NAME_MAX_CHARS: usize = 120;

/// A file that could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadFile {
    pub path: String,
    pub reason: UnreadReason,
}

/// The reasons why a file could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnreadReason {
    /// It needs a password.
    Encrypted,
    /// It contains no text, for example a scan.
    NoText,
    /// Its format is not supported.
    UnknownForm,
    /// It exceeds the size limit, possibly only when unpacked.
    TooLarge,
    Broken,
    /// Reading it took longer than allowed.
    TooSlow,
    /// Reading it took more memory than allowed.
    TooMuchMemory,
    /// It is an image, and the model reads text only.
    Image,
    /// It no longer exists, or is outside of the workspace.
    Missing,
    /// The index does not contain all of it yet.
    Indexing,
    /// Only the beginning was read: the file exceeds the limit on the text of a document.
    Long,
    /// Some of its pages are images without recognized text.
    ScannedPages,
    /// Some of the files in it (an archive or a message) were not read, or only in part.
    InnerFiles,
    /// The text of images inside it was not read.
    Images(UnreadImages),
}

/// The reasons why the text of an image inside a document was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnreadImage {
    /// It has too many pixels or bytes.
    TooLarge,
    /// Recognizing it, or all images of the document, took longer than allowed.
    TooSlow,
    /// It comes after the maximum number of images that are read of a document.
    TooMany,
    /// It could not be recognized, for example because it is damaged.
    Failed,
}

impl UnreadImage {
    pub const ALL: [Self; 4] = [Self::TooLarge, Self::TooSlow, Self::TooMany, Self::Failed];

    const fn reason_phrase(self) -> &'static str {
        match self {
            Self::TooLarge => "too large",
            Self::TooSlow => "took too long",
            Self::TooMany => "too many",
            Self::Failed => "not recognizable",
        }
    }
}

/// The number of images inside a document whose text was not read, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UnreadImages([u32; UnreadImage::ALL.len()]);

impl UnreadImages {
    pub const NONE: Self = Self([0; UnreadImage::ALL.len()]);

    /// Creates the counts of images with the same reason.
    #[must_use]
    pub fn of_reason(reason: UnreadImage, images: u32) -> Self {
        let mut counts = Self::NONE;
        counts.add_images(reason, images);
        counts
    }

    /// Creates the counts from numbers in the order of [`UnreadImage::ALL`].
    #[must_use]
    pub const fn from_counts(counts: [u32; UnreadImage::ALL.len()]) -> Self {
        Self(counts)
    }

    /// Returns the numbers in the order of [`UnreadImage::ALL`].
    #[must_use]
    pub const fn to_counts(self) -> [u32; UnreadImage::ALL.len()] {
        self.0
    }

    pub fn add_images(&mut self, reason: UnreadImage, images: u32) {
        let count = &mut self.0[reason as usize];
        *count = count.saturating_add(images);
    }

    /// Adds the counts of others.
    pub fn add_all(&mut self, others: Self) {
        others.by_reason().for_each(|(reason, images)| self.add_images(reason, images));
    }

    /// Returns the reasons with the numbers that are not zero.
    pub fn by_reason(self) -> impl Iterator<Item = (UnreadImage, u32)> {
        UnreadImage::ALL.into_iter().zip(self.0).filter(|(_, images)| *images > 0)
    }

    /// Returns true if all files were read.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// Returns the number of images.
    #[must_use]
    pub fn total_images(self) -> u32 {
        self.0.into_iter().fold(0, u32::saturating_add)
    }

    /// Parses the counts of [`UnreadReason`]'s text form.
    fn parse_counts(counts: &str) -> Option<Self> {
        let counts: Vec<u32> =
            counts.split(',').map(str::parse).collect::<Result<_, std::num::ParseIntError>>().ok()?;
        counts.try_into().ok().map(Self)
    }
}

/// The numbers with their reasons, in words.
impl fmt::Display for UnreadImages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, images)) in self.by_reason().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {images}", reason.reason_phrase())?;
        }
        Ok(())
    }
}

impl UnreadReason {
    pub const ALL: [Self; 14] = [
        Self::Encrypted,
        Self::NoText,
        Self::UnknownForm,
        Self::TooLarge,
        Self::Broken,
        Self::TooSlow,
        Self::TooMuchMemory,
        Self::Image,
        Self::Missing,
        Self::Indexing,
        Self::Long,
        Self::ScannedPages,
        Self::InnerFiles,
        Self::Images(UnreadImages::NONE),
    ];

    /// Returns the code for programs, in lower snake case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::NoText => "no_text",
            Self::UnknownForm => "unknown_form",
            Self::TooLarge => "too_large",
            Self::Broken => "broken",
            Self::TooSlow => "too_slow",
            Self::TooMuchMemory => "too_much_memory",
            Self::Image => "image",
            Self::Missing => "missing",
            Self::Indexing => "indexing",
            Self::Long => "long",
            Self::ScannedPages => "scanned_pages",
            Self::InnerFiles => "inner_files",
            Self::Images(_) => "images",
        }
    }

    /// Returns the reason with this code, or with this text form.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        match code.split_once(':') {
            Some(("images", counts)) => UnreadImages::parse_counts(counts).map(Self::Images),
            // Of an earlier release, which read only the names of the files.
            None if code == "archive" => Some(Self::InnerFiles),
            _ => Self::ALL.into_iter().find(|reason| reason.code() == code),
        }
    }

    /// Returns the reason for people, as the end of a sentence about the file.
    #[must_use]
    pub fn to_phrase(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Encrypted => "could not be read: it is encrypted and needs a password",
            Self::NoText => {
                "could not be read: it holds no text, such as a scan whose text was not recognized"
            }
            Self::UnknownForm => "could not be read: its format is not supported",
            Self::TooLarge => "could not be read: it is too large",
            Self::Broken => "could not be read: the file is damaged",
            Self::TooSlow => "could not be read whole: reading it takes too long",
            Self::TooMuchMemory => "could not be read: reading it takes too much memory",
            Self::Image => "could not be read: it is an image, and this model reads text only",
            Self::Missing => "could not be read: it is no longer in the workspace",
            Self::Indexing => "was not searched to its end: it is still being indexed, so ask again later",
            Self::Long => "was read only in part: it exceeds the limit on the text of a document",
            Self::ScannedPages => {
                "was read only in part: some of its pages are scans whose text was not recognized"
            }
            Self::InnerFiles => "was read only in part: some of the files in it could not be read",
            Self::Images(images) => {
                return Cow::Owned(format!(
                    "was read without the text of {} of the images in it ({images})",
                    images.total_images()
                ));
            }
        })
    }
}

/// The text form, for programs: the code, with the counts of images, such as `images:2,0,1,0`.
impl fmt::Display for UnreadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())?;
        if let Self::Images(UnreadImages(counts)) = self {
            let [first, rest @ ..] = counts;
            write!(f, ":{first}")?;
            rest.iter().try_for_each(|count| write!(f, ",{count}"))?;
        }
        Ok(())
    }
}

/// Returns the paragraph of Markdown that lists the files with reasons; `None` without unread files.
#[must_use]
pub fn unread_files_note(files: &[UnreadFile]) -> Option<String> {
    let mut out = match files {
        [] => return None,
        [file] => {
            return Some(format!(
                "The attached file {} {}.",
                format_file_name(&file.path),
                file.reason.to_phrase()
            ));
        }
        _ => "Not all attached files could be read:\n".to_owned(),
    };
    for file in files.iter().take(NAMED_MAX) {
        let _ = write!(out, "\n- {} {}.", format_file_name(&file.path), file.reason.to_phrase());
    }
    if files.len() > NAMED_MAX {
        // Files beyond the limit are not counted.
        let least = if files.len() >= UNREAD_MAX { "at least " } else { "" };
        let _ = write!(out, "\n- {least}{} more.", files.len() - NAMED_MAX);
    }
    Some(out)
}

/// Formats the file's name as code, so that its characters have no meaning in Markdown.
fn format_file_name(path: &str) -> String {
    let name = path.rsplit('/').find(|name| !name.is_empty()).unwrap_or(path);
    let shown: String = shown_name(name).chars().take(NAME_MAX_CHARS).collect();
    let longest = shown.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 || shown.trim().is_empty() { " " } else { "" };
    format!("{fence}{space}{shown}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_release_code_is_known() {
        assert_eq!(UnreadReason::of_code("archive"), Some(UnreadReason::InnerFiles));
        for reason in UnreadReason::ALL {
            assert_eq!(UnreadReason::of_code(reason.code()), Some(reason));
        }
    }

    fn unread_file(path: &str, reason: UnreadReason) -> UnreadFile {
        UnreadFile { path: path.to_owned(), reason }
    }

    #[test]
    fn unread_note_names_each_file() {
        assert_eq!(unread_files_note(&[]), None);
        assert_eq!(
            unread_files_note(&[unread_file("/uploads/.tmp/4f/a_b.pdf", UnreadReason::Encrypted)]).as_deref(),
            Some("The attached file `a_b.pdf` could not be read: it is encrypted and needs a password.")
        );
        let many: Vec<_> =
            (0..30).map(|n| unread_file(&format!("/{n}.pdf"), UnreadReason::Indexing)).collect();
        let note = unread_files_note(&many).expect("a note");
        assert!(note.contains("\n- `19.pdf` was not searched to its end") && !note.contains("`20.pdf`"));
        assert!(note.ends_with("\n- 10 more."), "{note}");
    }

    #[test]
    fn names_mean_nothing_in_markdown() {
        assert_eq!(format_file_name("/a/x`` [1](javascript:x)\n# b"), "``` x`` [1](javascript:x) # b ```");
        assert_eq!(format_file_name("/"), "`/`");
        assert_eq!(format_file_name("/a/invoice\u{202e}fdp.txt"), "`invoice\u{fffd}fdp.txt`");
        assert_eq!(format_file_name("/a/ \u{a0}"), "`\u{2423}\u{2423}`", "it is seen");
    }

    #[test]
    fn codes_are_read_back() {
        for reason in UnreadReason::ALL {
            assert_eq!(UnreadReason::of_code(reason.code()), Some(reason));
        }
        assert_eq!(UnreadReason::of_code("other"), None);
        let images = UnreadReason::Images(UnreadImages::from_counts([2, 0, 1, 40]));
        assert_eq!(images.to_string(), "images:2,0,1,40");
        assert_eq!(UnreadReason::of_code(&images.to_string()), Some(images));
        for odd in ["images:", "images:1,2,3", "images:1,2,3,x", "encrypted:1"] {
            assert_eq!(UnreadReason::of_code(odd), None, "{odd}");
        }
    }

    #[test]
    fn images_are_counted_by_reason() {
        let mut images = UnreadImages::from_counts([1, 1, 0, 0]);
        images.add_images(UnreadImage::TooSlow, u32::MAX);
        assert_eq!(images.total_images(), u32::MAX, "no number overflows");
        let note = unread_files_note(&[unread_file(
            "/a.docx",
            UnreadReason::Images(UnreadImages::from_counts([1, 2, 0, 0])),
        )]);
        assert_eq!(
            note.as_deref(),
            Some(
                "The attached file `a.docx` was read without the text of 3 of the images in it (too large: 1, took too \
                 long: 2)."
            )
        );
    }
}
