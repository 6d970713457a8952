//! OpenID Connect: users sign in at an identity provider, by the authorization code flow with PKCE.
//!
//! ```text
//!  browser                     service                      provider
//!    │ begin ─────────────────────>│ discovery (cached) ─────────>│
//!    │<── to authorization_url, ───│                              │
//!    │    with a cookie            │                              │
//!    │ ── state, nonce, challenge ───────────────────────────────>│  the user signs in
//!    │<── to redirect_url with code and state ────────────────────│
//!    │ ── cookie, code, state ────>│ code, verifier, secret ─────>│
//!    │                             │<── ID token ─────────────────│
//!    │                             │ signature, issuer, audience, times, nonce
//!    │                             │ access token ───────────────>│
//!    │<── session ─────────────────│<── user info ────────────────│  if the ID token has no email
//! ```
//!
//! The state of a sign-in is derived from one secret in the browser's cookie, so the service stores nothing and
//! any process can complete it. All data from the provider is bounded.

mod keys;
mod token;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::outgoing::OutgoingConfig;
use domain::secret::Secret;
use domain::time::Timestamp;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Url};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

pub use self::token::TokenError;

use self::keys::ProviderKey;
use self::token::Expected;
use crate::ConfigError;
use crate::connections::{self, OutgoingConnections, ResponseBodyError};
use crate::secret::header_value;

/// The largest metadata, key set and token response, in bytes.
const DOCUMENT_MAX_BYTES: usize = 256 << 10;
/// The time limit of each exchange with the provider.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for which metadata and keys are kept.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// The shortest interval between two reads of the keys because of tokens with unknown keys.
const KEYS_INTERVAL: Duration = Duration::from_secs(30);
/// The longest code and error of a provider, in bytes.
const PARAMETER_MAX_BYTES: usize = 4096;
/// The longest URL of an endpoint, in bytes.
const ENDPOINT_MAX_BYTES: usize = 2048;

/// An identity provider, and the service as its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcConfig {
    /// The provider's URL, exactly as its tokens name it.
    pub issuer: String,
    /// The identifier of the service at the provider.
    pub client_id: String,
    /// The secret of the service at the provider; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// The URL to which the provider returns users.
    pub redirect_url: String,
}

/// The secrets of one sign-in, all derived from the one that the browser keeps.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInRequest {
    state: String,
    nonce: String,
    verifier: String,
}

/// The parameters with which the provider returns a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct Callback<'a> {
    pub code: &'a str,
    pub state: &'a str,
    /// The provider that returns the user, if it identifies itself.
    pub issuer: Option<&'a str>,
    /// The provider's error instead of a code.
    pub error: Option<&'a str>,
}

/// A user as the provider knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcIdentity {
    pub issuer: String,
    /// The identifier of the user at the provider, which never changes.
    pub subject: String,
    /// The email, which the provider has verified.
    pub email: String,
}

/// The reason why a sign-in failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer as it must.
    #[error("the identity provider is unavailable: {0}")]
    Unavailable(String),
    /// The provider refused the user or the code.
    #[error("the identity provider refused the sign-in: {0}")]
    Refused(String),
    /// The callback does not belong to a sign-in of this browser.
    #[error("the sign-in was not started in this browser: start it again")]
    State,
    /// Another provider returned the user.
    #[error("another identity provider returned the user")]
    OtherIssuer,
    /// The token is not accepted.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The metadata that the provider publishes.
#[derive(Debug, Clone)]
struct ProviderMetadata {
    authorization: Url,
    token: Url,
    keys: Url,
    user_info: Option<Url>,
    /// The secret is sent in the body, because the provider does not take it in a header.
    secret_in_body: bool,
    /// Callbacks must name the provider.
    names_issuer: bool,
}

/// The tokens that the provider exchanges for a code.
struct OidcTokens {
    id: String,
    /// Opens the user info.
    access: Option<Secret>,
}

/// A value with the time at which it was read.
type Read<T> = Mutex<Option<(T, Timestamp)>>;

/// The client of one identity provider.
#[derive(Debug)]
pub struct Oidc {
    config: OidcConfig,
    issuer: Url,
    connections: OutgoingConnections,
    metadata: Read<ProviderMetadata>,
    keys: Read<Vec<ProviderKey>>,
    /// The last read of the keys because of a token with an unknown one.
    keys_renewed: Read<()>,
    /// Serializes reads of metadata and keys.
    reading: Semaphore,
}

impl OidcConfig {
    /// Checks the configuration without connecting.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        Oidc::new(self.clone()).map(drop)
    }
}

impl SignInRequest {
    /// Derives the secrets of a sign-in from the one that the browser keeps.
    #[must_use]
    pub fn from_secret(secret: &[u8; 32]) -> Self {
        let derived = |purpose: &str| sha256_base64(&[purpose.as_bytes(), secret].concat());
        Self { state: derived("state"), nonce: derived("nonce"), verifier: derived("verifier") }
    }

