//! Splits messages into lines of bounded length; a longer line is never buffered or parsed.

/// The longest line of a server, in bytes.
pub(super) const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Splits a server's output into lines of bounded length.
#[derive(Debug, Default)]
pub struct LineCutter(Vec<u8>);

impl LineCutter {
    /// Returns the complete lines. `None` is a line that is too long; no more lines follow it.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Vec::new();
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        let mut piece = pieces.next();
        while let Some(bytes) = piece {
            if self.0.len() + bytes.len() > LINE_MAX_BYTES {
                lines.push(None);
                return lines;
            }
            self.0.extend_from_slice(bytes);
            piece = pieces.next();
            if piece.is_some() {
                lines.push(Some(std::mem::take(&mut self.0)));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_cutter_bounds_split_lines() {
        let whole = b"one\n\ntwo\nrest";
        for size in 1..=whole.len() {
            let mut cutter = LineCutter::default();
            let lines: Vec<_> = whole.chunks(size).flat_map(|piece| cutter.push(piece)).collect();
            assert_eq!(lines, [Some(b"one".to_vec()), Some(Vec::new()), Some(b"two".to_vec())], "{size}");
        }
        let mut cutter = LineCutter::default();
        assert!(cutter.push(&vec![b'x'; LINE_MAX_BYTES]).is_empty());
        assert_eq!(cutter.push(b"x"), [None]);
    }
}
