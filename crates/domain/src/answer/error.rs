//! Errors of answers.

/// Why an answer could not be finished: the additional field `error` of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerError {
    /// For programs, upper snake case.
    pub code: ErrorCode,
    /// For people; also appended to the answer.
    pub message: String,
}

/// The codes of [`AnswerError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// The model's server could not be reached or kept failing.
    ModelUnavailable,
    /// The model's server refused the request.
    ModelRejected,
    /// The exchange is longer than the model can read.
    ContextTooLong,
    /// The account's credits ran out.
    InsufficientCredits,
    /// The key through which the question came has spent what it may.
    SpendingLimit,
    /// The machine could not be started or kept failing.
    MachineFailed,
    /// The answer took more steps than allowed.
    TooManySteps,
    /// The model used up what a step may put out before it said anything.
    OutputExhausted,
    /// The model declined to answer, without a word of its own.
    ModelRefused,
    /// The service could not go on with it, however often it tried.
    Internal,
}

impl ErrorCode {
    /// The code as programs read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ModelUnavailable => "MODEL_UNAVAILABLE",
            Self::ModelRejected => "MODEL_REJECTED",
            Self::ContextTooLong => "CONTEXT_TOO_LONG",
            Self::InsufficientCredits => "INSUFFICIENT_CREDITS",
            Self::SpendingLimit => "SPENDING_LIMIT",
            Self::MachineFailed => "MACHINE_FAILED",
            Self::TooManySteps => "TOO_MANY_STEPS",
            Self::OutputExhausted => "OUTPUT_EXHAUSTED",
            Self::ModelRefused => "MODEL_REFUSED",
            Self::Internal => "INTERNAL",
        }
    }

    /// The code of this text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::ModelUnavailable,
            Self::ModelRejected,
            Self::ContextTooLong,
            Self::InsufficientCredits,
            Self::SpendingLimit,
            Self::MachineFailed,
            Self::TooManySteps,
            Self::OutputExhausted,
            Self::ModelRefused,
            Self::Internal,
        ]
        .into_iter()
        .find(|code| code.as_str() == text)
    }
}
