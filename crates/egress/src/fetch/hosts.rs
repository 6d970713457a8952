//! The hosts that the operator allows to be fetched from although they are private or use unusual ports.

use std::fmt;
use std::str::FromStr;

use reqwest::Url;

/// The allowed ports, unless the operator named the host.
const PORTS: [u16; 2] = [80, 443];
/// The maximum number of private hosts.
pub const PRIVATE_HOSTS_MAX: usize = 100;

/// A host in the operator's own network: `intranet.example`, `10.0.0.5:8080`, `[fd00::1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateHost {
    host: String,
    port: Option<u16>,
}

/// The text is not a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host such as \"intranet.example\" or \"10.0.0.5:8080\"")]
pub struct InvalidHost(pub String);

impl FromStr for PrivateHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let wrong = || InvalidHost(text.to_owned());
        let text = text.trim();
        // `Url` normalizes host and port as in other URLs; it omits the port 443.
        let url = Url::parse(&format!("https://{text}/")).map_err(|_| wrong())?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        if !bare
            || text.contains('*')
            || !url.username().is_empty()
            || url.password().is_some()
            || text.ends_with(['/', ':'])
        {
            return Err(wrong());
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(wrong)?.to_owned();
        let port = url.port().or(text.ends_with(":443").then_some(443));
        Ok(Self { host, port })
    }
}

impl fmt::Display for PrivateHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Returns true if the operator named this host.
pub(super) fn is_named(hosts: &[PrivateHost], host: &str) -> bool {
    hosts.iter().any(|named| named.host == host)
}

/// Returns true if this port of the host is allowed: the usual ones, or those configured for a named host.
pub(super) fn may_ask(hosts: &[PrivateHost], host: &str, port: u16) -> bool {
    let mut named = hosts.iter().filter(|named| named.host == host).peekable();
    if named.peek().is_none() {
        return PORTS.contains(&port);
    }
    named.any(|named| named.port.map_or(PORTS.contains(&port), |only| only == port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_hosts(texts: &[&str]) -> Vec<PrivateHost> {
        texts.iter().map(|text| text.parse().expect("a host")).collect()
    }

    #[test]
    fn private_host_parses_with_optional_port() {
        for (text, shown) in [
            ("Intranet.Example", "intranet.example"),
            (" 10.0.0.5:8080", "10.0.0.5:8080"),
            ("[fd00::1]", "[fd00::1]"),
            ("wiki:443", "wiki:443"),
            ("wiki:80", "wiki:80"),
        ] {
            assert_eq!(text.parse::<PrivateHost>().map(|host| host.to_string()).as_deref(), Ok(shown));
        }
        for text in ["", "http://wiki", "wiki/a", "wiki:", "a b", "u@wiki", "wiki:99999", "wiki?", "*"] {
            assert!(text.parse::<PrivateHost>().is_err(), "{text}");
        }
    }

    #[test]
    fn may_ask_permits_named_ports() {
        let hosts = private_hosts(&["wiki:8080", "files"]);
        assert!(may_ask(&hosts, "wiki", 8080) && !may_ask(&hosts, "wiki", 80));
        assert!(may_ask(&hosts, "files", 443) && !may_ask(&hosts, "files", 8080));
        assert!(may_ask(&hosts, "example.org", 80) && !may_ask(&hosts, "example.org", 8080));
        assert!(!may_ask(&[], "example.org", 22));
        assert!(is_named(&hosts, "wiki") && !is_named(&hosts, "a.wiki"));
    }
}
