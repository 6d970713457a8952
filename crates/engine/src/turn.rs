//! The runner of one turn: carries out the effects of the pure [`Turn`] and feeds it the events that follow.

mod calls;
mod machine_wait;
mod model_stream;
mod session_state;
mod subagent;

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::answer::{Answer, AnswerError, Change, Stamp};
use domain::catalog::ModelLimits;
use domain::step::{Item, StepError, StepEvent, StepRequest, ToolSpec};
use domain::time::Timestamp;
use domain::turn::HostFrame;
use domain::turn::host::{Completion, Effect, Event, Turn};
use futures_util::FutureExt;
use machine::TurnGuard;
use models::{Model, StepStream};
use store::StoreError;
use store::turns::{self, ClaimedTurn, TurnRecord};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use self::machine_wait::over_at;
use self::model_stream::{ModelStream, next_event};
use self::session_state::SessionState;
use super::agent_session;
use super::control_signal::{self, ControlSignal, ControlSignals};
use super::images::TurnImages;
use super::local_calls::Running;
use super::prompt_context::{PromptContext, PromptOptions, counted};
use super::shared::Shared;
use super::subagent_output::SubagentOutput;
use super::turn_input::{INBOX_MAX, SessionEvent, TurnInput, TurnOutcome};
use super::turn_store::TurnStore;
use super::web::{self, WebPolicy};
use super::{give_up, setup};
use crate::settle::{settle, settle_surely};
use live::{Live, LiveAnswer, Meta};

/// The backoff before a failed answer is released; doubles with each attempt in a row.
const REST: Duration = Duration::from_secs(1);
const REST_DOUBLINGS_MAX: u32 = 5;
/// Leases in a row without progress after which an answer fails: with the backoff between them, some four minutes.
const ATTEMPTS_MAX: u32 = 12;
/// The shortest time of them. A service that is killed again and again has no backoff between its leases, and it need not be
/// the answer that kills it.
const ATTEMPTS_TIME_MIN: Duration = Duration::from_secs(60);
/// The time in which a session ends after its turn.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Works on a claimed answer until it is complete, another node takes it over or the service shuts down.
pub(super) async fn run(
    shared: &Arc<Shared>,
    claimed: ClaimedTurn,
    mut given: watch::Receiver<ControlSignals>,
) {
    let (fence, doublings) = (claimed.fence, claimed.attempts.saturating_sub(1).min(REST_DOUBLINGS_MAX));
    let meta = claimed_meta(&claimed);
    let ended = shared.shutdown.run_until_cancelled(attempt(shared, claimed, &mut given)).await;
    match ended {
        Some(TurnOutcome::Over) => {}
        Some(TurnOutcome::GiveBack) => {
            let rest = async {
                // A user who stops or deletes the answer does not wait for the pause.
                let pause = REST * 2_u32.pow(doublings);
                let _ = timeout(pause, control_signal::next(&mut given)).await;
            };
            shared.shutdown.run_until_cancelled(rest).await;
            shared.give_back(fence).await;
        }
        Some(TurnOutcome::MachineStopped) | None => shared.put_back(fence).await,
    }
    // Readers stay attached until the answer is claimed again. If it ended without this turn's knowledge, nothing
    // else would notify them.
    let settled = settle_surely(&shared.parts.store, &shared.parts.live, &meta);
    shared.shutdown.run_until_cancelled(settled).await;
}

/// Begins the answer for its readers, or restarts it. One of a deleted conversation has none.
fn begin_live(live: &Live, claimed: &ClaimedTurn, record: &TurnRecord, answer: &Answer) -> Arc<LiveAnswer> {
    let meta = Meta { created_at: record.created_at, model: record.model.clone(), ..claimed_meta(claimed) };
    let begun = if record.deleted {
        live.delete(claimed.conversation);
        Arc::new(LiveAnswer::new(meta, answer.clone()))
    } else {
        live.begin(meta, answer.clone())
    };
    begun.restart(answer.clone());
    begun
}

/// Returns the metadata that a claim holds.
fn claimed_meta(claimed: &ClaimedTurn) -> Meta {
    Meta {
        answer: claimed.fence.answer,
        account: claimed.account,
        conversation: claimed.conversation,
        created_at: Timestamp::from_micros(0),
        model: String::new(),
    }
}

