//! An identity provider: OpenID Connect with discovery, keys, PKCE and ID tokens that are really signed. It listens on
//! loopback. Faults make it behave as a broken or malicious provider, or as the victim of an attack, would.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};

/// The service as a client of the provider.
pub const CLIENT_ID: &str = "causerie";
/// Its secret, with characters that must be encoded.
pub const CLIENT_SECRET: &str = "a secret: 100%";

/// The token that opens the user info.
const ACCESS_TOKEN: &str = "an-access-token";
/// An RSA key made for tests, which signs nothing else.
const RSA: &[u8] = include_bytes!("identity_provider/test_rsa_2048.pk8");

/// A deviation from the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderFault {
    WrongNonce,
    NoNonce,
    WrongAudience,
    WrongIssuer,
    /// A token without a signature.
    AlgorithmNone,
    /// A token that is authenticated with the public key as a shared secret.
    PublicKeyAsSecret,
    Expired,
    FromTheFuture,
    /// Signed with an unpublished key, under the name of a published one.
    OtherKey,
    EmailNotVerified,
    /// Neither the ID token nor the user info has an email.
    NoEmail,
    /// The user info alone has the email, as the specification permits.
    EmailInUserInfo,
    /// Only the user info has an email, and it belongs to another user.
    OtherUserInfo,
    /// The callback names another provider.
    MixUp,
    /// The metadata names another issuer.
    OtherMetadata,
    /// The token endpoint fails.
    ServerError,
    /// The response of the token endpoint has no end.
    Endless,
    Cancelled,
}

/// The user who is signed in at the provider.
#[derive(Debug, Clone)]
struct ProviderUser {
    subject: String,
    email: String,
}

struct IdentityProviderState {
    user: ProviderUser,
    fault: Option<ProviderFault>,
    signs_with_rsa: bool,
    /// Raised by each rotation; keys are named by it.
    generation: u32,
    key: EcdsaKeyPair,
    /// The codes that were not redeemed, with the query of their sign-in.
    codes: HashMap<String, BTreeMap<String, String>>,
    issued: u32,
    key_reads: u32,
}

/// A running provider. It lives as long as the test's process.
#[derive(Clone)]
pub struct IdentityProvider {
    address: String,
    state: Arc<Mutex<IdentityProviderState>>,
}

