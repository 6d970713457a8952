//! Embeddings: vectors of texts, in OpenAI's format (`POST /embeddings`), which most servers speak.
//!
//! One attempt for each call; the caller decides on retries. Responses are untrusted: a response is unusable if
//! it has a wrong number of vectors, a dimension different from the first response, or a component that is not
//! finite.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use domain::catalog::ProviderName;
use domain::credits::Price;
use domain::embedding::{DIMENSION_MAX, MODEL_MAX_BYTES};
use domain::step::{StepError, TokenUsage};
use hyper::Method;
use reqwest::header::{self, HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use crate::config::{EmbeddingsConfig, VendorConfig, VendorsConfig};
use crate::error;
use crate::estimate::tokens_of_bytes;
use crate::format::WireFormat;
use crate::server::{VendorError, VendorServer};

/// Bounds one request for the vectors of passages.
const PASSAGES_TIMEOUT: Duration = Duration::from_secs(60);
/// Bounds a request for the vector of a query, for which a search waits.
const QUERY_TIMEOUT: Duration = Duration::from_secs(3);
/// Bounds the length of a component in a response, in bytes.
const COMPONENT_MAX_BYTES: usize = 32;
/// Bounds what a response holds besides components, in bytes.
const ENVELOPE_MAX_BYTES: usize = 64 * 1024;
/// The path below Google's own address at which it speaks OpenAI's format.
const GOOGLE_PATH: &str = "/openai";
/// Marks the beginning and the end of a text to a model, in tokens.
const MARKS_TOKENS: u64 = 4;

/// The configuration of embeddings is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingsError {
    /// The vendor is not configured.
    #[error("its vendor is not configured: set its key or base URL")]
    NoVendor,
    /// The name of the model is empty, or too long with the prefixes.
    #[error("the name of the model is empty, or longer than {MODEL_MAX_BYTES} bytes with a prefix")]
    Model,
    /// The vendor's configuration is invalid.
    #[error(transparent)]
    Vendor(#[from] VendorError),
}

/// The vectors of texts, in their order and of one dimension, and what they cost.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedTexts {
    pub vectors: Vec<Vec<f32>>,
    pub usage: TokenUsage,
}

/// A model of embeddings at a vendor's server.
#[derive(Debug)]
pub struct EmbeddingModel {
    server: VendorServer,
    model: String,
    dimensions: Option<u32>,
    price: Price,
    passage_prefix: String,
    query_prefix: String,
    /// The name of the vectors' space.
    space: String,
    /// The dimension of the first response; 0 before.
    dimension: AtomicUsize,
}

#[derive(Serialize)]
struct WireRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Deserialize)]
struct WireResponse {
    data: Vec<WireVector>,
    #[serde(default)]
    usage: Option<EmbeddingUsage>,
}

#[derive(Deserialize)]
struct WireVector {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

impl EmbeddingModel {
    /// Creates the model at the configured vendor. Connects on first use.
    ///
    /// # Errors
    /// [`EmbeddingsError`].
    pub fn new(config: &EmbeddingsConfig, vendors: &VendorsConfig) -> Result<Self, EmbeddingsError> {
        let (vendor, format) = match config.provider {
            ProviderName::Anthropic => (&vendors.anthropic, WireFormat::Anthropic),
            ProviderName::OpenAi => (&vendors.openai, WireFormat::ChatCompletions),
            ProviderName::Google => (&vendors.google, WireFormat::Gemini),
        };
        let Some(VendorConfig { key, base_url, .. }) = vendor else { return Err(EmbeddingsError::NoVendor) };
        let space = format!("{}{}", config.passage_prefix, config.model);
        if config.model.is_empty() || space.len().max(config.query_prefix.len()) > MODEL_MAX_BYTES {
            return Err(EmbeddingsError::Model);
        }
        let own = match config.provider {
            ProviderName::Google => format!("{}{GOOGLE_PATH}", format.default_base_url()),
            ProviderName::Anthropic | ProviderName::OpenAi => format.default_base_url().to_owned(),
        };
        let base = base_url.as_deref().unwrap_or(&own);
        let server = VendorServer::new(WireFormat::ChatCompletions, base, key.clone())?
            .with_outgoing(&vendors.outgoing);
        Ok(Self {
            server,
            model: config.model.clone(),
            dimensions: config.dimensions,
            passage_prefix: config.passage_prefix.clone(),
            query_prefix: config.query_prefix.clone(),
            space,
            price: Price { base_millis: 0, input_millis: config.input_millis, output_millis: 0 },
            dimension: AtomicUsize::new(0),
        })
    }

