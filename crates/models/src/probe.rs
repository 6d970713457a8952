//! The health of vendors: outcomes of model discovery.

use std::fmt;

use domain::catalog::ProviderName;
use domain::step::StepError;
use domain::time::Timestamp;

/// Why model discovery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeError {
    /// The server did not answer in time.
    Unreachable,
    /// The server requires another key, or any key.
    Key,
    /// The server refused to list models.
    Refused,
    /// The response is not a list of models.
    Unreadable,
    /// The list is empty.
    Empty,
}

impl ProbeError {
    /// All variants.
    pub const ALL: [Self; 5] = [Self::Unreachable, Self::Key, Self::Refused, Self::Unreadable, Self::Empty];

    /// Returns the name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Key => "key",
            Self::Refused => "refused",
            Self::Unreadable => "unreadable",
            Self::Empty => "empty",
        }
    }
}

/// A message for users. Reveals nothing about the operator's network or keys.
impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreachable => "its server does not answer",
            Self::Key => "its server refuses the service's key",
            Self::Refused => "its server refuses to list models",
            Self::Unreadable => "its server does not answer in its format",
            Self::Empty => "its server has no models",
        })
    }
}

/// The health of a vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorHealth {
    pub provider: ProviderName,
    /// The server's address. It contains no key.
    pub base_url: String,
    /// The number of models in the last successful list.
    pub models: usize,
    /// The success of the last discovery; `None` before the first outcome.
    pub up: Option<bool>,
    /// The time of the last change of `up`.
    pub since: Option<Timestamp>,
    /// The cause of the last failure.
    pub trouble: Option<ProbeError>,
    /// The server's own message, for operators.
    pub detail: Option<String>,
    /// Counts failures by the variants of [`ProbeError::ALL`].
    pub failures: [u64; ProbeError::ALL.len()],
}

impl VendorHealth {
    /// Explains a failure to operators: vendor, address and cause on one line. `None` when the vendor is up.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let cause = match (self.up, &self.detail) {
            (Some(true), _) => return None,
            (_, Some(detail)) => detail,
            (_, None) => "it has not answered yet",
        };
        Some(format!("{} at {}: {cause}", self.provider.as_str(), self.base_url))
    }
}

/// A failed discovery: its kind, and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ProbeError,
    pub(crate) detail: String,
}

impl Failure {
    /// Classifies the server's error. `keyed` is true when a key was sent.
    pub(crate) fn of(error: &StepError, keyed: bool) -> Self {
        let (kind, detail) = match error {
            StepError::Rejected { status, reason } if is_about_key(*status, reason) => {
                let message =
                    if keyed { "the key is refused" } else { "a key is required, but none is configured" };
                return Self { kind: ProbeError::Key, detail: format!("{message} ({reason})") };
            }
            StepError::Rejected { reason, .. } => (ProbeError::Refused, reason.clone()),
            StepError::Unavailable { reason, .. } | StepError::TimedOut { reason, .. } => {
                (ProbeError::Unreachable, reason.clone())
            }
            StepError::TooLong => (ProbeError::Refused, error.to_string()),
        };
        Self { kind, detail }
    }

    pub(crate) fn unreadable(detail: &str) -> Self {
        Self { kind: ProbeError::Unreadable, detail: detail.to_owned() }
    }

    pub(crate) fn empty() -> Self {
        Self { kind: ProbeError::Empty, detail: "it has no models".to_owned() }
    }

    pub(crate) fn error(&self) -> StepError {
        match self.kind {
            ProbeError::Unreachable | ProbeError::Unreadable => {
                StepError::Unavailable { reason: self.detail.clone(), retry_after: None }
            }
            ProbeError::Key | ProbeError::Refused | ProbeError::Empty => {
                StepError::Rejected { status: None, reason: self.detail.clone() }
            }
        }
    }
}

/// Returns true when a rejection concerns the key, by its status or message.
fn is_about_key(status: Option<u16>, reason: &str) -> bool {
    let reason = reason.to_lowercase();
    let named = ["api key", "api_key", "x-api-key"].iter().any(|name| reason.contains(name));
    matches!(status, Some(401 | 403)) || (status == Some(400) && named)
}

/// The history of a vendor's discovery.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Probe {
    /// The last outcome.
    pub(crate) last: Option<Result<(), Failure>>,
    since: Option<Timestamp>,
    failures: [u64; ProbeError::ALL.len()],
}

impl Probe {
    /// Records an outcome. Returns true when it differs from the last one.
    pub(crate) fn record(&mut self, outcome: Result<(), Failure>, now: Timestamp) -> bool {
        if let Err(failure) = &outcome
            && let Some(at) = ProbeError::ALL.iter().position(|kind| *kind == failure.kind)
        {
            self.failures[at] += 1;
        }
        let changed = self.last.as_ref() != Some(&outcome);
        if self.last.as_ref().map(Result::is_ok) != Some(outcome.is_ok()) {
            self.since = Some(now);
        }
        self.last = Some(outcome);
        changed
    }

    pub(crate) fn error(&self) -> Option<ProbeError> {
        self.failure().map(|failure| failure.kind)
    }

    fn failure(&self) -> Option<&Failure> {
        self.last.as_ref().and_then(|last| last.as_ref().err())
    }

    pub(crate) fn health(&self, provider: ProviderName, base_url: String, models: usize) -> VendorHealth {
        VendorHealth {
            provider,
            base_url,
            models,
            up: self.last.as_ref().map(Result::is_ok),
            since: self.since,
            trouble: self.error(),
            detail: self.failure().map(|failure| failure.detail.clone()),
            failures: self.failures,
        }
    }
}
