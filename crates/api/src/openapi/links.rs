//! Links from the responses of operations to the operations that follow.

use utoipa::openapi::link::LinkBuilder;
use utoipa::openapi::{OpenApi, RefOr, Response};

/// The operations on an answer and on its conversation.
const OF_ANSWER: [&str; 2] = ["collectAnswer", "streamAnswer"];
const OF_CHAT: [&str; 5] = ["getChat", "streamChat", "stopChat", "changeChat", "deleteChat"];

const CHAT: (&str, &str) = ("chatId", "$response.body#/chatId");
const MESSAGE: (&str, &str) = ("messageId", "$response.body#/id");
const PATH: (&str, &str) = ("path", "$response.body#/path");

/// Adds the links to their responses.
pub(super) fn add_links(document: &mut OpenApi) {
    for status in ["201", "202"] {
        for operation in OF_ANSWER {
            add_link(document, "/api/v1/chats", status, operation, &[CHAT, MESSAGE]);
        }
        for operation in OF_CHAT {
            add_link(document, "/api/v1/chats", status, operation, &[CHAT]);
        }
    }
    for operation in ["downloadFile", "deleteFile"] {
        add_link(document, "/api/v1/files", "201", operation, &[PATH]);
    }
    for operation in ["listDirectory", "deleteFile"] {
        add_link(document, "/api/v1/directories/{path}", "201", operation, &[PATH]);
    }
}

/// Links the answer of a `POST` to an operation that takes its parameters from it.
fn add_link(document: &mut OpenApi, path: &str, status: &str, operation: &str, taken: &[(&str, &str)]) {
    if let Some(response) = post_response_mut(document, path, status) {
        let link = taken.iter().fold(LinkBuilder::new().operation_id(operation), |link, (name, from)| {
            link.parameter(*name, *from)
        });
        response.links.insert(operation.to_owned(), link.build().into());
    }
}

fn post_response_mut<'a>(document: &'a mut OpenApi, path: &str, status: &str) -> Option<&'a mut Response> {
    let operation = document.paths.paths.get_mut(path)?.post.as_mut()?;
    match operation.responses.responses.get_mut(status)? {
        RefOr::T(response) => Some(response),
        RefOr::Ref(_) => None,
    }
}
