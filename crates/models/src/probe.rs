//! How vendors fare: what asking each for its models came to, and why it told none.

use std::fmt;

use domain::catalog::ProviderName;
use domain::step::StepError;
use domain::time::Timestamp;

/// Why a vendor told no models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProbeError {
    /// Nothing answers there, or not in time.
    Unreachable,
    /// It wants another key, or one at all.
    Key,
    /// It answers, and gives no list.
    Refused,
    /// What it gives is no list.
    Unreadable,
    /// It has no models.
    Empty,
}

impl ProbeError {
    /// Every one.
    pub const ALL: [Self; 5] = [Self::Unreachable, Self::Key, Self::Refused, Self::Unreadable, Self::Empty];

    /// One word for it.
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

/// In words that say nothing of the operator's network or keys.
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

/// How a vendor fares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorHealth {
    /// Which one.
    pub provider: ProviderName,
    /// Where its server is. No key stands in it.
    pub base_url: String,
    /// How many models it told when it last did.
    pub models: usize,
    /// Whether it told its models when it was last asked; `None` when no answer has come yet.
    pub up: Option<bool>,
    /// Since when it is so.
    pub since: Option<Timestamp>,
    /// Why it told none.
    pub trouble: Option<ProbeError>,
    /// The same in its server's words, for operators.
    pub detail: Option<String>,
    /// How often asking came to each of [`TxError::ALL`].
    pub failures: [u64; ProbeError::ALL.len()],
}

impl VendorHealth {
    /// Why the vendor cannot be counted on, for operators: vendor, address and cause on one line. `None` when it can.
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

/// Why a vendor told no models: for programs, and in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) trouble: ProbeError,
    pub(crate) detail: String,
}

impl Failure {
    /// What the server's error means. `keyed` says whether it was sent a key.
    pub(crate) fn of(error: &StepError, keyed: bool) -> Self {
        let (trouble, detail) = match error {
            StepError::Rejected { reason } if is_about_key(reason) => {
                let said =
                    if keyed { "the key is refused" } else { "a key is wanted, and none is configured" };
                return Self { trouble: ProbeError::Key, detail: format!("{said} ({reason})") };
            }
            StepError::Rejected { reason } => (ProbeError::Refused, reason.clone()),
            StepError::Unavailable { reason, .. } => (ProbeError::Unreachable, reason.clone()),
            StepError::TooLong => (ProbeError::Refused, error.to_string()),
        };
        Self { trouble, detail }
    }

    pub(crate) fn unreadable(detail: &str) -> Self {
        Self { trouble: ProbeError::Unreadable, detail: detail.to_owned() }
    }

    pub(crate) fn empty() -> Self {
        Self { trouble: ProbeError::Empty, detail: "it has no models".to_owned() }
    }

    pub(crate) fn error(&self) -> StepError {
        match self.trouble {
            ProbeError::Unreachable | ProbeError::Unreadable => {
                StepError::Unavailable { reason: self.detail.clone(), retry_after: None }
            }
            ProbeError::Key | ProbeError::Refused | ProbeError::Empty => {
                StepError::Rejected { reason: self.detail.clone() }
            }
        }
    }
}

/// Whether a refusal is for the key: by its status, and where that tells something else by its words.
fn is_about_key(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    let named = ["api key", "api_key", "x-api-key"].iter().any(|name| reason.contains(name));
    reason.starts_with("401") || reason.starts_with("403") || (reason.starts_with("400") && named)
}

/// What a vendor is known by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Probe {
    /// What it came to last.
    pub(crate) last: Option<Result<(), Failure>>,
    since: Option<Timestamp>,
    failures: [u64; ProbeError::ALL.len()],
}

impl Probe {
    /// Takes note of what asking came to; whether that is another thing than before.
    pub(crate) fn record(&mut self, came: Result<(), Failure>, now: Timestamp) -> bool {
        if let Err(failure) = &came
            && let Some(at) = ProbeError::ALL.iter().position(|trouble| *trouble == failure.trouble)
        {
            self.failures[at] += 1;
        }
        let changed = self.last.as_ref() != Some(&came);
        if self.last.as_ref().map(Result::is_ok) != Some(came.is_ok()) {
            self.since = Some(now);
        }
        self.last = Some(came);
        changed
    }

    pub(crate) fn error(&self) -> Option<ProbeError> {
        self.failure().map(|failure| failure.trouble)
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
