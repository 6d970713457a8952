//! The byte stream of a connection, plain or over TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::address::ServiceAddress;

/// The longest silence of the service before a test fails.
const SILENCE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) enum ServiceWire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ServiceWire {
    pub(crate) fn connect_to(address: &ServiceAddress) -> io::Result<Self> {
        let stream = TcpStream::connect((address.host_name(), address.port_number()))?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        stream.set_nodelay(true)?;
        if !address.is_tls() {
            return Ok(Self::Plain(stream));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(address.host_name().to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// Returns the underlying socket.
    pub(crate) fn tcp_socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(session) => &session.sock,
        }
    }

    /// Shuts down the sending side; responses can still be read.
    pub(crate) fn end_writing(&mut self) {
        if let Self::Tls(session) = self {
            session.conn.send_close_notify();
            let _ = session.flush();
        }
        let _ = self.tcp_socket().shutdown(Shutdown::Write);
    }
}

impl Read for ServiceWire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::Tls(session) => session.read(into),
        }
    }
}

impl Write for ServiceWire {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(from),
            Self::Tls(session) => session.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(session) => session.flush(),
        }
    }
}
