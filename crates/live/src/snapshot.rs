//! Snapshots: an answer at one revision, in segments that all readers share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::proof::prove_citations;
use bytes::Bytes;
use domain::agent::AgentName;
use domain::answer::{Answer, AnswerEnding, CallRun, ContentPart, PartContent, RevisionStamp, RunState};
use domain::citation::{PassagePlace, Stripper, strip_marks};
use domain::id::PartId;
use domain::pause::PendingCall;
use domain::skill::SkillName;
use domain::step::Purpose;
use render::{CitationSources, Renderer, SourcesOf};
use text_analysis::proof::Unproven;

use crate::Meta;
use crate::rope::{Growing, Representation, Rope, RopeSegment};

/// An answer at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub meta: Arc<Meta>,
    pub stamp: RevisionStamp,
    /// The ending; `None` while in progress.
    pub ending: Option<AnswerEnding>,
    /// The text so far: Markdown without citation marks.
    pub text: Rope,
    /// Its parts, in order of creation.
    pub parts: Vec<SnapshotPart>,
    /// The calls that it waits for, while it is paused.
    pub pending: Vec<PendingCall>,
    encoded: [Encoded; Representation::COUNT],
}

impl Snapshot {
    /// Creates a snapshot with this text and these parts.
    #[must_use]
    pub fn new(
        meta: Arc<Meta>,
        stamp: RevisionStamp,
        ending: Option<AnswerEnding>,
        text: Rope,
        parts: Vec<SnapshotPart>,
    ) -> Self {
        Self { meta, stamp, ending, text, parts, pending: Vec::new(), encoded: Default::default() }
    }

    /// Returns the length of its texts in bytes, both as text and as HTML.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let html = self.parts.iter().map(|part| match &part.shape {
            PartKind::Text { html, .. } | PartKind::Reasoning { html } | PartKind::Agent { html, .. } => {
                html.len()
            }
            PartKind::Tool { .. }
            | PartKind::WebSearch { .. }
            | PartKind::Skill { .. }
            | PartKind::File { .. } => 0,
        });
        self.text.len() + html.sum::<usize>()
    }

    /// Returns the answer as `encode` writes it, in pieces. Encodes once per representation; the result is
    /// shared by all readers.
    pub fn encode_once(
        &self,
        representation: Representation,
        encode: impl FnOnce(&Self) -> Vec<Bytes>,
    ) -> &[Bytes] {
        self.encoded[representation as usize].whole.get_or_init(|| encode(self))
    }

    /// Returns the answer as `encode` writes it for an event stream; cached like [`Self::encode_once`].
    pub fn encode_event(
        &self,
        representation: Representation,
        encode: impl FnOnce(&Self) -> Arc<[Bytes]>,
    ) -> Arc<[Bytes]> {
        self.encoded[representation as usize].event.get_or_init(|| encode(self)).clone()
    }
}

/// The cached encodings in one representation.
#[derive(Debug, Default)]
struct Encoded {
    whole: OnceLock<Vec<Bytes>>,
    event: OnceLock<Arc<[Bytes]>>,
}

/// A part at one revision (section 2.10).
#[derive(Debug)]
pub struct SnapshotPart {
    pub id: PartId,
    pub shape: PartKind,
}

/// The type of a part, with its fields.
#[derive(Debug)]
pub enum PartKind {
    /// A piece of the answer.
    Text {
        /// Safe HTML, citations as links.
        html: Rope,
        /// The sources it cites, in order and without duplicates.
        citations: Vec<SnapshotCitation>,
    },
    Reasoning {
        html: Rope,
    },
    /// A tool that the agent ran.
    Tool {
        tool: String,
        call: String,
        state: RunState,
        /// The places of its results.
        sources: Vec<PassagePlace>,
    },
    /// A skill that the agent opened.
    Skill {
        skill: SkillName,
        state: RunState,
    },
    /// A search of the web.
    WebSearch {
        query: String,
        call: String,
        state: RunState,
        /// The places of its results.
        sources: Vec<PassagePlace>,
    },
    /// A subagent that was given a task.
    Agent {
        agent: AgentName,
        state: RunState,
        /// Its text: safe HTML, with citations as links once it is finished.
        html: Rope,
        /// The sources it cites, in order and without duplicates.
        citations: Vec<SnapshotCitation>,
    },
    /// A workspace file that entered the answer.
    File {
        path: String,
    },
}

