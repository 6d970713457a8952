use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::*;
use crate::oidc::keys;

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const NOW_SECONDS: i64 = 1_800_000_000;

/// An RSA key created for these tests only.
const RSA: &[u8] = include_bytes!("test_rsa_2048.pk8");

enum Signer {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

fn encode_base64url(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    fn new_p256() -> Self {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let document = document.expect("a key");
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Self::P256(pair.expect("a key"))
    }

    fn new_ed25519() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key"))
    }

    fn new_rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_pkcs8(RSA).expect("a key"))
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::P256(_) => "ES256",
            Self::Ed25519(_) => "EdDSA",
            Self::Rsa(_) => "RS256",
        }
    }

    fn public_jwk(&self, id: &str) -> Value {
        match self {
            Self::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": encode_base64url(&point[1..33]), "y": encode_base64url(&point[33..]) })
            }
            Self::Ed25519(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode_base64url(pair.public_key().as_ref()) })
            }
            Self::Rsa(pair) => {
                let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                // With a leading zero, as some providers write it.
                json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": id, "n": encode_base64url([vec![0], n].concat()), "e": encode_base64url(e) })
            }
        }
    }

    fn sign_message(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::P256(pair) => pair.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Self::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                signature
            }
        }
    }

    fn sign_token(&self, header: &Value, claims: &Value) -> String {
        let message =
            format!("{}.{}", encode_base64url(header.to_string()), encode_base64url(claims.to_string()));
        format!("{message}.{}", encode_base64url(self.sign_message(message.as_bytes())))
    }
}

fn base_claims() -> Value {
    json!({
        "iss": "https://id.example", "aud": "causerie", "sub": "248289761001", "nonce": "n-0S6_WzA2Mj",
        "exp": NOW_SECONDS + 300, "iat": NOW_SECONDS - 2, "email": "ada@example.org", "email_verified": true,
    })
}

fn claims_with(changes: Value) -> Value {
    let mut claims = base_claims();
    for (name, value) in changes.as_object().expect("claims") {
        claims[name] = value.clone();
    }
    claims
}

fn check_token(token: &str, keys: &[ProviderKey]) -> Result<IdTokenClaims, TokenError> {
    let expected =
        Expected { issuer: "https://id.example", client_id: "causerie", nonce: "n-0S6_WzA2Mj", now: NOW };
    verify_token(token, keys, &expected)
}

fn email_of_claims(claims: &Value) -> Result<String, TokenError> {
    let signer = Signer::new_p256();
    let keys = keys::read_key_set(&json!({ "keys": [signer.public_jwk("k")] }));
    check_token(&signer.sign_token(&json!({ "alg": "ES256", "kid": "k" }), claims), &keys)?.email
}

#[test]
fn verify_token_accepts_each_key_kind() {
    for signer in [Signer::new_p256(), Signer::new_ed25519(), Signer::new_rsa()] {
        let other = Signer::new_p256().public_jwk("other");
        let keys = keys::read_key_set(
            &json!({ "keys": [other, signer.public_jwk("k"), { "kty": "oct", "k": "AAAA" }] }),
        );
        assert_eq!(keys.len(), 2, "symmetric keys are none of a provider's");
        for header in [json!({ "alg": signer.algorithm(), "kid": "k" }), json!({ "alg": signer.algorithm() })]
        {
            let claims =
                check_token(&signer.sign_token(&header, &base_claims()), &keys).expect("it is right");
            assert_eq!(claims.subject, "248289761001");
            assert_eq!(claims.email.as_deref(), Ok("ada@example.org"));
        }
    }
}

#[test]
fn verify_token_rejects_foreign_signature() {
    let (signer, thief) = (Signer::new_p256(), Signer::new_p256());
    let keys = keys::read_key_set(&json!({ "keys": [signer.public_jwk("k")] }));
    let header = json!({ "alg": "ES256", "kid": "k" });
    let stolen = thief.sign_token(&header, &base_claims());
    assert_eq!(check_token(&stolen, &keys), Err(TokenError::Signature));
    let right = signer.sign_token(&header, &base_claims());
    let (message, signature) = right.rsplit_once('.').expect("a token");
    let (head, _) = message.split_once('.').expect("a token");
    let forged =
        format!("{head}.{}.{signature}", encode_base64url(claims_with(json!({ "sub": "1" })).to_string()));
    assert_eq!(check_token(&forged, &keys), Err(TokenError::Signature));
    for (algorithm, error) in [
        ("none", TokenError::Algorithm),
        ("None", TokenError::Algorithm),
        ("HS256", TokenError::Algorithm),
        // Of another kind of key.
        ("RS256", TokenError::UnknownKey),
        ("ES384", TokenError::UnknownKey),
        ("EdDSA", TokenError::UnknownKey),
    ] {
        let token = signer.sign_token(&json!({ "alg": algorithm, "kid": "k" }), &base_claims());
        assert_eq!(check_token(&token, &keys), Err(error), "{algorithm}");
        let unsigned = format!("{}.", token.rsplit_once('.').expect("a token").0);
        assert!(check_token(&unsigned, &keys).is_err(), "{algorithm}");
    }
    let unknown = signer.sign_token(&json!({ "alg": "ES256", "kid": "other" }), &base_claims());
    assert_eq!(check_token(&unknown, &keys), Err(TokenError::UnknownKey));
    let critical = signer.sign_token(&json!({ "alg": "ES256", "kid": "k", "crit": ["x"] }), &base_claims());
    assert_eq!(check_token(&critical, &keys), Err(TokenError::Malformed));
    let encryption = json!({ "keys": [{ "use": "enc", "kty": "EC", "crv": "P-256", "x": "", "y": "" }] });
    assert!(keys::read_key_set(&encryption).is_empty());
}

