//! Snapshots: an answer at one revision, in segments that all readers share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::proof::prove_citations;
use bytes::Bytes;
use domain::agent::AgentName;
use domain::answer::{Answer, Body, Ending, Part, Run, RunState, Stamp};
use domain::citation::{Place, Stripper, strip};
use domain::id::PartId;
use domain::skill::SkillName;
use domain::step::Purpose;
use render::{Renderer, Sources, SourcesOf};
use text_analysis::proof::Unproven;

use crate::Meta;
use crate::rope::{Growing, Representation, Rope, Segment};

/// An answer at one revision.
#[derive(Debug)]
pub struct Snapshot {
    pub meta: Arc<Meta>,
    /// The revision.
    pub stamp: Stamp,
    /// The ending; `None` while in progress.
    pub ending: Option<Ending>,
    /// The text so far: Markdown without citation marks.
    pub text: Rope,
    /// Its parts, in order of creation.
    pub parts: Vec<SnapshotPart>,
    encoded: [Encoded; Representation::COUNT],
}

impl Snapshot {
    /// Creates a snapshot with this text and these parts.
    #[must_use]
    pub fn new(
        meta: Arc<Meta>,
        stamp: Stamp,
        ending: Option<Ending>,
        text: Rope,
        parts: Vec<SnapshotPart>,
    ) -> Self {
        Self { meta, stamp, ending, text, parts, encoded: Default::default() }
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
    pub fn encoded(
        &self,
        representation: Representation,
        encode: impl FnOnce(&Self) -> Vec<Bytes>,
    ) -> &[Bytes] {
        self.encoded[representation as usize].whole.get_or_init(|| encode(self))
    }

    /// Returns the answer as `encode` writes it for an event stream; cached like [`Self::encoded`].
    pub fn event(
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
        citations: Vec<Citation>,
    },
    /// Reasoning.
    Reasoning {
        /// Safe HTML.
        html: Rope,
    },
    /// A tool that the agent ran.
    Tool {
        tool: String,
        call: String,
        state: RunState,
        /// The places of its results.
        sources: Vec<Place>,
    },
    /// A skill that the agent opened.
    Skill { skill: SkillName, state: RunState },
    /// A search of the web.
    WebSearch {
        query: String,
        call: String,
        state: RunState,
        /// The places of its results.
        sources: Vec<Place>,
    },
    /// A subagent that was given a task.
    Agent {
        agent: AgentName,
        state: RunState,
        /// Its text: safe HTML, with citations as links once it is finished.
        html: Rope,
        /// The sources it cites, in order and without duplicates.
        citations: Vec<Citation>,
    },
    /// A workspace file that entered the answer.
    File { path: String },
}

/// A source that a part cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The number of its mark.
    pub number: u32,
    /// The place of the passage.
    pub place: Place,
    /// True if each sentence that cites it stands in it; `None` while the text grows and where there is no passage to
    /// compare.
    pub verified: Option<bool>,
    /// The first thing that does not stand there, if it is not verified.
    pub reason: Option<Unproven>,
    /// The text of the passage, as far as the answer has it.
    pub passage: Option<Arc<str>>,
}

impl Citation {
    /// Returns its identifier on the wire, which the link in the HTML contains, too.
    #[must_use]
    pub fn id(&self) -> String {
        render::citation_id(self.number)
    }
}

/// State between snapshots, so that each piece of text is stripped and rendered once.
#[derive(Default)]
pub(crate) struct RenderCache {
    texts: HashMap<PartId, Piece>,
}

impl RenderCache {
    /// Creates a snapshot of the answer.
    pub(crate) fn snapshot(&mut self, meta: &Arc<Meta>, answer: &Answer) -> Snapshot {
        let mut text = Rope::default();
        // Only the last part of an unfinished answer can grow.
        let last = answer.parts.last().filter(|_| answer.ending.is_none()).map(|part| part.id);
        let parts = answer.parts.iter().map(|part| self.part(part, last, answer, &mut text)).collect();
        Snapshot::new(meta.clone(), answer.stamp, answer.ending.clone(), text, parts)
    }

    /// Removes the parts of a cut attempt, which will be generated again.
    pub(crate) fn forget_cut(&mut self, answer: &Answer) {
        let stands = |part: &Part| match &part.body {
            Body::Run(run) => run.state != RunState::Pending,
            Body::Text(_) | Body::Reasoning(_) | Body::File { .. } => true,
        };
        self.texts.retain(|id, _| answer.parts.iter().any(|part| part.id == *id && stands(part)));
    }

    /// Removes the rendering of a part whose text was replaced.
    pub(crate) fn forget(&mut self, part: PartId) {
        self.texts.remove(&part);
    }

    fn part(&mut self, part: &Part, last: Option<PartId>, answer: &Answer, text: &mut Rope) -> SnapshotPart {
        let mut shown = |markdown: &str| {
            let piece = self.texts.entry(part.id).or_default();
            let cited = CitedPassages::of(answer, part);
            if Some(part.id) == last {
                piece.growing(markdown, cited)
            } else {
                piece.settled(markdown, cited)
            }
        };
        let shape = match &part.body {
            Body::Text(markdown) => {
                let Shown { text: piece, html, citations } = shown(markdown);
                if !text.is_empty() && !piece.is_empty() {
                    text.append(&Rope::of("\n\n"));
                }
                text.append(&piece);
                PartKind::Text { html, citations }
            }
            Body::Reasoning(markdown) => PartKind::Reasoning { html: shown(markdown).html },
            Body::Run(run) => self.run(part, run, answer),
            Body::File { path } => PartKind::File { path: path.clone() },
        };
        SnapshotPart { id: part.id, shape }
    }
}

