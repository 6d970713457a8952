//! Works on a claimed answer: loads it, runs its turn, and releases the lease.
//!
//! | module | what it does |
//! |---|---|
//! | `runner` | executes the effects of the pure [`Turn`] and feeds it the events that follow, in one loop |
//! | `model_call` | calls the model |
//! | `model_stream` | turns the model's output into events |
//! | `session` | connects to the machine, and turns the session's reports into events |
//! | `session_state` | counts failed sessions |
//! | `machine_wait` | measures how long the machine keeps the turn waiting |
//! | `calls` | runs the calls of tools that run on the host |
//! | `skill_uses` | counts the skills that it opens |
//! | `subagent` | runs the turn of a subagent |

mod calls;
mod machine_wait;
mod model_call;
mod model_stream;
mod runner;
mod session;
mod session_state;
mod skill_uses;
mod subagent;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::answer::{Answer, AnswerFailure};
use domain::id::MessageId;
use domain::step::ToolSpec;
use domain::time::Timestamp;
use domain::turn::host::{Setup, Turn};
use futures_util::FutureExt;
use live::{Live, LiveAnswer, Meta};
use machine::{SupervisorError, TurnGuard};
use store::StoreError;
use store::turns::{self, ClaimedTurn, TurnRecord};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::model_stream::TurnModel;
use self::runner::{ChangeSink, TurnRunner, run_turn};
use self::skill_uses::SkillUses;
use super::answer_records::AnswerRecords;
use super::control_signal::{self, ControlSignals};
use super::left_answers::{AGENT_WAIT_MAX, LeaveReason, LeftAnswers};
use super::plugin_library::Plugins;
use super::prompt_context::{PromptContext, PromptOptions, find_counted_skills};
use super::templates::PromptTemplates;
use super::turn_context::{TurnContext, TurnServices};
use super::turn_input::{INBOX_MAX, TurnInput, TurnOutcome};
use super::turn_store::TurnStore;
use super::web::{self, WebPolicy};
use super::{give_up, setup};
use crate::settle::{end_if_completed, settle_surely};
use crate::workspace_instructions;

/// The backoff before a failed answer is released; doubles with each attempt in a row.
const BACKOFF: Duration = Duration::from_secs(1);
const BACKOFF_DOUBLINGS_MAX: u32 = 5;
/// The number of consecutive leases without progress after which an answer fails: with the backoff between them, about
/// four minutes.
const ATTEMPTS_MAX: u32 = 12;
/// The minimum total time of these leases. A service that is killed repeatedly has no backoff between its leases, and
/// the answer need not be the cause.
const ATTEMPTS_TIME_MIN: Duration = Duration::from_secs(60);

/// The parts of the service with which claimed answers are worked on.
pub(super) struct AnswerWorker {
    pub(super) records: AnswerRecords,
    pub(super) left_answers: LeftAnswers,
    pub(super) plugins: Plugins,
    pub(super) templates: Arc<PromptTemplates>,
    /// The model steps of an answer.
    pub(super) steps_max: u32,
    /// The parts that the turns use.
    pub(super) services: Arc<TurnServices>,
}

impl AnswerWorker {
    fn live(&self) -> &Live {
        &self.services.live
    }

    fn leave_answer(&self, answer: MessageId, reason: LeaveReason) -> TurnOutcome {
        self.left_answers.add_answer(answer, reason, self.records.now());
        TurnOutcome::Leave
    }

    /// Fails the answer, because of `why`.
    async fn end_with_error(&self, claimed: ClaimedTurn, error: AnswerFailure, why: &str) -> TurnOutcome {
        if give_up::fail_answer(&self.records, self.live(), claimed, error, why).await {
            TurnOutcome::Over
        } else {
            TurnOutcome::GiveBack
        }
    }
}

