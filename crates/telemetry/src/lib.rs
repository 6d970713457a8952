//! Metrics and traces of a running service.
//!
//! Each crate keeps its [`Counter`]s, [`Gauge`]s and [`Histogram`]s in its struct. [`TextEncoder`] writes them in the
//! Prometheus text format on request. Recording a value is one atomic addition and allocates nothing. Labels are fixed
//! at compile time: one field for each combination.
//!
//! [`trace`] records spans of requests and answers.

pub mod trace;

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the current count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// Adds one until the returned guard is dropped.
    #[must_use]
    pub fn hold_one(self: &std::sync::Arc<Self>) -> GaugeGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self.clone())
    }

    /// Returns the current value.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A guard that keeps a [`Gauge`] incremented.
#[derive(Debug)]
pub struct GaugeGuard(std::sync::Arc<Gauge>);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The maximum number of buckets of a histogram, without `+Inf`.
const BUCKETS_MAX: usize = 15;

/// Buckets for durations from 0.1 ms to 10 s, in seconds.
pub const FAST_BUCKETS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Buckets for durations from 10 ms to 10 minutes, in seconds.
pub const SLOW_BUCKETS: &[f64] =
    &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// Buckets for batch sizes.
pub const SIZE_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// A histogram of observed values.
#[derive(Debug)]
pub struct Histogram {
    buckets: &'static [f64],
    /// One for each bucket, and one for `+Inf`.
    counts: [AtomicU64; BUCKETS_MAX + 1],
    /// The sum of the observations, in millionths.
    sum: AtomicU64,
}

impl Histogram {
    /// Creates an empty histogram. `bounds` must be sorted and hold at most 15 values.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        debug_assert!(bounds.len() <= BUCKETS_MAX && bounds.is_sorted());
        Self { buckets: bounds, counts: Default::default(), sum: AtomicU64::new(0) }
    }

    /// Records a duration, in seconds.
    pub fn observe_duration(&self, time: Duration) {
        self.observe(time.as_secs_f64());
    }

    pub fn observe(&self, value: f64) {
        let at = self.buckets.iter().take(BUCKETS_MAX).position(|bound| value <= *bound);
        self.counts[at.unwrap_or(self.buckets.len().min(BUCKETS_MAX))].fetch_add(1, Ordering::Relaxed);
        // The conversion to an integer saturates.
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
    }

    /// Returns the number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// The name, type and help text of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    /// The help text: one line, without backslashes.
    pub help: &'static str,
}

/// Label names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// An encoder for the Prometheus text format. All samples of a metric follow its header.
#[derive(Debug, Default)]
pub struct TextEncoder(String);

impl TextEncoder {
    /// Starts a metric: writes its `HELP` and `TYPE` lines.
    pub fn start_metric(&mut self, metric: &Metric) -> Samples<'_> {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.write_line(format_args!("# HELP {} {}", metric.name, metric.help));
        self.write_line(format_args!("# TYPE {} {kind}", metric.name));
        Samples { page: self, name: metric.name }
    }

    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }

    fn write_line(&mut self, line: impl Display) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{line}");
    }

    fn write_sample(
        &mut self,
        name: &str,
        suffix: &str,
        labels: Labels<'_>,
        more: Labels<'_>,
        value: impl Display,
    ) {
        self.0.push_str(name);
        self.0.push_str(suffix);
        for (at, (label, text)) in labels.iter().chain(more).enumerate() {
            self.0.push_str(if at == 0 { "{" } else { "," });
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{text}\"");
        }
        let end = if labels.is_empty() && more.is_empty() { "" } else { "}" };
        self.write_line(format_args!("{end} {value}"));
    }
}

/// Writes the samples of one metric.
#[derive(Debug)]
pub struct Samples<'a> {
    page: &'a mut TextEncoder,
    name: &'static str,
}

impl Samples<'_> {
    pub fn write_value(&mut self, labels: Labels<'_>, value: impl Display) -> &mut Self {
        self.page.write_sample(self.name, "", labels, &[], value);
        self
    }

    /// Writes the buckets, sum and count of a histogram.
    pub fn write_histogram(&mut self, labels: Labels<'_>, histogram: &Histogram) -> &mut Self {
        let mut so_far = 0;
        for (bound, count) in histogram.buckets.iter().zip(&histogram.counts) {
            so_far += count.load(Ordering::Relaxed);
            let bound = bound.to_string();
            self.page.write_sample(self.name, "_bucket", labels, &[("le", &bound)], so_far);
        }
        // Loads the last count once, so that the total is never less than a bucket.
        so_far += histogram.counts[histogram.buckets.len()].load(Ordering::Relaxed);
        self.page.write_sample(self.name, "_bucket", labels, &[("le", "+Inf")], so_far);
        let sum = histogram.sum.load(Ordering::Relaxed) as f64 / 1e6;
        self.page.write_sample(self.name, "_sum", labels, &[], sum);
        self.page.write_sample(self.name, "_count", labels, &[], so_far);
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn text_encoder_writes_prometheus_format() {
        let times = Histogram::new(&[0.1, 1.0]);
        for millis in [50, 100, 500, 5000] {
            times.observe_duration(Duration::from_millis(millis));
        }
        let mut page = TextEncoder::default();
        let metric = Metric { name: "a_seconds", kind: MetricKind::Histogram, help: "How long." };
        page.start_metric(&metric).write_histogram(&[("op", "re\"ad\\\n")], &times);
        let metric = Metric { name: "b", kind: MetricKind::Gauge, help: "How many." };
        page.start_metric(&metric).write_value(&[], 1.5).write_value(&[("x", "y")], 2);
        let wanted = "# HELP a_seconds How long.\n# TYPE a_seconds histogram\n\
            a_seconds_bucket{op=\"re\\\"ad\\\\\\n\",le=\"0.1\"} 2\n\
            a_seconds_bucket{op=\"re\\\"ad\\\\\\n\",le=\"1\"} 3\n\
            a_seconds_bucket{op=\"re\\\"ad\\\\\\n\",le=\"+Inf\"} 4\n\
            a_seconds_sum{op=\"re\\\"ad\\\\\\n\"} 5.65\n\
            a_seconds_count{op=\"re\\\"ad\\\\\\n\"} 4\n\
            # HELP b How many.\n# TYPE b gauge\nb 1.5\nb{x=\"y\"} 2\n";
        assert_eq!(page.finish(), wanted);
        assert_eq!(times.count(), 4);
    }

    #[test]
    fn a_gauge_counts_live_guards() {
        let gauge = Arc::new(Gauge::default());
        let (first, second) = (gauge.hold_one(), gauge.hold_one());
        assert_eq!(gauge.get(), 2);
        drop((first, second));
        assert_eq!(gauge.get(), 0);
    }

    #[test]
    fn every_bound_has_its_place() {
        for bounds in [FAST_BUCKETS, SLOW_BUCKETS, SIZE_BUCKETS] {
            let histogram = Histogram::new(bounds);
            for bound in bounds {
                histogram.observe(*bound);
            }
            histogram.observe(f64::MAX);
            assert!(histogram.counts[..=bounds.len()].iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
