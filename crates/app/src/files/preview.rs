//! The page of a file: its text, table or picture, as far as that can be shown safely.

use askama::Template;
use axum::response::Response;
use control::UseCaseError;
use domain::answer::Source;
use futures_util::TryStreamExt;
use workspace::OpenFile;

use super::FilePages;
use super::folder::{Crumb, crumbs, folder_href};
use super::indexing::{IndexingView, indexed};
use super::table::{Table, table};
use crate::error;
use crate::frame::Frame;
use crate::shown_size::shown_size;
use crate::shown_time::ShownTime;
use crate::visit::User;

/// The beginning of a file that is shown.
const SHOWN_MAX_BYTES: u64 = 256 << 10;

/// The part of a file that is shown.
enum Preview {
    /// Safe HTML of Markdown.
    Markdown(String),
    Text(String),
    Table(Table),
    /// The address of the picture.
    Image(String),
    /// Nothing: it must be downloaded.
    None,
}

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: Frame,
    crumbs: Vec<Crumb>,
    name: String,
    path: String,
    href: String,
    size: String,
    modified: ShownTime,
    indexing: Option<IndexingView>,
    preview: Preview,
    /// True if only the beginning is shown.
    is_cut: bool,
}

impl FilePages {
    /// Shows a file.
    pub(super) async fn preview(&self, user: &User, file: &OpenFile) -> Result<Response, Response> {
        let texts = user.visitor.texts;
        let path = file.path.to_string();
        let href = folder_href(&path);
        let preview = preview(file, &href).await.map_err(|error| user.failed(error))?;
        let is_text = !matches!(preview, Preview::Image(_) | Preview::None);
        let is_short = matches!(&preview, Preview::Table(table) if table.is_cut);
        let mut crumbs = crumbs(texts, &file.path);
        crumbs.pop();
        let folder = file.path.split().map(|(folder, _)| folder);
        let folder = folder.as_ref().unwrap_or(&file.path);
        let known = self.files.indexing(&user.signed_in.principal, folder).await;
        let known = known.map_err(|error| user.failed(error))?;
        let indexing = indexed(&known, &path, file.size, file.modified);
        let page = FilePage {
            frame: Frame::load(&self.conversations, user, None).await?,
            crumbs,
            name: file.name.clone(),
            path,
            href,
            size: shown_size(texts, file.size),
            modified: ShownTime::time(texts, file.modified),
            indexing: IndexingView::of(texts, indexing),
            preview,
            is_cut: is_short || (is_text && file.size > SHOWN_MAX_BYTES),
        };
        Ok(error::rendered(&page))
    }
}

async fn preview(file: &OpenFile, href: &str) -> Result<Preview, UseCaseError> {
    if super::image_type(file).await?.is_some() {
        return Ok(Preview::Image(format!("{href}?image")));
    }
    let Some(text) = text(beginning(file, SHOWN_MAX_BYTES).await?) else { return Ok(Preview::None) };
    let extension = file.name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    // Parsing takes milliseconds.
    let made = tokio::task::spawn_blocking(move || match extension.as_deref() {
        Some("md" | "markdown") => {
            let none: &[Source] = &[];
            Preview::Markdown(render::whole(&text, &none))
        }
        Some("csv" | "tsv") => table(&text).map_or(Preview::Text(text), Preview::Table),
        _ => Preview::Text(text),
    });
    made.await.map_err(UseCaseError::internal)
}

/// Returns the beginning of a file: at most `bytes_max` bytes.
pub(super) async fn beginning(file: &OpenFile, bytes_max: u64) -> Result<Vec<u8>, UseCaseError> {
    let mut stream = file.stream(0..bytes_max);
    let mut read = Vec::new();
    while let Some(bytes) = stream.try_next().await.map_err(UseCaseError::internal)? {
        read.extend_from_slice(&bytes);
    }
    Ok(read)
}

/// Returns the text of a file's beginning, which may end within a character; `None` if it is no text.
fn text(mut bytes: Vec<u8>) -> Option<String> {
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
    fn a_beginning_that_ends_within_a_character_is_text() {
        let cut = "Žluťoučký kůň".as_bytes();
        assert_eq!(text(cut[..cut.len() - 1].to_vec()).as_deref(), Some("Žluťoučký ků"));
        assert_eq!(text("\u{feff}a".into()).as_deref(), Some("a"));
        assert_eq!(text(b"\x93quoted\x94 text".to_vec()), None);
        assert_eq!(text(b"a\0b".to_vec()), None);
    }
}
