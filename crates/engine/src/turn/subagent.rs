//! Runs subagents: a model gives another agent a task by a call of the tool `agent`.
//!
//! A subagent has a turn of its own in the same machine, with its own context, instructions, tools and model. Its caller
//! gets only its report. It cannot hand its task on. The answer pays for its steps.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::agent::AgentName;
use domain::answer::{Answer, Ending, LogEntry, delegate_id};
use domain::citation::{self, Passage};
use domain::credits::Price;
use domain::step::StepOutcome;
use domain::time::Timestamp;
use domain::tool::HostTool;
use domain::turn::Output;
use domain::turn::host::{Event, Setup, Turn};
use futures_util::FutureExt;
use models::Model;
use store::turns::delegations::{self, Delegation};
use tokio::sync::{Semaphore, mpsc, watch};

use super::{Audience, Beginning, TurnRunner, see_through};
use crate::control_signal::{self, ControlSignals};
use crate::prompt_context::{AgentArguments, PromptContext};
use crate::subagent_output::SubagentOutput;
use crate::turn_input::{INBOX_MAX, TurnInput, TurnOutcome};
use crate::turn_store::TurnStore;
use crate::web::WebPolicy;
use crate::{local_calls, setup};

/// The most subagents that work for one answer at once; the rest wait.
pub(super) const AT_ONCE: usize = 4;
/// The most subagents of one answer.
pub(super) const DELEGATIONS_MAX: u32 = 16;
/// The longest task, in bytes.
pub(super) const TASK_MAX_BYTES: usize = 64 * 1024;

/// A task for a subagent.
pub(super) struct Task {
    /// The store of its turn.
    pub(super) store: TurnStore,
    /// The agent.
    pub(super) agent: AgentName,
    /// The arguments of the call.
    pub(super) arguments: String,
    /// The model of the caller, used unless the agent asks for another.
    pub(super) model: Option<Model>,
    /// The settings of that model.
    pub(super) settings: Vec<(String, String)>,
    /// The start of the answer.
    pub(super) created_at: Timestamp,
    /// The prompt of the agent.
    pub(super) prompt: PromptContext,
    /// Its web policy.
    pub(super) reading: WebPolicy,
    /// The inputs of the caller.
    pub(super) caller: mpsc::Sender<TurnInput>,
    /// Permits of subagents that may work at once.
    pub(super) places: Arc<Semaphore>,
}

/// Runs a task to its end and sends the result to its caller.
pub(super) async fn run(task: Task, given: watch::Receiver<ControlSignals>) {
    let (caller, mut ordered) = (task.caller.clone(), given.clone());
    let call = task.store.delegation.clone().unwrap_or_default();
    let came = AssertUnwindSafe(work(task, given)).catch_unwind().await;
    let came = came.unwrap_or_else(|_| {
        tracing::error!(%call, "subagent task panicked");
        Ok(local_calls::failed("The other agent could not do it: the service failed."))
    });
    let event = match came {
        Ok(output) => TurnInput::Event(Event::ToolReturned { call: call.to_string(), output }),
        Err(ended) => TurnInput::Lost(ended),
    };
    hand_in(&caller, event, &mut ordered).await;
}

/// Sends the result to the caller. A caller that sent a signal waits for the end and receives nothing more.
async fn hand_in(
    caller: &mpsc::Sender<TurnInput>,
    event: TurnInput,
    ordered: &mut watch::Receiver<ControlSignals>,
) {
    tokio::select! {
        _ = ordered.changed() => {}
        _ = caller.send(event) => {}
    }
}

async fn work(task: Task, mut given: watch::Receiver<ControlSignals>) -> Result<Output, TurnOutcome> {
    let Task { store, agent, arguments, model, mut settings, created_at, .. } = task;
    let Task { mut prompt, reading, caller, places, .. } = task;
    let tools = tokio::select! {
        tools = store.shared.parts.web.mcp_tools() => tools,
        () = control_signal::given(&given) => return Ok(local_calls::failed("It was stopped before it began.")),
    };
    prompt.offer(tools);
    let Ok(AgentArguments { task, .. }) = serde_json::from_str(&arguments) else {
        return Ok(local_calls::failed(
            "The arguments are to be {\"agent\": \"<full name>\", \"task\": \"…\"}.",
        ));
    };
    if task.trim().is_empty() || task.len() > TASK_MAX_BYTES {
        return Ok(local_calls::failed(format!("A task has between 1 and {TASK_MAX_BYTES} bytes.")));
    }
    let _place = tokio::select! {
        place = places.acquire_owned() => place.map_err(|_| TurnOutcome::GiveBack)?,
        _ = given.changed() => return Ok(local_calls::failed("It was stopped before it began.")),
    };
    let call = store.delegation.clone().unwrap_or_default();
    let Some(delegation) = begin(&store, &call).await? else {
        return Ok(local_calls::failed(format!(
            "This answer has given away {DELEGATIONS_MAX} tasks: no more."
        )));
    };
    let own = prompt.model_wished().and_then(|id| store.shared.parts.catalog.resolve(Some(id)));
    if own.is_some() {
        settings.clear(); // they are another model's
    }
    let Some(model) = own.or(model).or_else(|| store.shared.parts.catalog.resolve(None)) else {
        return Ok(local_calls::failed("There is no model that could do it."));
    };
    let mut model_limits = model.entry.model_limits();
    // The base price of an answer is paid once.
    model_limits.price = Price { base_millis: 0, ..model_limits.price };
    let report = SubagentOutput::new(call.to_string(), &delegation.log, caller);
    let id = delegate_id(store.fence.answer, &call);
    let (epoch, web) = (store.fence.epoch, store.shared.parts.web.clone());
    let setup = setup::delegated(id, epoch, task, delegation, model_limits, &prompt, web);
    let turn = Turn::new(Setup { sees_images: model.entry.sees_images, ..setup });
    let beginning = Beginning {
        store: TurnStore {
            spans: store.spans.of_call(&call, &model.entry.id),
            model: model.entry.id.clone(),
            ..store
        },
        model: Some(model),
        settings,
        model_limits,
        created_at,
        prompt,
        reading,
        counted: HashSet::new(),
        audience: Audience::Caller(report),
        turn,
        silent: false,
        guard: None,
    };
    let (events, mut inbox) = mpsc::channel(INBOX_MAX);
    let mut shell = TurnRunner::begin(beginning, events);
    if let Audience::Caller(report) = &mut shell.audience {
        report.tell();
    }
    match see_through(&mut shell, &mut inbox, &mut given).await {
        TurnOutcome::Over if shell.turn.answer().ending.is_some() => Ok(output(&agent, &shell)),
        ended => Err(ended),
    }
}

