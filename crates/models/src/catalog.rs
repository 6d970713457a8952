//! The catalog of models, their providers and their health.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use domain::catalog::{CatalogSetting, Localized, ModelEntry, ModelStatus, ProviderName};
use domain::credits::Price;
use domain::step::{StepError, StepEvent, StepRequest};
use domain::time::{Clock, Timestamp};
use futures_util::{StreamExt, future};

use crate::attempt::StepStream;
use crate::config::{VendorConfig, VendorConfigError, VendorsConfig};
use crate::configured::{self, ModelConfig};
use crate::format::WireFormat;
use crate::health::Health;
use crate::known;
use crate::listing::Discovered;
use crate::names;
use crate::plain_options::PlainOptions;
use crate::probe::{DiscoveryFailure, Probe, ProbeError, RefusedCalls, VendorHealth};
use crate::provider::StepProvider;
use crate::vendor::VendorClient;

/// The default price: an answer over a few documents costs about three to ten credits.
pub const DEFAULT_PRICE: Price = Price { base_millis: 1000, input_millis: 50, output_millis: 500 };
/// The price of the built-in reader: one credit per answer.
pub const READER_PRICE: Price = Price { base_millis: 1000, input_millis: 0, output_millis: 0 };
/// The default limit of output tokens per step.
pub const OUTPUT_MAX_TOKENS: u32 = 8192;
const READER_CONTEXT_TOKENS: u32 = 1_000_000;

pub const READER_ID: &str = reader::MODEL;

/// A model of the catalog: its entry and provider.
#[derive(Debug, Clone)]
pub struct CatalogModel {
    pub entry: ModelEntry,
    provider: StepProvider,
    state: Arc<CatalogState>,
}

impl CatalogModel {
    /// Makes one attempt at a step and records its outcome. Sets `request.model` to the vendor's name, and missing
    /// settings to their defaults.
    #[must_use]
    pub fn stream_step(&self, mut request: StepRequest) -> StepStream {
        request.model.clone_from(&self.entry.vendor_name);
        for setting in &self.entry.settings {
            if !request.settings.iter().any(|(key, _)| *key == setting.key) {
                request.settings.push((setting.key.clone(), setting.default_value.clone()));
            }
        }
        let id = self.entry.id.clone();
        let vendor = (!self.entry.builtin).then_some(self.entry.provider);
        let state = self.state.clone();
        Box::pin(self.provider.stream_step(request).inspect(move |event| match event {
            Ok(StepEvent::Finished { .. }) => state.record_call(&id, vendor, Ok(())),
            Err(
                error @ (StepError::Unavailable { .. }
                | StepError::TimedOut { .. }
                | StepError::Rejected { .. }),
            ) => state.record_call(&id, vendor, Err(error)),
            // A transcript that is too long says nothing about the model.
            Ok(_) | Err(StepError::TooLong) => {}
        }))
    }
}

impl CatalogModel {
    /// Returns the names of the options that the model's vendor does not take.
    #[must_use]
    pub fn unsupported_options(&self, options: &PlainOptions) -> Vec<&'static str> {
        match &self.provider {
            StepProvider::Vendor(vendor) => options.unsupported_in(vendor.format()),
            _ => Vec::new(),
        }
    }

    /// Returns the model with a client's options for its next step.
    #[must_use]
    pub fn with_plain_options(mut self, options: &PlainOptions) -> Self {
        if let StepProvider::Vendor(vendor) = &self.provider {
            let fields = options.for_format(vendor.format());
            if !fields.is_empty() {
                let vendor = vendor.with_options(&self.entry.vendor_name, &fields);
                self.provider = StepProvider::Vendor(Arc::new(vendor));
            }
        }
        self
    }
}

struct CatalogState {
    clock: Arc<dyn Clock>,
    health: Mutex<HashMap<String, Health>>,
    /// The refused calls of each vendor.
    refused: Mutex<HashMap<ProviderName, RefusedCalls>>,
}

