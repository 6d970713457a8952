//! Identifies a submitted form by the token of the page and all its fields. A form that is sent twice takes
//! effect once; a form that was changed and sent again, such as after going back, takes effect again.

use sha2::{Digest, Sha256};

/// The digest of a form. Each field is hashed with its name and its length, so that different forms never collide.
pub(crate) struct SentForm {
    digest: Sha256,
}

impl SentForm {
    /// Begins with the token of the page; `None` without a token.
    pub(crate) fn from_token(once: &str) -> Option<Self> {
        let token = domain::hex::decode_array::<16>(once)?;
        Some(Self { digest: Sha256::new_with_prefix(token) })
    }

    pub(crate) fn with_field(mut self, name: &str, value: &str) -> Self {
        for text in [name, value] {
            self.digest.update((text.len() as u64).to_be_bytes());
            self.digest.update(text.as_bytes());
        }
        self
    }

    /// Adds a field with each of these values, in their order.
    pub(crate) fn with_fields<'a>(self, name: &str, values: impl IntoIterator<Item = &'a String>) -> Self {
        values.into_iter().fold(self, |form, value| form.with_field(name, value))
    }

    pub(crate) fn into_digest(self) -> [u8; 32] {
        self.digest.finalize().into()
    }

    /// Returns the token of a form that creates something.
    pub(crate) fn into_token(self) -> control::form_token::FormToken {
        let digest = self.into_digest();
        let (token, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        *token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONCE: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn into_digest_identifies_form_content() {
        let form = || SentForm::from_token(ONCE).expect("a token");
        let same = || form().with_field("amount", "100").into_digest();
        assert_eq!(same(), same());
        let others = [
            form().into_digest(),
            form().with_field("amount", "1000").into_digest(),
            form().with_field("amoun", "t100").into_digest(),
            form().with_field("amount", "10").with_field("", "0").into_digest(),
            SentForm::from_token("ff0102030405060708090a0b0c0d0e0f")
                .expect("a token")
                .with_field("amount", "100")
                .into_digest(),
        ];
        for other in others {
            assert_ne!(same(), other);
        }
        assert!(SentForm::from_token("").is_none() && SentForm::from_token("xx").is_none());
    }
}
