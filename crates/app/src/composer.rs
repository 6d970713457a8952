//! The form in which questions are written.

use axum::extract::{FromRequest, RawForm, Request};
use axum::response::{IntoResponse, Response};
use control::Environment;
use control::questions::{AskRequest, Idempotency};
use domain::id::ConversationId;
use domain::limits::ATTACHMENTS_MAX;
use sha2::{Digest, Sha256};

/// The form of a question. It is shown again with a text that was refused.
#[derive(Debug, Default)]
pub(crate) struct Composer {
    /// The text so far.
    pub(crate) input: String,
    /// Identifies the form, so that a question that is sent twice is asked once.
    pub(crate) once: String,
    /// The files to attach.
    pub(crate) files: Vec<AttachedFile>,
    /// The reason why the question was refused.
    pub(crate) error: Option<String>,
}

/// A file that the next question attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AttachedFile {
    pub(crate) name: String,
    /// The workspace path.
    pub(crate) path: String,
}

impl AttachedFile {
    fn of(path: &str) -> Self {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        Self { name: if name.is_empty() { "/".to_owned() } else { name.to_owned() }, path: path.to_owned() }
    }
}

impl Composer {
    /// Creates an empty form.
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { once: domain::hex::encode(&environment.bytes::<16>()), ..Self::default() }
    }
}

/// A question as a form sends it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct QuestionForm {
    pub(crate) input: String,
    once: String,
    /// The model, for a new conversation only, like the next.
    pub(crate) model: String,
    /// True if web search is permitted.
    pub(crate) web: bool,
    /// Workspace paths to attach.
    files: Vec<String>,
}

impl<S: Send + Sync> FromRequest<S> for QuestionForm {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let RawForm(fields) =
            RawForm::from_request(request, state).await.map_err(IntoResponse::into_response)?;
        Ok(Self::parse(&fields))
    }
}

impl QuestionForm {
    /// Reads the fields of a form, or of the query of a page that begins a question. Other fields are passed over.
    pub(crate) fn parse(fields: &[u8]) -> Self {
        let mut form = Self::default();
        for (name, value) in form_urlencoded::parse(fields) {
            match &*name {
                "input" => form.input = value.into_owned(),
                "once" => form.once = value.into_owned(),
                "model" => form.model = value.into_owned(),
                "web" => form.web = true,
                // One more than permitted, so that the question is refused rather than asked without a file.
                "file" if form.files.len() <= ATTACHMENTS_MAX => form.files.push(value.into_owned()),
                _ => {}
            }
        }
        form
    }

    /// Returns the files that the form attaches.
    pub(crate) fn attached(&self) -> Vec<AttachedFile> {
        self.files.iter().map(|path| AttachedFile::of(path)).collect()
    }

    /// Returns the question. Both the form and what it asks identify it, because it may be corrected and sent again.
    pub(crate) fn request(&self, conversation: Option<ConversationId>) -> AskRequest {
        let known = domain::hex::decode_array::<16>(&self.once).is_some();
        let mut asked = Sha256::new_with_prefix(self.input.as_bytes());
        for path in &self.files {
            asked.update([0]);
            asked.update(path.as_bytes());
        }
        let body_hash: [u8; 32] = asked.finalize().into();
        let key = format!("page-{}-{}", self.once, domain::hex::encode(&body_hash[..16]));
        AskRequest {
            // Forms have other line ends than texts.
            input: self.input.replace("\r\n", "\n"),
            conversation,
            attachments: self.files.clone(),
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            web_search: self.web,
            idempotency: known.then_some(Idempotency { key, body_hash }),
            ..AskRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_occurs_several_times_attaches_several_files() {
        let form = QuestionForm::parse(b"input=a+b&file=%2Fuploads%2Fx.pdf&file=/&other=1&web=on");
        assert_eq!((form.input.as_str(), form.web), ("a b", true));
        let names: Vec<_> = form.attached().into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["x.pdf", "/"]);
        assert_eq!(form.request(None).attachments, ["/uploads/x.pdf", "/"]);
        let many = QuestionForm::parse("file=x&".repeat(ATTACHMENTS_MAX + 9).as_bytes());
        assert_eq!(many.files.len(), ATTACHMENTS_MAX + 1);
    }
}
