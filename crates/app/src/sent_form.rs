//! Identifies a form as it was sent: by the token of the page and everything that the form says. A form that is sent twice does
//! its work once; one that was changed and sent again, such as after going back, does it anew.

use sha2::{Digest, Sha256};

/// The digest of a form. Each field counts with its name and its length, so that no two forms look alike.
pub(crate) struct SentForm {
    digest: Sha256,
}

impl SentForm {
    /// Begins with the token of the page; `None` if it has none.
    pub(crate) fn of(once: &str) -> Option<Self> {
        let token = domain::hex::decode_array::<16>(once)?;
        Some(Self { digest: Sha256::new_with_prefix(token) })
    }

    /// Adds a field.
    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        for text in [name, value] {
            self.digest.update((text.len() as u64).to_be_bytes());
            self.digest.update(text.as_bytes());
        }
        self
    }

    /// Adds a field with each of these values, in their order.
    pub(crate) fn fields<'a>(self, name: &str, values: impl IntoIterator<Item = &'a String>) -> Self {
        values.into_iter().fold(self, |form, value| form.field(name, value))
    }

    /// Returns the digest.
    pub(crate) fn digest(self) -> [u8; 32] {
        self.digest.finalize().into()
    }

    /// Returns the token of a form that makes something.
    pub(crate) fn token(self) -> control::form_token::FormToken {
        let digest = self.digest();
        let (token, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        *token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn changed_forms_have_other_digests_and_equal_ones_the_same() {
        let form = || SentForm::of(ONCE).expect("a token");
        let same = || form().field("amount", "100").digest();
        assert_eq!(same(), same());
        let others = [
            form().digest(),
            form().field("amount", "1000").digest(),
            form().field("amoun", "t100").digest(),
            form().field("amount", "10").field("", "0").digest(),
            SentForm::of("ff0102030405060708090a0b0c0d0e0f")
                .expect("a token")
                .field("amount", "100")
                .digest(),
        ];
        for other in others {
            assert_ne!(same(), other);
        }
        assert!(SentForm::of("").is_none() && SentForm::of("xx").is_none());
    }
}
