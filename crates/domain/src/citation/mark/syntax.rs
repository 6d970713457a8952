//! The parts of Markdown's syntax that affect marks, each recognized at the beginning of the remaining text.

/// The longest code span, in bytes; a later closing run does not count.
const CODE_SPAN_MAX_BYTES: usize = 4096;
/// The longest address of a link, in bytes.
const ADDRESS_MAX_BYTES: usize = 2048;
/// The longest white space that is removed with the mark after it, in bytes.
pub(super) const SPACES_MAX: usize = 256;
/// The bytes of a fence's info string that are searched for backticks, which make the fence invalid.
const FENCE_INFO_MAX_BYTES: usize = 256;
/// The maximum number of quotes and list items that open on one line.
pub(super) const CONTAINERS_MAX: usize = 16;

/// The result of a search in a text that may be incomplete.
pub(super) enum ScanResult {
    Found(usize),
    Absent,
    Undecided,
}

/// A fence that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CodeFence {
    pub(super) mark: u8,
    pub(super) length: usize,
    /// The column of its list item's content: a line that begins further left ends both.
    pub(super) item: usize,
    /// Set inside a quote.
    pub(super) quoted: bool,
}

/// The relation of a line to the open fence.
pub(super) enum FenceRelation {
    Inside,
    Closing,
    /// The line ends the container of the fence.
    Outside,
}

impl CodeFence {
    /// Classifies a line relative to the fence; `None` when undecided.
    pub(super) fn classify_line(self, text: &[u8], ended: bool) -> Option<FenceRelation> {
        let lead = run_length(text, |byte| matches!(byte, b' ' | b'\t') || (self.quoted && byte == b'>'))
            .min(SPACES_MAX);
        let unquoted = self.quoted && !text[..lead].contains(&b'>');
        match text.get(lead) {
            None if !ended && lead < SPACES_MAX => return None,
            _ if unquoted => return Some(FenceRelation::Outside),
            None | Some(b'\n') => return Some(FenceRelation::Inside),
            Some(_) if leading_columns(&text[..lead]) < self.item => return Some(FenceRelation::Outside),
            Some(_) => {}
        }
        let closing = run_length(&text[lead..], |byte| byte == self.mark);
        let after = &text[lead + closing..];
        let spaces = run_length(after, |byte| matches!(byte, b' ' | b'\t'));
        if closing == 0 || spaces > SPACES_MAX {
            return Some(FenceRelation::Inside);
        }
        let ends_line = match after.get(spaces) {
            None if !ended => return None,
            None | Some(b'\n') => true,
            Some(_) => false,
        };
        Some(if ends_line && closing >= self.length { FenceRelation::Closing } else { FenceRelation::Inside })
    }
}

/// Returns the columns of the leading white space.
pub(super) fn leading_columns(text: &[u8]) -> usize {
    text.iter().fold(0, |columns, byte| if *byte == b'\t' { columns / 4 * 4 + 4 } else { columns + 1 })
}

pub(super) fn run_length(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !belongs(*byte)).unwrap_or(text.len())
}

/// Scans a quote's or list item's marker: its length without the space after it.
pub(super) fn scan_container_marker(text: &[u8], ended: bool) -> ScanResult {
    let length = match text.first() {
        Some(b'>') => return ScanResult::Found(1),
        Some(b'-' | b'+' | b'*') => 1,
        Some(byte) if byte.is_ascii_digit() => {
            let digits = run_length(text, |byte| byte.is_ascii_digit());
            match text.get(digits) {
                None if !ended && digits < 10 => return ScanResult::Undecided,
                Some(b'.' | b')') if digits < 10 => digits + 1,
                _ => return ScanResult::Absent,
            }
        }
        _ => return ScanResult::Absent,
    };
    match text.get(length) {
        None if !ended => ScanResult::Undecided,
        None | Some(b' ' | b'\t' | b'\n') => ScanResult::Found(length),
        Some(_) => ScanResult::Absent,
    }
}

/// Scans the beginning of a fence; the outer `None` means undecided.
#[expect(clippy::option_option, reason = "undecided, no fence, and the fence are three answers")]
pub(super) fn opens_fence(text: &[u8], ended: bool) -> Option<Option<(u8, usize)>> {
    let Some(mark @ (b'`' | b'~')) = text.first().copied() else { return Some(None) };
    let length = run_length(text, |byte| byte == mark);
    if length == text.len() && !ended {
        return None;
    }
    if length < 3 {
        return Some(None);
    }
    if mark == b'`' {
        for byte in text[length..].iter().take(FENCE_INFO_MAX_BYTES) {
            match byte {
                b'`' => return Some(None),
                b'\n' => return Some(Some((mark, length))),
                _ => {}
            }
        }
        if text.len() - length < FENCE_INFO_MAX_BYTES && !ended {
            return None;
        }
    }
    Some(Some((mark, length)))
}

/// Returns the end of the code span that begins with `opening` backticks.
pub(super) fn code_span(text: &[u8], opening: usize, ended: bool) -> ScanResult {
    let unknown = if ended { ScanResult::Absent } else { ScanResult::Undecided };
    let mut at = opening;
    if at == text.len() && at <= CODE_SPAN_MAX_BYTES {
        return unknown;
    }
    loop {
        at += run_length(&text[at..], |byte| !matches!(byte, b'`' | b'\n'));
        if at >= CODE_SPAN_MAX_BYTES {
            return ScanResult::Absent;
        }
        match text.get(at) {
            None => return unknown,
            Some(b'`') => {
                let closing = run_length(&text[at..], |byte| byte == b'`');
                at += closing;
                if at >= CODE_SPAN_MAX_BYTES {
                    return ScanResult::Absent;
                }
                if at == text.len() && !ended {
                    return ScanResult::Undecided;
                }
                if closing == opening {
                    return ScanResult::Found(at);
                }
            }
            Some(_) => match ends_paragraph(&text[at + 1..], ended) {
                Some(false) => at += 1,
                Some(true) => return ScanResult::Absent,
                None => return ScanResult::Undecided,
            },
        }
    }
}

/// Returns true if the line ends the paragraph before it.
pub(super) fn ends_paragraph(line: &[u8], ended: bool) -> Option<bool> {
    let indent = run_length(line, |byte| matches!(byte, b' ' | b'\t'));
    if indent > SPACES_MAX {
        return Some(false);
    }
    match line.get(indent) {
        None => ended.then_some(true),
        Some(b'\n' | b'#' | b'|') => Some(true),
        Some(mark @ (b'`' | b'~')) => {
            let length = run_length(&line[indent..], |byte| byte == *mark);
            if length >= 3 {
                Some(true)
            } else if indent + length == line.len() && !ended {
                None
            } else {
                Some(false)
            }
        }
        Some(_) => match scan_container_marker(&line[indent..], ended) {
            ScanResult::Found(_) => Some(true),
            ScanResult::Absent => Some(false),
            ScanResult::Undecided => None,
        },
    }
}

/// Returns the end of the address in parentheses after the `]` at the beginning.
pub(super) fn find_address_end(text: &[u8], ended: bool) -> ScanResult {
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate().skip(1).take(ADDRESS_MAX_BYTES) {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return ScanResult::Found(at + 1),
            b')' => depth -= 1,
            b'\n' => return ScanResult::Absent,
            _ => {}
        }
    }
    if ended || text.len() > ADDRESS_MAX_BYTES { ScanResult::Absent } else { ScanResult::Undecided }
}
