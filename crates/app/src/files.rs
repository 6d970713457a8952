//! Files of the workspace: folders, previews, downloads, uploads, archives.
//!
//! A file is sent as an attachment without a type, so that a browser cannot execute it. Only pictures whose
//! first bytes match their format keep their type; pages show them by `<img>`. Everything else that a page
//! shows of a file is text, or HTML that `render` created from Markdown.

mod archive;
mod arrange;
mod change;
mod document;
mod folder;
mod indexing;
mod name_order;
mod passage;
mod preview;
mod resumable;
mod sheet;
mod table;
mod zip;

use axum::extract::{OriginalUri, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::{AnswerService, Authenticator, Conversations, FileService, UseCaseError};
use http_common::Budgets;
use serde::Deserialize;
use workspace::{AskedPath, OpenFile, WorkspaceError};

pub(crate) use arrange::{delete_chosen, move_files, rename_entry, show_arrangement};
pub(crate) use change::{UploadLimits, create_folder, delete_path, upload_files};
pub(crate) use indexing::show_indexing_states;
pub(crate) use resumable::{
    append_piece, begin_upload, cancel_upload, show_upload_progress as upload_progress,
};

use self::folder::FolderView;
use crate::paths;
use crate::visit::SignedInVisitor;

/// The bytes by which the format of a picture is recognized.
const MAGIC_BYTES: u64 = 16;

/// The use cases of the pages of files.
#[derive(Clone)]
pub(crate) struct FilePages {
    pub(crate) files: FileService,
    pub(crate) access: Authenticator,
    pub(crate) answers: AnswerService,
    pub(crate) conversations: Conversations,
    pub(crate) budgets: Budgets,
}

/// The query of a path.
#[derive(Deserialize)]
pub(crate) struct FileQuery {
    /// Present to see a page about the file instead of downloading it.
    view: Option<String>,
    /// The citation whose passage the page shows, `<conversation>.<answer>.<number>`.
    cited: Option<String>,
    /// Present to get a picture with its type.
    image: Option<String>,
    /// A page of a PDF, counted from 1, to get as a picture, and the version of its file.
    drawn: Option<u32>,
    #[serde(default)]
    version: String,
    /// Present to download a folder as an archive.
    archive: Option<String>,
    /// The page of a large folder, or the first shown page of a document, counted from 1.
    #[serde(default)]
    page: usize,
    /// The words that the names in a folder are searched for.
    #[serde(default)]
    q: String,
    /// The order of a folder's entries.
    #[serde(default)]
    sort: String,
    /// The change that has led here, and the number of its files and folders.
    #[serde(default)]
    done: String,
    #[serde(default)]
    count: usize,
}

impl FileQuery {
    /// Returns the part of a folder that is shown.
    fn folder_view(&self) -> FolderView {
        FolderView::new(self.page, &self.q, &self.sort).after_change(&self.done, self.count)
    }
}

/// Shows a folder, or sends or shows a file.
pub(crate) async fn show_path(
    State(pages): State<FilePages>,
    user: SignedInVisitor,
    OriginalUri(uri): OriginalUri,
    Query(shown): Query<FileQuery>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let failed = |error: WorkspaceError| user.failure_response(error);
    let raw = uri.path().strip_prefix(paths::FILES).unwrap_or_default();
    let path = AskedPath::from_url(raw);
    let workspace =
        pages.files.workspace_of(&user.signed_in.principal).map_err(|error| user.failure_response(error))?;
    match Box::pin(workspace.open_file(&path)).await {
        Ok(file) if shown.view.is_some() => {
            pages.show_preview(&user, &file, shown.cited.as_deref(), shown.page).await
        }
        Ok(file) if shown.drawn.is_some() => {
            pages.send_page_picture(&user, &file, shown.drawn.unwrap_or(1), &shown.version).await
        }
        Ok(file) => pages.send_download(&user, &file, shown.image.is_some(), &method, &headers).await,
        Err(WorkspaceError::IsFolder) if shown.archive.is_some() => {
            pages.send_archive(&user, &workspace, &path).await
        }
        Err(WorkspaceError::IsFolder) => {
            pages.render_folder(&user, &workspace, &path, shown.folder_view(), None).await
        }
        Err(error @ WorkspaceError::NotFound) if shown.cited.is_some() => {
            pages.show_gone(&user, error, shown.cited.as_deref().unwrap_or_default()).await
        }
        Err(error) => Err(failed(error)),
    }
}

impl FilePages {
    async fn send_download(
        &self,
        user: &SignedInVisitor,
        file: &OpenFile,
        as_image: bool,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        let image = if as_image {
            image_type(file).await.map_err(|error| user.failure_response(error))?
        } else {
            None
        };
        let mut response = http_common::download_response(file, method, headers).map_err(|refused| {
            let range = [(header::CONTENT_RANGE, refused.content_range())];
            (StatusCode::RANGE_NOT_SATISFIABLE, range).into_response()
        })?;
        let shown = HeaderValue::from_static(image.unwrap_or("application/octet-stream"));
        response.headers_mut().insert(header::CONTENT_TYPE, shown);
        Ok(http_common::abort_response_when(response, || {
            self.access.clone().await_revocation(principal.clone())
        }))
    }
}

/// Returns the type of a picture, recognized by its first bytes. SVG is not accepted as a picture, because it
/// can contain scripts.
async fn image_type(file: &OpenFile) -> Result<Option<&'static str>, UseCaseError> {
    let head = preview::read_beginning(file, MAGIC_BYTES).await?;
    Ok(match head.as_slice() {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [_, _, _, _, b'f', b't', b'y', b'p', b'a', b'v', b'i', b'f', ..] => Some("image/avif"),
        _ => None,
    })
}
