//! Lists, reads, changes, deletes and stops conversations (section 4.4 of the interface).

use std::ops::Range;
use std::sync::Arc;

use domain::id::{AccountId, ConversationId, MessageId};
use domain::scope::Permission::{Ask, Read};
use engine::{BackgroundTasks, Dispatch};
use live::{Live, LiveAnswer};
use store::conversations::{self, ConversationError, ConversationPatch, ShowRefused};
pub use store::conversations::{
    AskedExchange, BranchPosition, ConversationListPage, ConversationSummary, EXCHANGES_PAGE_MAX,
    ShownBranch, StoredAnswer, StoredMessage, StoredQuestion, Versions,
};
use store::{Store, StoreError};

use crate::ServiceEnvironment;
use crate::error::{PublicCode, UseCaseError};
use crate::jobs::Jobs;
use crate::principal::Principal;
use crate::title;

/// The size of the text after which a page of messages is full.
pub const PAGE_BYTES: usize = 128 << 10;
/// The number of exchanges of one query. A page exceeds [`PAGE_BYTES`] by at most so many.
const READ_TOGETHER_MAX: u32 = 4;

/// A page of a conversation's messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanges {
    /// Questions and answers in chronological order.
    pub messages: Vec<StoredMessage>,
    /// True if the page is full, so that another one may follow.
    pub full: bool,
}

/// A change of a conversation; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationChange {
    /// The title, as the user wrote it.
    pub title: Option<String>,
    /// True to pin the conversation.
    pub pinned: Option<bool>,
}

/// The conversations of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) store: Store,
    pub(crate) environment: ServiceEnvironment,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
    /// Finishes the work of a dropped request.
    pub(crate) background: BackgroundTasks,
    pub(crate) jobs: Jobs,
}

impl Conversations {
    pub(crate) fn new(
        (store, environment): (&Store, &ServiceEnvironment),
        live: &Arc<Live>,
        dispatch: &Dispatch,
        background: &BackgroundTasks,
        jobs: &Jobs,
    ) -> Self {
        let (store, environment, live) = (store.clone(), environment.clone(), live.clone());
        let (dispatch, background, jobs) = (dispatch.clone(), background.clone(), jobs.clone());
        Self { store, environment, live, dispatch, background, jobs }
    }

