//! The state of the licence as pages show it.

use domain::time::Timestamp;

use crate::shown_time::ShownTime;
use crate::texts::Texts;

const DAY_SECONDS: u64 = 24 * 3600;
/// The number of days before its end from which the licence is shown as ending.
const ENDING_DAYS: u64 = 30;

/// The licence of an account.
pub(crate) struct LicenceView {
    pub(crate) until: ShownTime,
    /// The remaining days, or a text that it has expired.
    pub(crate) left: String,
    /// True if it ends soon.
    pub(crate) is_ending: bool,
}

impl LicenceView {
    pub(crate) fn from_licence_end(texts: Texts, until: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let until = until?;
        let days = until.duration_since(now).as_secs() / DAY_SECONDS;
        let left =
            if until <= now { texts.get("licence-over") } else { texts.with("licence-days", "count", days) };
        Some(Self { until: ShownTime::last_day(texts, until), left, is_ending: days < ENDING_DAYS })
    }
}