    fn code_challenge(&self) -> String {
        sha256_base64(self.verifier.as_bytes())
    }
}

fn sha256_base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

impl Oidc {
    /// Creates a client. Connects to nothing.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: OidcConfig) -> Result<Self, ConfigError> {
        let wrong = |what: &str| ConfigError::BaseUrl { what: what.to_owned() };
        let issuer = connections::plain_url(&config.issuer, "issuer")?;
        let redirect = connections::plain_url(&config.redirect_url, "redirect URL")?;
        if !is_safe(&issuer) {
            return Err(wrong("issuer (https is required)"));
        }
        if !is_safe(&redirect) {
            return Err(wrong("redirect URL (https is required)"));
        }
        if let Some(secret) = &config.client_secret
            && header_value("", secret).is_none()
        {
            return Err(ConfigError::Secret { what: "client secret".to_owned() });
        }
        Ok(Self {
            config,
            issuer,
            connections: OutgoingConnections::default(),
            metadata: Mutex::default(),
            keys: Mutex::default(),
            keys_renewed: Mutex::default(),
            reading: Semaphore::new(1),
        })
    }

    /// Returns the client, connected as configured.
    #[must_use]
    pub fn with_outgoing(self, outgoing: &OutgoingConfig) -> Self {
        Self { connections: OutgoingConnections::from_config(outgoing), ..self }
    }

    /// Returns the URL at the provider to which the browser is sent.
    ///
    /// # Errors
    /// [`OidcError::Unavailable`].
    pub async fn authorization_url(
        &self,
        request: &SignInRequest,
        now: Timestamp,
    ) -> Result<String, OidcError> {
        let mut url = self.read_metadata(now).await?.authorization;
        url.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", &self.config.client_id),
            ("redirect_uri", &self.config.redirect_url),
            ("scope", "openid email"),
            ("state", &request.state),
            ("nonce", &request.nonce),
            ("code_challenge", &request.code_challenge()),
            ("code_challenge_method", "S256"),
        ]);
        Ok(url.into())
    }

    /// Completes a sign-in: redeems the code and verifies the token.
    ///
    /// # Errors
    /// [`OidcError`].
    pub async fn complete_sign_in(
        &self,
        request: &SignInRequest,
        callback: Callback<'_>,
        now: Timestamp,
    ) -> Result<OidcIdentity, OidcError> {
        if callback.state != request.state {
            return Err(OidcError::State);
        }
        let metadata = self.read_metadata(now).await?;
        match callback.issuer {
            Some(issuer) if issuer != self.config.issuer => return Err(OidcError::OtherIssuer),
            None if metadata.names_issuer => return Err(OidcError::OtherIssuer),
            _ => {}
        }
        if let Some(error) = callback.error {
            return Err(OidcError::Refused(loggable_code(error)));
        }
        if callback.code.is_empty() || callback.code.len() > PARAMETER_MAX_BYTES {
            return Err(OidcError::Refused("no code".to_owned()));
        }
        let tokens = self.redeem_code(&metadata, request, callback.code).await?;
        let expected = Expected {
            issuer: &self.config.issuer,
            client_id: &self.config.client_id,
            nonce: &request.nonce,
            now,
        };
        let keys = self.read_keys(&metadata, now, false).await?;
        let claims = match token::verify_token(&tokens.id, &keys, &expected) {
            // The provider may have changed its keys since.
            Err(TokenError::UnknownKey) => {
                let newer = self.read_keys(&metadata, now, true).await?;
                token::verify_token(&tokens.id, &newer, &expected)?
            }
            verified => verified?,
        };
        let email = match (claims.email, &metadata.user_info, &tokens.access) {
            // Providers need not have it in the ID token when they issue an access token (section 5.4).
            (Err(TokenError::NoEmail), Some(url), Some(access)) => {
                token::user_info_email(&self.user_info(url, access).await?, &claims.subject)?
            }
            (email, _, _) => email?,
        };
        Ok(OidcIdentity { issuer: self.config.issuer.clone(), subject: claims.subject, email })
    }

    async fn user_info(&self, url: &Url, access: &Secret) -> Result<Value, OidcError> {
        let authorization = header_value("Bearer ", access);
        let authorization = authorization.ok_or_else(|| {
            provider_unavailable_error(
                "its access token contains characters that are not allowed in a header",
            )
        })?;
        let request = self.http_client()?.get(url.clone()).header(AUTHORIZATION, authorization);
        match fetch_json(request).await? {
            (200, user_info) => Ok(user_info),
            (status, _) => {
                Err(provider_unavailable_error(&format!("its user info endpoint returned status {status}")))
            }
        }
    }

    /// Redeems the code for tokens.
    async fn redeem_code(
        &self,
        metadata: &ProviderMetadata,
        request: &SignInRequest,
        code: &str,
    ) -> Result<OidcTokens, OidcError> {
        let OidcConfig { client_id, client_secret, redirect_url, .. } = &self.config;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url),
            ("code_verifier", &request.verifier),
        ];
        let mut authorization = None;
        match client_secret {
            Some(secret) if !metadata.secret_in_body => {
                authorization = Some(basic_authorization(client_id, secret))
            }
            Some(secret) => {
                form.extend([("client_id", client_id.as_str()), ("client_secret", secret.expose())])
            }
            None => form.push(("client_id", client_id)),
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = self.http_client()?.post(metadata.token.clone());
        let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let request = match authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        };
        let (status, answer) = fetch_json(request.body(body)).await?;
        if status != 200 {
            let error = answer["error"].as_str().map_or_else(|| format!("status {status}"), loggable_code);
            // Errors of the client's credentials must be fixed by the operator.
            return Err(if status < 500 { OidcError::Refused(error) } else { OidcError::Unavailable(error) });
        }
        let id =
            answer["id_token"].as_str().ok_or_else(|| provider_unavailable_error("it sent no ID token"))?;
        Ok(OidcTokens { id: id.to_owned(), access: answer["access_token"].as_str().map(Secret::new) })
    }

    /// Returns the provider's metadata, read at most once in [`FRESH`].
    async fn read_metadata(&self, now: Timestamp) -> Result<ProviderMetadata, OidcError> {
        let _reading = self.one_reader().await?;
        if let Some(metadata) = fresh_value(&self.metadata, now, FRESH) {
            return Ok(metadata);
        }
        let url = connections::append_path(&self.issuer, "/.well-known/openid-configuration");
        let (status, document) = fetch_json(self.http_client()?.get(url)).await?;
        if status != 200 {
            return Err(provider_unavailable_error(&format!(
                "its metadata endpoint returned status {status}"
            )));
        }
        // A provider that is configured with another name would issue tokens for that name.
        if document["issuer"].as_str() != Some(&self.config.issuer) {
            return Err(provider_unavailable_error("its metadata names another issuer"));
        }
        let endpoint = |name: &str| {
            let text = document[name].as_str().filter(|text| text.len() <= ENDPOINT_MAX_BYTES);
            let url = text.and_then(|text| Url::parse(text).ok());
            let url =
                url.filter(|url| is_safe(url) && (url.scheme() == "https" || self.issuer.scheme() == "http"));
            url.ok_or_else(|| provider_unavailable_error(&format!("its metadata has no usable {name}")))
        };
        let methods = document["token_endpoint_auth_methods_supported"].as_array();
        let offers = |method: &str| {
            methods.is_some_and(|methods| methods.iter().any(|offered| offered.as_str() == Some(method)))
        };
        let metadata = ProviderMetadata {
            authorization: endpoint("authorization_endpoint")?,
            token: endpoint("token_endpoint")?,
            keys: endpoint("jwks_uri")?,
            user_info: endpoint("userinfo_endpoint").ok(),
            secret_in_body: !offers("client_secret_basic") && offers("client_secret_post"),
            names_issuer: document["authorization_response_iss_parameter_supported"] == Value::Bool(true),
        };
        store_value(&self.metadata, metadata.clone(), now);
        Ok(metadata)
    }

    /// Returns the provider's keys, read at most once in [`FRESH`]. With `newer`, they are read again, unless that was done
    /// within [`KEYS_INTERVAL`].
    async fn read_keys(
        &self,
        metadata: &ProviderMetadata,
        now: Timestamp,
        newer: bool,
    ) -> Result<Vec<ProviderKey>, OidcError> {
        let _reading = self.one_reader().await?;
        let is_newest = fresh_value(&self.keys_renewed, now, KEYS_INTERVAL).is_some();
        if let Some(keys) = fresh_value(&self.keys, now, FRESH).filter(|_| !newer || is_newest) {
            return Ok(keys);
        }
        if newer {
            store_value(&self.keys_renewed, (), now);
        }
        let (status, document) = fetch_json(self.http_client()?.get(metadata.keys.clone())).await?;
        if status != 200 {
            return Err(provider_unavailable_error(&format!("its key endpoint returned status {status}")));
        }
        let keys = keys::read_key_set(&document);
        store_value(&self.keys, keys.clone(), now);
        Ok(keys)
    }

    /// Waits until no other task reads from the provider, at most as long as one exchange takes.
    async fn one_reader(&self) -> Result<SemaphorePermit<'_>, OidcError> {
        let waited = timeout(EXCHANGE_TIMEOUT, self.reading.acquire()).await;
        waited
            .map_err(|_| provider_unavailable_error("timeout"))?
            .map_err(|_| provider_unavailable_error("closed"))
    }

    fn http_client(&self) -> Result<&reqwest::Client, OidcError> {
        self.connections.http_client().map_err(|_| provider_unavailable_error("TLS setup failed"))
    }
}

