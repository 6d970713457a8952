//! Calls of the model.

use std::sync::Arc;

use domain::step::{StepError, StepRequest, TranscriptItem};
use futures_util::FutureExt;
use models::{CatalogModel, StepStream};

use super::model_stream::ModelStream;
use super::runner::TurnRunner;
use crate::images::TurnImages;

impl TurnRunner {
    /// Builds the request, except for the model's name and the images.
    pub(super) fn build_request(
        &self,
        transcript: Vec<TranscriptItem>,
        tools: bool,
        output_max_tokens: u32,
    ) -> StepRequest {
        StepRequest {
            images: Vec::new(),
            model: String::new(),
            instructions: self.prompt.instructions().to_owned(),
            transcript,
            tools: if tools { self.prompt.tools_for(self.model.sees_images()) } else { Vec::new() },
            settings: self.model.settings.clone(),
            output_max_tokens,
        }
    }

    /// Calls the model; its output follows on the stream.
    pub(super) fn call_model(&mut self, number: u32, attempt: u32, request: StepRequest) {
        let store = &self.context.store;
        let jitter = u64::from_be_bytes(store.records.environment.random_bytes());
        let stream: StepStream = match &self.model.found {
            Some(model) => {
                self.turn.set_provider(model.entry.provider);
                let request = StepRequest { model: model.entry.vendor_name.clone(), ..request };
                stream_model(model.clone(), self.images.clone(), request)
            }
            None => {
                self.model.found = self.context.services.catalog.find_model(Some(&store.model));
                let reason = format!("the catalog has no model {}", store.model);
                let gone = StepError::Unavailable { reason, retry_after: None };
                Box::pin(futures_util::stream::iter([Err(gone)]))
            }
        };
        self.model_stream = Some(ModelStream {
            number,
            attempt,
            stream,
            jitter,
            answer: store.fence.answer,
            model: store.model.clone(),
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