impl fmt::Debug for CatalogState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogState").finish_non_exhaustive()
    }
}

impl CatalogState {
    fn lock_health(&self) -> MutexGuard<'_, HashMap<String, Health>> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome of a call of a model, and of its vendor if it has one.
    fn record_call(&self, id: &str, vendor: Option<ProviderName>, outcome: Result<(), &StepError>) {
        let now = self.clock.now();
        self.lock_health().entry(id.to_owned()).or_default().record_call(outcome.is_ok(), now);
        let Some(provider) = vendor else { return };
        let mut refused = self.lock_refused();
        let calls = refused.entry(provider).or_default();
        let changed = match outcome {
            Ok(()) => calls.record_success(),
            Err(error) => calls.record_failure(error, now),
        };
        drop(refused);
        match outcome {
            Ok(()) if changed => tracing::info!(vendor = provider.as_str(), "vendor accepts calls again"),
            Err(cause) if changed => {
                tracing::warn!(vendor = provider.as_str(), %cause, "vendor rejects calls: invalid key or no credit");
            }
            _ => {}
        }
    }

    fn lock_refused(&self) -> MutexGuard<'_, HashMap<ProviderName, RefusedCalls>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The results of discovery.
#[derive(Debug, Default)]
struct DiscoveredModels {
    /// The models of each vendor's last successful list.
    listed: HashMap<ProviderName, Vec<ModelEntry>>,
    /// The outcome of each vendor's last list.
    probes: HashMap<ProviderName, Probe>,
}

/// The catalog of models. Before [`Catalog::refresh_models`] it contains the configured models and the built-in reader.
#[derive(Debug)]
pub struct Catalog {
    config: VendorsConfig,
    /// At most one per provider, in order of preference.
    vendors: Vec<Arc<VendorClient>>,
    discovered: Mutex<DiscoveredModels>,
    entries: RwLock<Arc<Vec<ModelEntry>>>,
    /// Counts what the vendors had learned when the entries were arranged.
    learned_count: AtomicU64,
    state: Arc<CatalogState>,
}

impl Catalog {
    /// Creates the catalog of the configured vendors. Connects to nothing.
    ///
    /// # Errors
    /// Returns the vendor whose configuration is invalid, and the cause.
    pub fn new(config: VendorsConfig, clock: Arc<dyn Clock>) -> Result<Self, VendorConfigError> {
        let mut vendors = Vec::new();
        for (format, vendor) in configured_vendors(&config) {
            let of = VendorConfig {
                options: config.options.clone(),
                outgoing: config.outgoing.clone(),
                ..vendor.clone()
            };
            let provider = format.provider();
            let vendor =
                VendorClient::new(format, &of).map_err(|error| VendorConfigError { provider, error })?;
            vendors.push(Arc::new(vendor));
        }
        let state = Arc::new(CatalogState { clock, health: Mutex::default(), refused: Mutex::default() });
        let (discovered, entries) = (Mutex::default(), RwLock::default());
        let learned_count = AtomicU64::new(0);
        let catalog = Self { config, vendors, discovered, entries, learned_count, state };
        catalog.rebuild_entries(&HashMap::new());
        Ok(catalog)
    }

    /// Returns the configured vendors, in order of preference.
    pub fn providers(&self) -> impl Iterator<Item = ProviderName> {
        self.vendors.iter().map(|vendor| vendor.format().provider())
    }

    /// Lists the models of all vendors, which also probes their servers. Takes as long as the slowest vendor,
    /// [`crate::MODELS_TIMEOUT`] at most. Cancel safe.
    ///
    /// # Errors
    /// Returns the first vendor's error.
    pub async fn refresh_models(&self) -> Result<(), StepError> {
        let outcomes = future::join_all(self.providers().map(|provider| self.refresh_vendor(provider))).await;
        outcomes.into_iter().collect()
    }