    /// Returns the vendor's name of the model.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.model
    }

    /// Returns the name of the space of its vectors: only vectors of one space can be compared.
    #[must_use]
    pub fn space(&self) -> &str {
        &self.space
    }

    #[must_use]
    pub const fn price(&self) -> Price {
        self.price
    }

    /// Returns the maximum number of tokens of passages or queries: no token is shorter than a byte.
    #[must_use]
    pub fn tokens_max(&self, texts: &[String]) -> u64 {
        let each = self.passage_prefix.len().max(self.query_prefix.len()) as u64 + MARKS_TOKENS;
        texts.iter().map(|text| text.len() as u64 + each).sum()
    }

    /// Returns the vectors of passages. Cancel safe.
    ///
    /// # Errors
    /// [`StepError`], as of a model step; [`StepError::Unavailable`] of a response that is unusable.
    pub async fn embed_passages(&self, texts: &[String]) -> Result<EmbeddedTexts, StepError> {
        let passages = texts.iter().map(|text| format!("{}{text}", self.passage_prefix)).collect();
        self.embed_within(passages, PASSAGES_TIMEOUT).await
    }

    /// Returns the vector of a query, within a few seconds. Cancel safe.
    ///
    /// # Errors
    /// As [`Self::embed_passages`].
    pub async fn embed_query(&self, query: &str) -> Result<EmbeddedTexts, StepError> {
        self.embed_within(vec![format!("{}{query}", self.query_prefix)], QUERY_TIMEOUT).await
    }

    async fn embed_within(&self, texts: Vec<String>, time: Duration) -> Result<EmbeddedTexts, StepError> {
        let embedded = timeout(time, self.request_vectors(&texts)).await;
        let embedded = embedded.unwrap_or_else(|_| Err(error::unavailable_step("it did not answer in time")));
        embedded.map_err(|error| match error {
            StepError::Rejected { refused, status, reason } => {
                StepError::Rejected { refused, status, reason: self.server.redact_key(&reason) }
            }
            StepError::Unavailable { reason, retry_after } => {
                StepError::Unavailable { reason: self.server.redact_key(&reason), retry_after }
            }
            other @ (StepError::TooLong | StepError::TimedOut { .. }) => other,
        })
    }

    async fn request_vectors(&self, texts: &[String]) -> Result<EmbeddedTexts, StepError> {
        let Self { model, dimensions, .. } = self;
        let request = WireRequest { model, input: texts, encoding_format: "float", dimensions: *dimensions };
        let body = serde_json::to_vec(&request).map_err(|error| error::rejected_step(error.to_string()))?;
        let mut headers: HeaderMap = self.server.key_header().into_iter().collect();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let url = self.server.request_url("/embeddings", None);
        let sending = self.server.http_client()?.send_request(Method::POST, &url, headers, body);
        let mut response = sending.await.map_err(error::connection_failure)?;
        if !response.status.is_success() {
            let retry_after = error::retry_after_header(&response.headers, SystemTime::now());
            let body =
                response.read_body(error::ERROR_BODY_MAX_BYTES).await.ok().flatten().unwrap_or_default();
            let redact = |text: &str| self.server.redact_key(text);
            let body = String::from_utf8_lossy(&body);
            return Err(error::of_status(response.status, retry_after, &body, redact));
        }
        let max_bytes = ENVELOPE_MAX_BYTES + texts.len() * DIMENSION_MAX * COMPONENT_MAX_BYTES;
        let body = response.read_body(max_bytes).await.map_err(error::connection_failure)?;
        let body = body.ok_or_else(|| error::unavailable_step("its response of embeddings is too long"))?;
        self.parse_response(&body, texts)
    }

