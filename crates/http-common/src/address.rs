//! The client's address of a request: that of the connection, or the one reported by trusted proxies.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, header};
use ipnet::IpNet;

/// The header with the forwarding chain of proxies that do not use `Forwarded`.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The maximum number of addresses of a chain that are examined.
const HOPS_MAX: usize = 32;
/// The prefix that is assigned to one customer, whose addresses count as one.
const IPV6_PREFIX_BITS: u32 = 64;
/// The prefixes that a single customer may own as well.
pub const IPV6_WIDER_BITS: [u32; 2] = [56, 48];

/// The remote address of a request's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// A network: addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// The text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub struct InvalidNetwork(pub String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let trimmed = text.trim();
        let network = trimmed.parse::<IpNet>().or_else(|_| trimmed.parse::<IpAddr>().map(IpNet::from));
        network.map(Self).map_err(|_| InvalidNetwork(text.to_owned()))
    }
}

impl Network {
    /// Returns `true` if the network contains the address. IPv6 networks contain IPv4 addresses in their
    /// mapped form.
    pub(crate) fn contains_address(&self, address: IpAddr) -> bool {
        let mapped = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().into(),
            mapped @ IpAddr::V6(_) => mapped,
        };
        self.0.contains(&address.to_canonical()) || self.0.contains(&mapped)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the client's address for rate limits. Reads the forwarding headers from the nearest proxy on, as
/// long as the sender is in `trusted`; other entries can be forged and are ignored.
#[must_use]
pub fn client_address(peer: IpAddr, headers: &HeaderMap, trusted: &[Network]) -> IpAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|network| network.contains_address(address));
    let mut client = peer.to_canonical();
    if trusted.is_empty() || !trusts(client) {
        return client;
    }
    for forwarded in forwarded_for(headers).into_iter().rev().take(HOPS_MAX) {
        // An unreadable entry hides the ones before it.
        let Some(forwarded) = forwarded else { break };
        client = forwarded;
        if !trusts(client) {
            break;
        }
    }
    client
}

/// Normalizes an address for counting: an IPv6 address to its customer's prefix.
#[must_use]
pub fn normalize_for_counting(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => mask_prefix(address, IPV6_PREFIX_BITS).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Returns the networks around the address that a single customer may own, the smallest first: providers assign
/// from a /64 up to a /48. Empty for IPv4.
#[must_use]
pub fn wider_networks(address: IpAddr) -> Vec<(u32, IpAddr)> {
    match address.to_canonical() {
        IpAddr::V6(address) => IPV6_WIDER_BITS.map(|bits| (bits, mask_prefix(address, bits).into())).to_vec(),
        IpAddr::V4(_) => Vec::new(),
    }
}

fn mask_prefix(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    let host = (1_u128 << (128 - bits)) - 1;
    Ipv6Addr::from(u128::from(address) & !host)
}

/// Returns the entries of the forwarding headers, nearest last; `None` for an invalid address.
fn forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = |name: HeaderName| headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
    if headers.contains_key(X_FORWARDED_FOR) {
        return lines(X_FORWARDED_FOR).flat_map(|line| line.split(',')).map(read_address).collect();
    }
    lines(header::FORWARDED).flat_map(|line| line.split(',')).map(read_forwarded).collect()
}

/// Parses the `for` parameter of an element of a `Forwarded` header.
fn read_forwarded(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, forwarded) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    read_address(forwarded.trim().trim_matches('"'))
}

/// Parses an address with an optional port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn read_address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?,
        None if text.matches(':').count() == 1 => text.split(':').next()?,
        None => text,
    };
    bare.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_address_text(peer: &str, name: &'static str, value: &str, trusted: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in value.split('|').filter(|line| !line.is_empty()) {
            headers.append(name, line.parse().expect("a header"));
        }
        let trusted: Vec<Network> = trusted.iter().map(|text| text.parse().expect("a network")).collect();
        client_address(peer.parse().expect("an address"), &headers, &trusted).to_string()
    }

    #[test]
    fn nobody_is_believed_unless_trusted() {
        let forged = "198.51.100.1";
        assert_eq!(client_address_text("192.0.2.7", "x-forwarded-for", forged, &[]), "192.0.2.7");
        assert_eq!(client_address_text("192.0.2.7", "x-forwarded-for", forged, &["10.0.0.0/8"]), "192.0.2.7");
        assert_eq!(
            client_address_text("192.0.2.7", "forwarded", "for=198.51.100.1", &["10.0.0.0/8"]),
            "192.0.2.7"
        );
    }

    #[test]
    fn client_address_is_nearest_untrusted() {
        let trusted = &["10.0.0.0/8", "::1"];
        let x = |value| client_address_text("10.1.2.3", "x-forwarded-for", value, trusted);
        assert_eq!(x("203.0.113.9"), "203.0.113.9");
        assert_eq!(x("1.1.1.1, 203.0.113.9, 10.0.0.5"), "203.0.113.9", "earlier entries can be forged");
        assert_eq!(x("1.1.1.1|203.0.113.9:4711"), "203.0.113.9");
        assert_eq!(
            x("203.0.113.9, nonsense, 10.0.0.5"),
            "10.0.0.5",
            "entries before an invalid one are ignored"
        );
        assert_eq!(x(""), "10.1.2.3");
        assert_eq!(x("[2001:db8::7]:80"), "2001:db8::7");
        let forwarded = |value| client_address_text("::1", "forwarded", value, trusted);
        assert_eq!(
            forwarded("for=1.1.1.1, For=\"[2001:db8::7]:443\";proto=https;by=10.0.0.1"),
            "2001:db8::7"
        );
        assert_eq!(forwarded("for=_hidden"), "::1");
        assert_eq!(
            client_address_text("::ffff:10.1.2.3", "x-forwarded-for", "203.0.113.9", trusted),
            "203.0.113.9"
        );
    }

    #[test]
    fn network_contains_addresses_with_prefix() {
        let holds = |network: &str, address: &str| {
            network
                .parse::<Network>()
                .expect("a network")
                .contains_address(address.parse().expect("an address"))
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1") && !holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("192.0.2.1", "192.0.2.1") && !holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1") && !holds("2001:db8::/32", "2001:db9::1"));
        assert!(holds("0.0.0.0/0", "8.8.8.8") && !holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "8.8.8.8"));
        assert!(holds("::ffff:10.0.0.0/104", "10.1.2.3") && !holds("::ffff:10.0.0.0/104", "11.1.2.3"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3") && holds("10.9.9.9/8", "10.1.2.3"));
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "10.0.0.0/x", "host"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
        assert_eq!("10.0.0.0/8".parse::<Network>().expect("a network").to_string(), "10.0.0.0/8");
        assert_eq!("2001:db8::/32".parse::<Network>().expect("a network").to_string(), "2001:db8::/32");
    }

    #[test]
    fn one_customers_network_counts_as_one() {
        let of = |text: &str| normalize_for_counting(text.parse().expect("an address")).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
    }

    #[test]
    fn wider_networks_only_for_ipv6() {
        let of = |text: &str| wider_networks(text.parse().expect("an address"));
        let network = |text: &str| text.parse::<IpAddr>().expect("a network");
        let expected = [(56, network("2001:db8:1:200::")), (48, network("2001:db8:1::"))];
        assert_eq!(of("2001:db8:1:2ff:3:4:5:6"), expected);
        assert!(of("192.0.2.1").is_empty() && of("::ffff:192.0.2.1").is_empty());
    }
}
