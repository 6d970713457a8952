//! Text of the service on a terminal, which hostile text must not command.

/// Makes text safe for a terminal: replaces control characters except line feed and tab, and characters that
/// change the writing direction.
pub(crate) fn neutralize_controls(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '\r')
        .map(|c| if is_terminal_command(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

/// Makes text safe for a terminal, on one line.
pub(crate) fn one_line(text: &str) -> String {
    neutralize_controls(text).chars().map(|c| if c == '\n' || c == '\t' { ' ' } else { c }).collect()
}

/// Returns true if a terminal may take the character for a command.
pub(crate) fn is_terminal_command(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Formats a number of bytes for people: `512 B`, `1.5 MiB`.
pub(crate) fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the unit, rounded.
    let (mut tenths, mut unit) = (bytes.saturating_mul(10) / 1024, 0);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_572_864, "1.5 MiB"),
            (u64::MAX, "1677721.5 TiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
