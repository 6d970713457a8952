//! Finds, follows and waits for answers (sections 4.4 and 6 of the interface).

use std::sync::Arc;
use std::time::Duration;

use domain::credits::{AnswerCost, Credits};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::scope::Permission::{Ask, Read};
use store::conversations::{self, ConversationError, StoredAnswer};
use store::{Sql, Store, StoreError};
use tokio::sync::Semaphore;

use engine::{BackgroundTasks, settle_surely};
use live::{Follower, Live, LiveAnswer, Meta, Snapshot};

use crate::access::Authenticator;
use crate::error::UseCaseError;
use crate::principal::Principal;

/// The size of [`live::LiveAnswer::size_bytes`] up to which an answer is rendered on the reader's own task.
const RENDERED_AT_ONCE_MAX_BYTES: usize = 128 << 10;
/// The maximum number of long answers that are rendered at the same time.
const RENDERINGS_MAX: usize = 2;

/// The answers of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct AnswerService {
    store: Store,
    live: Arc<Live>,
    background: BackgroundTasks,
    access: Authenticator,
}

/// The longest wait of [`AnswerService::wait_for_end`].
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The result of waiting for the end of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The answer may be shown, completed or in its present state.
    Show,
    /// The principal has become invalid and may not see the answer.
    Revoked,
}

impl AnswerService {
    /// Creates the answers of this store.
    pub(crate) fn new(
        store: &Store,
        live: &Arc<Live>,
        background: &BackgroundTasks,
        access: &Authenticator,
    ) -> Self {
        let (store, live) = (store.clone(), live.clone());
        Self { store, live, background: background.clone(), access: access.clone() }
    }

    /// Returns an answer in its present state.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) when it does not exist or belongs to another account.
    pub async fn find_answer(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Arc<LiveAnswer>, UseCaseError> {
        principal.require_any(&[Read])?;
        Ok(self.find_own(principal.account(), conversation, message).await?)
    }

    /// Returns an answer in its present state by its identifier alone. The permission to ask is enough.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn find_by_id(
        &self,
        principal: &Principal,
        message: MessageId,
    ) -> Result<Arc<LiveAnswer>, UseCaseError> {
        principal.require_any(&[Read, Ask])?;
        let account = principal.account();
        let conversation =
            move |tx: &mut dyn Sql| conversations::conversation_of_answer(tx, account, message);
        let conversation = self.store.read(conversation).await?.ok_or_else(UseCaseError::no_conversation)?;
        Ok(self.find_own(account, conversation, message).await?)
    }

