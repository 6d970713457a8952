//! Times as operators give them.

use crate::error::CliError;

/// The last supported day: its end must have a year of four digits in every time zone.
const LAST_DAY: &str = "9999-12-29";

/// Parses a time, or the end of a day in UTC, as microseconds since 1970; `None` for `none`.
pub(crate) fn parse_end_time(text: &str) -> Result<Option<i64>, CliError> {
    let wrong = |what: &str| CliError::new("INVALID_DATE", format!("{text:?} is {what}"));
    if text == "none" {
        return Ok(None);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(Some(time.as_microsecond()));
    }
    let day = parse_day(text)
        .ok_or_else(|| wrong("not a date: use a day such as 2027-12-31, or a time with its zone"))?;
    let end = day.tomorrow().and_then(|next| next.to_zoned(jiff::tz::TimeZone::UTC));
    let end = end.map_err(|_| wrong(&format!("too late: the last day is {LAST_DAY}")))?;
    Ok(Some(end.timestamp().as_microsecond()))
}

/// Parses a day. Rejects a time without a zone, although its day could be read.
fn parse_day(text: &str) -> Option<jiff::civil::Date> {
    text.parse().ok().filter(|_| !text.contains([':', 'T', 't', ' ']))
}

/// Parses a time, or the beginning of a day in UTC, as microseconds since 1970.
pub(crate) fn parse_start_time(text: &str) -> Result<i64, CliError> {
    let day = parse_day(text).and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    let time = text.parse::<jiff::Timestamp>().ok().or_else(|| day.map(|day| day.timestamp()));
    let wrong = || {
        CliError::new(
            "INVALID_DATE",
            format!("{text:?} is not a date: use a day such as 2027-12-31, or a time with its zone"),
        )
    };
    time.map(jiff::Timestamp::as_microsecond).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_until_includes_last_day() {
        assert!(parse_end_time(LAST_DAY).is_ok());
        for late in ["9999-12-30", "9999-12-31"] {
            let refused = parse_end_time(late).expect_err("refused");
            assert!(refused.message.contains("too late") && refused.message.contains(LAST_DAY), "{refused}");
        }
        assert_eq!(parse_end_time("1970-01-01"), Ok(Some(24 * 3600 * 1_000_000)));
        assert_eq!(parse_end_time("1970-01-01T00:00:01Z"), Ok(Some(1_000_000)));
        assert_eq!(parse_end_time("none"), Ok(None));
        for wrong in ["tomorrow", "2027-12-31T10:00:00", "2027-12-31T10:00", "2027-12-31 10:00:00"] {
            let refused = parse_end_time(wrong).expect_err("refused");
            assert!(refused.message.contains("a time with its zone"), "{refused}");
            assert!(parse_start_time(wrong).is_err(), "{wrong}");
        }
    }
}
