//! Traces: the spans of requests and answers that are exported to an OpenTelemetry collector.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use e2e::scripted_vendor::ScriptedVendor;
use e2e::{Expect, HttpRequest, Say, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

use crate::streams::find_shown_text;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0bb902b7";

/// A collector of traces. It lives as long as the test's process.
#[derive(Clone, Default)]
struct Collector {
    address: String,
    /// The heads and bodies of the requests.
    requests: Arc<Mutex<Vec<(String, String)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let collector = Self { address, ..Self::default() };
        let taking = collector.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let taking = taking.clone();
                thread::spawn(move || taking.serve_connection(stream.expect("a connection")));
            }
        });
        collector
    }

    /// Reads requests until the connection ends.
    fn serve_connection(&self, mut stream: TcpStream) {
        let mut read = Vec::new();
        let mut more = [0; 4096];
        while let Ok(count) = stream.read(&mut more) {
            if count == 0 {
                return;
            }
            read.extend_from_slice(&more[..count]);
            let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            if read.len() < end + 4 + length {
                continue;
            }
            let body: Vec<u8> = read.drain(..end + 4 + length).skip(end + 4).collect();
            self.requests.lock().expect("whole").push((head, String::from_utf8(body).expect("text")));
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("it is read");
        }
    }

    /// Returns every span so far.
    fn exported_spans(&self) -> Vec<ExportedSpan> {
        let requests = self.requests.lock().expect("whole");
        let bodies = requests.iter().map(|(_, body)| serde_json::from_str::<Value>(body).expect("JSON"));
        bodies.flat_map(|body| parse_spans(&body)).collect()
    }

    /// Returns all requests unparsed.
    fn raw_requests(&self) -> String {
        let requests = self.requests.lock().expect("whole");
        requests.iter().map(|(_, body)| body.as_str()).collect()
    }
}

#[derive(Debug, Clone)]
struct ExportedSpan {
    trace: String,
    id: String,
    parent: String,
    name: String,
    kind: u64,
    begun: u64,
    ended: u64,
    attributes: BTreeMap<String, String>,
    failed: bool,
}

/// Parses the JSON encoding of `ExportTraceServiceRequest`.
fn parse_spans(body: &Value) -> Vec<ExportedSpan> {
    let mut spans = Vec::new();
    for resource in body["resourceSpans"].as_array().expect("a list") {
        let attributes = resource["resource"]["attributes"].as_array().expect("a list");
        let name = attributes.iter().find(|attribute| attribute["key"] == "service.name");
        assert_eq!(name.map(|name| &name["value"]["stringValue"]), Some(&json!("advice")));
        for scope in resource["scopeSpans"].as_array().expect("a list") {
            spans.extend(scope["spans"].as_array().expect("a list").iter().map(read_span));
        }
    }
    spans
}

fn read_span(span: &Value) -> ExportedSpan {
    let text = |field: &str| span[field].as_str().expect("a text").to_owned();
    let hex = |field: &str, digits: usize| {
        let text = text(field);
        assert!(text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{field}: {text}");
        text
    };
    let nanos = |field: &str| text(field).parse::<u64>().expect("a number as text");
    let attributes = span["attributes"].as_array().expect("a list").iter().map(|attribute| {
        let value = attribute["value"].as_object().expect("an object");
        let (kind, value) = value.iter().next().expect("one value");
        let value = match kind.as_str() {
            "stringValue" => value.as_str().expect("a text").to_owned(),
            "intValue" => value.as_str().expect("a text").parse::<i64>().expect("a number").to_string(),
            _ => value.as_bool().expect("yes or no").to_string(),
        };
        (attribute["key"].as_str().expect("a name").to_owned(), value)
    });
    let exported = ExportedSpan {
        trace: hex("traceId", 32),
        id: hex("spanId", 16),
        parent: if span["parentSpanId"] == "" { String::new() } else { hex("parentSpanId", 16) },
        name: text("name"),
        kind: span["kind"].as_u64().expect("a number"),
        begun: nanos("startTimeUnixNano"),
        ended: nanos("endTimeUnixNano"),
        attributes: attributes.collect(),
        failed: span["status"]["code"] == 2,
    };
    assert!(exported.begun <= exported.ended, "{exported:?}");
    exported
}

fn start_traced_service(vendor: &ScriptedVendor, collector: &Collector) -> TestService {
    let mut environment = vendor.service_environment();
    for (name, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address)),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-token=a%20token".to_owned()),
        ("OTEL_SERVICE_NAME", "advice".to_owned()),
    ] {
        environment.push((name.to_owned(), value));
    }
    TestService::start(ServiceOptions { environment, ..ServiceOptions::default() })
}

