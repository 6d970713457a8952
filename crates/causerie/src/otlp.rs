//! Exports spans to a collector: OTLP over HTTP, as JSON.
//!
//! See <https://opentelemetry.io/docs/specs/otlp/> and its JSON mapping. Few fields and one POST are needed, so this is
//! written here; existing libraries bring a second HTTP stack, gRPC and their own queues.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Client, Response, redirect};
use serde_json::{Value, json};
use telemetry::trace::{Finished, Side, Spans, Value as Told};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::settings::Otlp;

/// The export interval.
const EVERY: Duration = Duration::from_secs(1);
/// Spans of one request.
const BATCH_MAX: usize = 512;
/// The timeout of one export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of attempts and the first delay between them; the delay doubles unless the collector sets another.
const ATTEMPTS_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// The longest that a collector may have us wait.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The maximum wait for the collector at shutdown.
const FAREWELL: Duration = Duration::from_secs(3);
/// The part of the collector's response that is read, so that the connection can be reused.
const ANSWER_MAX_BYTES: usize = 64 << 10;

/// Brings spans to a collector.
pub(crate) struct Exporter {
    spans: Arc<Spans>,
    client: Client,
    url: String,
    headers: HeaderMap,
    resource: Value,
    /// On its way; kept until the collector has it or it is given up.
    batch: Vec<Finished>,
    /// True if the last export failed.
    failing: bool,
}

/// The reason why an export failed.
enum Refusal {
    /// It may take it later, after so long if it said so.
    Later(String, Option<Duration>),
    /// It never will.
    Never(String),
}

impl Exporter {
    /// Brings what waits in `spans` there; `None` when connections can't be made here.
    pub(crate) fn new(settings: Otlp, spans: Arc<Spans>) -> Option<Self> {
        // Whoever installed a provider first has installed this one: the build has no other.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("causerie/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(TIMEOUT)
            .http1_only();
        let encrypted = settings.endpoint.starts_with("https:");
        let builder = if encrypted { builder.https_only(true) } else { builder.tls_certs_only([]) };
        let client =
            builder.build().inspect_err(|error| tracing::error!(%error, "traces can't be exported")).ok()?;
        let mut headers = settings.headers;
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Some(Self {
            spans,
            client,
            url: format!("{}/v1/traces", settings.endpoint.trim_end_matches('/')),
            headers,
            resource: json!({ "attributes": [
                attribute("service.name", json!({ "stringValue": settings.service_name })),
                attribute("service.version", json!({ "stringValue": env!("CARGO_PKG_VERSION") })),
            ]}),
            batch: Vec::new(),
            failing: false,
        })
    }

    /// Brings spans to the collector until the service is over; then, for a while, those that are left.
    pub(crate) async fn run(mut self, over: CancellationToken) {
        let always = async {
            loop {
                sleep(EVERY).await;
                self.bring().await;
            }
        };
        over.run_until_cancelled(always).await;
        if timeout(FAREWELL, self.bring()).await.is_err() {
            tracing::warn!(collector = self.url, "traces were left: the collector takes too long");
        }
    }

    /// Brings all that waits.
    async fn bring(&mut self) {
        loop {
            if self.batch.is_empty() {
                self.batch = self.spans.take(BATCH_MAX);
            }
            if self.batch.is_empty() {
                return;
            }
            self.bring_batch().await;
            self.batch.clear();
        }
    }

    /// Brings the batch or gives it up.
    async fn bring_batch(&mut self) {
        let body = body(&self.resource, &self.batch).to_string();
        let mut attempt = 1;
        let reason = loop {
            match self.post(body.clone()).await {
                Ok(()) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!(collector = self.url, "traces are exported again");
                    }
                    return;
                }
                Err(Refusal::Later(_, wait)) if attempt < ATTEMPTS_MAX => {
                    let pause = wait.unwrap_or(PAUSE * 2_u32.pow(attempt - 1));
                    sleep(pause.min(PAUSE_MAX)).await;
                    attempt += 1;
                }
                Err(Refusal::Later(reason, _) | Refusal::Never(reason)) => break reason,
            }
        };
        self.spans.dropped.add(self.batch.len() as u64);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(
                collector = self.url,
                reason,
                "traces are dropped: the collector does not take them"
            );
        }
    }

    async fn post(&self, body: String) -> Result<(), Refusal> {
        let request = self.client.post(&self.url).headers(self.headers.clone()).body(body);
        let response = request.send().await;
        let response = response.map_err(|error| Refusal::Later(error.without_url().to_string(), None))?;
        let status = response.status();
        let wait = response.headers().get(header::RETRY_AFTER);
        let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        drain(response).await;
        match status {
            status if status.is_success() => Ok(()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Refusal::Later(status.to_string(), wait)),
            status => Err(Refusal::Never(status.to_string())),
        }
    }
}

async fn drain(mut response: Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > ANSWER_MAX_BYTES {
            return;
        }
    }
}

/// The message `ExportTraceServiceRequest`.
fn body(resource: &Value, spans: &[Finished]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    let scope = json!({ "name": "causerie", "version": env!("CARGO_PKG_VERSION") });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "scope": scope, "spans": spans }] }] })
}

