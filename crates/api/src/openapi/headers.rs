//! The schemas of response headers. Each operation declares which of its responses have which headers.

use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{Header, HeaderBuilder, OpenApi, Ref, RefOr, Response};

use crate::operations::OPERATIONS;

/// The headers of every response.
const REQUEST_ID_HEADER: &str = "X-Request-Id";

/// Returns the description of a header and an example.
fn header_meaning(name: &str) -> (&'static str, Value) {
    match name {
        "Accept-Ranges" => ("Range requests are supported", json!("bytes")),
        "Cache-Control" => ("Events must not be stored", json!("no-store")),
        "Content-Disposition" => (
            "An attachment, with the file's name, in UTF-8 if necessary",
            json!("attachment; filename=\"lease.pdf\""),
        ),
        "Content-Language" => ("The language of the labels: `cs`, `en` or `sk`", json!("en")),
        "Content-Length" => ("The length of the body in bytes", json!(52614)),
        "Content-Range" => (
            "The bytes sent and the length of the file; with 416 only the length",
            json!("bytes 0-1023/52614"),
        ),
        "ETag" => ("The entity tag of this state, for `If-None-Match`", json!("\"1.42\"")),
        "Idempotent-Replayed" => {
            ("`true` if the question had already been asked; absent otherwise", json!(true))
        }
        "Last-Modified" => ("Time of the last change, to the second", json!("Sat, 21 Nov 2026 09:30:00 GMT")),
        "Retry-After" => {
            ("With `CONVERSATION_BUSY` and `UNAVAILABLE`: seconds to wait before the next attempt", json!(5))
        }
        "Vary" => ("The request headers that the response depends on", json!("Accept-Language")),
        REQUEST_ID_HEADER => (
            "The id of the request: as sent by the client, if it has at most 128 visible ASCII characters, otherwise a new one",
            json!("9f2c4e5d8b1a7f03-2a"),
        ),
        _ => ("", Value::Null),
    }
}

/// Adds the headers to their responses.
pub(super) fn add_headers(document: &mut OpenApi) {
    for operation in super::operations_mut(document) {
        let id = operation.operation_id.clone().unwrap_or_default();
        let declared = OPERATIONS.iter().find(|declared| declared.id == id);
        for (statuses, names) in declared.map_or(&[][..], |declared| declared.headers) {
            for status in *statuses {
                add_to(operation, status, names);
            }
        }
        operation.responses.responses.values_mut().for_each(name_request);
    }
    let components = document.components.get_or_insert_default();
    components.headers.insert(REQUEST_ID_HEADER.to_owned(), response_header(REQUEST_ID_HEADER).into());
    components.responses.values_mut().for_each(name_request);
}

/// Adds a header to a response, or to the shared response that it refers to.
fn name_request(response: &mut RefOr<Response>) {
    if let RefOr::T(response) = response {
        let reference = Ref::new(format!("#/components/headers/{REQUEST_ID_HEADER}"));
        response.headers.insert(REQUEST_ID_HEADER.to_owned(), RefOr::Ref(reference));
    }
}

fn add_to(operation: &mut Operation, status: &str, names: &[&str]) {
    if let Some(RefOr::T(response)) = operation.responses.responses.get_mut(status) {
        let headers = names.iter().map(|name| ((*name).to_owned(), response_header(name).into()));
        response.headers.extend(headers);
    }
}

/// Creates a header by its name.
pub(super) fn response_header(name: &str) -> Header {
    let (description, example) = header_meaning(name);
    let schema = match &example {
        Value::Bool(_) => ObjectBuilder::new().schema_type(Type::Boolean),
        Value::Number(_) => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .minimum(Some(0)),
        _ => ObjectBuilder::new().schema_type(Type::String),
    };
    HeaderBuilder::new().schema(Some(schema)).description(Some(description)).example(Some(example)).build()
}
