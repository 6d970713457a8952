//! Which models there are, who answers for each, and how they fare.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::catalog::{Localized, ModelEntry, ModelStatus, ProviderName, Setting};
use domain::credits::Price;
use domain::step::{StepError, StepEvent, StepRequest};
use domain::time::{Clock, Timestamp};
use futures_util::{StreamExt, future};

use crate::attempt::StepStream;
use crate::config::{VendorConfig, VendorConfigError, VendorsConfig};
use crate::configured::{self, ModelConfig};
use crate::format::Format;
use crate::health::Health;
use crate::known;
use crate::listing::Discovered;
use crate::names;
use crate::probe::{Failure, Probe, ProbeError, VendorHealth};
use crate::provider::Provider;
use crate::reader;
use crate::vendor::Vendor;

/// What a model costs where the operator sets no price: an answer over a few documents some three to ten credits.
pub const DEFAULT_PRICE: Price = Price { base_millis: 1000, input_millis: 50, output_millis: 500 };
/// What the built-in reader costs: one credit an answer.
pub const READER_PRICE: Price = Price { base_millis: 1000, input_millis: 0, output_millis: 0 };
/// The most tokens that one step may write where the operator sets no bound.
pub const OUTPUT_MAX_TOKENS: u32 = 8192;
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
    state: Arc<CatalogState>,
}

impl Model {
    /// Makes one attempt at a step and takes note of how it went. `request.model` is set to the vendor's name, and
    /// settings that nobody chose to what the catalog offers as theirs.
    #[must_use]
    pub fn step(&self, mut request: StepRequest) -> StepStream {
        request.model.clone_from(&self.entry.vendor_name);
        for setting in &self.entry.settings {
            if !request.settings.iter().any(|(key, _)| *key == setting.key) {
                request.settings.push((setting.key.clone(), setting.default_value.clone()));
            }
        }
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

struct CatalogState {
    clock: Arc<dyn Clock>,
    health: Mutex<HashMap<String, Health>>,
}

impl fmt::Debug for CatalogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl CatalogState {
    fn health(&self) -> MutexGuard<'_, HashMap<String, Health>> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, id: &str, answered: bool) {
        let now = self.clock.now();
        self.health().entry(id.to_owned()).or_default().record(answered, now);
    }
}

/// What the vendors told.
#[derive(Debug, Default)]
struct DiscoveredModels {
    /// The models of each when it last told some, as it told them.
    listed: HashMap<ProviderName, Vec<ModelEntry>>,
    /// What asking each came to.
    probes: HashMap<ProviderName, Probe>,
}

/// The catalog of models. Until [`Catalog::refresh`] has run it holds what is configured, and the built-in reader.
#[derive(Debug)]
pub struct Catalog {
    config: VendorsConfig,
    /// At most one for each provider, in the order of preference.
    vendors: Vec<Arc<Vendor>>,
    told: Mutex<DiscoveredModels>,
    entries: RwLock<Arc<Vec<ModelEntry>>>,
    state: Arc<CatalogState>,
}

impl Catalog {
    /// The catalog of the configured vendors. Connects to nothing.
    ///
    /// # Errors
    /// When a vendor's configuration cannot be used; which one, and why.
    pub fn new(config: VendorsConfig, clock: Arc<dyn Clock>) -> Result<Self, VendorConfigError> {
        let mut vendors = Vec::new();
        for (format, vendor) in configured(&config) {
            let of = VendorConfig { options: config.options.clone(), ..vendor.clone() };
            let provider = format.provider();
            let vendor = Vendor::new(format, &of).map_err(|error| VendorConfigError { provider, error })?;
            vendors.push(Arc::new(vendor));
        }
        let state = Arc::new(CatalogState { clock, health: Mutex::default() });
        let (told, entries) = (Mutex::default(), RwLock::default());
        let catalog = Self { config, vendors, told, entries, state };
        catalog.arrange(&HashMap::new());
        Ok(catalog)
    }

    /// The vendors that are configured, in the order of preference.
    pub fn providers(&self) -> impl Iterator<Item = ProviderName> {
        self.vendors.iter().map(|vendor| vendor.format().provider())
    }

