//! The formats of documents that are read.

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// Plain text, also source code and data.
    Text,
    Markdown,
    /// Comma- or tab-separated values, one row per line.
    Table,
    Html,
    Pdf,
    Docx,
    /// A text document of LibreOffice (OpenDocument).
    Odt,
    /// A text document of Pages.
    Pages,
    /// A workbook: each sheet counts as a page and its rows as lines.
    Workbook,
    Rtf,
    /// A document of Word 97 to 2003.
    Doc,
    /// A presentation: each slide counts as a page.
    Presentation,
    /// A drawing of several pages.
    Drawing,
    Xps,
    Djvu,
    /// An electronic book: each file of its reading order, or each of its sections, counts as a page.
    Book,
    /// A message with its attachments.
    Message,
    /// The files in an archive: each counts as a page.
    Archive,
}

impl DocumentFormat {
    /// Returns the display name of the format.
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
            Self::Pages => "Pages",
            Self::Workbook => "workbook",
            Self::Rtf => "RTF",
            Self::Doc => "DOC",
            Self::Presentation => "presentation",
            Self::Drawing => "drawing",
            Self::Xps => "XPS",
            Self::Djvu => "DjVu",
            Self::Book => "book",
            Self::Message => "message",
            Self::Archive => "archive",
        }
    }

    /// Returns the word for a page of the format.
    #[must_use]
    pub const fn page_word(self) -> &'static str {
        match self {
            Self::Workbook => "sheet",
            Self::Presentation => "slide",
            Self::Book => "section",
            Self::Archive => "file",
            Self::Text
            | Self::Markdown
            | Self::Table
            | Self::Html
            | Self::Pdf
            | Self::Docx
            | Self::Drawing
            | Self::Odt
            | Self::Pages
            | Self::Rtf
            | Self::Doc
            | Self::Xps
            | Self::Djvu
            | Self::Message => "page",
        }
    }

    /// Returns true if other files lie in it.
    #[must_use]
    pub const fn holds_files(self) -> bool {
        matches!(self, Self::Archive | Self::Message)
    }

    /// Returns true if its paragraphs may be rows of tables, with tabs between the cells.
    pub(super) const fn has_tables(self) -> bool {
        matches!(
            self,
            Self::Html
                | Self::Pdf
                | Self::Docx
                | Self::Odt
                | Self::Pages
                | Self::Rtf
                | Self::Doc
                | Self::Presentation
                | Self::Book
                | Self::Message
        )
    }

    /// Returns true if lines may end in the middle of a sentence because they are wrapped.
    pub(super) const fn is_wrapped(self) -> bool {
        matches!(self, Self::Text | Self::Markdown | Self::Xps | Self::Djvu)
    }
}
