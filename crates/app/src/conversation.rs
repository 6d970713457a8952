//! The page of a conversation.

use std::collections::VecDeque;

use askama::Template;
use axum::Form;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use control::conversations::{ConversationSummary, ShownBranch, StoredMessage};
use control::{
    AnswerService, Authenticator, Catalogs, Conversations, Principal, PublicCode, QuestionService,
    ServiceEnvironment, UseCaseError,
};
use domain::id::{ConversationId, MessageId};
use http_common::{BudgetHolder, Budgets};
use serde::Deserialize;

use crate::answer::AnswerView;
use crate::choices::OfferedChoices;
use crate::composer::{Composer, ComposerFile, ModelOption, QuestionForm, RevisionForm};
use crate::frame::PageFrame;
use crate::growing::OnPage;
use crate::links::view_href;
use crate::shown_time::ShownTime;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;
use crate::{error, paths};

/// The maximum number of exchanges on a page.
pub(crate) const SHOWN_MAX: u32 = 40;
/// The maximum number of times that the last exchanges are read again because another branch became current
/// meanwhile.
const BRANCH_TRIES: u32 = 3;

/// A question with its answer.
pub(crate) struct ExchangeView {
    pub(crate) question: String,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) asked_at: ShownTime,
    /// The rendered answer; empty if there is no answer.
    pub(crate) answer: String,
    id: String,
    /// The model that answers.
    model: String,
    /// The versions, if there are several.
    versions: Option<VersionsView>,
    /// The form with which it is being revised.
    revision: Option<RevisionForm>,
    /// True if the answer is rendered in progress.
    is_open: bool,
}

impl ExchangeView {
    /// Returns the form with which the question is being edited, or asked again.
    fn revision(&self, is_edit: bool) -> Option<&RevisionForm> {
        self.revision.as_ref().filter(|revision| revision.is_edit == is_edit)
    }
}

/// The shown version of an exchange, and the links to the others.
struct VersionsView {
    number: u32,
    count: u32,
    previous: Option<String>,
    next: Option<String>,
}

pub(crate) struct Attachment {
    pub(crate) name: String,
    path: String,
    pub(crate) href: String,
}

#[derive(Template)]
#[template(path = "conversation.html")]
struct ConversationHtmlPage {
    frame: PageFrame,
    composer: Composer,
    /// The choices of the next question.
    offered: OfferedChoices,
    href: String,
    title: String,
    model: String,
    exchanges: Vec<ExchangeView>,
    /// The first exchange of the page, unless it is the last page.
    from: Option<u32>,
    /// True if there are several models to choose from.
    has_models: bool,
    /// The exchange from which an earlier page begins.
    earlier: Option<u32>,
    /// The exchange from which the next page begins.
    later: Option<u32>,
    is_pinned: bool,
    /// True while an answer is in progress.
    is_open: bool,
}

impl ConversationHtmlPage {
    /// Returns the last answer of the page, if no page follows.
    fn last(&self) -> Option<&str> {
        self.exchanges.last().filter(|_| self.later.is_none()).map(|last| last.id.as_str())
    }

    /// Returns the address of the page at an exchange, with a field of the query.
    fn at(&self, exchange: &ExchangeView, field: &str) -> String {
        let is_form = !field.is_empty();
        let field = is_form.then(|| format!("{field}={}", exchange.id));
        let from = self.from.map(|from| format!("from={from}"));
        let query = field.into_iter().chain(from).collect::<Vec<_>>().join("&");
        let separator = if query.is_empty() { "" } else { "?" };
        // With a fragment, no field would get the focus, which scrolls to the exchange as well.
        let fragment = if is_form { String::new() } else { format!("#e-{}", exchange.id) };
        format!("{}{separator}{query}{fragment}", self.href)
    }
}

