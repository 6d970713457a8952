//! The arguments and results of the tools of the machine, which [`domain::tool`] lists.
//!
//! Paths in arguments are workspace paths: `/uploads/x`, or relative to the workspace (`uploads/x`).
//! In the machine the workspace is mounted at [`WORKSPACE`].

use domain::tool::MachineTool;
use serde::{Deserialize, Serialize};

/// Where the workspace stands inside the machine; also the working folder of tools.
pub const WORKSPACE: &str = "/workspace";

/// Arguments of [`MachineTool::Shell`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShellArguments {
    /// The command line.
    pub command: String,
    /// How long it may run, in seconds; 60 unless given, at most 600.
    #[serde(default)]
    pub timeout_seconds: Option<u32>,
}

/// Arguments of [`MachineTool::Read`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArguments {
    /// The file.
    pub path: String,
    /// The page to begin at, in files that have pages.
    #[serde(default)]
    pub first_page: Option<u32>,
    /// The line to begin at, in files that have lines.
    #[serde(default)]
    pub first_line: Option<u32>,
    /// How many passages of the first page or line to pass over: to read on where it is too long for one call.
    #[serde(default)]
    pub skip_passages: Option<u32>,
}

/// Arguments of [`MachineTool::Write`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteArguments {
    /// The file.
    pub path: String,
    /// Its whole new content.
    pub content: String,
}

/// Arguments of [`MachineTool::Edit`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditArguments {
    /// The file.
    pub path: String,
    /// The text that goes.
    pub old: String,
    /// The text that comes.
    pub new: String,
    /// Whether every occurrence is replaced.
    #[serde(default)]
    pub all: bool,
}

/// Arguments of [`MachineTool::List`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    /// The folder; the workspace unless given.
    #[serde(default)]
    pub path: Option<String>,
}

/// Arguments of [`MachineTool::Find`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindArguments {
    /// A glob over workspace paths; all files unless given.
    #[serde(default)]
    pub glob: Option<String>,
    /// Text that the files must contain (case and diacritics do not matter).
    #[serde(default)]
    pub content: Option<String>,
}

/// Arguments of [`MachineTool::AttachedFiles`], which no model calls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttachedArguments {
    /// The files; folders may be among them.
    pub paths: Vec<String>,
    /// How much text they may have together, in bytes. A file that does not fit into what is left is only named.
    pub text_max_bytes: usize,
}

/// Arguments of [`MachineTool::Search`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchArguments {
    /// What is looked for, in plain words.
    pub query: String,
    /// Files or folders to search; the whole workspace unless given.
    #[serde(default)]
    pub paths: Vec<String>,
    /// How many passages; 8 unless given, at most 20.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The output of a tool, as the agent sends it to the host, which treats it as untrusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Whether the tool could not do what was asked; `text` then says why.
    pub failed: bool,
    /// Plain text for the model, apart from passages. At most [`TEXT_MAX_BYTES`].
    pub text: String,
    /// Passages that may be cited, best or first one first. At most [`PASSAGES_MAX`].
    #[serde(default)]
    pub passages: Vec<FoundPassage>,
    /// Workspace paths (`/a/b.txt`) of files that the tool knows it wrote. At most [`WRITTEN_MAX`].
    #[serde(default)]
    pub written: Vec<String>,
    /// Images that a model may be shown. At most [`IMAGES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<FoundImage>,
    /// Files that the question is about and that could not be read, or not to their end. At most
    /// [`domain::unread::UNREAD_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<FoundUnread>,
}

/// A file that could not be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundUnread {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// The code of a [`domain::unread::UnreadReason`].
    pub reason: String,
}

impl From<&domain::unread::UnreadFile> for FoundUnread {
    fn from(file: &domain::unread::UnreadFile) -> Self {
        Self { path: file.path.clone(), reason: file.reason.code().to_owned() }
    }
}

/// An image of the workspace. Its bytes stay there: the host reads them when a model is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundImage {
    /// The workspace path, starting with a slash.
    pub path: String,
    /// Its MIME type, one of those in [`domain::image::ImageKind`].
    pub mime: String,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A passage of a document in the workspace, or of a page that a server in the machine names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundPassage {
    /// The workspace path, starting with a slash; empty where there is an address.
    pub path: String,
    /// An address of the web, of at most [`URL_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is at the address, in a line of at most [`TITLE_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The page, from 1, where the format has pages.
    #[serde(default)]
    pub page: Option<u32>,
    /// First and last line, from 1, where the format has lines.
    #[serde(default)]
    pub lines: Option<(u32, u32)>,
    /// The passage. At most [`PASSAGE_MAX_BYTES`].
    pub text: String,
}

/// The greatest length of [`ToolOutput::text`] in bytes.
pub const TEXT_MAX_BYTES: usize = 64 * 1024;
/// The greatest length of a passage in bytes.
pub const PASSAGE_MAX_BYTES: usize = 4 * 1024;
/// The longest address of a passage in bytes.
pub const URL_MAX_BYTES: usize = 2048;
/// The longest title of an address in bytes.
pub const TITLE_MAX_BYTES: usize = 300;
/// The most passages that a model gets by one call.
pub const PASSAGES_MAX: usize = domain::tool::PASSAGES_MAX as usize;
/// The most passages of one result: no tool gives more than the attached files.
pub const OUTPUT_PASSAGES_MAX: usize = MachineTool::AttachedFiles.facts().passages_max as usize;
/// The most text of attached files, in bytes: escaped, it fits into a frame.
pub const ATTACHED_MAX_BYTES: usize = 256 * 1024;
/// The most images of one result.
pub const IMAGES_MAX: usize = domain::image::IMAGES_MAX;
/// The most written paths of one result.
pub const WRITTEN_MAX: usize = 100;
