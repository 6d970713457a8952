//! A connection on which a test writes arbitrary bytes and reads the responses.

use std::io::{self, BufReader, Read, Write};
use std::time::Duration;

use crate::address::ServiceAddress;
use crate::http::{HttpResponse, StreamingResponse};
use crate::wire::ServiceWire;

#[derive(Debug)]
pub struct RawConnection {
    /// `None` once it is broken.
    reader: Option<BufReader<ServiceWire>>,
}

impl RawConnection {
    /// Connects to the service.
    ///
    /// # Errors
    /// Fails if the service cannot be reached.
    pub fn connect(address: &ServiceAddress) -> io::Result<Self> {
        Ok(Self { reader: Some(BufReader::new(ServiceWire::connect_to(address)?)) })
    }

    /// Writes bytes and returns whether all were written. A service may stop reading early.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        let wire = reader.get_mut();
        wire.write_all(bytes).and_then(|()| wire.flush()).is_ok()
    }

    /// Shuts down the sending side.
    pub fn end_writing(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.get_mut().end_writing();
        }
    }

    /// Sets the read timeout.
    pub fn wait_at_most(&mut self, time: Duration) {
        if let Some(reader) = &self.reader {
            let _ = reader.get_ref().tcp_socket().set_read_timeout(Some(time));
        }
    }

    /// Reads the response to a request with this method; `None` if the connection ended instead.
    pub fn read_response(&mut self, method: &str) -> Option<HttpResponse> {
        let (response, rest) =
            StreamingResponse::read_head(self.reader.take()?, method).ok()?.read_whole_and_rest().ok()?;
        self.reader = Some(rest);
        Some(response)
    }

    /// Reads `count` raw bytes; `None` if they do not arrive.
    pub fn read_bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.as_mut()?.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Reads until the service closes the connection.
    pub fn read_rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(reader) = &mut self.reader {
            // Bytes that arrived before the connection broke count.
            let _ = reader.read_to_end(&mut bytes);
        }
        bytes
    }

    /// Waits for the service to close the connection, and returns `false` if it sends data or stays silent.
    pub fn is_closed(&mut self) -> bool {
        match &mut self.reader {
            None => true,
            Some(reader) => match reader.read(&mut [0]) {
                Ok(read) => read == 0,
                Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            },
        }
    }
}

/// Sends raw bytes and returns the status of the response; `None` if the connection is closed without one.
///
/// # Errors
/// Fails if the service cannot be reached.
pub fn send_bytes(address: impl Into<ServiceAddress>, bytes: &[u8]) -> io::Result<Option<u16>> {
    let mut connection = RawConnection::connect(&address.into())?;
    connection.write_bytes(bytes);
    connection.end_writing();
    Ok(connection.read_response("GET").map(|response| response.status))
}
