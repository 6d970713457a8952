//! An answer as shown on pages. Its HTML is safe: `render` creates it from the model's Markdown, and the
//! template escapes everything else.

use askama::Template;
use domain::answer::{AnswerEnding, AnswerSource, ErrorCode, RunState};
use domain::citation::PassagePlace;
use domain::credits::Credits;
use live::{PartKind, Snapshot, SnapshotCitation};

use crate::answer_html::AnswerHtml;
use crate::cited::{self, CitingAnswer};
use crate::growing::{OnPage, Prose};
use crate::links::{name_of, view_href};
use crate::paths;
use crate::source_numbers::SourceNumbers;
use crate::texts::Texts;

/// The files and pages of a call that are listed.
const FOUND_MAX: usize = 20;

/// An answer at one revision.
#[derive(Template)]
#[template(path = "answer.html")]
pub(crate) struct AnswerView {
    texts: Texts,
    id: String,
    /// The event stream, while the answer is in progress.
    events: Option<String>,
    /// The prefix of the cards of its citations.
    cards: String,
    blocks: Vec<Block>,
    /// The note about how the answer ended, unless it ended normally.
    note: Option<EndingNote>,
    sources: Vec<SourceView>,
    /// The cost in words; `None` while the answer is in progress.
    cost: Option<String>,
}

/// A block of an answer.
enum Block {
    Text(Prose),
    Reasoning(Prose),
    Steps(Vec<ToolStepView>),
    Agent { name: String, state: &'static str, prose: Prose },
    File { name: String, href: String },
}

/// A call in a list of consecutive ones.
struct ToolStepView {
    label: String,
    detail: String,
    /// `pending`, `done` or `failed`.
    state: &'static str,
    /// The files and pages that it found, at most [`FOUND_MAX`], and the number of further ones.
    found: Vec<FoundView>,
    more: usize,
}

/// A file or page that a call found.
struct FoundView {
    name: String,
    href: Option<String>,
    is_web: bool,
}

impl ToolStepView {
    fn new(label: String, detail: &str, state: RunState, sources: &[PassagePlace]) -> Self {
        let listed: Vec<&PassagePlace> = sources.iter().take(FOUND_MAX).collect();
        let found: Vec<_> =
            cited::place_names(&listed).into_iter().zip(listed).map(FoundView::from_place).collect();
        let detail = match (detail, sources) {
            ("", [_]) => found[0].name.clone(),
            (detail, _) => detail.to_owned(),
        };
        let more = sources.len() - found.len();
        Self { label, detail, state: state_word(state), found, more }
    }
}

impl FoundView {
    fn from_place((name, place): (String, &PassagePlace)) -> Self {
        let (href, is_web) = match place {
            PassagePlace::File { path, .. } => (Some(view_href(path)), false),
            PassagePlace::Web { .. } => (render::source_href(place), true),
        };
        Self { name, href, is_web }
    }
}

struct EndingNote {
    text: String,
    is_error: bool,
}

/// A source that the answer cites.
struct SourceView {
    /// Its number on the page.
    number: u32,
    /// Its number in the API, which identifies its card.
    card: u32,
    name: String,
    detail: String,
    href: Option<String>,
    is_web: bool,
}

impl AnswerView {
    /// Creates the view of the parts of a snapshot that the page does not have yet, and records them.
    pub(crate) fn from_snapshot(
        texts: Texts,
        snapshot: &Snapshot,
        cost: Option<Credits>,
        page: &mut OnPage,
    ) -> Self {
        let mut blocks = Vec::new();
        let meta = &snapshot.meta;
        let of = CitingAnswer { conversation: meta.conversation, answer: meta.answer };
        let mut fitted = AnswerHtml::new(of);
        let mut cited = Vec::<&SnapshotCitation>::new();
        page.number_sources(SourceNumbers::from_snapshot(snapshot));
        // The note states it in the visitor's language.
        let said_at_end = match &snapshot.ending {
            Some(AnswerEnding::Failed(error)) => {
                Some(render::render_answer(&error.message, &(&[][..] as &[AnswerSource])))
            }
            _ => None,
        };
        for part in &snapshot.parts {
            let block = match &part.shape {
                PartKind::Text { html, .. }
                    if said_at_end.as_ref().is_some_and(|said| html.to_string() == *said) =>
                {
                    continue;
                }
                PartKind::Text { html, citations } => {
                    add_cited(&mut cited, citations);
                    Block::Text(page.show_text(part.id, blocks.len(), html, &mut fitted))
                }
                PartKind::Reasoning { html } => {
                    Block::Reasoning(page.show_text(part.id, blocks.len(), html, &mut fitted))
                }
                PartKind::Agent { agent, state, html, citations } => {
                    add_cited(&mut cited, citations);
                    Block::Agent {
                        name: agent.name.clone(),
                        state: state_word(*state),
                        prose: page.show_text(part.id, blocks.len(), html, &mut fitted),
                    }
                }
                // Attached files, which come first, are shown with the question.
                PartKind::File { .. } if blocks.is_empty() => continue,
                PartKind::File { path } => Block::File { name: name_of(path), href: view_href(path) },
                PartKind::Tool { tool, state, sources, .. } => {
                    add_step(&mut blocks, ToolStepView::new(tool_label(texts, tool), "", *state, sources));
                    continue;
                }
                PartKind::WebSearch { query, state, sources, .. } => {
                    let label = texts.get("tool-web-search");
                    add_step(&mut blocks, ToolStepView::new(label, query, *state, sources));
                    continue;
                }
                PartKind::Skill { skill, state } => {
                    let label = texts.get("tool-skill");
                    add_step(&mut blocks, ToolStepView::new(label, &skill.name, *state, &[]));
                    continue;
                }
            };
            blocks.push(block);
        }
        cited.sort_by_key(|citation| page.source_number(citation.number));
        let places: Vec<&PassagePlace> = cited.iter().map(|citation| &citation.place).collect();
        let named = cited::place_names(&places).into_iter().zip(cited);
        let sources = named
            .map(|(name, citation)| {
                source_view(texts, of, page.source_number(citation.number), name, citation)
            })
            .collect();
        let events = snapshot.ending.is_none().then(|| paths::events_path(meta.conversation, meta.answer));
        let note = snapshot.ending.as_ref().and_then(|ending| ending_note(texts, ending));
        let cards = paths::cards_path(meta.conversation, meta.answer);
        let cost = cost.map(|cost| texts.with("answer-cost", "count", cost.0));
        Self { texts, id: meta.answer.to_string(), events, cards, blocks, note, sources, cost }
    }

