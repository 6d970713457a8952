//! The health of vendors: outcomes of model discovery.

use std::fmt;

use domain::catalog::ProviderName;
use domain::step::{RefusedPart, StepError};
use domain::time::Timestamp;

/// Why model discovery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeError {
    /// The server did not answer in time.
    Unreachable,
    /// The server requires another key, or any key.
    Key,
    /// The account has no credit left.
    Payment,
    /// The server refused to list models.
    Refused,
    /// The response is not a list of models.
    Unreadable,
    /// The list is empty.
    Empty,
}

impl ProbeError {
    pub const ALL: [Self; 6] =
        [Self::Unreachable, Self::Key, Self::Payment, Self::Refused, Self::Unreadable, Self::Empty];

    /// Returns the name for metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Key => "key",
            Self::Payment => "payment",
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
            Self::Payment => "the service's account there has no credit left",
            Self::Refused => "its server refuses to list models",
            Self::Unreadable => "its server's response has an unknown format",
            Self::Empty => "its server has no models",
        })
    }
}

/// The health of a vendor: of its model discovery, and whether its calls accept the key and are paid for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorHealth {
    pub provider: ProviderName,
    /// The server's address. It contains no key.
    pub base_url: String,
    /// The number of models in the last successful list.
    pub models: usize,
    /// The success of the last discovery, unless a later call was refused for the key or for money; `None` before the first
    /// outcome.
    pub up: Option<bool>,
    /// The time of the last change of `up`.
    pub since: Option<Timestamp>,
    /// The cause of the last failure.
    pub trouble: Option<ProbeError>,
    /// The server's own message, for operators.
    pub detail: Option<String>,
    /// Counts failed discoveries and calls that were refused for the key or for money, by the variants of [`ProbeError::ALL`].
    pub failures: [u64; ProbeError::ALL.len()],
}

impl VendorHealth {
    /// Explains a failure to operators: vendor, address and cause on one line. `None` when the vendor is up.
    #[must_use]
    pub fn failure_reason(&self) -> Option<String> {
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
pub(crate) struct DiscoveryFailure {
    pub(crate) kind: ProbeError,
    pub(crate) detail: String,
}

impl DiscoveryFailure {
    /// Classifies the server's error. `keyed` is true when a key was sent.
    pub(crate) fn from_error(error: &StepError, keyed: bool) -> Self {
        let (kind, detail) = match error {
            StepError::Rejected { refused: RefusedPart::Payment, reason, .. } => {
                (ProbeError::Payment, reason.clone())
            }
            StepError::Rejected { refused, status, reason }
                if *refused == RefusedPart::Key || is_about_key(*status, reason) =>
            {
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

    pub(crate) fn unreadable_list(detail: &str) -> Self {
        Self { kind: ProbeError::Unreadable, detail: detail.to_owned() }
    }

    pub(crate) fn empty_list() -> Self {
        Self { kind: ProbeError::Empty, detail: "it has no models".to_owned() }
    }

    pub(crate) fn to_step_error(&self) -> StepError {
        match self.kind {
            ProbeError::Unreachable | ProbeError::Unreadable => {
                StepError::Unavailable { reason: self.detail.clone(), retry_after: None }
            }
            ProbeError::Key | ProbeError::Payment | ProbeError::Refused | ProbeError::Empty => {
                let refused = match self.kind {
                    ProbeError::Key => RefusedPart::Key,
                    ProbeError::Payment => RefusedPart::Payment,
                    _ => RefusedPart::Request,
                };
                StepError::Rejected { refused, status: None, reason: self.detail.clone() }
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
    pub(crate) last: Option<Result<(), DiscoveryFailure>>,
    since: Option<Timestamp>,
    failures: [u64; ProbeError::ALL.len()],
}

impl Probe {
    /// Records an outcome. Returns true when it differs from the last one.
    pub(crate) fn record_outcome(&mut self, outcome: Result<(), DiscoveryFailure>, now: Timestamp) -> bool {
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

    pub(crate) fn error_kind(&self) -> Option<ProbeError> {
        self.last_failure().map(|failure| failure.kind)
    }

    fn last_failure(&self) -> Option<&DiscoveryFailure> {
        self.last.as_ref().and_then(|last| last.as_ref().err())
    }

    /// Returns the health of a vendor, whose calls were refused or not.
    pub(crate) fn vendor_health(
        &self,
        provider: ProviderName,
        base_url: String,
        models: usize,
        calls: &RefusedCalls,
    ) -> VendorHealth {
        let mut health = VendorHealth {
            provider,
            base_url,
            models,
            up: self.last.as_ref().map(Result::is_ok),
            since: self.since,
            trouble: self.error_kind(),
            detail: self.last_failure().map(|failure| failure.detail.clone()),
            failures: self.failures,
        };
        for (count, refused) in health.failures.iter_mut().zip(calls.counts) {
            *count += refused;
        }
        // Many servers list their models with any key.
        if let (None, Some((failure, since))) = (health.trouble, &calls.last) {
            health.up = Some(false);
            health.since = Some(*since);
            health.trouble = Some(failure.kind);
            health.detail = Some(failure.detail.clone());
        }
        health
    }
}

/// The calls of a vendor that were refused for the key or for money.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RefusedCalls {
    /// The refusal since which no call has succeeded, and the time of the first one of its kind.
    last: Option<(DiscoveryFailure, Timestamp)>,
    counts: [u64; ProbeError::ALL.len()],
}

impl RefusedCalls {
    /// Records a call that failed. Returns true if it is the first one that was refused for its reason.
    pub(crate) fn record_failure(&mut self, error: &StepError, now: Timestamp) -> bool {
        let StepError::Rejected { refused: RefusedPart::Key | RefusedPart::Payment, .. } = error else {
            return false;
        };
        let failure = DiscoveryFailure::from_error(error, true);
        if let Some(at) = ProbeError::ALL.iter().position(|kind| *kind == failure.kind) {
            self.counts[at] += 1;
        }
        match &mut self.last {
            Some((last, _)) if last.kind == failure.kind => {
                last.detail = failure.detail;
                false
            }
            last => {
                *last = Some((failure, now));
                true
            }
        }
    }

    /// Records a call that succeeded. Returns true if the calls before it were refused.
    pub(crate) fn record_success(&mut self) -> bool {
        self.last.take().is_some()
    }
}
