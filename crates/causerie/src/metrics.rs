//! `GET /metrics`: exposes the metrics of this process to Prometheus. `docs/operations.md` lists each of them; a test
//! checks that. Label values are constants, names of the operator's catalog, or HTTP numbers: never client data.

use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use control::{JobCounts, ProbeError, Service};
use domain::machine::MachineStatus;
use http_common::RateLimiter;
use telemetry::MetricKind::{Counter, Gauge, Histogram};
use telemetry::trace::SpanQueue;
use telemetry::{Metric, MetricKind, TextEncoder};

use crate::log;

/// The path of the metrics.
pub(crate) const METRICS: &str = "/metrics";

/// The sources of the metrics.
#[derive(Clone)]
pub(crate) struct Sources {
    pub(crate) service: Arc<Service>,
    pub(crate) guard: Arc<RateLimiter>,
    pub(crate) requests: Arc<api::ApiMetrics>,
    pub(crate) spans: Option<Arc<SpanQueue>>,
    /// The service itself speaks HTTPS.
    pub(crate) tls: bool,
}

const fn metric(name: &'static str, kind: MetricKind, help: &'static str) -> Metric {
    Metric { name, kind, help }
}

const BUILD: Metric = metric("causerie_build_info", Gauge, "1, with the version of the program.");
const REQUESTS: Metric =
    metric("causerie_requests_total", Counter, "Requests to the interface, by operation and status.");
const REQUEST_SECONDS: Metric =
    metric("causerie_request_duration_seconds", Histogram, "Time to the response headers, by operation.");
const REFUSED: Metric =
    metric("causerie_rate_limited_total", Counter, "Requests rejected by a rate limit, by limit.");
const OVER_BUDGET: Metric = metric(
    "causerie_over_budget_total",
    Counter,
    "Requests rejected, or responses sent uncompressed, because a budget was exhausted, by budget.",
);
const STREAMS: Metric = metric("causerie_streams_open", Gauge, "Open event streams, by kind.");
const ANSWERS: Metric =
    metric("causerie_answers_total", Counter, "Answers completed by this process, by outcome.");
const ANSWER_FAILURES: Metric =
    metric("causerie_answers_failed_total", Counter, "Failed answers, by the code of their error.");
const ANSWER_SECONDS: Metric =
    metric("causerie_answer_duration_seconds", Histogram, "Time from the question to the end of the answer.");
const FIRST_WORD: Metric = metric(
    "causerie_time_to_first_token_seconds",
    Histogram,
    "Time from the question to the first text of the answer or its reasoning.",
);
const IN_PROGRESS: Metric =
    metric("causerie_answers_in_progress", Gauge, "Answers in progress in this process.");
const OPEN: Metric =
    metric("causerie_answers_open", Gauge, "Answers in progress or waiting, from the database.");
const VENDOR_UP: Metric = metric(
    "causerie_vendor_up",
    Gauge,
    "Whether a vendor lists its models and refuses no calls for the key or for money, by vendor.",
);
const VENDOR_FAILURES: Metric = metric(
    "causerie_vendor_failures_total",
    Counter,
    "Failed model discoveries, and calls refused for the key or for money, by vendor and cause.",
);
const TOKENS: Metric = metric("causerie_tokens_total", Counter, "Tokens that models read and wrote.");
const CREDITS: Metric = metric("causerie_credits_settled_total", Counter, "Credits settled for model steps.");
const EMBEDDED: Metric = metric(
    "causerie_embedded_passages_total",
    Counter,
    "Passages of documents sent to the model of embeddings, by outcome.",
);
const EMBEDDING_FAILURES: Metric = metric(
    "causerie_embedding_failures_total",
    Counter,
    "Requests for embeddings that failed or were not made, by cause.",
);
const SEARCHES: Metric = metric(
    "causerie_searches_total",
    Counter,
    "Searches of documents while embeddings are configured, by what they searched with.",
);
const MACHINES: Metric = metric("causerie_machines", Gauge, "Machines in use, by state and driver.");
const STORE_SECONDS: Metric = metric(
    "causerie_store_operation_duration_seconds",
    Histogram,
    "Duration of database operations including the queue; of writes until they are durable.",
);
const STORE_WAITING: Metric =
    metric("causerie_store_queue_length", Gauge, "Callers waiting for a database thread.");
const STORE_GROUP: Metric =
    metric("causerie_store_commit_batch_size", Histogram, "Writes in one SQLite commit.");
const JOBS: Metric = metric(
    "causerie_jobs",
    Gauge,
    "Background jobs that wait, run or have failed, by kind, by the database.",
);
const JOB_RUNS: Metric =
    metric("causerie_job_runs_total", Counter, "Background jobs that this process ran, by kind and outcome.");
const JOB_SECONDS: Metric =
    metric("causerie_job_duration_seconds", Histogram, "Time of runs of background jobs, by kind.");