#[test]
fn answer_trace_survives_restart() {
    let (vendor, collector) = (ScriptedVendor::start(), Collector::start());
    let mut service = start_traced_service(&vendor, &collector);
    let account = service.create_account();
    let api = service.api_for(&account);
    api.upload_file("petunia.txt", b"The code word is heron.").expect_status(201);
    let list = Say::Call { tool: "list".to_owned(), arguments: json!({ "path": "/uploads" }) };
    vendor.add_script([Say::from_text("A wombat "), list]);
    vendor.add_script([Say::from_text("said in va"), Say::Hold]);
    let asked = HttpRequest::new("POST", "/api/v1/chats")
        .with_header("x-api-key", &account.key)
        .with_header("traceparent", &format!("00-{TRACE}-{CLIENT}-01"))
        .with_body(json!({ "input": "Which marmot?", "filePaths": ["/uploads/petunia.txt"] }).to_string())
        .send(service.address());
    let answer = asked.expect_status(202).json();
    find_shown_text(&mut api.stream_answer(&answer), "A wombat \n\nsaid in va");
    service.terminate();
    vendor.add_script([Say::from_text("A marmot.")]);
    service.restart();
    let api = service.api_for(&account);
    api.wait_for_completion(&answer);
    let spans = poll::wait_until("the answer's spans are exported", || {
        let spans: Vec<ExportedSpan> =
            collector.exported_spans().into_iter().filter(|span| span.trace == TRACE).collect();
        // The spans of its work are exported last.
        (spans.iter().filter(|span| span.name == "work on answer").count() == 2).then_some(spans)
    });
    let named = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let one = |name: &str| match named(name)[..] {
        [one] => one,
        ref others => panic!("{name}: {others:?}"),
    };
    let (request, accept, whole) = (one("POST /api/v1/chats"), one("accept question"), one("answer"));
    assert_eq!((request.parent.as_str(), request.kind), (CLIENT, 2));
    assert_eq!(request.attributes["http.response.status_code"], "202");
    assert_eq!((&accept.parent, &whole.parent), (&request.id, &accept.id));
    assert_eq!(whole.attributes["causerie.answer.outcome"], "done");
    let works = named("work on answer");
    assert!(
        works.iter().all(|work| work.parent == whole.id && work.begun >= whole.begun),
        "{whole:?} {works:?}"
    );
    for name in ["reach machine", "model step", "tool call", "complete answer"] {
        let spans = named(name);
        assert!(!spans.is_empty(), "{name}");
        assert!(
            spans.iter().all(|span| works.iter().any(|work| work.id == span.parent)),
            "{name}: {spans:?}"
        );
    }
    let (steps, calls) = (named("model step"), named("tool call"));
    assert_eq!(steps.len(), 3, "two steps, the second one started twice: {steps:?}");
    let committed: Vec<_> =
        steps.iter().filter(|step| step.attributes.contains_key("gen_ai.usage.output_tokens")).collect();
    assert!(committed.len() == 2 && steps.iter().all(|step| step.kind == 3), "{steps:?}");
    assert!(steps.iter().all(|step| !step.attributes["gen_ai.request.model"].is_empty()));
    let tools: Vec<_> = calls.iter().map(|call| call.attributes["gen_ai.tool.name"].as_str()).collect();
    assert_eq!(tools, ["attached_files", "list"]);
    assert!(calls.iter().all(|call| !call.failed), "{calls:?}");
    let raw = collector.raw_requests();
    for secret in ["marmot", "wombat", "petunia", "heron", account.key.as_str(), "a token", &account.email] {
        assert!(!raw.contains(secret), "the spans contain {secret}");
    }
    let heads = collector.requests.lock().expect("whole");
    assert!(heads.iter().all(|(head, _)| {
        head.starts_with("POST /v1/traces HTTP/1.1") && head.contains("x-token: a token")
    }));
}

#[test]
fn stalled_collector_delays_nobody() {
    let (vendor, mut collector) = (ScriptedVendor::start(), Collector::default());
    // It accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    collector.address = silent.local_addr().expect("an address").to_string();
    let mut service = start_traced_service(&vendor, &collector);
    let api = service.api_for(&service.create_account());
    api.wait_for_completion(&api.ask_question("Go on"));
    // The final export has a time limit, within which the service exits.
    service.terminate();
    drop(silent);
}
