//! The states of a machine (sections 2.1 and 3.1 of the interface) and its transitions.
//!
//! ```text
//!              start                 driver started            agent answered
//!   Stopped ───────────▶ Starting ───────────────▶ Greeting ─────────────────▶ Running
//!      ▲ ▲                │  ▲  │ failed              │ failed                   │ │
//!      │ │                │  │  ▼                     │                          │ │
//!      │ │                │  └─ Backoff ◀──────────┐  │   lost, turns under way  │ │
//!      │ │                │ stop     stopped, retry│  ▼                          │ │
//!      │ └────────────────┴───────────────────── Stopping ◀──────────────────────┘ │
//!      │     stopped                              │    ▲    stop, idle, lost       │
//!      └──────────────────────────────────────────┘    └───────────────────────────┘
//!
//! Failed is Stopped with a reason: the start or the stop has failed for good. Attaching is the state at the start of a
//! service, while it checks whether the machine of an earlier one still runs.
//! ```
//!
//! [`Machine::on`] decides; its caller executes the [`Effect`]s. At most one of attaching, starting, greeting and
//! stopping is in progress at any time: [`Effect::StopDriver`] supersedes the others.

mod change_reason;

use std::time::Duration;

pub use self::change_reason::ChangeReason;

use crate::id::InstanceId;
use crate::time::Timestamp;

/// The state of a machine as the interface shows it (section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MachineStatus {
    /// Its agent responds.
    Running,
    /// It is not running.
    Stopped,
    /// It is starting.
    Starting,
    /// It is stopping.
    Stopping,
}

impl MachineStatus {
    /// Returns the value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Starting => "STARTING",
            Self::Stopping => "STOPPING",
        }
    }
}

/// The desired state of a machine. It is stored, so that it survives a restart of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Desired {
    Running,
    Stopped,
}

/// The timing rules of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The number of failed starts in a row after which the machine fails. At least 1.
    pub start_attempts_max: u32,
    /// The pause after the first failed start; it doubles with each further one.
    pub backoff_first: Duration,
    /// The longest pause between two starts.
    pub backoff_max: Duration,
    /// The number of stop attempts.
    pub stop_attempts_max: u32,
    /// The time after which an idle machine is stopped; `None` for never.
    pub idle_timeout: Option<Duration>,
    /// An idle machine that holds more memory, in bytes, is stopped after [`Self::grown_idle_timeout`]. Its memory does
    /// not shrink while it runs, and a start takes less than a second.
    pub grown_from_bytes: u64,
    /// The time after which an idle machine that has grown is stopped, if that is earlier.
    pub grown_idle_timeout: Duration,
    /// After running this long, a loss counts as the first.
    pub stable_after: Duration,
    /// True if a question starts a stopped machine. Otherwise the question is refused until the owner starts the
    /// machine.
    pub started_by_questions: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            start_attempts_max: 5,
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(15),
            stop_attempts_max: 3,
            idle_timeout: Some(Duration::from_secs(15 * 60)),
            grown_from_bytes: 128 << 20,
            grown_idle_timeout: Duration::from_secs(60),
            stable_after: Duration::from_secs(60),
            started_by_questions: true,
        }
    }
}

/// The internal state of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The service has started and checks whether the machine runs.
    Attaching,
    /// It is not running.
    Stopped,
    /// It is not running, because its start or stop failed permanently.
    Failed {
        /// The reason, for its owner.
        reason: String,
    },
    /// The driver is starting it.
    Starting {
        /// The number of consecutive starts, from 1.
        attempt: u32,
    },
    /// It runs, but its agent has not answered yet.
    Greeting {
        /// The number of consecutive starts, from 1.
        attempt: u32,
    },
    /// A start failed and the next one is due at `until`.
    Backoff {
        /// The number of the next start.
        attempt: u32,
        /// The time of the next start.
        until: Timestamp,
    },
    /// Its agent responds.
    Running {
        /// The agent's instance.
        instance: InstanceId,
        /// The time at which it began to run.
        since: Timestamp,
        /// The time since which no turn needs it.
        idle_since: Option<Timestamp>,
        /// True if it held much memory when it became idle.
        grown: bool,
        /// The number of consecutive starts that led here.
        attempt: u32,
    },
    /// The driver is stopping it.
    Stopping {
        /// The next action.
        then: AfterStop,
        /// The number of the attempt.
        attempt: u32,
    },
}