/// Works on the answer, or fails it after too many attempts.
async fn attempt(
    shared: &Arc<Shared>,
    claimed: ClaimedTurn,
    given: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let answer = claimed.fence.answer;
    let tried_for = shared.parts.environment.now().since(claimed.attempts_since);
    if claimed.attempts > ATTEMPTS_MAX && tried_for >= ATTEMPTS_TIME_MIN {
        return fail(shared, claimed, give_up::internal(), "too many leases without progress").await;
    }
    // An answer that breaks its turn must not stay leased for ever.
    let ended = AssertUnwindSafe(Box::pin(work(shared, claimed, given))).catch_unwind().await;
    ended.unwrap_or_else(|_| {
        tracing::error!(%answer, "turn task panicked");
        TurnOutcome::GiveBack
    })
}

/// Fails the answer, because of `why`.
async fn fail(shared: &Shared, claimed: ClaimedTurn, error: AnswerError, why: &str) -> TurnOutcome {
    if give_up::end(shared, claimed, error, why).await { TurnOutcome::Over } else { TurnOutcome::GiveBack }
}

async fn work(
    shared: &Arc<Shared>,
    claimed: ClaimedTurn,
    given: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let (answer, generation) = (claimed.fence.answer, shared.parts.live.generation());
    let record = match shared.parts.store.read(move |tx| turns::load(tx, answer)).await {
        Ok(Some(record)) => record,
        Ok(None) => return TurnOutcome::Over,
        // Damaged data cannot be read later either.
        Err(error @ StoreError::Damaged { .. }) => {
            return fail(shared, claimed, give_up::internal(), &error.to_string()).await;
        }
        Err(error) => {
            tracing::error!(%answer, %error, "answer load failed");
            return TurnOutcome::GiveBack;
        }
    };
    let library = shared.parts.plugins.library();
    let is_stopped = claimed.stop_requested || record.stop_requested;
    if let Some(agent) = record.agent.as_deref().filter(|agent| !is_stopped && !library.has_agent(agent)) {
        return fail(shared, claimed, give_up::no_agent(agent), "its agent is gone").await;
    }
    let (events, mut inbox) = mpsc::channel(INBOX_MAX);
    // A stop must not wait for lists of tools.
    let tools = tokio::select! {
        biased;
        () = control_signal::given(given) => Vec::new(),
        () = std::future::ready(()), if record.stop_requested => Vec::new(),
        tools = shared.parts.web.mcp_tools() => tools,
    };
    let Some(mut runner) = TurnRunner::new(shared, claimed, record, tools, events).await else {
        return TurnOutcome::GiveBack;
    };
    if shared.parts.live.has_deleted_since(generation) {
        // This answer may be among them. If the store fails now, its readers are notified with the end.
        let _ = settle(&shared.parts.store, &shared.parts.live, &claimed_meta(&claimed)).await;
    }
    see_through(&mut runner, &mut inbox, given).await
}

/// Carries out effects and feeds events until the turn is over or can't go on here.
pub(super) async fn see_through(
    runner: &mut TurnRunner,
    inbox: &mut mpsc::Receiver<TurnInput>,
    given: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let mut effects: VecDeque<Effect> = runner.turn.begin().into();
    loop {
        while let Some(effect) = effects.pop_front() {
            match runner.carry_out(effect).await {
                Ok(Some(event)) => effects.extend(runner.turn.on(event)),
                Ok(None) => {}
                Err(ended) => return ended,
            }
        }
        if runner.session.machine_stopped && runner.turn.is_idle() {
            return TurnOutcome::MachineStopped;
        }
        runner.connect_if_wanted();
        let wait_until = runner.session.wait.until(runner.turn.awaits_machine(), Instant::now());
        let event = tokio::select! {
            biased; // nothing keeps a stop waiting
            order = control_signal::next(given) => Some(order),
            () = over_at(wait_until) => {
                Some(Event::MachineFailed("it has not answered for too long".to_owned()))
            }
            came = next(inbox, &mut runner.model_stream) => match came {
                Came::ByInbox(TurnInput::Lost(ended)) => return ended,
                Came::ByInbox(came) => runner.receive(came),
                Came::Said(event) => runner.named(event),
            },
        };
        if let Some(event) = event {
            runner.hear(&event);
            let of_machine = matches!(event, Event::Executor(_));
            let wanted = runner.turn.on(event);
            if of_machine && !wanted.is_empty() {
                // Only a frame that advances the turn counts as a sign of life.
                runner.session.failures = 0;
                runner.session.wait.end();
            }
            effects.extend(wanted);
        }
    }
}

