//! The wire formats that vendors speak: what is the same to ask of each, and where each answers it.

use domain::catalog::ProviderName;
use domain::secret::Secret;
use domain::step::{StepError, StepRequest};
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::lenient::Listing;
use crate::vendor::{VendorConfig, header_value};
use crate::{anthropic, chat_completions, gemini, responses, server, wire};

/// The host of OpenAI's own server, which alone is spoken to in its newer format unless the operator says so.
const OPENAI_HOST: &str = "api.openai.com";

/// A wire format. A closed set: each has a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions, which most other servers speak too.
    ChatCompletions,
    /// Google's `streamGenerateContent`.
    Gemini,
    /// OpenAI's Responses.
    Responses,
}

/// What a server takes of one model's requests: learned from what it turns down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic(anthropic::Dialect),
    ChatCompletions(chat_completions::Dialect),
    Gemini(gemini::Dialect),
    Responses(responses::Dialect),
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 4] = [Self::ChatCompletions, Self::Anthropic, Self::Responses, Self::Gemini];

    /// How OpenAI, or a server in its place, is spoken to: as the operator says, otherwise by the address.
    pub(crate) fn of_openai(config: &VendorConfig) -> Self {
        let chosen = config.format.unwrap_or_else(|| {
            let base = config.base_url.as_deref().unwrap_or(Self::Responses.default_base_url());
            if server::is_at(base, OPENAI_HOST) { Self::Responses } else { Self::ChatCompletions }
        });
        match chosen {
            Self::Responses => Self::Responses,
            Self::Anthropic | Self::ChatCompletions | Self::Gemini => Self::ChatCompletions,
        }
    }

    /// The name under which its opaque items are kept.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::ChatCompletions => "chat-completions",
            Self::Gemini => "gemini",
            Self::Responses => "responses",
        }
    }

    /// Whose format it is.
    #[must_use]
    pub const fn provider(self) -> ProviderName {
        match self {
            Self::Anthropic => ProviderName::Anthropic,
            Self::ChatCompletions | Self::Responses => ProviderName::OpenAi,
            Self::Gemini => ProviderName::Google,
        }
    }

    /// Where its vendor's own server is.
    #[must_use]
    pub const fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::ChatCompletions | Self::Responses => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }

    /// The path of its base where the operator's address has none or ends before it.
    pub(crate) fn base_path(self, given: &str) -> String {
        let given = given.trim_end_matches('/');
        match self {
            Self::Anthropic => {
                let given = given.strip_suffix("/messages").unwrap_or(given);
                if given.ends_with("/v1") { given.to_owned() } else { format!("{given}/v1") }
            }
            Self::ChatCompletions | Self::Responses => {
                let given = ["/chat/completions", "/responses"]
                    .iter()
                    .find_map(|end| given.strip_suffix(end))
                    .unwrap_or(given);
                if given.is_empty() { "/v1".to_owned() } else { given.to_owned() }
            }
            Self::Gemini => {
                let given = given.strip_suffix("/models").unwrap_or(given);
                let versions = ["/v1", "/v1beta", "/v1alpha"];
                let has_version = versions.iter().any(|version| given.ends_with(version));
                if has_version { given.to_owned() } else { format!("{given}/v1beta") }
            }
        }
    }

    /// The header that carries the key; `None` when the key cannot stand in one.
    pub(crate) fn key_header(self, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Anthropic => Some((HeaderName::from_static("x-api-key"), header_value("", key)?)),
            Self::ChatCompletions | Self::Responses => Some((AUTHORIZATION, header_value("Bearer ", key)?)),
            Self::Gemini => Some((HeaderName::from_static("x-goog-api-key"), header_value("", key)?)),
        }
    }

    /// A header that every request carries besides.
    pub(crate) fn version_header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Anthropic => Some(("anthropic-version", anthropic::VERSION)),
            Self::ChatCompletions | Self::Gemini | Self::Responses => None,
        }
    }

    /// The path of a step, behind the base, and its query.
    pub(crate) fn step_path(self, model: &str) -> (String, Option<&'static str>) {
        match self {
            Self::Anthropic => ("/messages".to_owned(), None),
            Self::ChatCompletions => ("/chat/completions".to_owned(), None),
            Self::Gemini => (gemini::step_path(model), Some("alt=sse")),
            Self::Responses => ("/responses".to_owned(), None),
        }
    }

    /// The path of the list of models, behind the base, and its query.
    pub(crate) fn models_path(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Anthropic => ("/models", Some("limit=1000")),
            Self::ChatCompletions | Self::Responses => ("/models", None),
            Self::Gemini => ("/models", Some("pageSize=1000")),
        }
    }

    /// The models of a list.
    pub(crate) fn models(self, body: &[u8]) -> Option<Listing> {
        match self {
            Self::Anthropic => anthropic::models(body),
            // OpenAI has one list for both.
            Self::ChatCompletions | Self::Responses => chat_completions::models(body),
            Self::Gemini => gemini::models(body),
        }
    }

    /// What a list of models says that they take.
    pub(crate) fn dialects(self, body: &[u8]) -> Vec<(String, Dialect)> {
        match self {
            Self::Anthropic => {
                let told = anthropic::dialects(body).into_iter();
                told.map(|(model, dialect)| (model, Dialect::Anthropic(dialect))).collect()
            }
            Self::ChatCompletions | Self::Gemini | Self::Responses => Vec::new(),
        }
    }

    /// How a model is spoken to before anything was learned of it.
    pub(crate) fn dialect(self, model: &str, own: bool) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic(anthropic::Dialect::of(model)),
            Self::ChatCompletions => Dialect::ChatCompletions(chat_completions::Dialect::of(own)),
            Self::Gemini => Dialect::Gemini(gemini::Dialect::of(model)),
            Self::Responses => Dialect::Responses(responses::Dialect::NEWEST),
        }
    }
}

