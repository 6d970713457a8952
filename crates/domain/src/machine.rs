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
//! Failed is Stopped with a reason: the start or the stop has failed permanently. Attaching is the state at the start
//! of a service, while it checks whether the machine of an earlier one still runs.
//! ```
//!
//! [`Machine::apply_event`] decides; its caller executes the [`MachineEffect`]s. At most one of attaching, starting,
//! greeting and stopping is in progress at any time: [`MachineEffect::StopDriver`] supersedes the others.

mod change_reason;

use std::time::Duration;

pub use self::change_reason::ChangeReason;

use crate::id::InstanceId;
use crate::time::Timestamp;

/// The state of a machine as the interface shows it (section 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MachineStatus {
    Running,
    /// It is not running.
    Stopped,
    Starting,
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
pub enum DesiredState {
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
pub enum MachinePhase {
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
    Running {
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
        then: AfterStop,
        /// The number of the attempt.
        attempt: u32,
    },
}

/// The action after a machine has stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterStop {
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
pub enum MachineEvent {
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
    AgentAnswered {
        instance: InstanceId,
    },
    /// The machine died or its agent no longer answers.
    AgentLost {
        reason: String,
    },
    /// The driver has stopped it.
    DriverStopped,
    /// The driver could not stop it.
    StopFailed {
        reason: String,
    },
    /// The memory of the machine was measured, in bytes, when it had become idle.
    MemoryMeasured {
        bytes: u64,
    },
    /// The time of [`Machine::wake_at`] was reached.
    Tick,
}

/// An action for the driver or the supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineEffect {
    /// Check whether the machine runs; answered by `Attached` or `NothingToAttach`.
    Attach,
    /// Start it; answered by `DriverStarted` or `StartFailed`.
    StartDriver,
    /// Request the agent's `hello`; answered by `AgentAnswered` or `StartFailed`.
    Greet,
    /// Abort other operations and stop it; answered by `DriverStopped` or `StopFailed`.
    StopDriver,
    /// Store the desired state.
    Save(DesiredState),
    /// Store the desired state `Stopped`, although the owner did not request it, unless an accepted question
    /// waits for the machine. In that case `StartRequested` follows, unless the machine has failed.
    Lapse,
}

/// The state machine of one account's machine: its desired state, its state, and the number of turns that
/// need it.
#[derive(Debug, Clone)]
pub struct Machine {
    rules: Rules,
    desired: DesiredState,
    turns: u32,
    state: MachinePhase,
}

impl Machine {
    /// Creates a machine whose desired state is known, but not its actual one. Returns the first effect.
    #[must_use]
    pub fn new(desired: DesiredState, rules: Rules) -> (Self, MachineEffect) {
        (Self { rules, desired, turns: 0, state: MachinePhase::Attaching }, MachineEffect::Attach)
    }

    /// Returns the public status.
    #[must_use]
    pub const fn status(&self) -> MachineStatus {
        match (&self.state, self.desired) {
            (MachinePhase::Attaching, DesiredState::Running)
            | (
                MachinePhase::Starting { .. } | MachinePhase::Greeting { .. } | MachinePhase::Backoff { .. },
                _,
            )
            | (MachinePhase::Stopping { then: AfterStop::Retry { .. }, .. }, _) => MachineStatus::Starting,
            (MachinePhase::Attaching, DesiredState::Stopped)
            | (
                MachinePhase::Stopping {
                    then: AfterStop::Stay | AfterStop::Start | AfterStop::GiveUp { .. },
                    ..
                },
                _,
            ) => MachineStatus::Stopping,
            (MachinePhase::Stopped | MachinePhase::Failed { .. }, _) => MachineStatus::Stopped,
            (MachinePhase::Running { .. }, _) => MachineStatus::Running,
        }
    }

    /// Returns the internal state.
    #[must_use]
    pub const fn state(&self) -> &MachinePhase {
        &self.state
    }

    /// Returns the desired state.
    #[must_use]
    pub const fn desired_state(&self) -> DesiredState {
        self.desired
    }

    /// Returns the number of turns that need it.
    #[must_use]
    pub const fn turn_count(&self) -> u32 {
        self.turns
    }

