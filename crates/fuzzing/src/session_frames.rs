//! Fuzzes the lines between host and machine: each input is a bounded frame or an error, regardless of how it is split
//! into chunks, and a parsed frame round-trips.

use domain::turn::ExecutorFrame;
use protocol::session::{LineReader, executor_line, host_line, read_executor_line, read_host_line};
use protocol::tool::{PASSAGES_MAX, TEXT_MAX_BYTES, WRITTEN_MAX};

/// Short, so that inputs exceed it.
const LINE_MAX_BYTES: usize = 2048;

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    let Some((&size, rest)) = data.split_first() else { return };
    let (lines, refused) = cut_lines(rest, rest.len().max(1));
    assert_eq!(cut_lines(rest, usize::from(size % 37) + 1), (lines.clone(), refused), "by how it arrives");
    let mut joined = lines.join(&b'\n');
    if !lines.is_empty() {
        joined.push(b'\n');
    }
    assert!(rest.starts_with(&joined), "lines that were not sent");
    for line in &lines {
        assert!(line.len() < LINE_MAX_BYTES && !line.contains(&b'\n'));
        check_executor_line(line);
        check_host_line(line);
    }
}

/// Returns the lines, and whether one was too long.
fn cut_lines(bytes: &[u8], size: usize) -> (Vec<Vec<u8>>, bool) {
    let mut lines = LineReader::of_at_most(LINE_MAX_BYTES);
    let mut out = Vec::new();
    for piece in bytes.chunks(size) {
        lines.push(piece);
        loop {
            match lines.next_line() {
                Ok(Some(line)) => out.push(line),
                Ok(None) => break,
                Err(_) => return (out, true),
            }
        }
    }
    (out, false)
}

fn check_executor_line(line: &[u8]) {
    let Ok(frame) = read_executor_line(line) else { return };
    let ExecutorFrame::Returned { output, .. } = &frame;
    assert!(output.text.len() <= TEXT_MAX_BYTES);
    assert!(output.passages.len() <= PASSAGES_MAX && output.written.len() <= WRITTEN_MAX);
    for path in &output.written {
        assert!(path.starts_with('/') && !path.contains('\0'));
        assert!(path[1..].split('/').all(|name| !matches!(name, "" | "." | "..")), "{path:?}");
    }
    let written = executor_line(&frame);
    let (end, written) = written.split_last().expect("a line feed");
    assert!(*end == b'\n' && !written.contains(&b'\n'));
    assert_eq!(read_executor_line(written).expect("a frame"), frame);
}

fn check_host_line(line: &[u8]) {
    let Ok(frame) = read_host_line(line) else { return };
    let written = host_line(&frame);
    let (end, written) = written.split_last().expect("a line feed");
    assert!(*end == b'\n' && !written.contains(&b'\n'));
    assert_eq!(read_host_line(written).expect("a frame"), frame);
}
