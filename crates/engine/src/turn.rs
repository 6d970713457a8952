//! Works on a claimed answer: loads it, runs its turn, and releases the lease.
//!
//! | module | what it does |
//! |---|---|
//! | `runner` | executes the effects of the pure [`Turn`] and feeds it the events that follow, in one loop |
//! | `model_call` | calls the model, and turns its output into events |
//! | `session` | connects to the machine, and turns the session's reports into events |
//! | `machine_wait` | measures how long the machine keeps the turn waiting |
//! | `calls` | runs the calls of tools that run on the host |
//! | `subagent` | runs the turn of a subagent |

mod calls;
mod machine_wait;
mod model_call;
mod runner;
mod session;
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
use machine::SupervisorError;
use store::StoreError;
use store::turns::{self, ClaimedTurn, TurnRecord};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use self::runner::{ChangeSink, InitialState, TurnRunner, run_turn};
use super::control_signal::{self, ControlSignals};
use super::left_answers::{AGENT_WAIT_MAX, LeaveReason};
use super::prompt_context::{PromptContext, PromptOptions, find_counted_skills};
use super::shared::EngineShared;
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

/// Works on a claimed answer until it is complete, another node takes it over or the service shuts down.
pub(super) async fn run_claim(
    shared: &Arc<EngineShared>,
    claimed: ClaimedTurn,
    mut signals: watch::Receiver<ControlSignals>,
) {
    let (fence, doublings) = (claimed.fence, claimed.attempts.saturating_sub(1).min(BACKOFF_DOUBLINGS_MAX));
    let meta = claimed_meta(&claimed);
    let outcome = shared.shutdown.run_until_cancelled(attempt_answer(shared, claimed, &mut signals)).await;
    if outcome != Some(TurnOutcome::Leave) {
        shared.left_answers.remove_answer(fence.answer);
    }
    match outcome {
        Some(TurnOutcome::Over) => {}
        Some(TurnOutcome::Leave) => {
            let pause = shared.left_answers.retry_pause(fence.answer, shared.parts.environment.now());
            let pausing = async {
                let _ = timeout(pause, control_signal::next_signal(&mut signals)).await;
            };
            shared.shutdown.run_until_cancelled(pausing).await;
            shared.put_back(fence).await;
        }
        Some(TurnOutcome::GiveBack) => {
            let backoff = async {
                // A user who stops or deletes the answer does not wait for it.
                let pause = BACKOFF * 2_u32.pow(doublings);
                let _ = timeout(pause, control_signal::next_signal(&mut signals)).await;
            };
            shared.shutdown.run_until_cancelled(backoff).await;
            shared.give_back(fence).await;
        }
        Some(TurnOutcome::MachineStopped) | None => shared.put_back(fence).await,
    }
    // Readers stay attached until the answer is claimed again. If it ended without this turn's knowledge, nothing
    // else would notify them.
    let settled = settle_surely(&shared.parts.store, &shared.parts.live, &meta);
    shared.shutdown.run_until_cancelled(settled).await;
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
    shared: &Arc<EngineShared>,
    claimed: ClaimedTurn,
    signals: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let answer = claimed.fence.answer;
    let tried_for = shared.parts.environment.now().duration_since(claimed.attempts_since);
    if claimed.attempts > ATTEMPTS_MAX && tried_for >= ATTEMPTS_TIME_MIN {
        return end_with_error(
            shared,
            claimed,
            give_up::internal_error(),
            "too many leases without progress",
        )
        .await;
    }
    // An answer that breaks its turn must not stay leased for ever.
    let outcome = AssertUnwindSafe(Box::pin(work_on_answer(shared, claimed, signals))).catch_unwind().await;
    outcome.unwrap_or_else(|_| {
        tracing::error!(%answer, "turn task panicked");
        TurnOutcome::GiveBack
    })
}

/// Fails the answer, because of `why`.
async fn end_with_error(
    shared: &EngineShared,
    claimed: ClaimedTurn,
    error: AnswerFailure,
    why: &str,
) -> TurnOutcome {
    if give_up::fail_answer(shared, claimed, error, why).await {
        TurnOutcome::Over
    } else {
        TurnOutcome::GiveBack
    }
}

fn leave_answer(shared: &EngineShared, answer: MessageId, reason: LeaveReason) -> TurnOutcome {
    shared.left_answers.add_answer(answer, reason, shared.parts.environment.now());
    TurnOutcome::Leave
}

