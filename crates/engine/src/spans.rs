//! Records the spans of answers in the traces of their questions.
//!
//! ```text
//!   the request ── accept question ── answer ─┬─ work on answer ─┬─ reach machine
//!                                             │                  ├─ model step
//!                                             │                  ├─ tool call ── work of other agent ── …
//!                                             │                  └─ complete answer
//!                                             └─ work on answer …   by another attempt, or after a restart
//! ```
//!
//! The trace is stored with the question. The span ids of `accept question` and `answer` are derived from the answer's
//! id, so every node that works on it knows the parents of its spans. Spans contain nothing that people or models wrote:
//! no questions, no answers, no names of files or skills, and only the names of tools in the registry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use domain::answer::{AnswerEnding, LogEntry};
use domain::id::{MessageId, TraceId};
use domain::step::StepOutcome;
use domain::time::Timestamp;
use domain::turn::HostFrame;
use domain::turn::host::{TurnEffect, TurnEvent};
use store::turns::{Fence, TurnRecord};
use telemetry::trace::{Span, SpanContext, Tracer};

/// The maximum number of calls in progress with a span.
const CALLS_MAX: usize = 64;

/// Returns the context of the span in which the question was accepted.
fn accept_context(trace: u128, answer: MessageId) -> SpanContext {
    SpanContext { trace, span: fold_id(answer).max(1) }
}

/// Returns the context of the answer's span.
fn answer_context(trace: u128, answer: MessageId) -> SpanContext {
    SpanContext { trace, span: (!fold_id(answer)).max(1) }
}

fn fold_id(answer: MessageId) -> u64 {
    let bits = answer.bits();
    (bits >> 64) as u64 ^ bits as u64
}

/// Starts the span in which the question of this answer is accepted.
pub fn start_accept_span(tracer: &Tracer, request: Option<SpanContext>, answer: MessageId) -> Option<Span> {
    let request = request?;
    tracer.start_with_context(accept_context(request.trace, answer), request.span, "accept question")
}

/// The spans of one attempt at an answer or at a subagent's task, derived from the effects and events of its turn. Cheap
/// to clone; without a trace it does nothing.
#[derive(Clone)]
pub(crate) struct Spans(Option<Arc<Mutex<SpanWork>>>);

struct SpanWork {
    tracer: Tracer,
    answering: SpanContext,
    answer: MessageId,
    model: String,
    link: Option<Span>,
    step: Option<Span>,
    calls: HashMap<String, Span>,
    end: Option<Span>,
    /// The name of the end.
    end_name: &'static str,
    /// The span of the attempt. It is the last field, so that it is dropped after its children.
    span: Span,
}

impl Spans {
    /// Starts the spans of the attempt under this lease.
    pub(crate) fn begin_attempt(tracer: &Tracer, record: &TurnRecord, lease: Fence) -> Self {
        Self::start_attempt(tracer, record.trace, record.model.clone(), lease)
    }

    /// Starts the spans of the attempt that gives the answer up.
    pub(crate) fn give_up(tracer: &Tracer, trace: Option<TraceId>, lease: Fence) -> Self {
        Self::start_attempt(tracer, trace, String::new(), lease)
    }

    fn start_attempt(tracer: &Tracer, trace: Option<TraceId>, model: String, lease: Fence) -> Self {
        let Some(trace) = trace else { return Self(None) };
        let answering = answer_context(trace.bits(), lease.answer);
        let Some(mut span) = tracer.start_child(Some(answering), "work on answer") else { return Self(None) };
        span.set_attribute("causerie.answer.epoch", lease.epoch);
        Self::from_work(SpanWork {
            tracer: tracer.clone(),
            answering,
            answer: lease.answer,
            model,
            link: None,
            step: None,
            calls: HashMap::new(),
            end: None,
            end_name: "complete answer",
            span,
        })
    }

    fn from_work(work: SpanWork) -> Self {
        Self(Some(Arc::new(Mutex::new(work))))
    }

