//! Conversations: listed, read, changed, deleted, stopped (section 4.4 of the interface).

use std::sync::Arc;

use domain::id::{AccountId, ConversationId, PostingId};
use store::Store;
use store::conversations;
pub use store::conversations::{
    ConversationError, Detail, EXCHANGES_PAGE_MAX, Message, Page, Patch, Summary,
};

use crate::Environment;
use crate::dispatch::Dispatch;
use crate::live::Live;

/// The conversations of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) store: Store,
    pub(crate) environment: Environment,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
}

impl Conversations {
    /// The account's conversations, pinned ones first, then the latest.
    ///
    /// # Errors
    /// [`ConversationError::Store`].
    pub async fn list(&self, account: AccountId, offset: u64, limit: u32) -> Result<Page, ConversationError> {
        Ok(self.store.read(move |tx| conversations::list(tx, account, offset, limit)).await?)
    }

    /// A conversation with its first messages. Answers that are being written are as far as the store knows
    /// them: [`crate::Answers::shown`] has them as they stand.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn detail(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<Detail, ConversationError> {
        self.store.read(move |tx| conversations::detail(tx, account, conversation)).await
    }

    /// The messages after those of so many exchanges, up to [`EXCHANGES_PAGE_MAX`] exchanges of them; none at
    /// the end.
    ///
    /// # Errors
    /// [`ConversationError::Store`].
    pub async fn messages_after(
        &self,
        account: AccountId,
        conversation: ConversationId,
        exchanges: u32,
    ) -> Result<Vec<Message>, ConversationError> {
        let page = move |tx: &mut dyn store::Sql| {
            conversations::messages(tx, account, conversation, exchanges, EXCHANGES_PAGE_MAX)
        };
        Ok(self.store.read(page).await?)
    }

    /// Changes title or pin.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn patch(
        &self,
        account: AccountId,
        conversation: ConversationId,
        patch: Patch,
    ) -> Result<Summary, ConversationError> {
        self.store.write(move |tx| conversations::patch(tx, account, conversation, &patch)).await
    }

    /// Deletes a conversation; an answer being written is stopped first.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn delete(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<(), ConversationError> {
        let (release, now) = (PostingId::from_random(self.environment.bits()), self.environment.now());
        let deleted = self
            .store
            .write(move |tx| conversations::delete(tx, account, conversation, release, now))
            .await?;
        if let Some(answer) = deleted.open_answer {
            self.dispatch.abandon(answer);
        }
        self.live.delete(conversation);
        Ok(())
    }

    /// Stops the answer being written, if one is. The summary may still say that it is in progress.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn stop(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<Summary, ConversationError> {
        let summary =
            self.store.write(move |tx| conversations::request_stop(tx, account, conversation)).await?;
        if let Some(answer) = summary.open_answer {
            self.dispatch.stop(answer);
        }
        Ok(summary)
    }
}
