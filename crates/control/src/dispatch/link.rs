//! A turn's link to the agent: one HTTP/2 exchange in which both sides stream frames.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use domain::id::AccountId;
use domain::step::ToolSpec;
use domain::turn::AgentFrame;
use futures_util::{FutureExt, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use machine::{AgentLink, MachineError};
use plugins::Library;
use protocol::turn::{AGENT_FRAME_MAX_BYTES, Lines, read_agent_line};
use tokio::sync::mpsc;

use super::Shared;
use super::turn::Inbox;

/// Lines that wait to be sent on one link. An agent that lets more pile up is given up.
pub(super) const LINES_WAITING_MAX: usize = 256;
/// The pause before a link that failed is tried again; doubles with each failure in a row.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
const RETRY_DOUBLINGS_MAX: u32 = 7;

/// What an answer says whose machine was given up.
const NOT_STARTED: &str = "it cannot be started; whoever runs the service finds the reason in its log";

/// What a link tells its turn.
pub(super) enum LinkEvent {
    /// It stands: lines may be sent.
    Up {
        link: AgentLink,
        lines: mpsc::Sender<bytes::Bytes>,
        /// Those of the MCP servers in the machine.
        tools: Vec<ToolSpec>,
    },
    /// The agent said something.
    Frame(AgentFrame),
    /// The agent said something that is no frame.
    Violation,
    /// It is gone.
    Down,
    /// There will be none: the machine's start was given up, or the account has none. The reason is shown in the
    /// answer.
    Hopeless(String),
    /// There will be none until the machine is started: its owner has stopped it.
    MachineStopped,
}

/// Makes a link and carries its frames until it ends. `failures` counts the links before it that came to
/// nothing.
pub(super) async fn run(
    shared: Arc<Shared>,
    library: Arc<Library>,
    account: AccountId,
    number: u32,
    failures: u32,
    inbox: mpsc::Sender<Inbox>,
) {
    if failures > 0 {
        tokio::time::sleep(RETRY_PAUSE * 2_u32.pow(failures.min(RETRY_DOUBLINGS_MAX))).await;
    }
    let turn = Listener { number, inbox };
    if AssertUnwindSafe(carry(&shared, &library, account, &turn)).catch_unwind().await.is_err() {
        tracing::error!(%account, "a link to an agent panicked");
        turn.tell(LinkEvent::Down).await;
    }
}

async fn carry(shared: &Shared, library: &Library, account: AccountId, turn: &Listener) {
    let link = match shared.machines.when_running(account).await {
        Ok(link) => link,
        Err(MachineError::GivenUp(reason)) => {
            // What the driver said may name what is inside; each failed start was logged with it.
            tracing::warn!(%account, reason, "answers are ended for want of their machine");
            turn.tell(LinkEvent::Hopeless(NOT_STARTED.to_owned())).await;
            return;
        }
        Err(MachineError::NoMachine) => {
            turn.tell(LinkEvent::Hopeless("the account has no machine".to_owned())).await;
            return;
        }
        Err(MachineError::Stopped) => {
            turn.tell(LinkEvent::MachineStopped).await;
            return;
        }
        Err(error) => {
            tracing::debug!(%error, "no link to the agent");
            turn.tell(LinkEvent::Down).await;
            return;
        }
    };
    let tools = shared.tools_of_machine(account, &link, library).await;
    let (lines, waiting) = mpsc::channel(LINES_WAITING_MAX);
    if !turn.tell(LinkEvent::Up { link: link.clone(), lines, tools }).await {
        return;
    }
    let last = match exchange(&link, waiting, turn).await {
        Ok(()) => LinkEvent::Down,
        Err(NotAnAgent) => LinkEvent::Violation,
    };
    turn.tell(last).await;
}

/// The turn that a link belongs to.
struct Listener {
    number: u32,
    inbox: mpsc::Sender<Inbox>,
}

impl Listener {
    /// Whether the turn is still there.
    async fn tell(&self, event: LinkEvent) -> bool {
        self.inbox.send(Inbox::Link { number: self.number, event }).await.is_ok()
    }
}

/// The agent said something that no agent says.
struct NotAnAgent;

async fn exchange(
    link: &AgentLink,
    waiting: mpsc::Receiver<bytes::Bytes>,
    turn: &Listener,
) -> Result<(), NotAnAgent> {
    let lines = futures_util::stream::unfold(waiting, |mut waiting| async {
        waiting.recv().await.map(|line| (line, waiting))
    });
    let body = StreamBody::new(lines.map(|line| Ok(http_body::Frame::data(line)))).boxed_unsync();
    let request = http::Request::post("/turn").body(body).expect("a fixed path is a request");
    let Ok(response) = link.request(request).await else { return Ok(()) };
    if !response.status().is_success() {
        return Err(NotAnAgent);
    }
    let mut body = response.into_body();
    let mut lines = Lines::of_at_most(AGENT_FRAME_MAX_BYTES);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Ok(()) };
        let Ok(bytes) = frame.into_data() else { continue };
        lines.push(&bytes);
        while let Some(line) = lines.next_line().map_err(|_| NotAnAgent)? {
            let frame = read_agent_line(&line).map_err(|_| NotAnAgent)?;
            if !turn.tell(LinkEvent::Frame(frame)).await {
                return Ok(());
            }
        }
    }
    Ok(())
}
