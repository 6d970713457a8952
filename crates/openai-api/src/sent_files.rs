//! Files that come inside a request: stored by their digest, because clients send them again with each question.

use std::convert::Infallible;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use control::files::UploadFailure;
use control::{FileService, Principal, UseCaseError};
use domain::excerpt::Excerpt;
use domain::hex;
use domain::limits::ATTACHMENTS_MAX;
use futures_util::stream;
use sha2::{Digest, Sha256};
use workspace::{AskedPath, Destination, FileName, SameName, Workspace, WorkspaceError};

use crate::body::process_body;
use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::SentFile;

/// The folder of temporary uploads.
pub(crate) const TEMPORARY: &str = "/uploads/.tmp";
/// The bytes of a digest that name a folder.
const DIGEST_BYTES: usize = 16;
/// Before the encoded path of an uploaded file.
const FILE_ID: &str = "file-";
/// The bytes of a file that are passed on at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Clients differ in whether they write the padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Stores the files and returns their workspace paths.
///
/// # Errors
/// [`OpenAiError`] for a file that cannot be decoded or stored.
pub(crate) async fn store_sent_files(
    files: &FileService,
    principal: &Principal,
    sent: Vec<SentFile>,
) -> OpenAiResult<Vec<String>> {
    if sent.len() > ATTACHMENTS_MAX {
        let message = format!("too many files: send at most {ATTACHMENTS_MAX} with a message");
        return Err(OpenAiError::invalid_field("messages", message));
    }
    let mut paths = Vec::with_capacity(sent.len());
    for file in sent {
        let path = match file {
            SentFile::Uploaded(id) => decode_file_id(&id)?,
            SentFile::Data { url, name } => {
                let data = process_body(url.len(), move || decode_data_url(&url)).await?;
                store_data(files, principal, data, name.as_deref()).await?
            }
        };
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// A decoded data URL.
struct DecodedData {
    media_type: String,
    content: Vec<u8>,
    /// The beginning of the content's digest.
    digest: [u8; DIGEST_BYTES],
}

/// Decodes a data URL, or base64 without its head.
fn decode_data_url(url: &str) -> OpenAiResult<DecodedData> {
    let (head, data) = match url.strip_prefix("data:") {
        Some(rest) => rest.split_once(',').ok_or_else(|| invalid_file("the data URL has no comma"))?,
        None => (";base64", url),
    };
    let (media_type, _) = head.split_once(';').unwrap_or((head, ""));
    if !head.ends_with(";base64") {
        return Err(invalid_file("the data URL is not in base64"));
    }
    let data: String = data.split_ascii_whitespace().collect();
    let content = BASE64.decode(data).map_err(|_| invalid_file("its base64 is invalid"))?;
    if content.is_empty() {
        return Err(invalid_file("it is empty"));
    }
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&Sha256::digest(&content)[..DIGEST_BYTES]);
    Ok(DecodedData { media_type: media_type.to_ascii_lowercase(), content, digest })
}

/// Returns the id of a file at this workspace path.
pub(crate) fn encode_file_id(path: &str) -> String {
    format!("{FILE_ID}{}", URL_SAFE_NO_PAD.encode(path))
}

/// Returns the path in the id of a file.
pub(crate) fn path_in_file_id(id: &str) -> Option<String> {
    let path = BASE64_URL.decode(id.strip_prefix(FILE_ID)?).ok()?;
    String::from_utf8(path).ok().filter(|path| path.starts_with('/'))
}

/// Returns the path in the id of a file; a path stands for itself.
fn decode_file_id(id: &str) -> OpenAiResult<String> {
    if id.starts_with('/') {
        return Ok(id.to_owned());
    }
    let missing = || invalid_file(format_args!("there is no file with the id {}", Excerpt(id)));
    path_in_file_id(id).ok_or_else(missing)
}

fn invalid_file(message: impl std::fmt::Display) -> OpenAiError {
    OpenAiError::invalid_field("messages", format_args!("a file cannot be read: {message}"))
}

/// Returns the name of a file without one.
fn default_name(media_type: &str) -> String {
    let (kind, extension) = media_type.split_once('/').unwrap_or(("file", "bin"));
    let is_plain = !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let extension = match extension {
        "jpeg" => "jpg",
        "plain" => "txt",
        "markdown" => "md",
        other if is_plain && other.len() <= 8 => other,
        _ => "bin",
    };
    let kind = if kind == "image" { "image" } else { "file" };
    format!("{kind}.{extension}")
}

async fn store_data(
    files: &FileService,
    principal: &Principal,
    data: DecodedData,
    name: Option<&str>,
) -> OpenAiResult<String> {
    let name = name.map_or_else(|| default_name(&data.media_type), str::to_owned);
    let name = FileName::from_upload(name).map_err(invalid_file)?;
    let folder = format!("{TEMPORARY}/{}", hex::encode_hex(&data.digest));
    let path = format!("{folder}/{name}");
    let workspace = files.of_licensed(principal)?;
    match workspace.find_entry(&AskedPath::from_text(&path)).await {
        Ok(_) => return Ok(path),
        Err(WorkspaceError::NotFound) => {}
        Err(error) => return Err(UseCaseError::from(error).into()),
    }
    let content = Bytes::from(data.content);
    let receive = async |workspace: Workspace| {
        for folder in ["/uploads", TEMPORARY, &folder] {
            match workspace.create_folder(&AskedPath::from_text(folder)).await {
                Ok(_) | Err(WorkspaceError::AlreadyExists) => {}
                Err(error) => return Err(error),
            }
        }
        let pieces = (0..content.len())
            .step_by(CHUNK_BYTES)
            .map(|at| Ok::<_, Infallible>(content.slice(at..content.len().min(at + CHUNK_BYTES))));
        let staged = workspace.stage_upload(stream::iter(pieces)).await?;
        let destination = Destination::Folder(AskedPath::from_text(&folder));
        staged.place_file(destination, name.clone(), SameName::KeepBoth).await
    };
    match files.upload_files(principal, receive).await {
        Ok(placed) => Ok(placed.path.to_string()),
        Err(UploadFailure::UseCase(error)) => Err(error.into()),
        Err(UploadFailure::Revoked) => Err(OpenAiError::invalid_key()),
        Err(UploadFailure::Receive(error)) => Err(UseCaseError::from(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_decoded() {
        let decoded = decode_data_url("data:image/PNG;base64,aGk=").expect("data");
        assert_eq!((decoded.media_type.as_str(), decoded.content.as_slice()), ("image/png", &b"hi"[..]));
        for other in ["aGk", "data:;base64,aG\nk", "data:text/plain;charset=utf-8;base64,aGk="] {
            assert_eq!(decode_data_url(other).expect(other).content, b"hi");
        }
        for wrong in ["data:text/plain,hi", "data:image/png;base64", "data:image/png;base64,", "?"] {
            assert!(decode_data_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn default_name_has_extension() {
        for (media_type, name) in [
            ("image/png", "image.png"),
            ("image/jpeg", "image.jpg"),
            ("application/pdf", "file.pdf"),
            ("application/vnd.x+y", "file.bin"),
            ("", "file.bin"),
        ] {
            assert_eq!(default_name(media_type), name);
        }
    }

    #[test]
    fn file_ids_are_paths() {
        assert_eq!(decode_file_id("/uploads/a.pdf").expect("a path"), "/uploads/a.pdf");
        let id = format!("file-{}", BASE64_URL.encode("/uploads/á.pdf"));
        assert_eq!(decode_file_id(&id).expect("a path"), "/uploads/á.pdf");
        assert_eq!(decode_file_id(&encode_file_id("/uploads/á.pdf")).expect("a path"), "/uploads/á.pdf");
        for wrong in ["file-?", "file-", "file-eA", "x", ""] {
            assert!(decode_file_id(wrong).is_err(), "{wrong}");
        }
    }
}
