//! One attempt at a step: reads the response and yields the step's events, the same way for every format.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::step::{Item, StepError, StepEvent, StepRequest};
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};

use crate::client::Response;
use crate::decoder::Decoder;
use crate::error;
use crate::output::Next;
use crate::pause::Pause;
use crate::redaction::Redaction;

/// Bounds the silence of a server, before its first byte and between later ones.
pub const STALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Bounds a whole step.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(1800);
/// Bounds the wait for usage after the model is done.
pub const USAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Limits the bytes that are read before their events are yielded.
const READ_MAX_BYTES: usize = 64 * 1024;
/// Limits the text that consecutive events are merged into.
const TEXT_MAX_BYTES: usize = 4 * 1024;

/// The events of one step. The last item is [`StepEvent::Finished`] or an error. Dropping the stream cancels the step,
/// at the vendor's server too.
pub type StepStream = Pin<Box<dyn Stream<Item = Result<StepEvent, StepError>> + Send>>;

/// Bounds the waits for a server.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// See [`STALL_TIMEOUT`].
    pub stall: Duration,
    /// See [`STEP_TIMEOUT`].
    pub step: Duration,
    /// See [`USAGE_TIMEOUT`].
    pub usage: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { stall: STALL_TIMEOUT, step: STEP_TIMEOUT, usage: USAGE_TIMEOUT }
    }
}

/// Streams the step whose responses `open` requests: the first one, and one for each pause. `decoder` gets whether the
/// response is a document. Does nothing until the stream is polled.
pub(crate) fn stream<O: Future<Output = Result<Response, StepError>> + Send + 'static>(
    open: impl Fn(Pause) -> O + Send + 'static,
    decoder: impl FnOnce(bool) -> Decoder + Send + 'static,
    timeouts: Timeouts,
    redaction: Redaction,
) -> StepStream {
    let stage = Stage::Opening(Box::pin(begin(open(Pause::default()), decoder, timeouts)));
    let open: Open = Box::new(move |pause| Box::pin(open(pause)));
    Box::pin(Attempt { open, redaction, timeouts, stage, ready: VecDeque::new() })
}

type Opening<T> = Pin<Box<dyn Future<Output = Result<T, StepError>> + Send>>;
type Open = Box<dyn Fn(Pause) -> Opening<Response> + Send>;

/// Collects the identifiers of the calls in a request's transcript.
pub(crate) fn call_ids(request: &StepRequest) -> HashSet<String> {
    let calls = request.transcript.iter().flat_map(|item| match item {
        Item::Step(step) => step.calls().map(|call| call.id.clone()).collect(),
        Item::Question { .. } | Item::Result(_) => Vec::new(),
    });
    calls.collect()
}

struct Attempt {
    open: Open,
    redaction: Redaction,
    timeouts: Timeouts,
    stage: Stage,
    ready: VecDeque<StepEvent>,
}

enum Stage {
    Opening(Opening<Streaming>),
    Streaming(Box<Streaming>),
    /// Nothing is left but the error, if the attempt failed.
    Ended(Option<StepError>),
}

struct Streaming {
    response: Response,
    decoder: Decoder,
    deadline: Instant,
    last_read: Instant,
    /// When the model was done, and only its usage was missing. What the server sends to keep the connection does not extend the wait.
    done_since: Option<Instant>,
    /// Wakes the task to check for a stall. It is reset when it fires, not for every chunk.
    stall_timer: Pin<Box<Sleep>>,
}

impl Stream for Attempt {
    type Item = Result<StepEvent, StepError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = next_ready(&mut this.ready) {
                return Poll::Ready(Some(Ok(event)));
            }
            let progress = match &mut this.stage {
                Stage::Ended(error) => {
                    let error = error.take().map(|error| Err(this.redaction.apply(error)));
                    return Poll::Ready(error);
                }
                Stage::Opening(opening) => ready!(opening.as_mut().poll(context)).map(|streaming| {
                    this.stage = Stage::Streaming(Box::new(streaming));
                    Next::More
                }),
                Stage::Streaming(streaming) => {
                    ready!(streaming.poll_read(this.timeouts, &mut this.ready, context))
                }
            };
            match progress {
                Ok(Next::More) => {}
                Ok(Next::End) => this.stage = Stage::Ended(None),
                Ok(Next::Pause) => {
                    if let Stage::Streaming(paused) = std::mem::replace(&mut this.stage, Stage::Ended(None)) {
                        this.stage = Stage::Opening(Box::pin(resume(*paused, &this.open, this.timeouts)));
                    }
                }
                // Events that were decoded before the error are yielded first.
                Err(error) => this.stage = Stage::Ended(Some(error)),
            }
        }
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

