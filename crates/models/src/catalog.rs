//! Which models there are, who answers for each, and how they fare.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::catalog::{Localized, ModelEntry, ModelStatus, ProviderName, Setting};
use domain::credits::Price;
use domain::step::{StepError, StepEvent, StepRequest};
use domain::time::Clock;
use futures_util::StreamExt;

use crate::chat_completions::ChatCompletions;
use crate::health::Health;
use crate::provider::{Discovered, Provider, StepStream};
use crate::reader;
use crate::vendor::{VendorError, VendorsConfig};

/// What a model costs where the operator sets no price: an answer over a few documents some three to ten credits.
pub const DEFAULT_PRICE: Price = Price { base_millis: 1000, input_millis: 50, output_millis: 500 };
/// What the built-in reader costs: one credit an answer.
pub const READER_PRICE: Price = Price { base_millis: 1000, input_millis: 0, output_millis: 0 };
/// The most tokens that one step may write where the operator sets no bound.
pub const OUTPUT_MAX_TOKENS: u32 = 8192;
/// How much a model reads where neither its server nor its name tells.
const CONTEXT_TOKENS: u32 = 32_768;
/// The same for the vendor's own models.
const OWN_CONTEXT_TOKENS: u32 = 128_000;
/// What the built-in reader takes in.
const READER_CONTEXT_TOKENS: u32 = 1_000_000;

/// The identifier of the built-in reader.
pub const READER_ID: &str = reader::MODEL;

/// A model that answers: its entry, and what to ask.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its entry.
    pub entry: ModelEntry,
    provider: Provider,
    state: Arc<State>,
}

impl Model {
    /// Makes one attempt at a step and takes note of how it went. `request.model` is set to the vendor's name.
    #[must_use]
    pub fn step(&self, mut request: StepRequest) -> StepStream {
        request.model.clone_from(&self.entry.vendor_name);
        let id = self.entry.id.clone();
        let state = self.state.clone();
        Box::pin(self.provider.step(request).inspect(move |event| match event {
            Ok(StepEvent::Finished { .. }) => state.record(&id, true),
            Err(StepError::Unavailable { .. } | StepError::Rejected { .. }) => state.record(&id, false),
            // A long exchange says nothing about the model.
            Ok(_) | Err(StepError::TooLong) => {}
        }))
    }
}

struct State {
    clock: Arc<dyn Clock>,
    health: Mutex<HashMap<String, Health>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl State {
    fn health(&self) -> MutexGuard<'_, HashMap<String, Health>> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, id: &str, answered: bool) {
        let now = self.clock.now();
        self.health().entry(id.to_owned()).or_default().record(answered, now);
    }
}

/// The catalog of models. Until [`Catalog::refresh`] has run it holds the built-in reader alone.
#[derive(Debug)]
pub struct Catalog {
    config: VendorsConfig,
    openai: Option<Arc<ChatCompletions>>,
    entries: RwLock<Arc<Vec<ModelEntry>>>,
    state: Arc<State>,
}

impl Catalog {
    /// The catalog of the configured vendors. Connects to nothing.
    ///
    /// # Errors
    /// When a vendor's configuration cannot be used.
    pub fn new(config: VendorsConfig, clock: Arc<dyn Clock>) -> Result<Self, VendorError> {
        let openai = config.openai.as_ref().map(ChatCompletions::new).transpose()?.map(Arc::new);
        let state = Arc::new(State { clock, health: Mutex::default() });
        let catalog = Self { config, openai, entries: RwLock::default(), state };
        catalog.set(Vec::new());
        Ok(catalog)
    }

    /// Asks the vendors for their models, and so whether they answer; to be called at the start and every few
    /// minutes. A vendor that does not answer keeps the models it had. Takes as long as the slowest vendor,
    /// [`crate::chat_completions::MODELS_TIMEOUT`] at most. Cancel safe.
    ///
    /// # Errors
    /// Why a vendor did not answer.
    pub async fn refresh(&self) -> Result<(), StepError> {
        let Some(openai) = &self.openai else { return Ok(()) };
        let listed = openai.models().await;
        let known = self.entries();
        let now = self.state.clock.now();
        if let Ok(models) = &listed {
            let mut models: Vec<_> =
                models.iter().filter(|model| converses(&model.name, openai.is_own())).collect();
            models.dedup_by(|one, other| one.name == other.name);
            if openai.is_own() {
                models.sort_by_key(|model| std::cmp::Reverse((rank(&model.name), model.created)));
            }
            self.set(models.into_iter().map(|model| self.entry(model, openai.is_own())).collect());
        }
        let entries = self.entries();
        let mut health = self.state.health();
        for entry in known.iter().chain(entries.iter()).filter(|entry| !entry.builtin) {
            let there = listed.is_ok() && entries.iter().any(|other| other.id == entry.id);
            health.entry(entry.id.clone()).or_default().record_probe(there, now);
        }
        health.retain(|id, _| entries.iter().any(|entry| entry.id == *id));
        listed.map(|_| ())
    }

    /// The entries, the built-in reader last. Never empty; exactly one is the default.
    #[must_use]
    pub fn entries(&self) -> Arc<Vec<ModelEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The model of this identifier, or the default one.
    #[must_use]
    pub fn resolve(&self, id: Option<&str>) -> Option<Model> {
        let entries = self.entries();
        let entry = entries.iter().find(|entry| id.map_or(entry.default, |id| entry.id == id))?.clone();
        let provider = match &self.openai {
            Some(openai) if !entry.builtin => Provider::ChatCompletions(openai.clone()),
            _ => Provider::Reader,
        };
        Some(Model { entry, provider, state: self.state.clone() })
    }

