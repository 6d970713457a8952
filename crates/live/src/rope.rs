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
    /// Pages for browsers.
    Html,
}

impl Representation {
    /// The number of representations.
    pub(super) const COUNT: usize = Self::ALL.len();
    /// All representations.
    pub(super) const ALL: [Self; 2] = [Self::Json, Self::Html];
}

/// A piece of text that never changes, with cached encodings.
#[derive(Debug)]
pub struct Segment {
    text: Arc<str>,
    encoded: [OnceLock<Bytes>; Representation::COUNT],
}

impl Segment {
    /// Creates a segment of this text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into(), encoded: Default::default() }
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text as `encode` writes it. Encodes once per representation; the result is shared by all
    /// readers.
    pub fn encoded(&self, representation: Representation, encode: impl FnOnce(&str) -> Bytes) -> Bytes {
        self.encoded[representation as usize].get_or_init(|| encode(&self.text)).clone()
    }
}

/// The text at one revision: segments in order. Clones share the segments.
#[derive(Debug, Clone, Default)]
pub struct Rope(Vec<Arc<Segment>>);

impl Rope {
    /// Creates a rope of one text.
    #[must_use]
    pub fn of(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::default() } else { Self(vec![Arc::new(Segment::new(text))]) }
    }

    /// Returns the segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.0
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|segment| segment.text.len()).sum()
    }

    /// Returns `true` if there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a segment.
    pub fn push(&mut self, segment: Arc<Segment>) {
        self.0.push(segment);
    }

    /// Appends another rope's segments.
    pub fn append(&mut self, other: &Self) {
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
    /// Appends text.
    pub(crate) fn push(&mut self, text: &str) {
        self.tail.push_str(text);
        if self.tail.len() >= SEGMENT_BYTES {
            self.frozen.push(Arc::new(Segment::new(std::mem::take(&mut self.tail))));
        }
    }

    /// Returns `true` if nothing was appended yet.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.frozen.segments().is_empty()
    }

    /// Returns the current text: the frozen segments are shared, the tail is copied.
    #[must_use]
    pub(crate) fn rope(&self) -> Rope {
        let mut rope = self.frozen.clone();
        if !self.tail.is_empty() {
            rope.push(Arc::new(Segment::new(self.tail.as_str())));
        }
        rope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frozen_segments_are_shared_and_encoded_once() {
        let mut growing = Growing::default();
        for _ in 0..2000 {
            growing.push("word ");
        }
        let (first, second) = (growing.rope(), growing.rope());
        assert_eq!(first.to_string(), "word ".repeat(2000));
        assert!(Arc::ptr_eq(&first.segments()[0], &second.segments()[0]));
        let [json, html] = Representation::ALL;
        let encoded = first.segments()[0].encoded(json, |text| Bytes::from(text.to_uppercase()));
        assert_eq!(second.segments()[0].encoded(json, |_| unreachable!("it is encoded already")), encoded);
        let page = second.segments()[0].encoded(html, |_| Bytes::from_static(b"another face's"));
        assert_eq!(page, "another face's");
        assert_eq!(first.segments()[0].encoded(json, |_| unreachable!("it keeps its own")), encoded);
    }
}