    /// Returns the time of the next [`MachineEvent::Tick`], if no other event comes first.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        match self.state {
            MachinePhase::Backoff { until, .. } => Some(until),
            MachinePhase::Running { idle_since: Some(since), grown, .. } => {
                let timeout = self.rules.idle_timeout?;
                let grown_timeout = self.rules.grown_idle_timeout.min(timeout);
                Some(since.saturating_add(if grown { grown_timeout } else { timeout }))
            }
            MachinePhase::Running { idle_since: None, .. }
            | MachinePhase::Attaching
            | MachinePhase::Stopped
            | MachinePhase::Failed { .. }
            | MachinePhase::Starting { .. }
            | MachinePhase::Greeting { .. }
            | MachinePhase::Stopping { .. } => None,
        }
    }

    /// Handles one event. Returns the effects, in order.
    pub fn apply_event(&mut self, event: MachineEvent, now: Timestamp) -> Vec<MachineEffect> {
        match event {
            MachineEvent::TurnBegan => {
                self.turns = self.turns.saturating_add(1);
                self.note_idleness(now);
                Vec::new()
            }
            MachineEvent::TurnEnded => {
                self.turns = self.turns.saturating_sub(1);
                self.note_idleness(now);
                Vec::new()
            }
            MachineEvent::MemoryMeasured { bytes } => {
                let limit = self.rules.grown_from_bytes;
                if let MachinePhase::Running { grown, idle_since: Some(_), .. } = &mut self.state {
                    *grown = bytes > limit;
                }
                Vec::new()
            }
            MachineEvent::StartRequested => self.request_start(now),
            MachineEvent::StopRequested => self.request_stop(),
            MachineEvent::Tick => self.check_timers(now),
            MachineEvent::Attached
            | MachineEvent::NothingToAttach
            | MachineEvent::DriverStarted
            | MachineEvent::StartFailed { .. }
            | MachineEvent::AgentAnswered { .. }
            | MachineEvent::AgentLost { .. }
            | MachineEvent::DriverStopped
            | MachineEvent::StopFailed { .. } => self.apply_driver_event(event, now),
        }
    }

    fn request_start(&mut self, now: Timestamp) -> Vec<MachineEffect> {
        let mut effects = self.set_desired(DesiredState::Running);
        match &mut self.state {
            MachinePhase::Stopped => effects.extend(self.start_driver(1)),
            // A machine that could not be stopped may still exist, so it is stopped first.
            MachinePhase::Failed { .. } => effects.extend(self.stop_driver(AfterStop::Retry { attempt: 1 })),
            MachinePhase::Stopping { then: then @ (AfterStop::Stay | AfterStop::GiveUp { .. }), .. } => {
                *then = AfterStop::Start
            }
            // The caller is about to use it, so the idle time starts again.
            MachinePhase::Running { idle_since, .. } => *idle_since = (self.turns == 0).then_some(now),
            MachinePhase::Stopping { then: AfterStop::Start | AfterStop::Retry { .. }, .. }
            | MachinePhase::Attaching
            | MachinePhase::Starting { .. }
            | MachinePhase::Greeting { .. }
            | MachinePhase::Backoff { .. } => {}
        }
        effects
    }

    fn request_stop(&mut self) -> Vec<MachineEffect> {
        let mut effects = self.set_desired(DesiredState::Stopped);
        if effects.is_empty() && matches!(self.state, MachinePhase::Failed { .. }) {
            effects.push(MachineEffect::Save(DesiredState::Stopped)); // a question may have set it to Running
        }
        match &mut self.state {
            MachinePhase::Starting { .. } | MachinePhase::Greeting { .. } | MachinePhase::Running { .. } => {
                effects.extend(self.stop_driver(AfterStop::Stay));
            }
            MachinePhase::Backoff { .. } => self.state = MachinePhase::Stopped,
            MachinePhase::Stopping { then, .. } => *then = AfterStop::Stay,
            MachinePhase::Attaching | MachinePhase::Stopped | MachinePhase::Failed { .. } => {}
        }
        effects
    }

    fn check_timers(&mut self, now: Timestamp) -> Vec<MachineEffect> {
        if self.wake_at().is_none_or(|due| now < due) {
            return Vec::new();
        }
        match self.state {
            MachinePhase::Backoff { attempt, .. } => self.start_driver(attempt),
            MachinePhase::Running { .. } => {
                let mut effects = self.stop_unrequested();
                effects.extend(self.stop_driver(AfterStop::Stay));
                effects
            }
            MachinePhase::Attaching
            | MachinePhase::Stopped
            | MachinePhase::Failed { .. }
            | MachinePhase::Starting { .. }
            | MachinePhase::Greeting { .. }
            | MachinePhase::Stopping { .. } => Vec::new(),
        }
    }

    /// Handles reports of the driver and the agent. A report that does not fit the state is stale and is ignored.
    fn apply_driver_event(&mut self, event: MachineEvent, now: Timestamp) -> Vec<MachineEffect> {
        match (&self.state, event) {
            (MachinePhase::Attaching, MachineEvent::Attached) => match self.desired {
                DesiredState::Running => {
                    self.state = MachinePhase::Greeting { attempt: 1 };
                    vec![MachineEffect::Greet]
                }
                DesiredState::Stopped => self.stop_driver(AfterStop::Stay),
            },
            (MachinePhase::Attaching, MachineEvent::NothingToAttach) => match self.desired {
                DesiredState::Running => self.start_driver(1),
                DesiredState::Stopped => {
                    self.state = MachinePhase::Stopped;
                    Vec::new()
                }
            },
            (&MachinePhase::Starting { attempt }, MachineEvent::DriverStarted) => {
                self.state = MachinePhase::Greeting { attempt };
                vec![MachineEffect::Greet]
            }
            (&MachinePhase::Starting { attempt }, MachineEvent::StartFailed { reason, permanent }) => {
                match self.after_loss(attempt, reason, permanent) {
                    AfterStop::GiveUp { reason } => self.give_up(reason),
                    AfterStop::Retry { attempt } => self.back_off(attempt, now),
                    AfterStop::Stay | AfterStop::Start => Vec::new(),
                }
            }
            (&MachinePhase::Greeting { attempt }, MachineEvent::AgentAnswered { instance }) => {
                let idle_since = (self.turns == 0).then_some(now);
                self.state =
                    MachinePhase::Running { instance, since: now, idle_since, grown: false, attempt };
                Vec::new()
            }
            (&MachinePhase::Greeting { attempt }, MachineEvent::StartFailed { reason, permanent }) => {
                let then = self.after_loss(attempt, reason, permanent);
                self.stop_driver(then)
            }
            (&MachinePhase::Greeting { attempt }, MachineEvent::AgentLost { reason }) => {
                let then = self.after_loss(attempt, reason, false);
                self.stop_driver(then)
            }
            (&MachinePhase::Running { since, attempt, .. }, MachineEvent::AgentLost { reason }) => {
                if self.turns == 0 {
                    let mut effects = self.stop_unrequested();
                    effects.extend(self.stop_driver(AfterStop::Stay));
                    return effects;
                }
                let attempt = if now.duration_since(since) >= self.rules.stable_after { 0 } else { attempt };
                let then = self.after_loss(attempt, reason, false);
                self.stop_driver(then)
            }
            (
                &MachinePhase::Running { since, idle_since, grown, attempt, .. },
                MachineEvent::AgentAnswered { instance },
            ) => {
                self.state = MachinePhase::Running { instance, since, idle_since, grown, attempt };
                Vec::new()
            }
            (MachinePhase::Stopping { then, .. }, MachineEvent::DriverStopped) => match then.clone() {
                AfterStop::Stay => {
                    self.state = MachinePhase::Stopped;
                    Vec::new()
                }
                AfterStop::Start => self.start_driver(1),
                AfterStop::Retry { attempt } => self.back_off(attempt, now),
                AfterStop::GiveUp { reason } => self.give_up(reason),
            },
            (MachinePhase::Stopping { then, attempt }, MachineEvent::StopFailed { reason }) => {
                if *attempt >= self.rules.stop_attempts_max {
                    return self.give_up(reason);
                }
                self.state = MachinePhase::Stopping { then: then.clone(), attempt: attempt + 1 };
                vec![MachineEffect::StopDriver]
            }
            (
                MachinePhase::Attaching
                | MachinePhase::Stopped
                | MachinePhase::Failed { .. }
                | MachinePhase::Starting { .. }
                | MachinePhase::Greeting { .. }
                | MachinePhase::Backoff { .. }
                | MachinePhase::Running { .. }
                | MachinePhase::Stopping { .. },
                MachineEvent::StartRequested
                | MachineEvent::StopRequested
                | MachineEvent::TurnBegan
                | MachineEvent::TurnEnded
                | MachineEvent::Attached
                | MachineEvent::NothingToAttach
                | MachineEvent::DriverStarted
                | MachineEvent::StartFailed { .. }
                | MachineEvent::AgentAnswered { .. }
                | MachineEvent::AgentLost { .. }
                | MachineEvent::DriverStopped
                | MachineEvent::StopFailed { .. }
                | MachineEvent::MemoryMeasured { .. }
                | MachineEvent::Tick,
            ) => Vec::new(),
        }
    }

    fn set_desired(&mut self, desired: DesiredState) -> Vec<MachineEffect> {
        if self.desired == desired {
            return Vec::new();
        }
        self.desired = desired;
        vec![MachineEffect::Save(desired)]
    }

    /// Stops it without a request of its owner.
    fn stop_unrequested(&mut self) -> Vec<MachineEffect> {
        if self.desired == DesiredState::Stopped {
            return Vec::new();
        }
        self.desired = DesiredState::Stopped;
        vec![MachineEffect::Lapse]
    }

    fn start_driver(&mut self, attempt: u32) -> Vec<MachineEffect> {
        self.state = MachinePhase::Starting { attempt };
        vec![MachineEffect::StartDriver]
    }

    fn stop_driver(&mut self, then: AfterStop) -> Vec<MachineEffect> {
        self.state = MachinePhase::Stopping { then, attempt: 1 };
        vec![MachineEffect::StopDriver]
    }

    fn give_up(&mut self, reason: String) -> Vec<MachineEffect> {
        self.state = MachinePhase::Failed { reason };
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
    fn back_off(&mut self, attempt: u32, now: Timestamp) -> Vec<MachineEffect> {
        let pause = match attempt.checked_sub(2) {
            None => Duration::ZERO,
            Some(failed_before) => self
                .rules
                .backoff_first
                .saturating_mul(1_u32.checked_shl(failed_before).unwrap_or(u32::MAX))
                .min(self.rules.backoff_max),
        };
        self.state = MachinePhase::Backoff { attempt, until: now.saturating_add(pause) };
        Vec::new()
    }

    fn note_idleness(&mut self, now: Timestamp) {
        if let MachinePhase::Running { idle_since, grown, .. } = &mut self.state {
            *idle_since = if self.turns == 0 { idle_since.or(Some(now)) } else { None };
            *grown &= self.turns == 0;
        }
    }
}

#[cfg(test)]
mod tests;
