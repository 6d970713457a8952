//! Runs subagents: a model gives another agent a task by a call of the tool `agent`.
//!
//! A subagent has a separate turn in the same machine, with its own context, instructions, tools and model. Its caller
//! gets only its report. It cannot hand its task on. The answer pays for its steps.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use domain::agent::AgentName;
use domain::answer::{Answer, AnswerEnding, LogEntry, delegate_id};
use domain::catalog::ModelEntry;
use domain::citation::{self, Passage, Renumbered};
use domain::credits::Price;
use domain::step::StepOutcome;
use domain::tool::HostTool;
use domain::turn::CallOutput;
use domain::turn::host::{Setup, Turn, TurnEvent};
use futures_util::FutureExt;
use models::Catalog;
use store::turns::Fence;
use store::turns::delegations::{self, Delegation};
use tokio::sync::{Semaphore, mpsc, watch};

use super::model_stream::TurnModel;
use super::runner::{ChangeSink, TurnRunner, run_turn};
use crate::control_signal::{self, ControlSignals};
use crate::prompt_context::{AgentArguments, PromptContext};
use crate::subagent_output::SubagentOutput;
use crate::turn_context::{TurnContext, TurnServices};
use crate::turn_input::{INBOX_MAX, TurnInput, TurnOutcome};
use crate::turn_store::TurnStore;
use crate::{local_calls, setup};

/// The maximum number of subagents of one answer.
pub(super) const DELEGATIONS_MAX: u32 = 16;
/// The longest task, in bytes.
pub(super) const TASK_MAX_BYTES: usize = 64 * 1024;

/// A task for a subagent.
pub(super) struct SubagentTask {
    pub(super) context: TurnContext,
    pub(super) agent: AgentName,
    /// The arguments of the call.
    pub(super) arguments: String,
    /// The model of the caller, used unless the agent asks for another.
    pub(super) model: TurnModel,
    /// The prompt of the agent.
    pub(super) prompt: PromptContext,
    /// The inputs of the caller.
    pub(super) caller: mpsc::Sender<TurnInput>,
    /// Permits of subagents that may work at once.
    pub(super) permits: Arc<Semaphore>,
}

/// Runs a task to its end and sends the result to its caller.
pub(super) async fn run_subagent(task: SubagentTask, signals: watch::Receiver<ControlSignals>) {
    let (caller, mut signals_of_caller) = (task.caller.clone(), signals.clone());
    let call = task.context.store.delegation.clone().unwrap_or_default();
    let result = AssertUnwindSafe(work_on_task(task, signals)).catch_unwind().await;
    let result = result.unwrap_or_else(|_| {
        tracing::error!(%call, "subagent task panicked");
        Ok(local_calls::failed_output("The other agent failed: internal error of the service."))
    });
    let input = match result {
        Ok(output) => TurnInput::Event(TurnEvent::ToolReturned { call: call.to_string(), output }),
        Err(outcome) => TurnInput::Lost(outcome),
    };
    send_result(&caller, input, &mut signals_of_caller).await;
}

/// Sends the result to the caller. A caller that sent a signal waits for the end and receives nothing more.
async fn send_result(
    caller: &mpsc::Sender<TurnInput>,
    result: TurnInput,
    signals: &mut watch::Receiver<ControlSignals>,
) {
    tokio::select! {
        _ = signals.changed() => {}
        _ = caller.send(result) => {}
    }
}

async fn work_on_task(
    task: SubagentTask,
    mut signals: watch::Receiver<ControlSignals>,
) -> Result<CallOutput, TurnOutcome> {
    let SubagentTask { mut context, agent, arguments, model, mut prompt, caller, permits } = task;
    let TurnServices { catalog, web, delegated_steps_max, .. } = &*context.services.clone();
    let tools = tokio::select! {
        tools = web.mcp_tools() => tools,
        () = control_signal::wait_for_signal(&signals) => return Ok(local_calls::failed_output("It was stopped before it began.")),
    };
    prompt.offer_tools(tools);
    let Ok(AgentArguments { task, .. }) = serde_json::from_str(&arguments) else {
        return Ok(local_calls::failed_output(
            "Invalid arguments: use {\"agent\": \"<full name>\", \"task\": \"…\"}.",
        ));
    };
    if task.trim().is_empty() || task.len() > TASK_MAX_BYTES {
        return Ok(local_calls::failed_output(format!(
            "The task is empty or too long: use at most {TASK_MAX_BYTES} bytes."
        )));
    }
    let _permit = tokio::select! {
        permit = permits.acquire_owned() => permit.map_err(|_| TurnOutcome::GiveBack)?,
        _ = signals.changed() => return Ok(local_calls::failed_output("It was stopped before it began.")),
    };
    let call = context.store.delegation.clone().unwrap_or_default();
    let Some(delegation) = begin_delegation(&context.store, &call).await? else {
        return Ok(local_calls::failed_output(format!(
            "This answer has already delegated {DELEGATIONS_MAX} tasks, which is the maximum."
        )));
    };
    let Some((found, model)) = choose_model(catalog, &prompt, model) else {
        return Ok(local_calls::failed_output("No model is available for it."));
    };
    let report = SubagentOutput::new(call.to_string(), &delegation.log, caller);
    let Fence { answer, epoch, .. } = context.store.fence;
    let id = delegate_id(answer, &call);
    let setup = setup::build_subagent_setup(id, epoch, task, delegation, model.limits, &prompt, web.clone());
    let turn = Turn::new(Setup { steps_max: *delegated_steps_max, sees_images: found.sees_images, ..setup });
    context.store.spans = context.store.spans.of_call(&call, &found.id);
    context.store.model = found.id.clone();
    let (sender, mut inbox) = mpsc::channel(INBOX_MAX);
    let mut runner = TurnRunner::new(context, turn, model, prompt, ChangeSink::Caller(report), sender);
    if let ChangeSink::Caller(report) = &mut runner.changes {
        report.report_text();
    }
    match run_turn(&mut runner, &mut inbox, &mut signals).await {
        TurnOutcome::Over if runner.turn.answer().ending.is_some() => Ok(subagent_report(&agent, &runner)),
        outcome => Err(outcome),
    }
}

