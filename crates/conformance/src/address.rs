//! The address of the service.

use std::fmt;

/// The address of a service, displayed as `host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAddress {
    authority: String,
    prefix: String,
    tls: bool,
}

impl ServiceAddress {
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
            return Err(format!("{url:?} is not a base URL: give only scheme, host, port and path"));
        }
        Ok(Self { authority: authority.to_owned(), prefix: prefix.to_owned(), tls })
    }

    /// Returns the path before every target.
    #[must_use]
    pub fn path_prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns `true` for TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns the host name, as in certificates.
    #[must_use]
    pub fn host_name(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.authority,
        };
        host.trim_start_matches('[').trim_end_matches(']')
    }

    #[must_use]
    pub fn port_number(&self) -> u16 {
        let named = self.authority.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        named.unwrap_or(if self.tls { 443 } else { 80 })
    }
}

impl fmt::Display for ServiceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.authority)
    }
}

/// Parses `host:port` for plain HTTP.
impl From<&str> for ServiceAddress {
    fn from(authority: &str) -> Self {
        Self { authority: authority.to_owned(), prefix: String::new(), tls: false }
    }
}

impl From<&String> for ServiceAddress {
    fn from(authority: &String) -> Self {
        authority.as_str().into()
    }
}

impl From<&Self> for ServiceAddress {
    fn from(address: &Self) -> Self {
        address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_taken_apart() {
        let plain = ServiceAddress::from_base_url("http://127.0.0.1:8080/").expect("an address");
        assert_eq!(
            (plain.host_name(), plain.port_number(), plain.path_prefix(), plain.is_tls()),
            ("127.0.0.1", 8080, "", false)
        );
        let deep = ServiceAddress::from_base_url("https://example.test/agent/").expect("an address");
        assert_eq!(
            (deep.host_name(), deep.port_number(), deep.path_prefix(), deep.is_tls()),
            ("example.test", 443, "/agent", true)
        );
        let six = ServiceAddress::from_base_url("http://[::1]:81").expect("an address");
        assert_eq!((six.host_name(), six.port_number(), six.to_string().as_str()), ("::1", 81, "[::1]:81"));
        for wrong in ["example.test", "ftp://x", "http://", "http://key@host", "http://host/?key=1"] {
            assert!(ServiceAddress::from_base_url(wrong).is_err(), "{wrong}");
        }
    }
}
