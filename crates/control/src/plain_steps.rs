//! Model steps without an agent: one call of a model, without a conversation and a machine. Their credits are reserved and
//! settled like those of answers.

use std::sync::Arc;

use domain::credits::{AnswerCost, Credits, Price};
use domain::excerpt::Excerpt;
use domain::id::PostingId;
use domain::scope::Permission;
use domain::step::{
    OutputBlock, Step, StepError, StepEvent, StepRequest, TokenUsage, ToolSpec, TranscriptItem,
};
use engine::{BackgroundTasks, ServiceEnvironment};
use futures_util::StreamExt;
use models::{Catalog, StepStream, estimate};
pub use models::{PlainOptions, ResponseFormat, ToolChoice};
use store::plain_steps::{self, PlainStepDone, PlainStepReserve};
use store::{Sql, Store, StoreError};

use crate::error::{PublicCode, UseCaseError};
use crate::principal::Principal;

/// A step that a client asks for.
#[derive(Debug, Clone, Default)]
pub struct PlainRequest {
    /// The id of a model; the default if `None`.
    pub model: Option<String>,
    pub instructions: String,
    /// The messages, oldest first.
    pub transcript: Vec<TranscriptItem>,
    /// The tools of the client. The service runs none of them.
    pub tools: Vec<ToolSpec>,
    pub options: PlainOptions,
    pub settings: Vec<(String, String)>,
    /// The maximum number of output tokens; that of the model if `None`.
    pub output_max_tokens: Option<u32>,
}

/// The reason why a step did not begin.
#[derive(Debug)]
pub enum PlainRefusal {
    UseCase(UseCaseError),
    /// The messages exceed the model's context.
    TooLong {
        context_tokens: u32,
    },
}

impl<E: Into<UseCaseError>> From<E> for PlainRefusal {
    fn from(error: E) -> Self {
        Self::UseCase(error.into())
    }
}

/// Makes steps without an agent. Cheap to clone.
#[derive(Clone)]
pub struct PlainSteps {
    store: Store,
    environment: ServiceEnvironment,
    catalog: Arc<Catalog>,
    background: BackgroundTasks,
}

/// A step in progress. Dropping it ends the step, and settles what the model has written.
pub struct PlainStep {
    /// The id of the model that answers.
    pub model: String,
    /// The options that its vendor does not take, by their names in OpenAI's Chat Completions.
    pub ignored: Vec<&'static str>,
    stream: StepStream,
    request: StepRequest,
    output: Step,
    price: Price,
    /// The credits that were reserved.
    greatest: Credits,
    reservation: Option<PlainReservation>,
}

/// The credits of a step, until they are settled or released.
struct PlainReservation {
    service: PlainSteps,
    step: PostingId,
    price: Price,
    model: String,
}

impl PlainSteps {
    pub(crate) fn new(
        store: &Store,
        environment: &ServiceEnvironment,
        catalog: &Arc<Catalog>,
        background: &BackgroundTasks,
    ) -> Self {
        let (store, environment) = (store.clone(), environment.clone());
        Self { store, environment, catalog: catalog.clone(), background: background.clone() }
    }

    /// Releases the credits that an earlier service has reserved.
    pub(crate) async fn release_left_over(
        store: &Store,
        environment: &ServiceEnvironment,
    ) -> Result<(), StoreError> {
        loop {
            let pending = store.read(|tx| plain_steps::list_pending_plain_steps(tx)).await?;
            if pending.is_empty() {
                return Ok(());
            }
            for step in pending {
                let posting = PostingId::made_at(environment.now(), environment.random_bits());
                let now = environment.now();
                let release = move |tx: &mut dyn Sql| plain_steps::release_plain_step(tx, step, posting, now);
                store.write(release).await?;
            }
        }
    }

    /// Reserves the maximum cost of a step, and begins it.
    ///
    /// # Errors
    /// [`PlainRefusal`]; nothing is reserved then.
    pub async fn begin_step(
        &self,
        principal: &Principal,
        plain: PlainRequest,
    ) -> Result<PlainStep, PlainRefusal> {
        principal.require_any(&[Permission::Ask])?;
        principal.require_licence()?;
        let asked = plain.model.as_deref();
        let found = self.catalog.find_model(asked).ok_or_else(|| self.unknown_model(asked))?;
        let entry = found.entry.clone();
        crate::question_choices::check_settings(&entry, &plain.settings)?;
        let request = StepRequest {
            model: entry.vendor_name.clone(),
            instructions: plain.instructions,
            transcript: plain.transcript,
            tools: plain.tools,
            settings: plain.settings,
            output_max_tokens: plain.output_max_tokens.unwrap_or(entry.output_max_tokens),
            images: Vec::new(),
        };
        let input_tokens = estimate::input_tokens(&request);
        let room = u64::from(entry.context_tokens).saturating_sub(input_tokens);
        let output_max = u64::from(request.output_max_tokens.min(entry.output_max_tokens)).min(room);
        let output_max_tokens = u32::try_from(output_max).unwrap_or(u32::MAX);
        if output_max_tokens == 0 {
            return Err(PlainRefusal::TooLong { context_tokens: entry.context_tokens });
        }
        let request = StepRequest { output_max_tokens, ..request };
        let most =
            TokenUsage { input_tokens, output_tokens: u64::from(output_max_tokens), ..TokenUsage::default() };
        let (price, greatest) = (entry.price, entry.price.cost_of(most));
        let reservation = self.reserve(principal, greatest, &entry.id, price).await?;
        let ignored = found.unsupported_options(&plain.options);
        let stream = found.with_plain_options(&plain.options).stream_step(request.clone());
        let (model, output) = (entry.id, Step::default());
        let reservation = Some(reservation);
        Ok(PlainStep { model, ignored, stream, request, output, price, greatest, reservation })
    }