/// The action after a machine has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterStop {
    /// It stays stopped.
    Stay,
    /// It was started while it stopped.
    Start,
    /// It was lost or failed to start, and is started again.
    Retry {
        /// The number of the next start; the first one is immediate.
        attempt: u32,
    },
    /// It has failed permanently.
    GiveUp {
        /// The reason, for its owner.
        reason: String,
    },
}

/// An event of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Its owner or a new question requests a start.
    StartRequested,
    /// Its owner requests a stop.
    StopRequested,
    /// A turn needs the machine.
    TurnBegan,
    /// A turn no longer needs the machine.
    TurnEnded,
    /// The machine of an earlier service is running.
    Attached,
    /// No machine of an earlier service is running.
    NothingToAttach,
    /// The driver has started it; its agent has not answered yet.
    DriverStarted,
    /// The driver could not start it, or its agent's answer was invalid.
    StartFailed {
        reason: String,
        /// True if a retry cannot succeed.
        permanent: bool,
    },
    /// The agent answered.
    AgentAnswered {
        /// The agent's instance.
        instance: InstanceId,
    },
    /// The machine died or its agent no longer answers.
    AgentLost { reason: String },
    /// The driver has stopped it.
    DriverStopped,
    /// The driver could not stop it.
    StopFailed { reason: String },
    /// The memory of the machine was measured, in bytes, when it had become idle.
    MemoryMeasured { bytes: u64 },
    /// The time of [`Machine::wake_at`] was reached.
    Tick,
}

/// An action for the driver or the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Check whether the machine runs; answered by `Attached` or `NothingToAttach`.
    Attach,
    /// Start it; answered by `DriverStarted` or `StartFailed`.
    StartDriver,
    /// Request the agent's `hello`; answered by `AgentAnswered` or `StartFailed`.
    Greet,
    /// Abort other operations and stop it; answered by `DriverStopped` or `StopFailed`.
    StopDriver,
    /// Store the desired state.
    Save(Desired),
    /// Store the desired state `Stopped`, although the owner did not request it, unless an accepted question
    /// waits for the machine. In that case `StartRequested` follows, unless the machine has failed.
    Lapse,
}

/// The state machine of one account's machine: its desired state, its state, and the number of turns that
/// need it.
#[derive(Debug, Clone)]
pub struct Machine {
    rules: Rules,
    desired: Desired,
    turns: u32,
    state: State,
}

impl Machine {
    /// Creates a machine whose desired state is known, but not its actual one. Returns the first effect.
    #[must_use]
    pub fn new(desired: Desired, rules: Rules) -> (Self, Effect) {
        (Self { rules, desired, turns: 0, state: State::Attaching }, Effect::Attach)
    }

    /// Returns the public status.
    #[must_use]
    pub const fn status(&self) -> MachineStatus {
        match (&self.state, self.desired) {
            (State::Attaching, Desired::Running)
            | (State::Starting { .. } | State::Greeting { .. } | State::Backoff { .. }, _)
            | (State::Stopping { then: AfterStop::Retry { .. }, .. }, _) => MachineStatus::Starting,
            (State::Attaching, Desired::Stopped)
            | (
                State::Stopping {
                    then: AfterStop::Stay | AfterStop::Start | AfterStop::GiveUp { .. }, ..
                },
                _,
            ) => MachineStatus::Stopping,
            (State::Stopped | State::Failed { .. }, _) => MachineStatus::Stopped,
            (State::Running { .. }, _) => MachineStatus::Running,
        }
    }

    /// Returns the internal state.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the desired state.
    #[must_use]
    pub const fn desired(&self) -> Desired {
        self.desired
    }

