//! Runs the tool calls of all answers in this machine instance, as each answer's [`Executor`] decides.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use domain::id::MessageId;
use domain::step::{StepCall, StepOutcome};
use domain::tool::MachineTool;
use domain::turn::executor::{Executor, ExecutorEffect, ExecutorEvent};
use domain::turn::{CallOutput, HostFrame, SessionOpening, SessionStamp};
use protocol::session::{executor_line, output_in};
use protocol::tool::ToolOutput;
use search_index::DocumentLibrary;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::mcp::McpServers;
use crate::tools::{self, ToolLimits};

/// The number of answers whose state is retained, idle ones included: their stamps invalidate sessions that arrive
/// late. Far more than run concurrently.
const ANSWERS_MAX: usize = 4096;
/// The number of calls that run at once in the machine; further calls wait.
const RUNNING_MAX: usize = 16;

/// The calls of this machine instance, by answer.
pub struct MachineCalls {
    limits: Arc<ToolLimits>,
    servers: Option<McpServers>,
    places: Arc<Semaphore>,
    answers: Mutex<AnswerTable>,
}

#[derive(Default)]
struct AnswerTable {
    known: HashMap<MessageId, AnswerCalls>,
    order: VecDeque<MessageId>,
}

#[derive(Default)]
struct AnswerCalls {
    executor: Executor,
    /// Sends lines to the newest session, while it is open.
    session: Option<mpsc::Sender<Bytes>>,
    /// Paths attached to the questions of the conversation.
    attached: Arc<[String]>,
    /// Kill switches of running calls, by call id.
    kills: HashMap<String, watch::Sender<bool>>,
}

impl AnswerTable {
    /// Returns the state of an answer. A new answer evicts the oldest idle one when the limit is reached; evicting
    /// one with calls would lose track of them, and they could run twice.
    fn get_or_insert(&mut self, answer: MessageId) -> &mut AnswerCalls {
        if !self.known.contains_key(&answer) {
            if self.order.len() >= ANSWERS_MAX {
                let idle = |answer: &MessageId| {
                    self.known.get(answer).is_none_or(|answer| answer.executor.is_idle())
                };
                let oldest = self.order.iter().position(idle).unwrap_or(0);
                if let Some(gone) = self.order.remove(oldest) {
                    self.known.remove(&gone);
                }
            }
            self.order.push_back(answer);
        }
        self.known.entry(answer).or_default()
    }
}

impl MachineCalls {
    /// Creates the state of a new instance, whose tools are bound by `limits`.
    #[must_use]
    pub fn new(limits: Arc<ToolLimits>, servers: Option<McpServers>) -> Self {
        Self { limits, servers, places: Arc::new(Semaphore::new(RUNNING_MAX)), answers: Mutex::default() }
    }

    /// Opens a session, unless a newer one is known. Results are sent to `lines`, which is dropped when the session
    /// ends.
    pub fn open_session(self: &Arc<Self>, open: SessionOpening, lines: mpsc::Sender<Bytes>) {
        // The answer may call tools soon.
        self.limits.spares.prepare_first(&self.limits);
        let mut answers = self.lock_answers();
        let answer = answers.get_or_insert(open.answer);
        if open.stamp > answer.executor.stamp() {
            answer.session = Some(lines);
            answer.attached = open.attached.clone().into();
        }
        let (id, stamp) = (open.answer, open.stamp);
        self.apply_event(answer, id, ExecutorEvent::Host { stamp, frame: HostFrame::Open(open) });
    }

    /// Handles a frame of the session.
    pub fn receive_frame(self: &Arc<Self>, id: MessageId, stamp: SessionStamp, frame: HostFrame) {
        self.apply_event(self.lock_answers().get_or_insert(id), id, ExecutorEvent::Host { stamp, frame });
    }

    /// Closes the session. Calls continue, and a newer session receives their results.
    pub fn close_session(&self, id: MessageId, stamp: SessionStamp) {
        let mut answers = self.lock_answers();
        let answer = answers.get_or_insert(id);
        if answer.executor.stamp() == stamp {
            answer.session = None;
        }
    }

    fn finish_call(self: &Arc<Self>, id: MessageId, call: String, output: ToolOutput) {
        let mut answers = self.lock_answers();
        let answer = answers.get_or_insert(id);
        answer.kills.remove(&call);
        self.apply_event(answer, id, ExecutorEvent::Finished { call, output: within_bounds(output) });
    }

    fn apply_event(self: &Arc<Self>, answer: &mut AnswerCalls, id: MessageId, event: ExecutorEvent) {
        for effect in answer.executor.apply_event(event) {
            match effect {
                ExecutorEffect::Send(frame) => {
                    let line = Bytes::from(executor_line(&frame));
                    let sent = answer.session.as_ref().map(|session| session.try_send(line));
                    // The next session asks for the result again.
                    if let Some(Err(_)) = sent {
                        answer.session = None;
                    }
                }
                ExecutorEffect::Start(call) => self.start_call(answer, id, call),
                ExecutorEffect::Kill(call) => {
                    if let Some(kill) = answer.kills.remove(&call) {
                        kill.send_replace(true);
                    }
                }
            }
        }
    }

