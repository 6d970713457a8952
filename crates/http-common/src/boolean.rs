//! Booleans of queries and forms.

/// Parses a boolean as programs write it: `true`, `True`, `1`, `false`, `False`, `0`, or nothing for false. Returns `None` for
/// anything else.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" | "" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::boolean;

    #[test]
    fn booleans_are_read_as_programs_write_them() {
        assert!(["true", "True", "TRUE", " 1 "].into_iter().all(|text| boolean(text) == Some(true)));
        assert!(["false", "False", "0", ""].into_iter().all(|text| boolean(text) == Some(false)));
        assert!(["yes", "2", "truefalse", "tru"].into_iter().all(|text| boolean(text).is_none()));
    }
}
