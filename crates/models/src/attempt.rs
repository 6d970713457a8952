//! One attempt at a step: reads the response and yields the step's events, the same way for every format.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::step::{StepError, StepEvent, StepRequest, TranscriptItem};
use domain::step_note::StepNote;
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::adaptation::RequestRefusal;
use crate::client::VendorHttpResponse;
use crate::decoder::StepDecoder;
use crate::error;
use crate::output::StreamProgress;
use crate::pause::Pause;
use crate::redaction::Redaction;
use crate::schema::{self, Renamed};

/// Bounds the wait for the first output of a vendor's own server.
pub const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(120);
/// Bounds the wait for the first output of another server, which may have to load the model first.
pub const FIRST_BYTE_TIMEOUT_ELSEWHERE: Duration = Duration::from_secs(600);
/// Bounds the silence of a server after its first output.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Bounds a whole step.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(1800);
/// Bounds the wait for usage after the model is done.
pub const USAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// The reason of a step whose first output did not come.
const TOO_SLOW: &str = "it did not begin to answer in time";
/// Limits the bytes that are read before their events are yielded.
const READ_MAX_BYTES: usize = 64 * 1024;
/// Limits the text that consecutive events are merged into.
const TEXT_MAX_BYTES: usize = 4 * 1024;

/// The events of one step. The last item is [`StepEvent::Finished`] or an error. Dropping the stream cancels the step,
/// at the vendor's server too.
pub type StepStream = Pin<Box<dyn Stream<Item = Result<StepEvent, StepError>> + Send>>;

/// Bounds the waits for a server.
#[derive(Debug, Clone, Copy)]
pub struct StepTimeouts {
    /// See [`FIRST_BYTE_TIMEOUT`].
    pub first_byte: Duration,
    /// See [`STALL_TIMEOUT`].
    pub stall: Duration,
    /// See [`STEP_TIMEOUT`].
    pub step: Duration,
    /// See [`USAGE_TIMEOUT`].
    pub usage: Duration,
}

impl Default for StepTimeouts {
    fn default() -> Self {
        Self::for_server(true)
    }
}

impl StepTimeouts {
    /// Returns the timeouts of the vendor's own server, or of another one.
    #[must_use]
    pub fn for_server(own: bool) -> Self {
        let first_byte = if own { FIRST_BYTE_TIMEOUT } else { FIRST_BYTE_TIMEOUT_ELSEWHERE };
        Self { first_byte, stall: STALL_TIMEOUT, step: STEP_TIMEOUT, usage: USAGE_TIMEOUT }
    }
}

/// An accepted request: the response, and what the reader should know about it.
pub(crate) struct OpenedStep {
    pub(crate) response: VendorHttpResponse,
    pub(crate) notes: Vec<StepNote>,
}

/// A request to be sent.
pub(crate) enum Opening {
    /// Begins the step, or continues it after a pause.
    Begin(Pause),
    /// Begins the step again in another form: the server accepted the request, and refused it before any output.
    Refused(RequestRefusal),
}

/// Streams the step whose responses `open` requests: the first one, one for each pause, and one for each refusal that comes
/// instead of output. `renamed` are the names that were changed in the schemas of tools. Does nothing until the stream is
/// polled.
pub(crate) fn stream_attempt<O: Future<Output = Result<OpenedStep, StepError>> + Send + 'static>(
    open: impl Fn(Opening) -> O + Send + 'static,
    new_decoder: impl Fn() -> StepDecoder + Send + 'static,
    renamed: HashMap<String, Renamed>,
    timeouts: StepTimeouts,
    redaction: Redaction,
) -> StepStream {
    let opening = open(Opening::Begin(Pause::default()));
    let stage = AttemptStage::Opening(Box::pin(begin_streaming(opening, new_decoder(), timeouts)));
    let open: Open = Box::new(move |opening| Box::pin(open(opening)));
    let new_decoder = Box::new(new_decoder);
    Box::pin(StepAttempt { open, new_decoder, redaction, renamed, timeouts, stage, ready: VecDeque::new() })
}

type OpeningFuture<T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send>>;
type Open = Box<dyn Fn(Opening) -> OpeningFuture<OpenedStep> + Send>;

/// Collects the identifiers of the calls in a request's transcript.
pub(crate) fn call_ids(request: &StepRequest) -> HashSet<String> {
    let calls = request.transcript.iter().flat_map(|item| match item {
        TranscriptItem::Step(step) => step.tool_calls().map(|call| call.id.clone()).collect(),
        TranscriptItem::Question { .. } | TranscriptItem::Result(_) => Vec::new(),
    });
    calls.collect()
}

struct StepAttempt {
    open: Open,
    new_decoder: Box<dyn Fn() -> StepDecoder + Send>,
    redaction: Redaction,
    renamed: HashMap<String, Renamed>,
    timeouts: StepTimeouts,
    stage: AttemptStage,
    ready: VecDeque<StepEvent>,
}

