//! Conversations: listed, read, changed, deleted, stopped (section 4.4 of the interface).

use std::sync::Arc;

use domain::id::{AccountId, ConversationId};
use store::conversations;
pub use store::conversations::{
    ConversationError, Detail, EXCHANGES_PAGE_MAX, Message, Page, Patch, Summary,
};
use store::{Store, StoreError};

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
        let store = self.store.clone();
        let patched = self.dispatch.see_through(async move {
            store.write(move |tx| conversations::patch(tx, account, conversation, &patch)).await
        });
        patched.await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// Deletes a conversation: it is found no more, and an answer being written is stopped, which is paid for as far as
    /// it came. A caller that goes away leaves nothing of that undone.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn delete(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<(), ConversationError> {
        let (this, now) = (self.clone(), self.environment.now());
        let deleted = self.dispatch.see_through(async move {
            let deleted =
                this.store.write(move |tx| conversations::delete(tx, account, conversation, now)).await?;
            // Its readers first: they are not shown how it is stopped.
            this.live.delete(conversation);
            if let Some(answer) = deleted.open_answer {
                this.dispatch.stop(answer);
            }
            Ok(())
        });
        deleted.await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// Stops the answer being written, if one is. The summary may still say that it is in progress. A caller that goes
    /// away leaves nothing of that undone.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn stop(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<Summary, ConversationError> {
        let this = self.clone();
        let stopped = self.dispatch.see_through(async move {
            let summary =
                this.store.write(move |tx| conversations::request_stop(tx, account, conversation)).await?;
            if let Some(answer) = summary.open_answer {
                this.dispatch.stop(answer);
            }
            Ok(summary)
        });
        stopped.await.unwrap_or(Err(StoreError::Panicked.into()))
    }
}
