//! Request ids and the access log: an identifier on every response, and one log line for each request.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::log::{self, LogFormat, Now};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use bytes::BytesMut;
use tracing::Level;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// The header with the request id, which a client may choose and each response repeats.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that a client may choose.
const ID_MAX_BYTES: usize = 128;
/// The longest generated id: two numbers and a dash.
const MADE_MAX_BYTES: usize = 33;
/// The size of a block that generated ids are cut from, to save allocations.
const BLOCK_BYTES: usize = 4096;
/// The maximum length of a path in the log.
const PATH_LOGGED_MAX_BYTES: usize = 512;
/// The paths that monitoring polls every few seconds.
const WATCHED: &[&str] = &["/healthz", "/readyz", "/metrics"];

tokio::task_local! {
    /// The id of the current request.
    static CURRENT: HeaderValue;
}

/// Runs a request under its id, which log lines then contain.
pub(crate) async fn with_request_id<T>(id: HeaderValue, answered: impl Future<Output = T>) -> T {
    CURRENT.scope(id, answered).await
}

/// Passes the id of the current request to `tell`, if there is one.
fn with_current_id(tell: impl FnOnce(&str) -> fmt::Result) -> fmt::Result {
    CURRENT.try_with(|id| tell(id_text(id))).unwrap_or(Ok(()))
}

/// Writes the fields of a log line, after the id of the current request.
pub struct LogFields;

impl<'w> FormatFields<'w> for LogFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        with_current_id(|id| write!(writer, "request{{id={id:?}}}: "))?;
        DefaultFields::new().format_fields(writer, fields)
    }
}

fn id_text(id: &HeaderValue) -> &str {
    id.to_str().unwrap_or_default()
}

/// Generates request ids: a prefix of the process and a counter. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestIds {
    process: u64,
    counted: Arc<AtomicU64>,
}

impl RequestIds {
    /// Creates a generator with these random bits as the prefix of the process.
    #[must_use]
    pub fn new(process: u64) -> Self {
        Self { process, counted: Arc::default() }
    }

    /// Returns the client's own id, if it has 1 to 128 visible ASCII characters, or a new one.
    pub(crate) fn client_or_new_id(&self, headers: &HeaderMap) -> HeaderValue {
        let mut given = headers.get_all(X_REQUEST_ID).iter();
        if let (Some(id), None) = (given.next(), given.next())
            && (1..=ID_MAX_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
        {
            return id.clone();
        }
        self.make_id(self.counted.fetch_add(1, Ordering::Relaxed))
    }

    fn make_id(&self, count: u64) -> HeaderValue {
        thread_local! {
            static BLOCK: RefCell<BytesMut> = RefCell::default();
        }
        let id = BLOCK.with_borrow_mut(|block| {
            if block.capacity() < MADE_MAX_BYTES {
                block.reserve(BLOCK_BYTES);
            }
            // The block has room for it.
            let _ = write!(block, "{:016x}-{count:x}", self.process);
            block.split().freeze()
        });
        HeaderValue::from_maybe_shared(id).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

/// The log line of a request, without headers, body or query.
pub(crate) struct RequestLine<'a> {
    pub(crate) id: &'a HeaderValue,
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) status: StatusCode,
    /// The time until the response began.
    pub(crate) took: Duration,
}

/// The log target of request lines, for filters.
const TARGET: &str = "requests";

impl RequestLine<'_> {
    /// Writes the line if its level is enabled: `info`, `warn` for failures, `debug` for polled paths.
    pub(crate) fn log(&self) {
        let path = self.uri.path();
        let path = path.get(..path.len().min(PATH_LOGGED_MAX_BYTES)).unwrap_or_default();
        if self.status >= StatusCode::INTERNAL_SERVER_ERROR {
            if tracing::enabled!(target: TARGET, Level::WARN) {
                self.log_at(Level::WARN, path);
            }
        } else if WATCHED.contains(&path) {
            if tracing::enabled!(target: TARGET, Level::DEBUG) {
                self.log_at(Level::DEBUG, path);
            }
        } else if tracing::enabled!(target: TARGET, Level::INFO) {
            self.log_at(Level::INFO, path);
        }
    }

