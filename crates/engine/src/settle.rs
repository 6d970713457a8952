//! Answers that are shown here and that nobody here writes any more: the store says how they stand, and their readers
//! are told.

use std::time::Duration;

use store::conversations::{self, ConversationError};
use store::{Store, StoreError};

use live::{Live, Meta};

/// The pause before the store is asked again when it failed; doubles.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_DOUBLINGS_MAX: u32 = 5;

/// Ends the answer here when it is completed or deleted in the store. One that is in progress stays as it is.
///
/// # Errors
/// When the store can't tell.
pub(crate) async fn settle(store: &Store, live: &Live, meta: &Meta) -> Result<(), StoreError> {
    let (account, conversation, answer) = (meta.account, meta.conversation, meta.answer);
    match store.read(move |tx| conversations::answer(tx, account, conversation, answer)).await {
        Ok(stored) if stored.completed_at.is_some() => {
            if let Some(shown) = live.get(answer) {
                shown.conclude(stored.answer);
            }
            live.finish(answer);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(ConversationError::NotFound) => {
            live.delete(conversation);
            Ok(())
        }
        Err(ConversationError::Store(error)) => Err(error),
    }
}

/// As [`settle`], as often as it takes, as long as somebody reads the answer. It is a task of this process and no job: only
/// this process knows its readers, and they are gone with it.
pub async fn settle_surely(store: &Store, live: &Live, meta: &Meta) {
    let mut failures = 0;
    loop {
        live.let_go(meta.answer);
        if live.get(meta.answer).is_none() {
            return;
        }
        match settle(store, live, meta).await {
            Ok(()) => return,
            // Reading it again tells nothing else; whoever works on it ends it.
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(answer = %meta.answer, %error, "answer data corrupt");
                return;
            }
            Err(error) => {
                tracing::warn!(answer = %meta.answer, %error, "answer state lookup failed");
                tokio::time::sleep(PAUSE * 2_u32.pow(failures.min(PAUSE_DOUBLINGS_MAX))).await;
                failures += 1;
            }
        }
    }
}
