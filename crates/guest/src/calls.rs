//! Runs the tool calls of all answers in this machine instance, as each answer's [`Executor`] decides.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use domain::id::MessageId;
use domain::step::{Call, StepOutcome};
use domain::tool::MachineTool;
use domain::turn::executor::{Effect, Event, Executor};
use domain::turn::{HostFrame, Open, Output, SessionStamp};
use protocol::session::{executor_line, output_in};
use protocol::tool::ToolOutput;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::index::Library;
use crate::mcp::Servers;
use crate::tools::{self, Limits};

/// The number of answers whose state is retained, idle ones included: their stamps invalidate sessions that arrive
/// late. Far more than are worked on at once.
const ANSWERS_MAX: usize = 4096;
/// The number of calls that run at once in the machine; further calls wait.
const RUNNING_MAX: usize = 16;

/// The calls of this machine instance, by answer.
pub struct Calls {
    limits: Arc<Limits>,
    servers: Option<Servers>,
    places: Arc<Semaphore>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    known: HashMap<MessageId, Answer>,
    order: VecDeque<MessageId>,
}

#[derive(Default)]
struct Answer {
    executor: Executor,
    /// Sends lines to the newest session, while it is open.
    session: Option<mpsc::Sender<Bytes>>,
    /// Paths attached to the questions of the conversation.
    attached: Arc<[String]>,
    /// Kill switches of running calls, by call id.
    kills: HashMap<String, watch::Sender<bool>>,
}

