//! Exports spans to a collector: OTLP over HTTP, as JSON, with `opentelemetry-otlp`.
//!
//! The crate builds the messages and schedules retries. It uses our HTTP client, which sends the configured
//! headers only, not the headers that the crate reads from its environment variables. Spans and their queue
//! come from `telemetry`, so that a build without this feature records nothing and contains no SDK.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{self, HeaderMap, HeaderValue, header};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use opentelemetry::trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId, TraceId};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use reqwest::{Client, Response, redirect};
use telemetry::trace::{self, AttributeValue, SpanQueue};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::collector::TraceCollector;

/// The interval between exports.
const EVERY: Duration = Duration::from_secs(1);
/// The maximum number of spans per request.
const BATCH_MAX: usize = 512;
/// The timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of attempts per batch, and the pause after the first; doubles, unless the collector requests another.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause, even if the collector requests more; as in `opentelemetry-otlp`.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The time that shutdown waits for the collector.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of bytes that are read of a response, so that its connection can be reused.
const ANSWER_MAX_BYTES: usize = 64 << 10;

/// Exports spans to a collector.
pub(crate) struct OtlpExporter {
    spans: Arc<SpanQueue>,
    exporter: SpanExporter,
    scope: InstrumentationScope,
    url: String,
    /// The batch in transit; retained until it is delivered or abandoned.
    batch: Vec<trace::SpanData>,
    /// True if the last batch was abandoned.
    failing: bool,
}

impl OtlpExporter {
    /// Creates an exporter for the queue `spans`. Returns `None` if the client cannot be created.
    pub(crate) fn new(settings: TraceCollector, spans: Arc<SpanQueue>) -> Option<Self> {
        let url = format!("{}/v1/traces", settings.endpoint.trim_end_matches('/'));
        let client = CollectorClient::new(&url, settings.headers)
            .inspect_err(|error| tracing::error!(%error, "trace export failed"))
            .ok()?;
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(&url)
            // The timeout covers all attempts of a batch; the client limits each.
            .with_timeout(TIMEOUT * ATTEMPTS_MAX + PAUSE_MAX * (ATTEMPTS_MAX - 1))
            .with_retry_policy(
                RetryPolicy::default()
                    .with_max_retries(ATTEMPTS_MAX as usize - 1)
                    .with_initial_delay(PAUSE)
                    .with_max_delay(PAUSE_MAX),
            )
            .build()
            .inspect_err(|error| tracing::error!(%error, "trace export failed"))
            .ok()?;
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", settings.service_name),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        ]);
        exporter.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("causerie").with_version(env!("CARGO_PKG_VERSION")).build();
        Some(Self { spans, exporter, scope, url, batch: Vec::new(), failing: false })
    }

    /// Exports spans until shutdown; then exports the remaining ones for a limited time.
    pub(crate) async fn export_until_shutdown(mut self, over: CancellationToken) {
        let always = async {
            loop {
                sleep(EVERY).await;
                self.export_queued().await;
            }
        };
        over.run_until_cancelled(always).await;
        if timeout(SHUTDOWN_TIMEOUT, self.export_queued()).await.is_err() {
            tracing::warn!(collector = self.url, "trace export abandoned at shutdown: collector too slow");
        }
    }

    /// Exports all queued spans.
    async fn export_queued(&mut self) {
        loop {
            if self.batch.is_empty() {
                self.batch = self.spans.take_finished(BATCH_MAX);
            }
            if self.batch.is_empty() {
                return;
            }
            self.export_batch().await;
            self.batch.clear();
        }
    }

    /// Exports the batch or abandons it.
    async fn export_batch(&mut self) {
        let spans = self.batch.iter().map(|span| span_data(span, &self.scope)).collect();
        match self.exporter.export(spans).await {
            Ok(()) => {
                if std::mem::take(&mut self.failing) {
                    tracing::info!(collector = self.url, "trace export recovered");
                }
            }
            Err(error) => {
                self.spans.dropped.add(self.batch.len() as u64);
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(
                        collector = self.url,
                        %error,
                        "trace export failed: spans dropped"
                    );
                }
            }
        }
    }
}

/// The HTTP client of the exporter.
#[derive(Debug)]
struct CollectorClient {
    client: Client,
    headers: HeaderMap,
}

