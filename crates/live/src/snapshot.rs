//! Snapshots: an answer at one revision, in segments that all readers share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use domain::agent::AgentName;
use domain::answer::{Answer, Body, Ending, Part, Run, RunState, Stamp};
use domain::citation::{Place, Stripper, strip};
use domain::id::PartId;
use domain::skill::SkillName;
use domain::step::Purpose;
use render::Renderer;

use crate::Meta;
use crate::rope::{Growing, Representation, Rope, Segment};

/// An answer at one revision.
#[derive(Debug)]
pub struct Snapshot {
    /// What is known of it from its beginning.
    pub meta: Arc<Meta>,
    /// The revision.
    pub stamp: Stamp,
    /// How it ended; `None` while it is in progress.
    pub ending: Option<Ending>,
    /// The text so far: Markdown without marks.
    pub text: Rope,
    /// Its parts, in the order created.
    pub parts: Vec<SnapshotPart>,
    encoded: [Encoded; Representation::COUNT],
}

impl Snapshot {
    /// The answer with this text and these parts.
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

    /// The length of its texts in bytes, as they are shown and sent.
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

    /// The answer as `encode` writes it in this representation, in pieces: done once, for whoever asks first, and shared
    /// by all its readers.
    pub fn encoded(
        &self,
        representation: Representation,
        encode: impl FnOnce(&Self) -> Vec<Bytes>,
    ) -> &[Bytes] {
        self.encoded[representation as usize].whole.get_or_init(|| encode(self))
    }

    /// The answer as `encode` tells it to those who follow it, likewise.
    pub fn event(
        &self,
        representation: Representation,
        encode: impl FnOnce(&Self) -> Arc<[Bytes]>,
    ) -> Arc<[Bytes]> {
        self.encoded[representation as usize].event.get_or_init(|| encode(self)).clone()
    }
}

/// An answer in one representation, once somebody has asked for it.
#[derive(Debug, Default)]
struct Encoded {
    whole: OnceLock<Vec<Bytes>>,
    event: OnceLock<Arc<[Bytes]>>,
}

/// A part at one revision (section 2.10).
#[derive(Debug)]
pub struct SnapshotPart {
    /// Its identifier.
    pub id: PartId,
    /// What it is.
    pub shape: PartKind,
}

/// What a part is.
#[derive(Debug)]
pub enum PartKind {
    /// A piece of the answer.
    Text {
        /// Safe HTML, citations as links.
        html: Rope,
        /// What it cites, in order, each once.
        citations: Vec<Citation>,
    },
    /// Reasoning.
    Reasoning {
        /// Safe HTML.
        html: Rope,
    },
    /// A tool that the agent ran.
    Tool {
        /// The tool's name.
        tool: String,
        /// The call's identifier.
        call: String,
        /// Where it stands.
        state: RunState,
        /// Where it found something.
        sources: Vec<Place>,
    },
    /// A skill that the agent opened.
    Skill {
        /// Which.
        skill: SkillName,
        /// Where it stands.
        state: RunState,
    },
    /// A search of the web.
    WebSearch {
        /// What was searched for.
        query: String,
        /// The call's identifier.
        call: String,
        /// Where it stands.
        state: RunState,
        /// What was found.
        sources: Vec<Place>,
    },
    /// Another agent that was given a task.
    Agent {
        /// Which.
        agent: AgentName,
        /// Where it stands.
        state: RunState,
        /// What it says: safe HTML, citations as links once it has settled.
        html: Rope,
        /// What it cites, in order, each once.
        citations: Vec<Citation>,
    },
    /// A workspace file that entered the answer.
    File {
        /// The workspace path.
        path: String,
    },
}

/// A source that a part cites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Citation {
    /// The number of its mark.
    pub number: u32,
    /// Where the passage stands.
    pub place: Place,
}

impl Citation {
    /// Its identifier on the wire, which the link in the HTML carries as well.
    #[must_use]
    pub fn id(&self) -> String {
        render::citation_id(self.number)
    }
}

/// What is kept between snapshots, so that each piece of text is stripped and rendered once.
#[derive(Default)]
pub(crate) struct RenderCache {
    texts: HashMap<PartId, Piece>,
}

impl RenderCache {
    /// The answer as it stands.
    pub(crate) fn snapshot(&mut self, meta: &Arc<Meta>, answer: &Answer) -> Snapshot {
        let mut text = Rope::default();
        // Only the last part still grows.
        let last = answer.parts.last().filter(|_| answer.ending.is_none()).map(|part| part.id);
        let parts = answer.parts.iter().map(|part| self.part(part, last, answer, &mut text)).collect();
        Snapshot::new(meta.clone(), answer.stamp, answer.ending.clone(), text, parts)
    }