    /// Reads a response for these texts.
    fn parse_response(&self, body: &[u8], texts: &[String]) -> Result<EmbeddedTexts, StepError> {
        let unusable = |what: &str| error::unavailable_step(format!("its response of embeddings {what}"));
        let response: WireResponse =
            serde_json::from_slice(body).map_err(|_| unusable("has an unknown form"))?;
        if response.data.len() != texts.len() {
            return Err(unusable("has a wrong number of vectors"));
        }
        let mut vectors: Vec<Vec<f32>> = vec![Vec::new(); texts.len()];
        for (at, vector) in response.data.into_iter().enumerate() {
            let place = vectors.get_mut(vector.index.unwrap_or(at)).filter(|place| place.is_empty());
            let place = place.ok_or_else(|| unusable("has vectors with a wrong index"))?;
            if !vector.embedding.iter().all(|component| component.is_finite()) {
                return Err(unusable("has components that are not finite numbers"));
            }
            *place = vector.embedding;
        }
        let dimension = vectors.first().map_or(0, Vec::len);
        if !(1..=DIMENSION_MAX).contains(&dimension) {
            return Err(unusable("has vectors of an unsupported dimension"));
        }
        let set = self.dimension.compare_exchange(0, dimension, Ordering::Relaxed, Ordering::Relaxed);
        if set.err().unwrap_or(dimension) != dimension || vectors.iter().any(|one| one.len() != dimension) {
            return Err(unusable("has vectors of different dimensions"));
        }
        let counted = response.usage.and_then(|usage| usage.prompt_tokens.or(usage.total_tokens));
        let bytes = texts.iter().map(String::len).sum();
        // A vendor that reports more than the texts can have is not believed.
        let tokens = counted.unwrap_or_else(|| tokens_of_bytes(bytes)).min(self.tokens_max(texts));
        let usage =
            TokenUsage { input_tokens: tokens, estimated: counted.is_none(), ..TokenUsage::default() };
        Ok(EmbeddedTexts { vectors, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embeddings_config(provider: ProviderName) -> EmbeddingsConfig {
        EmbeddingsConfig {
            provider,
            model: "m".to_owned(),
            dimensions: None,
            input_millis: 10,
            passage_prefix: String::new(),
            query_prefix: String::new(),
        }
    }

    fn embedding_model(provider: ProviderName, vendor: VendorConfig) -> EmbeddingModel {
        let config = embeddings_config(provider);
        let mut vendors = VendorsConfig::default();
        match provider {
            ProviderName::Anthropic => vendors.anthropic = Some(vendor),
            ProviderName::OpenAi => vendors.openai = Some(vendor),
            ProviderName::Google => vendors.google = Some(vendor),
        }
        EmbeddingModel::new(&config, &vendors).expect("a model")
    }

    fn parse_bodies(bodies: &[&str]) -> Result<EmbeddedTexts, StepError> {
        let model = embedding_model(ProviderName::OpenAi, VendorConfig::default());
        let texts = ["one".to_owned(), "two".to_owned()];
        let read: Vec<_> = bodies.iter().map(|body| model.parse_response(body.as_bytes(), &texts)).collect();
        read.into_iter().next_back().expect("a body")
    }

    #[test]
    fn vectors_follow_text_order_with_usage() {
        let swapped = r#"{"object":"list","model":"m","data":[{"object":"embedding","index":1,"embedding":[0,1]},
            {"object":"embedding","index":0,"embedding":[1,0]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#;
        let embedded = parse_bodies(&[swapped]).expect("vectors");
        assert_eq!(embedded.vectors, [[1.0, 0.0], [0.0, 1.0]]);
        assert_eq!((embedded.usage.input_tokens, embedded.usage.estimated), (5, false));
        let bare = r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#;
        let embedded = parse_bodies(&[bare]).expect("vectors");
        assert_eq!((embedded.vectors[1][0], embedded.usage.estimated), (2.0, true));
        let dear = bare.replace("]}]}", r#"]}],"usage":{"total_tokens":18446744073709551615}}"#);
        assert_eq!(
            parse_bodies(&[&dear]).expect("vectors").usage.input_tokens,
            14,
            "it is bounded by the texts"
        );
    }

    #[test]
    fn unusable_vectors_are_refused() {
        let of = |vectors: &str| format!(r#"{{"data":[{vectors}]}}"#);
        let one = r#"{"embedding":[1,2]}"#;
        for vectors in [
            one.to_owned(),
            format!("{one},{one},{one}"),
            format!(r#"{one},{{"embedding":[1,2,3]}}"#),
            format!(r#"{one},{{"embedding":[1,NaN]}}"#),
            format!(r#"{one},{{"embedding":[1,"NaN"]}}"#),
            format!(r#"{one},{{"embedding":[1,null]}}"#),
            format!(r#"{one},{{"embedding":[1,1e39]}}"#),
            format!(r#"{one},{{"embedding":[1,1e999]}}"#),
            format!(r#"{one},{{"embedding":"AAAA"}}"#),
            format!(r#"{one},{{"index":0,"embedding":[1,2]}}"#),
            format!(r#"{one},{{"index":7,"embedding":[1,2]}}"#),
            r#"{"embedding":[]},{"embedding":[]}"#.to_owned(),
            format!(r#"{{"embedding":[{0}]}},{{"embedding":[{0}]}}"#, vec!["1"; DIMENSION_MAX + 1].join(",")),
        ] {
            let refused = parse_bodies(&[&of(&vectors)]);
            assert!(matches!(refused, Err(StepError::Unavailable { .. })), "{refused:?}");
        }
        for body in ["", "[]", "{}", "<html>", "null", r#"{"data":{}}"#] {
            assert!(parse_bodies(&[body]).is_err(), "{body}");
        }
        let longer = of(r#"{"embedding":[1,2,3]},{"embedding":[1,2,3]}"#);
        assert!(parse_bodies(&[&longer]).is_ok());
        assert!(
            parse_bodies(&[&of(&format!("{one},{one}")), &longer]).is_err(),
            "the dimension never changes"
        );
    }

    #[test]
    fn the_address_is_the_vendors() {
        let url = |provider, base_url: Option<&str>| {
            let vendor = VendorConfig { base_url: base_url.map(str::to_owned), ..VendorConfig::default() };
            embedding_model(provider, vendor).server.request_url("/embeddings", None).to_string()
        };
        let google = "https://generativelanguage.googleapis.com/v1beta/openai/embeddings";
        assert_eq!(url(ProviderName::OpenAi, None), "https://api.openai.com/v1/embeddings");
        assert_eq!(url(ProviderName::Google, None), google);
        assert_eq!(url(ProviderName::OpenAi, Some("http://x:1")), "http://x:1/v1/embeddings");
        assert_eq!(url(ProviderName::OpenAi, Some("http://x:1/v1/embeddings")), "http://x:1/v1/embeddings");
        let refused =
            EmbeddingModel::new(&embeddings_config(ProviderName::OpenAi), &VendorsConfig::default());
        assert_eq!(refused.map(drop), Err(EmbeddingsError::NoVendor));
    }
    #[tokio::test]
    async fn passages_and_queries_send_prefixes() {
        let vendor = test_support::start_server().await.expect("a server");
        let openai = VendorConfig { base_url: Some(vendor.base_url()), ..VendorConfig::default() };
        let vendors = VendorsConfig { openai: Some(openai), ..VendorsConfig::default() };
        let plain = embeddings_config(ProviderName::OpenAi);
        let prefixed = EmbeddingsConfig {
            passage_prefix: "passage: ".to_owned(),
            query_prefix: "query: ".to_owned(),
            dimensions: Some(256),
            ..plain.clone()
        };
        let model = EmbeddingModel::new(&prefixed, &vendors).expect("a model");
        let embedded = model.embed_passages(&["rent".to_owned(), "dogs".to_owned()]).await.expect("vectors");
        assert_eq!((embedded.vectors.len(), embedded.vectors[0].len()), (2, 256));
        model.embed_query("rent").await.expect("a vector");
        let seen = vendor.requests();
        assert_eq!(seen[0].path, "/v1/embeddings");
        assert_eq!(seen[0].body["input"], serde_json::json!(["passage: rent", "passage: dogs"]));
        assert_eq!(seen[0].body["dimensions"], 256);
        assert_eq!(seen[1].body["input"], serde_json::json!(["query: rent"]));
        let other = EmbeddingModel::new(&plain, &vendors).expect("a model");
        assert_ne!(model.space(), other.space(), "vectors of other prefixes are others");
        let rejected = model.embed_passages(&[test_support::embeddings::REJECTED.to_owned()]).await;
        assert!(matches!(rejected, Err(StepError::Rejected { .. })), "{rejected:?}");
    }
}