enum AttemptStage {
    Opening(OpeningFuture<StreamingAttempt>),
    Streaming(Box<StreamingAttempt>),
    /// Nothing is left but the error, if the attempt failed.
    Ended(Option<StepError>),
}

struct StreamingAttempt {
    response: VendorHttpResponse,
    notes: Vec<StepNote>,
    decoder: StepDecoder,
    deadline: Instant,
    /// When the first output must have come; `None` once it has.
    begun_by: Option<Instant>,
    last_read: Instant,
    /// When the model was done, and only its usage was missing. What the server sends to keep the connection does not extend the wait.
    done_since: Option<Instant>,
    /// Wakes the task to check for a stall. It is reset when it fires, not for every chunk.
    stall_timer: Pin<Box<Sleep>>,
}

impl Stream for StepAttempt {
    type Item = Result<StepEvent, StepError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = next_ready(&mut this.ready) {
                return Poll::Ready(Some(Ok(with_names(event, &this.renamed))));
            }
            let progress = match &mut this.stage {
                AttemptStage::Ended(error) => {
                    let error = error.take().map(|error| Err(this.redaction.redact_error(error)));
                    return Poll::Ready(error);
                }
                AttemptStage::Opening(opening) => {
                    ready!(opening.as_mut().poll(context)).map(|mut streaming| {
                        let notes = std::mem::take(&mut streaming.notes);
                        this.ready.extend(notes.into_iter().map(StepEvent::Noted));
                        this.stage = AttemptStage::Streaming(Box::new(streaming));
                        StreamProgress::More
                    })
                }
                AttemptStage::Streaming(streaming) => {
                    ready!(streaming.poll_read(this.timeouts, &mut this.ready, context))
                }
            };
            match progress {
                Ok(StreamProgress::More) => {}
                Ok(StreamProgress::End) => this.stage = AttemptStage::Ended(None),
                Ok(StreamProgress::Pause) => {
                    if let AttemptStage::Streaming(paused) =
                        std::mem::replace(&mut this.stage, AttemptStage::Ended(None))
                    {
                        this.stage = AttemptStage::Opening(Box::pin(resume_paused(
                            *paused,
                            &this.open,
                            this.timeouts,
                        )));
                    }
                }
                Err(error) => this.stage = this.after_failure(error),
            }
        }
    }
}

impl StepAttempt {
    /// Returns the next stage after an error: another request, if the server refused this one before any output.
    fn after_failure(&mut self, error: StepError) -> AttemptStage {
        let failed = std::mem::replace(&mut self.stage, AttemptStage::Ended(None));
        // Events that were decoded before the error are yielded first.
        if let AttemptStage::Streaming(mut failed) = failed
            && self.ready.is_empty()
            && let Some(refused) = failed.decoder.take_refusal(&error)
        {
            let decoder = (self.new_decoder)();
            return AttemptStage::Opening(Box::pin(reopen(
                *failed,
                refused,
                decoder,
                &self.open,
                self.timeouts,
            )));
        }
        AttemptStage::Ended(Some(error))
    }
}

/// Takes the next event. Merges consecutive texts, up to [`TEXT_MAX_BYTES`].
fn next_ready(ready: &mut VecDeque<StepEvent>) -> Option<StepEvent> {
    let mut event = ready.pop_front()?;
    loop {
        match (&mut event, ready.front()) {
            (StepEvent::Text(text), Some(StepEvent::Text(more)))
            | (StepEvent::Reasoning(text), Some(StepEvent::Reasoning(more)))
                if text.len() + more.len() <= TEXT_MAX_BYTES =>
            {
                text.push_str(more);
            }
            _ => return Some(event),
        }
        ready.pop_front();
    }
}

/// Restores the names of properties in the arguments of a call.
fn with_names(event: StepEvent, renamed: &HashMap<String, Renamed>) -> StepEvent {
    match event {
        StepEvent::Call(mut call) => {
            if let Some(renamed) = renamed.get(&call.tool)
                && let Some(arguments) = schema::restore_arguments(&call.arguments, renamed)
            {
                call.arguments = arguments;
            }
            StepEvent::Call(call)
        }
        other => other,
    }
}

async fn begin_streaming(
    opening: impl Future<Output = Result<OpenedStep, StepError>>,
    decoder: StepDecoder,
    timeouts: StepTimeouts,
) -> Result<StreamingAttempt, StepError> {
    let deadline = Instant::now() + timeouts.step;
    let first_byte_at = Instant::now() + timeouts.first_byte;
    let OpenedStep { response, notes } = await_response(opening, deadline.min(first_byte_at), false).await?;
    let last_read = Instant::now();
    let stall_timer = Box::pin(sleep_until(deadline.min(last_read + timeouts.stall)));
    let (begun_by, done_since) = (Some(first_byte_at), None);
    Ok(StreamingAttempt { response, notes, decoder, deadline, begun_by, last_read, done_since, stall_timer })
}

