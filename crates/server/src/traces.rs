//! Traces, if enabled: spans of requests and answers, and their exporter.

use std::sync::Arc;

use axum::http::{HeaderMap, Request, Response, StatusCode};
use control::ServiceEnvironment;
use telemetry::trace::{Span, SpanContext, SpanQueue, TraceParent, Tracer};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::collector::TraceCollector;

/// The header in which clients name the trace of their request.
const TRACEPARENT: &str = "traceparent";
/// The traced paths: the interface. Other paths are polled by monitoring.
const INTERFACE: &str = "/api/";
/// The methods that spans name; all others are `_OTHER`.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"];

/// True if this build can export traces.
pub const EXPORTS_TRACES: bool = cfg!(feature = "otlp");

/// The traces of a service.
#[derive(Default)]
pub struct Traces {
    spans: Option<Arc<SpanQueue>>,
    exporting: Option<JoinHandle<()>>,
    over: CancellationToken,
}

impl Traces {
    /// Starts to export spans, if an exporter is configured.
    #[cfg(feature = "otlp")]
    pub fn begin(settings: Option<TraceCollector>, environment: &ServiceEnvironment) -> Self {
        let Some(settings) = settings else { return Self::default() };
        let (spans, over) = (SpanQueue::new(environment.random_bits()), CancellationToken::new());
        let exporter = crate::otlp::OtlpExporter::new(settings, spans.clone());
        let exporting = exporter.map(|exporter| tokio::spawn(exporter.export_until_shutdown(over.clone())));
        Self { spans: Some(spans), exporting, over }
    }

    /// This build has no exporter; reading the configuration logged a warning.
    #[cfg(not(feature = "otlp"))]
    pub fn begin(_settings: Option<TraceCollector>, _environment: &ServiceEnvironment) -> Self {
        Self::default()
    }

    /// Returns the tracer.
    #[must_use]
    pub fn tracer(&self) -> Tracer {
        self.spans.clone().map_or_else(Tracer::off, Tracer::new)
    }

    /// Returns the queue of spans, if enabled.
    #[must_use]
    pub fn spans(&self) -> Option<Arc<SpanQueue>> {
        self.spans.clone()
    }

    /// Exports the remaining spans, within a time limit.
    pub async fn flush_and_stop(self) {
        self.over.cancel();
        if let Some(exporting) = self.exporting {
            // A panic was reported when it happened.
            let _ = exporting.await;
        }
    }
}

/// Begins the span of a request and attaches its context. The client's trace is attached even if no spans are
/// recorded.
pub(crate) fn begin_request_span<B>(tracer: &Tracer, request: &mut Request<B>) -> Option<Span> {
    let given = trace_parent(request.headers());
    if !tracer.is_on() && given.is_none() || !request.uri().path().starts_with(INTERFACE) {
        return None;
    }
    let span = tracer.start_request(given, "request");
    let of_client = || given.filter(|given| given.sampled).map(|given| given.context);
    let context: Option<SpanContext> = span.as_ref().map(Span::context).or_else(of_client);
    if let Some(context) = context {
        request.extensions_mut().insert(context);
    }
    span
}

/// Ends the span with the outcome of the request, named by operation and never by path.
pub(crate) fn end_request_span<B>(mut span: Span, method: &str, response: &Response<B>) {
    let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("_OTHER");
    let operation = response.extensions().get::<&'static api::operations::Operation>();
    match operation {
        Some(operation) => {
            span.rename(format!("{method} {}", operation.path));
            span.set_attribute("http.route", operation.path);
            span.set_attribute("causerie.operation", operation.id);
        }
        None => span.rename(method),
    }
    span.set_attribute("http.request.method", method);
    span.set_attribute("http.response.status_code", u32::from(response.status().as_u16()));
    if response.status() >= StatusCode::INTERNAL_SERVER_ERROR {
        span.mark_failed();
    }
}

fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut lines = headers.get_all(TRACEPARENT).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => TraceParent::parse(line.to_str().ok()?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use telemetry::trace::AttributeValue;

    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    fn request_with_traces(path: &str, traces: &[&str]) -> Request<()> {
        let request = Request::get(path);
        let request = traces.iter().fold(request, |request, trace| request.header(TRACEPARENT, *trace));
        request.body(()).expect("a request")
    }

    #[test]
    fn request_span_keeps_trace_hides_path() {
        let spans = SpanQueue::new(1);
        let tracer = Tracer::new(spans.clone());
        let mut traced = request_with_traces("/api/v1/files/secret.pdf?also=secret", &[SAMPLED]);
        let span = begin_request_span(&tracer, &mut traced).expect("it is traced");
        assert_eq!(traced.extensions().get::<SpanContext>(), Some(&span.context()));
        let mut response = Response::new(());
        response.extensions_mut().insert(&api::operations::OPERATIONS[8]);
        end_request_span(span, "GET", &response);
        let [span] = &spans.take_finished(2)[..] else { panic!("one span") };
        assert_eq!(
            (span.context.trace >> 64, span.parent),
            (0x0af7_6519_16cd_43dd, Some(0xb7ad_6b71_6920_3331))
        );
        assert_eq!(span.name, "GET /api/v1/files/{*path}");
        assert!(span.attributes.contains(&("http.response.status_code", AttributeValue::Number(200))));
        assert!(!format!("{span:?}").contains("secret"));
    }

    #[test]
    fn invalid_or_unsampled_traceparent_ignored() {
        let tracer = Tracer::new(SpanQueue::new(1));
        for wrong in [&["nonsense"] as &[&str], &[SAMPLED, SAMPLED], &[]] {
            let span = begin_request_span(&tracer, &mut request_with_traces("/api/v1/vm", wrong))
                .expect("a trace of its own");
            assert_ne!(span.context().trace >> 64, 0x0af7_6519_16cd_43dd);
        }
        let mut unwanted = request_with_traces("/api/v1/vm", &[UNSAMPLED]);
        assert!(
            begin_request_span(&tracer, &mut unwanted).is_none()
                && unwanted.extensions().get::<SpanContext>().is_none()
        );
        assert!(begin_request_span(&tracer, &mut request_with_traces("/healthz", &[SAMPLED])).is_none());
    }

    #[test]
    fn client_trace_kept_without_collector() {
        let mut traced = request_with_traces("/api/v1/chats", &[SAMPLED]);
        assert!(begin_request_span(&Tracer::off(), &mut traced).is_none());
        let context = traced.extensions().get::<SpanContext>().expect("the client's");
        assert_eq!(context.span, 0xb7ad_6b71_6920_3331);
        let mut untraced = request_with_traces("/api/v1/chats", &[]);
        assert!(
            begin_request_span(&Tracer::off(), &mut untraced).is_none() && untraced.extensions().is_empty()
        );
    }
}
