//! What models are told, as templates: a file for each section, built in, which the operator may replace.
//!
//! A template is text with placeholders, `{{name}}`. Which there are in which section is fixed here; there are no
//! conditions and no loops: a section that does not hold for a question is left out as a whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::catalog::{Jurisdiction, Language};

/// The longest template, in bytes.
pub const TEMPLATE_MAX_BYTES: u64 = 64 * 1024;
/// The most files of a folder of templates that are looked at.
const FILES_MAX: usize = 100;

/// A section of what models are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// What every model is told.
    Base,
    /// What the agent's author says.
    Agent,
    /// Where the question allows the web.
    Web,
    /// For an agent that works on another's task.
    Task,
    /// Where the question names jurisdictions.
    Jurisdictions,
    /// Where there are skills.
    Skills,
    /// Where the user chose them.
    Chosen,
    /// What a model is told that sums up; the question follows.
    Summary,
}

impl Section {
    /// Every section, in the order in which they are told.
    pub const ALL: [Self; 8] = [
        Self::Base,
        Self::Agent,
        Self::Web,
        Self::Task,
        Self::Jurisdictions,
        Self::Skills,
        Self::Chosen,
        Self::Summary,
    ];

    /// The file that holds it.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Base => "base.md",
            Self::Agent => "agent.md",
            Self::Web => "web.md",
            Self::Task => "task.md",
            Self::Jurisdictions => "jurisdictions.md",
            Self::Skills => "skills.md",
            Self::Chosen => "chosen.md",
            Self::Summary => "summary.md",
        }
    }

    /// The placeholders that stand in it: all of them, or what they bring is not told.
    #[must_use]
    pub const fn placeholders(self) -> &'static [&'static str] {
        match self {
            Self::Agent => &["instructions"],
            Self::Jurisdictions => &["jurisdictions"],
            Self::Skills => &["chosen", "skills"],
            Self::Base | Self::Web | Self::Task | Self::Chosen | Self::Summary => &[],
        }
    }

    /// What is built in.
    #[must_use]
    pub const fn builtin(self) -> &'static str {
        match self {
            Self::Base => include_str!("base.md"),
            Self::Agent => include_str!("agent.md"),
            Self::Web => include_str!("web.md"),
            Self::Task => include_str!("task.md"),
            Self::Jurisdictions => include_str!("jurisdictions.md"),
            Self::Skills => include_str!("skills.md"),
            Self::Chosen => include_str!("chosen.md"),
            Self::Summary => include_str!("summary.md"),
        }
    }
}

/// Why a folder of templates is not taken.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// It can't be read.
    #[error("{path}: {error}")]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file has a name that no section has.
    #[error("{path}: there is no such section; there are {}", names(&Section::ALL.map(Section::file)))]
    NoSuchSection {
        /// The file.
        path: PathBuf,
    },
    /// A template is too long.
    #[error("{path}: it is longer than {TEMPLATE_MAX_BYTES} bytes")]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A placeholder that its section does not have.
    #[error("{path}:{line}: there is no {{{{{name}}}}} here; {hint}")]
    NoSuchPlaceholder {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What stands between the braces.
        name: String,
        /// What there is.
        hint: String,
    },
    /// A placeholder that is missing.
    #[error("{path}: {{{{{name}}}}} is missing")]
    Missing {
        /// The file.
        path: PathBuf,
        /// The placeholder.
        name: &'static str,
    },
}

/// What models are told.
#[derive(Debug, Clone)]
pub struct PromptTemplates {
    texts: Vec<Arc<str>>,
    jurisdictions: Arc<Vec<Jurisdiction>>,
}

impl PromptTemplates {
    /// What is built in, with these jurisdictions.
    #[must_use]
    pub fn builtin(jurisdictions: Arc<Vec<Jurisdiction>>) -> Self {
        Self { texts: Section::ALL.iter().map(|section| section.builtin().into()).collect(), jurisdictions }
    }

    /// The same with the templates of a folder in their sections' place. Files that are no Markdown, and hidden ones, do
    /// not count.
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
            let at = Section::ALL.iter().position(|section| section.file() == name);
            let Some(at) = at else { return Err(TemplateError::NoSuchSection { path }) };
            self.texts[at] = read(&path, Section::ALL[at])?.into();
        }
        Ok(self)
    }

    /// A section with what its placeholders stand for; what is put in is not looked into again.
    pub(crate) fn tell(&self, section: Section, values: &[(&str, &str)]) -> String {
        let at = Section::ALL.iter().position(|known| *known == section).unwrap_or_default();
        let mut rest: &str = &self.texts[at];
        let mut told = String::with_capacity(rest.len());
        while let Some((before, name, after)) = next_placeholder(rest) {
            told.push_str(before);
            let value = values.iter().find(|(known, _)| *known == name);
            told.push_str(value.map_or("", |(_, value)| value));
            rest = after;
        }
        told.push_str(rest);
        told.trim().to_owned()
    }

    /// Jurisdictions by name: `Czechia (CZ)`. What is listed no more is its identifier.
    pub(crate) fn jurisdictions(&self, ids: &[String]) -> String {
        let named = ids.iter().map(|id| {
            let known = self.jurisdictions.iter().find(|known| known.id == *id);
            known.map_or_else(
                || id.clone(),
                |known| format!("{} ({id})", known.label.in_language(Language::En)),
            )
        });
        named.collect::<Vec<_>>().join(", ")
    }
}

