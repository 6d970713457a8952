//! Runs questions through the reader and the search, as the turn's loop does.

use std::cell::Cell;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use documents::{extract_file, passages};
use domain::citation::mark::find_marks;
use domain::citation::{NumberedPassage, PassagePlace};
use domain::embedding::quantize_vector;
use domain::step::{
    CallResult, OutputBlock, Step, StepEvent, StepOutcome, StepRequest, StopReason, ToolSpec, TranscriptItem,
};
use domain::tool::{MachineTool, Offer};
use domain::unread::UnreadReason;
use protocol::embedding::{EmbeddedPassages, PassageVector, QueryVector, UnembeddedRequest};
use protocol::tool::{FoundPassage, SearchArguments, ToolOutput};
use search_index::{DocumentLibrary, ExtractionProblem, PIECE_MAX_BYTES, PassageBatch, Wanted};

const STEPS_MAX: usize = 8;
/// The first sentence of an answer that no document contains one, in each language.
const NO_ANSWER: [&str; 4] = [
    "I found no answer to this question in the documents.",
    "Na tuto otázku jsem v dokumentech odpověď nenašel.",
    "Na túto otázku som v dokumentoch odpoveď nenašiel.",
    "Auf diese Frage habe ich in den Dokumenten keine Antwort gefunden.",
];
/// The passages of one request for embeddings.
const EMBEDDED_AT_ONCE: u32 = 16;
/// Bounds one search, including the indexing of changed files.
const SEARCH_TIME: Duration = Duration::from_secs(60);

/// Gives texts vectors.
pub(super) trait PassageEmbedder {
    /// Returns the name of the vectors' space: vectors of different spaces are not compared.
    fn space(&self) -> &str;

    /// Returns a vector for each text.
    fn embed_texts<'a>(&'a self, texts: &'a [String]) -> Pin<Box<dyn Future<Output = Vec<Vec<f32>>> + 'a>>;
}

/// Asks questions about a folder of documents.
pub(super) struct DocumentExchange {
    library: DocumentLibrary,
    slowest_search: Cell<Duration>,
    /// Gives passages and queries vectors.
    meaning: Option<Box<dyn PassageEmbedder>>,
    _index: Option<tempfile::TempDir>,
}

/// An answer of the reader.
pub(super) struct ReaderAnswer {
    pub(super) text: String,
    /// Says that no document contains an answer; quotes, if any, are of the closest passages.
    pub(super) declined: bool,
    /// The first quote without Markdown's escapes.
    pub(super) quote: String,
    pub(super) first: Option<CitedPlace>,
    /// All quotes, without Markdown's escapes, with the citation after each.
    pub(super) quotes: Vec<(CitedPlace, String)>,
    /// The passages that the searches returned.
    pub(super) found: Vec<NumberedPassage>,
}

/// A place in a document.
#[derive(Debug, Clone)]
pub(super) struct CitedPlace {
    pub(super) number: u32,
    pub(super) path: String,
    pub(super) page: Option<u32>,
}

impl DocumentExchange {
    pub(super) fn over_folder(documents: &Path) -> Self {
        let index = tempfile::tempdir().expect("a folder");
        let library = DocumentLibrary::new(documents, index.path());
        Self { library, slowest_search: Cell::default(), meaning: None, _index: Some(index) }
    }

    /// Indexes a folder into another one, which keeps the index.
    pub(super) fn with_index(documents: &Path, index: &Path) -> Self {
        let library = DocumentLibrary::new(documents, index);
        Self { library, slowest_search: Cell::default(), meaning: None, _index: None }
    }

    /// Embeds all passages, and from now on the queries of searches as well. Returns the number of newly
    /// embedded passages.
    pub(super) async fn search_by_meaning(&mut self, model: impl PassageEmbedder + 'static) -> u32 {
        self.run_search(&search_arguments("index")).await;
        let (mut after, mut embedded) = (0, 0);
        loop {
            let asked = UnembeddedRequest { model: model.space().to_owned(), after, limit: EMBEDDED_AT_ONCE };
            let passages = self.library.list_unembedded(asked).await.expect("an index").passages;
            let Some(last) = passages.last() else { break };
            after = last.id;
            let texts: Vec<String> = passages.iter().map(|passage| passage.text.clone()).collect();
            let vectors = model.embed_texts(&texts).await;
            let vectors = passages.iter().zip(&vectors).map(|(passage, vector)| PassageVector {
                id: passage.id,
                digest: passage.digest,
                components: quantize_vector(vector).unwrap_or_default(),
            });
            let vectors = EmbeddedPassages { model: model.space().to_owned(), vectors: vectors.collect() };
            embedded += self.library.store_embeddings(vectors).await.expect("an index").stored;
        }
        self.meaning = Some(Box::new(model));
        embedded
    }

    /// Returns the passages that a search for the question itself finds, best first.
    pub(super) async fn find_passages(&self, question: &str) -> Vec<FoundPassage> {
        self.run_search(&search_arguments(question)).await.passages
    }

    /// Returns the duration of the slowest search, except the first one, which indexes the documents.
    pub(super) fn slowest_search(&self) -> Duration {
        self.slowest_search.get()
    }

    /// Asks a question after earlier ones.
    pub(super) async fn ask_question(&self, question: &str, earlier: &[&str]) -> ReaderAnswer {
        let mut transcript: Vec<TranscriptItem> =
            earlier.iter().map(|text| question_item(text, &[])).collect();
        transcript.push(question_item(question, &[]));
        self.run_transcript(transcript).await
    }