    /// Forgets what was written by an attempt that was cut: it is gone, and comes again otherwise.
    pub(crate) fn forget_cut(&mut self, answer: &Answer) {
        let stands = |part: &Part| match &part.body {
            Body::Run(run) => run.state != RunState::Pending,
            Body::Text(_) | Body::Reasoning(_) | Body::File { .. } => true,
        };
        self.texts.retain(|id, _| answer.parts.iter().any(|part| part.id == *id && stands(part)));
    }

    /// Forgets what was made of a text that was changed within.
    pub(crate) fn forget(&mut self, part: PartId) {
        self.texts.remove(&part);
    }

    fn part(&mut self, part: &Part, last: Option<PartId>, answer: &Answer, text: &mut Rope) -> SnapshotPart {
        let mut shown = |markdown: &str| {
            let piece = self.texts.entry(part.id).or_default();
            if Some(part.id) == last {
                piece.growing(markdown, answer)
            } else {
                piece.settled(markdown, answer)
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
            Body::Run(run) => self.run(part.id, run, answer),
            Body::File { path } => PartKind::File { path: path.clone() },
        };
        SnapshotPart { id: part.id, shape }
    }
}

impl RenderCache {
    fn run(&mut self, id: PartId, run: &Run, answer: &Answer) -> PartKind {
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
                let piece = self.texts.entry(id).or_default();
                // Its own numbers are not this answer's until it has settled.
                let unnumbered = Answer::new(answer.id, &[]);
                let Shown { html, citations, .. } = match state {
                    RunState::Pending => piece.growing(report, &unnumbered),
                    RunState::Complete => piece.settled(report, answer),
                    RunState::Error => piece.settled(report, &unnumbered),
                };
                PartKind::Agent { agent: agent.clone(), state: *state, html, citations }
            }
        }
    }
}

/// A text as it is shown.
#[derive(Clone)]
struct Shown {
    text: Rope,
    html: Rope,
    citations: Vec<Citation>,
}

fn citations(markdown: &str, answer: &Answer) -> Vec<Citation> {
    let cited = render::cited(markdown, answer).into_iter();
    cited
        .filter_map(|number| answer.source(number).map(|place| Citation { number, place: place.clone() }))
        .collect()
}

/// A text that is being written, as far as it was stripped and rendered.
#[derive(Default)]
struct Piece {
    /// How much of the Markdown was taken.
    taken: usize,
    stripper: Stripper,
    /// How much of the stripped text was taken.
    stripped: usize,
    /// Line feeds at the end, which are shown when text follows them.
    line_feeds: usize,
    text: Growing,
    renderer: Renderer,
    finished: Rope,
    citations: Vec<Citation>,
    /// Whether a mark may have been added since the citations were looked for.
    marked: bool,
    /// The whole, once no more comes.
    whole: Option<Shown>,
}

impl Piece {
    /// A text that may still grow.
    fn growing(&mut self, markdown: &str, answer: &Answer) -> Shown {
        self.take(markdown, answer);
        Shown { text: self.text.rope(), html: self.html(answer), citations: self.citations.clone() }
    }

    /// A text that is finished: stripped and rendered as a whole, once.
    fn settled(&mut self, markdown: &str, answer: &Answer) -> Shown {
        let whole = || Shown {
            text: Rope::of(strip(markdown).trim_matches('\n')),
            html: Rope::of(render::whole(markdown, answer)),
            citations: citations(markdown, answer),
        };
        self.whole.get_or_insert_with(whole).clone()
    }

    fn take(&mut self, markdown: &str, answer: &Answer) {
        let new = &markdown[self.taken..];
        if new.is_empty() {
            return;
        }
        self.taken = markdown.len();
        self.marked |= new.contains(']');
        self.stripper.push(new);
        self.renderer.push(new, answer);
        let stripped = self.stripper.text()[self.stripped..].to_owned();
        self.stripped += stripped.len();
        self.grow(&stripped);
        if self.marked {
            self.citations = citations(markdown, answer);
            self.marked = false;
        }
    }

    /// Adds text without the line feeds at its ends, as the finished text will not have them.
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

    fn html(&mut self, answer: &Answer) -> Rope {
        for block in &self.renderer.finished()[self.finished.segments().len()..] {
            self.finished.push(Arc::new(Segment::new(block.clone())));
        }
        let mut html = self.finished.clone();
        html.append(&Rope::of(self.renderer.tail(answer)));
        html
    }
}
