//! The keys with which a provider signs tokens: a JSON Web Key Set (RFC 7517). Only keys of known signature
//! algorithms are kept.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

/// The maximum number of keys of a set that are read.
const KEYS_MAX: usize = 100;
/// The longest identifier of a key, in bytes.
const KEY_ID_MAX_BYTES: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProviderKey {
    id: Option<String>,
    /// The only algorithm that the key is for, if the set names one.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Reads the keys of a set. Keys of other kinds and for other purposes are skipped.
pub(super) fn read_key_set(set: &Value) -> Vec<ProviderKey> {
    let keys = set["keys"].as_array().map_or(&[][..], Vec::as_slice);
    keys.iter().take(KEYS_MAX).filter_map(ProviderKey::from_jwk).collect()
}

impl ProviderKey {
    fn from_jwk(key: &Value) -> Option<Self> {
        if key["use"].as_str().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str()?).ok();
        let point = |size: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            // An uncompressed point.
            (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (key["kty"].as_str()?, key["crv"].as_str()) {
            ("RSA", _) => Material::Rsa {
                modulus: strip_leading_zeros(bytes("n")?),
                exponent: strip_leading_zeros(bytes("e")?),
            },
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        let text = |name: &str| key[name].as_str().map(ToOwned::to_owned);
        let id = text("kid").filter(|id| id.len() <= KEY_ID_MAX_BYTES);
        Some(Self { id, algorithm: text("alg"), material })
    }

    /// Returns true if a token with this header may be signed with the key.
    pub(super) fn is_usable_for(&self, algorithm: &str, id: Option<&str>) -> bool {
        let is_named = id.is_none_or(|id| self.id.as_deref() == Some(id));
        is_named
            && self.algorithm.as_deref().is_none_or(|only| only == algorithm)
            && self.material.is_for(algorithm)
    }

    /// Returns true if this is the key's signature of the message by the algorithm, which must fit.
    pub(super) fn is_valid_signature(&self, algorithm: &str, message: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => match rsa_parameters(algorithm) {
                Some(parameters) => {
                    RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, message, signature)
                }
                None => return false,
            },
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Material::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        self.material.is_for(algorithm) && verified.is_ok()
    }
}

impl Material {
    /// Returns true if keys of this kind sign by the algorithm. The kind decides, so that a token cannot make a
    /// public key be used as a secret.
    fn is_for(&self, algorithm: &str) -> bool {
        match self {
            Self::Rsa { .. } => rsa_parameters(algorithm).is_some(),
            Self::P256(_) => algorithm == "ES256",
            Self::P384(_) => algorithm == "ES384",
            Self::Ed25519(_) => algorithm == "EdDSA",
        }
    }
}

/// Returns the parameters of an RSA algorithm. Keys have 2,048 to 8,192 bits.
fn rsa_parameters(algorithm: &str) -> Option<&'static RsaParameters> {
    match algorithm {
        "RS256" => Some(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Some(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Some(&RSA_PKCS1_2048_8192_SHA512),
        "PS256" => Some(&RSA_PSS_2048_8192_SHA256),
        _ => None,
    }
}

/// Removes leading zeros, which the library rejects and some providers send.
fn strip_leading_zeros(number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}
