//! Browsers in which the owner of an account has signed in before. They keep a proof of it, so that attackers who guess
//! passwords, from any number of addresses, do not lock the owner out.
//!
//! The proof is a digest that only the service can make, because the stored hash of the password is part of it. So it
//! ends with the password, and is not stored. It grants no access: the password is still compared.

use domain::hex;
use domain::id::UserId;
use sha2::{Digest, Sha256};

use crate::passwords::PasswordHash;

/// The number of bytes that tell browsers apart.
const NONCE_BYTES: usize = 16;
/// The bytes of the proof.
const PROOF_BYTES: usize = 32;

/// The proof that an owner has signed in with a browser before.
#[derive(Clone, PartialEq, Eq)]
pub struct KnownBrowser {
    nonce: [u8; NONCE_BYTES],
    proof: [u8; PROOF_BYTES],
}

impl KnownBrowser {
    /// Makes the proof of a user with this password.
    pub(crate) fn from_password(nonce: [u8; NONCE_BYTES], user: UserId, password: &PasswordHash) -> Self {
        let mut inner = Sha256::new_with_prefix(b"known browser");
        inner.update(nonce);
        inner.update(user.bits().to_be_bytes());
        inner.update(password.as_str().as_bytes());
        // A digest of the digest cannot be continued.
        Self { nonce, proof: Sha256::digest(inner.finalize()).into() }
    }

    /// Parses a proof that a browser kept; `None` if the text is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (nonce, proof) = text.split_at_checked(2 * NONCE_BYTES)?;
        Some(Self { nonce: hex::decode_array(nonce)?, proof: hex::decode_array(proof)? })
    }

    /// Returns the text for the user's browser.
    #[must_use]
    pub fn reveal(&self) -> String {
        hex::encode_hex(&self.nonce) + &hex::encode_hex(&self.proof)
    }

    /// Returns the bytes that identify this browser.
    #[must_use]
    pub const fn nonce(&self) -> [u8; 16] {
        self.nonce
    }

    /// Returns true if this is the proof of a user with this password.
    pub(crate) fn is_of(&self, user: UserId, password: &PasswordHash) -> bool {
        // Digests of both are compared, so that the time reveals nothing about the proof.
        let right = Self::from_password(self.nonce, user, password);
        Sha256::digest(self.proof) == Sha256::digest(right.proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_bound_to_password_and_user() {
        let user = UserId::from_random(1);
        let hash = |text: &str| PasswordHash::from_stored(text.to_owned());
        let known = KnownBrowser::from_password([7; 16], user, &hash("a"));
        let kept = KnownBrowser::parse(&known.reveal()).expect("a proof");
        assert!(kept.is_of(user, &hash("a")));
        assert!(!kept.is_of(user, &hash("b")));
        assert!(!kept.is_of(UserId::from_random(2), &hash("a")));
        let other = KnownBrowser::from_password([8; 16], user, &hash("a"));
        assert_ne!(other.proof, known.proof);
        for wrong in ["", "x", &"0".repeat(95), &"g".repeat(96), &"č".repeat(48)] {
            assert!(KnownBrowser::parse(wrong).is_none(), "{wrong}");
        }
    }
}