    /// Returns the cost of a completed answer; `None` while it is in progress.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn answer_cost(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Option<Credits>, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let cost = move |tx: &mut dyn Sql| conversations::answer_cost(tx, account, conversation, message);
        Ok(self.store.read(cost).await?)
    }

    /// Returns the usage and the cost of an answer so far. The permission to ask is enough.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn answer_bill(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<AnswerCost, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let bill = move |tx: &mut dyn Sql| conversations::answer_bill(tx, account, conversation, message);
        Ok(self.store.read(bill).await?)
    }

    /// Returns the answer of a repeated question. The permission to ask is enough.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn find_replayed(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Arc<LiveAnswer>, UseCaseError> {
        principal.require_any(&[Ask])?;
        Ok(self.find_own(principal.account(), conversation, message).await?)
    }

    /// Waits until the answer has ended or is paused, for at most `max_wait` and [`WAIT_MAX`], until `shutdown` completes, or until
    /// the principal has become invalid. Cancel safe.
    pub async fn wait_for_end(
        &self,
        principal: &Principal,
        live: &LiveAnswer,
        max_wait: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> WaitOutcome {
        let mut progress = live.progress();
        let ended = progress.wait_for(|progress| progress.ended || progress.paused);
        tokio::select! {
            _ = tokio::time::timeout(max_wait.min(WAIT_MAX), ended) => WaitOutcome::Show,
            () = shutdown => WaitOutcome::Show,
            () = self.access.clone().await_revocation(principal.clone()) => WaitOutcome::Revoked,
        }
    }

    async fn find_own(
        &self,
        account: AccountId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        let generation = match self.live.find_cached(message) {
            Ok(live) => {
                let live = require_own(live, account, conversation)?;
                render_ahead(&live).await;
                return Ok(live);
            }
            Err(generation) => generation,
        };
        let stored = self.read_stored(account, conversation, message).await?;
        let completed = stored.completed_at.is_some();
        let live = self.attach_reader(account, stored).await?;
        if !completed {
            return Ok(live);
        }
        let live = self.live.keep_completed(live, generation);
        render_ahead(&live).await;
        Ok(live)
    }

    /// Returns an answer that is in memory: it is being written here, or was read lately.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    #[must_use]
    pub fn find_live(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Option<Result<Arc<LiveAnswer>, UseCaseError>> {
        if let Err(refused) = principal.require_any(&[Read]) {
            return Some(Err(refused));
        }
        let live = self.live.find_cached(message).ok()?;
        Some(require_own(live, principal.account(), conversation).map_err(UseCaseError::from))
    }

    /// Returns the present state of a stored answer of the principal's account. Blocks while it renders an answer that is
    /// not in memory.
    #[must_use]
    pub fn snapshot_of(&self, principal: &Principal, stored: StoredAnswer) -> Arc<Snapshot> {
        self.live_of(principal, stored).snapshot()
    }

    /// Returns a stored answer of the principal's account, or its live copy if that is in memory.
    #[must_use]
    pub fn live_of(&self, principal: &Principal, stored: StoredAnswer) -> Arc<LiveAnswer> {
        let live = self.live.find_cached(stored.id).ok();
        live.unwrap_or_else(|| {
            Arc::new(LiveAnswer::new(answer_meta(principal.account(), &stored), stored.answer))
        })
    }

    /// Follows an answer until its end.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn follow_answer(
        &self,
        principal: &Principal,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<Follower, UseCaseError> {
        let live = self.find_answer(principal, conversation, message).await?;
        Ok(self.live.follow_answer(live, None))
    }

    /// Follows a conversation: its latest answer, then each later one, until the conversation is deleted.
    ///
    /// # Errors
    /// As [`Self::find_answer`].
    pub async fn follow_conversation(
        &self,
        principal: &Principal,
        conversation: ConversationId,
    ) -> Result<Follower, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let watch = self.live.watch_conversation(conversation);
        let stored =
            self.store.read(move |tx| conversations::latest_answer(tx, account, conversation)).await?;
        let latest = watch.latest_answer(self.attach_reader(account, stored).await?);
        Ok(self.live.follow_answer(latest, Some(watch)))
    }

    /// Attaches a reader to a stored answer. An answer in progress begins here, unless it was completed in the
    /// meantime. Dropping the future does not interrupt that, so that every answer begun here also ends.
    async fn attach_reader(
        &self,
        account: AccountId,
        stored: StoredAnswer,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        if stored.completed_at.is_some() {
            return Ok(Arc::new(LiveAnswer::new(answer_meta(account, &stored), stored.answer)));
        }
        let this = self.clone();
        let reading = self.background.see_through(async move { this.begin_live(account, stored).await });
        reading.await.unwrap_or(Err(StoreError::Panicked.into()))
    }

    /// Begins an answer in progress, and reads it again, because it may have ended before it was begun here.
    async fn begin_live(
        &self,
        account: AccountId,
        stored: StoredAnswer,
    ) -> Result<Arc<LiveAnswer>, ConversationError> {
        let meta = answer_meta(account, &stored);
        let live = self.live.begin_answer(meta, stored.answer);
        match self.read_stored(account, stored.conversation, stored.id).await {
            Ok(again) if again.completed_at.is_some() => {
                live.conclude(again.answer);
                self.live.finish_answer(stored.id);
                Ok(live)
            }
            Ok(_) => Ok(live),
            Err(ConversationError::NotFound) => {
                self.live.delete_conversation(stored.conversation);
                Err(ConversationError::NotFound)
            }
            // The state of the answer is unknown: it may have ended without a notice to this process.
            Err(error) => {
                let (this, meta) = (self.clone(), live.meta().clone());
                drop(live);
                // Others may be reading it by now.
                self.background
                    .spawn_until_shutdown(async move { settle_surely(&this.store, &this.live, &meta).await });
                Err(error)
            }
        }
    }

    async fn read_stored(
        &self,
        account: AccountId,
        conversation: ConversationId,
        message: MessageId,
    ) -> Result<StoredAnswer, ConversationError> {
        self.store.read(move |tx| conversations::find_answer(tx, account, conversation, message)).await
    }
}

/// Renders a completed long answer ahead of its readers, on a thread for blocking work, once for all of them. If the
/// reader leaves while it waits for other renderings, nothing is rendered.
async fn render_ahead(live: &Arc<LiveAnswer>) {
    static PERMITS: Semaphore = Semaphore::const_new(RENDERINGS_MAX);
    if !live.awaits_rendering(RENDERED_AT_ONCE_MAX_BYTES) {
        return;
    }
    let Ok(permit) = PERMITS.acquire().await else { return };
    let live = live.clone();
    // A panic was reported. The reader renders again.
    let _ = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        live.snapshot()
    })
    .await;
}

/// The answer, unless it is another's.
fn require_own(
    live: Arc<LiveAnswer>,
    account: AccountId,
    conversation: ConversationId,
) -> Result<Arc<LiveAnswer>, ConversationError> {
    let meta = live.meta();
    let own = meta.account == account && meta.conversation == conversation;
    if own { Ok(live) } else { Err(ConversationError::NotFound) }
}

pub(crate) fn answer_meta(account: AccountId, stored: &StoredAnswer) -> Meta {
    Meta {
        answer: stored.id,
        account,
        conversation: stored.conversation,
        created_at: stored.created_at,
        model: stored.model.clone(),
    }
}
