//! AskPages: a new conversation, and further questions.

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use control::questions::AskOutcome;
use control::{Catalogs, Conversations, Environment, Questions, UseCaseError};
use domain::id::ConversationId;

use crate::choices::Offered;
use crate::composer::{Composer, QuestionForm};
use crate::conversation::{self, Pages};
use crate::frame::Frame;
use crate::visit::User;
use crate::{error, paths};

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: Frame,
    composer: Composer,
    offered: Offered,
}

/// Shows the form of a new conversation, with the text and the files that the query has.
pub(crate) async fn show(
    State(state): State<AskPages>,
    user: User,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let form = QuestionForm::parse(query.unwrap_or_default().as_bytes());
    let composer =
        Composer { input: form.input.clone(), files: form.attached(), ..Composer::new(&state.environment) };
    state.home(&user, composer, &form).await
}

/// Asks the first question of a new conversation.
pub(crate) async fn ask(
    State(state): State<AskPages>,
    user: User,
    form: QuestionForm,
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
    State(state): State<AskPages>,
    State(pages): State<Pages>,
    user: User,
    Path(conversation): Path<String>,
    form: QuestionForm,
) -> Result<Response, Response> {
    let conversation = conversation::id(&conversation).map_err(|error| user.failed(error))?;
    match state.questions.ask(&user.signed_in.principal, form.request(Some(conversation))).await {
        Ok(_) => Ok(Redirect::to(&paths::conversation(conversation)).into_response()),
        Err(refused) => {
            let status = error::status(refused.kind());
            let composer = state.again(&user, &form, &refused);
            if status == StatusCode::NOT_FOUND {
                // Possibly deleted in another window: the question can begin a new conversation.
                let error = Some(user.visitor.texts.get("ask-conversation-gone"));
                let page = state.home(&user, Composer { error, ..composer }, &form).await?;
                return Ok((status, page).into_response());
            }
            let page = pages.render(&user, conversation, None, composer, None).await?;
            Ok((status, page).into_response())
        }
    }
}

/// The use cases of asking.
#[derive(Clone)]
pub(crate) struct AskPages {
    pub(crate) questions: Questions,
    pub(crate) catalogs: Catalogs,
    pub(crate) conversations: Conversations,
    pub(crate) environment: Environment,
}

impl AskPages {
    /// Returns the form of a refused question.
    fn again(&self, user: &User, form: &QuestionForm, refused: &UseCaseError) -> Composer {
        Composer {
            input: form.input.clone(),
            files: form.attached(),
            sent: Some(form.clone()),
            error: Some(form.reason(user.visitor.texts, refused, true)),
            ..Composer::new(&self.environment)
        }
    }

    async fn home(&self, user: &User, composer: Composer, form: &QuestionForm) -> Result<Response, Response> {
        let frame = Frame::load(&self.conversations, user, None).await?;
        let (principal, texts) = (&user.signed_in.principal, user.visitor.texts);
        let offered = Offered::load(&self.catalogs, &self.questions, principal, texts, form).await;
        let offered = offered.map_err(|error| user.failed(error))?;
        Ok(error::rendered(&HomePage { frame, composer, offered }))
    }
}

fn conversation_of(outcome: &AskOutcome) -> ConversationId {
    match outcome {
        AskOutcome::Accepted { live, .. } => live.meta().conversation,
        AskOutcome::Replayed { conversation, .. } => *conversation,
    }
}
