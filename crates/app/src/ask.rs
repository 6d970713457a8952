//! Asking: a new conversation, and further questions.

use askama::Template;
use axum::Form;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use control::questions::{AskOutcome, AskRequest, Idempotency};
use control::{Catalogs, Conversations, Environment, Questions, UseCaseError};
use domain::id::ConversationId;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::conversation::{self, Pages};
use crate::frame::Frame;
use crate::language::Language;
use crate::visit::User;
use crate::{error, paths};

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

/// A model to choose.
struct ModelOption {
    id: String,
    label: String,
    is_chosen: bool,
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    composer: Composer,
    models: Vec<ModelOption>,
    offers_web: bool,
    web: bool,
}

/// A question as a form sends it.
#[derive(Deserialize, Default)]
pub(crate) struct QuestionForm {
    #[serde(default)]
    input: String,
    #[serde(default)]
    once: String,
    /// The model, for a new conversation only, like the next.
    #[serde(default)]
    model: String,
    /// Present if web search is permitted.
    web: Option<String>,
}

impl QuestionForm {
    /// Returns the question. Both the form and its text identify it, because a text may be corrected and sent again.
    fn request(&self, conversation: Option<ConversationId>) -> AskRequest {
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

/// Shows the form of a new conversation.
pub(crate) async fn show(State(state): State<Asking>, user: User) -> Result<Response, Response> {
    state.home(&user, Composer::new(&state.environment), &QuestionForm::default()).await
}

/// Asks the first question of a new conversation.
pub(crate) async fn ask(
    State(state): State<Asking>,
    user: User,
    Form(form): Form<QuestionForm>,
) -> Result<Response, Response> {
    match state.questions.ask(&user.signed_in.principal, form.request(None)).await {
        Ok(outcome) => Ok(Redirect::to(&paths::conversation(conversation_of(&outcome))).into_response()),
        Err(refused) => {
            let composer = state.again(&user, &form, &refused);
            let page = state.home(&user, composer, &form).await?;
            Ok((error::status(refused.kind()), page).into_response())
        }
    }
}

/// Asks a further question.
pub(crate) async fn follow_up(
    State(state): State<Asking>,
    State(pages): State<Pages>,
    user: User,
    Path(conversation): Path<String>,
    Form(form): Form<QuestionForm>,
) -> Result<Response, Response> {
    let conversation = conversation::id(&conversation).map_err(|error| user.failed(error))?;
    match state.questions.ask(&user.signed_in.principal, form.request(Some(conversation))).await {
        Ok(_) => Ok(Redirect::to(&paths::conversation(conversation)).into_response()),
        Err(refused) => {
            let status = error::status(refused.kind());
            if status == StatusCode::NOT_FOUND {
                return Err(user.failed(refused));
            }
            let composer = state.again(&user, &form, &refused);
            let page = pages.render(&user, conversation, None, composer).await?;
            Ok((status, page).into_response())
        }
    }
}

/// What asking needs.
#[derive(Clone)]
pub(crate) struct Asking {
    pub(crate) questions: Questions,
    pub(crate) catalogs: Catalogs,
    pub(crate) conversations: Conversations,
    pub(crate) environment: Environment,
}

impl Asking {
    /// Returns the form of a refused question.
    fn again(&self, user: &User, form: &QuestionForm, refused: &UseCaseError) -> Composer {
        let blank = form.input.trim().is_empty();
        let texts = user.visitor.texts;
        let error = if blank { texts.get("ask-blank") } else { error::text(texts, refused) };
        Composer { input: form.input.clone(), error: Some(error), ..Composer::new(&self.environment) }
    }

    async fn home(&self, user: &User, composer: Composer, form: &QuestionForm) -> Result<Response, Response> {
        let frame = Frame::load(&self.conversations, user, None).await?;
        let models = self.catalogs.models(&user.signed_in.principal).map_err(|error| user.failed(error))?;
        let usable = models.iter().filter(|model| !model.deprecated).map(|model| ModelOption {
            id: model.id.clone(),
            label: match user.visitor.texts.0 {
                Language::English => model.label.en.clone(),
                Language::Czech => model.label.cs.clone(),
                Language::Slovak => model.label.sk.clone(),
            },
            is_chosen: if form.model.is_empty() { model.default } else { model.id == form.model },
        });
        Ok(error::rendered(&HomePage {
            frame,
            composer,
            models: usable.collect(),
            offers_web: self.questions.offers_web(),
            web: form.web.is_some(),
        }))
    }
}

fn conversation_of(outcome: &AskOutcome) -> ConversationId {
    match outcome {
        AskOutcome::Accepted { live, .. } => live.meta().conversation,
        AskOutcome::Replayed { conversation, .. } => *conversation,
    }
}
