//! Errors of use cases: a kind, a stable code and a message.
//!
//! The kind says how a caller has to react. Each face maps the kinds to its own statuses in one place. The code is
//! public and names the exact reason. The message is for people. A use case returns its own error type inside this crate;
//! the `From` implementations below are the one place that gives such an error its code.

use std::fmt::{self, Display};

use domain::step::ReplyKind;
use machine::{RecordsError, SupervisorError};
use store::StoreError;
use store::conversations::{ConversationError, ShowRefused};
use store::plain_steps::PlainStepError;
use store::questions::AskRefused;
use store::turns::ReplyRefused;
use workspace::WorkspaceError;

use crate::ask_error::AskError;
use crate::workspaces_marker::WorkspacesGone;

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is invalid or names something unknown. Retrying it unchanged does not help.
    Invalid,
    /// The principal does not have the permission.
    Forbidden,
    /// The object does not exist, or belongs to another account.
    NotFound,
    /// The present state does not permit the request.
    Conflict,
    /// The request is larger than its limit.
    TooLarge,
    /// A rate or budget is used up.
    RateLimited,
    /// The service cannot serve the request now.
    Unavailable,
    Internal,
}

/// Declares the codes: documentation, name, public word and kind.
macro_rules! public_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal: $kind:ident,)+) => {
        /// The public code of an error, for programs. Codes are never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PublicCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl PublicCode {
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the public word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// Returns the kind of the errors with this code.
            #[must_use]
            pub const fn kind(self) -> ErrorKind {
                match self {
                    $(Self::$name => ErrorKind::$kind,)+
                }
            }
        }
    };
}

public_codes! {
    /// The request cannot be read.
    BadRequest = "BAD_REQUEST": Invalid,
    /// The question names an unknown model.
    UnknownModel = "UNKNOWN_MODEL": Invalid,
    /// The question names an unknown setting, or an unknown value of one.
    UnknownSetting = "UNKNOWN_SETTING": Invalid,
    /// The question names an unknown jurisdiction.
    UnknownJurisdiction = "UNKNOWN_JURISDICTION": Invalid,
    /// The question names an unknown agent.
    UnknownAgent = "UNKNOWN_AGENT": Invalid,
    /// The question names an unknown skill.
    UnknownSkill = "UNKNOWN_SKILL": Invalid,
    /// Several skills or agents have the name that the question uses.
    AmbiguousName = "AMBIGUOUS_NAME": Invalid,
    /// The uploaded file is empty.
    EmptyFile = "EMPTY_FILE": Invalid,
    /// The path leads to a folder where a file is required.
    IsFolder = "IS_FOLDER": Invalid,
    /// The path does not lead to a folder where one is required.
    NotAFolder = "NOT_A_FOLDER": Invalid,
    /// The path leads out of the workspace.
    OutsideWorkspace = "OUTSIDE_WORKSPACE": Forbidden,
    /// The workspace or the account does not permit the request.
    Forbidden = "FORBIDDEN": Forbidden,
    /// The key's scope does not permit the request.
    KeyScope = "KEY_SCOPE": Forbidden,
    /// The object does not exist, or belongs to another account.
    NotFound = "NOT_FOUND": NotFound,
    /// The conversation's previous question is still being answered.
    ConversationBusy = "CONVERSATION_BUSY": Conflict,
    /// The balance does not cover a question.
    InsufficientCredits = "INSUFFICIENT_CREDITS": Conflict,
    /// The key has reached its spending limit.
    SpendingLimit = "SPENDING_LIMIT": Conflict,
    /// The account has no machine.
    NoMachine = "NO_MACHINE": Conflict,
    /// The account's machine does not run, and questions do not start it.
    MachineNotRunning = "MACHINE_NOT_RUNNING": Conflict,
    /// No model is available, because model discovery failed.
    ModelUnavailable = "MODEL_UNAVAILABLE": Conflict,
    /// The idempotency key was used with another body.
    IdempotencyMismatch = "IDEMPOTENCY_MISMATCH": Conflict,
    /// The call has another reply already, or its answer does not wait for it any more.
    CallClosed = "CALL_CLOSED": Conflict,
    /// The path is taken.
    AlreadyExists = "ALREADY_EXISTS": Conflict,
    /// Two entries can be meant by the path of a deletion.
    AmbiguousPath = "AMBIGUOUS_PATH": Conflict,
    /// The folder is not empty.
    NotEmpty = "NOT_EMPTY": Conflict,
    /// The folder has more entries than can be listed.
    TooManyEntries = "TOO_MANY_ENTRIES": Conflict,
    /// The workspace is full.
    QuotaExceeded = "QUOTA_EXCEEDED": Conflict,
    /// The body is larger than allowed.
    TooLarge = "TOO_LARGE": TooLarge,
    /// Too many requests, or too much concurrent work.
    RateLimited = "RATE_LIMITED": RateLimited,
    /// The service failed.
    Internal = "INTERNAL": Internal,
    /// The service is starting or stopping, cannot reach its database, or has no disk space left.
    Unavailable = "UNAVAILABLE": Unavailable,
}

