//! Versions of a question: edited, or asked again, also of another model; and the way between them.

use axum::Form;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::{Conversations, UseCaseError};
use domain::id::{ConversationId, MessageId};
use serde::Deserialize;

use crate::ask::AskPages;
use crate::composer::{Composer, QuestionForm};
use crate::conversation::{self, ConversationPages, SHOWN_MAX};
use crate::visit::SignedInVisitor;
use crate::{error, paths};

/// Asks a question again, edited or unchanged.
pub(crate) async fn revise_question<const IS_EDIT: bool>(
    State(asking): State<AskPages>,
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path((conversation, answer)): Path<(String, String)>,
    form: QuestionForm,
) -> Result<Response, Response> {
    let (conversation, answer) =
        parse_revision_ids(&conversation, &answer).map_err(|error| user.failure_response(error))?;
    let revision = form.to_revision(answer, IS_EDIT);
    let asked =
        asking.questions.revise_question(&user.signed_in.principal, conversation, answer, revision).await;
    let refused = match asked {
        Ok(_) => return Ok(Redirect::to(&paths::conversation_path(conversation)).into_response()),
        Err(refused) => refused,
    };
    let status = error::status_of_kind(refused.kind());
    let reason = form.refusal_reason(user.visitor.texts, &refused, IS_EDIT);
    // The exchange may have been deleted with its conversation.
    let mut revision = pages.revision_form(&user, conversation, answer, IS_EDIT).await?;
    revision.composer.error = Some(reason);
    if IS_EDIT {
        revision.composer.input.clone_from(&form.input);
        revision.composer.files = form.attached_files();
    }
    let from = form.from;
    let page = pages
        .render_conversation(&user, conversation, from, Composer::new(&pages.environment), Some(revision))
        .await?;
    Ok((status, page).into_response())
}

/// The form that shows a version.
#[derive(Deserialize)]
pub(crate) struct ShowForm {
    /// The answer of the version.
    answer: String,
}

/// Shows a version of an exchange and the exchanges after it.
pub(crate) async fn show_version(
    State(conversations): State<Conversations>,
    user: SignedInVisitor,
    Path(conversation): Path<String>,
    Form(form): Form<ShowForm>,
) -> Result<Response, Response> {
    let (conversation, answer) =
        parse_revision_ids(&conversation, &form.answer).map_err(|error| user.failure_response(error))?;
    let shown = conversations.show_branch(&user.signed_in.principal, conversation, answer).await;
    let shown = shown.map_err(|error| user.failure_response(error))?;
    let page = paths::conversation_path(conversation);
    let is_on_last_page = shown.exchanges - shown.position <= SHOWN_MAX;
    let from = if is_on_last_page { String::new() } else { format!("?from={}", shown.position) };
    Ok(Redirect::to(&format!("{page}{from}#e-{answer}")).into_response())
}

/// Parses the conversation and the answer of a path. Those that are not UUIDs do not exist.
fn parse_revision_ids(conversation: &str, answer: &str) -> Result<(ConversationId, MessageId), UseCaseError> {
    let answer = answer.parse().map_err(|_| UseCaseError::no_conversation())?;
    Ok((conversation::parse_conversation_id(conversation)?, answer))
}