    /// How a model fares.
    #[must_use]
    pub fn status(&self, id: &str) -> ModelStatus {
        if id == READER_ID {
            return ModelStatus::Up;
        }
        let now = self.state.clock.now();
        self.state.health().get(id).map_or(ModelStatus::Unknown, |health| health.status(now))
    }

    fn set(&self, mut entries: Vec<ModelEntry>) {
        entries.retain(|entry| entry.id != READER_ID);
        entries.push(reader_entry());
        let wanted = self.config.default_model.as_deref();
        let default = entries.iter().position(|entry| Some(entry.id.as_str()) == wanted);
        let default = default.or_else(|| entries.iter().position(|entry| !entry.deprecated)).unwrap_or(0);
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.default = at == default;
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
    }

    fn entry(&self, model: &Discovered, own: bool) -> ModelEntry {
        let deprecated = own && is_deprecated(&model.name);
        let settings =
            if !deprecated && reasons(&model.name) { vec![Setting::reasoning_effort()] } else { Vec::new() };
        let context = model.context_tokens.unwrap_or(if own { OWN_CONTEXT_TOKENS } else { CONTEXT_TOKENS });
        let output = self.config.output_max_tokens.unwrap_or(OUTPUT_MAX_TOKENS);
        ModelEntry {
            id: model.name.clone(),
            label: Localized::same(&model.name),
            description: if own {
                Localized::new("Jazykový model OpenAI", "Language model by OpenAI", "Jazykový model OpenAI")
            } else {
                Localized::new(
                    "Jazykový model na serveru, který provozovatel nastavil",
                    "Language model on a server that the operator configured",
                    "Jazykový model na serveri, ktorý prevádzkovateľ nastavil",
                )
            },
            provider: ProviderName::OpenAi,
            default: false,
            deprecated,
            settings,
            builtin: false,
            price: self.config.price.unwrap_or(DEFAULT_PRICE),
            context_tokens: context,
            // What is written must leave room for what is read.
            output_max_tokens: output.min(context / 2).max(1),
            vendor_name: model.name.clone(),
        }
    }
}

fn reader_entry() -> ModelEntry {
    ModelEntry {
        id: READER_ID.to_owned(),
        label: Localized::new("Vestavěný čtenář", "Built-in reader", "Vstavaný čitateľ"),
        description: Localized::new(
            "Není to jazykový model: najde v dokumentech pasáže, které na otázku odpovídají, a cituje je",
            "No language model: finds the passages of the documents that answer the question, and quotes them",
            "Nie je to jazykový model: nájde v dokumentoch pasáže, ktoré na otázku odpovedajú, a cituje ich",
        ),
        provider: ProviderName::OpenAi,
        default: false,
        deprecated: false,
        settings: Vec::new(),
        builtin: true,
        price: READER_PRICE,
        context_tokens: READER_CONTEXT_TOKENS,
        output_max_tokens: OUTPUT_MAX_TOKENS,
        vendor_name: READER_ID.to_owned(),
    }
}

/// Whether a model of this name holds conversations: servers list all that they have.
fn converses(name: &str, own: bool) -> bool {
    let name = name.to_lowercase();
    let other = [
        "embed",
        "whisper",
        "tts",
        "dall-e",
        "moderation",
        "rerank",
        "transcribe",
        "image",
        "audio",
        "realtime",
    ];
    if name.is_empty() || other.iter().any(|kind| name.contains(kind)) {
        return false;
    }
    let family = ["gpt-", "chatgpt-", "o1", "o3", "o4"].iter().any(|family| name.starts_with(family));
    !own || (family
        && !["instruct", "search", "codex", "deep-research", "sora"].iter().any(|kind| name.contains(kind)))
}

/// Whether a model of this name thinks before it answers and takes an effort for it.
fn reasons(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.rsplit('/').next().unwrap_or(&name);
    ["o1", "o3", "o4", "gpt-5", "gpt-6"].iter().any(|family| name.starts_with(family))
        || ["gpt-oss", "qwen3", "deepseek-r", "magistral", "thinking", "reasoning"]
            .iter()
            .any(|kind| name.contains(kind))
}

/// Whether the vendor has newer ones in its place.
fn is_deprecated(name: &str) -> bool {
    name == "gpt-4" || ["gpt-3.5", "gpt-4-", "o1", "chatgpt-4"].iter().any(|family| name.starts_with(family))
}

/// The better of the vendor's models are greater: by generation, whole ones before small ones.
fn rank(name: &str) -> (u32, u32, bool, bool) {
    let version = name.strip_prefix("gpt-").unwrap_or("");
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let major = digits(version);
    let minor = version[major.len()..].strip_prefix('.').map(digits).unwrap_or_default();
    let whole = !["mini", "nano", "pro", "chat"].iter().any(|kind| name.contains(kind));
    // A name without a date is the vendor's present choice of that model.
    let plain = name.matches('-').count() < 2;
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0), whole, plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_model_is_the_best() {
        let mut names =
            ["gpt-4.1", "gpt-5-mini", "o4-mini", "gpt-5.2", "gpt-5.2-2026-01-01", "gpt-5.2-pro", "gpt-4o"];
        names.sort_by_key(|name| std::cmp::Reverse(rank(name)));
        assert_eq!(names[0], "gpt-5.2");
        assert!(
            reasons("openai/gpt-oss:20b") && reasons("o4-mini") && !reasons("llama3.2") && !reasons("gpt-4o")
        );
        assert!(!converses("nomic-embed-text", false) && converses("llama3.2:3b", false));
        assert!(
            !converses("davinci-002", true) && converses("gpt-5", true) && !converses("gpt-image-1", true)
        );
    }
}
