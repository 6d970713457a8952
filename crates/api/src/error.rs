//! Errors on the wire (section 7): the status and the code of each, decided here alone.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use control::StoreError;
use control::conversations::ConversationError;
use control::questions::{AskError, AskRefused};
use control::vm::{MachineError, RecordsError};
use domain::excerpt::EXCERPT_MAX_CHARS;
use http_common::{BUDGET_RETRY_AFTER, BudgetExceeded};
use serde::Serialize;
use workspace::WorkspaceError;

/// When to try again, in seconds: a busy conversation, or a service that is not available.
const RETRY_AFTER: &str = "5";

/// The codes of errors, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The request cannot be read.
    BadRequest,
    /// The question names a model that there is not.
    UnknownModel,
    /// The question names a setting that there is not.
    UnknownSetting,
    /// The question names a jurisdiction that there is not.
    UnknownJurisdiction,
    /// The question names an agent that there is not.
    UnknownAgent,
    /// The question names a skill that there is not.
    UnknownSkill,
    /// The question names a skill or an agent by a name that several have.
    AmbiguousName,
    /// The uploaded file has no content.
    EmptyFile,
    /// The path leads to a folder where a file is wanted.
    IsFolder,
    /// The path does not lead to a folder where one is wanted.
    NotAFolder,
    /// The path leads out of the workspace.
    OutsideWorkspace,
    /// The workspace does not permit it.
    Forbidden,
    /// The key may not do it.
    KeyScope,
    /// It does not exist, or is not the caller's.
    NotFound,
    /// The path has no such method.
    MethodNotAllowed,
    /// The conversation's previous question is still being answered.
    ConversationBusy,
    /// The balance does not cover a question.
    InsufficientCredits,
    /// The key may not spend so much.
    SpendingLimit,
    /// The account has no machine.
    NoMachine,
    /// The account's machine does not run, and questions start none.
    MachineNotRunning,
    /// There is no model to answer with, since a vendor has not told its models.
    ModelUnavailable,
    /// The idempotency key came with another body before.
    IdempotencyMismatch,
    /// The folder exists already.
    AlreadyExists,
    /// The folder is not empty.
    NotEmpty,
    /// The folder has more entries than can be listed.
    TooManyEntries,
    /// The workspace is full.
    QuotaExceeded,
    /// The body is larger than allowed.
    TooLarge,
    /// No byte of the file is in the range.
    RangeNotSatisfiable,
    /// Too many requests came.
    RateLimited,
    /// The target is longer than any path.
    TargetTooLong,
    /// The request's line and headers are more than allowed.
    HeadTooLarge,
    /// The body did not come in time.
    TooSlow,
    /// The service failed.
    Internal,
    /// The service is starting or stopping, cannot reach its database, or has no disk space left.
    Unavailable,
}

