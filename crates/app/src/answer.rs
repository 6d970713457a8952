//! An answer as pages show it. Its HTML is safe: `render` has made it of the model's Markdown, and the template escapes
//! everything else.

use askama::Template;
use control::live::{Citation, PartKind, Snapshot};
use domain::answer::{Ending, ErrorCode, RunState};
use domain::citation::Place;

use crate::answer_html::AnswerHtml;
use crate::growing::{OnPage, Prose};
use crate::paths;
use crate::texts::Texts;

/// The prefix of the public interface's files.
const API_FILES: &str = "/api/v1/files";

/// An answer at one revision.
#[derive(Template)]
#[template(path = "answer.html")]
pub(crate) struct AnswerView {
    texts: Texts,
    id: String,
    /// The event stream, while the answer is in progress.
    events: Option<String>,
    blocks: Vec<Block>,
    /// The note about how the answer ended, unless it is simply done.
    note: Option<Note>,
    sources: Vec<SourceView>,
}

/// A block of an answer.
enum Block {
    Text(Prose),
    Reasoning(Prose),
    Steps(Vec<Step>),
    Agent { name: String, state: &'static str, prose: Prose },
    File { name: String, href: String },
}

/// A call in a list of consecutive ones.
struct Step {
    label: String,
    detail: String,
    /// `pending`, `done` or `failed`.
    state: &'static str,
}

struct Note {
    text: String,
    is_error: bool,
}

/// A source that the answer cites.
struct SourceView {
    number: u32,
    name: String,
    detail: String,
    href: Option<String>,
    is_web: bool,
}

impl AnswerView {
    /// Creates the view of a snapshot, as far as the page does not have it, and remembers what it then has.
    pub(crate) fn of(texts: Texts, snapshot: &Snapshot, page: &mut OnPage) -> Self {
        let mut blocks = Vec::new();
        let mut fitted = AnswerHtml::new();
        let mut sources = Vec::<SourceView>::new();
        for part in &snapshot.parts {
            let block = match &part.shape {
                PartKind::Text { html, citations } => {
                    add_sources(texts, &mut sources, citations);
                    Block::Text(page.show(part.id, blocks.len(), html, &mut fitted))
                }
                PartKind::Reasoning { html } => {
                    Block::Reasoning(page.show(part.id, blocks.len(), html, &mut fitted))
                }
                PartKind::Agent { agent, state, html, citations } => {
                    add_sources(texts, &mut sources, citations);
                    Block::Agent {
                        name: agent.name.clone(),
                        state: word(*state),
                        prose: page.show(part.id, blocks.len(), html, &mut fitted),
                    }
                }
                PartKind::File { path } => {
                    Block::File { name: name_of(path).to_owned(), href: file_href(path) }
                }
                PartKind::Tool { tool, state, .. } => {
                    add_step(
                        &mut blocks,
                        Step { label: tool_label(texts, tool), detail: String::new(), state: word(*state) },
                    );
                    continue;
                }
                PartKind::WebSearch { query, state, .. } => {
                    let label = texts.get("tool-web-search");
                    add_step(&mut blocks, Step { label, detail: query.clone(), state: word(*state) });
                    continue;
                }
                PartKind::Skill { skill, state } => {
                    let label = texts.get("tool-skill");
                    add_step(&mut blocks, Step { label, detail: skill.name.clone(), state: word(*state) });
                    continue;
                }
            };
            blocks.push(block);
        }
        sources.sort_by_key(|source| source.number);
        let meta = &snapshot.meta;
        let events = snapshot.ending.is_none().then(|| paths::events(meta.conversation, meta.answer));
        let note = snapshot.ending.as_ref().and_then(|ending| note(texts, ending));
        Self { texts, id: meta.answer.to_string(), events, blocks, note, sources }
    }