/// The message of [`UseCaseError::licence_ended`].
const LICENCE_ENDED: &str = "the licence of the account has ended: ask the operator of this service";

/// An error of a use case, as a face shows it. It holds no secret and no detail that only operators may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UseCaseError {
    kind: ErrorKind,
    code: PublicCode,
    message: String,
}

impl UseCaseError {
    /// Creates an error with the code's own kind.
    pub fn new(code: PublicCode, message: impl Display) -> Self {
        Self { kind: code.kind(), code, message: message.to_string() }
    }

    /// Creates an error for an invalid request.
    pub fn invalid(message: impl Display) -> Self {
        Self::new(PublicCode::BadRequest, message)
    }

    /// Creates an error for a conversation or message that does not exist, or belongs to another account.
    #[must_use]
    pub fn no_conversation() -> Self {
        Self::new(PublicCode::NotFound, "there is no such conversation or message")
    }

    /// Creates an error for an action that requires a licence, when the licence of the account has ended.
    #[must_use]
    pub fn licence_ended() -> Self {
        Self::new(PublicCode::Forbidden, LICENCE_ENDED)
    }

    /// Returns true for [`Self::licence_ended`].
    #[must_use]
    pub fn is_licence_ended(&self) -> bool {
        self.code == PublicCode::Forbidden && self.message == LICENCE_ENDED
    }

    /// Logs a failure for operators, and creates an error without its details.
    pub fn internal(error: impl Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(PublicCode::Internal, "the service failed; try again later")
    }

    /// Returns the same error with another kind.
    #[must_use]
    pub fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the public code.
    #[must_use]
    pub fn code(&self) -> PublicCode {
        self.code
    }

    #[must_use]
    pub fn into_message(self) -> String {
        self.message
    }
}

impl Display for UseCaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UseCaseError {}

/// Logs the failure. An outage is [`ErrorKind::Unavailable`], because it may end by itself.
impl From<&StoreError> for UseCaseError {
    fn from(error: &StoreError) -> Self {
        if matches!(error, StoreError::Full) {
            tracing::error!(%error, "disk full: request refused");
            let message = "the service has no disk space left; try again later";
            return Self::new(PublicCode::Unavailable, message);
        }
        if !error.is_outage() {
            return Self::internal(error);
        }
        tracing::warn!(%error, "request failed: store unavailable");
        let message = match error {
            StoreError::Uncertain(_) => {
                "the outcome of the request is unknown: check whether it took effect before you repeat it"
            }
            _ => "the service cannot reach its database; try again later",
        };
        Self::new(PublicCode::Unavailable, message)
    }
}

impl From<StoreError> for UseCaseError {
    fn from(error: StoreError) -> Self {
        Self::from(&error)
    }
}

impl From<WorkspacesGone> for UseCaseError {
    fn from(error: WorkspacesGone) -> Self {
        Self::new(PublicCode::Unavailable, error)
    }
}

impl From<ConversationError> for UseCaseError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NotFound => Self::no_conversation(),
            ConversationError::Store(error) => error.into(),
        }
    }
}

impl From<ReplyRefused> for UseCaseError {
    fn from(error: ReplyRefused) -> Self {
        match error {
            ReplyRefused::NotFound => Self::new(PublicCode::NotFound, "the answer has no such pending call"),
            ReplyRefused::Different | ReplyRefused::Closed => Self::new(PublicCode::CallClosed, error),
            ReplyRefused::Unfit(ReplyKind::Question) => {
                Self::invalid("the call is a question to the user: send the answer as output")
            }
            ReplyRefused::Unfit(ReplyKind::Function) => {
                Self::invalid("the call is a function: send its result as output or error")
            }
            ReplyRefused::Unfit(ReplyKind::Approval) => Self::invalid("the call awaits an approval"),
            ReplyRefused::Store(error) => error.into(),
        }
    }
}

impl From<ShowRefused> for UseCaseError {
    fn from(error: ShowRefused) -> Self {
        match error {
            ShowRefused::NotFound => Self::no_conversation(),
            ShowRefused::Busy => Self::new(PublicCode::ConversationBusy, error),
            ShowRefused::Store(error) => error.into(),
        }
    }
}

impl From<&SupervisorError> for UseCaseError {
    fn from(error: &SupervisorError) -> Self {
        match error {
            SupervisorError::NoMachine => Self::new(PublicCode::NoMachine, error),
            SupervisorError::ShuttingDown => Self::new(PublicCode::Unavailable, error),
            SupervisorError::Records(RecordsError(source)) => match source.downcast_ref::<StoreError>() {
                Some(store) => store.into(),
                None if source.is::<WorkspacesGone>() => WorkspacesGone.into(),
                None => Self::internal(error),
            },
            SupervisorError::Stopped
            | SupervisorError::GivenUp(_)
            | SupervisorError::NotInTime
            | SupervisorError::Driver(_) => Self::internal(error),
        }
    }
}

impl From<SupervisorError> for UseCaseError {
    fn from(error: SupervisorError) -> Self {
        Self::from(&error)
    }
}

