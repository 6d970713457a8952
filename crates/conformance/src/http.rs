//! A minimal HTTP/1.1 client that sends requests unchanged. A library would normalize exactly the things that
//! the service must withstand: dots in paths, odd bytes, missing lengths.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::address::ServiceAddress;
use crate::met;
use crate::wire::ServiceWire;

/// The longest body that is read as a whole.
const BODY_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The longest line of a head or of a chunk's size.
const LINE_MAX_BYTES: u64 = 64 * 1024;

#[derive(Debug, Clone)]
pub struct HttpRequest {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: bool,
}

impl HttpRequest {
    /// Creates a request for a target, which is sent unchanged.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            chunked: false,
        }
    }

    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body. Adds no `Content-Type`.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the body in chunks, without a length.
    #[must_use]
    pub fn with_chunked_body(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Sends the request and reads the head of the response.
    ///
    /// # Panics
    /// Panics if the service cannot be reached or does not respond with HTTP/1.1.
    #[must_use]
    pub fn send_streaming(self, address: impl Into<ServiceAddress>) -> StreamingResponse {
        self.try_send_streaming(address).expect("an HTTP/1.1 response")
    }

    /// Sends the request and reads the complete response.
    ///
    /// # Panics
    /// Panics like [`HttpRequest::send_streaming`], and if the body is incomplete.
    #[must_use]
    pub fn send(self, address: impl Into<ServiceAddress>) -> HttpResponse {
        let request = format!("{} {}", self.method, self.target);
        let result = self.try_send(address);
        result.unwrap_or_else(|error| panic_with(&format!("{request}: {error}")))
    }

    /// Sends the request like [`HttpRequest::send_request`], for a service that may be down or shutting down.
    ///
    /// # Errors
    /// Fails if the service cannot be reached or the connection breaks.
    pub fn try_send(self, address: impl Into<ServiceAddress>) -> io::Result<HttpResponse> {
        self.try_send_streaming(address)?.try_read_whole()
    }

    /// Sends the request like [`HttpRequest::send_streaming`], for a service that may be down or shutting down.
    ///
    /// # Errors
    /// Fails if the service cannot be reached or does not respond with HTTP/1.1.
    pub fn try_send_streaming(self, address: impl Into<ServiceAddress>) -> io::Result<StreamingResponse> {
        let address = address.into();
        let mut wire = ServiceWire::connect_to(&address)?;
        // The service may respond and close the connection before it has read everything, so a failed write
        // is ignored.
        let _ = self.write_to(&mut wire, &address);
        let mut streaming = StreamingResponse::read_head(BufReader::new(wire), &self.method)?;
        streaming.asked = Some((self.method, self.target));
        Ok(streaming)
    }

    fn write_to(&self, stream: &mut ServiceWire, address: &ServiceAddress) -> io::Result<()> {
        let (method, target, prefix) = (&self.method, &self.target, address.path_prefix());
        let mut head =
            format!("{method} {prefix}{target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        } else if !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if self.chunked {
            for chunk in self.body.chunks(7919) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")?;
        } else {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub struct StreamingResponse {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: HttpBodyReader,
    asked: Option<(String, String)>,
}

impl StreamingResponse {
    /// Reads the head of the response to a request with this method.
    pub(crate) fn read_head(mut reader: BufReader<ServiceWire>, method: &str) -> io::Result<Self> {
        let status_line = read_line(&mut reader)?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| broken_response(&format!("status line {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| broken_response("a header without a colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let left = body_extent(method, status, &headers)?;
        Ok(Self { status, headers, body: HttpBodyReader { reader, left }, asked: None })
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Returns the body for incremental reading.
    #[must_use]
    pub fn into_body(self) -> HttpBodyReader {
        if let Some((method, target)) = &self.asked {
            met::record_response(method, target, self.status, None);
        }
        self.body
    }

    /// Reads the complete response.
    ///
    /// # Panics
    /// Panics if the body is incomplete.
    #[must_use]
    pub fn read_whole(self) -> HttpResponse {
        self.try_read_whole().expect("a whole body")
    }

    /// Reads the complete response like [`Self::read_whole`], for a connection that may break.
    ///
    /// # Errors
    /// Fails if the body is incomplete.
    pub fn try_read_whole(self) -> io::Result<HttpResponse> {
        self.read_whole_and_rest().map(|(response, _)| response)
    }

    /// Reads the complete response and returns the connection with it.
    pub(crate) fn read_whole_and_rest(mut self) -> io::Result<(HttpResponse, BufReader<ServiceWire>)> {
        let mut body = Vec::new();
        self.body.by_ref().take(BODY_MAX_BYTES).read_to_end(&mut body)?;
        let response = HttpResponse { status: self.status, headers: self.headers, body };
        if let Some((method, target)) = &self.asked {
            met::record_response(method, target, response.status, Some(&response.body));
        }
        Ok((response, self.body.reader))
    }
}

#[derive(Debug, Clone)]
pub struct HttpResponse {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Returns the values of a header that may occur several times.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(header, _)| header.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    ///
    /// # Panics
    /// Panics if it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic_with(&format!("{error}, in {} {:?}", self.status, self.text())))
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The rest of a body.
#[derive(Debug, Clone, Copy)]
enum BodyRemainder {
    Bytes(u64),
    /// The remaining bytes of the current chunk.
    Chunk(u64),
    UntilClosed,
}

/// A body, decoded from its chunks while it is read.
#[derive(Debug)]
pub struct HttpBodyReader {
    reader: BufReader<ServiceWire>,
    left: BodyRemainder,
}

impl Read for HttpBodyReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.left {
            BodyRemainder::UntilClosed => self.reader.read(into),
            BodyRemainder::Bytes(0) => Ok(0),
            BodyRemainder::Bytes(left) => {
                let read = self.read_some(into, left)?;
                self.left = BodyRemainder::Bytes(left - read);
                Ok(usize::try_from(read).expect("no more than the buffer"))
            }
            BodyRemainder::Chunk(0) => {
                let size = read_line(&mut self.reader)?;
                let size = size.split(';').next().unwrap_or("").trim();
                let size =
                    u64::from_str_radix(size, 16).map_err(|_| broken_response("a chunk without size"))?;
                if size == 0 {
                    while !read_line(&mut self.reader)?.is_empty() {}
                    self.left = BodyRemainder::Bytes(0);
                    return Ok(0);
                }
                self.left = BodyRemainder::Chunk(size);
                self.read(into)
            }
            BodyRemainder::Chunk(left) => {
                let read = self.read_some(into, left)?;
                if read == left && !read_line(&mut self.reader)?.is_empty() {
                    return Err(broken_response("a chunk that is longer than its size"));
                }
                self.left = BodyRemainder::Chunk(left - read);
                Ok(usize::try_from(read).expect("no more than the buffer"))
            }
        }
    }
}

impl HttpBodyReader {
    fn read_some(&mut self, into: &mut [u8], left: u64) -> io::Result<u64> {
        let read = self.reader.by_ref().take(left).read(into)?;
        if read == 0 && !into.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read as u64)
    }
}

fn body_extent(method: &str, status: u16, headers: &[(String, String)]) -> io::Result<BodyRemainder> {
    if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        return Ok(BodyRemainder::Bytes(0));
    }
    if find_header(headers, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"))
    {
        return Ok(BodyRemainder::Chunk(0));
    }
    match find_header(headers, "content-length") {
        Some(length) => length
            .parse()
            .map(BodyRemainder::Bytes)
            .map_err(|_| broken_response("a length that is not a number")),
        None => Ok(BodyRemainder::UntilClosed),
    }
}

fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn read_line(reader: &mut BufReader<ServiceWire>) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(|_| broken_response("a head that is not UTF-8"))?;
    Ok(line.trim_end().to_owned())
}

fn broken_response(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[expect(clippy::panic, reason = "this is how a test of the suite fails")]
fn panic_with(what: &str) -> ! {
    panic!("{what}")
}