/// Sends a request and returns the status and the JSON of the response; null if the body is not JSON.
async fn fetch_json(request: RequestBuilder) -> Result<(u16, Value), OidcError> {
    let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
    let exchanged = timeout(EXCHANGE_TIMEOUT, async {
        let response = request
            .send()
            .await
            .map_err(|error| provider_unavailable_error(&connections::transport_error_reason(error)))?;
        let status = response.status().as_u16();
        let body =
            connections::read_response_body(response, DOCUMENT_MAX_BYTES).await.map_err(
                |error| match error {
                    ResponseBodyError::TooLarge => provider_unavailable_error("its response is too large"),
                    ResponseBodyError::Cut => provider_unavailable_error("connection lost"),
                },
            )?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    });
    exchanged.await.unwrap_or_else(|_| Err(provider_unavailable_error("timeout")))
}

fn provider_unavailable_error(reason: &str) -> OidcError {
    OidcError::Unavailable(reason.to_owned())
}

/// Returns true for https, and for http within this host.
fn is_safe(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    match url.scheme() {
        "https" => !host.is_empty(),
        "http" => ["127.0.0.1", "[::1]", "localhost"].contains(&host),
        _ => false,
    }
}

/// Returns the client's credentials as a header (RFC 6749, section 2.3.1).
fn basic_authorization(client_id: &str, secret: &Secret) -> HeaderValue {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encoded(client_id), encoded(secret.expose()));
    let pair = base64::engine::general_purpose::STANDARD.encode(pair);
    let mut value =
        HeaderValue::try_from(format!("Basic {pair}")).unwrap_or(HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}