/// An input of the loop.
enum Came {
    ByInbox(TurnInput),
    Said(Event),
}

/// Waits for the next input or model output.
async fn next(inbox: &mut mpsc::Receiver<TurnInput>, model_stream: &mut Option<ModelStream>) -> Came {
    tokio::select! {
        Some(came) = inbox.recv() => Came::ByInbox(came),
        event = next_event(model_stream) => Came::Said(event),
    }
}

/// Runs one turn.
pub(super) struct TurnRunner {
    pub(super) store: TurnStore,
    model: Option<Model>,
    images: Arc<TurnImages>,
    settings: Vec<(String, String)>,
    model_limits: ModelLimits,
    /// The start of the answer.
    created_at: Timestamp,
    prompt: PromptContext,
    reading: WebPolicy,
    /// Calls that open a skill whose use is to be counted.
    opening: HashMap<String, String>,
    /// Skills whose use was counted with the question or an earlier call.
    counted: HashSet<String>,
    pub(super) audience: Audience,
    pub(super) turn: Turn,
    model_stream: Option<ModelStream>,
    /// The calls that run on the host.
    running: Running,
    /// Permits of subagents that may work at once.
    others: Arc<Semaphore>,
    /// True until the first output is received.
    silent: bool,
    events: mpsc::Sender<TurnInput>,
    session: SessionState,
    pause: Option<AbortOnDropHandle<()>>,
    completed: bool,
    _guard: Option<TurnGuard>,
}

/// The consumer of a turn's changes.
pub(super) enum Audience {
    /// The readers of the answer.
    Readers(Arc<LiveAnswer>),
    /// The turn that called the subagent.
    Caller(SubagentOutput),
}

impl Audience {
    fn tell(&mut self, stamp: Stamp, change: Change) {
        match self {
            Self::Readers(live) => live.fold(stamp, change),
            Self::Caller(report) => report.take(&change),
        }
    }
}

/// The initial state of a runner.
pub(super) struct Beginning {
    pub(super) store: TurnStore,
    pub(super) model: Option<Model>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) model_limits: ModelLimits,
    pub(super) created_at: Timestamp,
    pub(super) prompt: PromptContext,
    pub(super) reading: WebPolicy,
    pub(super) counted: HashSet<String>,
    pub(super) audience: Audience,
    pub(super) turn: Turn,
    pub(super) silent: bool,
    pub(super) guard: Option<TurnGuard>,
}

impl TurnRunner {
    /// Creates the runner; `None` when that is not possible now.
    async fn new(
        shared: &Arc<Shared>,
        claimed: ClaimedTurn,
        record: TurnRecord,
        tools: Vec<ToolSpec>,
        events: mpsc::Sender<TurnInput>,
    ) -> Option<Self> {
        let model = shared.parts.catalog.resolve(Some(&record.model));
        // The model's price and limits as agreed with the question, whatever the catalog has now and even if the
        // vendor has not listed the model yet.
        let present =
            || Some(model.clone().or_else(|| shared.parts.catalog.resolve(None))?.entry.model_limits());
        let model_limits = record.model_limits.or_else(present)?;
        let chosen = PromptOptions {
            agent: record.agent.as_deref(),
            skills: &record.skills,
            jurisdictions: &record.jurisdictions,
            web: shared.parts.web.reach(record.web_search),
            templates: &shared.parts.templates,
        };
        let reading = WebPolicy {
            reach: chosen.web,
            allowed: Arc::new(web::allowed_by(&record.earlier, &record.question)),
            country: record.jurisdictions.first().cloned().filter(|_| record.jurisdictions.len() == 1),
        };
        let mut prompt = PromptContext::new(shared.parts.plugins.library(), chosen);
        prompt.offer(tools);
        let reads = setup::ModelInputs {
            images: model.as_ref().is_some_and(|model| model.entry.sees_images),
            only_quotes: model.as_ref().is_some_and(|model| model.entry.builtin),
        };
        let turn = Turn::new(setup::setup(
            &claimed,
            &record,
            model_limits,
            &prompt,
            shared.parts.web.clone(),
            reads,
        ));
        let live = begin_live(&shared.parts.live, &claimed, &record, turn.answer());
        let guard = match shared.parts.machines.turn(claimed.account).await {
            Ok(guard) => guard,
            Err(error) => {
                tracing::error!(%error, "machine start request failed for a turn");
                return None;
            }
        };
        let counted = counted(&record);
        let store = TurnStore::of(shared, &claimed, &record);
        let beginning = Beginning {
            store,
            model,
            settings: record.settings,
            model_limits,
            created_at: record.created_at,
            prompt,
            reading,
            counted,
            audience: Audience::Readers(live),
            turn,
            silent: claimed.fence.epoch == 1,
            guard: Some(guard),
        };
        Some(Self::begin(beginning, events))
    }