    /// Lists one vendor's models, which also probes its server; to be called at startup and every few minutes. On
    /// failure the vendor's earlier models remain. Logs a changed outcome. Cancel safe.
    ///
    /// # Errors
    /// Fails when the vendor returns no list of models.
    pub async fn refresh_vendor(&self, provider: ProviderName) -> Result<(), StepError> {
        let Some(vendor) = self.vendors.iter().find(|vendor| vendor.format().provider() == provider) else {
            return Ok(());
        };
        let models = vendor.discover_models().await;
        let now = self.state.clock.now();
        let mut discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = models.and_then(|models| {
            let best_first = names::best_first(models, vendor.format(), vendor.is_own());
            let entries: Vec<_> = best_first.iter().map(|model| self.build_entry(model, vendor)).collect();
            if entries.is_empty() && !self.config.models.iter().any(|one| one.provider == provider) {
                return Err(DiscoveryFailure::empty_list());
            }
            discovered.listed.insert(provider, entries);
            Ok(())
        });
        let result = outcome.as_ref().map_or_else(|failure| Err(failure.to_step_error()), |()| Ok(()));
        let changed = discovered.probes.entry(provider).or_default().record_outcome(outcome, now);
        self.rebuild_entries(&discovered.listed);
        self.record_probe(provider, &discovered, now);
        let health = self.health_of(vendor, &discovered);
        drop(discovered);
        if changed {
            log_discovery(&health, result.is_ok());
        }
        result
    }

    /// Records a probe in the health of the vendor's models.
    fn record_probe(&self, provider: ProviderName, discovered: &DiscoveredModels, now: Timestamp) {
        let entries = self.listed_entries();
        let listed = discovered.listed.get(&provider).map_or(&[][..], Vec::as_slice);
        let error = discovered.probes.get(&provider).and_then(Probe::error_kind);
        let mut health = self.state.lock_health();
        for entry in entries.iter().filter(|entry| !entry.builtin && entry.provider == provider) {
            let is_listed = listed.iter().any(|other| other.vendor_name == entry.vendor_name);
            let answered = match (error, is_listed) {
                (None, true) => true,
                (Some(ProbeError::Unreachable | ProbeError::Key | ProbeError::Payment), _)
                | (Some(_), true) => false,
                // A failed or incomplete list says nothing about a model that is not in it.
                (None | Some(_), false) => continue,
            };
            health.entry(entry.id.clone()).or_default().record_probe(answered, now);
        }
        health.retain(|id, _| entries.iter().any(|entry| entry.id == *id));
    }

    /// Returns the health of the vendors, in order of preference.
    #[must_use]
    pub fn vendors_health(&self) -> Vec<VendorHealth> {
        let discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
        self.vendors.iter().map(|vendor| self.health_of(vendor, &discovered)).collect()
    }

    fn health_of(&self, vendor: &VendorClient, discovered: &DiscoveredModels) -> VendorHealth {
        let provider = vendor.format().provider();
        let models = discovered.listed.get(&provider).map_or(0, Vec::len);
        let probe = discovered.probes.get(&provider).cloned().unwrap_or_default();
        let calls = self.state.lock_refused().get(&provider).cloned().unwrap_or_default();
        probe.vendor_health(provider, vendor.base_url().to_owned(), models, &calls)
    }

    /// Explains to a user why there may be no model: names the vendors without a list of models. `None` when all have
    /// one.
    #[must_use]
    pub fn explain_outage(&self) -> Option<String> {
        self.outage_among(|_| true)
    }

    /// Explains to a user why a model may be missing: names the vendors without a list of models that could have it, or
    /// all of them when no vendor's models are known. `None` when the model does not exist.
    #[must_use]
    pub fn outage_of(&self, id: &str) -> Option<String> {
        if self.model_entries().iter().all(|entry| entry.builtin) {
            return self.explain_outage();
        }
        // Configured models are known without their vendors.
        if self.config.only_configured {
            return None;
        }
        self.outage_among(|vendor| Self::could_have(vendor, id))
    }

