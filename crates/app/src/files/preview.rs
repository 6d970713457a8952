//! The page of a file: its text, table or picture, as far as that can be shown safely.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use control::UseCaseError;
use domain::citation::PassagePlace;
use domain::text_format::{PlainText, TextFormat};
use futures_util::TryStreamExt;
use workspace::{OpenFile, WorkspaceError};

use super::FilePages;
use super::document::{DocumentOutcome, DocumentView, PageView};
use super::folder::{Crumb, folder_crumbs, folder_href};
use super::indexing::{IndexingView, file_indexing};
use super::passage::MarkedText;
use super::table::{PreviewTable, parse_table};
use crate::cited::CitedPassage;
use crate::error;
use crate::frame::PageFrame;
use crate::links::shown_name;
use crate::shown_size::shown_size;
use crate::shown_time::ShownTime;
use crate::visit::SignedInVisitor;

/// The beginning of a file that is shown.
const SHOWN_MAX_BYTES: u64 = 256 << 10;

/// The part of a long text in which a cited line is looked for.
const SCANNED_MAX_BYTES: u64 = 64 << 20;
/// The lines that are shown before a cited one of a long text.
const LINES_BEFORE: u32 = 100;

/// The part of a file that is shown.
enum Preview {
    /// Safe HTML of Markdown.
    Markdown(String),
    Text(MarkedText),
    Table(PreviewTable),
    /// The address of the picture.
    Image(String),
    Document(DocumentView),
    /// No preview, with the reason in words: the file must be downloaded.
    None(String),
}

/// The way in which a file is shown.
enum PreviewSource {
    Here(Preview),
    /// The text as read by the machine.
    ByMachine,
    /// The text as read by the machine, or the source of a web page in which it finds no text.
    ByMachineOrSource(Preview),
}

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: PageFrame,
    crumbs: Vec<Crumb>,
    name: String,
    path: String,
    href: String,
    size: String,
    modified: ShownTime,
    indexing: Option<IndexingView>,
    preview: Preview,
    /// The citation that led here.
    cited: Option<CitedPassage>,
    /// True if the file was changed after the answer that cites it.
    is_changed: bool,
    /// True if only the beginning is shown.
    is_cut: bool,
}

impl FilePage {
    /// Returns true if the cited passage is not marked in the shown part of the file, which may have changed.
    fn is_mark_missing(&self) -> bool {
        match &self.preview {
            Preview::Text(text) => text.marked.is_empty(),
            // The text of an image is not part of its sheet's text.
            Preview::Document(document) => !document.pages.iter().any(PageView::shows_passage),
            Preview::Markdown(_) | Preview::Table(_) | Preview::Image(_) | Preview::None(_) => true,
        }
    }
}

/// The page of a deleted file that an answer cites.
#[derive(Template)]
#[template(path = "gone.html")]
struct GonePage {
    frame: PageFrame,
    cited: CitedPassage,
}

impl FilePages {
    /// Shows the cited passage of a deleted file.
    pub(super) async fn show_gone(
        &self,
        user: &SignedInVisitor,
        error: WorkspaceError,
        named: &str,
    ) -> Result<Response, Response> {
        let (principal, texts) = (&user.signed_in.principal, user.visitor.texts);
        let Some(cited) = CitedPassage::find_by_query(&self.answers, principal, texts, named).await else {
            return Err(user.failure_response(error));
        };
        let frame = PageFrame::load(&self.conversations, user, None).await?;
        Ok((StatusCode::NOT_FOUND, error::render_template(&GonePage { frame, cited })).into_response())
    }

