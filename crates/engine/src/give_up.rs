//! Fails an answer that can't make progress: its record is damaged, its agent is missing, or each attempt failed. The
//! reserved credits are released.

use std::time::Duration;

use domain::answer::{Answer, AnswerChange, AnswerEnding, AnswerFailure, ErrorCode, RevisionStamp};
use domain::excerpt::Excerpt;
use domain::id::{NodeId, PostingId};
use live::Live;
use store::conversations::{self, ConversationError, StoredAnswer};
use store::turns::{self, ClaimedTurn, Fence, TurnClaimOptions, TurnError};
use store::{Store, StoreError};

use super::answer_records::AnswerRecords;
use crate::environment::ServiceEnvironment;
use crate::spans::Spans;

/// The lease on an answer that is ended after a restore. Nobody else works on the database meanwhile.
const RESTORE_LEASE: Duration = Duration::from_secs(30);

/// Returns the error of an answer that the service could not continue.
pub(super) fn internal_error() -> AnswerFailure {
    let message = "The answer was ended: the service could not continue it.".to_owned();
    AnswerFailure { code: ErrorCode::Internal, message }
}

/// Returns the error of an answer whose agent is missing. Another agent may have other tools, so it does not take over.
pub(super) fn no_agent(agent: &str) -> AnswerFailure {
    let message = format!("The answer was ended: the agent {} does not exist any more.", Excerpt(agent));
    AnswerFailure { code: ErrorCode::AgentUnavailable, message }
}

/// Returns the error of an answer that was open in the backup from which the service was restored.
fn interrupted_error() -> AnswerFailure {
    let message = "The answer was ended: the service was restored from a backup that was made while it was written. It may have \
        done more than is shown here. Ask again if you still need it."
        .to_owned();
    AnswerFailure { code: ErrorCode::Interrupted, message }
}

/// The outcome of completing an answer with an error.
enum Completed {
    Now(Box<Answer>),
    /// It was completed before, or another process holds it.
    Before,
    NotYet(StoreError),
}

/// Completes the answer with an error, because of `why`, and returns whether nothing is left to do.
pub(super) async fn fail_answer(
    records: &AnswerRecords,
    live: &Live,
    claimed: ClaimedTurn,
    error: AnswerFailure,
    why: &str,
) -> bool {
    let (fence, id) = (claimed.fence, claimed.fence.answer);
    tracing::error!(answer = %id, attempts = claimed.attempts, why, "answer failed");
    match complete_answer(&records.store, &records.environment, claimed, error).await {
        Completed::Now(answer) => {
            record_end(records, fence, answer.ending.as_ref()).await;
            if let Some(shown) = live.get(id) {
                shown.conclude(*answer);
            }
            live.finish_answer(id);
            true
        }
        Completed::Before => true,
        Completed::NotYet(error) => {
            tracing::error!(answer = %id, %error, "completing a failed answer failed");
            false
        }
    }
}

/// Ends every answer in progress of a restored database that nobody serves yet, so that nothing is asked or run twice:
/// work after the backup may already be done. Returns the number of answers.
///
/// # Errors
/// [`StoreError`]. The answers that were not ended are still in progress.
pub async fn end_open_answers(store: &Store, environment: &ServiceEnvironment) -> Result<u64, StoreError> {
    let node = NodeId::from_random(environment.random_bits());
    store.write(|tx| turns::request_all_stops(tx)).await?;
    let mut ended = 0;
    loop {
        let now = environment.now();
        let options = TurnClaimOptions {
            node,
            now,
            lease_until: now.saturating_add(RESTORE_LEASE),
            per_account_max: 0,
            limit: 0,
        };
        let claimed: Vec<ClaimedTurn> = store.write(move |tx| turns::claim_stopped(tx, &options)).await?;
        if claimed.is_empty() {
            return Ok(ended);
        }
        for one in claimed {
            match complete_answer(store, environment, one, interrupted_error()).await {
                Completed::Now(_) => ended += 1,
                Completed::Before => {}
                Completed::NotYet(error) => return Err(error),
            }
        }
    }
}

/// Completes a claimed answer with an error. What it shows so far stays, unless its record is damaged.
async fn complete_answer(
    store: &Store,
    environment: &ServiceEnvironment,
    claimed: ClaimedTurn,
    error: AnswerFailure,
) -> Completed {
    let (fence, id) = (claimed.fence, claimed.fence.answer);
    let (account, conversation) = (claimed.account, claimed.conversation);
    let found = match store.read(move |tx| conversations::find_answer(tx, account, conversation, id)).await {
        // The conversation was deleted: the answer ends and is still paid for.
        Err(ConversationError::NotFound) => None,
        Ok(StoredAnswer { completed_at: Some(_), .. }) => return Completed::Before,
        Ok(stored) => Some(stored.answer),
        Err(ConversationError::Store(error @ StoreError::Damaged { .. })) => {
            tracing::error!(answer = %id, %error, "answer log damaged; partial answer lost");
            None
        }
        // The partial answer may be readable later.
        Err(ConversationError::Store(error)) => return Completed::NotYet(error),
    };
    let mut answer = found.unwrap_or_else(|| Answer::new(id, &[]));
    answer.stamp = RevisionStamp { epoch: fence.epoch, revision: 0 };
    answer.fold_change(
        RevisionStamp { revision: 1, ..answer.stamp },
        AnswerChange::Ended(AnswerEnding::Failed(error)),
    );
    let last = turns::AnswerCompletion {
        text: answer.unmarked_text(),
        answer: answer.clone(),
        release: PostingId::from_random(environment.random_bits()),
        now: environment.now(),
    };
    match store.write(move |tx| turns::complete_answer(tx, fence, &last)).await {
        Ok(()) => Completed::Now(Box::new(answer)),
        Err(TurnError::Fenced) => Completed::Before,
        Err(TurnError::Store(error)) => Completed::NotYet(error),
        Err(error @ (TurnError::StepCommitted | TurnError::Short(_))) => {
            tracing::error!(answer = %id, %error, "completion refused");
            Completed::NotYet(StoreError::Rule("a completion cannot commit a step or reserve credits"))
        }
    }
}

/// Records the end in trace and metrics.
async fn record_end(records: &AnswerRecords, fence: Fence, ending: Option<&AnswerEnding>) {
    let found = records.store.read(move |tx| turns::find_trace(tx, fence.answer)).await;
    // An answer that was deleted meanwhile is not recorded.
    let Ok(Some((trace, began))) = found else { return };
    let age = records.now().duration_since(began);
    records.metrics.record_end(ending, age);
    Spans::give_up(records.environment.tracer(), trace, fence).record_completion(ending, began);
}