    fn lock_work(&self) -> Option<MutexGuard<'_, SpanWork>> {
        Some(self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts the spans of a subagent that this call started.
    pub(crate) fn of_call(&self, call: &str, model: &str) -> Self {
        let Some(work) = self.lock_work() else { return Self(None) };
        let parent = work.calls.get(call).map_or(work.span.context(), Span::context);
        let Some(span) = work.tracer.start_child(Some(parent), "work of other agent") else {
            return Self(None);
        };
        Self::from_work(SpanWork {
            tracer: work.tracer.clone(),
            answering: work.answering,
            answer: work.answer,
            model: model.to_owned(),
            link: None,
            step: None,
            calls: HashMap::new(),
            end: None,
            end_name: "complete task",
            span,
        })
    }

    /// Starts the span of the connection to the machine.
    pub(crate) fn begin_connecting(&self) {
        if let Some(mut work) = self.lock_work() {
            work.link = work.start_child_span("reach machine");
        }
    }

    /// Records an effect of the turn.
    pub(crate) fn observe_effect(&self, effect: &TurnEffect) {
        if let Some(mut work) = self.lock_work() {
            work.observe_effect(effect);
        }
    }

    /// Records an event of the turn.
    pub(crate) fn observe_event(&self, event: &TurnEvent) {
        let of_span = matches!(
            event,
            TurnEvent::Connected(_)
                | TurnEvent::Disconnected
                | TurnEvent::MachineFailed(_)
                | TurnEvent::ModelFailed { .. }
        );
        if let Some(mut work) = self.lock_work().filter(|_| of_span) {
            work.observe_event(event);
        }
    }

    /// Records the completion of the answer that was accepted at this time.
    pub(crate) fn record_completion(&self, ending: Option<&AnswerEnding>, accepted_at: Timestamp) {
        let Some(mut work) = self.lock_work() else { return };
        work.end = None;
        let parent = accept_context(work.answering.trace, work.answer).span;
        let Some(mut span) = work.tracer.start_with_context(work.answering, parent, "answer") else { return };
        span.backdate(Duration::from_micros(u64::try_from(accepted_at.micros()).unwrap_or(0)));
        let outcome = match ending {
            Some(AnswerEnding::Done) | None => "done",
            Some(AnswerEnding::Stopped) => "stopped",
            Some(AnswerEnding::Failed(_)) => {
                span.mark_failed();
                "failed"
            }
        };
        span.set_attribute("causerie.answer.outcome", outcome);
    }
}

impl SpanWork {
    fn start_child_span(&self, name: &'static str) -> Option<Span> {
        self.tracer.start_child(Some(self.span.context()), name)
    }

    fn observe_effect(&mut self, effect: &TurnEffect) {
        match effect {
            TurnEffect::CallModel { number, attempt, .. } => self.begin_step(*number, *attempt),
            TurnEffect::CommitStep { entry, .. } => self.end_step(Some(entry)),
            TurnEffect::RunTool(call) => self.start_call_span(&call.id, &call.tool),
            TurnEffect::CommitResult { number, result } => {
                if let Some(mut span) = self.calls.remove(&result.call) {
                    span.set_attribute("causerie.step", *number);
                    if result.outcome != StepOutcome::Done {
                        span.mark_failed();
                    }
                }
            }
            TurnEffect::Complete(completion) => {
                self.end_step(completion.partial.as_ref());
                self.end = self.start_child_span(self.end_name);
            }
            TurnEffect::Send(frame) => self.observe_frame(frame),
            // The output before the cancellation is still committed.
            TurnEffect::CancelModel
            | TurnEffect::Reconnect
            | TurnEffect::Reserve { .. }
            | TurnEffect::BackOff { .. }
            | TurnEffect::Pause { .. }
            | TurnEffect::NameInstance { .. }
            | TurnEffect::Publish(..)
            | TurnEffect::Finish => {}
        }
    }

    fn observe_event(&mut self, event: &TurnEvent) {
        let ended = match event {
            TurnEvent::Connected(_) => {
                self.link = None;
                return;
            }
            TurnEvent::ModelFailed { .. } => self.step.take(),
            _ => self.link.take(),
        };
        if let Some(mut ended) = ended {
            ended.mark_failed();
        }
    }

    fn begin_step(&mut self, number: u32, attempt: u32) {
        let Some(mut span) = self.start_child_span("model step").map(Span::mark_client) else { return };
        span.set_attribute("gen_ai.operation.name", "chat");
        span.set_attribute("gen_ai.request.model", self.model.clone());
        span.set_attribute("causerie.step", number);
        span.set_attribute("causerie.attempt", attempt);
        self.step = Some(span);
    }

    fn end_step(&mut self, entry: Option<&LogEntry>) {
        let Some(mut span) = self.step.take() else { return };
        if let Some(LogEntry::Step { step, .. } | LogEntry::Summary { step, .. }) = entry {
            span.set_attribute("gen_ai.usage.input_tokens", step.usage.input_tokens);
            span.set_attribute("gen_ai.usage.output_tokens", step.usage.output_tokens);
        }
    }

    fn observe_frame(&mut self, frame: &HostFrame) {
        if let HostFrame::Run(call) = frame {
            self.start_call_span(&call.id, &call.tool);
        }
    }

    /// Starts the span of a call, unless the call is only sent again.
    fn start_call_span(&mut self, id: &str, tool: &str) {
        if self.calls.len() >= CALLS_MAX || self.calls.contains_key(id) {
            return;
        }
        let Some(mut span) = self.start_child_span("tool call") else { return };
        span.set_attribute("gen_ai.operation.name", "execute_tool");
        span.set_attribute("gen_ai.tool.name", known_tool_name(tool));
        self.calls.insert(id.to_owned(), span);
    }
}

/// Returns the name of a tool of the registry, and `other` for all others: models and servers choose their names freely.
fn known_tool_name(tool: &str) -> &'static str {
    domain::tool::facts_of(tool).map_or("other", |tool| tool.name)
}
