//! Facts about a step that an answer reports to its reader in a sentence.

use crate::shown_name::shown_name;

/// The maximum number of notes of one step; further ones are dropped.
pub const NOTES_MAX: usize = 32;
/// The longest name that a note shows, in characters.
const NAME_MAX_CHARS: usize = 120;

/// A fact about a step that its reader should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepNote {
    /// The model's server refuses tools, so the model was called without them.
    ToolsRefused,
    /// The model's server refuses this tool, so the model was called without it.
    ToolLeftOut(String),
    /// The step made more calls than [`crate::limits::CALLS_MAX`]; this number of them was not run.
    CallsLeftOut(u32),
    /// The model's server gave an unknown reason for the end of the step.
    UnknownStop,
}

impl StepNote {
    /// Returns the sentence for the reader, in Markdown.
    #[must_use]
    pub fn to_sentence(&self) -> String {
        match self {
            Self::ToolsRefused => {
                "This model cannot use files: its server accepts no tools for it. It has read only what the question and \
                 its attachments brought."
                    .to_owned()
            }
            Self::ToolLeftOut(tool) => format!(
                "The tool {} was not available: the model's server rejected its definition.",
                format_code(tool)
            ),
            Self::CallsLeftOut(calls) => format!(
                "The model requested too many tool calls at once: {calls} of them were skipped."
            ),
            Self::UnknownStop => "The model's server ended the answer for a reason that is not known here: the answer may \
                                  not be complete."
                .to_owned(),
        }
    }
}

/// Formats a name as code, so that its characters have no meaning in Markdown.
fn format_code(name: &str) -> String {
    let shown: String =
        shown_name(name).chars().filter(|letter| *letter != '`').take(NAME_MAX_CHARS).collect();
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_names_escape_markdown() {
        let sentence = StepNote::ToolLeftOut("x` [1](javascript:x)\n".to_owned()).to_sentence();
        assert!(sentence.starts_with("The tool `x [1](javascript:x)"), "{sentence}");
        assert!(!sentence.contains('\n'), "{sentence}");
    }
}