const LOG_DROPPED: Metric = metric(
    "causerie_log_lines_dropped_total",
    Counter,
    "Log lines dropped because the consumer was too slow.",
);
const SPANS_DROPPED: Metric = metric(
    "causerie_spans_dropped_total",
    Counter,
    "Spans dropped because the collector did not accept them.",
);
const CPU: Metric = metric("process_cpu_seconds_total", Counter, "CPU time of this process.");
const MEMORY: Metric = metric("process_resident_memory_bytes", Gauge, "Resident memory of this process.");
const FILES: Metric = metric("process_open_fds", Gauge, "Open file descriptors of this process.");
const FILES_MAX: Metric = metric("process_max_fds", Gauge, "Limit of open file descriptors of this process.");
const THREADS: Metric = metric("process_threads", Gauge, "Threads of this process.");

/// Responds with the current metrics.
pub(crate) async fn show(State(sources): State<Sources>) -> impl IntoResponse {
    let open = sources.service.answers_open().await;
    let counted = sources.service.job_counts().await;
    let mut page = TextEncoder::default();
    page.metric(&BUILD).value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    requests(&mut page, &sources);
    answers(&mut page, &sources.service);
    // A value that cannot be read is omitted, because no value is better than a wrong one.
    if let Ok(open) = open {
        page.metric(&OPEN).value(&[], open);
    }
    vendors(&mut page, &sources.service);
    embeddings(&mut page, &sources.service);
    machines(&mut page, &sources.service);
    store(&mut page, &sources.service);
    jobs(&mut page, &sources.service, counted.ok());
    page.metric(&LOG_DROPPED).value(&[], log::dropped());
    if let Some(spans) = &sources.spans {
        page.metric(&SPANS_DROPPED).value(&[], spans.dropped.get());
    }
    process(&mut page);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page.finish())
}

fn requests(page: &mut TextEncoder, sources: &Sources) {
    let mut counted = page.metric(&REQUESTS);
    for (operation, status, count) in sources.requests.requests().filter(|(.., count)| *count > 0) {
        counted.value(&[("operation", operation), ("status", &status)], count);
    }
    let mut took = page.metric(&REQUEST_SECONDS);
    for (operation, histogram) in sources.requests.durations().filter(|(_, took)| took.count() > 0) {
        took.histogram(&[("operation", operation)], histogram);
    }
    let refused = &sources.guard.refused;
    page.metric(&REFUSED)
        .value(&[("limit", "key")], refused.per_key.get())
        .value(&[("limit", "address")], refused.per_address.get())
        .value(&[("limit", "failed_keys")], refused.failed_keys.get());
    let budgets = &sources.guard.budgets;
    page.metric(&OVER_BUDGET)
        .value(&[("budget", "requests")], budgets.requests.refused.get())
        .value(&[("budget", "transfers")], budgets.transfers.refused.get())
        .value(&[("budget", "body_bytes")], budgets.body_bytes.refused.get())
        .value(&[("budget", "stranger_bytes")], budgets.stranger_bytes.refused.get())
        .value(&[("budget", "compressed")], budgets.compressed.refused.get())
        .value(&[("budget", "heads")], budgets.heads.refused.get());
    page.metric(&STREAMS)
        .value(&[("kind", "answer")], sources.requests.answer_streams.get())
        .value(&[("kind", "chat")], sources.requests.chat_streams.get());
}

fn answers(page: &mut TextEncoder, service: &Service) {
    let metrics = service.metrics();
    page.metric(&ANSWERS)
        .value(&[("outcome", "done")], metrics.done.get())
        .value(&[("outcome", "stopped")], metrics.stopped.get())
        .value(&[("outcome", "failed")], metrics.failed.get());
    let mut failures = page.metric(&ANSWER_FAILURES);
    for (code, count) in metrics.failures() {
        failures.value(&[("code", code.as_str())], count);
    }
    page.metric(&ANSWER_SECONDS).histogram(&[], &metrics.whole);
    page.metric(&FIRST_WORD).histogram(&[], &metrics.first_word);
    page.metric(&IN_PROGRESS).value(&[], service.turns());
    let mut tokens = page.metric(&TOKENS);
    for (model, used) in metrics.tokens() {
        tokens.value(&[("model", &model), ("direction", "in")], used.input);
        tokens.value(&[("model", &model), ("direction", "out")], used.output);
    }
    page.metric(&CREDITS).value(&[], metrics.credits.get());
}

fn vendors(page: &mut TextEncoder, service: &Service) {
    let vendors = service.vendors();
    let mut up = page.metric(&VENDOR_UP);
    for vendor in &vendors {
        up.value(&[("vendor", vendor.provider.as_str())], u8::from(vendor.up == Some(true)));
    }
    let mut failures = page.metric(&VENDOR_FAILURES);
    for vendor in &vendors {
        for (trouble, count) in ProbeError::ALL.iter().zip(vendor.failures) {
            let labels = [("vendor", vendor.provider.as_str()), ("cause", trouble.as_str())];
            failures.value(&labels, count);
        }
    }
}