    /// Creates the runner from its initial state.
    pub(super) fn begin(beginning: Beginning, events: mpsc::Sender<TurnInput>) -> Self {
        let Beginning { store, model, settings, model_limits, created_at, .. } = beginning;
        let Beginning { prompt, reading, counted, audience, turn, silent, guard, .. } = beginning;
        let images = Arc::new(TurnImages::new(store.shared.clone(), store.account));
        Self {
            store,
            model,
            images,
            settings,
            model_limits,
            created_at,
            prompt,
            reading,
            opening: HashMap::new(),
            counted,
            audience,
            turn,
            model_stream: None,
            running: Running::default(),
            others: Arc::new(Semaphore::new(subagent::AT_ONCE)),
            silent,
            events,
            session: SessionState::new(),
            pause: None,
            completed: false,
            _guard: guard,
        }
    }

    /// Carries out an effect and returns the event that follows at once, if any.
    async fn carry_out(&mut self, effect: Effect) -> Result<Option<Event>, TurnOutcome> {
        self.store.spans.wanted(&effect);
        match effect {
            Effect::Send(frame) => return Ok(self.send(frame)),
            Effect::Reconnect => self.drop_session(),
            Effect::Reserve { number, attempt, summary, max_cost } => {
                return self.store.reserve(number, attempt, summary, max_cost).await.map(Some);
            }
            Effect::CallModel { number, attempt, transcript, tools, output_max_tokens } => {
                let request = self.request(transcript, tools, output_max_tokens);
                self.say(number, attempt, request);
            }
            Effect::CancelModel => self.model_stream = None,
            Effect::BackOff { number, attempt, wait } => self.pause(number, attempt, wait),
            Effect::CommitStep { entry, cost, .. } => {
                return self.store.commit_step(entry, cost).await.map(Some);
            }
            Effect::RunTool(call) => return Ok(self.run(call)),
            Effect::CommitResult { number, result } => {
                let opened: Vec<String> = self.opening.remove(&result.call).into_iter().collect();
                return self.store.commit_result(number, result, opened).await.map(Some);
            }
            Effect::Publish(stamp, change) => self.audience.tell(stamp, change),
            Effect::Complete(completion) => return self.complete(*completion).await.map(Some),
            Effect::Finish => {
                // The node that claims the answer continues its subagents.
                self.running.end(ControlSignal::Leave).await;
                self.leave_session();
                // An answer that another node has taken over may still be in progress: its state is looked up for its
                // readers.
                if self.store.delegation.is_none() && self.completed {
                    self.store.shared.parts.live.finish(self.store.fence.answer);
                }
                return Err(TurnOutcome::Over);
            }
        }
        Ok(None)
    }

    async fn complete(&mut self, completion: Completion) -> Result<Event, TurnOutcome> {
        self.running.end(ControlSignal::Stop).await;
        let event = self.store.complete(completion, self.created_at).await?;
        self.completed = event == Event::Completed;
        Ok(event)
    }

