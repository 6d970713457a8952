//! Times on pages: in UTC, which the script translates to the visitor's own time zone.

use domain::time::Timestamp;

use crate::language::Language;
use crate::texts::Texts;

/// A time as a page shows it.
pub(crate) struct ShownTime {
    /// ISO 8601.
    pub(crate) iso: String,
    /// In the visitor's language.
    pub(crate) text: String,
}

impl ShownTime {
    /// Returns a time of a day.
    pub(crate) fn time(texts: Texts, at: Timestamp) -> Self {
        Self::of(
            at,
            match texts.0 {
                Language::English => "%-d %b %Y, %H:%M UTC",
                Language::Czech | Language::Slovak => "%-d. %-m. %Y %-H:%M UTC",
            },
        )
    }

    /// Returns a day.
    pub(crate) fn day(texts: Texts, at: Timestamp) -> Self {
        Self::of(
            at,
            match texts.0 {
                Language::English => "%-d %b %Y",
                Language::Czech | Language::Slovak => "%-d. %-m. %Y",
            },
        )
    }

    /// Returns the last day before an end.
    pub(crate) fn last_day(texts: Texts, end: Timestamp) -> Self {
        Self::day(texts, Timestamp::from_micros(end.micros().saturating_sub(1)))
    }

    fn of(at: Timestamp, format: &str) -> Self {
        let iso = at.to_string();
        let text = jiff::Timestamp::from_microsecond(at.micros())
            .map_or_else(|_| iso.clone(), |at| at.strftime(format).to_string());
        Self { iso, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_in_its_language() {
        let at = Timestamp::from_micros(1_795_422_600_000_000);
        let time = |language| ShownTime::time(Texts(language), at).text;
        assert_eq!(time(Language::English), "23 Nov 2026, 08:30 UTC");
        assert_eq!(time(Language::Czech), "23. 11. 2026 8:30 UTC");
        assert_eq!(ShownTime::day(Texts(Language::Slovak), at).text, "23. 11. 2026");
        let midnight = Timestamp::from_micros(1_795_392_000_000_000);
        assert_eq!(ShownTime::last_day(Texts(Language::Czech), midnight).text, "22. 11. 2026");
        assert_eq!(ShownTime::day(Texts(Language::English), at).iso, "2026-11-23T08:30:00.000Z");
    }
}