/// The query of the page.
#[derive(Deserialize)]
pub(crate) struct ConversationQuery {
    /// The first exchange to show; the last ones if absent.
    from: Option<u32>,
    /// The answer whose question is edited.
    edit: Option<String>,
    /// The answer whose question is asked of another model.
    retry: Option<String>,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct ConversationPages {
    pub(crate) conversations: Conversations,
    pub(crate) questions: QuestionService,
    pub(crate) answers: AnswerService,
    pub(crate) access: Authenticator,
    pub(crate) catalogs: Catalogs,
    pub(crate) budgets: Budgets,
    pub(crate) environment: ServiceEnvironment,
}

/// Messages and their position in the conversation.
struct Window {
    messages: VecDeque<StoredMessage>,
    first: u32,
    is_last: bool,
}

impl Window {
    /// Returns the number of exchanges.
    fn exchange_count(&self) -> u32 {
        u32::try_from(self.messages.len() / 2).unwrap_or(u32::MAX)
    }
}

pub(crate) async fn show_conversation(
    State(pages): State<ConversationPages>,
    user: SignedInVisitor,
    Path(conversation): Path<String>,
    Query(position): Query<ConversationQuery>,
) -> Result<Response, Response> {
    let conversation = parse_conversation_id(&conversation).map_err(|error| user.failure_response(error))?;
    let composer = Composer::new(&pages.environment);
    // An answer id that is not a UUID does not exist.
    let answer = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<MessageId>().ok());
    let revision = match (answer(&position.edit), answer(&position.retry)) {
        (Some(of), _) => Some(pages.revision_form(&user, conversation, of, true).await?),
        (None, Some(of)) => Some(pages.revision_form(&user, conversation, of, false).await?),
        (None, None) => None,
    };
    pages.render_conversation(&user, conversation, position.from, composer, revision).await
}

/// Stops the answer in progress.
pub(crate) async fn stop_answer(
    State(conversations): State<Conversations>,
    user: SignedInVisitor,
    Path(conversation): Path<String>,
) -> Result<Response, Response> {
    let conversation = parse_conversation_id(&conversation).map_err(|error| user.failure_response(error))?;
    let stopped = conversations.stop_answer(&user.signed_in.principal, conversation).await;
    stopped.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to(&paths::conversation_path(conversation)).into_response())
}

/// The page to return to.
#[derive(Deserialize, Default)]
pub(crate) struct ReturnPageForm {
    #[serde(default)]
    next: String,
}

pub(crate) async fn delete_conversation(
    State(conversations): State<Conversations>,
    user: SignedInVisitor,
    Path(conversation): Path<String>,
    Form(form): Form<ReturnPageForm>,
) -> Result<Response, Response> {
    let conversation = parse_conversation_id(&conversation).map_err(|error| user.failure_response(error))?;
    let deleted = conversations.delete_conversation(&user.signed_in.principal, conversation).await;
    deleted.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to(paths::own_address(&form.next).unwrap_or(paths::HOME)).into_response())
}

/// Parses the conversation in a path. One that is not a UUID does not exist.
pub(crate) fn parse_conversation_id(text: &str) -> Result<ConversationId, UseCaseError> {
    text.parse().map_err(|_| UseCaseError::no_conversation())
}

