//! The body of an answer, as it arrives, becomes the events of a step. Pure: no connection, no clock.

use std::collections::{HashSet, VecDeque};

use domain::step::{StepError, StepEvent};

use crate::format::Format;
use crate::wire::{self, Frame, Frames};
use crate::{anthropic, chat_completions, gemini, responses};

/// The most that is read of one step's stream.
pub const STREAM_MAX_BYTES: usize = 64 * 1024 * 1024;

/// Whether more is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Yes.
    More,
    /// The step is finished.
    End,
}

/// What a step's stream has told so far, by its format.
#[derive(Debug)]
enum Fold {
    Anthropic(anthropic::Fold),
    ChatCompletions(chat_completions::Fold),
    Gemini(gemini::Fold),
    Responses(responses::Fold),
}

impl Fold {
    fn frame(&mut self, frame: &Frame, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::Anthropic(fold) => fold.frame(frame, ready),
            Self::ChatCompletions(fold) => fold.frame(frame, ready),
            Self::Gemini(fold) => fold.frame(frame, ready),
            Self::Responses(fold) => fold.frame(frame, ready),
        }
    }

    fn document(&mut self, body: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::ChatCompletions(fold) => fold.document(body, ready),
            Self::Anthropic(_) | Self::Gemini(_) | Self::Responses(_) => Err(wire::document(body)),
        }
    }

    fn end(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        match self {
            Self::Anthropic(fold) => fold.end(ready),
            Self::ChatCompletions(fold) => fold.end(ready),
            Self::Gemini(fold) => fold.end(ready),
            Self::Responses(fold) => fold.end(ready),
        }
    }
}

/// Decodes one answer, however its bytes arrive. Holds one frame at most, or the one document.
#[derive(Debug)]
pub struct Decoder {
    frames: Frames,
    fold: Fold,
    read_bytes: usize,
    /// A server that does not stream answers with one JSON document.
    whole: Option<Vec<u8>>,
}

impl Decoder {
    /// For an event stream of this format, or for one document, in an exchange that has calls of these identifiers already.
    #[must_use]
    pub fn new(format: Format, is_document: bool, taken: HashSet<String>) -> Self {
        let whole = is_document.then(Vec::new);
        let fold = match format {
            Format::Anthropic => Fold::Anthropic(anthropic::Fold::new(taken)),
            Format::ChatCompletions => Fold::ChatCompletions(chat_completions::Fold::new(taken)),
            Format::Gemini => Fold::Gemini(gemini::Fold::new(taken)),
            Format::Responses => Fold::Responses(responses::Fold::new(taken)),
        };
        Self { frames: Frames::default(), fold, read_bytes: 0, whole }
    }

    /// Whether the model was done, so that only usage and the end's mark are missing.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match &self.fold {
            Fold::ChatCompletions(fold) => fold.is_done(),
            Fold::Gemini(fold) => fold.is_done(),
            // Their end is marked, and tells all.
            Fold::Anthropic(_) | Fold::Responses(_) => false,
        }
    }

    /// Takes bytes; what they tell is put behind what is ready.
    ///
    /// # Errors
    /// What the stream says, or that it cannot be read or does not end.
    pub fn push(&mut self, bytes: &[u8], ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.read_bytes += bytes.len();
        if self.read_bytes > STREAM_MAX_BYTES {
            return Err(wire::unavailable("its stream does not end"));
        }
        if let Some(whole) = &mut self.whole {
            whole.extend_from_slice(bytes);
            return Ok(Next::More);
        }
        self.frames.push(bytes);
        while let Some(frame) = self.frames.next().map_err(|error| wire::unavailable(error.to_string()))? {
            if let Next::End = self.fold.frame(&frame, ready)? {
                return Ok(Next::End);
            }
        }
        Ok(Next::More)
    }

    /// The body has ended.
    ///
    /// # Errors
    /// As [`Self::push`], and when the answer was cut.
    pub fn ended(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        if let Some(whole) = self.whole.take() {
            self.fold.document(&whole, ready)?;
        }
        if let Some(frame) = self.frames.rest()
            && let Next::End = self.fold.frame(&frame, ready)?
        {
            return Ok(Next::End);
        }
        self.fold.end(ready)
    }

    /// The connection broke or fell silent: what the model was done with stands.
    ///
    /// # Errors
    /// When it was not done.
    pub fn cut(&mut self, ready: &mut VecDeque<StepEvent>) -> Result<Next, StepError> {
        self.fold.end(ready)
    }
}
