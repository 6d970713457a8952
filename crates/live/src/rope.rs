//! Append-only text that is shared by all its readers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// The size in bytes from which on the tail is frozen, and neither copied nor encoded again.
const SEGMENT_BYTES: usize = 4 * 1024;

/// A representation in which answers are sent. Encodings of one are never used for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// Objects of the public interface.
    Json,
    Html,
}

impl Representation {
    /// The number of representations.
    pub(super) const COUNT: usize = Self::ALL.len();
    pub(super) const ALL: [Self; 2] = [Self::Json, Self::Html];
}

/// A piece of text that never changes, with cached encodings.
#[derive(Debug)]
pub struct RopeSegment {
    text: Arc<str>,
    encoded: [OnceLock<Bytes>; Representation::COUNT],
}

impl RopeSegment {
    /// Creates a segment of this text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), encoded: Default::default() }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text as `encode` writes it. Encodes once per representation; the result is shared by all
    /// readers.
    pub fn encode_once(&self, representation: Representation, encode: impl FnOnce(&str) -> Bytes) -> Bytes {
        self.encoded[representation as usize].get_or_init(|| encode(&self.text)).clone()
    }
}

/// The text at one revision: segments in order. Clones share the segments.
#[derive(Debug, Clone, Default)]
pub struct Rope(Vec<Arc<RopeSegment>>);

impl Rope {
    /// Creates a rope of one text.
    #[must_use]
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self(vec![Arc::new(RopeSegment::new(text))]) }
    }

    /// Returns the segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Arc<RopeSegment>] {
        &self.0
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|segment| segment.text.len()).sum()
    }

    /// Returns `true` if the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn push_segment(&mut self, segment: Arc<RopeSegment>) {
        self.0.push(segment);
    }

    /// Appends another rope's segments.
    pub fn append_rope(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

impl std::fmt::Display for Rope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|segment| f.write_str(&segment.text))
    }
}

/// Builds ropes from a text that never shrinks.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    frozen: Rope,
    tail: String,
}

impl Growing {
    pub(crate) fn push_text(&mut self, text: &str) {
        self.tail.push_str(text);
        if self.tail.len() >= SEGMENT_BYTES {
            self.frozen.push_segment(Arc::new(RopeSegment::new(std::mem::take(&mut self.tail))));
        }
    }

    /// Returns `true` if nothing was appended yet.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.frozen.segments().is_empty()
    }

    /// Returns the current text: the frozen segments are shared, the tail is copied.
    #[must_use]
    pub(crate) fn to_rope(&self) -> Rope {
        let mut rope = self.frozen.clone();
        if !self.tail.is_empty() {
            rope.push_segment(Arc::new(RopeSegment::new(self.tail.as_str())));
        }
        rope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_segments_shared_encoded_once() {
        let mut growing = Growing::default();
        for _ in 0..2000 {
            growing.push_text("word ");
        }
        let (first, second) = (growing.to_rope(), growing.to_rope());
        assert_eq!(first.to_string(), "word ".repeat(2000));
        assert!(Arc::ptr_eq(&first.segments()[0], &second.segments()[0]));
        let [json, html] = Representation::ALL;
        let encoded = first.segments()[0].encode_once(json, |text| Bytes::from(text.to_uppercase()));
        assert_eq!(
            second.segments()[0].encode_once(json, |_| unreachable!("it is encoded already")),
            encoded
        );
        let page = second.segments()[0].encode_once(html, |_| Bytes::from_static(b"another face's"));
        assert_eq!(page, "another face's");
        assert_eq!(first.segments()[0].encode_once(json, |_| unreachable!("it keeps its own")), encoded);
    }
}
