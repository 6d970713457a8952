//! The meaning of finish reasons. Servers behind gateways also send finish reasons of other vendors, so all
//! formats share one table.

use domain::step::{StepError, StopReason};

use crate::error;

/// The meaning of a finish reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    Stop(StopReason),
    /// The server failed: the step is retried.
    Failed,
    /// The server gave no reason.
    Unspecified,
    /// The reason is not known.
    Unknown,
}

const DONE: &[&str] = &[
    "stop",
    "end_turn",
    "stop_sequence",
    "eos",
    "eos_token",
    "end",
    "complete",
    "completed",
    "done",
    "finished",
    "success",
    "normal",
];
const CALLS: &[&str] = &["tool_calls", "tool_call", "tool_use", "function_call", "function_calls", "calls"];
const FULL: &[&str] = &[
    "length",
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "max_length",
    "token_limit",
    "model_length",
    "context_length",
    "context_length_exceeded",
    "model_context_window_exceeded",
    "pause_turn",
];
const FILTERED: &[&str] = &[
    "content_filter",
    "content_filtered",
    "content-filter",
    "filter",
    "guardrail_intervened",
    "sensitive",
    "safety",
    "recitation",
    "refusal",
    "language",
    "blocklist",
    "blocked",
    "prohibited_content",
    "spii",
    "image_safety",
    "image_prohibited_content",
    "image_recitation",
    "violation",
    "risk",
];
const FAILED: &[&str] = &[
    "error",
    "network_error",
    "server_error",
    "internal_error",
    "timeout",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "failed",
    "insufficient_system_resource",
    "overloaded",
    "repetition",
    "malformed_function_call",
    "malformed_response",
    "unexpected_tool_call",
    "too_many_tool_calls",
    "other",
    "no_image",
    "image_other",
];

impl Finish {
    /// Returns the meaning of a reason in any vendor's words.
    pub(crate) fn from_reason(reason: &str) -> Self {
        let reason = reason.trim().to_lowercase();
        let reason = reason.strip_prefix("finish_reason_").unwrap_or(&reason);
        let is = |reasons: &[&str]| reasons.contains(&reason);
        match reason {
            "" | "unspecified" | "null" | "none" => Self::Unspecified,
            _ if is(DONE) => Self::Stop(StopReason::Done),
            _ if is(CALLS) => Self::Stop(StopReason::Calls),
            _ if is(FULL) => Self::Stop(StopReason::OutputFull),
            _ if is(FILTERED) => Self::Stop(StopReason::Filtered),
            _ if is(FAILED) => Self::Failed,
            _ => Self::Unknown,
        }
    }
}

/// How a step ends, as far as its stream has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StepEnding {
    /// The reason; `None` while the model is not done.
    pub(crate) stop: Option<StopReason>,
    /// The server gave a reason that is not known.
    pub(crate) is_unknown: bool,
}

impl StepEnding {
    /// Takes the server's reason.
    ///
    /// # Errors
    /// Fails if the reason means that the server failed.
    pub(crate) fn take_reason(&mut self, reason: &str) -> Result<(), StepError> {
        match Finish::from_reason(reason) {
            Finish::Stop(stop) => (self.stop, self.is_unknown) = (Some(stop), false),
            Finish::Unspecified => {}
            Finish::Failed => {
                return Err(error::unavailable_step(format!("it stopped for the reason {reason}")));
            }
            Finish::Unknown => {
                tracing::warn!(reason, "unknown finish reason of a model's server");
                (self.stop, self.is_unknown) = (Some(StopReason::Done), true);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finish_reasons_map_by_meaning() {
        for (reason, meaning) in [
            ("stop", Finish::Stop(StopReason::Done)),
            ("STOP", Finish::Stop(StopReason::Done)),
            ("MAX_TOKENS", Finish::Stop(StopReason::OutputFull)),
            ("model_length", Finish::Stop(StopReason::OutputFull)),
            ("tool_use", Finish::Stop(StopReason::Calls)),
            ("sensitive", Finish::Stop(StopReason::Filtered)),
            ("SAFETY", Finish::Stop(StopReason::Filtered)),
            ("insufficient_system_resource", Finish::Failed),
            ("abort", Finish::Failed),
            ("FINISH_REASON_UNSPECIFIED", Finish::Unspecified),
            ("", Finish::Unspecified),
            ("unheard of", Finish::Unknown),
        ] {
            assert_eq!(Finish::from_reason(reason), meaning, "{reason}");
        }
    }
}
