//! The pages to ask questions: in a new conversation, and further ones.

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use control::questions::AskOutcome;
use control::{Catalogs, Conversations, QuestionService, ServiceEnvironment, UseCaseError};
use domain::id::ConversationId;

use crate::choices::OfferedChoices;
use crate::composer::{Composer, QuestionForm};
use crate::conversation::{self, ConversationPages};
use crate::frame::PageFrame;
use crate::visit::SignedInVisitor;
use crate::{error, paths};

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage {
    frame: PageFrame,
    composer: Composer,
    offered: OfferedChoices,
}

/// Shows the form of a new conversation, with the text and the files that the query has.
pub(crate) async fn show_question_form(
    State(state): State<AskPages>,
    user: SignedInVisitor,
    RawQuery(query): RawQuery,
) -> Result<Response, Response> {
    let form = QuestionForm::parse(query.unwrap_or_default().as_bytes());
    let composer = Composer {
        input: form.input.clone(),
        files: form.attached_files(),
        ..Composer::new(&state.environment)
    };
    state.render_home(&user, composer, &form).await
}

/// Asks the first question of a new conversation.
pub(crate) async fn ask_first_question(
    State(state): State<AskPages>,
    user: SignedInVisitor,
    form: QuestionForm,
) -> Result<Response, Response> {
    match state.questions.ask_question(&user.signed_in.principal, form.to_ask_request(None)).await {
        Ok(outcome) => Ok(Redirect::to(&paths::conversation_path(conversation_of(&outcome))).into_response()),
        Err(refused) => {
            let composer = state.refused_composer(&user, &form, &refused);
            let page = state.render_home(&user, composer, &form).await?;
            Ok((error::status_of_kind(refused.kind()), page).into_response())
        }
    }
}

/// Asks a further question.
pub(crate) async fn follow_up(
    State(state): State<AskPages>,
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path(conversation): Path<String>,
    form: QuestionForm,
) -> Result<Response, Response> {
    let conversation =
        conversation::parse_conversation_id(&conversation).map_err(|error| user.failure_response(error))?;
    match state
        .questions
        .ask_question(&user.signed_in.principal, form.to_ask_request(Some(conversation)))
        .await
    {
        Ok(_) => Ok(Redirect::to(&paths::conversation_path(conversation)).into_response()),
        Err(refused) => {
            let status = error::status_of_kind(refused.kind());
            let composer = state.refused_composer(&user, &form, &refused);
            if status == StatusCode::NOT_FOUND {
                // Possibly deleted in another window: the question can begin a new conversation.
                let error = Some(user.visitor.texts.get("ask-conversation-gone"));
                let page = state.render_home(&user, Composer { error, ..composer }, &form).await?;
                return Ok((status, page).into_response());
            }
            let page = pages.render_conversation(&user, conversation, None, composer, None).await?;
            Ok((status, page).into_response())
        }
    }
}

/// The use cases of asking.
#[derive(Clone)]
pub(crate) struct AskPages {
    pub(crate) questions: QuestionService,
    pub(crate) catalogs: Catalogs,
    pub(crate) conversations: Conversations,
    pub(crate) environment: ServiceEnvironment,
}

impl AskPages {
    /// Returns the form of a refused question.
    fn refused_composer(
        &self,
        user: &SignedInVisitor,
        form: &QuestionForm,
        refused: &UseCaseError,
    ) -> Composer {
        Composer {
            input: form.input.clone(),
            files: form.attached_files(),
            sent: Some(form.clone()),
            error: Some(form.refusal_reason(user.visitor.texts, refused, true)),
            ..Composer::new(&self.environment)
        }
    }

    async fn render_home(
        &self,
        user: &SignedInVisitor,
        composer: Composer,
        form: &QuestionForm,
    ) -> Result<Response, Response> {
        let frame = PageFrame::load(&self.conversations, user, None).await?;
        let (principal, texts) = (&user.signed_in.principal, user.visitor.texts);
        let offered = OfferedChoices::load(&self.catalogs, &self.questions, principal, texts, form).await;
        let offered = offered.map_err(|error| user.failure_response(error))?;
        Ok(error::render_template(&HomePage { frame, composer, offered }))
    }
}

fn conversation_of(outcome: &AskOutcome) -> ConversationId {
    match outcome {
        AskOutcome::Accepted { live, .. } => live.meta().conversation,
        AskOutcome::Replayed { conversation, .. } => *conversation,
    }
}
