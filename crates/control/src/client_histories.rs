//! Finds the conversations of clients that keep their histories themselves, and the answers of their repeated requests.

use domain::id::{ConversationId, MessageId};
use domain::scope::Permission::Ask;
use domain::time::Timestamp;
pub use store::client_histories::{
    ClientExchange, HistoryHash, HistoryLookup, HistoryPlace, ImportedExchange, PlaceLookup,
};
use store::{Sql, Store, client_histories, conversations};

use engine::{BackgroundTasks, Dispatch, ServiceEnvironment};

use crate::error::UseCaseError;
use crate::principal::Principal;

/// The time within which a repeated request gets the answer of the first one, in microseconds: ten minutes.
const REPEATED_WITHIN_MICROS: i64 = 10 * 60 * 1_000_000;

/// The histories of clients. Cheap to clone.
#[derive(Clone)]
pub struct ClientHistories {
    store: Store,
    environment: ServiceEnvironment,
    dispatch: Dispatch,
    background: BackgroundTasks,
}

impl ClientHistories {
    pub(crate) fn new(
        store: &Store,
        environment: &ServiceEnvironment,
        dispatch: &Dispatch,
        background: &BackgroundTasks,
    ) -> Self {
        let (store, environment) = (store.clone(), environment.clone());
        Self { store, environment, dispatch: dispatch.clone(), background: background.clone() }
    }

    /// Returns a new identifier of a message.
    #[must_use]
    pub fn new_message_id(&self) -> MessageId {
        MessageId::made_at(self.environment.now(), self.environment.random_bits())
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.environment.now()
    }

    /// Returns the current time in seconds.
    #[must_use]
    pub fn now_seconds(&self) -> u64 {
        u64::try_from(self.environment.now().micros() / 1_000_000).unwrap_or_default()
    }

    /// Returns the place where a question continues; `None` if no conversation of the account has it.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn find_place(
        &self,
        principal: &Principal,
        lookup: PlaceLookup,
    ) -> Result<Option<HistoryPlace>, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let place = move |tx: &mut dyn Sql| client_histories::find_place(tx, account, &lookup);
        Ok(self.store.read(place).await?)
    }

    /// Returns the answer of the same request, if it was accepted within the last ten minutes.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn find_repeated(
        &self,
        principal: &Principal,
        request_hash: HistoryHash,
    ) -> Result<Option<(ConversationId, MessageId)>, UseCaseError> {
        principal.require_any(&[Ask])?;
        let account = principal.account();
        let since = Timestamp::from_micros(self.environment.now().micros() - REPEATED_WITHIN_MICROS);
        let found = move |tx: &mut dyn Sql| client_histories::find_request(tx, account, &request_hash, since);
        Ok(self.store.read(found).await?)
    }

    /// Records the history after an answer that the client has got as a whole. Dropping the future does not interrupt it.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn record_sent_answer(
        &self,
        principal: &Principal,
        answer: MessageId,
        after_hash: HistoryHash,
    ) -> Result<(), UseCaseError> {
        principal.require_any(&[Ask])?;
        let (store, account) = (self.store.clone(), principal.account());
        let recorded = self.background.see_through(async move {
            let record = move |tx: &mut dyn Sql| {
                client_histories::record_sent_answer(tx, account, answer, &after_hash)
            };
            store.write(record).await
        });
        Ok(recorded.await.unwrap_or(Err(store::StoreError::Panicked))?)
    }

    /// Stops an answer that its client has abandoned. Does nothing if it is completed. Dropping the future does not
    /// interrupt it.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn stop_abandoned(&self, principal: &Principal, answer: MessageId) -> Result<(), UseCaseError> {
        principal.require_any(&[Ask])?;
        let (this, account) = (self.clone(), principal.account());
        let stopped = self.background.see_through(async move {
            let stop = move |tx: &mut dyn Sql| conversations::request_answer_stop(tx, account, answer);
            let is_open = this.store.write(stop).await?;
            if is_open {
                this.dispatch.stop_answer(answer);
            }
            Ok::<_, store::StoreError>(())
        });
        Ok(stopped.await.unwrap_or(Err(store::StoreError::Panicked))?)
    }
}
