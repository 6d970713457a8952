//! The page of a conversation.

use std::collections::VecDeque;

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::conversations::{Message, Question};
use control::{Answers, Authenticator, Conversations, Environment, Principal, UseCaseError};
use domain::id::ConversationId;
use http_common::{Budgets, Holder};
use serde::Deserialize;

use crate::answer::AnswerView;
use crate::composer::Composer;
use crate::frame::Frame;
use crate::growing::OnPage;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::User;
use crate::{error, paths};

/// The most exchanges of a page.
const SHOWN_MAX: usize = 40;
/// The longest address of a question that is asked again.
const ADDRESS_MAX_BYTES: usize = 6 << 10;
/// The pages of messages that are read to find the last ones. Conversations are shorter.
const PAGES_MAX: u32 = 500;

/// A question with its answer.
pub(crate) struct Exchange {
    pub(crate) question: String,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) asked_at: ShownTime,
    /// The address at which the question can be asked again, changed or with another model; `None` for a long one.
    pub(crate) again: Option<String>,
    /// Rendered; empty if there is none.
    pub(crate) answer: String,
    /// True if the answer is rendered in progress.
    is_open: bool,
}

pub(crate) struct Attachment {
    pub(crate) name: String,
    pub(crate) href: String,
}

#[derive(Template)]
#[template(path = "conversation.html")]
struct ConversationPage {
    frame: Frame,
    composer: Composer,
    href: String,
    title: String,
    model: String,
    exchanges: Vec<Exchange>,
    /// The exchange from which an earlier page begins.
    earlier: Option<u32>,
    /// The exchange from which the next page begins.
    later: Option<u32>,
    is_pinned: bool,
    /// True while an answer is in progress.
    is_open: bool,
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct Position {
    /// The first exchange to show; the last ones if absent.
    from: Option<u32>,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) conversations: Conversations,
    pub(crate) answers: Answers,
    pub(crate) access: Authenticator,
    pub(crate) budgets: Budgets,
    pub(crate) environment: Environment,
}

/// Messages, and where they stand in the conversation.
struct Window {
    messages: VecDeque<Message>,
    first: u32,
    is_last: bool,
}

impl Window {
    /// Returns the number of exchanges.
    fn exchanges(&self) -> u32 {
        u32::try_from(self.messages.len() / 2).unwrap_or(u32::MAX)
    }
}

/// Shows a conversation.
pub(crate) async fn show(
    State(pages): State<Pages>,
    user: User,
    Path(conversation): Path<String>,
    Query(position): Query<Position>,
) -> Result<Response, Response> {
    let conversation = id(&conversation).map_err(|error| user.failed(error))?;
    let composer = Composer::new(&pages.environment);
    pages.render(&user, conversation, position.from, composer).await
}

/// Stops the answer in progress.
pub(crate) async fn stop(
    State(conversations): State<Conversations>,
    user: User,
    Path(conversation): Path<String>,
) -> Result<Response, Response> {
    let conversation = id(&conversation).map_err(|error| user.failed(error))?;
    let stopped = conversations.stop(&user.signed_in.principal, conversation).await;
    stopped.map_err(|error| user.failed(error))?;
    Ok(Redirect::to(&paths::conversation(conversation)).into_response())
}

/// The page to return to.
#[derive(Deserialize, Default)]
pub(crate) struct Next {
    #[serde(default)]
    next: String,
}

/// Deletes the conversation.
pub(crate) async fn delete(
    State(conversations): State<Conversations>,
    user: User,
    Path(conversation): Path<String>,
    Form(form): Form<Next>,
) -> Result<Response, Response> {
    let conversation = id(&conversation).map_err(|error| user.failed(error))?;
    let deleted = conversations.delete(&user.signed_in.principal, conversation).await;
    deleted.map_err(|error| user.failed(error))?;
    Ok(Redirect::to(paths::own(&form.next).unwrap_or(paths::HOME)).into_response())
}

/// Parses the conversation in a path. One that is not a UUID does not exist.
pub(crate) fn id(text: &str) -> Result<ConversationId, UseCaseError> {
    text.parse().map_err(|_| UseCaseError::no_conversation())
}

