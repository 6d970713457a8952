//! Files and conversations as resources.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control::{PublicCode, UseCaseError};
use domain::scope::Permission::{Files, Read};
use futures_util::TryStreamExt;
use serde_json::{Value, json};
use workspace::{AskedPath, OpenFile, WorkspaceEntryKind, WorkspacePath};

use crate::conversations::conversation_markdown;
use crate::error::{McpError, McpResult};
use crate::service::{CallContext, McpService};
use crate::uri::{CONVERSATION_TEMPLATE, FILE_TEMPLATE, ResourceName, conversation_uri, file_uri};

/// The largest file that is a resource, in bytes. In base64 it is shorter than the megabyte that clients read.
const FILE_MAX_BYTES: u64 = 512 << 10;
/// The most files in a list of resources.
const FILES_MAX: usize = 200;
/// The number of conversations in a page of the list.
const CONVERSATIONS_PAGE: u32 = 50;

/// Lists resources: the files in the folder of uploads, and the conversations, the latest first. The cursor is the number
/// of conversations in the pages before.
///
/// # Errors
/// [`McpError`].
pub(crate) async fn list_resources(
    service: &McpService,
    call: &CallContext,
    cursor: Option<&str>,
) -> McpResult<Value> {
    let offset = match cursor {
        None => 0,
        Some(cursor) => cursor.parse::<u64>().map_err(|_| McpError::invalid_params("unknown cursor"))?,
    };
    let scope = call.principal.scope();
    let mut resources = Vec::new();
    if cursor.is_none() && scope.allows(Files) {
        resources.extend(uploaded_files(service, call).await?);
    }
    let mut result = json!({});
    if scope.allows(Read) {
        let list = service.conversations.list_conversations(&call.principal, offset, CONVERSATIONS_PAGE);
        let page = list.await?;
        let next = offset + page.conversations.len() as u64;
        resources.extend(page.conversations.iter().map(|summary| {
            json!({
                "uri": conversation_uri(summary.id),
                "name": summary.title,
                "title": summary.title,
                "description": "A conversation",
                "mimeType": "text/markdown",
                "annotations": { "lastModified": summary.modified_at.to_string() },
            })
        }));
        if !page.conversations.is_empty() && next < page.total {
            result["nextCursor"] = next.to_string().into();
        }
    }
    result["resources"] = resources.into();
    Ok(result)
}

async fn uploaded_files(service: &McpService, call: &CallContext) -> McpResult<Vec<Value>> {
    let workspace = service.files.workspace_of(&call.principal)?;
    let folder = AskedPath::from_text(&WorkspacePath::uploads_folder().to_string());
    let listing = match workspace.list_folder(&folder).await.map_err(UseCaseError::from) {
        Ok(listing) => listing,
        // Nothing was uploaded, or too much for a list.
        Err(error) if matches!(error.code(), PublicCode::NotFound | PublicCode::TooManyEntries) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let files = listing.entries.iter().filter(|entry| entry.kind == WorkspaceEntryKind::File);
    let resource = |entry: &workspace::ListingEntry| {
        json!({
            "uri": file_uri(&entry.path.to_string()),
            "name": entry.name,
            "mimeType": entry.mime,
            "size": entry.size,
            "annotations": { "lastModified": entry.modified.to_string() },
        })
    };
    Ok(files.take(FILES_MAX).map(resource).collect())
}

/// Returns the templates of the addresses of resources.
pub(crate) fn list_templates() -> Value {
    json!({ "resourceTemplates": [
        {
            "uriTemplate": FILE_TEMPLATE,
            "name": "file",
            "title": "A file of the workspace",
            "description": format!("A file of at most {} KiB, by its path without the first slash.", FILE_MAX_BYTES >> 10),
        },
        {
            "uriTemplate": CONVERSATION_TEMPLATE,
            "name": "conversation",
            "title": "A conversation",
            "description": "The questions and answers of a conversation.",
            "mimeType": "text/markdown",
        },
    ]})
}

/// Reads a resource.
///
/// # Errors
/// [`McpError`].
pub(crate) async fn read_resource(service: &McpService, call: &CallContext, uri: &str) -> McpResult<Value> {
    let missing = |error: UseCaseError| match error.code() {
        PublicCode::NotFound => McpError::no_such_resource(uri),
        _ => error.into(),
    };
    let content = match ResourceName::parse(uri).ok_or_else(|| McpError::no_such_resource(uri))? {
        ResourceName::Conversation(id) => {
            service.access.authorize(&call.principal, &[Read], "mcp resources/read")?;
            let markdown = conversation_markdown(service, &call.principal, id).await.map_err(missing)?;
            json!({ "uri": uri, "mimeType": "text/markdown", "text": markdown })
        }
        ResourceName::File(path) => {
            service.access.authorize(&call.principal, &[Files], "mcp resources/read")?;
            let workspace = service.files.workspace_of(&call.principal)?;
            let file = workspace.open_file(&path).await.map_err(UseCaseError::from).map_err(missing)?;
            read_file(&file, uri).await?
        }
    };
    Ok(json!({ "contents": [content] }))
}

async fn read_file(file: &OpenFile, uri: &str) -> McpResult<Value> {
    if file.size > FILE_MAX_BYTES {
        let message = format!(
            "the file is larger than {} KiB: ask about it, or download it at /api/v1/files",
            FILE_MAX_BYTES >> 10
        );
        return Err(UseCaseError::new(PublicCode::TooLarge, message).into());
    }
    let mut content = Vec::with_capacity(usize::try_from(file.size).unwrap_or_default());
    let mut pieces = file.stream_range(0..file.size);
    while let Some(piece) = pieces.try_next().await.map_err(McpError::internal)? {
        content.extend_from_slice(&piece);
    }
    Ok(match String::from_utf8(content) {
        Ok(text) => json!({ "uri": uri, "mimeType": file.mime, "text": text }),
        Err(binary) => {
            json!({ "uri": uri, "mimeType": file.mime, "blob": STANDARD.encode(binary.as_bytes()) })
        }
    })
}
