//! The properties of API keys that operators and owners choose.

use domain::credits::Credits;
use domain::id::KeyId;
use domain::key::SecretKey;
use domain::scope::Scope;
use domain::time::Timestamp;

/// The maximum length of a key's name, in bytes.
pub const KEY_NAME_MAX_BYTES: usize = 256;
/// The maximum number of credits of one grant and of a spending limit. Millions of such grants still fit into a
/// balance.
pub(crate) const GRANT_MAX: u64 = 1_000_000_000_000;

/// A new key, which is shown only once.
#[derive(Debug)]
pub struct CreatedKey {
    /// The identifier of the key.
    pub id: KeyId,
    pub key: SecretKey,
}

/// Restrictions of a key compared to its account.
#[derive(Debug, Clone, Copy)]
pub struct KeyRestrictions {
    /// The expiry of the key, if it is earlier than the licence's.
    pub expires_at: Option<Timestamp>,
    /// The permissions of the key.
    pub scope: Scope,
    /// The maximum number of credits that the key's questions may cost together.
    pub spending_limit: Option<Credits>,
}

impl Default for KeyRestrictions {
    fn default() -> Self {
        Self { expires_at: None, scope: Scope::ALL, spending_limit: None }
    }
}

/// Returns the name of a key without surrounding white space; `None` if it is empty, too long, or has control characters.
pub(crate) fn key_name(text: &str) -> Option<&str> {
    let name = text.trim();
    let valid = !name.is_empty() && name.len() <= KEY_NAME_MAX_BYTES && !name.chars().any(char::is_control);
    valid.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_name_is_one_line() {
        assert_eq!(key_name("  laptop \n"), Some("laptop"));
        let long = "x".repeat(KEY_NAME_MAX_BYTES + 1);
        for wrong in ["", " \t", "a\nb", "a\0", &long] {
            assert_eq!(key_name(wrong), None, "{wrong:?}");
        }
    }
}