impl ConversationPages {
    /// Renders the page, from an exchange on or with the last ones, and the form with which one of them is revised.
    pub(crate) async fn render_conversation(
        &self,
        user: &SignedInVisitor,
        conversation: ConversationId,
        from: Option<u32>,
        mut composer: Composer,
        revision: Option<RevisionForm>,
    ) -> Result<Response, Response> {
        let principal = &user.signed_in.principal;
        let failed = |error: UseCaseError| user.failure_response(error);
        let summary = self.conversations.find_summary(principal, conversation).await.map_err(failed)?;
        let frame = PageFrame::load(&self.conversations, user, Some(conversation)).await?;
        // A page of long answers takes memory and time, so few are rendered at once.
        let _place = self.budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
        let window =
            self.read_window(principal, conversation, from, SHOWN_MAX as usize).await.map_err(failed)?;
        let first = window.first;
        let later = (!window.is_last).then(|| first.saturating_add(window.exchange_count()));
        let earlier = (first > 0).then(|| first.saturating_sub(SHOWN_MAX));
        let mut exchanges =
            self.render_exchanges(user.visitor.texts, principal, window.messages).await.map_err(failed)?;
        let versions = self.conversations.list_versions(principal, conversation, first, SHOWN_MAX).await;
        for versions in versions.map_err(failed)? {
            let at = versions.position.saturating_sub(first) as usize;
            if let Some(exchange) = exchanges.get_mut(at) {
                exchange.versions = Some(VersionsView {
                    number: versions.number,
                    count: versions.count,
                    previous: versions.previous.map(|answer| answer.to_string()),
                    next: versions.next.map(|answer| answer.to_string()),
                });
            }
        }
        if let Some(revision) = revision {
            let of = revision.of.to_string();
            match exchanges.iter_mut().find(|exchange| exchange.id == of) {
                Some(exchange) => exchange.revision = Some(revision),
                // Another version has become current. The typed text is not lost.
                None if revision.composer.error.is_some() => composer = revision.composer,
                None => {}
            }
        }
        let sent = composer.sent.take().filter(|sent| !sent.model.is_empty());
        let offered = self.load_offered(user, &summary, sent).await.map_err(failed)?;
        // An answer may have ended since the summary was read, so the page's content decides.
        let is_open = match (later, exchanges.last()) {
            (None, Some(last)) => last.is_open,
            _ => summary.open_answer.is_some(),
        };
        let page = ConversationHtmlPage {
            frame,
            composer,
            offered,
            href: paths::conversation_path(conversation),
            title: summary.title,
            model: summary.model,
            exchanges,
            from: later.and(Some(first)),
            has_models: self.model_options(user, None).map_err(failed)?.len() > 1,
            earlier,
            later,
            is_pinned: summary.pinned,
            is_open,
        };
        Ok(error::render_template(&page))
    }

    /// Returns the choices of the next question, preselected from a refused form or else from the last question.
    async fn load_offered(
        &self,
        user: &SignedInVisitor,
        summary: &ConversationSummary,
        sent: Option<QuestionForm>,
    ) -> Result<OfferedChoices, UseCaseError> {
        let principal = &user.signed_in.principal;
        let form = match sent {
            Some(sent) => sent,
            None => {
                let branch = self.conversations.shown_branch(principal, summary.id).await?;
                let last = self.conversations.asked_exchange(principal, summary.id, branch.last).await?;
                QuestionForm::of_conversation(summary, last)
            }
        };
        let texts = user.visitor.texts;
        let mut offered =
            OfferedChoices::load(&self.catalogs, &self.questions, principal, texts, &form).await?;
        offered.keep_model(&form.model);
        Ok(offered)
    }

    /// Creates the form with which a question is edited, or asked of another model.
    pub(crate) async fn revision_form(
        &self,
        user: &SignedInVisitor,
        conversation: ConversationId,
        of: MessageId,
        is_edit: bool,
    ) -> Result<RevisionForm, Response> {
        let principal = &user.signed_in.principal;
        let asked = self.conversations.asked_exchange(principal, conversation, of).await;
        let asked = asked.map_err(|error| user.failure_response(error))?;
        let models =
            self.model_options(user, Some(&asked.model)).map_err(|error| user.failure_response(error))?;
        let composer = Composer {
            input: asked.text,
            files: ComposerFile::from_paths(&asked.attachments),
            ..Composer::new(&self.environment)
        };
        Ok(RevisionForm { of, is_edit, composer, models })
    }

    /// Returns the models to choose from, among them the chosen one, by default the default.
    fn model_options(
        &self,
        user: &SignedInVisitor,
        chosen: Option<&str>,
    ) -> Result<Vec<ModelOption>, UseCaseError> {
        let models = self.catalogs.list_models(&user.signed_in.principal)?;
        let status = |id: &str| self.catalogs.model_status(id);
        Ok(ModelOption::list_usable(user.visitor.texts, &models, status, chosen))
    }

