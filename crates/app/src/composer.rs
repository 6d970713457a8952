//! The form in which questions are written.

use control::Environment;
use control::questions::{AskRequest, Idempotency};
use domain::id::ConversationId;
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The form of a question. It is shown again with a text that was refused.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    /// The text so far.
    pub(crate) input: String,
    /// Identifies the form, so that a question that is sent twice is asked once.
    pub(crate) once: String,
    /// The reason why the question was refused.
    pub(crate) error: Option<String>,
}

impl Composer {
    /// Creates an empty form.
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { once: domain::hex::encode(&environment.bytes::<16>()), ..Self::default() }
    }
}

/// A question as a form sends it.
#[derive(Deserialize, Default)]
pub(crate) struct QuestionForm {
    #[serde(default)]
    pub(crate) input: String,
    #[serde(default)]
    once: String,
    /// The model, for a new conversation only, like the next.
    #[serde(default)]
    pub(crate) model: String,
    /// Present if web search is permitted.
    pub(crate) web: Option<String>,
}

impl QuestionForm {
    /// Returns the question. Both the form and its text identify it, because a text may be corrected and sent again.
    pub(crate) fn request(&self, conversation: Option<ConversationId>) -> AskRequest {
        let known = domain::hex::decode_array::<16>(&self.once).is_some();
        let body_hash: [u8; 32] = Sha256::digest(self.input.as_bytes()).into();
        let key = format!("page-{}-{}", self.once, domain::hex::encode(&body_hash[..16]));
        AskRequest {
            // Forms have other line ends than texts.
            input: self.input.replace("\r\n", "\n"),
            conversation,
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            web_search: self.web.is_some(),
            idempotency: known.then_some(Idempotency { key, body_hash }),
            ..AskRequest::default()
        }
    }
}