/// Works on a claimed answer until it is complete, another node takes it over or the service shuts down.
pub(super) async fn run_claim(
    worker: &AnswerWorker,
    claimed: ClaimedTurn,
    mut signals: watch::Receiver<ControlSignals>,
) {
    let (fence, doublings) = (claimed.fence, claimed.attempts.saturating_sub(1).min(BACKOFF_DOUBLINGS_MAX));
    let meta = claimed_meta(&claimed);
    let outcome =
        worker.records.tasks.run_until_shutdown(attempt_answer(worker, claimed, &mut signals)).await;
    if outcome != Some(TurnOutcome::Leave) {
        worker.left_answers.remove_answer(fence.answer);
    }
    match outcome {
        Some(TurnOutcome::Over) => {}
        Some(TurnOutcome::Leave) => {
            let pause = worker.left_answers.retry_pause(fence.answer, worker.records.now());
            let pausing = async {
                let _ = timeout(pause, control_signal::next_signal(&mut signals)).await;
            };
            worker.records.tasks.run_until_shutdown(pausing).await;
            worker.records.put_back(fence).await;
        }
        Some(TurnOutcome::GiveBack) => {
            let backoff = async {
                // A user who stops or deletes the answer does not wait for it.
                let pause = BACKOFF * 2_u32.pow(doublings);
                let _ = timeout(pause, control_signal::next_signal(&mut signals)).await;
            };
            worker.records.tasks.run_until_shutdown(backoff).await;
            worker.records.give_back(fence).await;
        }
        Some(TurnOutcome::MachineStopped) | None => worker.records.put_back(fence).await,
    }
    // Readers stay attached until the answer is claimed again. If it ended without this turn's knowledge, nothing
    // else would notify them.
    let settled = settle_surely(&worker.records.store, worker.live(), &meta);
    worker.records.tasks.run_until_shutdown(settled).await;
}