impl Code {
    /// Every code, as the schema lists them.
    pub const ALL: [Self; 34] = [
        Self::BadRequest,
        Self::UnknownModel,
        Self::UnknownSetting,
        Self::UnknownJurisdiction,
        Self::UnknownAgent,
        Self::UnknownSkill,
        Self::AmbiguousName,
        Self::EmptyFile,
        Self::IsFolder,
        Self::NotAFolder,
        Self::OutsideWorkspace,
        Self::Forbidden,
        Self::KeyScope,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::ConversationBusy,
        Self::InsufficientCredits,
        Self::SpendingLimit,
        Self::NoMachine,
        Self::MachineNotRunning,
        Self::ModelUnavailable,
        Self::IdempotencyMismatch,
        Self::AlreadyExists,
        Self::NotEmpty,
        Self::TooManyEntries,
        Self::QuotaExceeded,
        Self::TooLarge,
        Self::RangeNotSatisfiable,
        Self::RateLimited,
        Self::TargetTooLong,
        Self::HeadTooLarge,
        Self::TooSlow,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The code on the wire, and the status that goes with it.
    #[must_use]
    pub const fn on_the_wire(self) -> (&'static str, StatusCode) {
        match self {
            Self::BadRequest => ("BAD_REQUEST", StatusCode::BAD_REQUEST),
            Self::UnknownModel => ("UNKNOWN_MODEL", StatusCode::BAD_REQUEST),
            Self::UnknownSetting => ("UNKNOWN_SETTING", StatusCode::BAD_REQUEST),
            Self::UnknownJurisdiction => ("UNKNOWN_JURISDICTION", StatusCode::BAD_REQUEST),
            Self::UnknownAgent => ("UNKNOWN_AGENT", StatusCode::BAD_REQUEST),
            Self::UnknownSkill => ("UNKNOWN_SKILL", StatusCode::BAD_REQUEST),
            Self::AmbiguousName => ("AMBIGUOUS_NAME", StatusCode::BAD_REQUEST),
            Self::EmptyFile => ("EMPTY_FILE", StatusCode::BAD_REQUEST),
            Self::IsFolder => ("IS_FOLDER", StatusCode::BAD_REQUEST),
            Self::NotAFolder => ("NOT_A_FOLDER", StatusCode::BAD_REQUEST),
            Self::OutsideWorkspace => ("OUTSIDE_WORKSPACE", StatusCode::FORBIDDEN),
            Self::Forbidden => ("FORBIDDEN", StatusCode::FORBIDDEN),
            Self::KeyScope => ("KEY_SCOPE", StatusCode::FORBIDDEN),
            Self::NotFound => ("NOT_FOUND", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed => ("METHOD_NOT_ALLOWED", StatusCode::METHOD_NOT_ALLOWED),
            Self::ConversationBusy => ("CONVERSATION_BUSY", StatusCode::CONFLICT),
            Self::InsufficientCredits => ("INSUFFICIENT_CREDITS", StatusCode::CONFLICT),
            Self::SpendingLimit => ("SPENDING_LIMIT", StatusCode::CONFLICT),
            Self::NoMachine => ("NO_MACHINE", StatusCode::CONFLICT),
            Self::MachineNotRunning => ("MACHINE_NOT_RUNNING", StatusCode::CONFLICT),
            Self::ModelUnavailable => ("MODEL_UNAVAILABLE", StatusCode::CONFLICT),
            Self::IdempotencyMismatch => ("IDEMPOTENCY_MISMATCH", StatusCode::CONFLICT),
            Self::AlreadyExists => ("ALREADY_EXISTS", StatusCode::CONFLICT),
            Self::NotEmpty => ("NOT_EMPTY", StatusCode::CONFLICT),
            Self::TooManyEntries => ("TOO_MANY_ENTRIES", StatusCode::CONFLICT),
            Self::QuotaExceeded => ("QUOTA_EXCEEDED", StatusCode::CONFLICT),
            Self::TooLarge => ("TOO_LARGE", StatusCode::PAYLOAD_TOO_LARGE),
            Self::RangeNotSatisfiable => ("RANGE_NOT_SATISFIABLE", StatusCode::RANGE_NOT_SATISFIABLE),
            Self::RateLimited => ("RATE_LIMITED", StatusCode::TOO_MANY_REQUESTS),
            Self::TargetTooLong => ("TARGET_TOO_LONG", StatusCode::URI_TOO_LONG),
            Self::HeadTooLarge => ("HEAD_TOO_LARGE", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Self::TooSlow => ("TOO_SLOW", StatusCode::REQUEST_TIMEOUT),
            Self::Internal => ("INTERNAL", StatusCode::INTERNAL_SERVER_ERROR),
            Self::Unavailable => ("UNAVAILABLE", StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

/// An error as it is answered.
#[derive(Debug)]
pub struct ApiError {
    code: Code,
    message: String,
    /// A machine that is asked for and is not there is "not found"; one that is commanded is a conflict.
    status: Option<StatusCode>,
    /// After how many seconds to try again.
    retry_after: Option<u64>,
}

/// What a handler answers.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    /// An error of this code, with a sentence for people.
    pub fn new(code: Code, message: impl Display) -> Self {
        Self { code, message: message.to_string(), status: None, retry_after: None }
    }

    /// What cannot be read.
    pub fn bad_request(message: impl Display) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// A body that is no JSON, or not of the form that is wanted. The parser may repeat what it read, in the middle of
    /// what it says.
    pub(crate) fn of_json(error: &serde_json::Error) -> Self {
        let said = error.to_string();
        let count = said.chars().count();
        if count <= 2 * EXCERPT_MAX_CHARS {
            return Self::bad_request(format_args!("the body cannot be read: {said}"));
        }
        let begin: String = said.chars().take(EXCERPT_MAX_CHARS).collect();
        let end: String = said.chars().skip(count - EXCERPT_MAX_CHARS).collect();
        Self::bad_request(format_args!("the body cannot be read: {begin} … {end}"))
    }

    /// A conversation or message that does not exist, or is not the caller's.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "there is no such conversation or message")
    }

    /// A failure that callers are told nothing of; operators find it in the log.
    pub fn internal(error: impl Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(Code::Internal, "the service failed; try again later")
    }

    /// A store that failed. One that cannot be reached is a matter of time.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        if matches!(error, StoreError::Full) {
            tracing::error!(%error, "disk full: request refused");
            return Self::new(Code::Unavailable, "the service has no disk space left; try again later");
        }
        if !error.is_outage() {
            return Self::internal(error);
        }
        tracing::warn!(%error, "request failed: store unavailable");
        Self::new(
            Code::Unavailable,
            match error {
                StoreError::Uncertain(_) => {
                    "whether the request was carried out is not known; look before you repeat it"
                }
                _ => "the service cannot reach its database; try again later",
            },
        )
    }

    fn of_machine(error: &MachineError) -> Self {
        match error {
            MachineError::NoMachine => Self::new(Code::NoMachine, error),
            MachineError::ShuttingDown => Self::new(Code::Unavailable, error),
            MachineError::Records(RecordsError(source)) => match source.downcast_ref() {
                Some(store) => Self::of_store(store),
                None => Self::internal(error),
            },
            MachineError::Stopped | MachineError::GivenUp(_) | MachineError::NotInTime => {
                Self::internal(error)
            }
        }
    }

    /// Whether a budget is used up, of which something may be given back soon.
    pub(crate) fn is_spent(&self) -> bool {
        matches!(self.code, Code::RateLimited | Code::Unavailable) && self.retry_after.is_some()
    }

    /// The same error under another status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Tells when to try again, in whole seconds.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self { retry_after: Some(seconds.max(1)), ..self }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: &'a str,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (code, status) = self.code.on_the_wire();
        let status = self.status.unwrap_or(status);
        let mut response = (status, Json(Body { code, message: &self.message })).into_response();
        if matches!(self.code, Code::ConversationBusy | Code::Unavailable) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Answers a path that the interface does not have.
pub(crate) async fn no_such_path() -> ApiError {
    ApiError::new(Code::NotFound, "the interface has no such path")
}

/// Answers a method that the path does not have.
pub(crate) async fn no_such_method() -> ApiError {
    ApiError::new(Code::MethodNotAllowed, "the path does not have this method")
}

impl From<WorkspaceError> for ApiError {
    fn from(error: WorkspaceError) -> Self {
        let code = match &error {
            WorkspaceError::Outside => Code::OutsideWorkspace,
            WorkspaceError::HomeFolder | WorkspaceError::Denied => Code::Forbidden,
            WorkspaceError::InvalidPath(_)
            | WorkspaceError::InvalidName(_)
            | WorkspaceError::NotAFile
            | WorkspaceError::Interrupted(_) => Code::BadRequest,
            WorkspaceError::Empty => Code::EmptyFile,
            WorkspaceError::NotFound => Code::NotFound,
            WorkspaceError::IsFolder => Code::IsFolder,
            WorkspaceError::NotAFolder => Code::NotAFolder,
            WorkspaceError::AlreadyExists => Code::AlreadyExists,
            WorkspaceError::NotEmpty => Code::NotEmpty,
            WorkspaceError::TooManyEntries(_) => Code::TooManyEntries,
            WorkspaceError::QuotaExceeded => Code::QuotaExceeded,
            // It passes: the kernel takes a lease away from whoever does not give it up.
            WorkspaceError::Leased => Code::Unavailable,
            WorkspaceError::Io(source) => return Self::internal(source),
        };
        Self::new(code, error)
    }
}

impl From<BudgetExceeded> for ApiError {
    fn from(spent: BudgetExceeded) -> Self {
        let code = match spent {
            BudgetExceeded::Own => Code::RateLimited,
            BudgetExceeded::All => Code::Unavailable,
        };
        Self::new(code, spent).retry_after(BUDGET_RETRY_AFTER)
    }
}

impl From<ConversationError> for ApiError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NotFound => Self::not_found(),
            ConversationError::Store(error) => Self::of_store(&error),
        }
    }
}

impl From<MachineError> for ApiError {
    fn from(error: MachineError) -> Self {
        Self::of_machine(&error)
    }
}

impl From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        let code = match &error {
            AskError::Blank
            | AskError::Unreadable
            | AskError::TooManyAttachments
            | AskError::TooManySkills
            | AskError::RepeatedSetting(_)
            | AskError::NoSuchAttachment(_) => Code::BadRequest,
            AskError::UnknownModel { .. } => Code::UnknownModel,
            AskError::NoModel { .. } => Code::ModelUnavailable,
            AskError::UnknownSetting { .. } => Code::UnknownSetting,
            AskError::UnknownJurisdiction { .. } => Code::UnknownJurisdiction,
            AskError::UnknownAgent { .. } => Code::UnknownAgent,
            AskError::UnknownSkill { .. } => Code::UnknownSkill,
            AskError::AmbiguousName { .. } => Code::AmbiguousName,
            AskError::Attachment { error: WorkspaceError::Io(source), .. } => return Self::internal(source),
            AskError::Attachment { error: WorkspaceError::Outside, .. } => Code::OutsideWorkspace,
            AskError::Attachment { .. } => Code::BadRequest,
            AskError::NoMachine => Code::NoMachine,
            AskError::DiskLow => Code::Unavailable,
            AskError::MachineNotRunning(_) => Code::MachineNotRunning,
            AskError::Machine(error) => return Self::of_machine(error),
            AskError::Refused(refused) => match refused {
                AskRefused::NotFound | AskRefused::Gone => Code::NotFound,
                AskRefused::Busy => Code::ConversationBusy,
                AskRefused::Insufficient => Code::InsufficientCredits,
                AskRefused::SpendingLimit => Code::SpendingLimit,
                AskRefused::Mismatch => Code::IdempotencyMismatch,
                AskRefused::Store(error) => return Self::of_store(error),
            },
            AskError::Store(error) => return Self::of_store(error),
        };
        Self::new(code, error)
    }
}