impl CollectorClient {
    fn new(url: &str, headers: HeaderMap) -> reqwest::Result<Self> {
        // An error means that a provider is installed already; the build contains only this one.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("causerie/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(TIMEOUT)
            .http1_only();
        let encrypted = url.starts_with("https:");
        let builder = if encrypted { builder.https_only(true) } else { builder.tls_certs_only([]) };
        Ok(Self { client: builder.build()?, headers })
    }

    async fn post_request(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        // Sends the configured headers, not the headers that the crate reads from variables.
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = self.client.post(parts.uri.to_string()).headers(headers).body(body);
        let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
        let mut answer = http::Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        if let Some(wait) = response.headers_mut().remove(header::RETRY_AFTER) {
            answer.headers_mut().insert(header::RETRY_AFTER, wait);
        }
        *answer.body_mut() = body_within_bound(response).await;
        Ok(answer)
    }
}

impl HttpClient for CollectorClient {
    // The desugared form of an `async_trait` method.
    fn send_bytes<'client, 'future>(
        &'client self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'future, Result<http::Response<Bytes>, HttpError>>
    where
        'client: 'future,
        Self: 'future,
    {
        self.post_request(request).boxed()
    }
}

async fn body_within_bound(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        if body.len() + chunk.len() > ANSWER_MAX_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    body.freeze()
}

fn span_data(span: &trace::SpanData, scope: &InstrumentationScope) -> SpanData {
    let trace = TraceId::from_bytes(span.context.trace.to_be_bytes());
    let id = |span: u64| SpanId::from_bytes(span.to_be_bytes());
    let attributes =
        span.attributes.iter().map(|(name, value)| KeyValue::new(*name, otlp_attribute_value(value)));
    SpanData {
        span_context: SpanContext::new(
            trace,
            id(span.context.span),
            TraceFlags::SAMPLED,
            false,
            TraceState::NONE,
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, id),
        // The parent of a server span belongs to the client.
        parent_span_is_remote: span.kind == trace::SpanKind::Server && span.parent.is_some(),
        span_kind: match span.kind {
            trace::SpanKind::Internal => SpanKind::Internal,
            trace::SpanKind::Server => SpanKind::Server,
            trace::SpanKind::Client => SpanKind::Client,
        },
        name: span.name.clone(),
        start_time: system_time(span.start_unix_nanos),
        end_time: system_time(span.end_unix_nanos),
        attributes: attributes.collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if span.failed { Status::error("") } else { Status::Unset },
        instrumentation_scope: scope.clone(),
    }
}

fn system_time(nanos: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

fn otlp_attribute_value(value: &AttributeValue) -> opentelemetry::Value {
    match value {
        AttributeValue::Text(text) => text.clone().into(),
        AttributeValue::Number(number) => (*number).into(),
        AttributeValue::Flag(flag) => (*flag).into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use serde_json::{Value, json};
    use telemetry::trace::Tracer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// Starts a collector that returns these responses, then 200, and forwards the head and body of each request.
    async fn start_collector(answers: &[&'static str]) -> (String, mpsc::UnboundedReceiver<(String, Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let (requests, taken) = mpsc::unbounded_channel();
        let mut answers: VecDeque<&'static str> = answers.iter().copied().collect();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = Vec::new();
                let (head, length) = loop {
                    if stream.read_buf(&mut read).await.unwrap_or_default() == 0 {
                        break (String::new(), 0);
                    }
                    let text = String::from_utf8_lossy(&read).into_owned();
                    let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    break (head.to_owned(), length.and_then(|length| length.parse().ok()).unwrap_or(0));
                };
                while read.len() < head.len() + 4 + length {
                    stream.read_buf(&mut read).await.expect("the body");
                }
                let body = serde_json::from_slice(&read[head.len() + 4..]).expect("JSON");
                let answer = answers.pop_front().unwrap_or("200 OK");
                let answer =
                    format!("HTTP/1.1 {answer}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
                stream.write_all(answer.as_bytes()).await.expect("it is read");
                requests.send((head, body)).expect("the test reads");
            }
        });
        (endpoint, taken)
    }

    fn new_exporter(endpoint: &str, spans: &Arc<SpanQueue>) -> OtlpExporter {
        let mut headers = HeaderMap::new();
        headers.insert("x-token", HeaderValue::from_static("hush"));
        let settings =
            TraceCollector { endpoint: endpoint.to_owned(), headers, service_name: "advice".to_owned() };
        OtlpExporter::new(settings, spans.clone()).expect("connections can be made")
    }

    #[tokio::test]
    async fn exporter_sends_spans_as_otlp() {
        let (endpoint, mut taken) = start_collector(&[]).await;
        let spans = SpanQueue::new(1);
        let tracer = Tracer::new(spans.clone());
        let mut request = tracer.start_request(None, "request").expect("it is on");
        request.set_attribute("http.route", "/api/v1/vm");
        request.set_attribute("http.response.status_code", 500_u32);
        request.set_attribute("flag", true);
        request.mark_failed();
        let context = request.context();
        drop(tracer.start_child(Some(context), "inner"));
        drop(request);
        new_exporter(&format!("{endpoint}/"), &spans).export_queued().await;
        let (head, body) = taken.recv().await.expect("a request");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
        assert!(head.contains("content-type: application/json") && head.contains("x-token: hush"), "{head}");
        let spans = &body["resourceSpans"][0];
        let resource = spans["resource"]["attributes"].as_array().expect("attributes");
        let name = json!({ "key": "service.name", "value": { "stringValue": "advice" } });
        assert!(resource.contains(&name), "{resource:?}");
        let [inner, outer] = spans["scopeSpans"][0]["spans"].as_array().expect("spans").as_slice() else {
            panic!("two spans")
        };
        assert_eq!(outer["traceId"], format!("{:032x}", context.trace));
        assert_eq!((&inner["traceId"], &inner["parentSpanId"]), (&outer["traceId"], &outer["spanId"]));
        assert_eq!(
            (&outer["parentSpanId"], &outer["kind"], &inner["kind"]),
            (&json!(""), &json!(2), &json!(1))
        );
        assert_eq!((&outer["status"]["code"], &inner["status"]["code"]), (&json!(2), &json!(0)));
        assert_eq!(
            outer["attributes"],
            json!([
                { "key": "http.route", "value": { "stringValue": "/api/v1/vm" } },
                { "key": "http.response.status_code", "value": { "intValue": "500" } },
                { "key": "flag", "value": { "boolValue": true } },
            ])
        );
        let nanos =
            |span: &Value, at: &str| span[at].as_str().expect("a text").parse::<u64>().expect("a number");
        assert!(nanos(outer, "startTimeUnixNano") <= nanos(outer, "endTimeUnixNano"));
    }

    #[tokio::test(start_paused = true)]
    async fn exporter_retries_busy_drops_refused() {
        let (endpoint, mut taken) = start_collector(&["503 Busy\r\nretry-after: 7", "400 Never"]).await;
        let spans = SpanQueue::new(1);
        let tracer = Tracer::new(spans.clone());
        drop(tracer.start_request(None, "first"));
        let mut exporter = new_exporter(&endpoint, &spans);
        exporter.export_queued().await;
        let (first, again) = (taken.recv().await.expect("one").1, taken.recv().await.expect("another").1);
        assert_eq!(first, again);
        assert_eq!(spans.dropped.get(), 1, "it refused at last");
        drop(tracer.start_request(None, "second"));
        exporter.export_queued().await;
        let second = taken.recv().await.expect("a third").1;
        assert_eq!(second["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "second");
        assert_eq!(spans.dropped.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn exporter_flushes_rest_at_shutdown() {
        let (endpoint, mut taken) = start_collector(&[]).await;
        let spans = SpanQueue::new(1);
        let tracer = Tracer::new(spans.clone());
        for _ in 0..BATCH_MAX + 1 {
            drop(tracer.start_request(None, "request"));
        }
        let over = CancellationToken::new();
        over.cancel();
        new_exporter(&endpoint, &spans).export_until_shutdown(over.clone()).await;
        let mut count = || {
            let (_, body) = taken.try_recv().expect("a request");
            body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map(Vec::len)
        };
        assert_eq!((count(), count()), (Some(BATCH_MAX), Some(1)));
        // The collector has shut down.
        drop(tracer.start_request(None, "request"));
        let started = tokio::time::Instant::now();
        new_exporter("http://127.0.0.1:1", &spans).export_until_shutdown(over).await;
        assert!(started.elapsed() <= SHUTDOWN_TIMEOUT + Duration::from_secs(1), "{:?}", started.elapsed());
    }
}
