//! Sizes of files as people read them.

use crate::language::PageLanguage;
use crate::texts::Texts;

const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

/// Returns a size with one decimal at most, in powers of 1,000 as file managers show them.
pub(crate) fn shown_size(texts: Texts, bytes: u64) -> String {
    // Tenths, so that no floating point number is needed.
    let (mut tenths, mut unit) = (u128::from(bytes) * 10, 0);
    while tenths >= 9_995 && unit + 1 < UNITS.len() {
        tenths = (tenths + 500) / 1_000;
        unit += 1;
    }
    let point = if texts.0 == PageLanguage::English { '.' } else { ',' };
    let (whole, tenth) = (tenths / 10, tenths % 10);
    let number =
        if tenth == 0 || whole >= 100 { whole.to_string() } else { format!("{whole}{point}{tenth}") };
    format!("{number}\u{a0}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_size_picks_short_unit() {
        let shown = |bytes| shown_size(Texts(PageLanguage::English), bytes).replace('\u{a0}', " ");
        assert_eq!([0, 999, 1_000, 1_550].map(shown), ["0 B", "999 B", "1 kB", "1.6 kB"]);
        assert_eq!([999_999, 123_456_789].map(shown), ["1 MB", "123 MB"]);
        assert!(shown(u64::MAX).ends_with(" TB"));
        assert_eq!(shown_size(Texts(PageLanguage::Czech), 2_500_000), "2,5\u{a0}MB");
    }
}