    /// Returns true when the vendor could have a model of this name. A server that only speaks OpenAI's protocol may
    /// have any.
    fn could_have(vendor: &VendorClient, name: &str) -> bool {
        let brand = |name: &str| name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
        let provider = vendor.format().provider();
        !has_own_names(vendor)
            || known::current_families(provider).any(|family| family[..brand(family)] == name[..brand(name)])
    }

    fn outage_among(&self, concerned: impl Fn(&VendorClient) -> bool) -> Option<String> {
        let why = |vendor: VendorHealth| {
            let provider = vendor.provider.as_str();
            match (vendor.up, vendor.trouble) {
                (Some(true), _) => None,
                _ if vendor.models > 0 => None,
                (_, Some(error)) => Some(format!("{provider}: {error}")),
                (_, None) => Some(format!("{provider}: its server has not answered yet")),
            }
        };
        let discovered = self.discovered.lock().unwrap_or_else(PoisonError::into_inner);
        let vendors = self.vendors.iter().filter(|vendor| concerned(vendor));
        let causes: Vec<String> =
            vendors.map(|vendor| self.health_of(vendor, &discovered)).filter_map(why).collect();
        (!causes.is_empty()).then(|| causes.join("; "))
    }

    /// Returns the entries, the built-in reader last. Never empty. Exactly one is the default, unless vendors are
    /// configured and none has listed a model: the built-in reader never replaces a configured vendor.
    #[must_use]
    pub fn model_entries(&self) -> Arc<Vec<ModelEntry>> {
        self.arrange_learned();
        self.listed_entries()
    }

    fn listed_entries(&self) -> Arc<Vec<ModelEntry>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the model with this identifier, or the default one. Returns `None` if it does not exist; see
    /// [`Catalog::explain_outage`].
    #[must_use]
    pub fn find_model(&self, id: Option<&str>) -> Option<CatalogModel> {
        let entries = self.model_entries();
        let entry = entries.iter().find(|entry| id.map_or(entry.default, |id| entry.id == id))?.clone();
        let vendor = self.vendors.iter().find(|vendor| vendor.format().provider() == entry.provider);
        let provider = match vendor {
            Some(vendor) if !entry.builtin => StepProvider::Vendor(self.with_options(&entry, vendor)),
            _ => StepProvider::Reader,
        };
        Some(CatalogModel { entry, provider, state: self.state.clone() })
    }

    /// Returns the health of a model.
    #[must_use]
    pub fn model_status(&self, id: &str) -> ModelStatus {
        if id == READER_ID {
            return ModelStatus::Up;
        }
        let now = self.state.clock.now();
        self.state.lock_health().get(id).map_or(ModelStatus::Unknown, |health| health.status_at(now))
    }

    /// Returns the vendor with the options of a configured model.
    fn with_options(&self, entry: &ModelEntry, vendor: &Arc<VendorClient>) -> Arc<VendorClient> {
        let configured = self.config.models.iter().find(|one| one.id == entry.id && one.is_of(entry));
        match configured.filter(|one| !one.options.is_empty()) {
            Some(one) => Arc::new(vendor.with_options(&entry.vendor_name, &one.options)),
            None => vendor.clone(),
        }
    }

    /// Rebuilds the entries when a vendor has learned something about its models since.
    fn arrange_learned(&self) {
        let count = self.vendors.iter().map(|vendor| vendor.learned_count()).sum();
        if self.learned_count.load(Ordering::Relaxed) == count {
            return;
        }
        // The holder of the lock arranges them.
        if let Ok(discovered) = self.discovered.try_lock() {
            self.learned_count.store(count, Ordering::Relaxed);
            self.rebuild_entries(&discovered.listed);
        }
    }

