//! A minimal HTTP/2 client that sends many requests and reads no responses.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The connection preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACKNOWLEDGED: u8 = 1;
/// The flags `END_HEADERS` and `END_STREAM`.
const WHOLE: u8 = 5;
const INITIAL_WINDOW_SIZE: u16 = 4;
const FRAME_HEAD_BYTES: usize = 9;

/// A connection of HTTP/2.
#[derive(Debug)]
pub struct Http2 {
    stream: TcpStream,
    next: u32,
}

impl Http2 {
    /// Connects, with an initial flow-control window of `window` bytes per stream.
    ///
    /// # Errors
    /// If the service cannot be reached.
    pub fn open(address: &str, window: u32) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(PREFACE)?;
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(window.to_be_bytes());
        let mut this = Self { stream, next: 1 };
        this.send(SETTINGS, 0, 0, &setting)?;
        this.send(SETTINGS, ACKNOWLEDGED, 0, &[])?;
        Ok(this)
    }

    /// Sends a request without waiting for the response.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn get(&mut self, target: &str, key: Option<&str>) -> io::Result<()> {
        let mut block = Vec::new();
        let named = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", target)];
        for (name, value) in named.into_iter().chain(key.map(|key| ("x-api-key", key))) {
            // A literal that is not indexed.
            block.push(0);
            for text in [name, value] {
                block.push(
                    u8::try_from(text.len()).ok().filter(|length| *length < 127).expect("a short text"),
                );
                block.extend(text.as_bytes());
            }
        }
        let id = self.next;
        self.next += 2;
        self.send(HEADERS, WHOLE, id, &block)
    }

    /// Reads for at most `max_wait`, answers pings, and returns the number of streams that the service has
    /// reset; `None` if it closed the connection.
    pub fn resets(&mut self, max_wait: Duration) -> Option<usize> {
        let mut resets = 0;
        self.stream.set_read_timeout(Some(max_wait)).ok()?;
        loop {
            let mut head = [0; FRAME_HEAD_BYTES];
            match self.stream.read_exact(&mut head) {
                Ok(()) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Some(resets);
                }
                Err(_) => return None,
            }
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            self.stream.read_exact(&mut payload).ok()?;
            match (head[3], head[4]) {
                (RST_STREAM, _) => resets += 1,
                (PING, 0) => self.send(PING, ACKNOWLEDGED, 0, &payload).ok()?,
                _ => {}
            }
        }
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }
}
