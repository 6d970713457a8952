//! HTTP/2 as a test needs it: a connection whose client asks much and takes nothing.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// What a client begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACKNOWLEDGED: u8 = 1;
/// A stream that ends with its headers, which are all there.
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
    /// Opens it; so many bytes of each response are taken at first.
    ///
    /// # Errors
    /// When the service cannot be reached.
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

    /// Asks for a target, and waits for nothing.
    ///
    /// # Errors
    /// When the connection broke.
    pub fn get(&mut self, target: &str, key: Option<&str>) -> io::Result<()> {
        let mut block = Vec::new();
        let named = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", target)];
        for (name, value) in named.into_iter().chain(key.map(|key| ("x-api-key", key))) {
            // As it is, and not to be remembered.
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

    /// Reads on for so long at most, answers pings, and tells how many streams the service has reset; `None` when it has
    /// closed the connection.
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
