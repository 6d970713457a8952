//! Booleans of queries and forms.

/// Parses a boolean as programs write it: `true`, `True`, `1`, `false`, `False`, `0`, or an empty text for
/// false. Returns `None` for anything else.
#[must_use]
pub fn parse_boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" | "" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse_boolean;

    #[test]
    fn parse_boolean_accepts_common_spellings() {
        assert!(["true", "True", "TRUE", " 1 "].into_iter().all(|text| parse_boolean(text) == Some(true)));
        assert!(["false", "False", "0", ""].into_iter().all(|text| parse_boolean(text) == Some(false)));
        assert!(["yes", "2", "truefalse", "tru"].into_iter().all(|text| parse_boolean(text).is_none()));
    }
}