impl From<WorkspaceError> for UseCaseError {
    fn from(error: WorkspaceError) -> Self {
        let code = match &error {
            WorkspaceError::Outside => PublicCode::OutsideWorkspace,
            WorkspaceError::HomeFolder | WorkspaceError::Denied => PublicCode::Forbidden,
            WorkspaceError::InvalidPath(_)
            | WorkspaceError::InvalidName(_)
            | WorkspaceError::NotAFile
            | WorkspaceError::IntoItself
            | WorkspaceError::Interrupted(_) => PublicCode::BadRequest,
            WorkspaceError::Empty => PublicCode::EmptyFile,
            WorkspaceError::NotFound => PublicCode::NotFound,
            WorkspaceError::IsFolder => PublicCode::IsFolder,
            WorkspaceError::NotAFolder => PublicCode::NotAFolder,
            WorkspaceError::AlreadyExists => PublicCode::AlreadyExists,
            WorkspaceError::AmbiguousPath => PublicCode::AmbiguousPath,
            WorkspaceError::NotEmpty => PublicCode::NotEmpty,
            WorkspaceError::TooManyEntries(_) => PublicCode::TooManyEntries,
            WorkspaceError::QuotaExceeded(_) => PublicCode::QuotaExceeded,
            // Temporary: the kernel revokes a lease that its holder does not give up.
            WorkspaceError::Leased => PublicCode::Unavailable,
            WorkspaceError::Io(source) => return Self::internal(source),
        };
        Self::new(code, error)
    }
}

impl From<PlainStepError> for UseCaseError {
    fn from(error: PlainStepError) -> Self {
        match error {
            PlainStepError::Insufficient { .. } => Self::new(PublicCode::InsufficientCredits, error),
            PlainStepError::SpendingLimit => Self::new(PublicCode::SpendingLimit, error),
            PlainStepError::Store(error) => error.into(),
        }
    }
}

impl From<AskError> for UseCaseError {
    fn from(error: AskError) -> Self {
        let code = match &error {
            AskError::Blank
            | AskError::TooLong
            | AskError::InstructionsTooLong
            | AskError::Functions(_)
            | AskError::Nul
            | AskError::TooManyAttachments
            | AskError::TooManySkills
            | AskError::RepeatedSetting(_)
            | AskError::NoSuchAttachment(_) => PublicCode::BadRequest,
            AskError::UnknownModel { .. } => PublicCode::UnknownModel,
            AskError::NoModel { .. } | AskError::GoneModel { .. } => PublicCode::ModelUnavailable,
            AskError::UnknownSetting { .. } => PublicCode::UnknownSetting,
            AskError::UnknownJurisdiction { .. } => PublicCode::UnknownJurisdiction,
            AskError::UnknownAgent { .. } => PublicCode::UnknownAgent,
            AskError::UnknownSkill { .. } => PublicCode::UnknownSkill,
            AskError::AmbiguousName { .. } => PublicCode::AmbiguousName,
            AskError::Attachment { error: WorkspaceError::Io(source), .. } => return Self::internal(source),
            AskError::Attachment { error: WorkspaceError::Outside, .. } => PublicCode::OutsideWorkspace,
            AskError::Attachment { .. } => PublicCode::BadRequest,
            AskError::NoMachine => PublicCode::NoMachine,
            AskError::DiskLow | AskError::NoWorkspaces(_) => PublicCode::Unavailable,
            AskError::MachineNotRunning(_) => PublicCode::MachineNotRunning,
            AskError::Machine(error) => return error.into(),
            AskError::Refused(refused) => match refused {
                AskRefused::NotFound | AskRefused::Gone => PublicCode::NotFound,
                AskRefused::Busy | AskRefused::OtherModel(_) | AskRefused::OtherPlace => {
                    PublicCode::ConversationBusy
                }
                AskRefused::TooManyVersions => PublicCode::BadRequest,
                AskRefused::Insufficient { .. } => PublicCode::InsufficientCredits,
                AskRefused::SpendingLimit => PublicCode::SpendingLimit,
                AskRefused::Mismatch => PublicCode::IdempotencyMismatch,
                AskRefused::Store(error) => return error.into(),
            },
            AskError::Store(error) => return error.into(),
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_temporary_without_details() {
        let outage = UseCaseError::from(StoreError::Unreachable("10.0.0.7: refused".to_owned()));
        assert_eq!((outage.kind(), outage.code()), (ErrorKind::Unavailable, PublicCode::Unavailable));
        assert!(!outage.to_string().contains("10.0.0.7"), "{outage}");
        let failed = UseCaseError::from(StoreError::Engine("table keys".to_owned()));
        assert_eq!((failed.kind(), failed.code()), (ErrorKind::Internal, PublicCode::Internal));
        assert!(!failed.to_string().contains("keys"), "{failed}");
    }

    #[test]
    fn machine_outage_maps_to_outage() {
        let records = RecordsError(Box::new(StoreError::Closed));
        assert_eq!(UseCaseError::from(SupervisorError::Records(records)).kind(), ErrorKind::Unavailable);
    }
}
