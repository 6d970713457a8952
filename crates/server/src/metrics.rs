//! `GET /metrics`: exposes the metrics of this process to Prometheus. `docs/operations.md` lists each of them; a test
//! checks that. Label values are constants, names of the operator's catalog, or HTTP numbers: never client data.

use std::fs;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use control::{CauserieService, JobKindTotals, ProbeError};
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
pub struct MetricSources {
    pub service: Arc<CauserieService>,
    pub guard: Arc<RateLimiter>,
    pub requests: Arc<api::ApiMetrics>,
    pub spans: Option<Arc<SpanQueue>>,
    /// The service itself speaks HTTPS.
    pub tls: bool,
}

const fn define_metric(name: &'static str, kind: MetricKind, help: &'static str) -> Metric {
    Metric { name, kind, help }
}

const BUILD: Metric = define_metric("causerie_build_info", Gauge, "1, with the version of the program.");
const REQUESTS: Metric =
    define_metric("causerie_requests_total", Counter, "Requests to the interface, by operation and status.");
const REQUEST_SECONDS: Metric = define_metric(
    "causerie_request_duration_seconds",
    Histogram,
    "Time to the response headers, by operation.",
);
const REFUSED: Metric =
    define_metric("causerie_rate_limited_total", Counter, "Requests rejected by a rate limit, by limit.");
const OVER_BUDGET: Metric = define_metric(
    "causerie_over_budget_total",
    Counter,
    "Requests rejected, or responses sent uncompressed, because a budget was exhausted, by budget.",
);
const STREAMS: Metric = define_metric("causerie_streams_open", Gauge, "Open event streams, by kind.");
const ANSWERS: Metric =
    define_metric("causerie_answers_total", Counter, "Answers completed by this process, by outcome.");
const ANSWER_FAILURES: Metric =
    define_metric("causerie_answers_failed_total", Counter, "Failed answers, by the code of their error.");
const ANSWER_SECONDS: Metric = define_metric(
    "causerie_answer_duration_seconds",
    Histogram,
    "Time from the question to the end of the answer.",
);
const FIRST_WORD: Metric = define_metric(
    "causerie_time_to_first_token_seconds",
    Histogram,
    "Time from the question to the first text of the answer or its reasoning.",
);
const IN_PROGRESS: Metric =
    define_metric("causerie_answers_in_progress", Gauge, "Answers in progress in this process.");
const OPEN: Metric =
    define_metric("causerie_answers_open", Gauge, "Answers in progress or waiting, from the database.");
const VENDOR_UP: Metric = define_metric(
    "causerie_vendor_up",
    Gauge,
    "Whether a vendor lists its models and refuses no calls for the key or for money, by vendor.",
);
const VENDOR_FAILURES: Metric = define_metric(
    "causerie_vendor_failures_total",
    Counter,
    "Failed model discoveries, and calls refused for the key or for money, by vendor and cause.",
);
const TOKENS: Metric = define_metric("causerie_tokens_total", Counter, "Tokens that models read and wrote.");
const CREDITS: Metric =
    define_metric("causerie_credits_settled_total", Counter, "Credits settled for model steps.");
const EMBEDDED: Metric = define_metric(
    "causerie_embedded_passages_total",
    Counter,
    "Passages of documents sent to the model of embeddings, by outcome.",
);
const EMBEDDING_FAILURES: Metric = define_metric(
    "causerie_embedding_failures_total",
    Counter,
    "Requests for embeddings that failed or were not made, by cause.",
);
const SEARCHES: Metric = define_metric(
    "causerie_searches_total",
    Counter,
    "Searches of documents while embeddings are configured, by what they searched with.",
);
const MACHINES: Metric = define_metric("causerie_machines", Gauge, "Machines in use, by state and driver.");
const STORE_SECONDS: Metric = define_metric(
    "causerie_store_operation_duration_seconds",
    Histogram,
    "Duration of database operations including the queue; of writes until they are durable.",
);
const STORE_WAITING: Metric =
    define_metric("causerie_store_queue_length", Gauge, "Callers waiting for a database thread.");
const STORE_GROUP: Metric =
    define_metric("causerie_store_commit_batch_size", Histogram, "Writes in one SQLite commit.");
const JOBS: Metric = define_metric(
    "causerie_jobs",
    Gauge,
    "Background jobs that wait, run or have failed, by kind, by the database.",
);
const JOB_RUNS: Metric = define_metric(
    "causerie_job_runs_total",
    Counter,
    "Background jobs that this process ran, by kind and outcome.",
);
const JOB_SECONDS: Metric =
    define_metric("causerie_job_duration_seconds", Histogram, "Time of runs of background jobs, by kind.");