/// Continues a paused step by another request, within the same deadline.
fn resume_paused(
    mut paused: StreamingAttempt,
    open: &Open,
    timeouts: StepTimeouts,
) -> impl Future<Output = Result<StreamingAttempt, StepError>> + Send + use<> {
    let opening = open(Opening::Begin(paused.decoder.resume_step()));
    async move {
        let until = paused.deadline.min(Instant::now() + timeouts.first_byte);
        Ok(paused.with(await_response(opening, until, true).await?, timeouts))
    }
}

/// Begins a refused step again in another form, within the time of the first attempt.
fn reopen(
    failed: StreamingAttempt,
    refused: RequestRefusal,
    decoder: StepDecoder,
    open: &Open,
    timeouts: StepTimeouts,
) -> impl Future<Output = Result<StreamingAttempt, StepError>> + Send + use<> {
    let opening = open(Opening::Refused(refused));
    async move {
        let until = failed.begun_by.map_or(failed.deadline, |begun_by| failed.deadline.min(begun_by));
        let failed = StreamingAttempt { decoder, ..failed };
        Ok(failed.with(await_response(opening, until, false).await?, timeouts))
    }
}

async fn await_response(
    opening: impl Future<Output = Result<OpenedStep, StepError>>,
    until: Instant,
    had_begun: bool,
) -> Result<OpenedStep, StepError> {
    timeout_at(until, opening).await.map_err(|_| error::timed_out(TOO_SLOW, had_begun))?
}

impl StreamingAttempt {
    /// Goes on with another response.
    fn with(self, opened: OpenedStep, timeouts: StepTimeouts) -> Self {
        let OpenedStep { response, notes } = opened;
        let last_read = Instant::now();
        let stall_timer = Box::pin(sleep_until(self.deadline.min(last_read + timeouts.stall)));
        Self { response, notes, last_read, stall_timer, ..self }
    }

    /// Decodes the bytes that have arrived, up to [`READ_MAX_BYTES`].
    fn poll_read(
        &mut self,
        timeouts: StepTimeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamProgress, StepError>> {
        let mut read_bytes = 0;
        while read_bytes < READ_MAX_BYTES {
            let chunk = match self.response.poll_chunk(context) {
                Poll::Ready(Ok(Some(chunk))) => chunk,
                Poll::Ready(Ok(None)) => return Poll::Ready(self.decoder.end_body(ready)),
                // The model is done: only its usage is missing.
                Poll::Ready(Err(_)) if self.decoder.is_done() => {
                    return Poll::Ready(self.decoder.cut_stream(ready));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error::connection_failure(error))),
                Poll::Pending if read_bytes > 0 => break,
                Poll::Pending => return self.poll_stalled(timeouts, ready, context),
            };
            read_bytes += chunk.len();
            match self.decoder.push_bytes(&chunk, ready)? {
                StreamProgress::More => {}
                next @ (StreamProgress::Pause | StreamProgress::End) => {
                    // The end of the body usually arrives with the last frame; reading it frees the connection for reuse.
                    let _end = self.response.poll_chunk(context);
                    return Poll::Ready(Ok(next));
                }
            }
        }
        self.last_read = Instant::now();
        if self.decoder.has_begun() {
            self.begun_by = None;
        }
        if self.done_since.is_none() && self.decoder.is_done() {
            self.done_since = Some(self.last_read);
        }
        Poll::Ready(Ok(StreamProgress::More))
    }

    /// Becomes ready when the server stalls or the step's deadline passes.
    fn poll_stalled(
        &mut self,
        timeouts: StepTimeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<StreamProgress, StepError>> {
        let is_done = self.decoder.is_done();
        let until = match self.done_since {
            Some(done) => done + timeouts.usage,
            // A server may begin its response before the model begins to write.
            None => (self.last_read + timeouts.stall).max(self.begun_by.unwrap_or(self.last_read)),
        };
        let until = self.deadline.min(until);
        if until < self.stall_timer.deadline() {
            self.stall_timer.as_mut().reset(until);
        }
        loop {
            ready!(self.stall_timer.as_mut().poll(context));
            if Instant::now() >= until {
                break;
            }
            self.stall_timer.as_mut().reset(until);
        }
        // When the model is done, only its usage is missing.
        Poll::Ready(if is_done {
            self.decoder.cut_stream(ready)
        } else {
            match self.begun_by {
                Some(_) => Err(error::timed_out(TOO_SLOW, false)),
                None => Err(error::timed_out("it stopped in the middle of the answer", true)),
            }
        })
    }
}
