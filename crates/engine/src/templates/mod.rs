//! The prompt templates: one built-in file per section, which the operator may replace.
//!
//! A template is text with placeholders, `{{name}}`. The placeholders of each section are fixed here. There are no
//! conditions and no loops: a section that does not apply to a question is left out as a whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::catalog::{CatalogJurisdiction, CatalogLanguage};

/// The longest template, in bytes.
pub const TEMPLATE_MAX_BYTES: u64 = 64 * 1024;
/// The maximum number of files of a folder of templates that are examined.
const FILES_MAX: usize = 100;

/// A section of the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The instructions for every model.
    Base,
    /// The instructions of the agent's author.
    Agent,
    /// The instructions of the workspace's owner, if its root has the file `AGENTS.md`.
    Workspace,
    /// The instructions that the client sent with the question.
    Client,
    /// Added if the question allows web search.
    Web,
    /// Added for an agent that works on a task of another one.
    Task,
    /// Added if the question names jurisdictions.
    Jurisdictions,
    /// Added if there are skills.
    Skills,
    /// Added if the user chose the skills.
    Chosen,
    /// The instructions for a summary; the question follows.
    Summary,
}

impl Section {
    /// Every section, in the order of the prompt.
    pub const ALL: [Self; 10] = [
        Self::Base,
        Self::Agent,
        Self::Workspace,
        Self::Client,
        Self::Web,
        Self::Task,
        Self::Jurisdictions,
        Self::Skills,
        Self::Chosen,
        Self::Summary,
    ];

    /// Returns the name of the section's file.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Base => "base.md",
            Self::Agent => "agent.md",
            Self::Workspace => "workspace.md",
            Self::Client => "client.md",
            Self::Web => "web.md",
            Self::Task => "task.md",
            Self::Jurisdictions => "jurisdictions.md",
            Self::Skills => "skills.md",
            Self::Chosen => "chosen.md",
            Self::Summary => "summary.md",
        }
    }

    /// Returns the placeholders of the section. A template must contain all of them, or their content would be lost.
    #[must_use]
    pub const fn placeholders(self) -> &'static [&'static str] {
        match self {
            Self::Agent | Self::Workspace | Self::Client => &["instructions"],
            Self::Jurisdictions => &["jurisdictions"],
            Self::Skills => &["chosen", "skills"],
            Self::Base | Self::Web | Self::Task | Self::Chosen | Self::Summary => &[],
        }
    }

    /// Returns the built-in template.
    #[must_use]
    pub const fn builtin_text(self) -> &'static str {
        match self {
            Self::Base => include_str!("base.md"),
            Self::Agent => include_str!("agent.md"),
            Self::Workspace => include_str!("workspace.md"),
            Self::Client => include_str!("client.md"),
            Self::Web => include_str!("web.md"),
            Self::Task => include_str!("task.md"),
            Self::Jurisdictions => include_str!("jurisdictions.md"),
            Self::Skills => include_str!("skills.md"),
            Self::Chosen => include_str!("chosen.md"),
            Self::Summary => include_str!("summary.md"),
        }
    }
}

/// The reason why a folder of templates is rejected.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// The folder or a file cannot be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        error: io::Error,
    },
    /// No section has the name of a file.
    #[error("{path}: unknown section; use one of {}", join_names(&Section::ALL.map(Section::file_name)))]
    NoSuchSection { path: PathBuf },
    /// A template is too long.
    #[error("{path}: the template is longer than {TEMPLATE_MAX_BYTES} bytes")]
    TooLong { path: PathBuf },
    /// The section does not have this placeholder.
    #[error("{path}:{line}: unknown placeholder {{{{{name}}}}}: {hint}")]
    NoSuchPlaceholder {
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// The text between the braces.
        name: String,
        hint: String,
    },
    /// A placeholder is missing.
    #[error("{path}: {{{{{name}}}}} is missing: add it")]
    Missing { path: PathBuf, name: &'static str },
}

/// The templates of all sections.
#[derive(Debug, Clone)]
pub struct PromptTemplates {
    texts: Vec<Arc<str>>,
    jurisdictions: Arc<Vec<CatalogJurisdiction>>,
}

impl PromptTemplates {
    /// Creates the built-in templates with these jurisdictions.
    #[must_use]
    pub fn builtin(jurisdictions: Arc<Vec<CatalogJurisdiction>>) -> Self {
        Self {
            texts: Section::ALL.iter().map(|section| section.builtin_text().into()).collect(),
            jurisdictions,
        }
    }

    /// Replaces the sections for which the folder has a template. Ignores hidden files and files other than Markdown.
    ///
    /// # Errors
    /// [`TemplateError`].
    pub fn with_folder(mut self, folder: &Path) -> Result<Self, TemplateError> {
        let unreadable = |error| TemplateError::Unreadable { path: folder.to_owned(), error };
        for entry in std::fs::read_dir(folder).map_err(unreadable)?.take(FILES_MAX) {
            let path = entry.map_err(unreadable)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with('.') || !name.ends_with(".md") {
                continue;
            }
            let at = Section::ALL.iter().position(|section| section.file_name() == name);
            let Some(at) = at else { return Err(TemplateError::NoSuchSection { path }) };
            self.texts[at] = read_template(&path, Section::ALL[at])?.into();
        }
        Ok(self)
    }