    /// Returns the number of turns that need it.
    #[must_use]
    pub const fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns the time of the next [`Event::Tick`], if no other event comes first.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Backoff { until, .. } => Some(until),
            State::Running { idle_since: Some(since), grown, .. } => {
                let timeout = self.rules.idle_timeout?;
                let grown_timeout = self.rules.grown_idle_timeout.min(timeout);
                Some(since.plus(if grown { grown_timeout } else { timeout }))
            }
            State::Running { idle_since: None, .. }
            | State::Attaching
            | State::Stopped
            | State::Failed { .. }
            | State::Starting { .. }
            | State::Greeting { .. }
            | State::Stopping { .. } => None,
        }
    }

    /// Handles one event. Returns the effects, in order.
    pub fn on(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match event {
            Event::TurnBegan => {
                self.turns = self.turns.saturating_add(1);
                self.note_idleness(now);
                Vec::new()
            }
            Event::TurnEnded => {
                self.turns = self.turns.saturating_sub(1);
                self.note_idleness(now);
                Vec::new()
            }
            Event::MemoryMeasured { bytes } => {
                let limit = self.rules.grown_from_bytes;
                if let State::Running { grown, idle_since: Some(_), .. } = &mut self.state {
                    *grown = bytes > limit;
                }
                Vec::new()
            }
            Event::StartRequested => self.start(now),
            Event::StopRequested => self.stop(),
            Event::Tick => self.tick(now),
            Event::Attached
            | Event::NothingToAttach
            | Event::DriverStarted
            | Event::StartFailed { .. }
            | Event::AgentAnswered { .. }
            | Event::AgentLost { .. }
            | Event::DriverStopped
            | Event::StopFailed { .. } => self.driven(event, now),
        }
    }

    fn start(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = self.set_desired(Desired::Running);
        match &mut self.state {
            State::Stopped => effects.extend(self.launch(1)),
            // A machine that could not be stopped may still exist, so it is stopped first.
            State::Failed { .. } => effects.extend(self.halt(AfterStop::Retry { attempt: 1 })),
            State::Stopping { then: then @ (AfterStop::Stay | AfterStop::GiveUp { .. }), .. } => {
                *then = AfterStop::Start
            }
            // The caller is about to use it, so the idle time starts anew.
            State::Running { idle_since, .. } => *idle_since = (self.turns == 0).then_some(now),
            State::Stopping { then: AfterStop::Start | AfterStop::Retry { .. }, .. }
            | State::Attaching
            | State::Starting { .. }
            | State::Greeting { .. }
            | State::Backoff { .. } => {}
        }
        effects
    }

    fn stop(&mut self) -> Vec<Effect> {
        let mut effects = self.set_desired(Desired::Stopped);
        if effects.is_empty() && matches!(self.state, State::Failed { .. }) {
            effects.push(Effect::Save(Desired::Stopped)); // a question may have set it to Running
        }
        match &mut self.state {
            State::Starting { .. } | State::Greeting { .. } | State::Running { .. } => {
                effects.extend(self.halt(AfterStop::Stay));
            }
            State::Backoff { .. } => self.state = State::Stopped,
            State::Stopping { then, .. } => *then = AfterStop::Stay,
            State::Attaching | State::Stopped | State::Failed { .. } => {}
        }
        effects
    }

    fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        if self.wake_at().is_none_or(|due| now < due) {
            return Vec::new();
        }
        match self.state {
            State::Backoff { attempt, .. } => self.launch(attempt),
            State::Running { .. } => {
                let mut effects = self.stop_unrequested();
                effects.extend(self.halt(AfterStop::Stay));
                effects
            }
            State::Attaching
            | State::Stopped
            | State::Failed { .. }
            | State::Starting { .. }
            | State::Greeting { .. }
            | State::Stopping { .. } => Vec::new(),
        }
    }

    /// Handles reports of the driver and the agent. A report that does not fit the state is stale and is ignored.
    fn driven(&mut self, event: Event, now: Timestamp) -> Vec<Effect> {
        match (&self.state, event) {
            (State::Attaching, Event::Attached) => match self.desired {
                Desired::Running => {
                    self.state = State::Greeting { attempt: 1 };
                    vec![Effect::Greet]
                }
                Desired::Stopped => self.halt(AfterStop::Stay),
            },
            (State::Attaching, Event::NothingToAttach) => match self.desired {
                Desired::Running => self.launch(1),
                Desired::Stopped => {
                    self.state = State::Stopped;
                    Vec::new()
                }
            },
            (&State::Starting { attempt }, Event::DriverStarted) => {
                self.state = State::Greeting { attempt };
                vec![Effect::Greet]
            }
            (&State::Starting { attempt }, Event::StartFailed { reason, permanent }) => {
                match self.after_loss(attempt, reason, permanent) {
                    AfterStop::GiveUp { reason } => self.give_up(reason),
                    AfterStop::Retry { attempt } => self.back_off(attempt, now),
                    AfterStop::Stay | AfterStop::Start => Vec::new(),
                }
            }
            (&State::Greeting { attempt }, Event::AgentAnswered { instance }) => {
                let idle_since = (self.turns == 0).then_some(now);
                self.state = State::Running { instance, since: now, idle_since, grown: false, attempt };
                Vec::new()
            }
            (&State::Greeting { attempt }, Event::StartFailed { reason, permanent }) => {
                let then = self.after_loss(attempt, reason, permanent);
                self.halt(then)
            }
            (&State::Greeting { attempt }, Event::AgentLost { reason }) => {
                let then = self.after_loss(attempt, reason, false);
                self.halt(then)
            }
            (&State::Running { since, attempt, .. }, Event::AgentLost { reason }) => {
                if self.turns == 0 {
                    let mut effects = self.stop_unrequested();
                    effects.extend(self.halt(AfterStop::Stay));
                    return effects;
                }
                let attempt = if now.since(since) >= self.rules.stable_after { 0 } else { attempt };
                let then = self.after_loss(attempt, reason, false);
                self.halt(then)
            }
            (
                &State::Running { since, idle_since, grown, attempt, .. },
                Event::AgentAnswered { instance },
            ) => {
                self.state = State::Running { instance, since, idle_since, grown, attempt };
                Vec::new()
            }
            (State::Stopping { then, .. }, Event::DriverStopped) => match then.clone() {
                AfterStop::Stay => {
                    self.state = State::Stopped;
                    Vec::new()
                }
                AfterStop::Start => self.launch(1),
                AfterStop::Retry { attempt } => self.back_off(attempt, now),
                AfterStop::GiveUp { reason } => self.give_up(reason),
            },
            (State::Stopping { then, attempt }, Event::StopFailed { reason }) => {
                if *attempt >= self.rules.stop_attempts_max {
                    return self.give_up(reason);
                }
                self.state = State::Stopping { then: then.clone(), attempt: attempt + 1 };
                vec![Effect::StopDriver]
            }
            (
                State::Attaching
                | State::Stopped
                | State::Failed { .. }
                | State::Starting { .. }
                | State::Greeting { .. }
                | State::Backoff { .. }
                | State::Running { .. }
                | State::Stopping { .. },
                Event::StartRequested
                | Event::StopRequested
                | Event::TurnBegan
                | Event::TurnEnded
                | Event::Attached
                | Event::NothingToAttach
                | Event::DriverStarted
                | Event::StartFailed { .. }
                | Event::AgentAnswered { .. }
                | Event::AgentLost { .. }
                | Event::DriverStopped
                | Event::StopFailed { .. }
                | Event::MemoryMeasured { .. }
                | Event::Tick,
            ) => Vec::new(),
        }
    }

    fn set_desired(&mut self, desired: Desired) -> Vec<Effect> {
        if self.desired == desired {
            return Vec::new();
        }
        self.desired = desired;
        vec![Effect::Save(desired)]
    }

    /// Stops it without a request of its owner.
    fn stop_unrequested(&mut self) -> Vec<Effect> {
        if self.desired == Desired::Stopped {
            return Vec::new();
        }
        self.desired = Desired::Stopped;
        vec![Effect::Lapse]
    }

    fn launch(&mut self, attempt: u32) -> Vec<Effect> {
        self.state = State::Starting { attempt };
        vec![Effect::StartDriver]
    }

    fn halt(&mut self, then: AfterStop) -> Vec<Effect> {
        self.state = State::Stopping { then, attempt: 1 };
        vec![Effect::StopDriver]
    }

    fn give_up(&mut self, reason: String) -> Vec<Effect> {
        self.state = State::Failed { reason };
        self.stop_unrequested()
    }

    fn after_loss(&self, attempt: u32, reason: String, permanent: bool) -> AfterStop {
        if permanent || attempt >= self.rules.start_attempts_max {
            AfterStop::GiveUp { reason }
        } else {
            AfterStop::Retry { attempt: attempt + 1 }
        }
    }

    /// The first start after a long stable run is immediate; each further one waits twice as long.
    fn back_off(&mut self, attempt: u32, now: Timestamp) -> Vec<Effect> {
        let pause = match attempt.checked_sub(2) {
            None => Duration::ZERO,
            Some(failed_before) => self
                .rules
                .backoff_first
                .saturating_mul(1_u32.checked_shl(failed_before).unwrap_or(u32::MAX))
                .min(self.rules.backoff_max),
        };
        self.state = State::Backoff { attempt, until: now.plus(pause) };
        Vec::new()
    }

    fn note_idleness(&mut self, now: Timestamp) {
        if let State::Running { idle_since, grown, .. } = &mut self.state {
            *idle_since = if self.turns == 0 { idle_since.or(Some(now)) } else { None };
            *grown &= self.turns == 0;
        }
    }
}

#[cfg(test)]
mod tests;
