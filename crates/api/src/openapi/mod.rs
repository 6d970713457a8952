//! The machine-readable schema of the interface (sections 4.4 and 9), generated from the code that serves it.
//!
//! Operations are declared beside their handlers, and fields at their wire types. The modules here add the error
//! responses ([`error_responses`]), operations with several successes ([`successes`]), response headers ([`headers`]),
//! shared parameters ([`parameters`]), bodies that are sent in pieces ([`answer`]), composed examples ([`composed`]) and
//! links ([`links`]). [`page`] shows the schema to people. Nothing else reads these types.
//!
//! `crates/api/openapi.yaml` is the reviewed document; a test compares them.

pub(crate) mod answer;
mod composed;
pub(crate) mod error_responses;
mod headers;
mod links;
mod page;
pub(crate) mod parameters;
pub(crate) mod successes;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};

use self::answer::StreamEvent;
use self::error_responses::ErrorResponse;
use crate::extract::if_none_match;
use crate::operations::Declared;
use crate::wire::{Answer, Jurisdiction, Model};

/// The name of the schema's security scheme.
const KEY: &str = "apiKey";

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Causerie",
        description = include_str!("introduction.md"),
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "The service that publishes this document")),
    security(("apiKey" = [])),
    tags(
        (name = "Machine", description = "The account's machine, in which the agent works. A question starts it by \
            itself"),
        (name = "Catalogs", description = "What a question may choose from, labelled in Czech, English or Slovak"),
        (name = "Files", description = "The account's workspace: files and folders, to attach to questions"),
        (name = "Conversations", description = "Questions, and their answers: collected, streamed, stopped, deleted"),
    ),
    // The types that responses of several kinds refer to.
    components(schemas(Answer<'static>, ErrorResponse, Jurisdiction<'static>, Model<'static>, StreamEvent)),
)]
struct Interface;

/// The schema as YAML, created for the first request.
static SCHEMA: LazyLock<PublishedDocument> = LazyLock::new(|| {
    let yaml = build_interface().to_yaml().expect("the schema holds nothing that YAML cannot");
    PublishedDocument::new("application/yaml", yaml)
});

/// The same as JSON.
static SCHEMA_JSON: LazyLock<PublishedDocument> = LazyLock::new(|| {
    let json = build_interface().to_json().expect("the schema holds nothing that JSON cannot");
    PublishedDocument::new("application/json", json)
});

/// The schema as a page, created for the first request.
static REFERENCE: LazyLock<PublishedDocument> = LazyLock::new(|| {
    PublishedDocument::new("text/html; charset=utf-8", page::render_page(&build_interface()))
});

/// The script of the page.
static SCRIPT: LazyLock<PublishedDocument> =
    LazyLock::new(|| PublishedDocument::new("text/javascript; charset=utf-8", page::SCRIPT.to_owned()));

struct PublishedDocument {
    tag: String,
    kind: &'static str,
    text: Bytes,
}

impl PublishedDocument {
    fn new(kind: &'static str, text: String) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let tag = domain::hex::encode_hex(&digest[..16]);
        Self { tag: format!("\"{tag}\""), kind, text: Bytes::from(text) }
    }

    fn respond_cached(&'static self, headers: &HeaderMap) -> Response {
        let caching = [
            (header::ETAG, HeaderValue::from_static(&self.tag)),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        ];
        if if_none_match(headers, &self.tag) {
            return (StatusCode::NOT_MODIFIED, caching).into_response();
        }
        let kind = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        (caching, kind, self.text.clone()).into_response()
    }
}

/// Serves `GET /openapi.yaml` and `GET /api/v1/openapi.yaml` without a key.
pub(crate) async fn serve_schema_yaml(headers: HeaderMap) -> Response {
    SCHEMA.respond_cached(&headers)
}

/// Serves `GET /openapi.json` and `GET /api/v1/openapi.json` without a key.
pub(crate) async fn publish_json(headers: HeaderMap) -> Response {
    SCHEMA_JSON.respond_cached(&headers)
}

/// Serves `GET /docs`, the schema for people, without a key.
pub(crate) async fn serve_reference_page(headers: HeaderMap) -> Response {
    static POLICY: LazyLock<String> = LazyLock::new(page::content_security_policy);
    let policy = [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(&POLICY)),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (policy, REFERENCE.respond_cached(&headers)).into_response()
}

/// Serves `GET /docs/page.js`, the script of that page.
pub(crate) async fn serve_page_script(headers: HeaderMap) -> Response {
    SCRIPT.respond_cached(&headers)
}

/// Creates the schema.
fn build_interface() -> utoipa::openapi::OpenApi {
    let mut interface = Interface::openapi();
    let declared = Declared::openapi();
    interface.paths = declared.paths;
    let components = interface.components.get_or_insert_default();
    components.schemas.extend(declared.components.unwrap_or_default().schemas);
    let description =
        "An API key, which begins with `api-`. It is looked for in this header and nowhere else.";
    let key = ApiKey::Header(ApiKeyValue::with_description("X-Api-Key", description));
    components.add_security_scheme(KEY, SecurityScheme::ApiKey(key));
    for (name, response) in error_responses::shared_responses() {
        components.responses.insert(name.to_owned(), response.into());
    }
    headers::add_headers(&mut interface);
    composed::add_examples(&mut interface);
    links::add_links(&mut interface);
    interface
}

/// Returns every operation of the document.
fn operations_mut(document: &mut utoipa::openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    document.paths.paths.values_mut().flat_map(|path| {
        [&mut path.get, &mut path.post, &mut path.patch, &mut path.delete]
            .into_iter()
            .filter_map(Option::as_mut)
    })
}
