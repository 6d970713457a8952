//! The model of a turn, and the stream of its output.

use domain::catalog::ModelLimits;
use domain::id::MessageId;
use domain::step::StepError;
use domain::turn::host::TurnEvent;
use futures_util::StreamExt;
use models::{CatalogModel, StepStream};

/// The model of a turn.
#[derive(Clone)]
pub(super) struct TurnModel {
    /// Its entry in the catalog; `None` while the catalog does not have it.
    pub(super) found: Option<CatalogModel>,
    pub(super) settings: Vec<(String, String)>,
    /// The price and the limits that were agreed with the question.
    pub(super) limits: ModelLimits,
}

impl TurnModel {
    pub(super) fn sees_images(&self) -> bool {
        self.found.as_ref().is_some_and(|model| model.entry.sees_images)
    }
}

/// The stream of one attempt at a step.
pub(super) struct ModelStream {
    pub(super) number: u32,
    pub(super) attempt: u32,
    pub(super) stream: StepStream,
    pub(super) jitter: u64,
    /// The answer and the model, for the log.
    pub(super) answer: MessageId,
    pub(super) model: String,
}

/// Returns the next output of the model; waits for ever while none is called.
pub(super) async fn next_event(model_stream: &mut Option<ModelStream>) -> TurnEvent {
    let Some(ModelStream { number, attempt, stream, jitter, answer, model }) = model_stream else {
        return std::future::pending().await;
    };
    let (number, attempt, jitter, answer) = (*number, *attempt, *jitter, *answer);
    match stream.next().await {
        Some(Ok(event)) => TurnEvent::ModelDelta { number, attempt, event },
        other => {
            let cut =
                StepError::Unavailable { reason: "the stream ended early".to_owned(), retry_after: None };
            let error = other.and_then(Result::err).unwrap_or(cut);
            match &error {
                // A retry cannot succeed, and an operator may have to act.
                StepError::Rejected { .. } => {
                    tracing::warn!(%answer, model, %error, number, attempt, "model step rejected");
                }
                StepError::Unavailable { .. } | StepError::TimedOut { .. } | StepError::TooLong => {
                    tracing::info!(%answer, model, %error, number, attempt, "model step failed");
                }
            }
            *model_stream = None;
            TurnEvent::ModelFailed { number, attempt, error, jitter }
        }
    }
}
