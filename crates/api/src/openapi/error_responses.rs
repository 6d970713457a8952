//! The error responses of each operation (section 7), with the statuses and codes of [`Code`].

use std::collections::BTreeMap;

use axum::http::StatusCode;
use control::PublicCode;
use serde_json::json;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, Header, HeaderBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use super::headers;
use crate::error::Code;
use crate::wire::enums::ErrorCode;

/// The body of every error but 401.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derive alone")]
pub(crate) struct ErrorResponse {
    /// For programs.
    #[schema(value_type = ErrorCode)]
    code: String,
    /// For people, in English.
    #[schema(examples("it does not exist"))]
    message: String,
}

/// The codes by their bare names.
mod codes {
    pub(super) use control::PublicCode::*;

    pub(super) use crate::error::Code::{RangeNotSatisfiable, TooSlow};
}

macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $name:ident: $($code:ident $(as $status:ident)?),* ;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                responses_of_codes(&[$(refusals!(@one $code $($status)?)),*])
            }
        }
    )+};
    (@one $code:ident) => { (Code::from(codes::$code), Code::from(codes::$code).on_the_wire().1) };
    (@one $code:ident $status:ident) => { (Code::from(codes::$code), StatusCode::$status) };
}

// Besides these, any operation can be 401, 414, 429, 431, 500 and 503.
refusals! {
    /// Operations without specific errors.
    Unlikely: KeyScope;
    /// Reading the machine's state, where an absent machine is "not found".
    VmStatus: NoMachine as NOT_FOUND;
    /// Starting and stopping the machine.
    VmCommand: KeyScope, NoMachine;
    /// Uploading a file.
    Upload: KeyScope, BadRequest, EmptyFile, NotAFolder, OutsideWorkspace, Forbidden, NotFound, TooSlow, AlreadyExists,
        QuotaExceeded, TooLarge;
    /// Downloading a file.
    Download: KeyScope, BadRequest, IsFolder, OutsideWorkspace, Forbidden, NotFound, RangeNotSatisfiable;
    /// Deleting a file or folder.
    DeleteFile: KeyScope, BadRequest, OutsideWorkspace, Forbidden, NotFound, AmbiguousPath, NotEmpty;
    /// Listing a folder.
    ListFolder: KeyScope, BadRequest, NotAFolder, OutsideWorkspace, Forbidden, NotFound, TooManyEntries;
    /// Listing the home folder.
    ListHome: KeyScope, Forbidden, TooManyEntries;
    /// Creating a folder.
    CreateFolder: KeyScope, BadRequest, OutsideWorkspace, Forbidden, NotFound, AlreadyExists, QuotaExceeded;
    /// Asking a question.
    Ask: KeyScope, BadRequest, UnknownModel, UnknownSetting, UnknownJurisdiction, UnknownAgent, UnknownSkill,
        AmbiguousName,
        OutsideWorkspace, NotFound, TooSlow, ConversationBusy, InsufficientCredits, SpendingLimit,
        NoMachine, MachineNotRunning, ModelUnavailable, IdempotencyMismatch, TooLarge;
    /// Listing conversations.
    ListChats: KeyScope, BadRequest;
    /// Operations whose only input is a conversation or an answer.
    OfChat: KeyScope, NotFound;
    /// Replying to a call.
    Reply: KeyScope, BadRequest, NotFound, TooSlow, CallClosed, TooLarge;
    /// Changing a conversation.
    PatchChat: KeyScope, BadRequest, NotFound, TooSlow, TooLarge;
}

/// Returns the responses that every operation shares, by the names of their references, and the response of a path
/// without the operation.
pub(crate) fn shared_responses() -> [(&'static str, Response); 7] {
    let challenge = challenge_header();
    let unauthorized = ResponseBuilder::new()
        .description("The key is missing, mistyped, revoked or expired. The body is empty")
        .header("WWW-Authenticate", challenge);
    let mut unavailable = error_response(&[PublicCode::Unavailable.into()]);
    unavailable.headers.insert("Retry-After".to_owned(), headers::response_header("Retry-After").into());
    [
        ("Unauthorized", unauthorized.build()),
        ("Limited", rate_limit_response()),
        ("Failed", error_response(&[PublicCode::Internal.into()])),
        ("TargetTooLong", error_response(&[Code::TargetTooLong])),
        ("HeadTooLarge", error_response(&[Code::HeadTooLarge])),
        ("MethodNotAllowed", error_response(&[Code::MethodNotAllowed])),
        ("Unavailable", unavailable),
    ]
}

fn responses_of_codes(codes: &[(Code, StatusCode)]) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for (code, status) in codes {
        by_status.entry(status.as_u16()).or_default().push(*code);
    }
    let own =
        by_status.into_iter().map(|(status, codes)| (status.to_string(), error_response(&codes).into()));
    let shared = [
        ("401", "Unauthorized"),
        ("414", "TargetTooLong"),
        ("429", "Limited"),
        ("431", "HeadTooLarge"),
        ("500", "Failed"),
        ("503", "Unavailable"),
    ];
    let shared = shared.map(|(status, name)| (status.to_owned(), Ref::from_response_name(name).into()));
    own.chain(shared).collect()
}

