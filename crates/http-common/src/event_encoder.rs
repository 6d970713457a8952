//! Compression of event streams.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use crate::budget::BudgetShare;
use crate::encoder::Encoder;
use crate::limits::READER_IN_FLIGHT_MAX_BYTES;

/// Shorter segments of an event are copied together with their neighbours; longer ones are shared.
pub(crate) const COPIED_MAX_BYTES: usize = 4 << 10;

/// The encoder of an event stream, flushed after every event.
pub(crate) struct EventEncoder {
    encoder: Encoder,
    /// The uncompressed rest of the current event.
    input: VecDeque<Bytes>,
    unflushed: bool,
    _place: BudgetShare,
}

impl EventEncoder {
    /// Creates the encoder of a stream, which holds this share while it lasts.
    pub(crate) fn new(encoder: Encoder, place: BudgetShare) -> Self {
        Self { encoder, input: VecDeque::new(), unflushed: false, _place: place }
    }

    pub(crate) fn push_event(&mut self, event: impl IntoIterator<Item = Bytes>) {
        self.input.extend(event);
    }

    /// Compresses until enough output is ready or the event is complete; `None` once it is sent.
    pub(crate) fn next_output(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(piece) = self.input.pop_front() {
            self.encoder.write_input(&piece)?;
            self.unflushed = true;
            // Separates short pieces between long texts, because the next event may have other short pieces
            // there.
            if piece.len() < COPIED_MAX_BYTES && !self.input.is_empty() {
                self.encoder.start_block()?;
            }
            if self.encoder.ready_bytes() >= READER_IN_FLIGHT_MAX_BYTES {
                return Ok(Some(self.encoder.take_output()));
            }
        }
        if !std::mem::take(&mut self.unflushed) {
            return Ok(None);
        }
        self.encoder.flush()?;
        Ok(Some(self.encoder.take_output()))
    }

    /// Ends the content and returns the rest of the output.
    pub(crate) fn finish(self) -> io::Result<Bytes> {
        self.encoder.finish()
    }
}