const LOG_DROPPED: Metric = define_metric(
    "causerie_log_lines_dropped_total",
    Counter,
    "Log lines dropped because the consumer was too slow.",
);
const SPANS_DROPPED: Metric = define_metric(
    "causerie_spans_dropped_total",
    Counter,
    "Spans dropped because the collector did not accept them.",
);
const CPU: Metric = define_metric("process_cpu_seconds_total", Counter, "CPU time of this process.");
const MEMORY: Metric =
    define_metric("process_resident_memory_bytes", Gauge, "Resident memory of this process.");
const FILES: Metric = define_metric("process_open_fds", Gauge, "Open file descriptors of this process.");
const FILES_MAX: Metric =
    define_metric("process_max_fds", Gauge, "Limit of open file descriptors of this process.");
const THREADS: Metric = define_metric("process_threads", Gauge, "Threads of this process.");

/// Responds with the current metrics.
pub(crate) async fn show_metrics(State(sources): State<MetricSources>) -> impl IntoResponse {
    let open = sources.service.answers_open().await;
    let counted = sources.service.job_counts().await;
    let mut page = TextEncoder::default();
    page.start_metric(&BUILD).write_value(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    write_request_metrics(&mut page, &sources);
    write_answer_metrics(&mut page, &sources.service);
    // A value that cannot be read is omitted, because no value is better than a wrong one.
    if let Ok(open) = open {
        page.start_metric(&OPEN).write_value(&[], open);
    }
    write_vendor_metrics(&mut page, &sources.service);
    write_embedding_metrics(&mut page, &sources.service);
    write_machine_metrics(&mut page, &sources.service);
    write_store_metrics(&mut page, &sources.service);
    write_job_metrics(&mut page, &sources.service, counted.ok());
    page.start_metric(&LOG_DROPPED).write_value(&[], log::dropped_lines());
    if let Some(spans) = &sources.spans {
        page.start_metric(&SPANS_DROPPED).write_value(&[], spans.dropped.get());
    }
    write_process_metrics(&mut page);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page.finish())
}

fn write_request_metrics(page: &mut TextEncoder, sources: &MetricSources) {
    let mut counted = page.start_metric(&REQUESTS);
    for (operation, status, count) in sources.requests.request_counts().filter(|(.., count)| *count > 0) {
        counted.write_value(&[("operation", operation), ("status", &status)], count);
    }
    let mut took = page.start_metric(&REQUEST_SECONDS);
    for (operation, histogram) in sources.requests.request_durations().filter(|(_, took)| took.count() > 0) {
        took.write_histogram(&[("operation", operation)], histogram);
    }
    let refused = &sources.guard.refused;
    page.start_metric(&REFUSED)
        .write_value(&[("limit", "key")], refused.per_key.get())
        .write_value(&[("limit", "address")], refused.per_address.get())
        .write_value(&[("limit", "failed_keys")], refused.failed_keys.get());
    let budgets = &sources.guard.budgets;
    page.start_metric(&OVER_BUDGET)
        .write_value(&[("budget", "requests")], budgets.requests.refused.get())
        .write_value(&[("budget", "transfers")], budgets.transfers.refused.get())
        .write_value(&[("budget", "body_bytes")], budgets.body_bytes.refused.get())
        .write_value(&[("budget", "stranger_bytes")], budgets.stranger_bytes.refused.get())
        .write_value(&[("budget", "compressed")], budgets.compressed.refused.get())
        .write_value(&[("budget", "heads")], budgets.heads.refused.get());
    page.start_metric(&STREAMS)
        .write_value(&[("kind", "answer")], sources.requests.answer_streams.get())
        .write_value(&[("kind", "chat")], sources.requests.chat_streams.get());
}

fn write_answer_metrics(page: &mut TextEncoder, service: &CauserieService) {
    let metrics = service.metrics();
    page.start_metric(&ANSWERS)
        .write_value(&[("outcome", "done")], metrics.done.get())
        .write_value(&[("outcome", "stopped")], metrics.stopped.get())
        .write_value(&[("outcome", "failed")], metrics.failed.get());
    let mut failures = page.start_metric(&ANSWER_FAILURES);
    for (code, count) in metrics.failures_by_code() {
        failures.write_value(&[("code", code.as_str())], count);
    }
    page.start_metric(&ANSWER_SECONDS).write_histogram(&[], &metrics.whole);
    page.start_metric(&FIRST_WORD).write_histogram(&[], &metrics.first_word);
    page.start_metric(&IN_PROGRESS).write_value(&[], service.turn_count());
    let mut tokens = page.start_metric(&TOKENS);
    for (model, used) in metrics.tokens_by_model() {
        tokens.write_value(&[("model", &model), ("direction", "in")], used.input);
        tokens.write_value(&[("model", &model), ("direction", "out")], used.output);
    }
    page.start_metric(&CREDITS).write_value(&[], metrics.credits.get());
}