impl RenderCache {
    fn run(&mut self, part: &Part, run: &Run, answer: &Answer) -> PartKind {
        let Run { call, tool, purpose, state, sources, report } = run;
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
                let Shown { html, citations, .. } = match state {
                    RunState::Pending => piece.growing(report, CitedPassages::default()),
                    RunState::Complete => piece.settled(report, CitedPassages::of(answer, part)),
                    RunState::Error => piece.settled(report, CitedPassages::default()),
                };
                PartKind::Agent { agent: agent.clone(), state: *state, html, citations }
            }
        }
    }
}

/// A displayed text.
#[derive(Clone)]
struct Shown {
    text: Rope,
    html: Rope,
    citations: Vec<Citation>,
}

/// The citable of a text: the sources and passages of its part. By default nothing.
#[derive(Clone, Copy, Default)]
struct CitedPassages<'a>(Option<(&'a Answer, SourcesOf<'a>)>);

impl<'a> CitedPassages<'a> {
    const fn of(answer: &'a Answer, part: &'a Part) -> Self {
        Self(Some((answer, SourcesOf(answer, part))))
    }

    fn knows(self, number: u32) -> bool {
        self.place(number).is_some()
    }

    /// Returns the citations of a text.
    fn citations(self, markdown: &str) -> Vec<Citation> {
        let cited = render::cited(markdown, &self).into_iter();
        cited
            .filter_map(|number| {
                let place = self.place(number)?.clone();
                let passage = self.0.and_then(|(answer, _)| answer.shared_passage(number));
                Some(Citation { number, place, verified: None, reason: None, passage })
            })
            .collect()
    }

    /// Returns the citations of a finished text, checked against their passages.
    fn checked_citations(self, markdown: &str) -> Vec<Citation> {
        let mut found = self.citations(markdown);
        let knows = |number| self.knows(number);
        let proofs = prove_citations(markdown, knows, |number| self.0?.0.passage(number));
        for citation in &mut found {
            let Some(proof) = proofs.get(&citation.number) else { continue };
            citation.verified = Some(proof.is_ok());
            citation.reason = proof.as_ref().err().cloned();
        }
        found
    }
}

impl Sources for CitedPassages<'_> {
    fn place(&self, number: u32) -> Option<&Place> {
        self.0.as_ref()?.1.place(number)
    }
}

/// A growing text with its stripped and rendered prefix.
#[derive(Default)]
struct Piece {
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
    citations: Vec<Citation>,
    /// Set if a mark may have been added since the citations were collected.
    marked: bool,
    /// The final rendering, once the text is finished.
    whole: Option<Shown>,
}

impl Piece {
    /// Renders a text that may still grow.
    fn growing(&mut self, markdown: &str, cited: CitedPassages<'_>) -> Shown {
        self.take(markdown, cited);
        Shown { text: self.text.rope(), html: self.html(cited), citations: self.citations.clone() }
    }

    /// Renders a finished text as a whole, once.
    fn settled(&mut self, markdown: &str, cited: CitedPassages<'_>) -> Shown {
        let whole = || Shown {
            text: Rope::of(strip(markdown, |number| cited.knows(number)).trim_matches('\n')),
            html: Rope::of(render::whole(markdown, &cited)),
            citations: cited.checked_citations(markdown),
        };
        self.whole.get_or_insert_with(whole).clone()
    }

    fn take(&mut self, markdown: &str, cited: CitedPassages<'_>) {
        let new = &markdown[self.processed..];
        if new.is_empty() {
            return;
        }
        self.processed = markdown.len();
        self.marked |= new.contains(']');
        self.stripper.push(new, |number| cited.knows(number));
        self.renderer.push(new, &cited);
        let stripped = self.stripper.text()[self.stripped..].to_owned();
        self.stripped += stripped.len();
        self.grow(&stripped);
        if self.marked {
            self.citations = cited.citations(markdown);
            self.marked = false;
        }
    }

    /// Appends text without leading and trailing line feeds, which the finished text will not have.
    fn grow(&mut self, stripped: &str) {
        let body = if self.text.is_empty() { stripped.trim_start_matches('\n') } else { stripped };
        let shown = body.trim_end_matches('\n');
        if !shown.is_empty() {
            self.text.push(&"\n".repeat(std::mem::take(&mut self.line_feeds)));
            self.text.push(shown);
        }
        if !self.text.is_empty() {
            self.line_feeds += body.len() - shown.len();
        }
    }

    fn html(&mut self, cited: CitedPassages<'_>) -> Rope {
        for block in &self.renderer.finished()[self.finished.segments().len()..] {
            self.finished.push(Arc::new(Segment::new(block.clone())));
        }
        let mut html = self.finished.clone();
        html.append(&Rope::of(self.renderer.tail(&cited)));
        html
    }
}