/// What stands before the next placeholder, its name, and what stands behind it.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let begin = text.find("{{")?;
    let inner = &text[begin + 2..];
    let end = inner.find("}}")?;
    Some((&text[..begin], inner[..end].trim(), &inner[end + 2..]))
}

fn read(path: &Path, section: Section) -> Result<String, TemplateError> {
    let unreadable = |error| TemplateError::Unreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(TEMPLATE_MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > TEMPLATE_MAX_BYTES {
        return Err(TemplateError::TooLong { path: path.to_owned() });
    }
    check(path, section, &text)?;
    Ok(text)
}

/// Whether a template has the placeholders of its section and no other.
fn check(path: &Path, section: Section, text: &str) -> Result<(), TemplateError> {
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
                return Err(unknown(&rest[begin + 2..], "it is not closed in its line".to_owned()));
            };
            if !known.contains(&name) {
                let near = known.iter().min_by_key(|known| differing(name, known));
                let hint =
                    near.map_or("it has none".to_owned(), |near| format!("did you mean {{{{{near}}}}}?"));
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

/// How many letters two names do not begin with together.
fn differing(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    one.chars().count().max(other.chars().count()) - same
}

fn names(names: &[&str]) -> String {
    names.join(", ")
}

/// Writes what is built in into a folder, which is made when it is missing, to start from. A file that is there stays.
///
/// # Errors
/// What the file system answers, and [`io::ErrorKind::AlreadyExists`] for the first file that is there.
pub fn write_builtin(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for section in Section::ALL {
        let mut file = File::options().write(true).create_new(true).open(folder.join(section.file()))?;
        io::Write::write_all(&mut file, section.builtin().as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates() -> PromptTemplates {
        PromptTemplates::builtin(Arc::new(domain::catalog::builtin_jurisdictions()))
    }

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("a file");
        }
        folder
    }

    #[test]
    fn what_is_built_in_is_a_folder_that_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let to = folder.path().join("new");
        write_builtin(&to).expect("it is written");
        let read = templates().with_folder(&to).expect("it is taken");
        for section in Section::ALL {
            assert_eq!(read.tell(section, &[]), templates().tell(section, &[]));
        }
        let again = write_builtin(&to).expect_err("what is there stays");
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_file_replaces_its_section_alone() {
        let folder =
            folder(&[("agent.md", "As {{ instructions }}."), ("README.txt", "x"), (".draft.md", "x")]);
        let templates = templates().with_folder(folder.path()).expect("it is taken");
        assert_eq!(
            templates.tell(Section::Agent, &[("instructions", "{{skills}} & more")]),
            "As {{skills}} & more."
        );
        assert!(templates.tell(Section::Base, &[]).contains("You are the agent of a workspace"));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (name, content, told) in [
            (
                "skills.md",
                "x\n{{chosen}} {{skils}}",
                "skills.md:2: there is no {{skils}} here; did you mean {{skills}}?",
            ),
            ("base.md", "{{jurisdictions}}", "base.md:1: there is no {{jurisdictions}} here; it has none"),
            ("agent.md", "Go on {{instructions", "agent.md:1: there is no {{instructions}} here"),
            ("skills.md", "{{skills}}", "skills.md: {{chosen}} is missing"),
            ("basis.md", "x", "basis.md: there is no such section; there are base.md, agent.md"),
        ] {
            let folder = folder(&[(name, content)]);
            let error = templates().with_folder(folder.path()).expect_err("it is wrong").to_string();
            assert!(error.contains(told), "{error}");
        }
        let long = "x".repeat(TEMPLATE_MAX_BYTES as usize + 1);
        assert!(templates().with_folder(folder(&[("base.md", &long)]).path()).is_err());
        assert!(templates().with_folder(Path::new("/nowhere")).is_err());
    }

    #[test]
    fn jurisdictions_are_told_by_name() {
        let ids = ["CZ".to_owned(), "gone".to_owned()];
        assert_eq!(templates().jurisdictions(&ids), "Czechia (CZ), gone");
    }
}
