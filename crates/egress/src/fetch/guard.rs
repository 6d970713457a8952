//! Restricts the network addresses that pages may be fetched from, and the DNS lookup that returns no others.
//!
//! The connection itself resolves the host's name, through [`Resolver`], and connects to the address that was
//! checked. So a name cannot resolve to one address when it is checked and to another when it is used (DNS
//! rebinding).

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::hosts::{PrivateHost, is_named, may_ask};
use crate::WebUrl;

/// The maximum number of addresses tried per name.
const ADDRESSES_MAX: usize = 8;
/// Suffixes of names that are meaningful only in private networks.
const PRIVATE_ENDINGS: [&str; 7] =
    [".localhost", ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".onion"];

/// The host must not be fetched from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Guarded;

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host is not public")
    }
}

impl std::error::Error for Guarded {}

impl WebUrl {
    /// Returns true if the host is public, as far as this can be decided without a DNS lookup.
    #[must_use]
    pub fn is_public(&self) -> bool {
        check_url(self, &[]).is_ok()
    }
}

/// Checks a URL, as far as this is possible before its host is resolved.
pub(super) fn check_url(url: &WebUrl, hosts: &[PrivateHost]) -> Result<(), Guarded> {
    let host = url.host();
    let port = url.as_url().port_or_known_default().ok_or(Guarded)?;
    if !may_ask(hosts, host, port) {
        return Err(Guarded);
    }
    if is_named(hosts, host) {
        return Ok(());
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let public = match bare.parse::<IpAddr>() {
        Ok(address) => is_public(address),
        Err(_) => host.contains('.') && !PRIVATE_ENDINGS.iter().any(|ending| host.ends_with(ending)),
    };
    if public { Ok(()) } else { Err(Guarded) }
}

/// Returns true if an address belongs to the public network: not loopback, private, multicast, documentation or
/// reserved, and no translation of another address.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let private = match address.octets() {
        // This network, loopback, link-local and private addresses.
        [0 | 10 | 127, ..] | [169, 254, ..] | [172, 16..=31, ..] | [192, 168, ..] => true,
        // Carrier-grade NAT.
        [100, 64..=127, ..] => true,
        // Protocol assignments, documentation, 6to4 relays, benchmarking.
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            true
        }
        // Multicast and reserved.
        [224..=255, ..] => true,
        _ => false,
    };
    !private
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Protocol assignments (including Teredo, which embeds IPv4 addresses), documentation, and 6to4, which
        // embeds them as well.
        [0x2001, 0..=0x01FF, ..] | [0x2001, 0x0DB8, ..] | [0x2002, ..] | [0x3FFF, 0..=0x0FFF, ..] => false,
        // All public addresses are in this range; outside are loopback, mapped and translated IPv4, private,
        // link-local and multicast addresses.
        [0x2000..=0x3FFF, ..] => true,
        _ => false,
    }
}

pub(super) type DnsLookup =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> + Send + Sync>;

/// Returns the lookup of the operating system.
pub(super) fn system_lookup() -> DnsLookup {
    Arc::new(|name| {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    })
}

/// Resolves names for connections, and returns only public addresses.
pub(super) struct Resolver {
    pub(super) hosts: Arc<[PrivateHost]>,
    pub(super) look_up: DnsLookup,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let named = is_named(&self.hosts, &name);
        let found = (self.look_up)(name);
        Box::pin(async move {
            let mut addresses = found.await?;
            addresses.retain(|address| named || is_public(*address));
            addresses.truncate(ADDRESSES_MAX);
            if addresses.is_empty() {
                return Err(Guarded.into());
            }
            // The connection sets the port.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for private in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().expect("an address")), "{private}");
        }
        for public in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.1.1.1",
            "128.0.0.1",
            "169.253.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.0.1",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00::1",
            "2003::1",
        ] {
            assert!(is_public(public.parse().expect("an address")), "{public}");
        }
    }

    /// Spellings of hosts that are not public.
    const PRIVATE: &[&str] = &[
        // Decimal, octal, hexadecimal, with fewer parts.
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7F.1",
        "127.1",
        "127.0.1",
        "0177.0.0.1",
        "0",
        "0x0",
        "0.0",
        "3232235777",
        "0300.0250.1.1",
        "0xc0.0xa8.1.1",
        "192.168.257",
        "2852039166",
        "0251.254.169.254",
        "10.1",
        "00000000000000000000177.0.0.1",
        "127.0.0.1.",
        "0x7f.1.",
        // Letters that become others.
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "\u{2460}\u{2461}\u{2466}.0.0.1",
        "\u{24db}\u{24de}\u{24d2}\u{24d0}\u{24db}\u{24d7}\u{24de}\u{24e2}\u{24e3}",
        "%6cocalhost",
        "%31%32%37.0.0.1",
        "localhost%2e",
        "LOCALHOST",
        // The root's dot, and more of them.
        "localhost.",
        "localhost..",
        "localhost...",
        "wiki.internal..",
        "printer..",
        ".localhost",
        "a..internal",
        // IPv6 that embeds IPv4, or is unassigned.
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:a9fe:a9fe]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2002:c0a8:101::1]",
        "[2001:0:7f00:1::]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[4000::1]",
        "[5f00::1]",
        // Names that mean something inside alone.
        "metadata.google.internal",
        "instance-data.ec2.internal",
        "kubernetes.default.svc.cluster.local",
        "router.lan",
        "nas.home.arpa",
        "x.onion",
        "intranet",
        // Others of the tables.
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
    ];

    #[test]
    fn check_url_rejects_private_host_spellings() {
        for host in PRIVATE {
            for scheme in ["http", "https"] {
                let text = format!("{scheme}://{host}/");
                let passes = WebUrl::parse(&text).is_some_and(|url| check_url(&url, &[]).is_ok());
                assert!(!passes, "{text}");
            }
        }
        for text in [
            "http://example.org@127.0.0.1/",
            "http://example.org:80@127.0.0.1/",
            "http://127.0.0.1#@example.org/",
            "http://127.0.0.1?@example.org/",
            "http://127.0.0.1\\@example.org/",
            "http:127.0.0.1/",
            "http:\\\\127.0.0.1\\",
            "http:///127.0.0.1/",
            "http://127.0.0.1:80\u{200b}/",
            "http://[fe80::1%25lo]/",
            "http://[::1]:443/",
            "http://[v1.x]/",
            "http://example.org:0/",
            "http://example.org:65536/",
        ] {
            let passes = WebUrl::parse(text).is_some_and(|url| check_url(&url, &[]).is_ok());
            assert!(!passes, "{text}");
        }
    }

    #[test]
    fn check_url_recognizes_private_hosts() {
        let hosts: Vec<PrivateHost> = vec!["wiki.internal:8080".parse().expect("a host")];
        let of = |url: &str| check_url(&WebUrl::parse(url).expect("an address"), &hosts);
        for url in [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://printer/",
            "http://printer.local/",
            "http://metadata.google.internal/",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://[64:ff9b::a00:1]/",
            "http://169.254.169.254/latest/meta-data/",
            "http://example.org:22/",
            "http://example.org:8080/",
            "https://wiki.internal/",
            "http://a.wiki.internal:8080/",
        ] {
            assert_eq!(of(url), Err(Guarded), "{url}");
        }
        for url in [
            "http://example.org/",
            "https://example.org/",
            "http://example.org:443/",
            "http://1.1.1.1/",
            "http://[2606:4700::1111]/",
            "http://wiki.internal:8080/",
        ] {
            assert_eq!(of(url), Ok(()), "{url}");
        }
    }
}
