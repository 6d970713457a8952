//! The address of the service.

use std::fmt;

/// The address of a service, displayed as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    authority: String,
    prefix: String,
    tls: bool,
}

impl Address {
    /// Parses a base URL: `http://host:port` or `https://host`, optionally with a path before `/api/v1`.
    ///
    /// # Errors
    /// The reason why the URL is invalid.
    pub fn from_base_url(url: &str) -> Result<Self, String> {
        let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(format!("{url:?} begins neither with http:// nor with https://")),
        };
        let (authority, prefix) = match rest.find('/') {
            Some(at) => (&rest[..at], rest[at..].trim_end_matches('/')),
            None => (rest, ""),
        };
        if authority.is_empty()
            || authority.contains(['@', '?', '#', ' '])
            || prefix.contains(['?', '#', ' '])
        {
            return Err(format!("{url:?} is no base URL: scheme, host, port and path are all it may have"));
        }
        Ok(Self { authority: authority.to_owned(), prefix: prefix.to_owned(), tls })
    }

    /// Returns the path before every target.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns `true` for TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns the host name, as in certificates.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        let named = self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        named.unwrap_or(if self.tls { 443 } else { 80 })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// Parses `host:port` for plain HTTP.
impl From<&str> for Address {
    fn from(authority: &str) -> Self {
        Self { authority: authority.to_owned(), prefix: String::new(), tls: false }
    }
}

impl From<&String> for Address {
    fn from(authority: &String) -> Self {
        authority.as_str().into()
    }
}

impl From<&Self> for Address {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_apart() {
        let plain = Address::from_base_url("http://127.0.0.1:8080/").expect("an address");
        assert_eq!(
            (plain.host(), plain.port(), plain.prefix(), plain.is_tls()),
            ("127.0.0.1", 8080, "", false)
        );
        let deep = Address::from_base_url("https://example.test/agent/").expect("an address");
        assert_eq!(
            (deep.host(), deep.port(), deep.prefix(), deep.is_tls()),
            ("example.test", 443, "/agent", true)
        );
        let six = Address::from_base_url("http://[::1]:81").expect("an address");
        assert_eq!((six.host(), six.port(), six.to_string().as_str()), ("::1", 81, "[::1]:81"));
        for wrong in ["example.test", "ftp://x", "http://", "http://key@host", "http://host/?key=1"] {
            assert!(Address::from_base_url(wrong).is_err(), "{wrong}");
        }
    }
}
