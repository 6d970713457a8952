//! Spans of distributed traces.
//!
//! A [`Tracer`] starts a [`Span`]; dropping the span finishes it. Finished spans wait in a bounded queue for the
//! exporter. Spans that do not fit are dropped and counted, so no caller waits for the exporter. A disabled tracer
//! ([`Tracer::off`]) creates no spans and costs nothing.
//!
//! Trace and span ids follow [W3C Trace Context](https://www.w3.org/TR/trace-context/). Only sampled traces have spans:
//! for the others no [`SpanContext`] is passed on.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Counter;

/// The maximum number of finished spans that wait for the exporter.
pub const SPAN_QUEUE_MAX: usize = 8192;
/// The maximum number of attributes of a span; further ones are dropped.
const ATTRIBUTES_MAX: usize = 16;

/// Identifies a span: its trace id and its span id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace id; never zero.
    pub trace: u128,
    /// The span id; never zero.
    pub span: u64,
}

/// The trace context that a client sent in `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    pub context: SpanContext,
    /// The `sampled` flag.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses a `traceparent` header. Returns `None` if it is malformed; the header is then ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |from: usize, to: usize| {
            let digits = text.get(from..to)?;
            let hex = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            hex.then_some(digits)
        };
        let dashes = [2, 35, 52].into_iter().all(|at| text.as_bytes().get(at) == Some(&b'-'));
        let (version, flags) = (digits(0, 2)?, u8::from_str_radix(digits(53, 55)?, 16).ok()?);
        // Later versions may append fields after a dash; the first version has exactly this length.
        let ends = match text.as_bytes().get(55) {
            None => true,
            Some(next) => version != "00" && *next == b'-',
        };
        let trace = u128::from_str_radix(digits(3, 35)?, 16).ok()?;
        let span = u64::from_str_radix(digits(36, 52)?, 16).ok()?;
        let holds = dashes && ends && version != "ff" && trace != 0 && span != 0;
        holds.then_some(Self { context: SpanContext { trace, span }, sampled: flags & 1 == 1 })
    }
}

/// The role of a span in an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// An operation inside the service.
    Internal,
    /// A request that the service answers.
    Server,
    /// A request that the service sends.
    Client,
}

/// The value of an attribute. Never holds user content, names, paths or keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A constant of the program or a value from the configuration.
    Text(Cow<'static, str>),
    Number(i64),
    Flag(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Number(i64::from(number))
    }
}

impl From<bool> for AttributeValue {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

/// A finished span, ready for export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanData {
    /// The trace id and the span's own id.
    pub context: SpanContext,
    /// The id of the parent span.
    pub parent: Option<u64>,
    /// The name of the operation.
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    /// The start, in nanoseconds since the Unix epoch.
    pub start_unix_nanos: u64,
    /// The end, in nanoseconds since the Unix epoch.
    pub end_unix_nanos: u64,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    pub failed: bool,
}

/// Starts spans. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<SpanQueue>>);

/// The bounded queue of finished spans.
#[derive(Debug)]
pub struct SpanQueue {
    waiting: Mutex<Vec<SpanData>>,
    /// The number of spans that were dropped because the queue was full.
    pub dropped: Counter,
    seed: u128,
    made: AtomicU64,
}

impl SpanQueue {
    /// Creates an empty queue. `seed` makes the ids of this process unique.
    #[must_use]
    pub fn new(seed: u128) -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::default(),
            dropped: Counter::default(),
            seed,
            made: AtomicU64::new(0),
        })
    }

    /// Removes up to `at_most` finished spans, oldest first.
    #[must_use]
    pub fn take_finished(&self, at_most: usize) -> Vec<SpanData> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = at_most.min(waiting.len());
        waiting.drain(..count).collect()
    }

    fn push_span(&self, span: SpanData) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= SPAN_QUEUE_MAX {
            drop(waiting);
            return self.dropped.increment();
        }
        waiting.push(span);
    }

    /// Returns 64 unique bits that look random.
    fn unique_number(&self, seed: u128) -> u64 {
        let count = self.made.fetch_add(1, Ordering::Relaxed);
        // SplitMix64, whose steps are a bijection: a process never repeats a number for one seed.
        let mut bits = (seed as u64).wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)).max(1)
    }

    fn span_number(&self) -> u64 {
        self.unique_number(self.seed)
    }
}

