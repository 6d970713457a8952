//! Calls of the model, and the stream of its output.

use std::sync::Arc;

use domain::id::MessageId;
use domain::step::{StepError, StepRequest, TranscriptItem};
use domain::turn::host::TurnEvent;
use futures_util::{FutureExt, StreamExt};
use models::{CatalogModel, StepStream};

use super::runner::TurnRunner;
use crate::images::TurnImages;

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

impl TurnRunner {
    /// Builds the request, except for the model's name and the images.
    pub(super) fn build_request(
        &self,
        transcript: Vec<TranscriptItem>,
        tools: bool,
        output_max_tokens: u32,
    ) -> StepRequest {
        let sees_images = self.model.as_ref().is_some_and(|model| model.entry.sees_images);
        StepRequest {
            images: Vec::new(),
            model: String::new(),
            instructions: self.prompt.instructions().to_owned(),
            transcript,
            tools: if tools { self.prompt.tools_for(sees_images) } else { Vec::new() },
            settings: self.settings.clone(),
            output_max_tokens,
        }
    }

    /// Calls the model; its output follows on the stream.
    pub(super) fn call_model(&mut self, number: u32, attempt: u32, request: StepRequest) {
        let jitter = u64::from_be_bytes(self.store.shared.parts.environment.random_bytes());
        let stream: StepStream = match &self.model {
            Some(model) => {
                self.turn.set_provider(model.entry.provider);
                let request = StepRequest { model: model.entry.vendor_name.clone(), ..request };
                stream_model(model.clone(), self.images.clone(), request)
            }
            None => {
                self.model = self.store.shared.parts.catalog.find_model(Some(&self.store.model));
                let reason = format!("the catalog has no model {}", self.store.model);
                let gone = StepError::Unavailable { reason, retry_after: None };
                Box::pin(futures_util::stream::iter([Err(gone)]))
            }
        };
        self.model_stream = Some(ModelStream {
            number,
            attempt,
            stream,
            jitter,
            answer: self.store.fence.answer,
            model: self.store.model.clone(),
        });
    }
}

/// Calls the model once the images that it is shown are loaded. Dropping the stream ends either.
fn stream_model(model: CatalogModel, images: Arc<TurnImages>, request: StepRequest) -> StepStream {
    if !model.entry.sees_images {
        return model.stream_step(request);
    }
    let called = async move {
        let images = images.load_images(&request.transcript).await;
        model.stream_step(StepRequest { images, ..request })
    };
    Box::pin(called.flatten_stream())
}