    /// Asks the vendors for their models, and so whether they answer. Takes as long as the slowest vendor,
    /// [`crate::MODELS_TIMEOUT`] at most. Cancel safe.
    ///
    /// # Errors
    /// Why a vendor told none, the first one of several.
    pub async fn refresh(&self) -> Result<(), StepError> {
        let told = future::join_all(self.providers().map(|provider| self.refresh_vendor(provider))).await;
        told.into_iter().collect()
    }

    /// Asks one vendor for its models, and so whether it answers; to be called at the start and every few minutes. One
    /// that does not tell them keeps those that it had. What another thing came of it than before is logged. Cancel safe.
    ///
    /// # Errors
    /// Why it told none.
    pub async fn refresh_vendor(&self, provider: ProviderName) -> Result<(), StepError> {
        let Some(vendor) = self.vendors.iter().find(|vendor| vendor.format().provider() == provider) else {
            return Ok(());
        };
        let models = vendor.list().await;
        let now = self.state.clock.now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let came = models.and_then(|models| {
            let best_first = names::best_first(models, vendor.format(), vendor.is_own());
            let entries: Vec<_> = best_first.iter().map(|model| self.entry(model, vendor)).collect();
            if entries.is_empty() && !self.config.models.iter().any(|one| one.provider == provider) {
                return Err(Failure::empty());
            }
            told.listed.insert(provider, entries);
            Ok(())
        });
        let failed = came.as_ref().map_or_else(|failure| Err(failure.error()), |()| Ok(()));
        let changed = told.probes.entry(provider).or_default().record(came, now);
        self.arrange(&told.listed);
        self.record_probe(provider, &told, now);
        let health = self.health_of(vendor, &told);
        drop(told);
        if changed {
            log(&health);
        }
        failed
    }

    /// Takes note of what a probe of a vendor says of its models.
    fn record_probe(&self, provider: ProviderName, told: &DiscoveredModels, now: Timestamp) {
        let entries = self.entries();
        let listed = told.listed.get(&provider).map_or(&[][..], Vec::as_slice);
        let trouble = told.probes.get(&provider).and_then(Probe::error);
        let mut health = self.state.health();
        for entry in entries.iter().filter(|entry| !entry.builtin && entry.provider == provider) {
            let is_listed = listed.iter().any(|other| other.vendor_name == entry.vendor_name);
            let answered = match (trouble, is_listed) {
                (None, true) => true,
                (Some(ProbeError::Unreachable | ProbeError::Key), _) | (Some(_), true) => false,
                // Whoever tells no list tells nothing of a model that stands in none.
                (None | Some(_), false) => continue,
            };
            health.entry(entry.id.clone()).or_default().record_probe(answered, now);
        }
        health.retain(|id, _| entries.iter().any(|entry| entry.id == *id));
    }

    /// How the vendors fare, in the order of preference.
    #[must_use]
    pub fn vendors(&self) -> Vec<VendorHealth> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.vendors.iter().map(|vendor| self.health_of(vendor, &told)).collect()
    }

    fn health_of(&self, vendor: &Vendor, told: &DiscoveredModels) -> VendorHealth {
        let provider = vendor.format().provider();
        let models = told.listed.get(&provider).map_or(0, Vec::len);
        let probe = told.probes.get(&provider).cloned().unwrap_or_default();
        probe.health(provider, vendor.base_url().to_owned(), models)
    }

    /// Why a question may find no model, in words for whoever asked it: the vendors that have told no models yet. `None`
    /// when all have.
    #[must_use]
    pub fn outage(&self) -> Option<String> {
        self.outage_among(|_| true)
    }

    /// Why there may be a model of this identifier, although none is known: the vendors that have told no models yet and
    /// could have it, or all of them where no vendor's model is known at all. `None` when there is no such model.
    #[must_use]
    pub fn outage_of(&self, id: &str) -> Option<String> {
        if self.entries().iter().all(|entry| entry.builtin) {
            return self.outage();
        }
        // What is configured is known without the vendors.
        if self.config.only_configured {
            return None;
        }
        self.outage_among(|vendor| Self::could_have(vendor, id))
    }

    /// Whether a vendor could have a model of this name. A server that only speaks OpenAI's protocol may have any.
    fn could_have(vendor: &Vendor, name: &str) -> bool {
        let brand = |name: &str| name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
        let provider = vendor.format().provider();
        !has_own_names(vendor)
            || known::families(provider).any(|family| family[..brand(family)] == name[..brand(name)])
    }

