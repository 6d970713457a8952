//! The socket that the service listens on.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};

use crate::limits::ConnectionLimits;

/// The backlog of the listening socket.
const BACKLOG: u32 = 1024;

/// Listens; bounds the unsent data per connection in the kernel.
///
/// # Errors
/// Errors of the kernel, such as an address in use.
pub fn bind_listener(address: SocketAddr, limits: &ConnectionLimits) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit the option. It limits unsent data but not data in flight, so distant clients
    // keep their throughput; a limit on the send buffer would reduce it.
    SockRef::from(&socket).set_tcp_notsent_lowat(limits.unsent_max_bytes)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
