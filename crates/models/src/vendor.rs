//! Which vendors there are, and how their servers are reached.

use std::collections::BTreeMap;

use domain::catalog::ProviderName;
use domain::secret::Secret;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};

use crate::configured::ModelConfig;
use crate::format::Format;
use crate::wire;

/// The name under which options hold for every model.
const EVERY_MODEL: &str = "*";

/// The header's value of the key behind `prefix`; `None` when the key cannot stand in a header.
pub(crate) fn header_value(prefix: &str, key: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// How a vendor is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorConfig {
    /// The key, where the server wants one.
    pub key: Option<Secret>,
    /// Where the server is; the vendor's own when absent.
    pub base_url: Option<String>,
    /// The format it is spoken to in, where the vendor has several; chosen by the address when absent.
    pub format: Option<Format>,
    /// What the operator adds to requests. The catalog sets it to [`VendorsConfig::options`].
    pub options: Options,
}

/// Raw options that are put into the requests of models: JSON objects by the vendor's name of the model, `*` for
/// every model. Where both say something, the model's own holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options(BTreeMap<String, Map<String, Value>>);

impl Options {
    /// Reads `{"model": {"option": …}}`.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub fn parse(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json).map(Self)
    }

    /// What is added to the requests of this model.
    pub(crate) fn of(&self, model: &str) -> Map<String, Value> {
        let mut options = self.0.get(EVERY_MODEL).cloned().unwrap_or_default();
        if let Some(own) = self.0.get(model) {
            wire::merge(&mut options, own);
        }
        options
    }

    /// The same with more for one model.
    pub(crate) fn with(&self, model: &str, more: &Map<String, Value>) -> Self {
        let mut options = self.clone();
        wire::merge(options.0.entry(model.to_owned()).or_default(), more);
        options
    }
}

/// The vendors that are configured, and what holds of their models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorsConfig {
    /// Anthropic.
    pub anthropic: Option<VendorConfig>,
    /// OpenAI, or a server that speaks its protocol.
    pub openai: Option<VendorConfig>,
    /// Google.
    pub google: Option<VendorConfig>,
    /// What the operator says about models.
    pub models: Vec<ModelConfig>,
    /// Whether only those are in the catalog.
    pub only_configured: bool,
    /// The model that answers questions which name none; the catalog chooses when absent.
    pub default_model: Option<String>,
    /// What models cost; [`crate::catalog::DEFAULT_PRICE`] when absent.
    pub price: Option<domain::credits::Price>,
    /// What the operator adds to the requests of models, whoever answers them.
    pub options: Options,
    /// The most tokens that one step may write; [`crate::catalog::OUTPUT_MAX_TOKENS`] when absent.
    pub output_max_tokens: Option<u32>,
}

/// A vendor's configuration cannot be used. Says nothing of its secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VendorError {
    /// The base URL is none, or not of HTTP, or carries a user, a query or a fragment.
    #[error("the base URL is not a plain http or https address")]
    BaseUrl,
    /// The key has characters that no header can carry.
    #[error("the key has characters that no key has")]
    Key,
}

/// One of the configured vendors cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: {error}", .provider.as_str())]
pub struct VendorConfigError {
    /// Which one.
    pub provider: ProviderName,
    /// Why.
    pub error: VendorError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_guide_is_read_and_a_models_own_options_hold_over_those_of_all() {
        let guide = include_str!("../../../docs/models.md");
        let (_, example) = guide.split_once("```json\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let options = Options::parse(example).unwrap();
        assert_eq!(options.of("gpt-5.2")["text"]["verbosity"], "low");
        assert!(options.of("another").is_empty());
        let options = Options::parse(r#"{"*": {"a": {"b": 1, "c": 2}}, "m": {"a": {"b": 3}}}"#).unwrap();
        assert_eq!(options.of("m")["a"], serde_json::json!({"b": 3, "c": 2}));
        for wrong in ["[]", r#"{"m": 1}"#, "{"] {
            assert!(Options::parse(wrong).is_err(), "{wrong}");
        }
    }
}