    /// Renders the last exchanges. Returns whether earlier ones exist.
    pub(crate) async fn last_exchanges(
        &self,
        user: &SignedInVisitor,
        conversation: ConversationId,
        shown_max: usize,
    ) -> Result<(Vec<ExchangeView>, bool), Response> {
        let principal = &user.signed_in.principal;
        let _place = self.budgets.made.acquire_permit(BudgetHolder::Account(principal.account())).await;
        let window = self.read_window(principal, conversation, None, shown_max).await;
        let window = window.map_err(|error| user.failure_response(error))?;
        let is_cut = window.first > 0;
        let exchanges = self.render_exchanges(user.visitor.texts, principal, window.messages).await;
        Ok((exchanges.map_err(|error| user.failure_response(error))?, is_cut))
    }

    /// Reads exchanges of the current branch, from an exchange on or the last ones. Starts again if another
    /// branch becomes current meanwhile.
    async fn read_window(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        from: Option<u32>,
        shown_max: usize,
    ) -> Result<Window, UseCaseError> {
        if let Some(first) = from {
            let (branch, page) = self.conversations.shown_messages(principal, conversation, first).await?;
            let mut messages = VecDeque::from(page.messages);
            messages.truncate(2 * shown_max);
            let mut window = Window { messages, first, is_last: false };
            window.is_last = first.saturating_add(window.exchange_count()) >= branch.exchanges;
            return Ok(window);
        }
        let mut tries = 1;
        loop {
            let branch = self.conversations.shown_branch(principal, conversation).await?;
            match self.last_of(principal, conversation, branch, shown_max).await {
                Err(error) if error.code() == PublicCode::ConversationBusy && tries < BRANCH_TRIES => {
                    tries += 1
                }
                window => return window,
            }
        }
    }

    /// Reads the last exchanges of a branch, page by page.
    async fn last_of(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        branch: ShownBranch,
        shown_max: usize,
    ) -> Result<Window, UseCaseError> {
        let shown = u32::try_from(shown_max).unwrap_or(u32::MAX);
        let first = branch.exchanges.saturating_sub(shown);
        let mut window = Window { messages: VecDeque::new(), first, is_last: true };
        // A full page has at least one exchange.
        for _ in 0..=shown_max {
            let next = first.saturating_add(window.exchange_count());
            let page = self.conversations.messages_of(principal, conversation, branch, next).await?;
            window.messages.extend(page.messages);
            if !page.full {
                break;
            }
        }
        Ok(window)
    }

    /// Renders answers on a thread for blocking work.
    async fn render_exchanges(
        &self,
        texts: Texts,
        principal: &Principal,
        messages: VecDeque<StoredMessage>,
    ) -> Result<Vec<ExchangeView>, UseCaseError> {
        let (answers, principal) = (self.answers.clone(), principal.clone());
        let rendering = tokio::task::spawn_blocking(move || {
            let mut exchanges = Vec::<ExchangeView>::with_capacity(messages.len() / 2);
            for message in messages {
                match message {
                    StoredMessage::Question(question) => exchanges.push(ExchangeView {
                        question: question.text,
                        attachments: attachment_views(&question.attachments),
                        asked_at: ShownTime::from_time(texts, question.created_at),
                        answer: String::new(),
                        id: String::new(),
                        model: String::new(),
                        versions: None,
                        revision: None,
                        is_open: false,
                    }),
                    StoredMessage::Answer(stored) => {
                        let (id, model) = (stored.id, stored.model.clone());
                        let cost = stored.completed_at.map(|_| stored.cost);
                        let snapshot = answers.snapshot_of(&principal, *stored);
                        let html = AnswerView::from_snapshot(texts, &snapshot, cost, &mut OnPage::default())
                            .render()
                            .map_err(UseCaseError::internal)?;
                        if let Some(exchange) = exchanges.last_mut() {
                            exchange.answer = html;
                            exchange.id = id.to_string();
                            exchange.model = model;
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

fn attachment_views(paths: &[String]) -> Vec<Attachment> {
    let attachment =
        |file: ComposerFile| Attachment { href: view_href(&file.path), name: file.name, path: file.path };
    ComposerFile::from_paths(paths).into_iter().map(attachment).collect()
}