fn span(told: &Finished) -> Value {
    let kind = match told.side {
        Side::Internal => 1,
        Side::Server => 2,
        Side::Client => 3,
    };
    let attributes: Vec<Value> =
        told.attributes.iter().map(|(name, told)| attribute(name, value(told))).collect();
    json!({
        "traceId": format!("{:032x}", told.context.trace),
        "spanId": format!("{:016x}", told.context.span),
        "parentSpanId": told.parent.map(|parent| format!("{parent:016x}")).unwrap_or_default(),
        "name": told.name,
        "kind": kind,
        "startTimeUnixNano": told.begun_nanos.to_string(),
        "endTimeUnixNano": told.ended_nanos.to_string(),
        "attributes": attributes,
        "status": if told.failed { json!({ "code": 2 }) } else { json!({}) },
    })
}

fn attribute(name: &str, value: Value) -> Value {
    json!({ "key": name, "value": value })
}

/// Of 64 bits, numbers are texts in this JSON.
fn value(told: &Told) -> Value {
    match told {
        Told::Text(text) => json!({ "stringValue": text }),
        Told::Number(number) => json!({ "intValue": number.to_string() }),
        Told::Flag(flag) => json!({ "boolValue": flag }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use telemetry::trace::Tracer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// A collector that answers each request with the next of these, then with 200, and hands on head and body.
    async fn collector(answers: &[&'static str]) -> (String, mpsc::UnboundedReceiver<(String, Value)>) {
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

    fn exporter(endpoint: &str, spans: &Arc<Spans>) -> Exporter {
        let mut headers = HeaderMap::new();
        headers.insert("x-token", HeaderValue::from_static("hush"));
        let settings = Otlp { endpoint: endpoint.to_owned(), headers, service_name: "advice".to_owned() };
        Exporter::new(settings, spans.clone()).expect("connections can be made")
    }

    #[tokio::test]
    async fn spans_come_to_the_collector_in_the_form_of_the_protocol() {
        let (endpoint, mut taken) = collector(&[]).await;
        let spans = Spans::new(1);
        let tracer = Tracer::new(spans.clone());
        let mut request = tracer.request(None, "request").expect("it is on");
        request.set("http.route", "/api/v1/vm");
        request.set("http.response.status_code", 500_u32);
        request.set("flag", true);
        request.fail();
        let context = request.context();
        drop(tracer.span(Some(context), "inner"));
        drop(request);
        exporter(&format!("{endpoint}/"), &spans).bring().await;
        let (head, body) = taken.recv().await.expect("a request");
        assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
        assert!(head.contains("content-type: application/json") && head.contains("x-token: hush"), "{head}");
        let told = &body["resourceSpans"][0];
        assert_eq!(
            told["resource"]["attributes"][0],
            json!({ "key": "service.name", "value": { "stringValue": "advice" } })
        );
        let [inner, outer] = told["scopeSpans"][0]["spans"].as_array().expect("spans").as_slice() else {
            panic!("two spans")
        };
        assert_eq!(outer["traceId"], format!("{:032x}", context.trace));
        assert_eq!((&inner["traceId"], &inner["parentSpanId"]), (&outer["traceId"], &outer["spanId"]));
        assert_eq!(
            (&outer["parentSpanId"], &outer["kind"], &inner["kind"]),
            (&json!(""), &json!(2), &json!(1))
        );
        assert_eq!((&outer["status"], &inner["status"]), (&json!({ "code": 2 }), &json!({})));
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
    async fn a_collector_that_is_busy_gets_them_later_and_one_that_refuses_loses_them() {
        let (endpoint, mut taken) = collector(&["503 Busy\r\nretry-after: 7", "400 Never"]).await;
        let spans = Spans::new(1);
        let tracer = Tracer::new(spans.clone());
        drop(tracer.request(None, "first"));
        let mut exporter = exporter(&endpoint, &spans);
        exporter.bring().await;
        let (first, again) = (taken.recv().await.expect("one").1, taken.recv().await.expect("another").1);
        assert_eq!(first, again);
        assert_eq!(spans.dropped.get(), 1, "it refused at last");
        drop(tracer.request(None, "second"));
        exporter.bring().await;
        let second = taken.recv().await.expect("a third").1;
        assert_eq!(second["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "second");
        assert_eq!(spans.dropped.get(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_brings_what_is_left_and_does_not_wait_for_ever() {
        let (endpoint, mut taken) = collector(&[]).await;
        let spans = Spans::new(1);
        let tracer = Tracer::new(spans.clone());
        for _ in 0..BATCH_MAX + 1 {
            drop(tracer.request(None, "request"));
        }
        let over = CancellationToken::new();
        over.cancel();
        exporter(&endpoint, &spans).run(over.clone()).await;
        let mut count = || {
            let (_, body) = taken.try_recv().expect("a request");
            body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map(Vec::len)
        };
        assert_eq!((count(), count()), (Some(BATCH_MAX), Some(1)));
        // Nobody listens there.
        drop(tracer.request(None, "request"));
        let begun = tokio::time::Instant::now();
        exporter("http://127.0.0.1:1", &spans).run(over).await;
        assert!(begun.elapsed() <= FAREWELL + Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