/// A source that a part cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCitation {
    /// The number of its mark.
    pub number: u32,
    /// The place of the passage.
    pub place: PassagePlace,
    /// True if the passage contains each sentence that cites it; `None` while the text grows and without a passage to
    /// compare.
    pub verified: Option<bool>,
    /// The first thing that the passage does not contain, if it is not verified.
    pub reason: Option<Unproven>,
    /// The text of the passage, if the answer has it.
    pub passage: Option<Arc<str>>,
}

impl SnapshotCitation {
    /// Returns its identifier on the wire, which the link in the HTML contains, too.
    #[must_use]
    pub fn wire_id(&self) -> String {
        render::citation_id(self.number)
    }
}

/// State between snapshots, so that each piece of text is stripped and rendered once.
#[derive(Default)]
pub(crate) struct RenderCache {
    texts: HashMap<PartId, RenderedPiece>,
}

impl RenderCache {
    /// Creates a snapshot of the answer.
    pub(crate) fn build_snapshot(&mut self, meta: &Arc<Meta>, answer: &Answer) -> Snapshot {
        let mut text = Rope::default();
        // Only the last part of an unfinished answer can grow.
        let last = answer.parts.last().filter(|_| answer.ending.is_none()).map(|part| part.id);
        let parts = answer.parts.iter().map(|part| self.render_part(part, last, answer, &mut text)).collect();
        let shot = Snapshot::new(meta.clone(), answer.stamp, answer.ending.clone(), text, parts);
        Snapshot { pending: answer.pending.clone(), ..shot }
    }

    /// Removes the parts of a cut attempt, which will be generated again.
    pub(crate) fn forget_cut(&mut self, answer: &Answer) {
        let stands = |part: &ContentPart| match &part.body {
            PartContent::Run(run) => run.state != RunState::Pending,
            PartContent::Text(_) | PartContent::Reasoning(_) | PartContent::File { .. } => true,
        };
        self.texts.retain(|id, _| answer.parts.iter().any(|part| part.id == *id && stands(part)));
    }

    /// Removes the rendering of a part whose text was replaced.
    pub(crate) fn forget_part(&mut self, part: PartId) {
        self.texts.remove(&part);
    }

    fn render_part(
        &mut self,
        part: &ContentPart,
        last: Option<PartId>,
        answer: &Answer,
        text: &mut Rope,
    ) -> SnapshotPart {
        let mut shown = |markdown: &str| {
            let piece = self.texts.entry(part.id).or_default();
            let cited = CitedPassages::from_part(answer, part);
            if Some(part.id) == last {
                piece.render_growing(markdown, cited)
            } else {
                piece.render_whole(markdown, cited)
            }
        };
        let shape = match &part.body {
            PartContent::Text(markdown) => {
                let RenderedText { text: piece, html, citations } = shown(markdown);
                if !text.is_empty() && !piece.is_empty() {
                    text.append_rope(&Rope::from_text("\n\n"));
                }
                text.append_rope(&piece);
                PartKind::Text { html, citations }
            }
            PartContent::Reasoning(markdown) => PartKind::Reasoning { html: shown(markdown).html },
            PartContent::Run(run) => self.render_call(part, run, answer),
            PartContent::File { path } => PartKind::File { path: path.clone() },
        };
        SnapshotPart { id: part.id, shape }
    }
}

impl RenderCache {
    fn render_call(&mut self, part: &ContentPart, run: &CallRun, answer: &Answer) -> PartKind {
        let CallRun { call, tool, purpose, state, sources, report, .. } = run;
        match purpose {
            Purpose::Tool => PartKind::Tool {
                tool: tool.clone(),
                call: call.clone(),
                state: *state,
                sources: sources.clone(),
            },
            Purpose::WebSearch { query } => PartKind::WebSearch {
                query: query.clone(),
                call: call.clone(),
                state: *state,
                sources: sources.clone(),
            },
            Purpose::Skill(skill) => PartKind::Skill { skill: skill.clone(), state: *state },
            Purpose::Agent(agent) => {
                let piece = self.texts.entry(part.id).or_default();
                // Its marks use its own numbers, which match the answer's sources only once it is finished.
                let RenderedText { html, citations, .. } = match state {
                    RunState::Pending => piece.render_growing(report, CitedPassages::default()),
                    RunState::Complete => piece.render_whole(report, CitedPassages::from_part(answer, part)),
                    RunState::Error => piece.render_whole(report, CitedPassages::default()),
                };
                PartKind::Agent { agent: agent.clone(), state: *state, html, citations }
            }
        }
    }
}

#[derive(Clone)]
struct RenderedText {
    text: Rope,
    html: Rope,
    citations: Vec<SnapshotCitation>,
}

/// The sources and passages that the part of a text may cite. Empty by default.
#[derive(Clone, Copy, Default)]
struct CitedPassages<'a>(Option<(&'a Answer, SourcesOf<'a>)>);

