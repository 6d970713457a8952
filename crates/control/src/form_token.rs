//! Identifiers of objects that a form creates, so that a form that is sent twice creates one object.

use domain::id::AccountId;
use sha2::{Digest, Sha256};

/// Identifies a form that is shown: 16 random bytes, sent with it.
pub type FormToken = [u8; 16];

/// Returns the bits of the identifier of an object that a form creates in an account. `kind` separates different forms.
pub(crate) fn form_id_bits(kind: &[u8], account: AccountId, token: FormToken) -> u128 {
    let mut digest = Sha256::new_with_prefix(kind);
    digest.update(account.bits().to_be_bytes());
    digest.update(token);
    let digest: [u8; 32] = digest.finalize().into();
    let (bits, _) = digest.split_first_chunk::<16>().expect("a digest has 32 bytes");
    u128::from_be_bytes(*bits)
}