impl IdentityProvider {
    /// Starts it with the user `ada@example.org`.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = IdentityProviderState {
            user: ProviderUser { subject: "248289761001".to_owned(), email: "ada@example.org".to_owned() },
            fault: None,
            signs_with_rsa: false,
            generation: 1,
            key: new_key(),
            codes: HashMap::new(),
            issued: 0,
            key_reads: 0,
        };
        let provider = Self { address, state: Arc::new(Mutex::new(state)) };
        let serving = provider.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let provider = serving.clone();
                // A client may disconnect at any time.
                thread::spawn(move || provider.serve_connection(stream));
            }
        });
        provider
    }

    /// Returns the provider's name in its tokens.
    #[must_use]
    pub fn issuer_url(&self) -> String {
        format!("http://{}/realm", self.address)
    }

    /// Returns the environment that makes a service its client. The service also needs its public URL.
    #[must_use]
    pub fn service_environment(&self) -> Vec<(String, String)> {
        [
            ("ISSUER", self.issuer_url()),
            ("CLIENT_ID", CLIENT_ID.to_owned()),
            ("CLIENT_SECRET", CLIENT_SECRET.to_owned()),
        ]
        .into_iter()
        .map(|(name, value)| (format!("CAUSERIE_OIDC_{name}"), value))
        .collect()
    }

    /// Signs another user in at the provider.
    pub fn sign_in_user(&self, subject: &str, email: &str) {
        self.lock_state().user = ProviderUser { subject: subject.to_owned(), email: email.to_owned() };
    }

    /// Deviates from the protocol from now on; `None` follows it.
    pub fn set_fault(&self, fault: Option<ProviderFault>) {
        self.lock_state().fault = fault;
    }

    /// Signs with the RSA key from now on.
    pub fn use_rsa(&self) {
        self.lock_state().signs_with_rsa = true;
    }

    /// Replaces the key with which tokens are signed.
    pub fn rotate_key(&self) {
        let mut state = self.lock_state();
        state.key = new_key();
        state.generation += 1;
    }

    /// Returns how often the keys were read.
    #[must_use]
    pub fn key_reads(&self) -> u32 {
        self.lock_state().key_reads
    }

    /// Signs the user in, as their browser would with this URL of the provider, and returns the URL of the service to which
    /// it is sent back.
    ///
    /// # Panics
    /// Panics if the request for a sign-in is wrong.
    #[must_use]
    pub fn authorize_user(&self, url: &str) -> String {
        let query =
            url.strip_prefix(&format!("{}/authorize?", self.issuer_url())).expect("a URL of this provider");
        let query = parse_form_pairs(query);
        let text = |name: &str| query.get(name).map_or("", String::as_str).to_owned();
        assert_eq!((text("response_type"), text("client_id")), ("code".to_owned(), CLIENT_ID.to_owned()));
        assert_eq!(
            (text("scope"), text("code_challenge_method")),
            ("openid email".to_owned(), "S256".to_owned())
        );
        for secret in ["state", "nonce", "code_challenge"] {
            assert_eq!(text(secret).len(), 43, "{secret} has 256 bits");
        }
        let mut state = self.lock_state();
        let back = text("redirect_uri");
        let issuer = match state.fault {
            Some(ProviderFault::MixUp) => "https://evil.example".to_owned(),
            _ => self.issuer_url(),
        };
        let common = format!("state={}&iss={}", text("state"), encode_form_text(&issuer));
        if state.fault == Some(ProviderFault::Cancelled) {
            return format!("{back}?error=access_denied&{common}");
        }
        state.issued += 1;
        let code = format!("code-{}", state.issued);
        state.codes.insert(code.clone(), query);
        format!("{back}?code={code}&{common}")
    }

    fn lock_state(&self) -> MutexGuard<'_, IdentityProviderState> {
        self.state.lock().expect("no thread of the provider failed")
    }

    fn serve_connection(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let (mut length, mut authorization) = (0, String::new());
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            match line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim())) {
                Some((name, value)) if name == "content-length" => {
                    length = value.parse().map_err(io::Error::other)?;
                }
                Some((name, value)) if name == "authorization" => authorization = value.to_owned(),
                _ => {}
            }
            line.clear();
        }
        let mut body = String::new();
        reader.take(length).read_to_string(&mut body)?;
        let target = first.split(' ').nth(1).unwrap_or_default();
        let (status, answer) = match target {
            "/realm/.well-known/openid-configuration" => (200, self.metadata_document()),
            "/realm/keys" => (200, self.key_set()),
            "/realm/token" => self.redeem_code(&authorization, &parse_form_pairs(&body)),
            "/realm/user" => self.user_info(&authorization),
            _ => (404, json!({ "error": "not_found" })),
        };
        if target == "/realm/token" && self.lock_state().fault == Some(ProviderFault::Endless) {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"id_token\":\"")?;
            loop {
                stream.write_all(&[b'a'; 16 << 10])?;
            }
        }
        let answer = answer.to_string();
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
        )
    }

    fn metadata_document(&self) -> Value {
        let issuer = self.issuer_url();
        let named = if self.lock_state().fault == Some(ProviderFault::OtherMetadata) {
            "https://evil.example"
        } else {
            &issuer
        };
        json!({
            "issuer": named,
            "authorization_endpoint": format!("{issuer}/authorize"),
            "token_endpoint": format!("{issuer}/token"),
            "jwks_uri": format!("{issuer}/keys"),
            "userinfo_endpoint": format!("{issuer}/user"),
            "authorization_response_iss_parameter_supported": true,
            "id_token_signing_alg_values_supported": ["RS256", "ES256"],
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
        })
    }

    fn key_set(&self) -> Value {
        let mut state = self.lock_state();
        state.key_reads += 1;
        let point = state.key.public_key().as_ref();
        let name = format!("ec-{}", state.generation);
        let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(load_rsa_key().public());
        json!({ "keys": [
            { "kty": "RSA", "use": "sig", "alg": "RS256", "kid": "rsa", "n": encode_base64_url(n), "e": encode_base64_url(e) },
            { "kty": "EC", "use": "sig", "crv": "P-256", "kid": name, "x": encode_base64_url(&point[1..33]), "y": encode_base64_url(&point[33..]) },
        ] })
    }

    /// Redeems a code once, with the client's secret and the verifier of its challenge.
    fn redeem_code(&self, authorization: &str, form: &BTreeMap<String, String>) -> (u16, Value) {
        let error = |status: u16, error: &str| (status, json!({ "error": error }));
        let client = format!("{}:{}", encode_form_text(CLIENT_ID), encode_form_text(CLIENT_SECRET));
        if authorization != format!("Basic {}", STANDARD.encode(client)) {
            return error(401, "invalid_client");
        }
        if self.lock_state().fault == Some(ProviderFault::ServerError) {
            return error(503, "temporarily_unavailable");
        }
        let text = |name: &str| form.get(name).map_or("", String::as_str);
        let Some(asked) = self.lock_state().codes.remove(text("code")) else {
            return error(400, "invalid_grant");
        };
        let challenge = encode_base64_url(digest(&SHA256, text("code_verifier").as_bytes()));
        let is_right = text("grant_type") == "authorization_code"
            && asked.get("redirect_uri").map(String::as_str) == Some(text("redirect_uri"))
            && asked.get("code_challenge") == Some(&challenge);
        if !is_right {
            return error(400, "invalid_grant");
        }
        let token = self.id_token(asked.get("nonce").map_or("", String::as_str));
        (
            200,
            json!({ "access_token": ACCESS_TOKEN, "token_type": "Bearer", "expires_in": 300, "id_token": token }),
        )
    }

    fn user_info(&self, authorization: &str) -> (u16, Value) {
        if authorization != format!("Bearer {ACCESS_TOKEN}") {
            return (401, json!({ "error": "invalid_token" }));
        }
        let IdentityProviderState { user: ProviderUser { subject, email }, fault, .. } = &*self.lock_state();
        match fault {
            Some(ProviderFault::NoEmail) => (200, json!({ "sub": subject })),
            Some(ProviderFault::OtherUserInfo) => {
                (200, json!({ "sub": "another", "email": email, "email_verified": true }))
            }
            _ => (200, json!({ "sub": subject, "email": email, "email_verified": true })),
        }
    }

    fn id_token(&self, nonce: &str) -> String {
        let state = self.lock_state();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs();
        let fault = state.fault;
        let mut claims = json!({
            "iss": self.issuer_url(), "aud": CLIENT_ID, "sub": state.user.subject, "nonce": nonce, "iat": now,
            "exp": now + 300, "email": state.user.email, "email_verified": true,
        });
        match fault {
            Some(ProviderFault::WrongNonce) => claims["nonce"] = json!("of another sign-in"),
            Some(ProviderFault::NoNonce) => claims["nonce"] = Value::Null,
            Some(ProviderFault::WrongAudience) => claims["aud"] = json!("another client"),
            Some(ProviderFault::WrongIssuer) => claims["iss"] = json!("https://evil.example"),
            Some(ProviderFault::Expired) => claims["exp"] = json!(now - 3600),
            Some(ProviderFault::FromTheFuture) => claims["iat"] = json!(now + 3600),
            Some(ProviderFault::EmailNotVerified) => claims["email_verified"] = json!(false),
            Some(ProviderFault::NoEmail | ProviderFault::EmailInUserInfo | ProviderFault::OtherUserInfo) => {
                claims["email"] = Value::Null;
            }
            _ => {}
        }
        let name = format!("ec-{}", state.generation);
        let (algorithm, name) = match fault {
            Some(ProviderFault::AlgorithmNone) => ("none", name),
            Some(ProviderFault::PublicKeyAsSecret) => ("HS256", name),
            _ if state.signs_with_rsa => ("RS256", "rsa".to_owned()),
            _ => ("ES256", name),
        };
        let header = json!({ "alg": algorithm, "kid": name, "typ": "JWT" });
        let message =
            format!("{}.{}", encode_base64_url(header.to_string()), encode_base64_url(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match (fault, algorithm) {
            (Some(ProviderFault::AlgorithmNone), _) => Vec::new(),
            (Some(ProviderFault::PublicKeyAsSecret), _) => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, state.key.public_key().as_ref());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            (Some(ProviderFault::OtherKey), _) => {
                new_key().sign(&random, message.as_bytes()).expect("a signature").as_ref().to_vec()
            }
            (_, "RS256") => {
                let key = load_rsa_key();
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
                    .expect("a signature");
                signature
            }
            _ => state.key.sign(&random, message.as_bytes()).expect("a signature").as_ref().to_vec(),
        };
        format!("{message}.{}", encode_base64_url(signature))
    }
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).expect("a key")
}

fn load_rsa_key() -> RsaKeyPair {
    RsaKeyPair::from_pkcs8(RSA).expect("a key")
}

fn encode_base64_url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Encodes a text as in a form.
fn encode_form_text(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Reads the pairs of a form or a query.
fn parse_form_pairs(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode_form_text(name), decode_form_text(value))).collect()
}

fn decode_form_text(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
                u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