fn write_vendor_metrics(page: &mut TextEncoder, service: &CauserieService) {
    let vendors = service.vendors_health();
    let mut up = page.start_metric(&VENDOR_UP);
    for vendor in &vendors {
        up.write_value(&[("vendor", vendor.provider.as_str())], u8::from(vendor.up == Some(true)));
    }
    let mut failures = page.start_metric(&VENDOR_FAILURES);
    for vendor in &vendors {
        for (trouble, count) in ProbeError::ALL.iter().zip(vendor.failures) {
            let labels = [("vendor", vendor.provider.as_str()), ("cause", trouble.as_str())];
            failures.write_value(&labels, count);
        }
    }
}

fn write_embedding_metrics(page: &mut TextEncoder, service: &CauserieService) {
    let Some(metrics) = service.embedding_metrics() else { return };
    page.start_metric(&EMBEDDED)
        .write_value(&[("outcome", "embedded")], metrics.passages.get())
        .write_value(&[("outcome", "rejected")], metrics.rejected.get());
    page.start_metric(&EMBEDDING_FAILURES)
        .write_value(&[("cause", "vendor")], metrics.failures.get())
        .write_value(&[("cause", "credits")], metrics.no_credits.get());
    page.start_metric(&SEARCHES)
        .write_value(&[("with", "words_and_vectors")], metrics.queries.get())
        .write_value(&[("with", "words")], metrics.words_alone.get());
}

fn write_machine_metrics(page: &mut TextEncoder, service: &CauserieService) {
    let (states, driver) = service.machine_states();
    // Without the driver's findings on this host.
    let driver = driver.split_whitespace().next().unwrap_or_default();
    let mut machines = page.start_metric(&MACHINES);
    for state in
        [MachineStatus::Running, MachineStatus::Starting, MachineStatus::Stopping, MachineStatus::Stopped]
    {
        let count = states.iter().filter(|one| **one == state).count();
        machines.write_value(&[("state", state.as_str()), ("driver", driver)], count);
    }
}

fn write_store_metrics(page: &mut TextEncoder, service: &CauserieService) {
    let (metrics, waiting) = service.store_metrics();
    page.start_metric(&STORE_SECONDS)
        .write_histogram(&[("operation", "read")], &metrics.reads)
        .write_histogram(&[("operation", "write")], &metrics.writes);
    page.start_metric(&STORE_WAITING)
        .write_value(&[("operation", "read")], waiting.reads)
        .write_value(&[("operation", "write")], waiting.writes);
    page.start_metric(&STORE_GROUP).write_histogram(&[], &metrics.group);
}

/// Writes the jobs that the database counts, if available, and their runs in this process.
fn write_job_metrics(page: &mut TextEncoder, service: &CauserieService, counted: Option<Vec<JobKindTotals>>) {
    if let Some(counted) = counted {
        let mut jobs = page.start_metric(&JOBS);
        for counts in counted {
            jobs.write_value(&[("kind", counts.kind), ("state", "waiting")], counts.waiting)
                .write_value(&[("kind", counts.kind), ("state", "running")], counts.running)
                .write_value(&[("kind", counts.kind), ("state", "failed")], counts.failed);
        }
    }
    let ran = || service.job_metrics().kinds().iter().filter(|metrics| metrics.took.count() > 0);
    let mut runs = page.start_metric(&JOB_RUNS);
    for metrics in ran() {
        runs.write_value(&[("kind", metrics.kind), ("outcome", "done")], metrics.done.get())
            .write_value(&[("kind", metrics.kind), ("outcome", "retried")], metrics.retried.get())
            .write_value(&[("kind", metrics.kind), ("outcome", "failed")], metrics.failed.get());
    }
    let mut took = page.start_metric(&JOB_SECONDS);
    for metrics in ran() {
        took.write_histogram(&[("kind", metrics.kind)], &metrics.took);
    }
}

/// Writes process metrics from `/proc`.
fn write_process_metrics(page: &mut TextEncoder) {
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
        page.start_metric(&CPU).write_value(&[], (user + system) as f64 / ticks);
        page.start_metric(&MEMORY).write_value(&[], resident * rustix::param::page_size() as u64);
        page.start_metric(&THREADS).write_value(&[], threads);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        page.start_metric(&FILES).write_value(&[], open.count());
    }
    if let Some(most) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
        page.start_metric(&FILES_MAX).write_value(&[], most);
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
    fn operator_page_lists_each_metric() {
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
        write_process_metrics(&mut page);
        let text = page.finish();
        for name in [CPU.name, MEMORY.name, FILES.name, THREADS.name] {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
            assert!(value.is_some_and(|value| value > 0.0 || name == CPU.name), "{name} in {text}");
        }
    }
}
