//! The chart of credits per day: bars in SVG without scripts or inline styles.

use domain::time::Timestamp;

use crate::shown_time::ShownTime;
use crate::texts::Texts;

/// The days of the chart, unless others are chosen, and those to choose from.
pub(crate) const DAYS: u32 = 30;
pub(crate) const SPANS_DAYS: [u32; 3] = [7, DAYS, 90];
const DAY_MICROS: i64 = 86_400_000_000;
/// The size of the chart in its own units: the place of a bar, the bar, the highest bar.
const PLACE_WIDTH: u32 = 20;
const BAR_WIDTH: u32 = 12;
const HEIGHT: u64 = 120;

/// A bar of the chart.
pub(crate) struct Bar {
    pub(crate) x: u32,
    pub(crate) y: u64,
    pub(crate) height: u64,
    /// The day and its credits in words.
    pub(crate) title: String,
}

pub(crate) struct UsageChart {
    pub(crate) bars: Vec<Bar>,
    pub(crate) width: u32,
    pub(crate) height: u64,
    pub(crate) bar_width: u32,
    /// The credits of the highest bar.
    pub(crate) most: String,
    pub(crate) first: ShownTime,
    pub(crate) last: ShownTime,
}

/// Returns a time on the first of this number of days up to now.
pub(crate) fn chart_begin(now: Timestamp, days: u32) -> Timestamp {
    let span = i64::from(days.saturating_sub(1)).saturating_mul(DAY_MICROS);
    Timestamp::from_micros(now.micros().saturating_sub(span))
}

impl UsageChart {
    /// Draws this number of days up to today. `spent` has the beginnings of days with their credits.
    pub(crate) fn from_days(texts: Texts, now: Timestamp, days: u32, spent: &[(Timestamp, u64)]) -> Self {
        let today = now.micros().div_euclid(DAY_MICROS);
        let day = |back: u32| Timestamp::from_micros((today - i64::from(back)).saturating_mul(DAY_MICROS));
        let credits =
            |day: Timestamp| spent.iter().find(|(at, _)| *at == day).map_or(0, |(_, credits)| *credits);
        let most = (0..days).map(|back| credits(day(back))).max().unwrap_or(0);
        let bar = |place: u32| {
            let day = day(days - 1 - place);
            let credits = credits(day);
            // A day on which something was spent is seen.
            let height = (credits.saturating_mul(HEIGHT) / most.max(1)).max(u64::from(credits > 0) * 2);
            let amount = texts.with("credits-amount", "amount", texts.number_text(credits));
            Bar {
                x: place * PLACE_WIDTH + (PLACE_WIDTH - BAR_WIDTH) / 2,
                y: HEIGHT - height,
                height,
                title: format!("{}: {amount}", ShownTime::from_day(texts, day).text),
            }
        };
        Self {
            bars: (0..days).map(bar).collect(),
            width: days * PLACE_WIDTH,
            height: HEIGHT,
            bar_width: BAR_WIDTH,
            most: texts.number_text(most),
            first: ShownTime::from_day(texts, day(days - 1)),
            last: ShownTime::from_day(texts, day(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::PageLanguage;

    #[test]
    fn usage_chart_scales_to_highest_day() {
        let now = Timestamp::from_micros(1_795_422_600_000_000);
        let today = Timestamp::from_micros(now.micros() / DAY_MICROS * DAY_MICROS);
        let before = Timestamp::from_micros(today.micros() - 29 * DAY_MICROS);
        let older = Timestamp::from_micros(today.micros() - 30 * DAY_MICROS);
        let chart = UsageChart::from_days(
            Texts(PageLanguage::English),
            now,
            DAYS,
            &[(today, 10_000), (before, 1), (older, 99_999)],
        );
        let heights: Vec<_> = chart.bars.iter().map(|bar| (bar.y, bar.height)).collect();
        assert_eq!((heights.len(), heights[0], heights[1], heights[29]), (30, (118, 2), (120, 0), (0, 120)));
        assert_eq!(
            (chart.most.as_str(), chart.bars[29].title.as_str()),
            ("10,000", "23 Nov 2026: 10,000 credits")
        );
        assert_eq!((chart.first.text.as_str(), chart.last.text.as_str()), ("25 Oct 2026", "23 Nov 2026"));
    }
}