    fn outage_among(&self, concerned: impl Fn(&Vendor) -> bool) -> Option<String> {
        let why = |vendor: VendorHealth| {
            let provider = vendor.provider.as_str();
            match (vendor.up, vendor.trouble) {
                (Some(true), _) => None,
                _ if vendor.models > 0 => None,
                (_, Some(trouble)) => Some(format!("{provider}: {trouble}")),
                (_, None) => Some(format!("{provider}: its server has not answered yet")),
            }
        };
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let vendors = self.vendors.iter().filter(|vendor| concerned(vendor));
        let told: Vec<String> = vendors.map(|vendor| self.health_of(vendor, &told)).filter_map(why).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The entries, the built-in reader last. Never empty; exactly one is the default, but for a catalog whose vendors
    /// have told no model yet: the built-in reader answers in nobody's place.
    #[must_use]
    pub fn entries(&self) -> Arc<Vec<ModelEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The model of this identifier, or the default one. `None` when there is none; see [`Catalog::outage`].
    #[must_use]
    pub fn resolve(&self, id: Option<&str>) -> Option<Model> {
        let entries = self.entries();
        let entry = entries.iter().find(|entry| id.map_or(entry.default, |id| entry.id == id))?.clone();
        let vendor = self.vendors.iter().find(|vendor| vendor.format().provider() == entry.provider);
        let provider = match vendor {
            Some(vendor) if !entry.builtin => Provider::Vendor(self.with_options(&entry, vendor)),
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

    /// The vendor as it is asked for this model.
    fn with_options(&self, entry: &ModelEntry, vendor: &Arc<Vendor>) -> Arc<Vendor> {
        let configured = self.config.models.iter().find(|one| one.id == entry.id && one.is_of(entry));
        match configured.filter(|one| !one.options.is_empty()) {
            Some(one) => Arc::new(vendor.with_options(&entry.vendor_name, &one.options)),
            None => vendor.clone(),
        }
    }

    /// Makes the entries of what the vendors listed and what is configured.
    fn arrange(&self, listed: &HashMap<ProviderName, Vec<ModelEntry>>) {
        let of = |provider: ProviderName| {
            self.vendors.iter().find(move |vendor| vendor.format().provider() == provider)
        };
        let in_order = self.vendors.iter().map(|vendor| match listed.get(&vendor.format().provider()) {
            Some(listed) => listed.clone(),
            None => self.expected(vendor),
        });
        let unlisted = |one: &ModelConfig| {
            let told = Discovered { name: one.vendor_name().to_owned(), ..Discovered::default() };
            Some(self.entry(&told, of(one.provider)?))
        };
        let listed = in_order.flatten().collect();
        let (models, only) = (&self.config.models, self.config.only_configured);
        self.set(configured::arrange(models, only, listed, unlisted));
    }

    /// What a vendor that has told nothing yet is known to have. Of a server that only speaks OpenAI's protocol nothing
    /// is known but the default model that the operator named, where no other vendor can be meant; the other formats are
    /// their vendors' alone, whoever hands requests on to them.
    fn expected(&self, vendor: &Vendor) -> Vec<ModelEntry> {
        let provider = vendor.format().provider();
        let is_known = has_own_names(vendor);
        let meant = self.config.default_model.as_deref().filter(|id| {
            let described = self.config.models.iter().any(|one| one.id == *id);
            !is_known && self.vendors.len() == 1 && !described && *id != READER_ID
        });
        let families = known::families(provider).filter(|_| is_known);
        let names = families.map(str::to_owned).chain(meant.map(str::to_owned));
        let named = |name| Discovered { name, ..Discovered::default() };
        let best_first = names::best_first(names.map(named).collect(), vendor.format(), vendor.is_own());
        best_first.iter().map(|model| self.entry(model, vendor)).collect()
    }

    fn set(&self, mut entries: Vec<ModelEntry>) {
        if entries.is_empty() || !self.config.only_configured {
            entries.push(reader_entry());
        }
        make_unique(&mut entries, &self.config.models);
        let wanted = self.config.default_model.as_deref();
        // The built-in reader answers unasked only where no vendor should.
        let alone = self.vendors.is_empty();
        let first = |may: &dyn Fn(&ModelEntry) -> bool| {
            entries.iter().position(|entry| (alone || !entry.builtin) && may(entry))
        };
        let default = entries
            .iter()
            .position(|entry| Some(entry.id.as_str()) == wanted)
            .or_else(|| first(&|entry| !entry.deprecated))
            .or_else(|| first(&|_| true));
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.default = Some(at) == default;
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
    }

    fn entry(&self, model: &Discovered, vendor: &Vendor) -> ModelEntry {
        let (format, own) = (vendor.format(), vendor.is_own());
        let known = if own { known::of(format.provider(), &model.name) } else { None };
        let superseded = known.map_or(own && names::is_deprecated(&model.name), |known| known.deprecated);
        let deprecated = model.deprecated || superseded;
        let reasons = model.reasons.or(known.map(|known| known.reasons));
        let reasons = reasons.unwrap_or_else(|| names::reasons(&model.name));
        let settings = if !deprecated && reasons { vec![Setting::reasoning_effort()] } else { Vec::new() };
        let context = model.context_tokens.or(known.map(|known| known.context_tokens));
        let context = context.unwrap_or_else(|| names::context_tokens(format, own));
        let wanted = self.config.output_max_tokens.unwrap_or(OUTPUT_MAX_TOKENS);
        let most = model.output_max_tokens.or(known.map(|known| known.output_max_tokens));
        let output = wanted.min(most.unwrap_or(wanted));
        let label = model.label.as_deref().or(known.map(|known| known.label));
        ModelEntry {
            id: model.name.clone(),
            label: Localized::same(label.unwrap_or(&model.name)),
            description: known
                .map_or_else(|| names::description(format, own), known::ModelFamily::description),
            provider: format.provider(),
            default: false,
            deprecated,
            settings,
            builtin: false,
            price: self.config.price.unwrap_or(DEFAULT_PRICE),
            context_tokens: context,
            // What is written must leave room for what is read.
            output_max_tokens: output.min(context / 2).max(1),
            vendor_name: model.name.clone(),
            sees_images: known.is_some_and(|known| known.sees_images),
        }
    }
}

/// The vendors that are configured and how they are spoken to, in the order in which their models are preferred.
fn configured(config: &VendorsConfig) -> Vec<(Format, &VendorConfig)> {
    let anthropic = config.anthropic.iter().map(|vendor| (Format::Anthropic, vendor));
    let openai = config.openai.iter().map(|vendor| (vendor.openai_format(), vendor));
    let google = config.google.iter().map(|vendor| (Format::Gemini, vendor));
    anthropic.chain(openai).chain(google).collect()
}

/// Whether the vendor's models have names of its own. The format of `OpenAI` is spoken by servers with any models; the
/// other formats are their vendors' alone, whoever hands requests on to them.
fn has_own_names(vendor: &Vendor) -> bool {
    vendor.is_own() || vendor.format().provider() != ProviderName::OpenAi
}

/// Tells operators how a vendor fares now.
fn log(health: &VendorHealth) {
    let (vendor, base_url) = (health.provider.as_str(), &health.base_url);
    match &health.detail {
        None => tracing::info!(vendor, base_url, models = health.models, "model discovery succeeded"),
        Some(cause) => {
            tracing::warn!(vendor, base_url, cause, "model discovery failed; will retry");
        }
    }
}

/// Names that come twice are made different by their vendor; what still comes twice is left out. Those that the
/// operator gave stay.
fn make_unique(entries: &mut Vec<ModelEntry>, configured: &[ModelConfig]) {
    let mut ids: HashSet<String> = configured.iter().map(|one| one.id.clone()).collect();
    ids.insert(READER_ID.to_owned());
    entries.retain_mut(|entry| {
        let is_configured = configured.iter().any(|one| one.id == entry.id && one.is_of(entry));
        if entry.builtin || is_configured || ids.insert(entry.id.clone()) {
            return true;
        }
        entry.id = format!("{}/{}", entry.provider.as_str().to_lowercase(), entry.vendor_name);
        ids.insert(entry.id.clone())
    });
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
        sees_images: false,
    }
}
