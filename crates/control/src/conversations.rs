//! Conversations: listed, read, changed, deleted, stopped (section 4.4 of the interface).

use std::sync::Arc;

use domain::id::{AccountId, ConversationId};
use store::conversations;
pub use store::conversations::{
    ConversationError, ConversationPage, ConversationPatch, ConversationSummary, EXCHANGES_PAGE_MAX, Message,
    Question,
};
use store::{Store, StoreError};

use crate::Environment;
use crate::jobs::Jobs;
use engine::Dispatch;
use live::Live;

/// Bytes of text after which a page of messages is full.
pub const PAGE_BYTES: usize = 128 << 10;
/// Exchanges that are read together; by so many a page may go beyond [`PAGE_BYTES`].
const READ_TOGETHER_MAX: u32 = 4;

/// A page of what was said in a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchanges {
    /// Questions and answers in the order in which they were made.
    pub messages: Vec<Message>,
    /// Whether there was no room for more of them.
    pub full: bool,
}

/// The conversations of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Conversations {
    pub(crate) store: Store,
    pub(crate) environment: Environment,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
    pub(crate) jobs: Jobs,
}

impl Conversations {
    /// The account's conversations, pinned ones first, then the latest.
    ///
    /// # Errors
    /// [`ConversationError::Store`].
    pub async fn list(
        &self,
        account: AccountId,
        offset: u64,
        limit: u32,
    ) -> Result<ConversationPage, ConversationError> {
        Ok(self.store.read(move |tx| conversations::list(tx, account, offset, limit)).await?)
    }

    /// The conversation in short.
    ///
    /// # Errors
    /// [`ConversationError`].
    pub async fn summary(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<ConversationSummary, ConversationError> {
        self.store.read(move |tx| conversations::summary(tx, account, conversation)).await
    }

    /// The messages after those of so many exchanges, up to [`EXCHANGES_PAGE_MAX`] exchanges of them and about
    /// [`PAGE_BYTES`]; none at the end. Answers that are being written are as far as the store knows them:
    /// [`crate::Answers::snapshot_of`] has them as they stand.
    ///
    /// # Errors
    /// [`ConversationError::Store`].
    pub async fn messages_after(
        &self,
        account: AccountId,
        conversation: ConversationId,
        exchanges: u32,
    ) -> Result<Exchanges, ConversationError> {
        let page = move |tx: &mut dyn store::Sql| page_of(tx, account, conversation, exchanges);
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
        patch: ConversationPatch,
    ) -> Result<ConversationSummary, ConversationError> {
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
            match deleted.open_answer {
                Some(answer) => this.dispatch.stop(answer),
                None => this.jobs.wake(),
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
    ) -> Result<ConversationSummary, ConversationError> {
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

/// The messages from an exchange on, a few exchanges at a time until there are enough of them.
fn page_of(
    tx: &mut dyn store::Sql,
    account: AccountId,
    conversation: ConversationId,
    from: u32,
) -> Result<Exchanges, StoreError> {
    let (mut page, mut bytes, mut exchanges, mut together) = (Vec::new(), 0, 0, 1);
    while exchanges < EXCHANGES_PAGE_MAX && bytes < PAGE_BYTES {
        let wanted = together.min(EXCHANGES_PAGE_MAX - exchanges);
        let read =
            conversations::messages(tx, account, conversation, from.saturating_add(exchanges), wanted)?;
        let whole = read.len() == 2 * wanted as usize;
        bytes += read.iter().map(size).sum::<usize>();
        page.extend(read);
        if !whole {
            return Ok(Exchanges { messages: page, full: false });
        }
        exchanges += wanted;
        together = READ_TOGETHER_MAX.min(2 * together);
    }
    Ok(Exchanges { messages: page, full: true })
}

/// About what a message takes.
fn size(message: &Message) -> usize {
    match message {
        Message::Question(question) => question.text.len(),
        // As text and as HTML.
        Message::Answer(answer) => 2 * answer.text.len(),
    }
}
