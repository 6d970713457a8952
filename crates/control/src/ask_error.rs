//! The errors of asking.

use domain::excerpt::Excerpt;
use domain::limits::{ATTACHMENTS_MAX, INSTRUCTIONS_MAX_BYTES, QUESTION_MAX_BYTES};
use domain::machine::MachineStatus;
use engine::FunctionError;
use machine::SupervisorError;
use store::StoreError;
use store::conversations::ConversationError;
use store::questions::AskRefused;
use workspace::WorkspaceError;

use crate::workspaces_marker::WorkspacesGone;

/// The maximum number of names that a message lists.
const NAMES_IN_ERROR_MAX: usize = 100;
/// The maximum number of skills that a question names.
pub(crate) const SKILLS_MAX: usize = 100;

/// The reason why a question was not accepted. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The text is missing or blank.
    #[error("input is missing or blank: send the text of the question")]
    Blank,
    /// The text is too long.
    #[error("input is too long: send at most {QUESTION_MAX_BYTES} bytes")]
    TooLong,
    /// The instructions are too long.
    #[error("the instructions are too long: send at most {INSTRUCTIONS_MAX_BYTES} bytes")]
    InstructionsTooLong,
    /// The functions of the client cannot be offered.
    #[error("{0}")]
    Functions(FunctionError),
    /// The text contains NUL.
    #[error("input contains a NUL character: remove it")]
    Nul,
    /// The model does not exist.
    #[error("there is no model {}; valid values: {}", Excerpt(asked), valid.join(", "))]
    UnknownModel {
        /// The requested name or value.
        asked: String,
        /// The valid names or values.
        valid: Vec<String>,
    },
    /// The model is not available, because model discovery failed.
    #[error("there is no model to answer with now ({outage}); try again later")]
    NoModel {
        /// The vendor and its failure.
        outage: String,
    },
    /// The model of the conversation has left the catalog, and no outage hides it.
    #[error(
        "the model {} of this conversation is no longer offered; begin a new conversation",
        Excerpt(model)
    )]
    GoneModel {
        /// The identifier of the model.
        model: String,
    },
    /// The model has no such setting, or the setting has no such value.
    #[error(
        "{} is neither a setting of this model nor a value of one; {}",
        Excerpt(asked),
        valid_values(valid)
    )]
    UnknownSetting {
        /// The requested name or value.
        asked: String,
        /// The valid names or values.
        valid: Vec<String>,
    },
    /// A setting is given more than once.
    #[error("duplicate setting {}: send it only once", Excerpt(.0))]
    RepeatedSetting(String),
    /// The jurisdiction does not exist.
    #[error("there is no jurisdiction {}; valid values: {}", Excerpt(asked), valid.join(", "))]
    UnknownJurisdiction {
        /// The requested name or value.
        asked: String,
        /// The valid names or values.
        valid: Vec<String>,
    },
    /// The agent does not exist.
    #[error("there is no agent {}; valid values: {}", Excerpt(asked), join_names(valid))]
    UnknownAgent {
        /// The requested name or value.
        asked: String,
        /// The valid full names.
        valid: Vec<String>,
    },
    /// The skill does not exist.
    #[error("there is no skill {}; valid values: {}", Excerpt(asked), join_names(valid))]
    UnknownSkill {
        /// The requested name or value.
        asked: String,
        /// The valid full names.
        valid: Vec<String>,
    },
    /// Several skills, or several agents, have this name.
    #[error("{} names several; their full names: {}", Excerpt(asked), join_names(meant))]
    AmbiguousName {
        /// The requested name or value.
        asked: String,
        /// The full names that match.
        meant: Vec<String>,
    },
    /// More than [`ATTACHMENTS_MAX`] files are attached.
    #[error("too many files are attached: attach at most {ATTACHMENTS_MAX}")]
    TooManyAttachments,
    /// More than [`SKILLS_MAX`] skills are named.
    #[error("too many skills are named: name at most {SKILLS_MAX}")]
    TooManySkills,
    /// An attached path does not exist.
    #[error("filePaths: there is nothing at {}", Excerpt(.0))]
    NoSuchAttachment(String),
    /// An attached path cannot be used.
    #[error("filePaths: {}: {error}", Excerpt(path))]
    Attachment {
        /// The path as sent.
        path: String,
        #[source]
        error: WorkspaceError,
    },
    /// The account has no machine.
    #[error("the account has no machine")]
    NoMachine,
    /// The account's machine does not run, and questions do not start it.
    #[error("the machine is {}; start it and wait until it is RUNNING", .0.as_str())]
    MachineNotRunning(MachineStatus),
    /// The disk is nearly full.
    #[error("the service is short of disk space and takes no questions; try again later")]
    DiskLow,
    /// The file system of the workspaces is not available.
    #[error(transparent)]
    NoWorkspaces(#[from] WorkspacesGone),
    /// The state of the account's machine is unknown.
    #[error(transparent)]
    Machine(SupervisorError),
    /// The store refused the question.
    #[error(transparent)]
    Refused(#[from] AskRefused),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<ConversationError> for AskError {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::NotFound => Self::Refused(AskRefused::NotFound),
            ConversationError::Store(error) => Self::Store(error),
        }
    }
}

/// Lists the settings that a model has, or the values of one.
fn valid_values(valid: &[String]) -> String {
    if valid.is_empty() { "it has none".to_owned() } else { format!("valid values: {}", valid.join(", ")) }
}

/// Joins names, up to [`NAMES_IN_ERROR_MAX`] of them.
fn join_names(names: &[String]) -> String {
    let text = names.iter().take(NAMES_IN_ERROR_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_IN_ERROR_MAX { format!("{text}, …") } else { text }
}
