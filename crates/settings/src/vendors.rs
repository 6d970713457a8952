//! The vendors of models, and the prices of their models.

use std::time::Duration;

use control::ServiceEnvironment;
use domain::catalog::ProviderName;
use domain::credits::Price;
use domain::outgoing::OutgoingConfig;
use models::catalog::{DEFAULT_PRICE, OUTPUT_MAX_TOKENS};
use models::{
    Catalog, EmbeddingModel, EmbeddingsConfig, RequestOptions, Secret, VendorConfig, VendorsConfig,
    WireFormat,
};

use crate::described::{self, Configured};
use crate::form::{
    choice_form, count_form, credits_form, duration_form, flag_form, path_form, quote_toml, text_form,
};
use crate::source::{SettingSources, read_bounded_file};

/// The keys of a vendor: its server, its key, and a file that holds the key.
type Keys = (&'static str, &'static str, &'static str);

const ANTHROPIC: Keys = ("anthropic.base_url", "anthropic.api_key", "anthropic.api_key_file");
const OPENAI: Keys = ("openai.base_url", "openai.api_key", "openai.api_key_file");
const GOOGLE: Keys = ("google.base_url", "google.api_key", "google.api_key_file");

/// The key of the model of embeddings.
const EMBEDDINGS: &str = "embeddings.model";
/// The default price of a thousand tokens that are embedded, in thousandths of a credit.
const EMBEDDED_MILLIS: u64 = 5;

/// Bounds the timeouts of a model's server.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(1800);

/// The vendors of embeddings.
const VENDORS: &[(&str, ProviderName)] = &[
    ("openai", ProviderName::OpenAi),
    ("google", ProviderName::Google),
    ("anthropic", ProviderName::Anthropic),
];

/// The wire format of OpenAI or a compatible server; `None` decides by its address.
const OPENAI_FORMATS: &[(&str, Option<WireFormat>)] = &[
    ("auto", None),
    ("chat-completions", Some(WireFormat::ChatCompletions)),
    ("responses", Some(WireFormat::Responses)),
];

/// Reads the settings of vendors, models and prices.
pub(crate) fn read_vendors(from: &mut SettingSources) -> VendorsConfig {
    let show: fn(&Option<WireFormat>) -> String = |format| {
        quote_toml(OPENAI_FORMATS.iter().find(|(_, known)| known == format).map_or("auto", |(name, _)| name))
    };
    let format = from.value_or_default("openai.format", None, choice_form(OPENAI_FORMATS, show));
    const DEFAULT: &str = "models.default";
    let first_byte_timeout =
        from.optional_value("models.first_byte_timeout", duration_form(WAIT_MIN..=WAIT_MAX));
    let stall_timeout = from.optional_value("models.stall_timeout", duration_form(WAIT_MIN..=WAIT_MAX));
    let waiting = |vendor| VendorConfig { first_byte_timeout, stall_timeout, ..vendor };
    let Configured { models, default } = described::read_models(from);
    let default_model = from.optional_value(DEFAULT, text_form());
    if default_model.is_some() && default.is_some() && default != default_model {
        from.record_problem(DEFAULT, "mark the [[model]] itself as the default");
    }
    let vendors = VendorsConfig {
        anthropic: read_vendor(from, ANTHROPIC).map(waiting),
        openai: read_vendor(from, OPENAI).map(|openai| VendorConfig { format, ..waiting(openai) }),
        google: read_vendor(from, GOOGLE).map(waiting),
        default_model: default_model.or(default),
        models,
        only_configured: from.value_or_default("models.only_configured", false, flag_form()),
        options: read_options_file(from),
        outgoing: OutgoingConfig::default(),
        embeddings: read_embeddings(from),
        output_max_tokens: Some(crate::read_bounded_u32(
            from,
            "models.output_max_tokens",
            OUTPUT_MAX_TOKENS,
            1_000_000,
        )),
        price: Some(Price {
            base_millis: from.value_or_default("prices.base", DEFAULT_PRICE.base_millis, credits_form()),
            input_millis: from.value_or_default(
                "prices.thousand_tokens_read",
                DEFAULT_PRICE.input_millis,
                credits_form(),
            ),
            output_millis: from.value_or_default(
                "prices.thousand_tokens_written",
                DEFAULT_PRICE.output_millis,
                credits_form(),
            ),
        }),
    };
    // Validates the configuration without connecting.
    if let Err(wrong) = Catalog::new(vendors.clone(), ServiceEnvironment::system().clock()) {
        let (base_url, ..) = match wrong.provider {
            ProviderName::Anthropic => ANTHROPIC,
            ProviderName::OpenAi => OPENAI,
            ProviderName::Google => GOOGLE,
        };
        from.record_problem(base_url, wrong.error);
    }
    if let Some(Err(wrong)) = vendors.embeddings.as_ref().map(|config| EmbeddingModel::new(config, &vendors))
    {
        from.record_problem(EMBEDDINGS, wrong);
    }
    warn_of_absent(from, &vendors);
    vendors
}

/// Reads the model of embeddings; without it, embeddings are disabled.
fn read_embeddings(from: &mut SettingSources) -> Option<EmbeddingsConfig> {
    let model = from.optional_value(EMBEDDINGS, text_form());
    let show: fn(&ProviderName) -> String = |provider| {
        let named = VENDORS.iter().find(|(_, known)| known == provider);
        quote_toml(named.map_or("openai", |(name, _)| name))
    };
    let provider =
        from.value_or_default("embeddings.vendor", ProviderName::OpenAi, choice_form(VENDORS, show));
    let most = domain::embedding::DIMENSION_MAX as u64;
    let dimensions = from.optional_value("embeddings.dimensions", count_form(1..=most));
    let input_millis =
        from.value_or_default("prices.thousand_tokens_embedded", EMBEDDED_MILLIS, credits_form());
    let dimensions = dimensions.and_then(|dimensions| u32::try_from(dimensions).ok());
    let passage_prefix = from.optional_value("embeddings.passage_prefix", text_form()).unwrap_or_default();
    let query_prefix = from.optional_value("embeddings.query_prefix", text_form()).unwrap_or_default();
    Some(EmbeddingsConfig { provider, model: model?, dimensions, input_millis, passage_prefix, query_prefix })
}

/// Warns of configured models without a vendor. Not an error, because keys may come from other sources.
fn warn_of_absent(from: &mut SettingSources, vendors: &VendorsConfig) {
    for model in &vendors.models {
        let (vendor, name) = match model.provider {
            ProviderName::Anthropic => (&vendors.anthropic, "anthropic"),
            ProviderName::OpenAi => (&vendors.openai, "openai"),
            ProviderName::Google => (&vendors.google, "google"),
        };
        if vendor.is_none() {
            from.record_warning(format!(
                "the model {} is not offered: set the key or base URL of {name}",
                model.id
            ));
        }
    }
}

/// Reads a vendor; it is configured if its server or its key is set.
fn read_vendor(from: &mut SettingSources, (base_url, key, key_file): Keys) -> Option<VendorConfig> {
    let base_url = from.optional_value(base_url, text_form());
    let key = from.secret_value(key, key_file).map(Secret::new);
    let is_configured = key.is_some() || base_url.is_some();
    is_configured.then(|| VendorConfig { key, base_url, ..VendorConfig::default() })
}

/// Reads the file of additional request options.
fn read_options_file(from: &mut SettingSources) -> RequestOptions {
    const KEY: &str = "models.options_file";
    let Some(file) = from.optional_value(KEY, path_form()) else { return RequestOptions::default() };
    let read = read_bounded_file(&file)
        .and_then(|text| RequestOptions::parse(&text).map_err(|error| error.to_string()));
    read.unwrap_or_else(|error| {
        from.record_problem(KEY, format!("{}: {error}", file.display()));
        RequestOptions::default()
    })
}