/// Starts the delegation in the store, or resumes it where it was cut.
async fn begin(store: &TurnStore, call: &Arc<str>) -> Result<Option<Delegation>, TurnOutcome> {
    let (fence, call) = (store.fence, call.clone());
    let begun =
        store.shared.parts.store.write(move |tx| delegations::begin(tx, fence, &call, DELEGATIONS_MAX)).await;
    begun.map_err(|error| {
        tracing::warn!(answer = %fence.answer, %error, "subagent start failed");
        TurnOutcome::GiveBack
    })
}

/// Returns the report of the subagent: its text and the passages that it cites, numbered by their order here.
fn output(agent: &AgentName, shell: &TurnRunner) -> Output {
    let Audience::Caller(report) = &shell.audience else { return local_calls::failed("") };
    let answer = shell.turn.answer();
    let passages_max = HostTool::Agent.facts().passages_max as usize;
    let mut cited: Vec<u32> = Vec::new();
    for mark in citation::marks(report.text()) {
        if answer.source(mark.number).is_some() && !cited.contains(&mark.number) && cited.len() < passages_max
        {
            cited.push(mark.number);
        }
    }
    let place = |number: u32| cited.iter().position(|known| *known == number).map(|at| at as u32 + 1);
    let mut text = citation::renumber(report.text(), place);
    let failure = match &answer.ending {
        Some(Ending::Failed(error)) => Some(error.message.clone()),
        Some(Ending::Stopped) | None => Some("It was stopped.".to_owned()),
        Some(Ending::Done) => None,
    };
    if text.is_empty() && failure.is_none() {
        text = format!("(the agent {} said nothing)", agent.full_name);
    }
    if let Some(failure) = &failure {
        text = format!("{text}\n\n{failure}").trim_start().to_owned();
    }
    Output {
        images: Vec::new(),
        outcome: if failure.is_none() { StepOutcome::Done } else { StepOutcome::Failed },
        text,
        passages: cited.iter().filter_map(|number| passage(answer, shell.turn.log(), *number)).collect(),
        written: written(shell.turn.log()),
        unread: Vec::new(),
    }
}

fn passage(answer: &Answer, log: &[LogEntry], number: u32) -> Option<Passage> {
    let place = answer.source(number)?.clone();
    let text = log.iter().find_map(|entry| match entry {
        LogEntry::Result { result, .. } => result
            .passages
            .iter()
            .find(|passage| passage.number == number)
            .map(|passage| passage.text.clone()),
        LogEntry::Step { step, .. } => {
            step.cited.iter().find(|cited| cited.number == number).map(|cited| cited.quote.clone())
        }
        LogEntry::Summary { .. } => None,
    });
    Some(Passage { place, text: text.unwrap_or_default() })
}

/// Returns the files that it wrote, each once.
fn written(log: &[LogEntry]) -> Vec<String> {
    let mut written: Vec<String> = Vec::new();
    for entry in log {
        if let LogEntry::Result { result, .. } = entry {
            for path in &result.written {
                if !written.contains(path) && written.len() < protocol::tool::WRITTEN_MAX {
                    written.push(path.clone());
                }
            }
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_signal::ControlSignal;

    #[tokio::test(start_paused = true)]
    async fn a_full_inbox_keeps_no_order_waiting() {
        for order in [ControlSignal::Stop, ControlSignal::Leave] {
            let (caller, mut inbox) = mpsc::channel(1);
            let (signals, given) = watch::channel(ControlSignals::default());
            assert!(caller.try_send(TurnInput::Lost(TurnOutcome::Over)).is_ok(), "there is room for one");
            let mut ordered = given.clone();
            let handing_in = hand_in(&caller, TurnInput::Lost(TurnOutcome::GiveBack), &mut ordered);
            tokio::pin!(handing_in);
            assert!(handing_in.as_mut().now_or_never().is_none(), "nothing takes it");
            control_signal::give(&signals, order);
            // The receiver does not read any more: without the signal this would wait for ever.
            let over = tokio::time::timeout(std::time::Duration::from_secs(3600), handing_in).await;
            over.expect("it does not wait");
            assert!(matches!(inbox.try_recv(), Ok(TurnInput::Lost(TurnOutcome::Over))));
            assert!(inbox.try_recv().is_err(), "what comes after an order is not told");
        }
    }

    #[tokio::test]
    async fn what_came_of_a_task_is_handed_in() {
        let (caller, mut inbox) = mpsc::channel(1);
        let (_orders, mut ordered) = watch::channel(ControlSignals::default());
        hand_in(&caller, TurnInput::Lost(TurnOutcome::GiveBack), &mut ordered).await;
        assert!(matches!(inbox.try_recv(), Ok(TurnInput::Lost(TurnOutcome::GiveBack))));
    }
}
