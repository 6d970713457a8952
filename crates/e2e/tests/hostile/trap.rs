//! Listeners on the host that detect connections from a machine.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// Sockets that no legitimate process connects to.
#[derive(Debug)]
pub(crate) struct Trap {
    tcp: TcpListener,
    udp: UdpSocket,
    unix: UnixListener,
    unnamed: UnixListener,
    path: PathBuf,
    name: String,
}

impl Trap {
    /// Listens on every address of the host, on a socket in `folder` and on an abstract one.
    pub(crate) fn listen_everywhere(folder: &Path) -> Self {
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a port");
        tcp.set_nonblocking(true).expect("a mode");
        let udp = UdpSocket::bind(("0.0.0.0", tcp.local_addr().expect("an address").port())).expect("a port");
        udp.set_nonblocking(true).expect("a mode");
        let path = folder.join("trap.sock");
        let unix = UnixListener::bind(&path).expect("a socket");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).expect("open to everyone");
        unix.set_nonblocking(true).expect("a mode");
        let name = format!("causerie-trap-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let unnamed = UnixListener::bind_addr(&address).expect("a socket");
        unnamed.set_nonblocking(true).expect("a mode");
        Self { tcp, udp, unix, unnamed, path, name }
    }

    pub(crate) fn tcp_port(&self) -> u16 {
        self.tcp.local_addr().expect("an address").port()
    }

    pub(crate) fn socket_path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn abstract_name(&self) -> &str {
        &self.name
    }

    /// Returns the host's outgoing address, if it has one.
    pub(crate) fn host_address() -> String {
        let probe = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
            socket.connect("192.0.2.1:9")?; // sends no packet
            socket.local_addr()
        });
        probe.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
    }

    /// Asserts that nothing connected.
    pub(crate) fn assert_quiet(&self) {
        let quiet = |came: std::io::Result<String>| match came {
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            Ok(who) => assert_eq!(who, "nobody", "something left a machine"),
        };
        quiet(self.tcp.accept().map(|(_, from)| from.to_string()));
        quiet(self.udp.recv_from(&mut [0; 64]).map(|(_, from)| from.to_string()));
        quiet(self.unix.accept().map(|(_, from)| format!("{from:?}")));
        quiet(self.unnamed.accept().map(|(_, from)| format!("{from:?}")));
    }
}
