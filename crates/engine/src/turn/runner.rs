//! The runner of a turn: executes the effects of the pure [`Turn`] and feeds it the events that follow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use domain::answer::{AnswerChange, RevisionStamp};
use domain::step::StepEvent;
use domain::turn::host::{Turn, TurnCompletion, TurnEffect, TurnEvent};
use live::LiveAnswer;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::machine_wait::over_at;
use super::model_stream::{ModelStream, TurnModel, next_event};
use super::session_state::SessionState;
use super::skill_uses::SkillUses;
use crate::control_signal::{self, ControlSignal, ControlSignals};
use crate::images::TurnImages;
use crate::local_calls::RunningCalls;
use crate::prompt_context::PromptContext;
use crate::subagent_output::SubagentOutput;
use crate::turn_context::TurnContext;
use crate::turn_input::{TurnInput, TurnOutcome};

/// The maximum number of subagents that work for one answer at once; the rest wait.
const SUBAGENTS_AT_ONCE: usize = 4;

/// Runs one turn, of an answer or of a subagent.
pub(super) struct TurnRunner {
    pub(super) context: TurnContext,
    pub(super) turn: Turn,
    pub(super) model: TurnModel,
    pub(super) prompt: PromptContext,
    pub(super) changes: ChangeSink,
    pub(super) skill_uses: SkillUses,
    pub(super) images: Arc<TurnImages>,
    pub(super) model_stream: Option<ModelStream>,
    /// The calls that run on the host.
    pub(super) running: RunningCalls,
    /// Permits of subagents that may work at once.
    pub(super) subagent_permits: Arc<Semaphore>,
    /// True until the first output of an answer that no earlier lease has begun.
    awaits_first_output: bool,
    /// The sender of the runner's own inbox.
    pub(super) inbox: mpsc::Sender<TurnInput>,
    pub(super) session: SessionState,
    backoff: Option<AbortOnDropHandle<()>>,
    completed: bool,
}

/// The subscriber to a turn's changes.
pub(super) enum ChangeSink {
    /// The readers of the answer.
    Readers(Arc<LiveAnswer>),
    /// The turn that called the subagent.
    Caller(SubagentOutput),
}

impl ChangeSink {
    fn publish_change(&mut self, stamp: RevisionStamp, change: AnswerChange) {
        match self {
            Self::Readers(live) => live.fold_change(stamp, change),
            Self::Caller(output) => output.apply_change(&change),
        }
    }
}

/// Carries out effects and feeds events until the turn is over or can't go on here.
pub(super) async fn run_turn(
    runner: &mut TurnRunner,
    inbox: &mut mpsc::Receiver<TurnInput>,
    signals: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let mut effects: VecDeque<TurnEffect> = runner.turn.begin_turn().into();
    loop {
        while let Some(effect) = effects.pop_front() {
            match runner.execute_effect(effect).await {
                Ok(Some(event)) => effects.extend(runner.turn.apply_event(event)),
                Ok(None) => {}
                Err(outcome) => return outcome,
            }
        }
        if runner.session.machine_stopped && runner.turn.is_idle() && runner.running.is_empty() {
            return TurnOutcome::MachineStopped;
        }
        runner.connect_if_wanted();
        let wait_until = runner.session.wait.deadline_at(runner.turn.awaits_machine(), Instant::now());
        let event = tokio::select! {
            biased; // nothing keeps a stop waiting
            signal = control_signal::next_signal(signals) => Some(signal),
            () = over_at(wait_until) => {
                Some(TurnEvent::MachineFailed("it has not answered for too long".to_owned()))
            }
            input = next_input(inbox, &mut runner.model_stream) => match input {
                LoopInput::Received(TurnInput::Lost(outcome)) => return outcome,
                LoopInput::Received(input) => runner.receive_input(input),
                LoopInput::Model(event) => runner.complete_model_event(event),
            },
        };
        if let Some(event) = event {
            runner.record_event(&event);
            let is_of_machine = matches!(event, TurnEvent::Executor(_));
            let following = runner.turn.apply_event(event);
            if is_of_machine && !following.is_empty() {
                // Only a frame that advances the turn counts as a sign of life.
                runner.session.failures = 0;
                runner.session.wait.end_wait();
            }
            effects.extend(following);
        }
    }
}

/// An input of the loop.
enum LoopInput {
    Received(TurnInput),
    /// An event of the model's stream.
    Model(TurnEvent),
}

/// Waits for the next input or model output.
async fn next_input(
    inbox: &mut mpsc::Receiver<TurnInput>,
    model_stream: &mut Option<ModelStream>,
) -> LoopInput {
    tokio::select! {
        Some(input) = inbox.recv() => LoopInput::Received(input),
        event = next_event(model_stream) => LoopInput::Model(event),
    }
}

