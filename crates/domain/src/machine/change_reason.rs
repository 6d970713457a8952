//! The reasons why the status of a machine changes.

use std::fmt;

use super::Event;

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
    pub fn of(event: &Event, has_grown: bool) -> Option<Self> {
        Some(match event {
            Event::StartRequested => Self::StartRequested,
            Event::StopRequested => Self::StopRequested,
            Event::TurnBegan | Event::TurnEnded => Self::Answer,
            Event::Attached => Self::FoundRunning,
            Event::NothingToAttach => Self::FoundStopped,
            Event::StartFailed { reason, .. } => Self::StartFailed(reason.clone()),
            Event::AgentLost { reason } => Self::Lost(reason.clone()),
            Event::StopFailed { reason } => Self::StopFailed(reason.clone()),
            Event::Tick if has_grown => Self::IdleWithMuchMemory,
            Event::Tick => Self::Idle,
            Event::MemoryMeasured { .. }
            | Event::DriverStarted
            | Event::AgentAnswered { .. }
            | Event::DriverStopped => return None,
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
            kinds.find_map(|kind| Some(kind(cause.to_owned())).filter(|reason| reason.words() == words))
        };
        let found = plain.find(|reason| reason.words() == text).or_else(caused);
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
    fn words(&self) -> &str {
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
            Some(cause) => write!(f, "{}: {cause}", self.words()),
            None => f.write_str(self.words()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_back_from_its_text() {
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