    /// Applies the properties that the vendors have learned about their models. Returns the names of models
    /// that do not chat.
    fn apply_learned(&self, entries: &mut [ModelEntry]) -> HashSet<String> {
        let mut silent = HashSet::new();
        for entry in entries.iter_mut().filter(|entry| !entry.builtin) {
            let Some(vendor) =
                self.vendors.iter().find(|vendor| vendor.format().provider() == entry.provider)
            else {
                continue;
            };
            let learned = vendor.known_adaptation(&entry.vendor_name);
            entry.uses_tools = learned.accepts_tools();
            if let Some(context) = learned.context_tokens() {
                entry.context_tokens = entry.context_tokens.min(context);
            }
            let output = learned.output_max_tokens().unwrap_or(entry.output_max_tokens);
            // Output must leave room for input in the context window.
            entry.output_max_tokens =
                entry.output_max_tokens.min(output).min(entry.context_tokens / 2).max(1);
            if !learned.can_chat() {
                silent.insert(entry.id.clone());
            }
        }
        silent
    }

    /// Rebuilds the entries from the vendors' lists and the configuration.
    fn rebuild_entries(&self, listed: &HashMap<ProviderName, Vec<ModelEntry>>) {
        let of = |provider: ProviderName| {
            self.vendors.iter().find(move |vendor| vendor.format().provider() == provider)
        };
        let in_order = self.vendors.iter().map(|vendor| match listed.get(&vendor.format().provider()) {
            Some(listed) => listed.clone(),
            None => self.expected_models(vendor),
        });
        let unlisted = |one: &ModelConfig| {
            let model = Discovered { name: one.vendor_name().to_owned(), ..Discovered::default() };
            Some(self.build_entry(&model, of(one.provider)?))
        };
        let listed = in_order.flatten().collect();
        let (models, only) = (&self.config.models, self.config.only_configured);
        self.set_entries(configured::arrange_entries(models, only, listed, unlisted));
    }

    /// Returns the models that a vendor without a list is expected to have. For a server that only speaks OpenAI's
    /// protocol that is just the operator's default model, if no other vendor can have it. Servers of the other formats
    /// have their vendors' models, even behind a gateway.
    fn expected_models(&self, vendor: &VendorClient) -> Vec<ModelEntry> {
        let provider = vendor.format().provider();
        let is_known = has_own_names(vendor);
        let meant = self.config.default_model.as_deref().filter(|id| {
            let described = self.config.models.iter().any(|one| one.id == *id);
            !is_known && self.vendors.len() == 1 && !described && *id != READER_ID
        });
        let families = known::current_families(provider).filter(|_| is_known);
        let names = families.map(str::to_owned).chain(meant.map(str::to_owned));
        let named = |name| Discovered { name, ..Discovered::default() };
        let best_first = names::best_first(names.map(named).collect(), vendor.format(), vendor.is_own());
        best_first.iter().map(|model| self.build_entry(model, vendor)).collect()
    }

    /// Returns the configured default if no model has this name, so that another one is the default.
    #[must_use]
    pub fn missing_default(&self) -> Option<&str> {
        let wanted = self.config.default_model.as_deref()?;
        self.model_entries().iter().all(|entry| entry.id != wanted).then_some(wanted)
    }

    fn set_entries(&self, mut entries: Vec<ModelEntry>) {
        if entries.is_empty() || !self.config.only_configured {
            entries.push(reader_entry());
        }
        make_unique(&mut entries, &self.config.models);
        let silent = self.apply_learned(&mut entries);
        let wanted = self.config.default_model.as_deref();
        // The built-in reader is the default only without vendors.
        let alone = self.vendors.is_empty();
        let first = |may: &dyn Fn(&ModelEntry) -> bool| {
            entries.iter().position(|entry| (alone || !entry.builtin) && may(entry))
        };
        let default = entries
            .iter()
            .position(|entry| Some(entry.id.as_str()) == wanted && !silent.contains(&entry.id))
            .or_else(|| first(&|entry| !entry.deprecated && !silent.contains(&entry.id)))
            .or_else(|| first(&|_| true));
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.default = Some(at) == default;
        }
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(entries);
    }

