//! Times on pages: in UTC, which the script translates to the visitor's own time zone.

use domain::time::Timestamp;

use crate::language::PageLanguage;
use crate::texts::Texts;

/// The length of a day in UTC.
const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;

/// A time as a page shows it.
pub(crate) struct ShownTime {
    /// ISO 8601.
    pub(crate) iso: String,
    /// In the visitor's language.
    pub(crate) text: String,
    /// True for a day, which is the same in every time zone.
    pub(crate) is_day: bool,
}

impl ShownTime {
    /// Returns a time of a day.
    pub(crate) fn from_time(texts: Texts, at: Timestamp) -> Self {
        let format = match texts.0 {
            PageLanguage::English => "%-d %b %Y, %H:%M UTC",
            PageLanguage::Czech | PageLanguage::Slovak => "%-d. %-m. %Y %-H:%M UTC",
        };
        Self::with_format(at, format, false)
    }

    pub(crate) fn from_day(texts: Texts, at: Timestamp) -> Self {
        let format = match texts.0 {
            PageLanguage::English => "%-d %b %Y",
            PageLanguage::Czech | PageLanguage::Slovak => "%-d. %-m. %Y",
        };
        Self::with_format(at, format, true)
    }

    /// Returns the last day before an end.
    pub(crate) fn last_day(texts: Texts, end: Timestamp) -> Self {
        Self::from_day(texts, Timestamp::from_micros(end.micros().saturating_sub(1)))
    }

    /// Returns an end as it was given: the last day before it if that is whole, and otherwise the time.
    pub(crate) fn from_end(texts: Texts, end: Timestamp) -> Self {
        let is_whole = end.micros().rem_euclid(DAY_MICROS) == 0;
        if is_whole { Self::last_day(texts, end) } else { Self::from_time(texts, end) }
    }

    fn with_format(at: Timestamp, format: &str, is_day: bool) -> Self {
        let iso = at.to_string();
        let text = jiff::Timestamp::from_microsecond(at.micros())
            .map_or_else(|_| iso.clone(), |at| at.strftime(format).to_string());
        Self { iso, text, is_day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_time_follows_language() {
        let at = Timestamp::from_micros(1_795_422_600_000_000);
        let time = |language| ShownTime::from_time(Texts(language), at).text;
        assert_eq!(time(PageLanguage::English), "23 Nov 2026, 08:30 UTC");
        assert_eq!(time(PageLanguage::Czech), "23. 11. 2026 8:30 UTC");
        assert_eq!(ShownTime::from_day(Texts(PageLanguage::Slovak), at).text, "23. 11. 2026");
        let midnight = Timestamp::from_micros(1_795_392_000_000_000);
        assert_eq!(ShownTime::last_day(Texts(PageLanguage::Czech), midnight).text, "22. 11. 2026");
        assert_eq!(ShownTime::from_end(Texts(PageLanguage::Czech), midnight).text, "22. 11. 2026");
        assert_eq!(ShownTime::from_end(Texts(PageLanguage::Czech), at).text, "23. 11. 2026 8:30 UTC");
        assert_eq!(ShownTime::from_day(Texts(PageLanguage::English), at).iso, "2026-11-23T08:30:00.000Z");
    }
}
