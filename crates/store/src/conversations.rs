//! Conversations and their messages (sections 2.8, 2.9 and 4.4 of the interface).

mod branches;
mod delete;
mod read;

use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;

use crate::codec;
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

pub use branches::{
    BranchPosition, ShowRefused, ShownBranch, Versions, is_shown, list_versions, model_of_branch,
    show_branch, shown_branch,
};
pub(crate) use branches::{ExchangePlace, place_of, show_place};
pub use delete::{DeletedConversation, delete_conversation, remove_conversation_rows};
pub use read::{
    AskedExchange, ConversationDetail, EXCHANGES_PAGE_MAX, StoredAnswer, StoredMessage, StoredQuestion,
    answer_bill, answer_cost, asked_exchange, conversation_of_answer, find_answer, latest_answer,
    read_conversation, read_messages, title_and_first_question,
};

/// The largest page of [`list_conversations`].
pub const CONVERSATIONS_PAGE_MAX: u32 = 200;

/// The columns of a [`ConversationSummary`] in the table `conversations`, without the open answer.
macro_rules! summary_columns {
    () => {
        "id, title, model, settings, jurisdictions, web_search, pinned, created_at, modified_at"
    };
}
/// Selects a [`ConversationSummary`] by conversation and account.
macro_rules! summary_select {
    () => {
        concat!(
            "SELECT ",
            summary_columns!(),
            ", (SELECT a.id FROM answers a WHERE a.conversation_id = c.id AND a.completed_at IS NULL)
             FROM conversations c"
        )
    };
}
pub(crate) use summary_columns;

/// Summaries of account $1, at most $2 from offset $3 on. A covering index finds the page; only its rows are
/// then read.
const LISTED: &str = concat!(
    summary_select!(),
    " JOIN (SELECT id AS listed FROM conversations WHERE account_id = $1 AND deleted_at IS NULL
         ORDER BY pinned DESC, modified_at DESC, id DESC LIMIT $2 OFFSET $3) page ON page.listed = c.id
      ORDER BY c.pinned DESC, c.modified_at DESC, c.id DESC"
);

/// A conversation in a list (section 2.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationSummary {
    pub id: ConversationId,
    pub title: String,
    /// The model that answers.
    pub model: String,
    /// The settings of the model, as keys and values.
    pub settings: Vec<(String, String)>,
    pub jurisdictions: Vec<String>,
    /// Answers may search the web.
    pub web_search: bool,
    /// Pinned conversations are listed first.
    pub pinned: bool,
    pub created_at: Timestamp,
    /// The time of the last question or completed answer.
    pub modified_at: Timestamp,
    /// The answer in progress, if any.
    pub open_answer: Option<MessageId>,
}

/// A page of an account's conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationListPage {
    /// The conversations: pinned ones first, then the latest modified.
    pub conversations: Vec<ConversationSummary>,
    /// The number of conversations of the account.
    pub total: u64,
}

/// The reasons why an operation on a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The conversation or message does not exist, or belongs to another account.
    #[error("no such conversation or message")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The changes of [`patch_conversation`]; `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConversationPatch {
    /// The title, at most 120 characters.
    pub title: Option<String>,
    /// Lists the conversation first.
    pub pinned: Option<bool>,
}

/// Returns a page of the account's conversations: `limit` (at most [`CONVERSATIONS_PAGE_MAX`]) from `offset`
/// on.
///
/// # Errors
/// [`StoreError`].
pub fn list_conversations(
    tx: &mut dyn Sql,
    account: AccountId,
    offset: u64,
    limit: u32,
) -> Result<ConversationListPage> {
    let page = params![account, limit.min(CONVERSATIONS_PAGE_MAX), stored_int(offset)?];
    let conversations = tx.query_all(LISTED, page, read_summary)?;
    let total = tx
        .query_one("SELECT conversations FROM accounts WHERE id = $1", params![account], |row| {
            row.get_count(0)
        })?
        .unwrap_or(0);
    Ok(ConversationListPage { conversations, total })
}

