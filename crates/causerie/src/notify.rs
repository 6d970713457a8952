//! Reports the state of the service to systemd (`Type=notify`).

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the path of systemd's socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a state such as `READY=1`. Does nothing if no socket is set, and ignores errors.
pub(crate) fn notify_systemd(state: &str) {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    let path = path.as_encoded_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => std::str::from_utf8(path).map_err(std::io::Error::other).and_then(SocketAddr::from_pathname),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}