/// Returns an error code of the provider for the log: a few plain characters.
fn loggable_code(error: &str) -> String {
    error.chars().filter(|c| c.is_ascii_alphanumeric() || "_-. ".contains(*c)).take(64).collect()
}

fn fresh_value<T: Clone>(read: &Read<T>, now: Timestamp, max_age: Duration) -> Option<T> {
    let read = read.lock().unwrap_or_else(PoisonError::into_inner);
    // Setting the clock back does not make values fresh again.
    read.as_ref()
        .filter(|(_, at)| *at <= now && now.duration_since(*at) < max_age)
        .map(|(value, _)| value.clone())
}

fn store_value<T>(read: &Read<T>, value: T, now: Timestamp) {
    *read.lock().unwrap_or_else(PoisonError::into_inner) = Some((value, now));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oidc_config(issuer: &str, redirect: &str) -> OidcConfig {
        OidcConfig {
            issuer: issuer.to_owned(),
            client_id: "causerie".to_owned(),
            client_secret: Some(Secret::new("a secret")),
            redirect_url: redirect.to_owned(),
        }
    }

    #[test]
    fn oidc_check_requires_https_or_localhost() {
        let here = "https://causerie.example/sign-in/callback";
        for issuer in
            ["https://id.example", "https://id.example/realms/x", "http://127.0.0.1:8081", "http://localhost"]
        {
            assert!(Oidc::new(oidc_config(issuer, here)).is_ok(), "{issuer}");
        }
        for issuer in [
            "http://id.example",
            "ftp://id.example",
            "id.example",
            "https://u:p@id.example",
            "https://id.example?x",
        ] {
            assert!(Oidc::new(oidc_config(issuer, here)).is_err(), "{issuer}");
        }
        assert!(Oidc::new(oidc_config("https://id.example", "http://causerie.example/x")).is_err());
        let odd = OidcConfig {
            client_secret: Some(Secret::new("a\nb")),
            ..oidc_config("https://id.example", here)
        };
        assert!(Oidc::new(odd).is_err());
    }

    #[test]
    fn sign_in_secrets_distinct_and_valid() {
        let (one, two) = (SignInRequest::from_secret(&[1; 32]), SignInRequest::from_secret(&[2; 32]));
        let all = [&one.state, &one.nonce, &one.verifier, &two.state, &two.nonce, &two.verifier];
        for (at, text) in all.iter().enumerate() {
            // RFC 7636: a verifier has 43 to 128 unreserved characters.
            assert!(
                text.len() == 43
                    && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            );
            assert!(!all[at + 1..].contains(text), "{text}");
        }
        // The example of RFC 7636, appendix B.
        let example =
            SignInRequest { verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(), ..one };
        assert_eq!(example.code_challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn basic_authorization_form_encodes_credentials() {
        let value = basic_authorization("a:b", &Secret::new("c d+e"));
        assert_eq!(value.to_str().ok(), Some("Basic YSUzQWI6YytkJTJCZQ=="));
        assert!(!format!("{value:?}").contains("YSUz"));
    }
}
