//! Errors of answers.

/// The error of a failed answer: its additional field `error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFailure {
    /// The code, for programs: upper snake case.
    pub code: ErrorCode,
    /// The message, for people; also appended to the answer.
    pub message: String,
}

/// The codes of [`AnswerFailure`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The model's server was unreachable or failed repeatedly.
    ModelUnavailable,
    /// The model's server rejected the request.
    ModelRejected,
    /// The model's server did not accept the service's key.
    ModelKeyRefused,
    /// The service's account with the model's vendor has no credit left.
    ModelUnpaid,
    /// The agent of the question does not exist any more.
    AgentUnavailable,
    /// The context exceeds the model's window.
    ContextTooLong,
    /// The account's credits do not cover the next step.
    InsufficientCredits,
    /// The key of the question has reached its spending limit.
    SpendingLimit,
    /// The machine could not be started or failed repeatedly.
    MachineFailed,
    /// The answer took more steps than allowed.
    TooManySteps,
    /// The model reached the limit of a step's output: the text is incomplete or empty.
    OutputExhausted,
    /// The model declined to answer without a text, or a filter of its server cut the answer off.
    ModelRefused,
    /// The service was restored from a backup in which the answer was open.
    Interrupted,
    /// The service failed repeatedly.
    Internal,
}

impl ErrorCode {
    pub const ALL: [Self; 14] = [
        Self::ModelUnavailable,
        Self::ModelRejected,
        Self::ModelKeyRefused,
        Self::ModelUnpaid,
        Self::AgentUnavailable,
        Self::ContextTooLong,
        Self::InsufficientCredits,
        Self::SpendingLimit,
        Self::MachineFailed,
        Self::TooManySteps,
        Self::OutputExhausted,
        Self::ModelRefused,
        Self::Interrupted,
        Self::Internal,
    ];

    /// Returns the code as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelUnavailable => "MODEL_UNAVAILABLE",
            Self::ModelRejected => "MODEL_REJECTED",
            Self::ModelKeyRefused => "MODEL_KEY_REFUSED",
            Self::ModelUnpaid => "MODEL_UNPAID",
            Self::AgentUnavailable => "AGENT_UNAVAILABLE",
            Self::ContextTooLong => "CONTEXT_TOO_LONG",
            Self::InsufficientCredits => "INSUFFICIENT_CREDITS",
            Self::SpendingLimit => "SPENDING_LIMIT",
            Self::MachineFailed => "MACHINE_FAILED",
            Self::TooManySteps => "TOO_MANY_STEPS",
            Self::OutputExhausted => "OUTPUT_EXHAUSTED",
            Self::ModelRefused => "MODEL_REFUSED",
            Self::Interrupted => "INTERRUPTED",
            Self::Internal => "INTERNAL",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.as_str() == text)
    }
}