/// Begins the answer for its readers, or restarts it. An answer of a deleted conversation has no readers.
fn begin_live(live: &Live, claimed: &ClaimedTurn, record: &TurnRecord, answer: &Answer) -> Arc<LiveAnswer> {
    let meta = Meta { created_at: record.created_at, model: record.model.clone(), ..claimed_meta(claimed) };
    let begun = if record.deleted {
        live.delete_conversation(claimed.conversation);
        Arc::new(LiveAnswer::new(meta, answer.clone()))
    } else {
        live.begin_answer(meta, answer.clone())
    };
    begun.restart_from(answer.clone());
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
async fn attempt_answer(
    worker: &AnswerWorker,
    claimed: ClaimedTurn,
    signals: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let answer = claimed.fence.answer;
    let tried_for = worker.records.now().duration_since(claimed.attempts_since);
    if claimed.attempts > ATTEMPTS_MAX && tried_for >= ATTEMPTS_TIME_MIN {
        let why = "too many leases without progress";
        return worker.end_with_error(claimed, give_up::internal_error(), why).await;
    }
    // An answer that breaks its turn must not stay leased for ever.
    let outcome = AssertUnwindSafe(Box::pin(work_on_answer(worker, claimed, signals))).catch_unwind().await;
    outcome.unwrap_or_else(|_| {
        tracing::error!(%answer, "turn task panicked");
        TurnOutcome::GiveBack
    })
}

async fn work_on_answer(
    worker: &AnswerWorker,
    claimed: ClaimedTurn,
    signals: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let (answer, generation) = (claimed.fence.answer, worker.live().generation());
    let record = match worker.records.store.read(move |tx| turns::load_turn(tx, answer)).await {
        Ok(Some(record)) => record,
        Ok(None) => return TurnOutcome::Over,
        // Another version may read it.
        Err(StoreError::Newer { .. }) => return worker.leave_answer(answer, LeaveReason::LaterVersion),
        // Damaged data cannot be read by a later attempt either.
        Err(error @ StoreError::Damaged { .. }) => {
            return worker.end_with_error(claimed, give_up::internal_error(), &error.to_string()).await;
        }
        Err(error) => {
            tracing::error!(%answer, %error, "answer load failed");
            return TurnOutcome::GiveBack;
        }
    };
    let library = worker.plugins.library();
    let is_stopped = claimed.stop_requested || record.stop_requested || claimed.pause_over;
    if let Some(agent) = record.agent.as_deref().filter(|agent| !is_stopped && !library.has_agent(agent)) {
        let reason = LeaveReason::NoAgent(agent.to_owned());
        if worker.left_answers.add_answer(answer, reason, worker.records.now()) < AGENT_WAIT_MAX {
            return TurnOutcome::Leave;
        }
        return worker.end_with_error(claimed, give_up::no_agent(agent), "agent unavailable").await;
    }
    worker.left_answers.remove_answer(answer);
    let (sender, mut inbox) = mpsc::channel(INBOX_MAX);
    // A stop must not wait for lists of tools.
    let tools = tokio::select! {
        biased;
        () = control_signal::wait_for_signal(signals) => Vec::new(),
        () = std::future::ready(()), if is_stopped => Vec::new(),
        tools = worker.services.web.mcp_tools() => tools,
    };
    let Some((mut runner, _guard)) = create_runner(worker, claimed, record, tools, sender).await else {
        return TurnOutcome::GiveBack;
    };
    if worker.live().has_deleted_since(generation) {
        // This answer may be among them. If the store fails now, its readers are notified with the end.
        let _ = end_if_completed(&worker.records.store, worker.live(), &claimed_meta(&claimed)).await;
    }
    run_turn(&mut runner, &mut inbox, signals).await
}

/// Creates the runner of a claimed answer, with the guard that keeps its machine; `None` when that is not possible now.
async fn create_runner(
    worker: &AnswerWorker,
    claimed: ClaimedTurn,
    record: TurnRecord,
    tools: Vec<ToolSpec>,
    inbox: mpsc::Sender<TurnInput>,
) -> Option<(TurnRunner, Option<TurnGuard>)> {
    let TurnServices { catalog, web, machines, .. } = &*worker.services;
    let found = catalog.find_model(Some(&record.model));
    // The model's price and limits as agreed with the question, even if the catalog has changed or the
    // vendor has not listed the model yet.
    let present = || Some(found.clone().or_else(|| catalog.find_model(None))?.entry.model_limits());
    let model_limits = record.model_limits.or_else(present)?;
    let workspace = workspace_instructions(
        worker,
        &claimed,
        &record,
        found.as_ref().is_some_and(|model| model.entry.builtin),
    )
    .await;
    let chosen = PromptOptions {
        agent: record.agent.as_deref(),
        skills: &record.skills,
        jurisdictions: &record.jurisdictions,
        web: web.access_for(record.web_search),
        workspace: workspace.as_deref(),
        client: record.instructions.as_deref(),
        functions: &record.functions,
        asks_user: record.asks_user,
        templates: &worker.templates,
    };
    let web_policy = WebPolicy {
        reach: chosen.web,
        allowed: Arc::new(web::allowed_by(&record.earlier, &record.question)),
        country: record.jurisdictions.first().cloned().filter(|_| record.jurisdictions.len() == 1),
    };
    let mut prompt = PromptContext::new(worker.plugins.library(), chosen);
    prompt.offer_tools(tools);
    let reads = setup::ModelInputs {
        images: found.as_ref().is_some_and(|model| model.entry.sees_images),
        only_quotes: found.as_ref().is_some_and(|model| model.entry.builtin),
        tools: found.as_ref().is_none_or(|model| model.entry.uses_tools),
    };
    let setup = setup::build_setup(&claimed, &record, model_limits, &prompt, web.clone(), reads);
    let turn = Turn::new(Setup { steps_max: worker.steps_max, ..setup });
    let live = begin_live(worker.live(), &claimed, &record, turn.answer());
    let guard = match machines.register_turn(claimed.account).await {
        Ok(guard) => Some(guard),
        // The account is being deleted, so the answer must end.
        Err(SupervisorError::NoMachine) => None,
        Err(error) => {
            tracing::error!(%error, "machine start request failed for a turn");
            return None;
        }
    };
    let context = TurnContext {
        services: worker.services.clone(),
        store: TurnStore::from_claim(&worker.records, &claimed, &record),
        created_at: record.created_at,
        web_policy,
    };
    let model = TurnModel { found, settings: record.settings.clone(), limits: model_limits };
    let mut runner = TurnRunner::new(context, turn, model, prompt, ChangeSink::Readers(live), inbox);
    runner.skill_uses = SkillUses::after(find_counted_skills(&record));
    Some((runner, guard))
}

/// Returns the instructions in the workspace: from the log once the answer has begun. A model that only quotes has
/// none.
async fn workspace_instructions(
    worker: &AnswerWorker,
    claimed: &ClaimedTurn,
    record: &TurnRecord,
    only_quotes: bool,
) -> Option<String> {
    let logged = workspace_instructions::logged_instructions(&record.log);
    if only_quotes || logged.is_some() || workspace_instructions::has_begun(&record.log) {
        return logged;
    }
    workspace_instructions::read_instructions(&worker.services.workspaces.workspace_for(claimed.account))
        .await
}
