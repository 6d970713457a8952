//! Secrets as header values.

use domain::secret::Secret;
use reqwest::header::HeaderValue;

/// Returns the header value of `before` followed by the secret; `None` if it contains invalid characters.
pub(crate) fn header_value(before: &str, secret: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{before}{}", secret.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_value_hides_or_rejects_secret() {
        let value = header_value("Bearer ", &Secret::new("a-very-secret-token")).expect("it fits");
        assert!(!format!("{value:?}").contains("secret-token"));
        assert!(header_value("", &Secret::new("a\nb")).is_none());
    }
}
