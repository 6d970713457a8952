//! The output stream of a model.

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
}

/// Returns the next output of the model; waits for ever while none is called.
pub(super) async fn next_event(model_stream: &mut Option<ModelStream>) -> Event {
    let Some(ModelStream { number, attempt, stream, jitter }) = model_stream else {
        return std::future::pending().await;
    };
    let (number, attempt, jitter) = (*number, *attempt, *jitter);
    match stream.next().await {
        Some(Ok(event)) => Event::ModelDelta { number, attempt, event },
        other => {
            *model_stream = None;
            let cut =
                StepError::Unavailable { reason: "the stream ended early".to_owned(), retry_after: None };
            let error = other.and_then(Result::err).unwrap_or(cut);
            tracing::info!(%error, number, attempt, "model step failed");
            Event::ModelFailed { number, attempt, error, jitter }
        }
    }
}
