//! Which vendors there are, and how their servers are reached.

use domain::catalog::ProviderName;
use domain::secret::Secret;

use crate::configured::ModelConfig;
use crate::format::Format;
use crate::options::Options;
use crate::server::{self, VendorError};

/// The host of OpenAI's own server, which alone is spoken to in its newer format unless the operator says so.
const OPENAI_HOST: &str = "api.openai.com";

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

impl VendorConfig {
    /// How OpenAI, or a server in its place, is spoken to: as the operator says, otherwise by the address.
    pub(crate) fn openai_format(&self) -> Format {
        let chosen = self.format.unwrap_or_else(|| {
            let base = self.base_url.as_deref().unwrap_or(Format::Responses.default_base_url());
            if server::is_at(base, OPENAI_HOST) { Format::Responses } else { Format::ChatCompletions }
        });
        match chosen {
            Format::Responses => Format::Responses,
            Format::Anthropic | Format::ChatCompletions | Format::Gemini => Format::ChatCompletions,
        }
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
    fn openais_own_server_is_spoken_to_in_its_newer_format_and_others_only_where_the_operator_says_so() {
        let of = |base_url: Option<&str>, format| {
            VendorConfig { base_url: base_url.map(str::to_owned), format, ..VendorConfig::default() }
                .openai_format()
        };
        assert_eq!(of(None, None), Format::Responses);
        assert_eq!(of(Some("https://api.openai.com/v1"), None), Format::Responses);
        assert_eq!(of(Some("http://127.0.0.1:11434/v1"), None), Format::ChatCompletions);
        assert_eq!(of(Some("https://api.openai.com.example.org"), None), Format::ChatCompletions);
        assert_eq!(of(None, Some(Format::ChatCompletions)), Format::ChatCompletions);
        assert_eq!(of(Some("http://127.0.0.1:1"), Some(Format::Responses)), Format::Responses);
    }
}
