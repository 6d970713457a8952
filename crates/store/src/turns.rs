//! Turns: leases on answers, their steps and results, and their completion.
//!
//! A process that works on an answer holds a lease on it, and each lease raises the answer's epoch by one.
//! Every write carries the [`Fence`] of its lease; if that is not the current lease, the write fails with
//! [`TurnError::Fenced`]. So a process that lost its lease without noticing cannot do harm.
//!
//! ```text
//!               claim                  complete
//!   waiting ────────────> leased ─────────────────> completed
//!      ^   release, lease over │
//!      ├───────────────────────┤     conversations::delete: requests a stop and hides the result
//!      └─reply─── paused <─pause─┘     a stop or the deadline: claimed to be completed
//! ```

mod claim;
pub mod delegations;
mod end;
mod lease;
mod load;
mod pauses;
mod steps;

use domain::credits::{AnswerCost, Credits, Shortage};
use domain::id::{AccountId, ConversationId, KeyId, MessageId, NodeId};
use domain::step::TokenUsage;

use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

pub(crate) use claim::lock_claims;
pub use claim::{claim_stopped, claim_turns};
pub use end::{AnswerCompletion, complete_answer};
pub(crate) use lease::end_all_leases;
pub use lease::{
    ClaimedTurn, HeldLease, TurnClaimOptions, open_answers, put_back, release_lease, renew_leases,
    request_all_stops,
};
pub(crate) use load::log_before_damage;
pub use load::{
    EARLIER_BRIEF_MAX_BYTES, EARLIER_EXCHANGES_MAX, EARLIER_WHOLE_MAX_BYTES, TurnRecord, find_trace,
    load_turn,
};
pub(crate) use pauses::pending_calls;
pub use pauses::{NewPause, NewReply, ReplyOutcome, ReplyRefused, give_reply, name_instance, pause_answer};
pub use steps::{Reserve, StepDone, StepLog, commit_result, commit_step, reserve_step};

/// A lease: the answer, its epoch and its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fence {
    pub answer: MessageId,
    /// The epoch that the lease started.
    pub epoch: u64,
    /// The process that holds it.
    pub node: NodeId,
}

/// The reasons why an operation on a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// The lease is not the current one: the answer was claimed by another process, completed or deleted.
    #[error("the lease was lost")]
    Fenced,
    /// This step or a later one is already committed.
    #[error("the step is already committed")]
    StepCommitted,
    /// The balance does not cover the step's maximal cost.
    #[error("the credits do not cover the step")]
    Short(Shortage),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The state of an answer in progress that fenced operations use.
struct OpenAnswer {
    account: AccountId,
    conversation: ConversationId,
    key: Option<KeyId>,
    /// The key has a spending limit.
    limited: bool,
    outstanding: Credits,
    next_step: u32,
}

/// Reads the answer under the lease. The write that follows checks again the parts that it relies on.
fn read_open_answer(tx: &mut dyn Sql, fence: Fence) -> Result<OpenAnswer, TurnError> {
    tx.query_one(
        "SELECT a.account_id, a.conversation_id, a.outstanding, a.next_step, q.key_id,
            (SELECT k.spending_limit FROM keys k WHERE k.id = q.key_id)
         FROM answers a JOIN dispatch d ON d.answer_id = a.id
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.id = $1 AND a.epoch = $2 AND a.completed_at IS NULL AND d.node_id = $3",
        params![fence.answer, stored_int(fence.epoch)?, fence.node],
        |row| {
            Ok(OpenAnswer {
                account: row.get_id(0)?,
                conversation: row.get_id(1)?,
                outstanding: row.get_credits(2)?,
                next_step: row.get_u32(3)?,
                key: row.opt_id(4)?,
                limited: row.opt_int(5)?.is_some(),
            })
        },
    )?
    .ok_or(TurnError::Fenced)
}

/// Locks the account, so that the result of [`read_open_answer`] stays valid: every write that completes an answer or
/// moves its reserved credits locks the account first.
fn lock_account(tx: &mut dyn Sql, fence: Fence) -> Result<()> {
    tx.lock_rows(
        "SELECT id FROM accounts WHERE id = (SELECT account_id FROM answers WHERE id = $1)
         FOR NO KEY UPDATE",
        params![fence.answer],
    )
}

/// The columns of an [`AnswerCost`] in the table `answers`.
macro_rules! cost_columns {
    () => {
        "a.settled, a.used_input, a.used_cached, a.used_output, a.used_reasoning, a.used_estimated"
    };
}
pub(crate) use cost_columns;

/// Reads [`cost_columns`] from `column` on.
pub(crate) fn read_cost(row: &dyn SqlRow, column: usize) -> Result<AnswerCost> {
    Ok(AnswerCost {
        settled: row.get_credits(column)?,
        used: TokenUsage {
            input_tokens: row.get_count(column + 1)?,
            cached_tokens: row.get_count(column + 2)?,
            output_tokens: row.get_count(column + 3)?,
            reasoning_tokens: row.get_count(column + 4)?,
            estimated: row.get_flag(column + 5)?,
        },
    })
}
