//! Parses the header `Retry-After` of other servers.

use std::time::{Duration, SystemTime};

/// The longest accepted wait.
pub const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

/// Parses seconds, with or without a fraction, or a date; caps at an hour. `None` for anything else.
#[must_use]
pub fn parse_retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = parse_seconds(value).or_else(|| {
        let at = httpdate::parse_http_date(value).ok()?;
        Some(at.duration_since(now).unwrap_or_default())
    })?;
    Some(wait.min(RETRY_AFTER_MAX))
}

/// Parses seconds, with or without a fraction; caps at an hour.
#[must_use]
pub fn parse_seconds(text: &str) -> Option<Duration> {
    let wait = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_retry_after_is_bounded() {
        let wait =
            |value: &str| parse_retry_after(value, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770));
        assert_eq!(wait(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(wait("Tue, 06 Nov 1984 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("99999999999"), Some(RETRY_AFTER_MAX));
        for nonsense in ["", "-1", "soon", "NaN", "inf"] {
            assert_eq!(wait(nonsense), None, "{nonsense}");
        }
    }
}
