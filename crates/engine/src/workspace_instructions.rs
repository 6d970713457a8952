//! The instructions that the owner of a workspace keeps in it, in the file `AGENTS.md` of its root.
//!
//! They are read once, when an answer begins, and committed to its log before the first step: each lease works with
//! the same text, even if tools of the answer change the file.

use domain::answer::LogEntry;
use domain::step::{INSTRUCTIONS_FILE, Purpose, StepCall, StepOutcome, WORKSPACE_INSTRUCTIONS};
use domain::turn::CallOutput;
use futures_util::StreamExt;
use workspace::{AskedPath, Workspace};

/// The maximum number of bytes of the file that become instructions; the rest is cut.
const INSTRUCTIONS_MAX_BYTES: usize = 32 * 1024;
/// The text in place of the cut part.
const CUT: &str = "\n\n(The rest of the file is cut off because it is too long.)";

/// Returns the instructions with which the answer began, if it has begun with any: before its first step.
pub(crate) fn logged_instructions(log: &[LogEntry]) -> Option<String> {
    let before = log.iter().take_while(|entry| matches!(entry, LogEntry::Result { .. }));
    before
        .filter_map(|entry| match entry {
            LogEntry::Result { result, .. } => Some(result),
            LogEntry::Step { .. } | LogEntry::Summary { .. } => None,
        })
        .find(|result| result.call == WORKSPACE_INSTRUCTIONS)
        .map(|result| result.text.clone())
}

/// Returns true if the answer has a step, so that its instructions are fixed.
pub(crate) fn has_begun(log: &[LogEntry]) -> bool {
    log.iter().any(|entry| matches!(entry, LogEntry::Step { .. } | LogEntry::Summary { .. }))
}

/// Reads the file; `None` if it does not exist or contains no text.
pub(crate) async fn read_instructions(workspace: &Workspace) -> Option<String> {
    let file = workspace.open_file(&AskedPath::from_text(INSTRUCTIONS_FILE)).await.ok()?;
    // One more byte shows whether the file is cut, three more complete a character.
    let end = file.size.min(INSTRUCTIONS_MAX_BYTES as u64 + 4);
    let mut bytes = Vec::with_capacity(usize::try_from(end).ok()?);
    let mut stream = file.stream_range(0..end);
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.ok()?);
    }
    instructions_of(&bytes)
}

fn instructions_of(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}");
    let text = text.trim_start_matches('\u{feff}');
    if text.trim().is_empty() {
        return None;
    }
    if text.len() <= INSTRUCTIONS_MAX_BYTES {
        return Some(text.trim().to_owned());
    }
    Some(format!("{}{CUT}", &text[..text.floor_char_boundary(INSTRUCTIONS_MAX_BYTES)]))
}

/// Returns the call that commits the instructions to the log.
pub(crate) fn instructions_call() -> StepCall {
    StepCall {
        id: WORKSPACE_INSTRUCTIONS.to_owned(),
        tool: WORKSPACE_INSTRUCTIONS.to_owned(),
        arguments: "{}".to_owned(),
        purpose: Purpose::Tool,
    }
}

/// Returns the output of that call.
pub(crate) fn instructions_output(instructions: &str) -> CallOutput {
    CallOutput {
        images: Vec::new(),
        outcome: StepOutcome::Done,
        text: instructions.to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_instructions_cut_at_character() {
        assert_eq!(instructions_of(b"\xef\xbb\xbf Be brief. \n").as_deref(), Some("Be brief."));
        assert_eq!((instructions_of(b""), instructions_of(b" \n")), (None, None));
        assert_eq!(instructions_of(b"a\xff\0").as_deref(), Some("a\u{fffd}\u{fffd}"));
        let exact = "x".repeat(INSTRUCTIONS_MAX_BYTES);
        assert_eq!(instructions_of(exact.as_bytes()), Some(exact.clone()));
        let long = format!("{}\u{e9}y", &exact[1..]);
        let cut = instructions_of(long.as_bytes()).expect("it holds text");
        assert_eq!(cut, format!("{}{CUT}", &exact[1..]));
    }
}