    fn log_at(&self, level: Level, path: &str) {
        thread_local! {
            static LINE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let Some(lines) = log::direct_log() else { return self.log_via_tracing(level, path) };
        LINE.with_borrow_mut(|line| {
            line.clear();
            // Writing to memory does not fail.
            let _ = self.format_line(lines.format, &Now::read_clock(), level, path, line);
            lines.append_lines(line.as_bytes());
        });
    }

    /// Writes the line through `tracing`, like any other log line.
    fn log_via_tracing(&self, level: Level, path: &str) {
        let (id, method) = (id_text(self.id), self.method);
        let (status, ms) = (self.status.as_u16(), self.took.as_micros() as f64 / 1000.0);
        macro_rules! write_line {
            ($level:ident) => {
                tracing::$level!(target: TARGET, id, %method, path, status, ms, "request")
            };
        }
        match level {
            Level::WARN => write_line!(warn),
            Level::DEBUG => write_line!(debug),
            _ => write_line!(info),
        }
    }

    /// Formats the same line without the generic machinery of `tracing`, because every request has one.
    fn format_line(
        &self,
        format: LogFormat,
        now: &Now,
        level: Level,
        path: &str,
        line: &mut String,
    ) -> fmt::Result {
        let (method, status, micros) = (self.method.as_str(), self.status.as_str(), self.took.as_micros());
        match format {
            LogFormat::Text => {
                line.push_str(now.as_str());
                line.push_str(match level {
                    Level::WARN => "  WARN request id=",
                    Level::DEBUG => " DEBUG request id=",
                    _ => "  INFO request id=",
                });
                write_quoted(id_text(self.id), line, |text, line| write!(line, "{text:?}"))?;
                line.push_str(" method=");
                line.push_str(method);
                line.push_str(" path=");
                write_quoted(path, line, |text, line| write!(line, "{text:?}"))?;
                line.push_str(" status=");
                line.push_str(status);
                line.push_str(" ms=");
                write_millis(micros, line)?;
                line.push('\n');
            }
            LogFormat::Json => {
                line.push_str("{\"timestamp\":\"");
                line.push_str(now.as_str());
                line.push_str(match level {
                    Level::WARN => "\",\"level\":\"WARN",
                    Level::DEBUG => "\",\"level\":\"DEBUG",
                    _ => "\",\"level\":\"INFO",
                });
                line.push_str("\",\"message\":\"request\",\"id\":");
                write_quoted(id_text(self.id), line, write_json_string)?;
                line.push_str(",\"method\":");
                write_quoted(method, line, write_json_string)?;
                line.push_str(",\"path\":");
                write_quoted(path, line, write_json_string)?;
                line.push_str(",\"status\":");
                line.push_str(status);
                line.push_str(",\"ms\":");
                write_millis(micros, line)?;
                line.push_str(",\"target\":\"requests\"}\n");
            }
        }
        Ok(())
    }
}

/// Writes a text in quotes; `escaped` writes the characters that need escaping.
fn write_quoted(
    text: &str,
    line: &mut String,
    escaped: impl FnOnce(&str, &mut String) -> fmt::Result,
) -> fmt::Result {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        line.push('"');
        line.push_str(text);
        line.push('"');
        return Ok(());
    }
    escaped(text, line)
}

fn write_json_string(text: &str, line: &mut String) -> fmt::Result {
    line.push_str(&serde_json::to_string(text).map_err(|_| fmt::Error)?);
    Ok(())
}