async fn work_on_answer(
    shared: &Arc<EngineShared>,
    claimed: ClaimedTurn,
    signals: &mut watch::Receiver<ControlSignals>,
) -> TurnOutcome {
    let (answer, generation) = (claimed.fence.answer, shared.parts.live.generation());
    let record = match shared.parts.store.read(move |tx| turns::load_turn(tx, answer)).await {
        Ok(Some(record)) => record,
        Ok(None) => return TurnOutcome::Over,
        // Another version may read it.
        Err(StoreError::Newer { .. }) => return leave_answer(shared, answer, LeaveReason::LaterVersion),
        // Damaged data cannot be read by a later attempt either.
        Err(error @ StoreError::Damaged { .. }) => {
            return end_with_error(shared, claimed, give_up::internal_error(), &error.to_string()).await;
        }
        Err(error) => {
            tracing::error!(%answer, %error, "answer load failed");
            return TurnOutcome::GiveBack;
        }
    };
    let library = shared.parts.plugins.library();
    let is_stopped = claimed.stop_requested || record.stop_requested;
    if let Some(agent) = record.agent.as_deref().filter(|agent| !is_stopped && !library.has_agent(agent)) {
        let reason = LeaveReason::NoAgent(agent.to_owned());
        if shared.left_answers.add_answer(answer, reason, shared.parts.environment.now()) < AGENT_WAIT_MAX {
            return TurnOutcome::Leave;
        }
        return end_with_error(shared, claimed, give_up::no_agent(agent), "agent unavailable").await;
    }
    shared.left_answers.remove_answer(answer);
    let (sender, mut inbox) = mpsc::channel(INBOX_MAX);
    // A stop must not wait for lists of tools.
    let tools = tokio::select! {
        biased;
        () = control_signal::wait_for_signal(signals) => Vec::new(),
        () = std::future::ready(()), if record.stop_requested => Vec::new(),
        tools = shared.parts.web.mcp_tools() => tools,
    };
    let Some(mut runner) = create_runner(shared, claimed, record, tools, sender).await else {
        return TurnOutcome::GiveBack;
    };
    if shared.parts.live.has_deleted_since(generation) {
        // This answer may be among them. If the store fails now, its readers are notified with the end.
        let _ = end_if_completed(&shared.parts.store, &shared.parts.live, &claimed_meta(&claimed)).await;
    }
    run_turn(&mut runner, &mut inbox, signals).await
}

/// Creates the runner of a claimed answer; `None` when that is not possible now.
async fn create_runner(
    shared: &Arc<EngineShared>,
    claimed: ClaimedTurn,
    record: TurnRecord,
    tools: Vec<ToolSpec>,
    inbox: mpsc::Sender<TurnInput>,
) -> Option<TurnRunner> {
    let model = shared.parts.catalog.find_model(Some(&record.model));
    // The model's price and limits as agreed with the question, even if the catalog has changed or the
    // vendor has not listed the model yet.
    let present =
        || Some(model.clone().or_else(|| shared.parts.catalog.find_model(None))?.entry.model_limits());
    let model_limits = record.model_limits.or_else(present)?;
    let workspace = workspace_instructions(
        shared,
        &claimed,
        &record,
        model.as_ref().is_some_and(|model| model.entry.builtin),
    )
    .await;
    let chosen = PromptOptions {
        agent: record.agent.as_deref(),
        skills: &record.skills,
        jurisdictions: &record.jurisdictions,
        web: shared.parts.web.access_for(record.web_search),
        workspace: workspace.as_deref(),
        templates: &shared.parts.templates,
    };
    let web_policy = WebPolicy {
        reach: chosen.web,
        allowed: Arc::new(web::allowed_by(&record.earlier, &record.question)),
        country: record.jurisdictions.first().cloned().filter(|_| record.jurisdictions.len() == 1),
    };
    let mut prompt = PromptContext::new(shared.parts.plugins.library(), chosen);
    prompt.offer_tools(tools);
    let reads = setup::ModelInputs {
        images: model.as_ref().is_some_and(|model| model.entry.sees_images),
        only_quotes: model.as_ref().is_some_and(|model| model.entry.builtin),
        tools: model.as_ref().is_none_or(|model| model.entry.uses_tools),
    };
    let web = shared.parts.web.clone();
    let setup = setup::build_setup(&claimed, &record, model_limits, &prompt, web, reads);
    let turn = Turn::new(Setup { steps_max: shared.parts.limits.steps, ..setup });
    let live = begin_live(&shared.parts.live, &claimed, &record, turn.answer());
    let guard = match shared.parts.machines.register_turn(claimed.account).await {
        Ok(guard) => Some(guard),
        // The account is being deleted, so the answer must end.
        Err(SupervisorError::NoMachine) => None,
        Err(error) => {
            tracing::error!(%error, "machine start request failed for a turn");
            return None;
        }
    };
    let counted_skills = find_counted_skills(&record);
    let store = TurnStore::from_claim(shared, &claimed, &record);
    let initial = InitialState {
        store,
        model,
        settings: record.settings,
        model_limits,
        created_at: record.created_at,
        prompt,
        web_policy,
        counted_skills,
        changes: ChangeSink::Readers(live),
        turn,
        awaits_first_output: claimed.fence.epoch == 1,
        guard,
    };
    Some(TurnRunner::new(initial, inbox))
}

/// Returns the instructions in the workspace: from the log once the answer has begun. A model that only quotes has
/// none.
async fn workspace_instructions(
    shared: &EngineShared,
    claimed: &ClaimedTurn,
    record: &TurnRecord,
    only_quotes: bool,
) -> Option<String> {
    let logged = workspace_instructions::logged_instructions(&record.log);
    if only_quotes || logged.is_some() || workspace_instructions::has_begun(&record.log) {
        return logged;
    }
    workspace_instructions::read_instructions(&shared.parts.workspaces.workspace_for(claimed.account)).await
}
