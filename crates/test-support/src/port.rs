//! Ports for programs that tests start: known before the program listens, and kept while it is restarted.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;

/// The ports to choose from: below the ports that Linux gives to outgoing connections (`ip_local_port_range`), so
/// that no connection takes one while nothing listens on it.
const PORTS: Range<u16> = 20_000..32_768;
/// Spreads the first choices of processes that start at the same time, whose ids follow one another.
const STRIDE: u32 = 61;

/// A TCP port of `127.0.0.1` that no other holder of a reservation has, in any process of the host.
///
/// The UDP socket of the same number is the claim: the kernel gives it to one process and reclaims it when the process
/// ends.
#[derive(Debug)]
pub struct ReservedPort {
    number: u16,
    _claim: UdpSocket,
}

impl ReservedPort {
    /// Reserves a port on which nothing listens.
    ///
    /// # Panics
    /// Panics when all ports are taken.
    #[must_use]
    pub fn reserve() -> Self {
        let count = PORTS.len();
        let first = std::process::id().wrapping_mul(STRIDE) as usize % count;
        PORTS.cycle().skip(first).take(count).find_map(Self::claim).expect("a port that is free")
    }

    fn claim(number: u16) -> Option<Self> {
        let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        // A program without a reservation may listen there.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }

    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns the address, which displays as `127.0.0.1:PORT`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}