    fn unknown_model(&self, asked: Option<&str>) -> UseCaseError {
        let outage = match asked {
            Some(asked) => self.catalog.outage_of(asked),
            None => self.catalog.explain_outage(),
        };
        match (outage, asked) {
            (Some(outage), _) => UseCaseError::new(
                PublicCode::ModelUnavailable,
                format_args!("there is no model to answer with now ({outage}); try again later"),
            ),
            (None, asked) => UseCaseError::new(
                PublicCode::UnknownModel,
                format_args!("there is no model {}", Excerpt(asked.unwrap_or_default())),
            ),
        }
    }

    /// Reserves credits. Dropping the future releases them.
    async fn reserve(
        &self,
        principal: &Principal,
        greatest: Credits,
        model: &str,
        price: Price,
    ) -> Result<PlainReservation, UseCaseError> {
        let now = self.environment.now();
        let step = PostingId::made_at(now, self.environment.random_bits());
        let (account, key) = (principal.account(), principal.key_id());
        let new = PlainStepReserve { account, key, step, greatest, model: model.to_owned(), now };
        let reservation = PlainReservation { service: self.clone(), step, price, model: model.to_owned() };
        let store = self.store.clone();
        let reserving = self.background.see_through(async move {
            store.write(move |tx| plain_steps::reserve_plain_step(tx, &new)).await.map(|()| reservation)
        });
        Ok(reserving.await.unwrap_or(Err(StoreError::Panicked.into()))?)
    }
}

impl PlainStep {
    /// Returns the next event of the step; `None` after the last one. Before the last event, the credits are settled.
    pub async fn next_event(&mut self) -> Option<Result<StepEvent, StepError>> {
        let event = self.stream.next().await?;
        match &event {
            Ok(StepEvent::Finished { usage, .. }) => {
                let usage = usage.unwrap_or_else(|| estimate::estimate_usage(&self.request, &self.output));
                self.output.usage = usage;
                if let Some(reservation) = self.reservation.take() {
                    reservation.settle(usage).await;
                }
            }
            Ok(event) => self.record_output(event),
            Err(_) => {
                if let Some(reservation) = self.reservation.take() {
                    reservation.release().await;
                }
            }
        }
        Some(event)
    }

    /// Returns the usage and the cost of the finished step.
    #[must_use]
    pub fn bill(&self) -> AnswerCost {
        let used = self.output.usage;
        AnswerCost { used, settled: self.price.cost_of(used).min(self.greatest) }
    }

    /// Keeps the output for an estimate of its tokens.
    fn record_output(&mut self, event: &StepEvent) {
        match event {
            StepEvent::Text(text) => match self.output.blocks.last_mut() {
                Some(OutputBlock::Text(before)) => before.push_str(text),
                _ => self.output.blocks.push(OutputBlock::Text(text.clone())),
            },
            StepEvent::Reasoning(text) => match self.output.blocks.last_mut() {
                Some(OutputBlock::Reasoning(before)) => before.push_str(text),
                _ => self.output.blocks.push(OutputBlock::Reasoning(text.clone())),
            },
            StepEvent::Call(call) => self.output.blocks.push(OutputBlock::Call(call.clone())),
            StepEvent::WasReasoning
            | StepEvent::Cited(_)
            | StepEvent::Noted(_)
            | StepEvent::Opaque { .. }
            | StepEvent::Finished { .. } => {}
        }
    }
}

impl Drop for PlainStep {
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let background = reservation.service.background.clone();
        if self.output.blocks.is_empty() {
            background.spawn_until_shutdown(reservation.release());
        } else {
            let usage = estimate::estimate_usage(&self.request, &self.output);
            background.spawn_until_shutdown(reservation.settle(usage));
        }
    }
}

impl PlainReservation {
    async fn settle(self, usage: TokenUsage) {
        let Self { service, step, price, model } = self;
        let new_posting = || PostingId::made_at(service.environment.now(), service.environment.random_bits());
        let (settle, release, now) = (new_posting(), new_posting(), service.environment.now());
        let done = PlainStepDone { step, usage, price, model, settle, release, now };
        let store = service.store.clone();
        let settled = service.background.see_through(async move {
            store.write(move |tx| plain_steps::settle_plain_step(tx, &done).map(drop)).await
        });
        log_failure(settled.await.unwrap_or(Err(StoreError::Panicked)));
    }

    async fn release(self) {
        let Self { service, step, .. } = self;
        let posting = PostingId::made_at(service.environment.now(), service.environment.random_bits());
        let (store, now) = (service.store.clone(), service.environment.now());
        let released = service.background.see_through(async move {
            store.write(move |tx| plain_steps::release_plain_step(tx, step, posting, now)).await
        });
        log_failure(released.await.unwrap_or(Err(StoreError::Panicked)));
    }
}

/// Logs that credits stay reserved. The next start releases them.
fn log_failure(settled: Result<(), StoreError>) {
    if let Err(error) = settled {
        tracing::warn!(%error, "settlement of a model step failed: its credits stay reserved until a restart");
    }
}
