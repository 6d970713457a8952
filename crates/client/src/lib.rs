//! A client of the public interface. It defines its own wire types and depends on no crate of the service, so
//! it can be used alone, and its tests detect incompatible changes of the service.
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! let client = client::Client::new("http://127.0.0.1:8080", "api-…")?;
//! let file = client.upload(std::path::Path::new("lease.pdf"), None).await?;
//! let mut question = client::Question::new("When does the lease end?");
//! question.file_paths.push(file.path);
//! let mut states = client.stream(&client.send(&question).await?);
//! while let Some(answer) = states.next().await? {
//!     println!("{}", answer.text);
//! }
//! # Ok(()) }
//! ```

mod error;
mod frames;
mod path;
mod stream;
mod types;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::io::AsyncReadExt;

pub use crate::error::Error;
pub use crate::stream::States;
pub use crate::types::{
    ApiFailure, Chat, ChatAnswer, ChatAnswerPart, ChatMessage, ChatWithMessages, Chats, CitedSource,
    FolderEntry, FolderListing, IndexingInfo, MachineInfo, ModelInfo, NewFolderInfo, PartCitation, PartState,
    PartType, Question, SettingValue, Status, UploadedFile,
};

/// The timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of a call that transfers no file.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);
/// The maximum silence of a download or stream.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(45);
/// The size of the pieces in which a file is read.
const UPLOAD_CHUNK_BYTES: usize = 64 << 10;
/// The longest body of a call without a file.
const BODY_MAX_BYTES: usize = frames::FRAME_MAX_BYTES;

/// A client with a key. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<str>,
}

impl Client {
    /// Creates a client for the service at `base_url`, for instance `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// [`Error::Address`] and [`Error::Key`] if either is invalid, [`Error::Transport`] if the system has no
    /// trusted certificates for an `https` address.
    pub fn new(base_url: &str, key: &str) -> Result<Self, Error> {
        Self::with_certificates(base_url, key, b"")
    }

