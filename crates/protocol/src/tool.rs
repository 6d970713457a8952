//! The results of the tools of the machine, which [`domain::tool`] lists, and the arguments that the host knows.
//!
//! The arguments of other tools are declared where the tools are, in the agent. Paths in arguments are workspace paths: `/uploads/x`, or relative to the workspace (`uploads/x`).
//! In the machine the workspace is mounted at [`WORKSPACE`].

use domain::tool::MachineTool;
use serde::{Deserialize, Serialize};

/// The mount point of the workspace inside the machine, and the working folder of tools.
pub const WORKSPACE: &str = "/workspace";

/// Arguments of the call that reads attachments, [`domain::step::ATTACHED_FILES`]. Models cannot call it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttachedArguments {
    /// The files and folders.
    pub paths: Vec<String>,
    /// The maximum text length of all files together, in bytes. A file that exceeds the rest is only named.
    pub text_max_bytes: usize,
}

/// Arguments of [`MachineTool::Search`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchArguments {
    /// The query, in plain words.
    pub query: String,
    /// Files or folders to search; the whole workspace by default.
    #[serde(default)]
    pub paths: Vec<String>,
    /// The number of passages; 8 by default, at most 20.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The output of a tool as sent by the agent. The host treats it as untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// The tool failed; `text` contains the reason.
    pub failed: bool,
    /// Plain text for the model, without the passages. At most [`TEXT_MAX_BYTES`].
    pub text: String,
    /// Citable passages, best or first one first. At most [`PASSAGES_MAX`].
    #[serde(default)]
    pub passages: Vec<FoundPassage>,
    /// Workspace paths (`/a/b.txt`) of files that the tool wrote. At most [`WRITTEN_MAX`].
    #[serde(default)]
    pub written: Vec<String>,
    /// Images that can be shown to a model. At most [`IMAGES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<FoundImage>,
    /// Files of the question that could not be read completely. At most [`domain::unread::UNREAD_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<FoundUnread>,
}

/// A file that could not be read completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundUnread {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// The text form of a [`domain::unread::UnreadReason`].
    pub reason: String,
}

impl From<&domain::unread::UnreadFile> for FoundUnread {
    fn from(file: &domain::unread::UnreadFile) -> Self {
        Self { path: file.path.clone(), reason: file.reason.to_string() }
    }
}

/// An image of the workspace, or the picture of a page, without its bytes: the host reads the file, or draws the page
/// again, when it shows the image to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundImage {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// The page of a document, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<u32>,
    /// Its MIME type, one of [`domain::image::ImageKind`].
    pub mime: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A passage of a document in the workspace, or of a web page reported by a server in the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPassage {
    /// The workspace path, starting with a slash; empty if there is a URL.
    pub path: String,
    /// A URL of at most [`URL_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The title of the URL, one line of at most [`TITLE_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The page, from 1, in formats with pages.
    #[serde(default)]
    pub page: Option<u32>,
    /// The first and last line, from 1, in formats with lines.
    #[serde(default)]
    pub lines: Option<(u32, u32)>,
    /// The name of the page, one line of at most [`PAGE_NAME_MAX_BYTES`], if it has one: of a sheet, or of a file in an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_name: Option<String>,
    /// The text, at most [`PASSAGE_MAX_BYTES`].
    pub text: String,
}

/// The longest [`ToolOutput::text`], in bytes.
pub const TEXT_MAX_BYTES: usize = 64 * 1024;
/// The longest passage, in bytes.
pub const PASSAGE_MAX_BYTES: usize = 4 * 1024;
/// The longest name of a passage's page, in bytes.
pub const PAGE_NAME_MAX_BYTES: usize = 200;
/// The longest URL of a passage, in bytes.
pub const URL_MAX_BYTES: usize = 2048;
/// The longest title of a URL, in bytes.
pub const TITLE_MAX_BYTES: usize = 300;
/// The maximum number of passages that a model gets by one call.
pub const PASSAGES_MAX: usize = domain::tool::PASSAGES_MAX as usize;
/// The maximum number of passages of one result: no tool gives more than the attached files.
pub const OUTPUT_PASSAGES_MAX: usize = MachineTool::AttachedFiles.facts().passages_max as usize;
/// The maximum text length of attached files, in bytes, so that it fits into a frame when escaped.
pub const ATTACHED_MAX_BYTES: usize = 256 * 1024;
/// The maximum number of pages that are shown as pictures by one call.
pub const VIEW_PAGES_MAX: u32 = 4;
/// The maximum number of images of one result.
pub const IMAGES_MAX: usize = domain::image::IMAGES_MAX;
/// The maximum number of written paths of one result.
pub const WRITTEN_MAX: usize = 100;