    /// Lists the account's conversations: pinned ones first, then by the last change.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn list_conversations(
        &self,
        principal: &Principal,
        offset: u64,
        limit: u32,
    ) -> Result<ConversationListPage, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        Ok(self.store.read(move |tx| conversations::list_conversations(tx, account, offset, limit)).await?)
    }

    /// Returns the conversation without its messages.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn find_summary(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> Result<ConversationSummary, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        Ok(self
            .store
            .read(move |tx| conversations::read_conversation_summary(tx, account, conversation))
            .await?)
    }

    /// Returns the branch that is shown, with its messages after the first `exchanges`, read together: as
    /// [`Self::messages_of`], but never in conflict with a change of the branch.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn shown_messages(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        exchanges: u32,
    ) -> Result<(ShownBranch, Exchanges), UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let shown = move |tx: &mut dyn store::Sql| {
            let branch = conversations::shown_branch(tx, account, conversation)?;
            let page = branch.map(|branch| page_of(tx, account, conversation, exchanges..branch.exchanges));
            Ok::<_, StoreError>(branch.zip(page.transpose()?))
        };
        self.store.read(shown).await?.ok_or_else(UseCaseError::no_conversation)
    }

    /// Returns the messages of a branch after the first `exchanges`: up to [`EXCHANGES_PAGE_MAX`] exchanges and about
    /// [`PAGE_BYTES`]; none at the end. Exchanges that were added to it since are left out, so that the messages before its
    /// end never change once they are completed. Answers in progress have their stored state;
    /// [`crate::AnswerService::snapshot_of`] returns the present one.
    ///
    /// # Errors
    /// [`UseCaseError`]; [`PublicCode::ConversationBusy`] if another branch is shown now.
    pub async fn messages_of(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        branch: ShownBranch,
        exchanges: u32,
    ) -> Result<Exchanges, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let page = move |tx: &mut dyn store::Sql| {
            if !conversations::is_shown(tx, account, conversation, branch.last)? {
                return Ok(None);
            }
            page_of(tx, account, conversation, exchanges..branch.exchanges).map(Some)
        };
        let page = self.store.read(page).await?;
        page.ok_or_else(|| {
            UseCaseError::new(
                PublicCode::ConversationBusy,
                "the conversation shows another version now: load it again",
            )
        })
    }

    /// Returns the branch that is shown.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn shown_branch(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> Result<ShownBranch, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let branch = move |tx: &mut dyn store::Sql| conversations::shown_branch(tx, account, conversation);
        self.store.read(branch).await?.ok_or_else(UseCaseError::no_conversation)
    }

    /// Returns the versions of the exchanges that have several, among `limit` exchanges from the position `from` on.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn list_versions(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        from: u32,
        limit: u32,
    ) -> Result<Vec<Versions>, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let versions = move |tx: &mut dyn store::Sql| {
            conversations::list_versions(tx, account, conversation, from, limit)
        };
        Ok(self.store.read(versions).await?)
    }

    /// Returns the question of an answer, as it was asked.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn asked_exchange(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        answer: MessageId,
    ) -> Result<AskedExchange, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let asked =
            move |tx: &mut dyn store::Sql| conversations::asked_exchange(tx, account, conversation, answer);
        Ok(self.store.read(asked).await?)
    }

    /// Shows the branch of an answer in its last state; the conversation continues there. Its streams get the last
    /// answer of that branch. Dropping the future does not interrupt it.
    ///
    /// # Errors
    /// [`UseCaseError`], [`PublicCode::ConversationBusy`](crate::PublicCode::ConversationBusy) while an answer is in
    /// progress.
    pub async fn show_branch(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        answer: MessageId,
    ) -> Result<BranchPosition, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let this = self.clone();
        let shown = self.background.see_through(async move {
            let show = move |tx: &mut dyn store::Sql| {
                title::follow_first_question(tx, account, conversation, |tx| {
                    conversations::show_branch(tx, account, conversation, answer)
                })
            };
            let shown = this.store.write(show).await?;
            if shown.is_other && this.live.is_watched(conversation) {
                let latest =
                    move |tx: &mut dyn store::Sql| conversations::latest_answer(tx, account, conversation);
                match this.store.read(latest).await {
                    // A question that was asked since has moved them on.
                    Ok(stored) if stored.completed_at.is_none() => {}
                    Ok(stored) => {
                        let meta = crate::answers::answer_meta(account, &stored);
                        this.live.show_branch(Arc::new(LiveAnswer::new(meta, stored.answer)));
                    }
                    // Its readers stay where they are until the next question.
                    Err(error) => tracing::debug!(%error, "moving streams to another branch failed"),
                }
            }
            Ok::<_, ShowRefused>(shown)
        });
        Ok(shown.await.unwrap_or(Err(StoreError::Panicked.into()))?)
    }

    /// Changes the title or the pin.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn update_conversation(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        change: ConversationChange,
    ) -> Result<ConversationSummary, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let title = change.title.as_deref().map(title::check_title).transpose()?;
        let patch = ConversationPatch { title, pinned: change.pinned };
        let store = self.store.clone();
        let patched = self.background.see_through(async move {
            store.write(move |tx| conversations::patch_conversation(tx, account, conversation, &patch)).await
        });
        Ok(patched.await.unwrap_or(Err(StoreError::Panicked.into()))?)
    }

    /// Deletes a conversation and stops its open answer; the steps so far are paid for. Dropping the future does not
    /// interrupt the deletion.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn delete_conversation(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> Result<(), UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let (this, now) = (self.clone(), self.environment.now());
        let deleted = self.background.see_through(async move {
            let deleted = this
                .store
                .write(move |tx| conversations::delete_conversation(tx, account, conversation, now))
                .await?;
            // The readers first, so that they do not see the answer stop.
            this.live.delete_conversation(conversation);
            match deleted.open_answer {
                Some(answer) => this.dispatch.stop_answer(answer),
                None => this.jobs.wake_up(),
            }
            Ok::<_, ConversationError>(())
        });
        Ok(deleted.await.unwrap_or(Err(StoreError::Panicked.into()))?)
    }

    /// Stops the open answer, if there is one. The returned summary may still have it as open. Dropping the future does
    /// not interrupt the stop.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn stop_answer(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> Result<ConversationSummary, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let this = self.clone();
        let stopped = self.background.see_through(async move {
            let summary =
                this.store.write(move |tx| conversations::request_stop(tx, account, conversation)).await?;
            if let Some(answer) = summary.open_answer {
                this.dispatch.stop_answer(answer);
            }
            Ok::<_, ConversationError>(summary)
        });
        Ok(stopped.await.unwrap_or(Err(StoreError::Panicked.into()))?)
    }
}

/// Reads the messages of a range of exchanges, a few exchanges at a time, until the page is full.
fn page_of(
    tx: &mut dyn store::Sql,
    account: AccountId,
    conversation: ConversationId,
    range: Range<u32>,
) -> Result<Exchanges, StoreError> {
    let (mut page, mut bytes, mut exchanges, mut together) = (Vec::new(), 0, 0, 1);
    while exchanges < EXCHANGES_PAGE_MAX && bytes < PAGE_BYTES {
        let from = range.start.saturating_add(exchanges);
        let wanted = together.min(EXCHANGES_PAGE_MAX - exchanges).min(range.end.saturating_sub(from));
        let read = conversations::read_messages(tx, account, conversation, from, wanted)?;
        let whole = wanted > 0 && read.len() == 2 * wanted as usize;
        bytes += read.iter().map(message_size).sum::<usize>();
        page.extend(read);
        if !whole {
            return Ok(Exchanges { messages: page, full: false });
        }
        exchanges += wanted;
        together = READ_TOGETHER_MAX.min(2 * together);
    }
    Ok(Exchanges { messages: page, full: true })
}

/// Returns the approximate size of a message, in bytes.
fn message_size(message: &StoredMessage) -> usize {
    match message {
        StoredMessage::Question(question) => question.text.len(),
        // As text and as HTML.
        StoredMessage::Answer(answer) => 2 * answer.text.len(),
    }
}