async fn begin(
    opening: impl Future<Output = Result<Response, StepError>>,
    decoder: impl FnOnce(bool) -> Decoder,
    timeouts: Timeouts,
) -> Result<Streaming, StepError> {
    let deadline = Instant::now() + timeouts.step;
    let response = opened(opening, deadline.min(Instant::now() + timeouts.stall)).await?;
    let decoder = decoder(response.is_json());
    let last_read = Instant::now();
    let stall_timer = Box::pin(sleep_until(deadline.min(last_read + timeouts.stall)));
    Ok(Streaming { response, decoder, deadline, last_read, done_since: None, stall_timer })
}

/// Continues a paused step by another request, within the same deadline.
fn resume(
    mut paused: Streaming,
    open: &Open,
    timeouts: Timeouts,
) -> impl Future<Output = Result<Streaming, StepError>> + Send + use<> {
    let opening = open(paused.decoder.resume());
    async move {
        let response = opened(opening, paused.deadline.min(Instant::now() + timeouts.stall)).await?;
        let last_read = Instant::now();
        let stall_timer = Box::pin(sleep_until(paused.deadline.min(last_read + timeouts.stall)));
        Ok(Streaming { response, last_read, stall_timer, ..paused })
    }
}

async fn opened(
    opening: impl Future<Output = Result<Response, StepError>>,
    until: Instant,
) -> Result<Response, StepError> {
    timeout_at(until, opening).await.map_err(|_| error::unavailable("it did not answer in time"))?
}

impl Streaming {
    /// Decodes the bytes that have arrived, up to [`READ_MAX_BYTES`].
    fn poll_read(
        &mut self,
        timeouts: Timeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Next, StepError>> {
        let mut read_bytes = 0;
        while read_bytes < READ_MAX_BYTES {
            let chunk = match self.response.poll_chunk(context) {
                Poll::Ready(Ok(Some(chunk))) => chunk,
                Poll::Ready(Ok(None)) => return Poll::Ready(self.decoder.ended(ready)),
                // The model is done: only its usage is missing.
                Poll::Ready(Err(_)) if self.decoder.is_done() => return Poll::Ready(self.decoder.cut(ready)),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error::connection(error))),
                Poll::Pending if read_bytes > 0 => break,
                Poll::Pending => return self.poll_stalled(timeouts, ready, context),
            };
            read_bytes += chunk.len();
            match self.decoder.push(&chunk, ready)? {
                Next::More => {}
                next @ (Next::Pause | Next::End) => {
                    // The end of the body usually arrives with the last frame; reading it frees the connection for reuse.
                    let _end = self.response.poll_chunk(context);
                    return Poll::Ready(Ok(next));
                }
            }
        }
        self.last_read = Instant::now();
        if self.done_since.is_none() && self.decoder.is_done() {
            self.done_since = Some(self.last_read);
        }
        Poll::Ready(Ok(Next::More))
    }

    /// Becomes ready when the server stalls or the step's deadline passes.
    fn poll_stalled(
        &mut self,
        timeouts: Timeouts,
        ready: &mut VecDeque<StepEvent>,
        context: &mut Context<'_>,
    ) -> Poll<Result<Next, StepError>> {
        let is_done = self.decoder.is_done();
        let until = match self.done_since {
            Some(done) => done + timeouts.usage,
            None => self.last_read + timeouts.stall,
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
            self.decoder.cut(ready)
        } else {
            Err(error::unavailable("it stopped in the middle of the answer"))
        })
    }
}