impl TurnRunner {
    /// Creates the runner of a turn with the sender of its inbox.
    pub(super) fn new(
        context: TurnContext,
        turn: Turn,
        model: TurnModel,
        prompt: PromptContext,
        changes: ChangeSink,
        inbox: mpsc::Sender<TurnInput>,
    ) -> Self {
        let (services, store) = (&context.services, &context.store);
        let images = TurnImages::new(services.workspaces.clone(), services.machines.clone(), store.account);
        let is_answer = store.delegation.is_none();
        Self {
            awaits_first_output: is_answer && store.fence.epoch == 1,
            context,
            turn,
            model,
            prompt,
            changes,
            skill_uses: SkillUses::default(),
            images: Arc::new(images),
            model_stream: None,
            running: RunningCalls::default(),
            subagent_permits: Arc::new(Semaphore::new(SUBAGENTS_AT_ONCE)),
            inbox,
            session: SessionState::new(),
            backoff: None,
            completed: false,
        }
    }

    /// Executes an effect and returns the event that follows at once, if any.
    async fn execute_effect(&mut self, effect: TurnEffect) -> Result<Option<TurnEvent>, TurnOutcome> {
        self.context.store.spans.observe_effect(&effect);
        match effect {
            TurnEffect::Send(frame) => return Ok(self.send_frame(frame)),
            TurnEffect::Reconnect => self.drop_session(),
            TurnEffect::Reserve { number, attempt, summary, max_cost } => {
                return self
                    .context
                    .store
                    .reserve_credits(number, attempt, summary, max_cost)
                    .await
                    .map(Some);
            }
            TurnEffect::CallModel { number, attempt, transcript, tools, output_max_tokens } => {
                let request = self.build_request(transcript, tools, output_max_tokens);
                self.call_model(number, attempt, request);
            }
            TurnEffect::CancelModel => self.model_stream = None,
            TurnEffect::BackOff { number, attempt, wait } => self.back_off(number, attempt, wait),
            TurnEffect::CommitStep { entry, cost, .. } => {
                return self.context.store.commit_step(entry, cost).await.map(Some);
            }
            TurnEffect::RunTool(call) => return Ok(self.run_on_host(call)),
            TurnEffect::CommitResult { number, result } => {
                let opened = self.skill_uses.take_opened(&result.call);
                return self.context.store.commit_result(number, result, opened).await.map(Some);
            }
            TurnEffect::Pause { number, calls } => {
                let timeout = self.context.services.reply_timeout;
                return self.context.store.pause_answer(number, calls, timeout).await.map(Some);
            }
            TurnEffect::NameInstance { number, instance } => {
                return self.context.store.name_instance(number, instance).await.map(Some);
            }
            TurnEffect::Publish(stamp, change) => self.changes.publish_change(stamp, change),
            TurnEffect::Complete(completion) => return self.complete_turn(*completion).await.map(Some),
            TurnEffect::Finish => {
                // The node that claims the answer continues its subagents.
                self.running.end_all(ControlSignal::Leave).await;
                self.close_session();
                // An answer that another node has taken over may still be in progress: its state is looked up for its
                // readers.
                if self.context.store.delegation.is_none() && self.completed {
                    self.context.services.live.finish_answer(self.context.store.fence.answer);
                }
                return Err(TurnOutcome::Over);
            }
        }
        Ok(None)
    }

    async fn complete_turn(&mut self, completion: TurnCompletion) -> Result<TurnEvent, TurnOutcome> {
        self.running.end_all(ControlSignal::Stop).await;
        let event = self.context.store.complete_answer(completion, self.context.created_at).await?;
        self.completed = event == TurnEvent::Completed;
        Ok(event)
    }

    /// Records an event in the trace, and the time until the first output.
    fn record_event(&mut self, event: &TurnEvent) {
        self.context.store.spans.observe_event(event);
        let is_output = matches!(
            event,
            TurnEvent::ModelDelta { event: StepEvent::Text(_) | StepEvent::Reasoning(_), .. }
        );
        if is_output && std::mem::take(&mut self.awaits_first_output) {
            self.context.store.records.metrics.first_word.observe_duration(self.answer_age());
        }
    }

    /// Returns the age of the answer.
    fn answer_age(&self) -> Duration {
        self.context.store.records.now().duration_since(self.context.created_at)
    }

    /// Waits in the background before the next attempt at a step.
    fn back_off(&mut self, number: u32, attempt: u32, wait: Duration) {
        let inbox = self.inbox.clone();
        self.backoff = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            // The turn may have ended.
            let _ = inbox.send(TurnInput::Event(TurnEvent::BackoffElapsed { number, attempt })).await;
        })));
    }
}