    /// Like [`Client::new`], but also trusts the certificates in `pem` besides the system's.
    ///
    /// # Errors
    /// As [`Client::new`], and [`Error::Certificates`] if a `pem` that is not empty contains no certificate.
    pub fn with_certificates(base_url: &str, key: &str, pem: &[u8]) -> Result<Self, Error> {
        let base = base_url.trim_end_matches('/');
        let address = reqwest::Url::parse(base).map_err(|_| Error::Address(base_url.to_owned()))?;
        let secure = match address.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(Error::Address(base_url.to_owned())),
        };
        let mut key = HeaderValue::from_str(key.trim()).map_err(|_| Error::Key)?;
        key.set_sensitive(true);
        let headers = HeaderMap::from_iter([(reqwest::header::HeaderName::from_static("x-api-key"), key)]);
        // Fails if a provider is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificates = reqwest::Certificate::from_pem_bundle(pem).unwrap_or_default();
        if certificates.is_empty() && !pem.is_empty() {
            return Err(Error::Certificates);
        }
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            // A redirect must not send the key to another host.
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(headers);
        if !secure {
            // Without TLS the system's certificates are not loaded.
            let none = rustls::ClientConfig::builder()
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            builder = builder.tls_backend_preconfigured(none);
        } else if !certificates.is_empty() {
            builder = builder.tls_certs_merge(certificates);
        }
        Ok(Self { http: builder.build().map_err(Error::Transport)?, base: Arc::from(base) })
    }

    /// Asks a question (section 4.4). The returned answer is usually empty: use [`Client::stream`] or
    /// [`Client::collect_answer`].
    ///
    /// # Errors
    /// [`Error::Refused`] with 400 for a malformed question, 409 if the conversation is busy, the credits do
    /// not suffice or the account has no machine.
    pub async fn send(&self, question: &Question) -> Result<ChatAnswer, Error> {
        self.send_for_json(self.new_request(Method::POST, "/chats").json(question)).await
    }

    /// Returns the current state of the answer (section 4.4).
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if it does not exist.
    pub async fn collect_answer(&self, chat_id: &str, message_id: &str) -> Result<ChatAnswer, Error> {
        let path =
            format!("/chats{}/messages{}", path::encode_segment(chat_id), path::encode_segment(message_id));
        self.send_for_json(self.new_request(Method::GET, &path)).await
    }

    /// Returns the current state of the answer as the service's JSON object, with fields that this client does not know.
    ///
    /// # Errors
    /// As [`Client::collect_answer`].
    pub async fn collect_json(&self, chat_id: &str, message_id: &str) -> Result<serde_json::Value, Error> {
        let path =
            format!("/chats{}/messages{}", path::encode_segment(chat_id), path::encode_segment(message_id));
        self.send_for_json(self.new_request(Method::GET, &path)).await
    }

    /// Streams the states of the answer up to the completed one, each newer than the previous one (section 6).
    #[must_use]
    pub fn stream(&self, answer: &ChatAnswer) -> States {
        let (chat, message) = (path::encode_segment(&answer.chat_id), path::encode_segment(&answer.id));
        States::new(self.clone(), format!("/chats{chat}/messages{message}/events"), true)
    }

    /// Streams the states of all answers of a conversation, for as long as it exists (section 6).
    #[must_use]
    pub fn watch_chat(&self, chat_id: &str) -> States {
        States::new(self.clone(), format!("/chats{}/events", path::encode_segment(chat_id)), false)
    }

    /// Stops the conversation's answer in progress.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the conversation does not exist.
    pub async fn stop_chat(&self, chat_id: &str) -> Result<Chat, Error> {
        self.send_for_json(
            self.new_request(Method::POST, &format!("/chats{}/stop", path::encode_segment(chat_id))),
        )
        .await
    }

    /// Returns a page of conversations, pinned first, then most recent first.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Transport`].
    pub async fn list_chats(&self, offset: u64, limit: u64) -> Result<Chats, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/chats?offset={offset}&limit={limit}")))
            .await
    }

    /// Returns a conversation with its history.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the conversation does not exist.
    pub async fn get_chat(&self, chat_id: &str) -> Result<ChatWithMessages, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/chats{}", path::encode_segment(chat_id))))
            .await
    }

    /// Like [`Client::list_chats`], but returns the service's JSON object.
    ///
    /// # Errors
    /// As [`Client::list_chats`].
    pub async fn chats_json(&self, offset: u64, limit: u64) -> Result<serde_json::Value, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/chats?offset={offset}&limit={limit}")))
            .await
    }

    /// Like [`Client::get_chat`], but returns the service's JSON object.
    ///
    /// # Errors
    /// As [`Client::get_chat`].
    pub async fn chat_json(&self, chat_id: &str) -> Result<serde_json::Value, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/chats{}", path::encode_segment(chat_id))))
            .await
    }

    /// Deletes a conversation with its answers.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the conversation does not exist.
    pub async fn delete_chat(&self, chat_id: &str) -> Result<(), Error> {
        self.send_checked(
            self.new_request(Method::DELETE, &format!("/chats{}", path::encode_segment(chat_id)))
                .timeout(CALL_TIMEOUT),
        )
        .await
        .map(|_| ())
    }

    /// Uploads a local file (section 4.3) to `destination` or the upload folder. Streams the file instead of
    /// loading it.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Refused`] if it is empty or exceeds the quota.
    pub async fn upload(&self, file: &Path, destination: Option<&str>) -> Result<UploadedFile, Error> {
        self.upload_observed(file, destination, |_| {}).await
    }

    /// Like [`Client::upload`]. Calls `sent` with the number of bytes that were passed to the connection so far.
    ///
    /// # Errors
    /// As [`Client::upload`].
    pub async fn upload_observed(
        &self,
        file: &Path,
        destination: Option<&str>,
        sent: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<UploadedFile, Error> {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.upload_as(file, &name, destination, sent).await
    }

    /// Like [`Client::upload_observed`], but under another name.
    ///
    /// # Errors
    /// As [`Client::upload`].
    pub async fn upload_as(
        &self,
        file: &Path,
        name: &str,
        destination: Option<&str>,
        sent: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<UploadedFile, Error> {
        let unreadable = |source| Error::File { path: file.to_owned(), source };
        let opened = tokio::fs::File::open(file).await.map_err(unreadable)?;
        let length = opened.metadata().await.map_err(unreadable)?.len();
        let chunks =
            futures_util::stream::try_unfold((opened, 0, sent), |(mut opened, total, sent)| async move {
                let mut chunk = bytes::BytesMut::with_capacity(UPLOAD_CHUNK_BYTES);
                let read = opened.read_buf(&mut chunk).await?;
                let total = total + read as u64;
                sent(total);
                std::io::Result::Ok((read > 0).then(|| (chunk.freeze(), (opened, total, sent))))
            });
        let body = reqwest::Body::wrap_stream(chunks);
        self.upload_part(
            reqwest::multipart::Part::stream_with_length(body, length).file_name(name.to_owned()),
            destination,
        )
        .await
    }

    /// Uploads a file from memory to the upload folder.
    ///
    /// # Errors
    /// [`Error::Refused`] if it is empty or exceeds the quota.
    pub async fn upload_bytes(&self, name: &str, content: Vec<u8>) -> Result<UploadedFile, Error> {
        self.upload_part(reqwest::multipart::Part::bytes(content).file_name(name.to_owned()), None).await
    }

    async fn upload_part(
        &self,
        part: reqwest::multipart::Part,
        destination: Option<&str>,
    ) -> Result<UploadedFile, Error> {
        let mut form = reqwest::multipart::Form::new();
        if let Some(destination) = destination {
            form = form.text("destination", destination.to_owned());
        }
        let response = self
            .send_checked(self.new_request(Method::POST, "/files").multipart(form.part("file", part)))
            .await?;
        read_json_body(response).await
    }

    /// Downloads a file of the workspace into a writer and returns its size in bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the file does not exist, [`Error::File`] if the writer fails.
    pub async fn download_file(&self, file: &str, into: &mut impl std::io::Write) -> Result<u64, Error> {
        let mut response = self
            .send_checked(self.new_request(Method::GET, &format!("/files{}", path::in_url(file))))
            .await?;
        let mut total = 0;
        while let Some(chunk) = next_chunk(&mut response).await? {
            total += chunk.len() as u64;
            into.write_all(&chunk).map_err(|source| Error::File { path: file.into(), source })?;
        }
        Ok(total)
    }

    /// Lists one level of a folder; the home folder is `/`.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the folder does not exist.
    pub async fn list_folder(&self, folder: &str) -> Result<FolderListing, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/directories{}", path::in_url(folder))))
            .await
    }

    /// Like [`Client::list_folder`], but returns the service's JSON object.
    ///
    /// # Errors
    /// As [`Client::list_folder`].
    pub async fn list_json(&self, folder: &str) -> Result<serde_json::Value, Error> {
        self.send_for_json(self.new_request(Method::GET, &format!("/directories{}", path::in_url(folder))))
            .await
    }

    /// Creates a folder in an existing one.
    ///
    /// # Errors
    /// [`Error::Refused`] with 409 if it exists, 404 if its parent does not.
    pub async fn create_folder(&self, folder: &str) -> Result<NewFolderInfo, Error> {
        self.send_for_json(self.new_request(Method::POST, &format!("/directories{}", path::in_url(folder))))
            .await
    }

    /// Deletes a file or folder; a folder that is not empty only if `recursive`.
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if it does not exist, 409 if the folder is not empty.
    pub async fn delete_file(&self, file: &str, recursive: bool) -> Result<(), Error> {
        let path = format!("/files{}?recursive={recursive}", path::in_url(file));
        self.send_checked(self.new_request(Method::DELETE, &path).timeout(CALL_TIMEOUT)).await.map(|_| ())
    }

    /// Returns the machine's state (section 4.1).
    ///
    /// # Errors
    /// [`Error::Refused`] with 404 if the account has no machine.
    pub async fn get_machine(&self) -> Result<MachineInfo, Error> {
        self.send_for_json(self.new_request(Method::GET, "/vm")).await
    }

    /// Starts the machine.
    ///
    /// # Errors
    /// [`Error::Refused`] with 409 if the account has no machine.
    pub async fn start_machine(&self) -> Result<MachineInfo, Error> {
        self.send_for_json(self.new_request(Method::POST, "/vm/start")).await
    }

    /// Stops the machine.
    ///
    /// # Errors
    /// [`Error::Refused`] with 409 if the account has no machine.
    pub async fn stop_machine(&self) -> Result<MachineInfo, Error> {
        self.send_for_json(self.new_request(Method::POST, "/vm/stop")).await
    }

    /// Returns the models, labelled in a language: `cs`, `en` or `sk` (section 4.2).
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::Transport`].
    pub async fn list_models(&self, language: &str) -> Result<Vec<ModelInfo>, Error> {
        self.send_for_json(
            self.new_request(Method::GET, "/models").header(reqwest::header::ACCEPT_LANGUAGE, language),
        )
        .await
    }

    pub(crate) fn new_request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}/api/v1{path}", self.base))
    }

    /// Sends a request and turns an error status into an error.
    pub(crate) async fn send_checked(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(Error::Transport)?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(error_from_response(response).await)
    }

    async fn send_for_json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        read_json_body(self.send_checked(request.timeout(CALL_TIMEOUT)).await?).await
    }
}

async fn error_from_response(response: Response) -> Error {
    let status = response.status();
    let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let failure: ApiFailure = match status {
        StatusCode::UNAUTHORIZED => ApiFailure::default(),
        _ => read_json_body(response).await.unwrap_or_default(),
    };
    Error::Refused {
        status: status.as_u16(),
        code: failure.code,
        message: failure.message,
        retry_after: seconds.map(Duration::from_secs),
    }
}

async fn read_json_body<T: DeserializeOwned>(mut response: Response) -> Result<T, Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = next_chunk(&mut response).await? {
        if bytes.len() + chunk.len() > BODY_MAX_BYTES {
            return Err(Error::TooLong { limit_bytes: BODY_MAX_BYTES });
        }
        bytes.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&bytes).map_err(Error::Form)
}

/// Returns the next chunk of a body; fails after [`SILENCE_TIMEOUT`] without data.
pub(crate) async fn next_chunk(response: &mut Response) -> Result<Option<bytes::Bytes>, Error> {
    match tokio::time::timeout(SILENCE_TIMEOUT, response.chunk()).await {
        Ok(chunk) => chunk.map_err(Error::Transport),
        Err(_) => Err(Error::StreamLost { attempts: 1 }),
    }
}