/// Chooses the model that the agent asks for, or that of its caller, or the default one.
fn choose_model(
    catalog: &Catalog,
    prompt: &PromptContext,
    of_caller: TurnModel,
) -> Option<(ModelEntry, TurnModel)> {
    let own = prompt.model_wished().and_then(|id| catalog.find_model(Some(id)));
    // The settings are those of the caller's model.
    let settings = if own.is_some() { Vec::new() } else { of_caller.settings };
    let found = own.or(of_caller.found).or_else(|| catalog.find_model(None))?;
    let (entry, mut limits) = (found.entry.clone(), found.entry.model_limits());
    // The base price of an answer is paid once.
    limits.price = Price { base_millis: 0, ..limits.price };
    Some((entry, TurnModel { found: Some(found), settings, limits }))
}

/// Starts the delegation in the store, or resumes it where it was cut.
async fn begin_delegation(store: &TurnStore, call: &Arc<str>) -> Result<Option<Delegation>, TurnOutcome> {
    let (fence, call) = (store.fence, call.clone());
    let begun = store
        .records
        .store
        .write(move |tx| delegations::begin_delegation(tx, fence, &call, DELEGATIONS_MAX))
        .await;
    begun.map_err(|error| {
        tracing::warn!(answer = %fence.answer, %error, "subagent start failed");
        TurnOutcome::GiveBack
    })
}

/// Returns the report of the subagent: its text and the passages that it cites, numbered by their order here.
fn subagent_report(agent: &AgentName, runner: &TurnRunner) -> CallOutput {
    let ChangeSink::Caller(report) = &runner.changes else { return local_calls::failed_output("") };
    let answer = runner.turn.answer();
    let passages_max = HostTool::Agent.facts().passages_max as usize;
    let mut cited: Vec<u32> = Vec::new();
    for number in citation::cited_numbers(report.text(), |number| answer.source_place(number).is_some()) {
        if !cited.contains(&number) && cited.len() < passages_max {
            cited.push(number);
        }
    }
    let mut text = citation::renumber_marks(report.text(), |number| {
        match cited.iter().position(|known| *known == number) {
            Some(at) => Renumbered::To(at as u32 + 1),
            None if answer.source_place(number).is_some() => Renumbered::Dropped,
            None => Renumbered::Unknown,
        }
    });
    let failure = match &answer.ending {
        Some(AnswerEnding::Failed(error)) => Some(error.message.clone()),
        Some(AnswerEnding::Stopped) | None => Some("It was stopped.".to_owned()),
        Some(AnswerEnding::Done) => None,
    };
    if text.is_empty() && failure.is_none() {
        text = format!("(the agent {} returned nothing)", agent.full_name);
    }
    if let Some(failure) = &failure {
        text = format!("{text}\n\n{failure}").trim_start().to_owned();
    }
    CallOutput {
        images: Vec::new(),
        outcome: if failure.is_none() { StepOutcome::Done } else { StepOutcome::Failed },
        text,
        passages: cited
            .iter()
            .filter_map(|number| find_passage(answer, runner.turn.log(), *number))
            .collect(),
        written: written_files(runner.turn.log()),
        unread: Vec::new(),
    }
}

fn find_passage(answer: &Answer, log: &[LogEntry], number: u32) -> Option<Passage> {
    let place = answer.source_place(number)?.clone();
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
fn written_files(log: &[LogEntry]) -> Vec<String> {
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
    async fn full_inbox_delays_no_signal() {
        for signal in [ControlSignal::Stop, ControlSignal::Leave] {
            let (caller, mut inbox) = mpsc::channel(1);
            let (signals, given) = watch::channel(ControlSignals::default());
            assert!(caller.try_send(TurnInput::Lost(TurnOutcome::Over)).is_ok(), "there is room for one");
            let mut received = given.clone();
            let sending = send_result(&caller, TurnInput::Lost(TurnOutcome::GiveBack), &mut received);
            tokio::pin!(sending);
            assert!(sending.as_mut().now_or_never().is_none(), "nothing takes it");
            control_signal::send_signal(&signals, signal);
            // The receiver does not read any more: without the signal this would wait for ever.
            let over = tokio::time::timeout(std::time::Duration::from_secs(3600), sending).await;
            over.expect("it does not wait");
            assert!(matches!(inbox.try_recv(), Ok(TurnInput::Lost(TurnOutcome::Over))));
            assert!(inbox.try_recv().is_err(), "nothing is sent after a signal");
        }
    }

    #[tokio::test]
    async fn subagent_result_is_sent() {
        let (caller, mut inbox) = mpsc::channel(1);
        let (_signals, mut received) = watch::channel(ControlSignals::default());
        send_result(&caller, TurnInput::Lost(TurnOutcome::GiveBack), &mut received).await;
        assert!(matches!(inbox.try_recv(), Ok(TurnInput::Lost(TurnOutcome::GiveBack))));
    }
}
