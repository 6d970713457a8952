//! The reasons why the status of a machine changes.

use std::fmt;

use super::MachineEvent;

/// The reason of the last change of a machine's status. Its text is English, for logs and operators; [`ChangeReason::parse`]
/// reads it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeReason {
    /// Its owner, an operator or a question requested a start.
    StartRequested,
    /// Its owner or an operator requested a stop.
    StopRequested,
    /// An answer began or ended.
    Answer,
    /// The machine of an earlier service was running.
    FoundRunning,
    /// No machine of an earlier service was running.
    FoundStopped,
    /// No answer needed it for long.
    Idle,
    /// It was idle for a shorter time, and held much memory.
    IdleWithMuchMemory,
    /// The disk of the service is nearly full and the account exceeds its quota: by how much.
    QuotaExceeded(String),
    /// Its start failed: the cause.
    StartFailed(String),
    /// It died, or its agent no longer answered: the cause.
    Lost(String),
    /// Its stop failed: the cause.
    StopFailed(String),
    /// Another reason, of another version of the service.
    Other(String),
}

impl ChangeReason {
    /// Returns the reason of a change that an event makes; `None` if the event only completes what an earlier one began.
    /// `has_grown` is true for a machine that held much memory when it became idle.
    #[must_use]
    pub fn from_event(event: &MachineEvent, has_grown: bool) -> Option<Self> {
        Some(match event {
            MachineEvent::StartRequested => Self::StartRequested,
            MachineEvent::StopRequested => Self::StopRequested,
            MachineEvent::TurnBegan | MachineEvent::TurnEnded => Self::Answer,
            MachineEvent::Attached => Self::FoundRunning,
            MachineEvent::NothingToAttach => Self::FoundStopped,
            MachineEvent::StartFailed { reason, .. } => Self::StartFailed(reason.clone()),
            MachineEvent::AgentLost { reason } => Self::Lost(reason.clone()),
            MachineEvent::StopFailed { reason } => Self::StopFailed(reason.clone()),
            MachineEvent::Tick if has_grown => Self::IdleWithMuchMemory,
            MachineEvent::Tick => Self::Idle,
            MachineEvent::MemoryMeasured { .. }
            | MachineEvent::DriverStarted
            | MachineEvent::AgentAnswered { .. }
            | MachineEvent::DriverStopped => return None,
        })
    }

    /// Reads the text of a reason.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut plain = [
            Self::StartRequested,
            Self::StopRequested,
            Self::Answer,
            Self::FoundRunning,
            Self::FoundStopped,
            Self::Idle,
            Self::IdleWithMuchMemory,
        ]
        .into_iter();
        let caused = || {
            let (words, cause) = text.split_once(": ")?;
            let mut kinds =
                [Self::QuotaExceeded, Self::StartFailed, Self::Lost, Self::StopFailed].into_iter();
            kinds.find_map(|kind| Some(kind(cause.to_owned())).filter(|reason| reason.base_text() == words))
        };
        let found = plain.find(|reason| reason.base_text() == text).or_else(caused);
        found.unwrap_or_else(|| Self::Other(text.to_owned()))
    }

    /// Returns the cause, which is technical.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::QuotaExceeded(cause)
            | Self::StartFailed(cause)
            | Self::Lost(cause)
            | Self::StopFailed(cause) => Some(cause),
            Self::StartRequested
            | Self::StopRequested
            | Self::Answer
            | Self::FoundRunning
            | Self::FoundStopped
            | Self::Idle
            | Self::IdleWithMuchMemory
            | Self::Other(_) => None,
        }
    }

    /// Returns the text without the cause.
    fn base_text(&self) -> &str {
        match self {
            Self::StartRequested => "a start was requested",
            Self::StopRequested => "a stop was requested",
            Self::Answer => "an answer began or ended",
            Self::FoundRunning => "it was found running",
            Self::FoundStopped => "it was not running yet",
            Self::Idle => "it was idle",
            Self::IdleWithMuchMemory => "it was idle and held much memory",
            Self::QuotaExceeded(_) => "the disk is nearly full and the account exceeds its quota",
            Self::StartFailed(_) => "the start failed",
            Self::Lost(_) => "it was lost",
            Self::StopFailed(_) => "the stop failed",
            Self::Other(text) => text,
        }
    }
}

impl fmt::Display for ChangeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause() {
            Some(cause) => write!(f, "{}: {cause}", self.base_text()),
            None => f.write_str(self.base_text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_reason_round_trips() {
        let cause = || "exit status: 1".to_owned();
        for reason in [
            ChangeReason::StartRequested,
            ChangeReason::StopRequested,
            ChangeReason::Answer,
            ChangeReason::FoundRunning,
            ChangeReason::FoundStopped,
            ChangeReason::Idle,
            ChangeReason::IdleWithMuchMemory,
            ChangeReason::QuotaExceeded(cause()),
            ChangeReason::StartFailed(cause()),
            ChangeReason::Lost(cause()),
            ChangeReason::StopFailed(String::new()),
            ChangeReason::Other("the moon is full: really".to_owned()),
        ] {
            assert_eq!(ChangeReason::parse(&reason.to_string()), reason);
        }
    }
}
