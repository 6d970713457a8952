//! Checks the choices of a question against the catalogs.

use std::collections::HashSet;

use domain::catalog::ModelEntry;
use domain::limits::ATTACHMENTS_MAX;
use plugins::{Lookup, PluginLibrary};
use workspace::{AskedPath, Workspace, WorkspaceError};

use crate::ask_error::{AskError, SKILLS_MAX};

/// Returns the full name of the agent.
pub(crate) fn agent_of(library: &PluginLibrary, word: &str) -> Result<String, AskError> {
    match library.find_agent(word) {
        Lookup::Found(agent) => Ok(agent.full_name.clone()),
        Lookup::Unknown => Err(AskError::UnknownAgent {
            asked: word.to_owned(),
            valid: library.agents.iter().map(|agent| agent.full_name.clone()).collect(),
        }),
        Lookup::Ambiguous(meant) => Err(AskError::AmbiguousName { asked: word.to_owned(), meant }),
    }
}

/// Returns the full names of the skills without repetitions.
pub(crate) fn skills_of(library: &PluginLibrary, words: &[String]) -> Result<Vec<String>, AskError> {
    if words.len() > SKILLS_MAX {
        return Err(AskError::TooManySkills);
    }
    let mut names = Vec::new();
    for word in words {
        match library.find_skill(word) {
            Lookup::Found(skill) if names.contains(&skill.name.full_name) => {}
            Lookup::Found(skill) => names.push(skill.name.full_name.clone()),
            Lookup::Unknown => {
                let valid = library.skills.iter().map(|skill| skill.name.full_name.clone()).collect();
                return Err(AskError::UnknownSkill { asked: word.clone(), valid });
            }
            Lookup::Ambiguous(meant) => {
                return Err(AskError::AmbiguousName { asked: word.clone(), meant });
            }
        }
    }
    Ok(names)
}

pub(crate) fn check_settings(model: &ModelEntry, settings: &[(String, String)]) -> Result<(), AskError> {
    for (at, (key, value)) in settings.iter().enumerate() {
        let Some(setting) = model.settings.iter().find(|setting| setting.key == *key) else {
            let valid = model.settings.iter().map(|setting| setting.key.clone()).collect();
            return Err(AskError::UnknownSetting { asked: key.clone(), valid });
        };
        if !setting.options.iter().any(|option| option.value == *value) {
            let valid = setting.options.iter().map(|option| option.value.clone()).collect();
            return Err(AskError::UnknownSetting { asked: value.clone(), valid });
        }
        // Keys are few: those before it are all different.
        if settings[..at].iter().any(|(earlier, _)| earlier == key) {
            return Err(AskError::RepeatedSetting(key.clone()));
        }
    }
    Ok(())
}

/// Removes repetitions and keeps the order.
pub(crate) fn each_once(texts: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    texts.iter().filter(|text| seen.insert(text.as_str())).cloned().collect()
}

/// Returns the normalized paths of the attached files.
pub(crate) async fn normalize_attachments(
    workspace: &Workspace,
    written: &[String],
) -> Result<Vec<String>, AskError> {
    if written.len() > ATTACHMENTS_MAX {
        return Err(AskError::TooManyAttachments);
    }
    let mut attachments = Vec::with_capacity(written.len());
    for path in written {
        // An empty path does not mean the home folder; that is `/`.
        if path.is_empty() {
            return Err(AskError::NoSuchAttachment(String::new()));
        }
        match workspace.find_entry(&AskedPath::from_text(path)).await {
            Ok(found) => attachments.push(found.path.to_string()),
            Err(WorkspaceError::NotFound) => return Err(AskError::NoSuchAttachment(path.clone())),
            Err(error) => return Err(AskError::Attachment { path: path.clone(), error }),
        }
    }
    Ok(attachments)
}