    fn t(&self, key: &str) -> String {
        self.texts.get(key)
    }
}

/// Appends a call to the list of calls that ends the blocks so far.
fn add_step(blocks: &mut Vec<Block>, step: Step) {
    if let Some(Block::Steps(steps)) = blocks.last_mut() {
        steps.push(step);
    } else {
        blocks.push(Block::Steps(vec![step]));
    }
}

fn add_sources(texts: Texts, sources: &mut Vec<SourceView>, citations: &[Citation]) {
    for citation in citations {
        if sources.iter().all(|source| source.number != citation.number) {
            sources.push(source(texts, citation));
        }
    }
}

fn source(texts: Texts, citation: &Citation) -> SourceView {
    let (name, mut detail, is_web) = match &citation.place {
        Place::File { path, page, lines } => {
            let detail = match (page, lines) {
                (Some(page), _) => texts.with("source-page", "page", *page),
                (None, Some((first, last))) if first == last => texts.with("source-line", "line", *first),
                (None, Some((first, last))) => texts.with("source-lines", "lines", format!("{first}–{last}")),
                (None, None) => String::new(),
            };
            (name_of(path).to_owned(), detail, false)
        }
        Place::Web { url, title } => {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            let host = host.split(['/', '?', '#']).next().unwrap_or_default();
            (if title.is_empty() { url.clone() } else { title.clone() }, host.to_owned(), true)
        }
    };
    if citation.verified == Some(false) {
        let unproven = texts.get("source-unproven");
        detail = if detail.is_empty() { unproven } else { format!("{detail} · {unproven}") };
    }
    let href = render::href(&citation.place).map(|href| own_href(&href));
    SourceView { number: citation.number, name, detail, href, is_web }
}

fn note(texts: Texts, ending: &Ending) -> Option<Note> {
    let key = match ending {
        Ending::Done => return None,
        Ending::Stopped => return Some(Note { text: texts.get("answer-stopped"), is_error: false }),
        Ending::Failed(error) => match error.code {
            ErrorCode::ModelUnavailable => "answer-model-unavailable",
            ErrorCode::ModelRejected => "answer-model-rejected",
            ErrorCode::ContextTooLong => "answer-context-too-long",
            ErrorCode::InsufficientCredits => "answer-insufficient-credits",
            ErrorCode::SpendingLimit => "answer-spending-limit",
            ErrorCode::MachineFailed => "answer-machine-failed",
            ErrorCode::TooManySteps => "answer-too-many-steps",
            ErrorCode::OutputExhausted => "answer-output-exhausted",
            ErrorCode::ModelRefused => "answer-model-refused",
            ErrorCode::Internal => "answer-internal",
        },
    };
    Some(Note { text: texts.get(key), is_error: true })
}

/// Returns the label of a tool. Tools of MCP servers have their own names alone.
fn tool_label(texts: Texts, tool: &str) -> String {
    let key = format!("tool-{}", tool.replace('_', "-"));
    texts.optional(&key).unwrap_or_else(|| texts.with("tool-other", "name", tool.to_owned()))
}

const fn word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "pending",
        RunState::Complete => "done",
        RunState::Error => "failed",
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the link to a file of the workspace.
pub(crate) fn file_href(path: &str) -> String {
    let place = Place::File { path: path.to_owned(), page: None, lines: None };
    render::href(&place).map(|href| own_href(&href)).unwrap_or_default()
}

/// Returns a link with the application's own path of files.
fn own_href(href: &str) -> String {
    href.strip_prefix(API_FILES).map_or_else(|| href.to_owned(), |path| format!("{}{path}", paths::FILES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::Language;

    #[test]
    fn links_to_files_lead_to_the_application() {
        assert_eq!(file_href("/uploads/a b.pdf"), "/files/uploads/a%20b.pdf");
        assert_eq!(own_href("https://example.org/api/v1/files/x"), "https://example.org/api/v1/files/x");
    }

    #[test]
    fn every_ending_and_every_tool_has_a_text() {
        for language in Language::ALL {
            let texts = Texts(language);
            for name in
                ["search", "read", "list", "find", "write", "edit", "shell", "attached_files", "web_fetch"]
            {
                assert!(texts.optional(&format!("tool-{}", name.replace('_', "-"))).is_some(), "{name}");
            }
            assert!(tool_label(texts, "<b>").contains("<b>"), "the template escapes it");
        }
    }
}
