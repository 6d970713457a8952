//! The output stream of a model.

use domain::id::MessageId;
use domain::step::StepError;
use domain::turn::host::Event;
use futures_util::StreamExt;
use models::StepStream;

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
pub(super) async fn next_event(model_stream: &mut Option<ModelStream>) -> Event {
    let Some(ModelStream { number, attempt, stream, jitter, answer, model }) = model_stream else {
        return std::future::pending().await;
    };
    let (number, attempt, jitter, answer) = (*number, *attempt, *jitter, *answer);
    match stream.next().await {
        Some(Ok(event)) => Event::ModelDelta { number, attempt, event },
        other => {
            let cut =
                StepError::Unavailable { reason: "the stream ended early".to_owned(), retry_after: None };
            let error = other.and_then(Result::err).unwrap_or(cut);
            match &error {
                // No other attempt fares better, and an operator may have to do something.
                StepError::Rejected { .. } => {
                    tracing::warn!(%answer, model, %error, number, attempt, "model step rejected");
                }
                StepError::Unavailable { .. } | StepError::TooLong => {
                    tracing::info!(%answer, model, %error, number, attempt, "model step failed");
                }
            }
            *model_stream = None;
            Event::ModelFailed { number, attempt, error, jitter }
        }
    }
}