    fn build_entry(&self, model: &Discovered, vendor: &VendorClient) -> ModelEntry {
        let (format, own) = (vendor.format(), vendor.is_own());
        let known = if own { known::find_family(format.provider(), &model.name) } else { None };
        let superseded = known.map_or(own && names::is_deprecated(&model.name), |known| known.deprecated);
        let deprecated = model.deprecated || superseded;
        let reasons = model.reasons.or(known.map(|known| known.reasons));
        let reasons = reasons.unwrap_or_else(|| names::can_reason(&model.name));
        let settings =
            if !deprecated && reasons { vec![CatalogSetting::reasoning_effort()] } else { Vec::new() };
        let context = model.context_tokens.or(known.map(|known| known.context_tokens));
        // A server that does not tell its limits may have small ones.
        let unknown = context.is_none() && !own && format.provider() == ProviderName::OpenAi;
        let context = context.unwrap_or_else(|| names::context_tokens(format, own));
        let wanted = self.config.output_max_tokens.unwrap_or(OUTPUT_MAX_TOKENS);
        let most = model.output_max_tokens.or(known.map(|known| known.output_max_tokens));
        let most = most.or(unknown.then_some(names::OUTPUT_MAX_TOKENS));
        let output = wanted.min(most.unwrap_or(wanted));
        let label = model.label.as_deref().or(known.map(|known| known.label));
        ModelEntry {
            id: model.name.clone(),
            label: Localized::from_untranslated(label.unwrap_or(&model.name)),
            description: known
                .map_or_else(|| names::vendor_description(format, own), known::ModelFamily::description),
            provider: format.provider(),
            default: false,
            deprecated,
            settings,
            builtin: false,
            price: self.config.price.unwrap_or(DEFAULT_PRICE),
            context_tokens: context,
            // Output must leave room for input in the context window.
            output_max_tokens: output.min(context / 2).max(1),
            vendor_name: model.name.clone(),
            sees_images: known.is_some_and(|known| known.sees_images),
            uses_tools: true,
        }
    }
}

/// Returns the configured vendors and their formats, in order of preference.
fn configured_vendors(config: &VendorsConfig) -> Vec<(WireFormat, &VendorConfig)> {
    let anthropic = config.anthropic.iter().map(|vendor| (WireFormat::Anthropic, vendor));
    let openai = config.openai.iter().map(|vendor| (vendor.openai_format(), vendor));
    let google = config.google.iter().map(|vendor| (WireFormat::Gemini, vendor));
    anthropic.chain(openai).chain(google).collect()
}

/// Returns true when the vendor's models have the vendor's names. Servers that speak OpenAI's format may have any
/// model; the other formats are used for their vendors' models only, even behind a gateway.
fn has_own_names(vendor: &VendorClient) -> bool {
    vendor.is_own() || vendor.format().provider() != ProviderName::OpenAi
}

/// Logs a changed outcome of a vendor's discovery.
fn log_discovery(health: &VendorHealth, succeeded: bool) {
    let (vendor, base_url) = (health.provider.as_str(), &health.base_url);
    if succeeded {
        tracing::info!(vendor, base_url, models = health.models, "model discovery succeeded");
    } else {
        let cause = health.detail.as_deref().unwrap_or_default();
        tracing::warn!(vendor, base_url, cause, "model discovery failed; will retry");
    }
}

/// Makes identifiers unique: prefixes a duplicate with its vendor, and drops it if it is still a duplicate. Configured
/// identifiers stay.
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
        label: Localized::new("Vestavěná čtečka", "Built-in reader", "Vstavaná čítačka"),
        description: Localized::new(
            "Není to jazykový model: najde v dokumentech úryvky, které na otázku odpovídají, a cituje je",
            "No language model: finds the passages of the documents that answer the question, and quotes them",
            "Nie je to jazykový model: nájde v dokumentoch úryvky, ktoré na otázku odpovedajú, a cituje ich",
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
        uses_tools: true,
    }
}