impl Tracer {
    /// Creates a tracer that puts its spans into this queue.
    #[must_use]
    pub fn new(spans: Arc<SpanQueue>) -> Self {
        Self(Some(spans))
    }

    /// Creates a tracer that is disabled.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Returns true if spans are recorded.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts the root span of a request, in the client's trace if it sent one. Returns `None` if the trace is not
    /// sampled.
    #[must_use]
    pub fn start_request(&self, given: Option<TraceParent>, name: &'static str) -> Option<Span> {
        let spans = self.0.as_ref()?;
        let (trace, parent) = match given {
            Some(TraceParent { sampled: false, .. }) => return None,
            Some(TraceParent { context, .. }) => (context.trace, Some(context.span)),
            None => {
                let high = spans.unique_number(spans.seed >> 64);
                (u128::from(high) << 64 | u128::from(spans.span_number()), None)
            }
        };
        let context = SpanContext { trace, span: spans.span_number() };
        Some(Span::start_span(spans, context, parent, name, SpanKind::Server))
    }

    /// Starts a child span. Returns `None` without a parent.
    #[must_use]
    pub fn start_child(&self, parent: Option<SpanContext>, name: &'static str) -> Option<Span> {
        let (spans, parent) = (self.0.as_ref()?, parent?);
        let context = SpanContext { trace: parent.trace, span: spans.span_number() };
        Some(Span::start_span(spans, context, Some(parent.span), name, SpanKind::Internal))
    }

    /// Starts a span whose id was chosen in advance, so that its children can be started elsewhere.
    #[must_use]
    pub fn start_with_context(&self, context: SpanContext, parent: u64, name: &'static str) -> Option<Span> {
        Some(Span::start_span(self.0.as_ref()?, context, Some(parent), name, SpanKind::Internal))
    }
}

/// An operation in progress; dropping it finishes the span.
#[derive(Debug)]
pub struct Span {
    spans: Arc<SpanQueue>,
    begun: Instant,
    /// Taken when the span finishes.
    data: Option<SpanData>,
    context: SpanContext,
}

impl Span {
    fn start_span(
        spans: &Arc<SpanQueue>,
        context: SpanContext,
        parent: Option<u64>,
        name: &'static str,
        side: SpanKind,
    ) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let data = SpanData {
            context,
            parent,
            name: Cow::Borrowed(name),
            kind: side,
            start_unix_nanos: to_nanos(since),
            end_unix_nanos: 0,
            attributes: Vec::new(),
            failed: false,
        };
        Self { spans: spans.clone(), begun: Instant::now(), data: Some(data), context }
    }

    /// Returns the ids that child spans refer to.
    #[must_use]
    pub fn context(&self) -> SpanContext {
        self.context
    }

    pub fn set_attribute(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        if let Some(data) = self.data.as_mut().filter(|data| data.attributes.len() < ATTRIBUTES_MAX) {
            data.attributes.push((name, value.into()));
        }
    }

    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        if let Some(data) = &mut self.data {
            data.name = name.into();
        }
    }

    /// Marks the span as an outgoing request.
    #[must_use]
    pub fn mark_client(mut self) -> Self {
        if let Some(data) = &mut self.data {
            data.kind = SpanKind::Client;
        }
        self
    }

    /// Marks the span as failed.
    pub fn mark_failed(&mut self) {
        if let Some(data) = &mut self.data {
            data.failed = true;
        }
    }

    /// Moves the start back to this time since the Unix epoch; leaves a start that is not later.
    pub fn backdate(&mut self, start: Duration) {
        if let Some(data) = &mut self.data {
            let age = Duration::from_nanos(data.start_unix_nanos.saturating_sub(to_nanos(start)));
            data.start_unix_nanos -= to_nanos(age);
            self.begun = self.begun.checked_sub(age).unwrap_or(self.begun);
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut data) = self.data.take() {
            // Uses a monotonic clock.
            data.end_unix_nanos = data.start_unix_nanos.saturating_add(to_nanos(self.begun.elapsed()));
            self.spans.push_span(data);
        }
    }
}

