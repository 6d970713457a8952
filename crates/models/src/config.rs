//! The configuration of vendors.

use std::time::Duration;

use domain::catalog::ProviderName;
use domain::outgoing::OutgoingConfig;
use domain::secret::Secret;

use crate::configured::ModelConfig;
use crate::format::WireFormat;
use crate::options::RequestOptions;
use crate::server::{self, VendorError};

/// The host of OpenAI's own server. It alone defaults to the Responses format.
const OPENAI_HOST: &str = "api.openai.com";

/// The configuration of one vendor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorConfig {
    /// The API key, if the server requires one.
    pub key: Option<Secret>,
    /// The server's address; defaults to the vendor's own.
    pub base_url: Option<String>,
    /// The wire format, for vendors with several; defaults by address.
    pub format: Option<WireFormat>,
    /// Bounds the wait for the first byte of an answer; defaults by address.
    pub first_byte_timeout: Option<Duration>,
    /// Bounds the wait between two bytes of an answer.
    pub stall_timeout: Option<Duration>,
    /// The operator's request options. The catalog sets them to [`VendorsConfig::options`].
    pub options: RequestOptions,
    /// How its server is connected. The catalog sets it to [`VendorsConfig::outgoing`].
    pub outgoing: OutgoingConfig,
}

impl VendorConfig {
    /// Returns the format for OpenAI or a compatible server: the configured one, or a default by address.
    pub(crate) fn openai_format(&self) -> WireFormat {
        let chosen = self.format.unwrap_or_else(|| {
            let base = self.base_url.as_deref().unwrap_or(WireFormat::Responses.default_base_url());
            if server::is_at(base, OPENAI_HOST) { WireFormat::Responses } else { WireFormat::ChatCompletions }
        });
        match chosen {
            WireFormat::Responses => WireFormat::Responses,
            WireFormat::Anthropic | WireFormat::ChatCompletions | WireFormat::Gemini => {
                WireFormat::ChatCompletions
            }
        }
    }
}

/// The configuration of embeddings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddingsConfig {
    /// The vendor whose address and key are used.
    pub provider: ProviderName,
    /// The vendor's name of the model.
    pub model: String,
    /// The number of components to request, for models that offer several; the model's own when absent.
    pub dimensions: Option<u32>,
    /// The price of a thousand tokens, in thousandths of a credit.
    pub input_millis: u64,
    /// Texts before each passage and each query, for models that are trained so: `passage: ` and `query: `.
    pub passage_prefix: String,
    pub query_prefix: String,
}

/// The configuration of all vendors and their models.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VendorsConfig {
    pub anthropic: Option<VendorConfig>,
    /// OpenAI, or a compatible server.
    pub openai: Option<VendorConfig>,
    pub google: Option<VendorConfig>,
    /// The operator's descriptions of models.
    pub models: Vec<ModelConfig>,
    /// Restricts the catalog to `models`.
    pub only_configured: bool,
    /// The model for questions that name none; the catalog chooses when absent.
    pub default_model: Option<String>,
    /// The default price of models; the catalog has its own when absent.
    pub price: Option<domain::credits::Price>,
    /// The operator's request options, for all vendors.
    pub options: RequestOptions,
    /// The limit of output tokens per step; the catalog has its own when absent.
    pub output_max_tokens: Option<u32>,
    /// The model of embeddings; without one, documents are searched by words alone.
    pub embeddings: Option<EmbeddingsConfig>,
    /// How the vendors' servers are connected.
    pub outgoing: OutgoingConfig,
}

/// A vendor's configuration is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}: {error}", .provider.as_str())]
pub struct VendorConfigError {
    pub provider: ProviderName,
    pub error: VendorError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openai_format_follows_server_and_setting() {
        let of = |base_url: Option<&str>, format| {
            VendorConfig { base_url: base_url.map(str::to_owned), format, ..VendorConfig::default() }
                .openai_format()
        };
        assert_eq!(of(None, None), WireFormat::Responses);
        assert_eq!(of(Some("https://api.openai.com/v1"), None), WireFormat::Responses);
        assert_eq!(of(Some("http://127.0.0.1:11434/v1"), None), WireFormat::ChatCompletions);
        assert_eq!(of(Some("https://api.openai.com.example.org"), None), WireFormat::ChatCompletions);
        assert_eq!(of(None, Some(WireFormat::ChatCompletions)), WireFormat::ChatCompletions);
        assert_eq!(of(Some("http://127.0.0.1:1"), Some(WireFormat::Responses)), WireFormat::Responses);
    }
}