fn embeddings(page: &mut TextEncoder, service: &Service) {
    let Some(metrics) = service.embedding_metrics() else { return };
    page.metric(&EMBEDDED)
        .value(&[("outcome", "embedded")], metrics.passages.get())
        .value(&[("outcome", "rejected")], metrics.rejected.get());
    page.metric(&EMBEDDING_FAILURES)
        .value(&[("cause", "vendor")], metrics.failures.get())
        .value(&[("cause", "credits")], metrics.no_credits.get());
    page.metric(&SEARCHES)
        .value(&[("with", "words_and_vectors")], metrics.queries.get())
        .value(&[("with", "words")], metrics.words_alone.get());
}

fn machines(page: &mut TextEncoder, service: &Service) {
    let (states, driver) = service.machine_states();
    // Without the driver's findings on this host.
    let driver = driver.split_whitespace().next().unwrap_or_default();
    let mut machines = page.metric(&MACHINES);
    for state in
        [MachineStatus::Running, MachineStatus::Starting, MachineStatus::Stopping, MachineStatus::Stopped]
    {
        let count = states.iter().filter(|one| **one == state).count();
        machines.value(&[("state", state.as_str()), ("driver", driver)], count);
    }
}

fn store(page: &mut TextEncoder, service: &Service) {
    let (metrics, waiting) = service.store_metrics();
    page.metric(&STORE_SECONDS)
        .histogram(&[("operation", "read")], &metrics.reads)
        .histogram(&[("operation", "write")], &metrics.writes);
    page.metric(&STORE_WAITING)
        .value(&[("operation", "read")], waiting.reads)
        .value(&[("operation", "write")], waiting.writes);
    page.metric(&STORE_GROUP).histogram(&[], &metrics.group);
}

/// Writes the jobs that the database counts, if available, and their runs in this process.
fn jobs(page: &mut TextEncoder, service: &Service, counted: Option<Vec<JobCounts>>) {
    if let Some(counted) = counted {
        let mut jobs = page.metric(&JOBS);
        for counts in counted {
            jobs.value(&[("kind", counts.kind), ("state", "waiting")], counts.waiting)
                .value(&[("kind", counts.kind), ("state", "running")], counts.running)
                .value(&[("kind", counts.kind), ("state", "failed")], counts.failed);
        }
    }
    let ran = || service.job_metrics().kinds().iter().filter(|metrics| metrics.took.count() > 0);
    let mut runs = page.metric(&JOB_RUNS);
    for metrics in ran() {
        runs.value(&[("kind", metrics.kind), ("outcome", "done")], metrics.done.get())
            .value(&[("kind", metrics.kind), ("outcome", "retried")], metrics.retried.get())
            .value(&[("kind", metrics.kind), ("outcome", "failed")], metrics.failed.get());
    }
    let mut took = page.metric(&JOB_SECONDS);
    for metrics in ran() {
        took.histogram(&[("kind", metrics.kind)], &metrics.took);
    }
}

/// Writes process metrics from `/proc`.
fn process(page: &mut TextEncoder) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name may contain anything and ends with the last parenthesis; the third field follows.
    let fields: Vec<u64> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
        .unwrap_or_default();
    if let [_, _, _, _, _, _, _, _, _, _, _, user, system, _, _, _, _, threads, _, _, _, resident, ..] =
        fields[..]
    {
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        page.metric(&CPU).value(&[], (user + system) as f64 / ticks);
        page.metric(&MEMORY).value(&[], resident * rustix::param::page_size() as u64);
        page.metric(&THREADS).value(&[], threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        page.metric(&FILES).value(&[], open.count());
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        page.metric(&FILES_MAX).value(&[], most);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const ALL: [&Metric; 33] = [
        &BUILD,
        &REQUESTS,
        &REQUEST_SECONDS,
        &REFUSED,
        &OVER_BUDGET,
        &STREAMS,
        &ANSWERS,
        &ANSWER_FAILURES,
        &ANSWER_SECONDS,
        &FIRST_WORD,
        &IN_PROGRESS,
        &OPEN,
        &VENDOR_UP,
        &VENDOR_FAILURES,
        &TOKENS,
        &CREDITS,
        &EMBEDDED,
        &EMBEDDING_FAILURES,
        &SEARCHES,
        &MACHINES,
        &STORE_SECONDS,
        &STORE_WAITING,
        &STORE_GROUP,
        &JOBS,
        &JOB_RUNS,
        &JOB_SECONDS,
        &LOG_DROPPED,
        &SPANS_DROPPED,
        &CPU,
        &MEMORY,
        &FILES,
        &FILES_MAX,
        &THREADS,
    ];

    #[test]
    fn the_page_for_operators_tells_of_each_metric_and_no_other() {
        let page = include_str!("../../../docs/operations.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let exposed: BTreeSet<&str> =
            rows.filter(|name| name.starts_with("causerie_") || name.starts_with("process_")).collect();
        assert_eq!(exposed, ALL.iter().map(|metric| metric.name).collect());
        let source = include_str!("metrics.rs");
        assert_eq!(source.matches(": Metric =").count(), ALL.len() + 1, "each is in the list above");
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let mut page = TextEncoder::default();
        process(&mut page);
        let text = page.finish();
        for name in [CPU.name, MEMORY.name, FILES.name, THREADS.name] {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0 || name == CPU.name), "{name} in {text}");
        }
    }
}
