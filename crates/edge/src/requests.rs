//! Requests by name: an identifier on every answer, and one line of the log for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

/// The header in which a client may name its request, and in which each answer carries the name.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that a client may give.
const ID_MAX_BYTES: usize = 128;
/// How much of a path stands in the log.
const PATH_LOGGED_MAX_BYTES: usize = 512;
/// Paths that are asked for every few seconds by whoever watches the service.
const WATCHED: &[&str] = &["/healthz", "/readyz", "/metrics"];

/// Names of requests: those of one process begin alike and are counted. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RequestIds {
    process: u64,
    counted: Arc<AtomicU64>,
}

impl RequestIds {
    /// Names of a process that these random bits tell from others.
    #[must_use]
    pub fn new(process: u64) -> Self {
        Self { process, counted: Arc::default() }
    }

    /// The client's own name, if it is one of up to 128 visible ASCII characters, or a new one.
    fn of(&self, headers: &HeaderMap) -> HeaderValue {
        let mut given = headers.get_all(X_REQUEST_ID).iter();
        if let (Some(id), None) = (given.next(), given.next())
            && (1..=ID_MAX_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
        {
            return id.clone();
        }
        let count = self.counted.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:016x}-{count:x}", self.process);
        HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }
}

/// Names the request, answers with its name, and writes a line of the log when the answer begins: method, path
/// without what follows it, status, and the time until then. Nothing of headers, bodies and queries is written. For
/// [`axum::middleware::from_fn_with_state`], as the outermost layer.
///
/// Lines are of the target `requests` and the severity `info`; of failures `warn`, of watched paths `debug`.
pub async fn requests(State(ids): State<RequestIds>, request: Request, next: Next) -> Response {
    let id = ids.of(request.headers());
    let begun = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path());
    let path = path.get(..path.len().min(PATH_LOGGED_MAX_BYTES)).unwrap_or_default().to_owned();
    let name = id.to_str().unwrap_or_default().to_owned();
    let span = tracing::info_span!(target: "requests", "request", id = name);
    let mut response = next.run(request).instrument(span).await;
    let (status, ms) = (response.status(), begun.elapsed().as_micros() as f64 / 1000.0);
    macro_rules! write_line {
        ($level:ident) => {
            tracing::$level!(target: "requests", id = name, %method, path, status = status.as_u16(), ms, "request")
        };
    }
    if status >= StatusCode::INTERNAL_SERVER_ERROR {
        write_line!(warn);
    } else if WATCHED.contains(&path.as_str()) {
        write_line!(debug);
    } else {
        write_line!(info);
    }
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_s_name_is_taken_when_it_is_one() {
        let ids = RequestIds::new(0xabc);
        let of = |given: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for id in given {
                headers.append(X_REQUEST_ID, HeaderValue::from_bytes(id).expect("a header"));
            }
            ids.of(&headers).to_str().expect("visible").to_owned()
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
}
