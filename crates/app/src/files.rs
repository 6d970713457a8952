//! Downloads of workspace files that answers cite.

use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use control::{Authenticator, Files, UseCaseError};
use workspace::{AskedPath, WorkspaceError};

use crate::paths;
use crate::visit::User;

/// Sends a file as an attachment. Its type says nothing to the browser, so that a file of the workspace cannot become a
/// script or a style of a page.
pub(crate) async fn download(
    State(files): State<Files>,
    State(access): State<Authenticator>,
    user: User,
    OriginalUri(uri): OriginalUri,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Response> {
    let principal = &user.signed_in.principal;
    let failed = |error: UseCaseError| user.failed(error);
    let raw = uri.path().strip_prefix(paths::FILES).unwrap_or_default();
    let path = AskedPath::from_url(raw).map_err(|error| failed(WorkspaceError::from(error).into()))?;
    let workspace = files.of(principal).map_err(failed)?;
    let file = Box::pin(workspace.open_file(&path)).await.map_err(|error| failed(error.into()))?;
    let mut response = http_common::download_response(&file, &method, &headers).map_err(|refused| {
        let range = [(header::CONTENT_RANGE, refused.content_range())];
        (axum::http::StatusCode::RANGE_NOT_SATISFIABLE, range).into_response()
    })?;
    let opaque = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, opaque);
    Ok(http_common::until(response, || access.clone().revoked(principal.clone())))
}
