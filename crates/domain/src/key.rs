//! API keys: `api-` and 192 random bits in letters and digits, with a checksum.
//!
//! The checksum detects a mistyped key without a database query. Only the SHA-256 of a key is stored.

use std::fmt;

use sha2::{Digest, Sha256};

const PREFIX: &str = "api-";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// 192 bits in base 62.
const SECRET_DIGITS: usize = 33;
/// 32 bits in base 62.
const CHECK_DIGITS: usize = 6;

/// A key in clear text, which exists only while it is created or resolved.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(String);

/// The text is not a key: its prefix, form or checksum is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid API key: its prefix, length or checksum is wrong")]
pub struct InvalidKey;

impl SecretKey {
    /// Creates a key from random bits.
    #[must_use]
    pub fn from_random(bits: [u8; 24]) -> Self {
        let mut text = String::with_capacity(PREFIX.len() + SECRET_DIGITS + CHECK_DIGITS);
        text.push_str(PREFIX);
        text.push_str(&encode_base62(&bits, SECRET_DIGITS));
        let check = check_sum(&text);
        text.push_str(&check);
        Self(text)
    }

    /// Parses a key.
    ///
    /// # Errors
    /// [`InvalidKey`] if the form or the checksum is wrong.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let whole = PREFIX.len() + SECRET_DIGITS + CHECK_DIGITS;
        if text.len() != whole || !text.starts_with(PREFIX) {
            return Err(InvalidKey);
        }
        if !text[PREFIX.len()..].bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(InvalidKey);
        }
        let (secret, check) = text.split_at(whole - CHECK_DIGITS);
        if check_sum(secret) == check { Ok(Self(text.to_owned())) } else { Err(InvalidKey) }
    }

    /// Returns the fingerprint, which is stored.
    #[must_use]
    pub fn fingerprint(&self) -> KeyFingerprint {
        KeyFingerprint(Sha256::digest(self.0.as_bytes()).into())
    }

    /// Returns the key itself, which is shown once.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(api-…)")
    }
}

/// The SHA-256 of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyFingerprint(pub [u8; 32]);

fn check_sum(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    encode_base62(&digest[..4], CHECK_DIGITS)
}

/// Encodes the bytes as a number in base 62, padded to `digits`.
fn encode_base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut out = vec![ALPHABET[0]; digits];
    for slot in out.iter_mut().rev() {
        let mut remainder = 0_u32;
        for byte in &mut number {
            let current = remainder * 256 + u32::from(*byte);
            *byte = u8::try_from(current / 62).expect("a quotient of a smaller remainder fits a byte");
            remainder = current % 62;
        }
        *slot = ALPHABET[remainder as usize];
    }
    String::from_utf8(out).expect("the alphabet is ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_secret_key_is_rejected() {
        let key = SecretKey::from_random([7; 24]);
        assert_eq!(SecretKey::parse(key.reveal()), Ok(key.clone()));
        for at in PREFIX.len()..key.reveal().len() {
            let mut typed = key.reveal().as_bytes().to_vec();
            typed[at] = if typed[at] == b'x' { b'y' } else { b'x' };
            let typed = String::from_utf8(typed).expect("still ASCII");
            assert_eq!(SecretKey::parse(&typed), Err(InvalidKey), "{typed}");
        }
        for wrong in ["", "api-", "API-x", "api-é", key.reveal().trim_end_matches(char::is_alphanumeric)] {
            assert_eq!(SecretKey::parse(wrong), Err(InvalidKey), "{wrong}");
        }
    }

    #[test]
    fn all_random_bits_count() {
        let low = SecretKey::from_random([0; 24]);
        let mut bits = [0; 24];
        bits[0] = 0x80;
        assert_ne!(SecretKey::from_random(bits), low);
        assert_ne!(SecretKey::from_random([0xff; 24]), low);
    }

    #[test]
    fn a_key_does_not_show_itself() {
        assert!(
            !format!("{:?}", SecretKey::from_random([9; 24]))
                .contains(&encode_base62(&[9; 24], SECRET_DIGITS))
        );
    }
}
