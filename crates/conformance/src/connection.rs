//! One connection, on which a test writes whatever bytes it likes and reads what comes back, response by response.

use std::io::{self, BufReader, Read, Write};
use std::time::Duration;

use crate::address::Address;
use crate::http::{Response, Streaming};
use crate::wire::Wire;

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    /// Nothing once it broke.
    reader: Option<BufReader<Wire>>,
}

impl Connection {
    /// Opens it.
    ///
    /// # Errors
    /// When the service cannot be reached.
    pub fn open(address: &Address) -> io::Result<Self> {
        Ok(Self { reader: Some(BufReader::new(Wire::connect(address)?)) })
    }

    /// Writes bytes, and tells whether all went out: a service that has had enough need not take them all.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        let wire = reader.get_mut();
        wire.write_all(bytes).and_then(|()| wire.flush()).is_ok()
    }

    /// Says that nothing more will be written.
    pub fn end_writing(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.get_mut().end_writing();
        }
    }

    /// How long to wait for what comes next.
    pub fn wait_at_most(&mut self, time: Duration) {
        if let Some(reader) = &self.reader {
            let _ = reader.get_ref().socket().set_read_timeout(Some(time));
        }
    }

    /// The next response, to a request of this method; `None` when the connection ended instead.
    pub fn response(&mut self, method: &str) -> Option<Response> {
        let (response, rest) = Streaming::read(self.reader.take()?, method).ok()?.whole_and_rest().ok()?;
        self.reader = Some(rest);
        Some(response)
    }

    /// The next bytes, where they are no response of HTTP/1.1; nothing when they do not come.
    pub fn bytes(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.reader.as_mut()?.read_exact(&mut bytes).ok()?;
        Some(bytes)
    }

    /// All that comes until the service closes it.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(reader) = &mut self.reader {
            // What came before it broke is all that came.
            let _ = reader.read_to_end(&mut bytes);
        }
        bytes
    }

    /// Whether the service has closed it, which is waited for.
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
