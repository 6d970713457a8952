//! The inputs of a running turn, and its outcome.

use domain::step::ToolSpec;
use domain::turn::host::TurnEvent;
use domain::turn::{ExecutorFrame, HostFrame};
use machine::GuestConnection;
use tokio::sync::mpsc;

/// The maximum number of inputs that wait for one turn. They are few because a frame may be long.
pub(super) const INBOX_MAX: usize = 16;

/// An input of a turn.
pub(super) enum TurnInput {
    /// An event of the state machine.
    Event(TurnEvent),
    /// An event of a session.
    Session {
        /// The session: events of an older one do not count.
        number: u32,
        event: SessionEvent,
    },
    /// A subagent ended in a way that ends this turn on this node as well.
    Lost(TurnOutcome),
}

/// An event of a session.
pub(super) enum SessionEvent {
    /// The machine is running and connected: frames may be sent.
    Up {
        connection: GuestConnection,
        frames: mpsc::Sender<HostFrame>,
        /// The tools of the MCP servers in the machine.
        tools: Vec<ToolSpec>,
    },
    /// The executor sent a frame.
    Frame(ExecutorFrame),
    /// The guest sent an invalid frame.
    Violation,
    Down,
    /// There will be no session: the machine's start was given up, or the account has no machine. The reason is shown
    /// in the answer.
    GivenUp(String),
    /// There will be no session until the owner starts the stopped machine.
    MachineStopped,
}

/// The outcome of a turn on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnOutcome {
    /// Completed, taken over or deleted: nothing is left to do.
    Over,
    /// Failed for now: the lease is released for another attempt.
    GiveBack,
    /// This process cannot work on it (see `left_answers`): another one, or a later version, may.
    Leave,
    /// The machine is stopped: the answer waits in the store until it is started.
    MachineStopped,
}