impl Answers {
    /// Returns the state of an answer. A new answer evicts the oldest idle one when the limit is reached; evicting
    /// one with calls would lose track of them, and they could run twice.
    fn of(&mut self, answer: MessageId) -> &mut Answer {
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

impl Calls {
    /// Creates the state of a new instance, whose tools are bound by `limits`.
    #[must_use]
    pub fn new(limits: Arc<Limits>, servers: Option<Servers>) -> Self {
        Self { limits, servers, places: Arc::new(Semaphore::new(RUNNING_MAX)), answers: Mutex::default() }
    }

    /// Opens a session, unless a newer one is known. Results are sent to `lines`, which is dropped when the session
    /// ends.
    pub fn open(self: &Arc<Self>, open: Open, lines: mpsc::Sender<Bytes>) {
        // The answer may call tools soon.
        self.limits.spares.prepare(&self.limits);
        let mut answers = self.lock();
        let answer = answers.of(open.answer);
        if open.stamp > answer.executor.stamp() {
            answer.session = Some(lines);
            answer.attached = open.attached.clone().into();
        }
        let (id, stamp) = (open.answer, open.stamp);
        self.handle(answer, id, Event::Host { stamp, frame: HostFrame::Open(open) });
    }

    /// Handles a frame of the session.
    pub fn receive(self: &Arc<Self>, id: MessageId, stamp: SessionStamp, frame: HostFrame) {
        self.handle(self.lock().of(id), id, Event::Host { stamp, frame });
    }

    /// Closes the session. Calls continue, and a newer session receives their results.
    pub fn close(&self, id: MessageId, stamp: SessionStamp) {
        let mut answers = self.lock();
        let answer = answers.of(id);
        if answer.executor.stamp() == stamp {
            answer.session = None;
        }
    }

    fn finished(self: &Arc<Self>, id: MessageId, call: String, output: ToolOutput) {
        let mut answers = self.lock();
        let answer = answers.of(id);
        answer.kills.remove(&call);
        self.handle(answer, id, Event::Finished { call, output: within_bounds(output) });
    }

    fn handle(self: &Arc<Self>, answer: &mut Answer, id: MessageId, event: Event) {
        for effect in answer.executor.on(event) {
            match effect {
                Effect::Send(frame) => {
                    let line = Bytes::from(executor_line(&frame));
                    let sent = answer.session.as_ref().map(|session| session.try_send(line));
                    // The next session asks for the result again.
                    if let Some(Err(_)) = sent {
                        answer.session = None;
                    }
                }
                Effect::Start(call) => self.start(answer, id, call),
                Effect::Kill(call) => {
                    if let Some(kill) = answer.kills.remove(&call) {
                        kill.send_replace(true);
                    }
                }
            }
        }
    }

    fn start(self: &Arc<Self>, answer: &mut Answer, id: MessageId, call: Call) {
        let (kill, mut killed) = watch::channel(false);
        answer.kills.insert(call.id.clone(), kill);
        let (calls, attached) = (self.clone(), answer.attached.clone());
        tokio::spawn(async move {
            let place = tokio::select! {
                place = calls.places.clone().acquire_owned() => place,
                Ok(_) = killed.wait_for(|killed| *killed) => return,
            };
            let Ok(_place) = place else { return };
            let _call = calls.limits.spares.call();
            // Documents are read in the background while the model writes, not while it waits.
            let _foreground = calls.limits.library.as_ref().map(Library::foreground);
            let output = run(&call, &calls.limits, calls.servers.as_ref(), &attached, killed).await;
            if let Some(library) = calls.limits.library.as_ref().filter(|_| may_write(&call)) {
                library.touch([]);
            }
            calls.finished(id, call.id, output);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true for calls that may change files of the workspace.
fn may_write(call: &Call) -> bool {
    MachineTool::named(&call.tool).is_none_or(|tool| tool.facts().effect == domain::tool::Effect::Effectful)
}

/// Runs a call of one of the machine's tools or of an MCP server's, as [`tools::run`] does.
pub async fn run(
    call: &Call,
    limits: &Limits,
    servers: Option<&Servers>,
    attached: &[String],
    killed: watch::Receiver<bool>,
) -> ToolOutput {
    match servers.filter(|servers| MachineTool::named(&call.tool).is_none() && servers.has(&call.tool)) {
        Some(servers) => {
            let stopped = tools::stopped(killed);
            tools::within_bounds(servers.call(&call.tool, &call.arguments, limits, stopped).await)
        }
        None => tools::run(call, limits, attached, killed).await,
    }
}

/// Enforces the output bounds of tools. A result that exceeds them is replaced by an error, so that the session
/// survives.
fn within_bounds(output: ToolOutput) -> Output {
    output_in(output).unwrap_or_else(|error| Output {
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

    fn limits() -> Limits {
        Limits {
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

    fn id(number: usize) -> MessageId {
        MessageId::from_random(number as u128)
    }

    fn open(calls: &Arc<Calls>, answer: MessageId) -> mpsc::Receiver<Bytes> {
        let (lines, sent) = mpsc::channel(4);
        let open = Open { answer, stamp: STAMP, outstanding: vec!["c".to_owned()], attached: Vec::new() };
        calls.open(open, lines);
        sent
    }

    fn run(calls: &Arc<Calls>, answer: MessageId) {
        let (tool, arguments) = ("no such tool".to_owned(), "{}".to_owned());
        let call = Call { id: "c".to_owned(), tool, arguments, purpose: Purpose::Tool };
        calls.receive(answer, STAMP, HostFrame::Run(call));
    }

    #[tokio::test]
    async fn idle_answers_are_forgotten_before_those_with_calls() {
        let calls = Arc::new(Calls::new(Arc::new(limits()), None));
        let mut under_way = open(&calls, id(0));
        run(&calls, id(0));
        assert!(under_way.recv().await.is_some(), "its result waits to be acknowledged");
        for number in 1..=ANSWERS_MAX {
            open(&calls, id(number));
        }
        let answers = calls.lock();
        assert_eq!((answers.known.len(), answers.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
        assert!(answers.known.contains_key(&id(0)), "its call must not run again");
        assert!(!answers.known.contains_key(&id(1)), "the oldest that is idle");
    }

    #[tokio::test]
    async fn a_session_that_takes_no_results_is_ended() {
        let calls = Arc::new(Calls::new(Arc::new(limits()), None));
        let gone = open(&calls, id(0));
        drop(gone);
        run(&calls, id(0));
        tokio::time::timeout(std::time::Duration::from_secs(60), async {
            while calls.lock().of(id(0)).session.is_some() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("the result meets a closed session");
        assert!(!calls.lock().of(id(0)).executor.is_idle(), "its result is kept");
    }
}
