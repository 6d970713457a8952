//! Answers: collected as they stand, or followed while they are written (sections 4.4 and 6).

use std::sync::Arc;

use domain::id::{AccountId, ConversationId, MessageId};
use store::conversations::{self, ConversationError, StoredAnswer};
use store::{Store, StoreError};

use engine::Dispatch;
use engine::settle_surely;
use live::{Follower, Live, LiveAnswer, Meta, Snapshot};

/// Up to this size (of [`LiveAnswer::size_bytes`]) an answer is rendered by whoever reads it.
const RENDERED_AT_ONCE_MAX_BYTES: usize = 128 << 10;

/// The answers of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Answers {
    pub(crate) store: Store,
    pub(crate) live: Arc<Live>,
    pub(crate) dispatch: Dispatch,
}

impl Answers {
    /// The answer as it stands.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`] when it does not exist or is another account's.
    pub async fn find(
        &self,
        account: AccountId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        let generation = match self.live.find(message) {
            Ok(live) => {
                let meta = live.meta();
                let own = meta.account == account && meta.conversation == conversation;
                return if own { Ok(live) } else { Err(ConversationError::NotFound) };
            }
            Err(generation) => generation,
        };
        let stored = self.stored(account, conversation, message).await?;
        let completed = stored.completed_at.is_some();
        let live = self.attach(account, stored).await?;
        if completed {
            self.live.keep(&live, generation);
            rendered(&live).await;
        }
        Ok(live)
    }

    /// A stored answer as it is shown: as it stands here, when it is being written here. Rendering one that
    /// was not read lately takes its time.
    #[must_use]
    pub fn snapshot_of(&self, account: AccountId, stored: StoredAnswer) -> Arc<Snapshot> {
        let live = self.live.find(stored.id).ok();
        live.unwrap_or_else(|| Arc::new(LiveAnswer::new(meta(account, &stored), stored.answer))).snapshot()
    }

    /// Follows one answer until it is done.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn follow(
        &self,
        account: AccountId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Follower, ConversationError> {
        let live = self.find(account, conversation, message).await?;
        Ok(self.live.follow(live, None))
    }

    /// Follows a conversation: its latest answer, then each that begins later, until it is deleted.
    ///
    /// # Errors
    /// [`ConversationError::NotFound`].
    pub async fn watch(
        &self,
        account: AccountId,
        conversation: ConversationId,
    ) -> Result<Follower, ConversationError> {
        let watch = self.live.watch(conversation);
        let stored =
            self.store.read(move |tx| conversations::latest_answer(tx, account, conversation)).await?;
        let latest = watch.latest(self.attach(account, stored).await?);
        Ok(self.live.follow(latest, Some(watch)))
    }

    /// The answer to be read. One that is in progress and not written here yet is waited for; one that was
    /// completed while this was found out is not. A reader that goes away meanwhile leaves none behind that nobody ends.
    async fn attach(
        &self,
        account: AccountId,
        stored: StoredAnswer,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        if stored.completed_at.is_some() {
            return Ok(Arc::new(LiveAnswer::new(meta(account, &stored), stored.answer)));
        }
        let this = self.clone();
        let begun = self.dispatch.see_through(async move { this.begin(account, stored).await });
        begun.await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// Begins an answer that was in progress, and looks again: it may have come to its end before it was begun here.
    async fn begin(
        &self,
        account: AccountId,
        stored: StoredAnswer,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        let meta = meta(account, &stored);
        let live = self.live.begin(meta, stored.answer);
        match self.stored(account, stored.conversation, stored.id).await {
            Ok(again) if again.completed_at.is_some() => {
                live.conclude(again.answer);
                self.live.finish(stored.id);
                Ok(live)
            }
            Ok(_) => Ok(live),
            Err(ConversationError::NotFound) => {
                self.live.delete(stored.conversation);
                Err(ConversationError::NotFound)
            }
            // Nothing is known of the answer: it may go on, or be over and nobody say so here.
            Err(error) => {
                let (this, meta) = (self.clone(), live.meta().clone());
                drop(live);
                // Others may read it by now.
                self.dispatch.spawn(async move { settle_surely(&this.store, &this.live, &meta).await });
                Err(error)
            }
        }
    }

    async fn stored(
        &self,
        account: AccountId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<StoredAnswer, ConversationError> {
        self.store.read(move |tx| conversations::answer(tx, account, conversation, message)).await
    }
}

/// Renders a completed answer ahead of its reader; a long one where it keeps nobody waiting.
async fn rendered(live: &Arc<LiveAnswer>) {
    if live.size_bytes() < RENDERED_AT_ONCE_MAX_BYTES {
        return;
    }
    let live = live.clone();
    // A panic was reported; the reader meets it again.
    let _ = tokio::task::spawn_blocking(move || live.snapshot()).await;
}

fn meta(account: AccountId, stored: &StoredAnswer) -> Meta {
    Meta {
        answer: stored.id,
        account,
        conversation: stored.conversation,
        created_at: stored.created_at,
        model: stored.model.clone(),
    }
}
