//! The vendors of models, and the prices of their models.

use std::time::Duration;

use control::Environment;
use domain::catalog::ProviderName;
use domain::credits::Price;
use domain::outgoing::OutgoingConfig;
use models::catalog::{DEFAULT_PRICE, OUTPUT_MAX_TOKENS};
use models::{
    Catalog, EmbeddingModel, EmbeddingsConfig, Format, Options, Secret, VendorConfig, VendorsConfig,
};

use super::described::{self, Configured};
use super::form::{choice, count, credits, duration, flag, path, quoted, text};
use super::source::{Sources, bounded};

/// The keys of a vendor: its server, its key, and a file that holds the key.
type Keys = (&'static str, &'static str, &'static str);

const ANTHROPIC: Keys = ("anthropic.base_url", "anthropic.api_key", "anthropic.api_key_file");
const OPENAI: Keys = ("openai.base_url", "openai.api_key", "openai.api_key_file");
const GOOGLE: Keys = ("google.base_url", "google.api_key", "google.api_key_file");

/// The key of the model of embeddings.
const EMBEDDINGS: &str = "embeddings.model";
/// The default price of a thousand tokens that are embedded, in thousandths of a credit.
const EMBEDDED_MILLIS: u64 = 5;

/// Bounds the settings of how long a model's server is waited for.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(1800);

/// The vendors of embeddings.
const VENDORS: &[(&str, ProviderName)] = &[
    ("openai", ProviderName::OpenAi),
    ("google", ProviderName::Google),
    ("anthropic", ProviderName::Anthropic),
];

/// The wire format of OpenAI or a compatible server; `None` decides by its address.
const OPENAI_FORMATS: &[(&str, Option<Format>)] = &[
    ("auto", None),
    ("chat-completions", Some(Format::ChatCompletions)),
    ("responses", Some(Format::Responses)),
];

/// Reads the settings of vendors, models and prices.
pub(super) fn read(from: &mut Sources) -> VendorsConfig {
    let show: fn(&Option<Format>) -> String = |format| {
        quoted(OPENAI_FORMATS.iter().find(|(_, known)| known == format).map_or("auto", |(name, _)| name))
    };
    let format = from.key("openai.format", None, choice(OPENAI_FORMATS, show));
    const DEFAULT: &str = "models.default";
    let first_byte_timeout = from.optional("models.first_byte_timeout", duration(WAIT_MIN..=WAIT_MAX));
    let stall_timeout = from.optional("models.stall_timeout", duration(WAIT_MIN..=WAIT_MAX));
    let waiting = |vendor| VendorConfig { first_byte_timeout, stall_timeout, ..vendor };
    let Configured { models, default } = described::read(from);
    let default_model = from.optional(DEFAULT, text());
    if default_model.is_some() && default.is_some() && default != default_model {
        from.refuse(DEFAULT, "mark the [[model]] itself as the default");
    }
    let vendors = VendorsConfig {
        anthropic: vendor(from, ANTHROPIC).map(waiting),
        openai: vendor(from, OPENAI).map(|openai| VendorConfig { format, ..waiting(openai) }),
        google: vendor(from, GOOGLE).map(waiting),
        default_model: default_model.or(default),
        models,
        only_configured: from.key("models.only_configured", false, flag()),
        options: options(from),
        outgoing: OutgoingConfig::default(),
        embeddings: embeddings(from),
        output_max_tokens: Some(super::narrow(
            from,
            "models.output_max_tokens",
            OUTPUT_MAX_TOKENS,
            1_000_000,
        )),
        price: Some(Price {
            base_millis: from.key("prices.base", DEFAULT_PRICE.base_millis, credits()),
            input_millis: from.key("prices.thousand_tokens_read", DEFAULT_PRICE.input_millis, credits()),
            output_millis: from.key("prices.thousand_tokens_written", DEFAULT_PRICE.output_millis, credits()),
        }),
    };
    // Validates the configuration without connecting.
    if let Err(wrong) = Catalog::new(vendors.clone(), Environment::system().clock()) {
        let (base_url, ..) = match wrong.provider {
            ProviderName::Anthropic => ANTHROPIC,
            ProviderName::OpenAi => OPENAI,
            ProviderName::Google => GOOGLE,
        };
        from.refuse(base_url, wrong.error);
    }
    if let Some(Err(wrong)) = vendors.embeddings.as_ref().map(|config| EmbeddingModel::new(config, &vendors))
    {
        from.refuse(EMBEDDINGS, wrong);
    }
    warn_of_absent(from, &vendors);
    vendors
}

/// Reads the model of embeddings; without one there are none.
fn embeddings(from: &mut Sources) -> Option<EmbeddingsConfig> {
    let model = from.optional(EMBEDDINGS, text());
    let show: fn(&ProviderName) -> String = |provider| {
        let named = VENDORS.iter().find(|(_, known)| known == provider);
        quoted(named.map_or("openai", |(name, _)| name))
    };
    let provider = from.key("embeddings.vendor", ProviderName::OpenAi, choice(VENDORS, show));
    let most = domain::embedding::DIMENSION_MAX as u64;
    let dimensions = from.optional("embeddings.dimensions", count(1..=most));
    let input_millis = from.key("prices.thousand_tokens_embedded", EMBEDDED_MILLIS, credits());
    let dimensions = dimensions.and_then(|dimensions| u32::try_from(dimensions).ok());
    let passage_prefix = from.optional("embeddings.passage_prefix", text()).unwrap_or_default();
    let query_prefix = from.optional("embeddings.query_prefix", text()).unwrap_or_default();
    Some(EmbeddingsConfig { provider, model: model?, dimensions, input_millis, passage_prefix, query_prefix })
}

/// Warns of configured models without a vendor. Not an error, because keys may come from other sources.
fn warn_of_absent(from: &mut Sources, vendors: &VendorsConfig) {
    for model in &vendors.models {
        let (vendor, name) = match model.provider {
            ProviderName::Anthropic => (&vendors.anthropic, "anthropic"),
            ProviderName::OpenAi => (&vendors.openai, "openai"),
            ProviderName::Google => (&vendors.google, "google"),
        };
        if vendor.is_none() {
            from.warn(format!("the model {} is not offered: {name} has neither key nor address", model.id));
        }
    }
}

/// Reads a vendor; it is configured if its server or its key is set.
fn vendor(from: &mut Sources, (base_url, key, key_file): Keys) -> Option<VendorConfig> {
    let base_url = from.optional(base_url, text());
    let key = from.secret(key, key_file).map(Secret::new);
    let is_configured = key.is_some() || base_url.is_some();
    is_configured.then(|| VendorConfig { key, base_url, ..VendorConfig::default() })
}

/// Reads the file of additional request options.
fn options(from: &mut Sources) -> Options {
    const KEY: &str = "models.options_file";
    let Some(file) = from.optional(KEY, path()) else { return Options::default() };
    let read = bounded(&file).and_then(|text| Options::parse(&text).map_err(|error| error.to_string()));
    read.unwrap_or_else(|error| {
        from.refuse(KEY, format!("{}: {error}", file.display()));
        Options::default()
    })
}
