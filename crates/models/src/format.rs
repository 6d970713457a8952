//! The wire formats of vendors: names, addresses, paths and headers.

use domain::catalog::ProviderName;
use domain::secret::Secret;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A wire format. Each has a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    Anthropic,
    /// OpenAI's Chat Completions, which most other servers also speak.
    ChatCompletions,
    /// Google's `streamGenerateContent`.
    Gemini,
    Responses,
}

impl WireFormat {
    pub const ALL: [Self; 4] = [Self::ChatCompletions, Self::Anthropic, Self::Responses, Self::Gemini];

    /// Returns the name that is stored with opaque items.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::ChatCompletions => "chat-completions",
            Self::Gemini => "gemini",
            Self::Responses => "responses",
        }
    }

    /// Returns the vendor of the format.
    #[must_use]
    pub const fn provider(self) -> ProviderName {
        match self {
            Self::Anthropic => ProviderName::Anthropic,
            Self::ChatCompletions | Self::Responses => ProviderName::OpenAi,
            Self::Gemini => ProviderName::Google,
        }
    }

    /// Returns the address of the vendor's own server.
    #[must_use]
    pub const fn default_base_url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::ChatCompletions | Self::Responses => "https://api.openai.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
        }
    }

    /// Completes the path of an operator's base URL.
    pub(crate) fn base_path(self, given: &str) -> String {
        let given = given.trim_end_matches('/');
        match self {
            Self::Anthropic => {
                let given = given.strip_suffix("/messages").unwrap_or(given);
                if given.ends_with("/v1") { given.to_owned() } else { format!("{given}/v1") }
            }
            Self::ChatCompletions | Self::Responses => {
                let given = ["/chat/completions", "/responses", "/embeddings"]
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

    /// Returns the header for the key, or `None` when a header cannot contain it.
    pub(crate) fn key_header(self, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Self::Anthropic => Some((HeaderName::from_static("x-api-key"), header_value("", key)?)),
            Self::ChatCompletions | Self::Responses => Some((AUTHORIZATION, header_value("Bearer ", key)?)),
            Self::Gemini => Some((HeaderName::from_static("x-goog-api-key"), header_value("", key)?)),
        }
    }

    /// Returns an additional header of every request.
    pub(crate) fn version_header(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Anthropic => Some(("anthropic-version", ANTHROPIC_VERSION)),
            Self::ChatCompletions | Self::Gemini | Self::Responses => None,
        }
    }

    /// Returns the path of a step below the base URL, and its query.
    pub(crate) fn step_path(self, model: &str) -> (String, Option<&'static str>) {
        match self {
            Self::Anthropic => ("/messages".to_owned(), None),
            Self::ChatCompletions => ("/chat/completions".to_owned(), None),
            Self::Gemini => (format!("/models/{model}:streamGenerateContent"), Some("alt=sse")),
            Self::Responses => ("/responses".to_owned(), None),
        }
    }

    /// Returns the path of the list of models below the base URL, and its query.
    pub(crate) fn models_path(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Anthropic => ("/models", Some("limit=1000")),
            Self::ChatCompletions | Self::Responses => ("/models", None),
            Self::Gemini => ("/models", Some("pageSize=1000")),
        }
    }
}

/// Builds a sensitive header value; `None` when a header cannot contain the key.
fn header_value(prefix: &str, key: &Secret) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_names_are_unique() {
        let mut names: Vec<_> = WireFormat::ALL.iter().map(|format| format.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WireFormat::ALL.len());
    }
}