    pub(super) async fn show_preview(
        &self,
        user: &SignedInVisitor,
        file: &OpenFile,
        cited: Option<&str>,
        page: usize,
    ) -> Result<Response, Response> {
        let texts = user.visitor.texts;
        let path = file.path.to_string();
        let cited = match cited {
            Some(named) => {
                CitedPassage::find_by_query(&self.answers, &user.signed_in.principal, texts, named).await
            }
            None => None,
        };
        let cited =
            cited.filter(|cited| matches!(&cited.place, PassagePlace::File { path: of, .. } if *of == path));
        let href = folder_href(&path);
        let reading = choose_preview(file, &href, cited.as_ref())
            .await
            .map_err(|error| user.failure_response(error))?;
        let preview = if let PreviewSource::Here(preview) = reading {
            preview
        } else {
            let shown = self.read_document(user, file, &href, cited.as_ref(), page).await;
            match (shown.map_err(|error| user.failure_response(error))?, reading) {
                (DocumentOutcome::Document(document), _) if !document.pages.is_empty() => {
                    Preview::Document(document)
                }
                (_, PreviewSource::ByMachineOrSource(source)) => source,
                (DocumentOutcome::Document(document), _) => Preview::Document(document),
                (DocumentOutcome::Unreadable(reason), _) => Preview::None(reason),
            }
        };
        let is_text = matches!(preview, Preview::Markdown(_) | Preview::Text(_) | Preview::Table(_));
        let is_short = match &preview {
            Preview::Table(table) => table.is_cut,
            Preview::Document(document) => document.is_cut,
            Preview::Markdown(_) | Preview::Text(_) | Preview::Image(_) | Preview::None(_) => false,
        };
        let mut crumbs = folder_crumbs(texts, &file.path);
        crumbs.pop();
        let folder = file.path.split_name().map(|(folder, _)| folder);
        let folder = folder.as_ref().unwrap_or(&file.path);
        let known = self.files.folder_indexing(&user.signed_in.principal, folder).await;
        let known = known.map_err(|error| user.failure_response(error))?;
        let indexing = file_indexing(&known, &path, file.size, file.modified);
        let page = FilePage {
            frame: PageFrame::load(&self.conversations, user, None).await?,
            crumbs,
            name: shown_name(&file.name),
            path,
            href,
            size: shown_size(texts, file.size),
            modified: ShownTime::from_time(texts, file.modified),
            indexing: IndexingView::from_indexing(texts, indexing),
            preview,
            is_changed: cited.as_ref().is_some_and(|cited| file.modified > cited.answered_at),
            cited,
            is_cut: is_short || (is_text && file.size > SHOWN_MAX_BYTES),
        };
        Ok(error::render_template(&page))
    }
}

/// Decides how a file is shown: the service itself shows texts with the same lines as the machine reads, and
/// pictures that browsers can display; the machine renders other files.
async fn choose_preview(
    file: &OpenFile,
    href: &str,
    cited: Option<&CitedPassage>,
) -> Result<PreviewSource, UseCaseError> {
    if super::image_type(file).await?.is_some() {
        return Ok(PreviewSource::Here(Preview::Image(format!("{href}?image"))));
    }
    let Some(mut shown) = decode_text(read_beginning(file, SHOWN_MAX_BYTES).await?) else {
        return Ok(PreviewSource::ByMachine);
    };
    let plain = match TextFormat::from_name_and_start(&file.name, &shown) {
        TextFormat::Plain(plain) => plain,
        TextFormat::Html => {
            return Ok(PreviewSource::ByMachineOrSource(Preview::Text(MarkedText::without_mark(shown))));
        }
        TextFormat::Pdf
        | TextFormat::Rtf
        | TextFormat::DataBox
        | TextFormat::Message
        | TextFormat::Mailbox
        | TextFormat::Notebook
        | TextFormat::FictionBook
        | TextFormat::OfficeXml(_)
        | TextFormat::FlatOpenDocument(_) => return Ok(PreviewSource::ByMachine),
    };
    if let Some(PassagePlace::File { lines: Some((first, _)), .. }) = cited.map(|cited| &cited.place)
        && file.size > SHOWN_MAX_BYTES
    {
        let from = start_of_line(file, first.saturating_sub(LINES_BEFORE)).await?;
        let Some(part) = decode_text(read_part(file, from, SHOWN_MAX_BYTES).await?) else {
            return Ok(PreviewSource::ByMachine);
        };
        shown = part;
    }
    let cited = cited.map(|cited| (cited.place.clone(), cited.text.clone()));
    // Parsing takes milliseconds.
    let made = tokio::task::spawn_blocking(move || {
        let marked = cited.map(|(place, passage)| mark_cited(&shown, &place, passage.as_deref()));
        // Lines of the file are marked in its text.
        if let Some(marked) = marked.filter(|marked| !marked.marked.is_empty()) {
            return Preview::Text(marked);
        }
        match plain {
            PlainText::Markdown => Preview::Markdown(render::render_document(&shown)),
            PlainText::Table => parse_table(&shown)
                .map_or_else(|| Preview::Text(MarkedText::without_mark(shown)), Preview::Table),
            PlainText::Text => Preview::Text(MarkedText::without_mark(shown)),
        }
    });
    made.await.map(PreviewSource::Here).map_err(UseCaseError::internal)
}