#[test]
fn verify_token_rejects_other_key_algorithm() {
    let signer = Signer::new_rsa();
    let keys = keys::read_key_set(&json!({ "keys": [signer.public_jwk("k")] }));
    for algorithm in ["RS384", "RS512", "PS256"] {
        let token = signer.sign_token(&json!({ "alg": algorithm, "kid": "k" }), &base_claims());
        assert_eq!(check_token(&token, &keys), Err(TokenError::UnknownKey), "{algorithm}");
    }
}

#[test]
fn every_claim_is_checked() {
    let past = NOW_SECONDS - 61;
    for (changes, error) in [
        (json!({ "iss": "https://evil.example" }), TokenError::Issuer),
        (json!({ "iss": "https://id.example/" }), TokenError::Issuer),
        (json!({ "iss": null }), TokenError::Issuer),
        (json!({ "aud": "other" }), TokenError::Audience),
        (json!({ "aud": null }), TokenError::Audience),
        (json!({ "aud": [] }), TokenError::Audience),
        (json!({ "aud": ["causerie", "other"] }), TokenError::Audience),
        (json!({ "aud": ["causerie", "other"], "azp": "other" }), TokenError::Audience),
        (json!({ "azp": "other" }), TokenError::Audience),
        (json!({ "exp": past }), TokenError::Time),
        (json!({ "exp": null }), TokenError::Time),
        (json!({ "exp": "soon" }), TokenError::Malformed),
        (json!({ "iat": null }), TokenError::Time),
        (json!({ "iat": NOW_SECONDS + 61 }), TokenError::Time),
        (json!({ "iat": NOW_SECONDS - 16 * 60 }), TokenError::Time),
        (json!({ "nbf": NOW_SECONDS + 61 }), TokenError::Time),
        (json!({ "nonce": "other" }), TokenError::Nonce),
        (json!({ "nonce": null }), TokenError::Nonce),
        (json!({ "sub": null }), TokenError::Subject),
        (json!({ "sub": "" }), TokenError::Subject),
        (json!({ "sub": "x".repeat(256) }), TokenError::Subject),
        (json!({ "email": null }), TokenError::NoEmail),
        (json!({ "email": "a\nb@example.org" }), TokenError::NoEmail),
        (json!({ "email_verified": false }), TokenError::EmailNotVerified),
        (json!({ "email_verified": null }), TokenError::EmailNotVerified),
        (json!({ "email_verified": "false" }), TokenError::EmailNotVerified),
        (json!({ "email_verified": null, "xms_edov": 0 }), TokenError::EmailNotVerified),
    ] {
        assert_eq!(email_of_claims(&claims_with(changes.clone())), Err(error), "{changes}");
    }
    for changes in [
        json!({}),
        json!({ "aud": ["causerie"] }),
        json!({ "aud": ["causerie", "other"], "azp": "causerie" }),
        json!({ "exp": NOW_SECONDS - 59, "iat": NOW_SECONDS - 300 }),
        json!({ "iat": NOW_SECONDS + 59 }),
        json!({ "iat": 1_799_999_999.5 }),
        json!({ "email_verified": "true" }),
        json!({ "email_verified": null, "xms_edov": "1" }),
    ] {
        assert!(email_of_claims(&claims_with(changes.clone())).is_ok(), "{changes}");
    }
}

#[test]
fn user_info_email_requires_token_subject() {
    let email = |user_info: Value| user_info_email(&user_info, "248289761001");
    let verified =
        |subject: Value| json!({ "sub": subject, "email": "ada@example.org", "email_verified": true });
    assert_eq!(email(verified(json!("248289761001"))), Ok("ada@example.org".to_owned()));
    for other in [json!("248289761002"), json!(248_289_761_001_u64), Value::Null] {
        assert_eq!(email(verified(other)), Err(TokenError::OtherSubject));
    }
    assert_eq!(email(Value::Null), Err(TokenError::OtherSubject));
    assert_eq!(email(json!({ "sub": "248289761001" })), Err(TokenError::NoEmail));
    let unverified = json!({ "sub": "248289761001", "email": "ada@example.org" });
    assert_eq!(email(unverified), Err(TokenError::EmailNotVerified));
}

#[test]
fn nonsense_is_no_token() {
    let keys = keys::read_key_set(&json!({ "keys": [Signer::new_p256().public_jwk("k")] }));
    for text in ["", ".", "..", "...", "a.b.c", "e30.e30.", "W10.e30.e30", &"a".repeat(40_000), "ř.ř.ř"] {
        assert!(check_token(text, &keys).is_err(), "{text}");
    }
    assert!(keys::read_key_set(&Value::Null).is_empty());
    assert!(keys::read_key_set(&json!({ "keys": [{}, 1, { "kty": "RSA" }, { "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA" }] })).is_empty());
}
