//! The blocks of a prompt as a question with its attachments.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::Client;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::wire::RpcError;
use crate::check_uploadable;

/// The most attachments of a prompt; the service may accept fewer.
const ATTACHMENTS_MAX: usize = 100;

/// A prompt of the editor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    attachments: Vec<PromptAttachment>,
}

#[derive(Debug, PartialEq, Eq)]
enum PromptAttachment {
    /// A file of the editor's machine.
    File(PathBuf),
    /// A content that the editor sent.
    Content { name: String, bytes: Vec<u8> },
}

impl Prompt {
    /// Parses the blocks of a prompt. A link to anything but a local file becomes a link in the text.
    ///
    /// # Errors
    /// [`RpcError`] for a block of an unknown type or form, and for a prompt without text.
    pub(crate) fn parse_blocks(blocks: &Value) -> Result<Self, RpcError> {
        let blocks =
            blocks.as_array().ok_or_else(|| RpcError::invalid_params("prompt must be a list of blocks"))?;
        let mut prompt = Self::default();
        for block in blocks {
            prompt.add_block(block)?;
        }
        if prompt.text.trim().is_empty() {
            return Err(RpcError::invalid_params("the prompt has no text: write a question"));
        }
        if prompt.attachments.len() > ATTACHMENTS_MAX {
            return Err(RpcError::invalid_params(format!(
                "a prompt may attach at most {ATTACHMENTS_MAX} files"
            )));
        }
        Ok(prompt)
    }

    fn add_block(&mut self, block: &Value) -> Result<(), RpcError> {
        let field = |name: &str| {
            block[name]
                .as_str()
                .ok_or_else(|| RpcError::invalid_params(format!("a block must have the text {name:?}")))
        };
        match field("type")? {
            "text" => self.text.push_str(field("text")?),
            "resource_link" => {
                let uri = field("uri")?;
                let name = block["name"].as_str().unwrap_or(uri);
                if let Some(path) = path_of_uri(uri) {
                    self.text.push_str(name);
                    self.attachments.push(PromptAttachment::File(path));
                } else {
                    self.text.push_str(&format!("[{name}]({uri})"));
                }
            }
            "resource" => {
                let resource = &block["resource"];
                let name = name_of_uri(resource["uri"].as_str().unwrap_or_default());
                let bytes = match (resource["text"].as_str(), resource["blob"].as_str()) {
                    (Some(text), _) => text.as_bytes().to_vec(),
                    (None, Some(blob)) => decode_base64(blob)?,
                    (None, None) => {
                        return Err(RpcError::invalid_params("a resource must have a text or a blob"));
                    }
                };
                self.text.push_str(&name);
                // The service accepts no empty file.
                if !bytes.is_empty() {
                    self.attachments.push(PromptAttachment::Content { name, bytes });
                }
            }
            "image" => {
                let kind = field("mimeType")?;
                let ending = kind.strip_prefix("image/").unwrap_or("png").split(['+', ';']).next();
                let name = match block["uri"].as_str() {
                    Some(uri) => name_of_uri(uri),
                    None => format!("image.{}", ending.unwrap_or("png")),
                };
                self.attachments
                    .push(PromptAttachment::Content { name, bytes: decode_base64(field("data")?)? });
            }
            other => {
                return Err(RpcError::invalid_params(format!(
                    "blocks of the type {other:?} are not supported"
                )));
            }
        }
        Ok(())
    }

    /// Uploads the attachments. Returns their paths in the workspace.
    ///
    /// # Errors
    /// [`RpcError`] when a file cannot be read or the service refuses it.
    pub(crate) async fn upload_attachments(&self, client: &Client) -> Result<Vec<String>, RpcError> {
        let mut paths = Vec::with_capacity(self.attachments.len());
        for attachment in &self.attachments {
            let uploaded = match attachment {
                PromptAttachment::File(path) => {
                    check_uploadable(path).map_err(|error| RpcError::invalid_params(error.message()))?;
                    client.upload(path, None).await?
                }
                PromptAttachment::Content { name, bytes } => client.upload_bytes(name, bytes.clone()).await?,
            };
            paths.push(uploaded.path);
        }
        Ok(paths)
    }
}

fn decode_base64(data: &str) -> Result<Vec<u8>, RpcError> {
    STANDARD.decode(data).map_err(|error| RpcError::invalid_params(format!("this is not base64: {error}")))
}

/// Returns the local file that a URI names, without the lines that editors add after `#`.
fn path_of_uri(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?.split(['#', '?']).next()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    path.starts_with('/').then(|| PathBuf::from(path.as_ref()))
}

/// Returns the last segment of a URI as the name of a file.
fn name_of_uri(uri: &str) -> String {
    let path = uri.split(['#', '?']).next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let name = Path::new(decoded.as_ref()).file_name().map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "attachment.txt".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_text_and_attachments() {
        let blocks = json!([
            {"type": "text", "text": "Compare "},
            {"type": "resource_link", "name": "lease.pdf", "uri": "file:///home/a%20b/lease.pdf"},
            {"type": "text", "text": " with "},
            {"type": "resource", "resource": {"uri": "file:///n/notes.md#L3-5", "text": "# Notes"}},
            {"type": "text", "text": " and "},
            {"type": "resource_link", "name": "the law", "uri": "https://example.org/law"},
            {"type": "image", "mimeType": "image/jpeg", "data": "AAEC"},
        ]);
        let prompt = Prompt::parse_blocks(&blocks).expect("it is valid");
        assert_eq!(prompt.text, "Compare lease.pdf with notes.md and [the law](https://example.org/law)");
        let content = |name: &str, bytes: &[u8]| PromptAttachment::Content {
            name: name.to_owned(),
            bytes: bytes.to_vec(),
        };
        let expected = [
            PromptAttachment::File("/home/a b/lease.pdf".into()),
            content("notes.md", b"# Notes"),
            content("image.jpeg", &[0, 1, 2]),
        ];
        assert_eq!(prompt.attachments, expected);
    }

    #[test]
    fn invalid_blocks_are_refused() {
        for (blocks, reason) in [
            (json!({}), "a list of blocks"),
            (json!([]), "has no text"),
            (json!([{"type": "text"}]), "\"text\""),
            (json!([{"type": "audio", "data": "", "mimeType": "audio/wav"}]), "\"audio\""),
            (json!([{"type": "image", "data": "?", "mimeType": "image/png"}]), "base64"),
            (json!([{"type": "resource", "resource": {"uri": "file:///a"}}]), "a text or a blob"),
        ] {
            let refused = Prompt::parse_blocks(&blocks).expect_err("it is invalid");
            assert!(refused.message.contains(reason), "{blocks}: {}", refused.message);
        }
    }
}