/// Marks a cited passage in the text of its file, or its lines, unless the file has other ones by now.
fn mark_cited(text: &str, place: &PassagePlace, passage: Option<&str>) -> MarkedText {
    match (passage, place) {
        (Some(passage), _) => MarkedText::with_passage(text.to_owned(), passage),
        (None, PassagePlace::File { lines: Some(lines), .. }) => {
            MarkedText::mark_lines(text.to_owned(), *lines)
        }
        (None, _) => MarkedText::default(),
    }
}

/// Returns where a line of a file begins, counted from 1; 0 if it is not among the first [`SCANNED_MAX_BYTES`].
async fn start_of_line(file: &OpenFile, line: u32) -> Result<u64, UseCaseError> {
    let mut stream = file.stream_range(0..SCANNED_MAX_BYTES.min(file.size));
    let (mut at, mut number) = (0, 1);
    while let Some(bytes) = stream.try_next().await.map_err(UseCaseError::internal)? {
        for (offset, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            number += 1;
            if number == line {
                return Ok(at + offset as u64 + 1);
            }
        }
        at += bytes.len() as u64;
    }
    Ok(0)
}

/// Returns the beginning of a file: at most `bytes_max` bytes.
pub(super) async fn read_beginning(file: &OpenFile, bytes_max: u64) -> Result<Vec<u8>, UseCaseError> {
    read_part(file, 0, bytes_max).await
}

/// Returns at most `bytes_max` bytes of a file.
async fn read_part(file: &OpenFile, from: u64, bytes_max: u64) -> Result<Vec<u8>, UseCaseError> {
    let mut stream = file.stream_range(from..from.saturating_add(bytes_max).min(file.size));
    let mut read = Vec::new();
    while let Some(bytes) = stream.try_next().await.map_err(UseCaseError::internal)? {
        read.extend_from_slice(&bytes);
    }
    Ok(read)
}

/// Returns the text of a file's beginning, which may end within a character; `None` if it is not text.
fn decode_text(mut bytes: Vec<u8>) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    if let Err(error) = str::from_utf8(&bytes) {
        // A character in the middle that is not UTF-8 means another encoding.
        error.error_len().is_none().then_some(())?;
        bytes.truncate(error.valid_up_to());
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_text_accepts_cut_character() {
        let cut = "Žluťoučký kůň".as_bytes();
        assert_eq!(decode_text(cut[..cut.len() - 1].to_vec()).as_deref(), Some("Žluťoučký ků"));
        assert_eq!(decode_text("\u{feff}a".into()).as_deref(), Some("a"));
        assert_eq!(decode_text(b"\x93quoted\x94 text".to_vec()), None);
        assert_eq!(decode_text(b"a\0b".to_vec()), None);
    }
}