    /// Asks about these files.
    pub(super) async fn ask_about(&self, question: &str, files: &[&str]) -> ReaderAnswer {
        self.run_transcript(vec![question_item(question, files)]).await
    }

    async fn run_transcript(&self, transcript: Vec<TranscriptItem>) -> ReaderAnswer {
        let offered =
            MachineTool::ALL.iter().map(|tool| tool.facts()).filter(|tool| tool.offer == Offer::Always);
        let mut request = StepRequest {
            images: Vec::new(),
            model: reader::MODEL.to_owned(),
            instructions: String::new(),
            transcript,
            tools: offered.map(ToolSpec::from).collect(),
            settings: Vec::new(),
            output_max_tokens: 4_096,
        };
        let mut numbered: Vec<NumberedPassage> = Vec::new();
        for _ in 0..STEPS_MAX {
            let events = reader::reader_step(&request);
            let Some(StepEvent::Call(call)) = events.first().cloned() else {
                return ReaderAnswer::from_events(&events, numbered);
            };
            let arguments: SearchArguments =
                serde_json::from_str(&call.arguments).expect("arguments of a search");
            let output = self.run_search(&arguments).await;
            let step = Step {
                blocks: vec![OutputBlock::Call(call.clone())],
                stop: StopReason::Calls,
                ..Step::default()
            };
            request.transcript.push(TranscriptItem::Step(Arc::new(step)));
            let result = CallResult {
                images: Vec::new(),
                call: call.id,
                tool: call.tool,
                outcome: if output.failed { StepOutcome::Failed } else { StepOutcome::Done },
                text: output.text,
                passages: number_passages(&mut numbered, output.passages),
                written: Vec::new(),
                unread: Vec::new(),
            };
            request.transcript.push(TranscriptItem::Result(Arc::new(result)));
        }
        unreachable!("the reader does not come to an end");
    }

    async fn run_search(&self, arguments: &SearchArguments) -> ToolOutput {
        if let Some(model) = &self.meaning {
            let vectors = model.embed_texts(std::slice::from_ref(&arguments.query)).await;
            let components = quantize_vector(&vectors[0]).unwrap_or_default();
            let (model, query) = (model.space().to_owned(), arguments.query.clone());
            self.library.query_vector(QueryVector { model, query, components });
        }
        let read_any = Cell::new(false);
        let begun = Instant::now();
        let output = self
            .library
            .search_documents(arguments, &[], SEARCH_TIME, |wanted: Wanted| {
                read_any.set(true);
                async move {
                    let path = wanted.file;
                    let unread = |reason, text| ExtractionProblem { reason, text, passing: false };
                    let file = std::fs::File::open(&path)
                        .map_err(|error| unread(UnreadReason::Missing, error.to_string()))?;
                    let extracted = extract_file(&path, file)
                        .map_err(|error| unread(error.unread_reason(), error.to_string()))?;
                    let pieces = passages::split_passages(&extracted, PIECE_MAX_BYTES);
                    Ok(PassageBatch { pieces, span: extracted.span, ..PassageBatch::default() })
                }
            })
            .await;
        if !read_any.get() {
            self.slowest_search.set(self.slowest_search.get().max(begun.elapsed()));
        }
        output
    }
}

impl ReaderAnswer {
    fn from_events(events: &[StepEvent], numbered: Vec<NumberedPassage>) -> Self {
        assert!(matches!(events.last(), Some(StepEvent::Finished { stop: StopReason::Done, .. })));
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                StepEvent::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let mut quotes = Vec::new();
        let mut begin = 0;
        for mark in find_marks(&text) {
            let [number] = mark.numbers[..] else { unreachable!("a mark has one number") };
            let passage = numbered.iter().find(|passage| passage.number == number).expect("a known number");
            let PassagePlace::File { path, page, .. } = &passage.place else {
                unreachable!("all places are in files")
            };
            let quoted: Vec<&str> = text[begin..mark.brackets.start]
                .lines()
                .filter(|line| line.starts_with("> "))
                .map(|line| line.trim_start_matches("> ").trim_end())
                .collect();
            begin = mark.brackets.end;
            let cited = CitedPlace { number, path: path.clone(), page: *page };
            quotes.push((cited, quoted.join(" ").replace(['\\', '*'], "")));
        }
        let (first, quote) = quotes.first().cloned().unzip();
        let declined = NO_ANSWER.iter().any(|sentence| text.starts_with(sentence));
        Self { text, declined, quote: quote.unwrap_or_default(), first, quotes, found: numbered }
    }
}

fn search_arguments(query: &str) -> SearchArguments {
    SearchArguments { query: query.to_owned(), paths: Vec::new(), limit: None }
}

fn question_item(text: &str, files: &[&str]) -> TranscriptItem {
    TranscriptItem::Question {
        text: text.to_owned(),
        attachments: files.iter().map(ToString::to_string).collect(),
    }
}

/// Assigns citation numbers to the passages.
fn number_passages(known: &mut Vec<NumberedPassage>, found: Vec<FoundPassage>) -> Vec<NumberedPassage> {
    let mut out = Vec::new();
    for passage in found {
        let place = PassagePlace::File {
            path: passage.path,
            page: passage.page,
            lines: passage.lines,
            page_name: None,
        };
        let number = u32::try_from(known.len() + 1).expect("few passages");
        let passage = NumberedPassage { number, place, text: passage.text };
        known.push(passage.clone());
        out.push(passage);
    }
    out
}