impl<'a> CitedPassages<'a> {
    const fn from_part(answer: &'a Answer, part: &'a ContentPart) -> Self {
        Self(Some((answer, SourcesOf(answer, part))))
    }

    fn knows_source(self, number: u32) -> bool {
        self.source_place(number).is_some()
    }

    /// Returns the citations of a text.
    fn list_citations(self, markdown: &str) -> Vec<SnapshotCitation> {
        let cited = render::cited_sources(markdown, &self).into_iter();
        cited
            .filter_map(|number| {
                let place = self.source_place(number)?.clone();
                let passage = self.0.and_then(|(answer, _)| answer.shared_passage(number));
                Some(SnapshotCitation { number, place, verified: None, reason: None, passage })
            })
            .collect()
    }

    /// Returns the citations of a finished text, checked against their passages.
    fn checked_citations(self, markdown: &str) -> Vec<SnapshotCitation> {
        let mut found = self.list_citations(markdown);
        let knows = |number| self.knows_source(number);
        let proofs = prove_citations(markdown, knows, |number| self.0?.0.passage_text(number));
        for citation in &mut found {
            let Some(proof) = proofs.get(&citation.number) else { continue };
            citation.verified = Some(proof.is_ok());
            citation.reason = proof.as_ref().err().cloned();
        }
        found
    }
}

impl CitationSources for CitedPassages<'_> {
    fn source_place(&self, number: u32) -> Option<&PassagePlace> {
        self.0.as_ref()?.1.source_place(number)
    }
}

/// A growing text with its stripped and rendered prefix.
#[derive(Default)]
struct RenderedPiece {
    /// The length of the processed Markdown, in bytes.
    processed: usize,
    stripper: Stripper,
    /// The length of the processed stripped text, in bytes.
    stripped: usize,
    /// The number of pending line feeds at the end, which are added before further text.
    line_feeds: usize,
    text: Growing,
    renderer: Renderer,
    finished: Rope,
    citations: Vec<SnapshotCitation>,
    /// Set if a mark may have been added since the citations were collected.
    marked: bool,
    /// The final rendering, once the text is finished.
    whole: Option<RenderedText>,
}

impl RenderedPiece {
    /// Renders a text that may still grow.
    fn render_growing(&mut self, markdown: &str, cited: CitedPassages<'_>) -> RenderedText {
        self.render_new(markdown, cited);
        RenderedText {
            text: self.text.to_rope(),
            html: self.current_html(cited),
            citations: self.citations.clone(),
        }
    }

    /// Renders a finished text as a whole, once.
    fn render_whole(&mut self, markdown: &str, cited: CitedPassages<'_>) -> RenderedText {
        let whole = || RenderedText {
            text: Rope::from_text(
                strip_marks(markdown, |number| cited.knows_source(number)).trim_matches('\n'),
            ),
            html: Rope::from_text(render::render_answer(markdown, &cited)),
            citations: cited.checked_citations(markdown),
        };
        self.whole.get_or_insert_with(whole).clone()
    }

    fn render_new(&mut self, markdown: &str, cited: CitedPassages<'_>) {
        let new = &markdown[self.processed..];
        if new.is_empty() {
            return;
        }
        self.processed = markdown.len();
        self.marked |= new.contains(']');
        self.stripper.push(new, |number| cited.knows_source(number));
        self.renderer.push_text(new, &cited);
        let stripped = self.stripper.text()[self.stripped..].to_owned();
        self.stripped += stripped.len();
        self.append_stripped(&stripped);
        if self.marked {
            self.citations = cited.list_citations(markdown);
            self.marked = false;
        }
    }

    /// Appends text without leading and trailing line feeds, which the finished text will not have.
    fn append_stripped(&mut self, stripped: &str) {
        let body = if self.text.is_empty() { stripped.trim_start_matches('\n') } else { stripped };
        let shown = body.trim_end_matches('\n');
        if !shown.is_empty() {
            self.text.push_text(&"\n".repeat(std::mem::take(&mut self.line_feeds)));
            self.text.push_text(shown);
        }
        if !self.text.is_empty() {
            self.line_feeds += body.len() - shown.len();
        }
    }

    fn current_html(&mut self, cited: CitedPassages<'_>) -> Rope {
        for block in &self.renderer.finished_blocks()[self.finished.segments().len()..] {
            self.finished.push_segment(Arc::new(RopeSegment::new(block.clone())));
        }
        let mut html = self.finished.clone();
        html.append_rope(&Rope::from_text(self.renderer.tail_html(&cited)));
        html
    }
}