/// Creates the response for these codes, which have the same status.
fn error_response(codes: &[Code]) -> Response {
    let describe = |code: &Code| format!("`{}`: {}", code.on_the_wire().0, describe_code(*code).meaning);
    let described = match codes {
        [only] => describe(only),
        several => several.iter().map(|code| format!("- {}", describe(code))).collect::<Vec<_>>().join("\n"),
    };
    let response = ResponseBuilder::new().description(described);
    let mut content = ContentBuilder::new().schema(Some(Ref::from_schema_name(ErrorResponse::name())));
    for code in codes {
        let (word, _) = code.on_the_wire();
        let body = json!({"code": word, "message": describe_code(*code).example});
        content = content.examples_from_iter([(word, ExampleBuilder::new().value(Some(body)))]);
    }
    response.content("application/json", content.build()).build()
}

fn challenge_header() -> Header {
    let description = "How to authenticate: by an API key";
    let text = ObjectBuilder::new().schema_type(Type::String);
    HeaderBuilder::new()
        .schema(Some(text))
        .description(Some(description))
        .example(Some("ApiKey".into()))
        .build()
}

/// Creates the response to a request beyond a rate.
fn rate_limit_response() -> Response {
    let number = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1));
    let description = "Seconds to wait before the next attempt";
    let header =
        HeaderBuilder::new().schema(Some(number)).description(Some(description)).example(Some(json!(2)));
    let mut response = error_response(&[PublicCode::RateLimited.into()]);
    response.headers.insert("Retry-After".to_owned(), header.build().into());
    response
}

/// The description of a code in the schema and the reference. Meaning and remedy are sentences without a full stop.
pub(super) struct CodeDescription {
    pub(super) meaning: &'static str,
    /// An example of the message.
    pub(super) example: &'static str,
    /// An instruction for the caller.
    pub(super) remedy: &'static str,
}

pub(super) const fn describe_code(code: Code) -> CodeDescription {
    match code {
        Code::UseCase(code) => describe_use_case_code(code),
        Code::MethodNotAllowed => CodeDescription {
            meaning: "the path does not support this method",
            example: "the path does not support this method",
            remedy: "`Allow` lists the methods of the path",
        },
        Code::RangeNotSatisfiable => CodeDescription {
            meaning: "the range is beyond the end of the file",
            example: "the range is beyond the end of the file, which has 52614 bytes",
            remedy: "`Content-Range` has the size of the file",
        },
        Code::TargetTooLong => CodeDescription {
            meaning: "the path with its query is too long",
            example: "the path with its query is longer than 16384 bytes",
            remedy: "shorten the path or the query",
        },
        Code::HeadTooLarge => CodeDescription {
            meaning: "the request line and headers are longer than allowed",
            example: "the request line and headers are longer than 65536 bytes",
            remedy: "send fewer or shorter headers",
        },
        Code::TooSlow => CodeDescription {
            meaning: "the body did not arrive in time",
            example: "the body did not arrive in time",
            remedy: "send the body without pauses",
        },
    }
}

/// Declares the function that describes a code of the use cases.
macro_rules! descriptions {
    ($($code:ident: $meaning:literal, $example:literal, $remedy:literal;)+) => {
        const fn describe_use_case_code(code: PublicCode) -> CodeDescription {
            match code {$(
                PublicCode::$code => {
                    CodeDescription { meaning: $meaning, example: $example, remedy: $remedy }
                }
            )+}
        }
    };
}