impl Pages {
    /// Renders the page, from an exchange on or with the last ones.
    pub(crate) async fn render(
        &self,
        user: &User,
        conversation: ConversationId,
        from: Option<u32>,
        composer: Composer,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        let failed = |error: UseCaseError| user.failed(error);
        let summary = self.conversations.summary(principal, conversation).await.map_err(failed)?;
        let frame = Frame::load(&self.conversations, user, Some(conversation)).await?;
        // A page of long answers takes memory and time. Few are made at once.
        let _place = self.budgets.made.enter(Holder::Account(principal.account())).await;
        let window = self.window(principal, conversation, from, SHOWN_MAX).await.map_err(failed)?;
        let later = (!window.is_last).then(|| window.first.saturating_add(window.exchanges()));
        let earlier = (window.first > 0).then(|| window.first.saturating_sub(SHOWN_MAX as u32));
        let exchanges =
            self.exchanges(user.visitor.texts, principal, window.messages).await.map_err(failed)?;
        // An answer may have ended since the summary was read: what the page shows decides.
        let is_open = match (later, exchanges.last()) {
            (None, Some(last)) => last.is_open,
            _ => summary.open_answer.is_some(),
        };
        let page = ConversationPage {
            frame,
            composer,
            href: paths::conversation(conversation),
            title: summary.title,
            model: summary.model,
            exchanges,
            earlier,
            later,
            is_pinned: summary.pinned,
            is_open,
        };
        Ok(error::rendered(&page))
    }

    /// Renders the last exchanges, and tells whether there are earlier ones.
    pub(crate) async fn last_exchanges(
        &self,
        user: &User,
        conversation: ConversationId,
        shown_max: usize,
    ) -> Result<(Vec<Exchange>, bool), Response> {
        let principal = &user.signed_in.principal;
        let _place = self.budgets.made.enter(Holder::Account(principal.account())).await;
        let window = self.window(principal, conversation, None, shown_max).await;
        let window = window.map_err(|error| user.failed(error))?;
        let is_cut = window.first > 0;
        let exchanges = self.exchanges(user.visitor.texts, principal, window.messages).await;
        Ok((exchanges.map_err(|error| user.failed(error))?, is_cut))
    }

    async fn window(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        from: Option<u32>,
        shown_max: usize,
    ) -> Result<Window, UseCaseError> {
        let mut window = Window { messages: VecDeque::new(), first: from.unwrap_or(0), is_last: true };
        for _ in 0..PAGES_MAX {
            let next = window.first.saturating_add(window.exchanges());
            let page = self.conversations.messages_after(principal, conversation, next).await?;
            window.messages.extend(page.messages);
            window.is_last = !page.full;
            let surplus = (window.messages.len() / 2).saturating_sub(shown_max);
            if from.is_some() {
                window.is_last &= surplus == 0;
                window.messages.truncate(2 * shown_max);
                break;
            }
            window.messages.drain(..2 * surplus);
            window.first = window.first.saturating_add(u32::try_from(surplus).unwrap_or(u32::MAX));
            if window.is_last {
                break;
            }
        }
        Ok(window)
    }

    /// Renders answers on a thread for blocking work.
    async fn exchanges(
        &self,
        texts: Texts,
        principal: &Principal,
        messages: VecDeque<Message>,
    ) -> Result<Vec<Exchange>, UseCaseError> {
        let (answers, principal) = (self.answers.clone(), principal.clone());
        let rendering = tokio::task::spawn_blocking(move || {
            let mut exchanges = Vec::<Exchange>::with_capacity(messages.len() / 2);
            for message in messages {
                match message {
                    Message::Question(question) => exchanges.push(Exchange {
                        again: again(&question),
                        question: question.text,
                        attachments: question.attachments.iter().map(|path| attachment(path)).collect(),
                        asked_at: ShownTime::time(texts, question.created_at),
                        answer: String::new(),
                        is_open: false,
                    }),
                    Message::Answer(stored) => {
                        let snapshot = answers.snapshot_of(&principal, *stored);
                        let html = AnswerView::of(texts, &snapshot, &mut OnPage::default())
                            .render()
                            .map_err(UseCaseError::internal)?;
                        if let Some(exchange) = exchanges.last_mut() {
                            exchange.answer = html;
                            exchange.is_open = snapshot.ending.is_none();
                        }
                    }
                }
            }
            Ok(exchanges)
        });
        rendering.await.unwrap_or_else(|error| Err(UseCaseError::internal(error)))
    }
}

/// Returns the address of a new conversation with this question and its files, if it is short enough for an address.
fn again(question: &Question) -> Option<String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("input", &question.text);
    query.extend_pairs(question.attachments.iter().map(|path| ("file", path)));
    Some(format!("/?{}", query.finish())).filter(|address| address.len() <= ADDRESS_MAX_BYTES)
}

fn attachment(path: &str) -> Attachment {
    let name = path.rsplit('/').next().unwrap_or(path).to_owned();
    Attachment { name, href: crate::answer::file_href(path) }
}