fn to_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_client_s_trace_is_read() {
        let given = TraceParent::parse(GIVEN).expect("it is one");
        let context =
            SpanContext { trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, span: 0xb7ad_6b71_6920_3331 };
        assert_eq!(given, TraceParent { context, sampled: true });
        let other =
            |flags: &str| TraceParent::parse(&format!("{}{flags}", &GIVEN[..53])).map(|given| given.sampled);
        assert_eq!((other("00"), other("02"), other("03")), (Some(false), Some(false), Some(true)));
        let later = format!("cc{}", &GIVEN[2..]);
        assert!(
            TraceParent::parse(&later).is_some() && TraceParent::parse(&format!("{later}-more")).is_some()
        );
    }

    #[test]
    fn a_malformed_traceparent_is_ignored() {
        let wrong = [
            "".to_owned(),
            "00".to_owned(),
            GIVEN.to_uppercase(),
            format!("{GIVEN}-"),
            format!("{GIVEN}0"),
            format!("cc{}more", &GIVEN[2..]),
            format!("ff{}", &GIVEN[2..]),
            format!(" {GIVEN}"),
            GIVEN.replace('-', "_"),
            GIVEN.replace("0af7", "+af7"),
            GIVEN.replace("0af7", "žaf"),
            GIVEN.replace("01", ""),
            format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01".to_owned(),
        ];
        for wrong in wrong {
            assert_eq!(TraceParent::parse(&wrong), None, "{wrong:?}");
        }
        for cut in 0..GIVEN.len() {
            assert_eq!(TraceParent::parse(&GIVEN[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn spans_nest_and_end_on_drop() {
        let spans = SpanQueue::new(7 << 64 | 8);
        let tracer = Tracer::new(spans.clone());
        let mut outer = tracer.start_request(TraceParent::parse(GIVEN), "outer").expect("it is on");
        outer.set_attribute("status", 200_u32);
        let mut inner = tracer.start_child(Some(outer.context()), "inner").expect("it is on").mark_client();
        inner.mark_failed();
        let start =
            SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") - Duration::from_secs(60);
        inner.backdate(start);
        assert!(spans.take_finished(10).is_empty(), "none is over");
        drop(inner);
        drop(outer);
        let [inner, outer] = &spans.take_finished(10)[..] else { panic!("both are over") };
        assert_eq!((outer.parent, inner.parent), (Some(0xb7ad_6b71_6920_3331), Some(outer.context.span)));
        assert_eq!((outer.context.trace, inner.context.trace >> 120), (inner.context.trace, 0x0a));
        assert!(inner.failed && !outer.failed && inner.kind == SpanKind::Client);
        assert_eq!(outer.attributes, [("status", AttributeValue::Number(200))]);
        assert_eq!(inner.start_unix_nanos, to_nanos(start), "however late it is moved");
        assert!(inner.end_unix_nanos - inner.start_unix_nanos >= 60_000_000_000);
        assert!(
            outer.end_unix_nanos >= outer.start_unix_nanos && inner.start_unix_nanos < outer.start_unix_nanos
        );
    }

    #[test]
    fn tracer_off_or_unsampled_makes_none() {
        assert!(Tracer::off().start_request(None, "request").is_none() && !Tracer::off().is_on());
        let tracer = Tracer::new(SpanQueue::new(1));
        assert!(
            tracer.start_request(TraceParent::parse(&format!("{}00", &GIVEN[..53])), "request").is_none()
        );
        assert!(tracer.start_child(None, "inner").is_none());
    }

    #[test]
    fn span_queue_counts_dropped_spans() {
        let spans = SpanQueue::new(1);
        let tracer = Tracer::new(spans.clone());
        for _ in 0..SPAN_QUEUE_MAX + 5 {
            drop(tracer.start_request(None, "request"));
        }
        assert_eq!(spans.dropped.get(), 5);
        assert_eq!(
            (spans.take_finished(5).len(), spans.take_finished(usize::MAX).len()),
            (5, SPAN_QUEUE_MAX - 5)
        );
    }

    #[test]
    fn numbers_come_once() {
        let spans = SpanQueue::new(3 << 64 | 4);
        let tracer = Tracer::new(spans.clone());
        let begun: Vec<Span> = (0..2000).filter_map(|_| tracer.start_request(None, "request")).collect();
        let traces: HashSet<u128> = begun.iter().map(|span| span.context().trace).collect();
        let numbers: HashSet<u64> = begun.iter().map(|span| span.context().span).collect();
        assert_eq!((traces.len(), numbers.len()), (2000, 2000));
    }
}