    /// Renders a section with these values of its placeholders. Values are not searched for placeholders.
    pub(crate) fn render_section(&self, section: Section, values: &[(&str, &str)]) -> String {
        let at = Section::ALL.iter().position(|known| *known == section).unwrap_or_default();
        let mut rest: &str = &self.texts[at];
        let mut text = String::with_capacity(rest.len());
        while let Some((before, name, after)) = next_placeholder(rest) {
            text.push_str(before);
            let value = values.iter().find(|(known, _)| *known == name);
            text.push_str(value.map_or("", |(_, value)| value));
            rest = after;
        }
        text.push_str(rest);
        text.trim().to_owned()
    }

    /// Lists jurisdictions by name: `Czechia (CZ)`; by identifier alone if they are not configured any more.
    pub(crate) fn name_jurisdictions(&self, ids: &[String]) -> String {
        let named = ids.iter().map(|id| {
            let known = self.jurisdictions.iter().find(|known| known.id == *id);
            known.map_or_else(
                || id.clone(),
                |known| format!("{} ({id})", known.label.in_language(CatalogLanguage::En)),
            )
        });
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Splits the text at the next placeholder: the text before, the name, and the text after.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find("{{")?;
    let inner = &text[begin + 2..];
    let end = inner.find("}}")?;
    Some((&text[..begin], inner[..end].trim(), &inner[end + 2..]))
}

fn read_template(path: &Path, section: Section) -> Result<String, TemplateError> {
    let unreadable = |error| TemplateError::Unreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(TEMPLATE_MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > TEMPLATE_MAX_BYTES {
        return Err(TemplateError::TooLong { path: path.to_owned() });
    }
    check_template(path, section, &text)?;
    Ok(text)
}

/// Checks that a template has all placeholders of its section and no others.
fn check_template(path: &Path, section: Section, text: &str) -> Result<(), TemplateError> {
    let known = section.placeholders();
    let mut met = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let mut rest = line;
        while let Some(begin) = rest.find("{{") {
            let unknown = |name: &str, hint| {
                let (path, name) = (path.to_owned(), name.chars().take(100).collect());
                TemplateError::NoSuchPlaceholder { path, line: number, name, hint }
            };
            let Some((_, name, after)) = next_placeholder(&rest[begin..]) else {
                return Err(unknown(&rest[begin + 2..], "it has no closing }} on its line".to_owned()));
            };
            if !known.contains(&name) {
                let near = known.iter().min_by_key(|known| differing_length(name, known));
                let hint = near.map_or("this section has none".to_owned(), |near| {
                    format!("did you mean {{{{{near}}}}}?")
                });
                return Err(unknown(name, hint));
            }
            met.push(name);
            rest = after;
        }
    }
    match known.iter().find(|name| !met.contains(name)) {
        Some(name) => Err(TemplateError::Missing { path: path.to_owned(), name }),
        None => Ok(()),
    }
}

/// Returns the length of the names after their common prefix, for suggestions.
fn differing_length(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    one.chars().count().max(other.chars().count()) - same
}

fn join_names(names: &[&str]) -> String {
    names.join(", ")
}

/// Writes the built-in templates to a folder as a starting point, and creates the folder if necessary. Does not
/// replace files.
///
/// # Errors
/// Errors of the file system, and [`io::ErrorKind::AlreadyExists`] for the first file that exists.
pub fn write_builtin(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for section in Section::ALL {
        let mut file = File::options().write(true).create_new(true).open(folder.join(section.file_name()))?;
        io::Write::write_all(&mut file, section.builtin_text().as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builtin_templates() -> PromptTemplates {
        PromptTemplates::builtin(Arc::new(domain::catalog::builtin_jurisdictions()))
    }

    fn template_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("a file");
        }
        folder
    }

    #[test]
    fn builtin_templates_load_from_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("new");
        write_builtin(&to).expect("it is written");
        let read = builtin_templates().with_folder(&to).expect("it is taken");
        for section in Section::ALL {
            assert_eq!(read.render_section(section, &[]), builtin_templates().render_section(section, &[]));
        }
        let again = write_builtin(&to).expect_err("what is there stays");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_replaces_its_section_alone() {
        let folder = template_folder(&[
            ("agent.md", "As {{ instructions }}."),
            ("README.txt", "x"),
            (".draft.md", "x"),
        ]);
        let templates = builtin_templates().with_folder(folder.path()).expect("it is taken");
        assert_eq!(
            templates.render_section(Section::Agent, &[("instructions", "{{skills}} & more")]),
            "As {{skills}} & more."
        );
        assert!(templates.render_section(Section::Base, &[]).contains("You are the agent of a workspace"));
    }

    #[test]
    fn template_error_names_its_line() {
        for (name, content, expected) in [
            (
                "skills.md",
                "x\n{{chosen}} {{skils}}",
                "skills.md:2: unknown placeholder {{skils}}: did you mean {{skills}}?",
            ),
            (
                "base.md",
                "{{jurisdictions}}",
                "base.md:1: unknown placeholder {{jurisdictions}}: this section has none",
            ),
            ("agent.md", "Go on {{instructions", "agent.md:1: unknown placeholder {{instructions}}"),
            ("skills.md", "{{skills}}", "skills.md: {{chosen}} is missing"),
            ("basis.md", "x", "basis.md: unknown section; use one of base.md, agent.md"),
        ] {
            let folder = template_folder(&[(name, content)]);
            let error = builtin_templates().with_folder(folder.path()).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{error}");
        }
        let long = "x".repeat(TEMPLATE_MAX_BYTES as usize + 1);
        assert!(builtin_templates().with_folder(template_folder(&[("base.md", &long)]).path()).is_err());
        assert!(builtin_templates().with_folder(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn jurisdictions_are_told_by_name() {
        let ids = ["CZ".to_owned(), "gone".to_owned()];
        assert_eq!(builtin_templates().name_jurisdictions(&ids), "Czechia (CZ), gone");
    }
}
