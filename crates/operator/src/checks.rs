//! Outcomes of the checks of `doctor`.

use control::{Check, CheckStatus};

pub fn passing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Pass, reason.to_string())
}

pub fn warning_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Warn, reason.to_string())
}

pub fn failing_check(name: &str, reason: impl std::fmt::Display) -> Check {
    Check::new(name, CheckStatus::Fail, reason.to_string())
}
