//! The tools `list_files` and `upload_file`.

use std::convert::Infallible;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use control::UseCaseError;
use control::files::UploadFailure;
use futures_util::stream;
use http_common::BudgetHolder;
use serde::Deserialize;
use serde_json::{Value, json};
use workspace::{AskedPath, Destination, FileName, ListingEntry, Workspace, WorkspaceEntryKind};

use crate::output::{ToolError, ToolOutput, ToolResult};
use crate::service::{CallContext, McpService};

/// The default and the largest number of entries in a page.
const ENTRIES_DEFAULT: usize = 200;
const ENTRIES_MAX: usize = 1_000;
/// The bytes of a file that are passed on at once.
const CHUNK_BYTES: usize = 256 << 10;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// The arguments of `list_files`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileListArguments {
    path: Option<String>,
    offset: Option<usize>,
    limit: Option<usize>,
}

/// The arguments of `upload_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileUploadArguments {
    name: String,
    folder: Option<String>,
    text: Option<String>,
    base64: Option<String>,
}

/// Returns the JSON Schema of [`FileListArguments`].
pub(crate) fn list_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "default": "/", "description": "A folder, such as /uploads." },
            "offset": { "type": "integer", "minimum": 0, "default": 0 },
            "limit": { "type": "integer", "minimum": 1, "maximum": ENTRIES_MAX, "default": ENTRIES_DEFAULT },
        },
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of the result of `list_files`.
pub(crate) fn listing_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": {
            "path": text,
            "entries": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": text,
                        "path": text,
                        "type": { "type": "string", "enum": ["file", "folder", "link", "other"] },
                        "size": { "type": "integer" },
                        "modified_at": text,
                        "media_type": text,
                        "indexing": {
                            "type": "string",
                            "description": "The state of a file's reading: questions search what is indexed.",
                        },
                    },
                    "required": ["name", "path", "type", "size", "modified_at", "media_type"],
                },
            },
            "total": { "type": "integer", "description": "The number of entries of the folder." },
        },
        "required": ["path", "entries", "total"],
    })
}

/// Returns the JSON Schema of [`FileUploadArguments`].
pub(crate) fn upload_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "description": "The name, such as lease.txt." },
            "folder": {
                "type": "string",
                "default": "/uploads",
                "description": "An existing folder. A file of the same name is replaced.",
            },
            "text": { "type": "string", "description": "The content of a text file." },
            "base64": { "type": "string", "description": "The content of any other file, in base64." },
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}

/// Returns the JSON Schema of the result of `upload_file`.
pub(crate) fn uploaded_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "The path, for `files` of `ask`." },
            "size": { "type": "integer" },
        },
        "required": ["path", "size"],
    })
}

/// Lists a folder.
///
/// # Errors
/// [`ToolError`].
pub(crate) async fn list_files(
    service: &McpService,
    call: &CallContext,
    arguments: FileListArguments,
) -> ToolResult<ToolOutput> {
    // A folder may have very many entries.
    let _place = service.budgets.made.acquire_permit(BudgetHolder::Account(call.principal.account())).await;
    let path = AskedPath::from_text(arguments.path.as_deref().unwrap_or("/"));
    let workspace = service.files.workspace_of(&call.principal)?;
    let listing = workspace.list_folder(&path).await.map_err(UseCaseError::from)?;
    let known = service.files.folder_indexing(&call.principal, &listing.path).await?;
    let limit = arguments.limit.unwrap_or(ENTRIES_DEFAULT).clamp(1, ENTRIES_MAX);
    let shown = listing.entries.iter().skip(arguments.offset.unwrap_or_default()).take(limit);
    let entries: Vec<Value> = shown
        .map(|entry| {
            let mut value = entry_value(entry);
            if entry.kind == WorkspaceEntryKind::File {
                let modified = entry.modified.micros().div_euclid(MICROS_PER_SECOND);
                let indexing = known.file_indexing(&entry.path.to_string(), entry.size, modified);
                value["indexing"] = indexing.state.code().into();
            }
            value
        })
        .collect();
    let (path, total) = (listing.path.to_string(), listing.entries.len());
    Ok(ToolOutput::new(json!({ "path": path, "entries": entries, "total": total })))
}

fn entry_value(entry: &ListingEntry) -> Value {
    json!({
        "name": entry.name,
        "path": entry.path.to_string(),
        "type": match entry.kind {
            WorkspaceEntryKind::File => "file",
            WorkspaceEntryKind::Folder => "folder",
            WorkspaceEntryKind::Link => "link",
            WorkspaceEntryKind::Other => "other",
        },
        "size": entry.size,
        "modified_at": entry.modified.to_string(),
        "media_type": entry.mime,
    })
}

/// Stores a file.
///
/// # Errors
/// [`ToolError`]; nothing was stored then.
pub(crate) async fn upload_file(
    service: &McpService,
    call: &CallContext,
    arguments: FileUploadArguments,
) -> ToolResult<ToolOutput> {
    let name = FileName::from_upload(&arguments.name).map_err(ToolError::invalid)?;
    let content = decode_content(arguments.text, arguments.base64)?;
    let destination = match arguments.folder.filter(|folder| !folder.is_empty()) {
        Some(folder) => Destination::Folder(AskedPath::from_text(&folder)),
        None => Destination::Uploads,
    };
    let receive = async |workspace: Workspace| {
        let pieces = (0..content.len())
            .step_by(CHUNK_BYTES)
            .map(|at| Ok::<_, Infallible>(content.slice(at..content.len().min(at + CHUNK_BYTES))));
        workspace.upload_file(&destination, &name, stream::iter(pieces)).await
    };
    match service.files.upload_files(&call.principal, receive).await {
        Ok(placed) => {
            let path = placed.path.to_string();
            let value = json!({ "path": path, "size": placed.size });
            Ok(ToolOutput::new(value).with_links(vec![path]))
        }
        Err(UploadFailure::UseCase(error)) => Err(error.into()),
        Err(UploadFailure::Revoked) => Err(ToolError::invalid("the key has become invalid")),
        Err(UploadFailure::Receive(error)) => Err(UseCaseError::from(error).into()),
    }
}

fn decode_content(text: Option<String>, base64: Option<String>) -> ToolResult<Bytes> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into()),
        (None, Some(encoded)) => {
            let encoded: String = encoded.split_ascii_whitespace().collect();
            let decoded = STANDARD.decode(encoded);
            decoded.map(Bytes::from).map_err(|error| ToolError::invalid(format_args!("base64: {error}")))
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(ToolError::invalid("send either text or base64, the content of the file"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_text_or_base64() {
        let of = |text: Option<&str>, base64: Option<&str>| {
            decode_content(text.map(str::to_owned), base64.map(str::to_owned))
        };
        assert_eq!(of(Some("hi"), None).expect("a text"), "hi");
        assert_eq!(of(None, Some("aG\nk=")).expect("bytes"), "hi");
        for (text, base64) in [(None, None), (Some("a"), Some("aGk=")), (None, Some("?"))] {
            assert!(of(text, base64).is_err(), "{text:?} {base64:?}");
        }
    }
}