    fn start_call(self: &Arc<Self>, answer: &mut AnswerCalls, id: MessageId, call: StepCall) {
        let (kill, mut killed) = watch::channel(false);
        answer.kills.insert(call.id.clone(), kill);
        let (calls, attached) = (self.clone(), answer.attached.clone());
        tokio::spawn(async move {
            let place = tokio::select! {
                place = calls.places.clone().acquire_owned() => place,
                Ok(_) = killed.wait_for(|killed| *killed) => return,
            };
            let Ok(_place) = place else { return };
            let _call = calls.limits.spares.register_call();
            // Documents are read in the background while the model writes, not while it waits.
            let _foreground = calls.limits.library.as_ref().map(DocumentLibrary::pause_background);
            let output = run_call(&call, &calls.limits, calls.servers.as_ref(), &attached, killed).await;
            if let Some(library) = calls.limits.library.as_ref().filter(|_| may_write(&call)) {
                library.touch_files([]);
            }
            calls.finish_call(id, call.id, output);
        });
    }

    fn lock_answers(&self) -> MutexGuard<'_, AnswerTable> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true for calls that may change files of the workspace.
fn may_write(call: &StepCall) -> bool {
    MachineTool::from_name(&call.tool)
        .is_none_or(|tool| tool.facts().effect == domain::tool::CallEffect::Effectful)
}

/// Runs a call of one of the machine's tools or of an MCP server's, like [`tools::run_tool`].
pub async fn run_call(
    call: &StepCall,
    limits: &ToolLimits,
    servers: Option<&McpServers>,
    attached: &[String],
    killed: watch::Receiver<bool>,
) -> ToolOutput {
    match servers
        .filter(|servers| MachineTool::from_name(&call.tool).is_none() && servers.has_tool(&call.tool))
    {
        Some(servers) => {
            let stopped = tools::wait_until_killed(killed);
            tools::within_bounds(servers.call_tool(&call.tool, &call.arguments, limits, stopped).await)
        }
        None => tools::run_tool(call, limits, attached, killed).await,
    }
}

/// Enforces the output bounds of tools. A result that exceeds them is replaced by an error, so that the session
/// survives.
fn within_bounds(output: ToolOutput) -> CallOutput {
    output_in(output).unwrap_or_else(|error| CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Failed,
        text: format!("the tool's result could not be sent: {error}"),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use domain::step::Purpose;

    use super::*;

    fn tiny_limits() -> ToolLimits {
        ToolLimits {
            memory_bytes: 1,
            memory_counted: false,
            processes: 1,
            sockets: 1,
            shell_seconds: 1,
            workspace_bytes: 1,
            file_bytes: 1,
            disk_free_floor_bytes: 1,
            tools_user: None,
            workspace: "/nowhere".into(),
            temp: "/nowhere".into(),
            library: None,
            program: None,
            spares: tools::Spares::default(),
            readers: tools::Readers::default(),
            recognition: tools::Recognition::default(),
        }
    }

    const STAMP: SessionStamp = SessionStamp { epoch: 1, session: 1 };

    fn answer_id(number: usize) -> MessageId {
        MessageId::from_random(number as u128)
    }

    fn open_test_session(calls: &Arc<MachineCalls>, answer: MessageId) -> mpsc::Receiver<Bytes> {
        let (lines, sent) = mpsc::channel(4);
        let open =
            SessionOpening { answer, stamp: STAMP, outstanding: vec!["c".to_owned()], attached: Vec::new() };
        calls.open_session(open, lines);
        sent
    }

    fn run_unknown_tool(calls: &Arc<MachineCalls>, answer: MessageId) {
        let (tool, arguments) = ("no such tool".to_owned(), "{}".to_owned());
        let call = StepCall { id: "c".to_owned(), tool, arguments, purpose: Purpose::Tool };
        calls.receive_frame(answer, STAMP, HostFrame::Run(call));
    }

    #[tokio::test]
    async fn answer_table_full_evicts_idle() {
        let calls = Arc::new(MachineCalls::new(Arc::new(tiny_limits()), None));
        let mut under_way = open_test_session(&calls, answer_id(0));
        run_unknown_tool(&calls, answer_id(0));
        assert!(under_way.recv().await.is_some(), "its result waits to be acknowledged");
        for number in 1..=ANSWERS_MAX {
            open_test_session(&calls, answer_id(number));
        }
        let answers = calls.lock_answers();
        assert_eq!((answers.known.len(), answers.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
        assert!(answers.known.contains_key(&answer_id(0)), "its call must not run again");
        assert!(!answers.known.contains_key(&answer_id(1)), "the oldest that is idle");
    }

    #[tokio::test]
    async fn session_with_closed_channel_ends() {
        let calls = Arc::new(MachineCalls::new(Arc::new(tiny_limits()), None));
        let gone = open_test_session(&calls, answer_id(0));
        drop(gone);
        run_unknown_tool(&calls, answer_id(0));
        tokio::time::timeout(std::time::Duration::from_secs(60), async {
            while calls.lock_answers().get_or_insert(answer_id(0)).session.is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the result meets a closed session");
        assert!(!calls.lock_answers().get_or_insert(answer_id(0)).executor.is_idle(), "its result is kept");
    }
}