    fn receive(&mut self, came: TurnInput) -> Option<Event> {
        match came {
            TurnInput::Event(event) => {
                if let Event::ToolReturned { call, .. } = &event {
                    self.running.over(call);
                }
                Some(event)
            }
            TurnInput::Lost(_) => None,
            TurnInput::Session { number, .. } if number != self.session.number => None,
            TurnInput::Session { event, .. } => match event {
                SessionEvent::Up { connection, frames, tools } => {
                    self.prompt.bring(tools);
                    let (overhead_tokens, context_tokens) = setup::room(&self.prompt, self.model_limits);
                    self.turn.set_budget(overhead_tokens, context_tokens);
                    self.session.frames = Some(frames);
                    self.session.wait.end();
                    Some(Event::Connected(connection.instance()))
                }
                SessionEvent::Frame(frame) => Some(Event::Executor(frame)),
                SessionEvent::Violation => Some(Event::Violation),
                SessionEvent::Down => {
                    self.drop_session();
                    if !self.session.is_given_up(self.turn.needs_machine()) {
                        return Some(Event::Disconnected);
                    }
                    Some(Event::MachineFailed("it does not answer".to_owned()))
                }
                SessionEvent::GivenUp(reason) => Some(Event::MachineFailed(reason)),
                SessionEvent::MachineStopped => {
                    self.session.machine_stopped = true;
                    None
                }
            },
        }
    }

    /// Lets the session send its last frames in the background.
    fn leave_session(&mut self) {
        self.session.frames = None;
        if let Some(task) = self.session.task.take() {
            self.store.shared.tasks.spawn(async move {
                // Aborted when it takes longer.
                let _ = timeout(CLOSE_TIMEOUT, task).await;
            });
        }
    }

    fn connect_if_wanted(&mut self) {
        if self.session.task.is_some() || !self.turn.wants_connection() {
            return;
        }
        self.store.spans.reach();
        self.session.number += 1;
        let (number, failures) = (self.session.number, self.session.failures);
        let run = agent_session::run(
            self.store.shared.clone(),
            self.prompt.library().clone(),
            self.store.account,
            number,
            failures,
            self.events.clone(),
        );
        self.session.task = Some(AbortOnDropHandle::new(tokio::spawn(run)));
    }

    fn drop_session(&mut self) {
        self.session.frames = None;
        self.session.task = None;
        self.session.number += 1;
        self.session.machine_stopped = false;
    }

    /// Sends a frame to the executor. A guest that accepts no frame loses the session; the next session begins with
    /// the outstanding calls.
    fn send(&mut self, frame: HostFrame) -> Option<Event> {
        self.session.frames.as_ref()?.try_send(frame).err()?;
        self.drop_session();
        Some(Event::Disconnected)
    }

    /// Builds the request, except for the model's name and the images.
    fn request(&self, transcript: Vec<Item>, tools: bool, output_max_tokens: u32) -> StepRequest {
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

    fn say(&mut self, number: u32, attempt: u32, request: StepRequest) {
        let jitter = u64::from_be_bytes(self.store.shared.parts.environment.bytes());
        let stream: StepStream = match &self.model {
            Some(model) => {
                self.turn.set_provider(model.entry.provider);
                let request = StepRequest { model: model.entry.vendor_name.clone(), ..request };
                step(model.clone(), self.images.clone(), request)
            }
            None => {
                self.model = self.store.shared.parts.catalog.resolve(Some(&self.store.model));
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

    /// Records the first output and the trace.
    fn hear(&mut self, event: &Event) {
        self.store.spans.met(event);
        let word =
            matches!(event, Event::ModelDelta { event: StepEvent::Text(_) | StepEvent::Reasoning(_), .. });
        if word && std::mem::take(&mut self.silent) {
            self.store.shared.metrics.first_word.observe_duration(self.age());
        }
    }

    /// Returns the age of the answer.
    fn age(&self) -> Duration {
        self.store.shared.parts.environment.now().since(self.created_at)
    }

    fn pause(&mut self, number: u32, attempt: u32, wait: Duration) {
        let events = self.events.clone();
        self.pause = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The turn may have ended.
            let _ = events.send(TurnInput::Event(Event::BackoffElapsed { number, attempt })).await;
        })));
    }
}

/// Calls the model once the images that it is shown are loaded. Dropping the stream ends either.
fn step(model: Model, images: Arc<TurnImages>, request: StepRequest) -> StepStream {
    if !model.entry.sees_images {
        return model.step(request);
    }
    let called = async move {
        let images = images.load(&request.transcript).await;
        model.step(StepRequest { images, ..request })
    };
    Box::pin(called.flatten_stream())
}
