//! Fails an answer that can't make progress: its record is damaged, its agent is gone, or each attempt failed. The
//! reserved credits are released.

use domain::answer::{Answer, AnswerError, Change, Ending, ErrorCode, Stamp};
use domain::excerpt::Excerpt;
use domain::id::PostingId;
use store::StoreError;
use store::conversations::{self, ConversationError, StoredAnswer};
use store::turns::{self, ClaimedTurn, Fence, TurnError};

use super::shared::Shared;
use crate::spans::Spans;

/// Returns the error of an answer that the service could not go on with.
pub(super) fn internal() -> AnswerError {
    let message = "The answer was ended: the service could not go on with it.".to_owned();
    AnswerError { code: ErrorCode::Internal, message }
}

/// Returns the error of an answer whose agent is gone. Another agent may have other tools, so it does not take over.
pub(super) fn no_agent(agent: &str) -> AnswerError {
    let message = format!("The answer was ended: the agent {} is no longer there.", Excerpt(agent));
    AnswerError { code: ErrorCode::AgentUnavailable, message }
}

/// Completes the answer with an error, because of `why`, and returns whether nothing is left to do.
pub(super) async fn end(shared: &Shared, claimed: ClaimedTurn, error: AnswerError, why: &str) -> bool {
    let (fence, id) = (claimed.fence, claimed.fence.answer);
    tracing::error!(answer = %id, attempts = claimed.attempts, why, "answer failed");
    let (account, conversation) = (claimed.account, claimed.conversation);
    let found =
        match shared.parts.store.read(move |tx| conversations::answer(tx, account, conversation, id)).await {
            // The conversation was deleted: the answer ends and is still paid for.
            Err(ConversationError::NotFound) => None,
            Ok(StoredAnswer { completed_at: Some(_), .. }) => return true,
            Ok(stored) => Some(stored.answer),
            Err(ConversationError::Store(error @ StoreError::Damaged { .. })) => {
                tracing::error!(answer = %id, %error, "answer log damaged; partial answer lost");
                None
            }
            // The partial answer may be readable later.
            Err(ConversationError::Store(error)) => {
                tracing::error!(answer = %id, %error, "failed answer could not be read");
                return false;
            }
        };
    let mut answer = found.unwrap_or_else(|| Answer::new(id, &[]));
    answer.stamp = Stamp { epoch: fence.epoch, revision: 0 };
    answer.fold(Stamp { revision: 1, ..answer.stamp }, Change::Ended(Ending::Failed(error)));
    let last = turns::Completion {
        text: answer.text(),
        answer: answer.clone(),
        release: PostingId::from_random(shared.parts.environment.bits()),
        now: shared.parts.environment.now(),
    };
    let ending = answer.ending.clone();
    match shared.parts.store.write(move |tx| turns::complete(tx, fence, &last)).await {
        Ok(()) => {
            tell(shared, fence, ending.as_ref()).await;
            if let Some(live) = shared.parts.live.get(id) {
                live.conclude(answer);
            }
            shared.parts.live.finish(id);
            true
        }
        Err(TurnError::Fenced) => true,
        Err(error) => {
            tracing::error!(answer = %id, %error, "failed answer could not be completed");
            false
        }
    }
}

/// Records the end in trace and metrics.
async fn tell(shared: &Shared, fence: Fence, ending: Option<&Ending>) {
    let found = shared.parts.store.read(move |tx| turns::trace(tx, fence.answer)).await;
    // An answer that was deleted meanwhile is not recorded.
    let Ok(Some((trace, began))) = found else { return };
    let age = shared.parts.environment.now().since(began);
    shared.metrics.ended(ending, age);
    Spans::give_up(shared.parts.environment.tracer(), trace, fence).completed(ending, began);
}