// The code: its meaning, an example of its message, the remedy.
descriptions! {
    BadRequest:
        "the request cannot be read",
        "a value in the request is invalid",
        "the message says what is wrong; correct the request";
    UnknownModel:
        "there is no such model",
        "there is no model \"clerk\"; valid values: reader",
        "the message lists the valid values; fetch the catalog again";
    UnknownSetting:
        "the model does not have this setting, or the setting does not have this value",
        "\"MAX\" is neither a setting of this model nor a value of one; valid values: LOW, MEDIUM, HIGH",
        "the message lists the valid values; fetch the catalog again";
    UnknownJurisdiction:
        "there is no such jurisdiction",
        "there is no jurisdiction \"XX\"; valid values: CZ, SK, EU",
        "the message lists the valid values; fetch the catalog again";
    UnknownAgent:
        "there is no such agent",
        "there is no agent \"clerk\"; valid values: causerie:assistant, causerie:lawyer",
        "the message lists the valid values; fetch the catalog again";
    UnknownSkill:
        "there is no such skill",
        "there is no skill \"juggling\"; valid values: causerie:contract-review, causerie:statute-lookup",
        "the message lists the valid values; fetch the catalog again";
    AmbiguousName:
        "several skills, or several agents, have this name",
        "\"review\" names several; their full names: contracts:review, code:review",
        "use one of the full names in the message, or an id";
    EmptyFile:
        "the uploaded file has no content",
        "the file is empty",
        "upload a file with content";
    IsFolder:
        "the path leads to a folder",
        "the path leads to a folder",
        "list the folder, and use the path of a file in it";
    NotAFolder:
        "the path does not lead to a folder",
        "the path does not lead to a folder",
        "use the path of a folder";
    OutsideWorkspace:
        "the path leads out of the workspace",
        "the path points outside the workspace",
        "use a path as an upload or a listing returned it";
    Forbidden:
        "the workspace does not permit it",
        "the home folder cannot be deleted",
        "the message says what does not permit it; choose another path";
    KeyScope:
        "the key's scopes do not permit this operation",
        "the key's scopes do not permit this operation",
        "create a key with the permission that the message names";
    NotFound:
        "it does not exist, or is not the caller's",
        "it does not exist",
        "check the id or the path, and the account of the key";
    ConversationBusy:
        "the conversation's previous question is still being answered",
        "the conversation is still being answered: wait for the answer or stop it",
        "wait for the answer, or stop it, then ask again; `Retry-After` says when";
    InsufficientCredits:
        "the balance does not cover it",
        "not enough credits: the question needs 12, and the account has 3",
        "ask the operator for credits";
    SpendingLimit:
        "the key's spending limit does not cover it",
        "the key has reached its spending limit",
        "use another key, or have one created with a higher limit";
    NoMachine:
        "the account has no machine",
        "the account has no machine",
        "ask the operator for a machine; files work without one";
    MachineNotRunning:
        "the account's machine is not running, and questions do not start it here",
        "the machine is STOPPED; start it and wait until it is RUNNING",
        "start the machine, wait until it is `RUNNING`, then ask again";
    ModelUnavailable:
        "no model is available: model discovery failed",
        "there is no model to answer with now (OPENAI: its server does not answer); try again later",
        "ask again later, or name another model of the catalog";
    IdempotencyMismatch:
        "the idempotency key was used with another body",
        "the idempotency key was used with another body: use a new key",
        "use a new key for each question";
    CallClosed:
        "the call has another reply already, or its answer does not wait for it any more",
        "the answer does not wait for the call any more",
        "collect the answer: it lists its pending calls";
    AlreadyExists:
        "the path already exists",
        "the path already exists",
        "choose another name, or delete what is there";
    AmbiguousPath:
        "the path matches two entries: one as written, one decoded",
        "the path is ambiguous: one entry matches it as written, another one decoded; percent-encode every byte of \
        the one that is meant",
        "percent-encode every byte of the path that is meant";
    NotEmpty:
        "the folder is not empty",
        "the folder is not empty",
        "delete what is in it, or add `recursive=true`";
    TooManyEntries:
        "the folder has more entries than can be listed",
        "the folder has more than 100000 entries",
        "delete or move entries, or use the paths that you know";
    QuotaExceeded:
        "the workspace or the disk of the service is full, or the file is larger than the workspace may be",
        "the workspace is full: its files may have 107374182400 bytes together",
        "delete files, or ask the operator for a larger quota";
    TooLarge:
        "the body is larger than allowed",
        "the body is larger than 4194304 bytes",
        "send less; upload long texts as files and attach them";
    RateLimited:
        "more requests than the operator allows",
        "too many requests; try again later",
        "repeat the call after `Retry-After`";
    Internal:
        "the service failed",
        "the service failed; try again later",
        "repeat the call; if it fails again, tell the operator the `X-Request-Id`";
    Unavailable:
        "the service is starting or stopping, or cannot reach its database",
        "the service cannot reach its database; try again later",
        "repeat the call after `Retry-After`";
}
