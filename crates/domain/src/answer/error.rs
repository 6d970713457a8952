//! Errors of answers.

/// The error of a failed answer: its additional field `error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerFailure {
    /// The code, for programs: upper snake case.
    pub code: ErrorCode,
    /// The message, for people; also appended to the answer.
    pub message: String,
}

/// Declares the codes: documentation, name and public word.
macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $word:literal,)+) => {
        /// The codes of [`AnswerFailure`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $code,)+
        }

        impl ErrorCode {
            pub const ALL: &[Self] = &[$(Self::$code),+];

            /// Returns the code as text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $word,)+
                }
            }
        }
    };
}

error_codes! {
    /// The model's server was unreachable or failed repeatedly.
    ModelUnavailable = "MODEL_UNAVAILABLE",
    /// The model's server rejected the request.
    ModelRejected = "MODEL_REJECTED",
    /// The model's server did not accept the service's key.
    ModelKeyRefused = "MODEL_KEY_REFUSED",
    /// The service's account with the model's vendor has no credit left.
    ModelUnpaid = "MODEL_UNPAID",
    /// The agent of the question does not exist any more.
    AgentUnavailable = "AGENT_UNAVAILABLE",
    /// The context exceeds the model's window.
    ContextTooLong = "CONTEXT_TOO_LONG",
    /// The account's credits do not cover the next step.
    InsufficientCredits = "INSUFFICIENT_CREDITS",
    /// The key of the question has reached its spending limit.
    SpendingLimit = "SPENDING_LIMIT",
    /// The machine could not be started or failed repeatedly.
    MachineFailed = "MACHINE_FAILED",
    /// The answer took more steps than allowed.
    TooManySteps = "TOO_MANY_STEPS",
    /// The model reached the limit of a step's output: the text is incomplete or empty.
    OutputExhausted = "OUTPUT_EXHAUSTED",
    /// The model declined to answer without a text, or a filter of its server cut the answer off.
    ModelRefused = "MODEL_REFUSED",
    /// A call had no reply from outside in time.
    ReplyOverdue = "REPLY_OVERDUE",
    /// The service was restored from a backup in which the answer was open.
    Interrupted = "INTERRUPTED",
    /// The service failed repeatedly.
    Internal = "INTERNAL",
}

impl ErrorCode {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}