    fn t(&self, key: &str) -> String {
        self.texts.get(key)
    }
}

/// Appends a call to the list of calls that ends the blocks so far.
fn add_step(blocks: &mut Vec<Block>, step: ToolStepView) {
    if let Some(Block::Steps(steps)) = blocks.last_mut() {
        steps.push(step);
    } else {
        blocks.push(Block::Steps(vec![step]));
    }
}

fn add_cited<'a>(cited: &mut Vec<&'a SnapshotCitation>, citations: &'a [SnapshotCitation]) {
    for citation in citations {
        if cited.iter().all(|known| known.number != citation.number) {
            cited.push(citation);
        }
    }
}

fn source_view(
    texts: Texts,
    of: CitingAnswer,
    number: u32,
    name: String,
    citation: &SnapshotCitation,
) -> SourceView {
    let mut detail = cited::place_in_words(texts, &citation.place);
    if citation.verified == Some(false) {
        let unproven = texts.get("source-unproven");
        detail = if detail.is_empty() { unproven } else { format!("{detail} · {unproven}") };
    }
    let href = of.place_href(citation.number, &citation.place);
    let is_web = matches!(citation.place, PassagePlace::Web { .. });
    SourceView { number, card: citation.number, name, detail, href, is_web }
}

fn ending_note(texts: Texts, ending: &AnswerEnding) -> Option<EndingNote> {
    match ending {
        AnswerEnding::Done => None,
        AnswerEnding::Stopped => Some(EndingNote { text: texts.get("answer-stopped"), is_error: false }),
        AnswerEnding::Failed(error) => {
            Some(EndingNote { text: texts.get(&failure_key(error.code)), is_error: true })
        }
    }
}

/// Returns the key of the text of a failure, which follows from its code.
pub(crate) fn failure_key(code: ErrorCode) -> String {
    format!("answer-{}", code.as_str().to_ascii_lowercase().replace('_', "-"))
}

/// Returns the key of a tool's label, which follows from its name.
fn tool_key(tool: &str) -> String {
    format!("tool-{}", tool.replace('_', "-"))
}

/// Returns the label of a tool. Tools of MCP servers are shown by name only.
fn tool_label(texts: Texts, tool: &str) -> String {
    texts.optional(&tool_key(tool)).unwrap_or_else(|| texts.with("tool-other", "name", tool.to_owned()))
}

const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "pending",
        RunState::Complete => "done",
        RunState::Error => "failed",
    }
}

#[cfg(test)]
mod tests {
    use domain::tool::{CallPartKind, all_tool_facts};

    use super::*;
    use crate::language::PageLanguage;

    #[test]
    fn ending_and_tool_texts_exist() {
        for language in PageLanguage::ALL {
            let texts = Texts(language);
            for code in ErrorCode::ALL {
                assert!(texts.optional(&failure_key(*code)).is_some(), "{code:?}");
            }
            for tool in all_tool_facts().filter(|tool| tool.form == CallPartKind::Tool) {
                assert!(texts.optional(&tool_key(tool.name)).is_some(), "{}", tool.name);
            }
            assert!(tool_label(texts, "<b>").contains("<b>"), "the template escapes it");
        }
    }
}