/// Returns the name of the key that asked the first question of a conversation, if any.
///
/// # Errors
/// [`StoreError`].
pub fn key_name(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<Option<String>> {
    tx.query_one(
        "SELECT k.name FROM questions q JOIN keys k ON k.id = q.key_id
         WHERE q.conversation_id = $2 AND q.ordinal = 0 AND k.account_id = $1",
        params![account, conversation],
        |row| Ok(row.get_text(0)?.to_owned()),
    )
}

/// Returns the summary of a conversation.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn read_conversation_summary(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<ConversationSummary, ConversationError> {
    tx.query_one(
        concat!(summary_select!(), " WHERE c.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL"),
        params![conversation, account],
        read_summary,
    )?
    .ok_or(ConversationError::NotFound)
}

/// Changes the title or the pin. Leaves `modified_at` unchanged.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn patch_conversation(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    patch: &ConversationPatch,
) -> Result<ConversationSummary, ConversationError> {
    tx.execute(
        "UPDATE conversations SET title = COALESCE($3, title), pinned = COALESCE($4, pinned),
            searched_at = CASE WHEN $3 IS NULL THEN searched_at END
         WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL",
        params![conversation, account, patch.title.as_ref(), patch.pinned],
    )?;
    read_conversation_summary(tx, account, conversation)
}

/// Replaces the title by one that was derived from another question. Leaves `modified_at` unchanged.
///
/// # Errors
/// [`StoreError`].
pub fn set_title(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    title: &str,
) -> Result<()> {
    tx.send_statement(
        "UPDATE conversations SET title = $3, searched_at = NULL
         WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL",
        params![conversation, account, title],
    )
}

/// Requests a stop of the answer in progress, which the returned summary names. Does nothing if there is
/// none.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn request_stop(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<ConversationSummary, ConversationError> {
    let summary = read_conversation_summary(tx, account, conversation)?;
    if let Some(answer) = summary.open_answer {
        tx.execute("UPDATE dispatch SET stop_requested = 1 WHERE answer_id = $1", params![answer])?;
    }
    Ok(summary)
}

/// Requests a stop of this answer. Does nothing and returns false if it is not in progress.
///
/// # Errors
/// [`StoreError`].
pub fn request_answer_stop(tx: &mut dyn Sql, account: AccountId, answer: MessageId) -> Result<bool> {
    let requested = tx.execute(
        "UPDATE dispatch SET stop_requested = 1 WHERE answer_id = $1 AND account_id = $2",
        params![answer, account],
    )?;
    Ok(requested > 0)
}

/// Reads [`summary_columns`] and the open answer.
pub(crate) fn read_summary(row: &dyn SqlRow) -> Result<ConversationSummary> {
    Ok(ConversationSummary { open_answer: row.opt_id(9)?, ..read_summary_columns(row)? })
}

/// Reads [`summary_columns`].
pub(crate) fn read_summary_columns(row: &dyn SqlRow) -> Result<ConversationSummary> {
    let id = row.get_text(0)?;
    Ok(ConversationSummary {
        id: row.get_id(0)?,
        title: row.get_text(1)?.to_owned(),
        model: row.get_text(2)?.to_owned(),
        settings: codec::decode_json(row.get_text(3)?, "conversation", id)?,
        jurisdictions: codec::decode_json(row.get_text(4)?, "conversation", id)?,
        web_search: row.get_flag(5)?,
        pinned: row.get_flag(6)?,
        created_at: row.get_time(7)?,
        modified_at: row.get_time(8)?,
        open_answer: None,
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn list_conversations_uses_covering_index() {
        let mut connection = Connection::open_in_memory().expect("a database");
        crate::migrations::apply_migrations(&mut connection).expect("tables");
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {LISTED}")).expect("a plan");
        let steps = plan.query_map(["", "50", "49950"], |row| row.get::<_, String>(3)).expect("its steps");
        let steps: Vec<_> = steps.map(|step| step.expect("a step")).collect();
        let index = "SEARCH conversations USING COVERING INDEX conversations_listed (account_id=?)";
        assert!(steps.iter().any(|step| step == index), "{steps:#?}");
    }
}