impl Dialect {
    /// How to say it to a server that refused it so; `None` when nothing else can be tried.
    pub(crate) fn fallback(self, refusal: &StepError) -> Option<Self> {
        let StepError::Rejected { reason } = refusal else { return None };
        let reason = reason.to_lowercase();
        if !(reason.starts_with("400") || reason.starts_with("422")) {
            return None;
        }
        match self {
            Self::Anthropic(dialect) => dialect.fallback(&reason).map(Self::Anthropic),
            Self::ChatCompletions(dialect) => dialect.fallback(&reason).map(Self::ChatCompletions),
            Self::Gemini(dialect) => dialect.fallback(&reason).map(Self::Gemini),
            Self::Responses(dialect) => dialect.fallback(&reason).map(Self::Responses),
        }
    }

    /// The request's body, with the operator's options for the model in it.
    ///
    /// # Errors
    /// When the request cannot be said in the format.
    pub(crate) fn body(
        self,
        request: &StepRequest,
        options: &Map<String, Value>,
    ) -> Result<Vec<u8>, StepError> {
        match self {
            Self::Anthropic(dialect) => wire::body(&anthropic::body(request, dialect)?, options),
            Self::ChatCompletions(dialect) => wire::body(&chat_completions::body(request, dialect)?, options),
            Self::Gemini(dialect) => wire::body(&gemini::body(request, dialect)?, options),
            Self::Responses(dialect) => wire::body(&responses::body(request, dialect)?, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opaque_items_of_one_format_are_told_from_those_of_another() {
        let mut names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Format::ALL.len());
    }

    #[test]
    fn openais_own_server_is_spoken_to_in_its_newer_format_and_others_only_where_the_operator_says_so() {
        let of = |base_url: Option<&str>, format| {
            Format::of_openai(&VendorConfig {
                base_url: base_url.map(str::to_owned),
                format,
                ..VendorConfig::default()
            })
        };
        assert_eq!(of(None, None), Format::Responses);
        assert_eq!(of(Some("https://api.openai.com/v1"), None), Format::Responses);
        assert_eq!(of(Some("http://127.0.0.1:11434/v1"), None), Format::ChatCompletions);
        assert_eq!(of(Some("https://api.openai.com.example.org"), None), Format::ChatCompletions);
        assert_eq!(of(None, Some(Format::ChatCompletions)), Format::ChatCompletions);
        assert_eq!(of(Some("http://127.0.0.1:1"), Some(Format::Responses)), Format::Responses);
    }
}
