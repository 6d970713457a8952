//! Ends answers that have readers here but are written by no turn of this process: reads their state from the store
//! and notifies the readers.

use std::time::Duration;

use store::conversations::{self, ConversationError};
use store::{Store, StoreError};

use live::{Live, Meta};

/// The pause after a failure of the store; doubles.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_DOUBLINGS_MAX: u32 = 5;

/// Ends the answer here if it is completed or deleted in the store. An answer in progress stays unchanged.
///
/// # Errors
/// When the store fails.
pub(crate) async fn end_if_completed(store: &Store, live: &Live, meta: &Meta) -> Result<(), StoreError> {
    let (account, conversation, answer) = (meta.account, meta.conversation, meta.answer);
    match store.read(move |tx| conversations::find_answer(tx, account, conversation, answer)).await {
        Ok(stored) if stored.completed_at.is_some() => {
            if let Some(shown) = live.get(answer) {
                shown.conclude(stored.answer);
            }
            live.finish_answer(answer);
            Ok(())
        }
        Ok(_) => Ok(()),
        Err(ConversationError::NotFound) => {
            live.delete_conversation(conversation);
            Ok(())
        }
        Err(ConversationError::Store(error)) => Err(error),
    }
}

/// Repeats [`end_if_completed`] until it succeeds, as long as the answer has readers. This is a task and not a
/// background job, because only this process knows the readers, and they end with it.
pub async fn settle_surely(store: &Store, live: &Live, meta: &Meta) {
    let mut failures = 0;
    loop {
        live.let_go(meta.answer);
        if live.get(meta.answer).is_none() {
            return;
        }
        match end_if_completed(store, live, meta).await {
            Ok(()) => return,
            // Reading it again gives the same result; the turn that works on it ends it.
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