/// Writes thousandths as decimals: at least one digit, without trailing zeros.
fn write_millis(micros: u128, line: &mut String) -> fmt::Result {
    let thousandths = micros % 1000;
    write!(line, "{}.", micros / 1000)?;
    match (thousandths % 10, thousandths / 10 % 10) {
        (0, 0) => write!(line, "{}", thousandths / 100),
        (0, _) => write!(line, "{:02}", thousandths / 10),
        _ => write!(line, "{thousandths:03}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn client_or_new_id_accepts_valid_id() {
        let ids = RequestIds::new(0xabc);
        let of = |given: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for id in given {
                headers.append(X_REQUEST_ID, HeaderValue::from_bytes(id).expect("a header"));
            }
            ids.client_or_new_id(&headers).to_str().expect("visible").to_owned()
        };
        assert_eq!(of(&[b"req-1/2:3"]), "req-1/2:3");
        let longest = [b'x'; 128];
        assert_eq!(of(&[&longest]), "x".repeat(128));
        let too_long = [b'x'; 129];
        let mut made = Vec::new();
        let wrong: [&[&[u8]]; 6] = [&[], &[b""], &[b"a b"], &[b"\xc5\xbe"], &[b"a", b"b"], &[&too_long]];
        for wrong in wrong {
            made.push(of(wrong));
        }
        assert!(made.iter().all(|id| id.starts_with("0000000000000abc-")), "{made:?}");
        made.dedup();
        assert_eq!(made.len(), 6, "each is another");
    }

    #[test]
    fn make_id_gives_hex_numbers() {
        let ids = RequestIds::new(u64::MAX);
        let made: Vec<HeaderValue> = (0..10_000).map(|_| ids.client_or_new_id(&HeaderMap::new())).collect();
        for (number, id) in made.iter().enumerate() {
            assert_eq!(id_text(id), format!("ffffffffffffffff-{number:x}"));
        }
        assert_eq!(ids.make_id(u64::MAX).len(), MADE_MAX_BYTES);
    }

    /// The output so far.
    #[derive(Clone, Default)]
    struct WrittenLog(Arc<Mutex<Vec<u8>>>);

    impl io::Write for WrittenLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("whole").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the line as `tracing` formats it.
    fn line_from_tracing(line: &RequestLine<'_>, format: LogFormat, level: Level, path: &str) -> String {
        let written = WrittenLog::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt().with_max_level(Level::TRACE);
        let lines = lines.with_writer(move || writer.clone()).with_ansi(false);
        let trace = || line.log_via_tracing(level, path);
        match format {
            LogFormat::Text => tracing::subscriber::with_default(lines.with_target(false).finish(), trace),
            LogFormat::Json => {
                let lines = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
                tracing::subscriber::with_default(lines.finish(), trace);
            }
        }
        String::from_utf8(written.0.lock().expect("whole").clone()).expect("text")
    }

    #[test]
    fn format_line_matches_tracing() {
        let now = Now::read_clock();
        let timeless = |line: &str| {
            let at = line.find("20").expect("a time");
            format!("{}{}", &line[..at], &line[at + now.as_str().len()..])
        };
        let paths = ["/api/v1/vm", "/a\"b\\c", "/ž\u{1b}[31m\u{7f}\t", "/api/v1/files/n%C3%A1"];
        let mut seen = 0;
        for format in [LogFormat::Text, LogFormat::Json] {
            for (micros, status) in
                [(0, 200), (7, 404), (120, 500), (1_000, 304), (98_765_430, 503), (1_200, 101)]
            {
                for (path, level) in paths.iter().zip([Level::INFO, Level::DEBUG, Level::WARN, Level::INFO]) {
                    let line = RequestLine {
                        id: &HeaderValue::from_static("a\"b\\c-1"),
                        method: &Method::from_bytes(b"X-METHOD").expect("one"),
                        uri: &Uri::from_static("/"),
                        status: StatusCode::from_u16(status).expect("one"),
                        took: Duration::from_micros(micros),
                    };
                    let mut direct = String::new();
                    line.format_line(format, &now, level, path, &mut direct).expect("it is written");
                    assert_eq!(timeless(&direct), timeless(&line_from_tracing(&line, format, level, path)));
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 48);
    }

    #[tokio::test]
    async fn with_current_id_holds_while_answering() {
        let shown = || {
            let mut text = String::new();
            with_current_id(|id| write!(text, "{id}")).expect("it is written");
            text
        };
        assert_eq!(shown(), "");
        assert_eq!(with_request_id(HeaderValue::from_static("one"), async { shown() }).await, "one");
        assert_eq!(shown(), "");
    }
}
