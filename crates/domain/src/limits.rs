//! Limits that several crates share. Limits of a single crate are defined there.

/// The longest question, in bytes.
pub const QUESTION_MAX_BYTES: usize = 1024 * 1024;
/// The longest instructions that a client sends with a question, in bytes.
pub const INSTRUCTIONS_MAX_BYTES: usize = 256 * 1024;
/// The longest title of a conversation, in characters.
pub const TITLE_MAX_CHARS: usize = 120;
/// The longest workspace path, in bytes.
pub const PATH_MAX_BYTES: usize = 4096;
/// The maximum number of files attached to one question.
pub const ATTACHMENTS_MAX: usize = 100;
/// The maximum number of steps of one answer, unless the operator sets another number.
pub const STEPS_MAX: u32 = 60;
/// The maximum number of steps of a subagent's task, unless the operator sets another number.
pub const DELEGATED_STEPS_MAX: u32 = 30;
/// The maximum number of calls of one step.
pub const CALLS_MAX: usize = 32;
/// The largest output of one step: the bytes of its text, reasoning and arguments together.
pub const STEP_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of files that are parts of one answer; further files written by tools are not shown.
pub const FILE_PARTS_MAX: usize = 500;
/// The maximum number of numbered passages of one answer, because a mark has at most three digits.
pub const SOURCES_MAX: u32 = 999;
/// Bounds the texts of passages that an answer keeps to check its citations, in bytes.
pub const PASSAGES_MAX_BYTES: usize = 1024 * 1024;
/// The maximum number of functions that a client declares with a question.
pub const FUNCTIONS_MAX: usize = 64;
/// The bytes of their names, descriptions and parameters together.
pub const FUNCTIONS_MAX_BYTES: usize = 128 * 1024;
/// The longest reply to a call, in bytes.
pub const REPLY_MAX_BYTES: usize = 1024 * 1024;
