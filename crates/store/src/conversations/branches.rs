//! Branches: the exchanges of a conversation form a tree, and one path of it is shown.
//!
//! An exchange knows its parent. One child of each parent is chosen: the one that was shown last. The path of chosen
//! exchanges from the beginning on is shown, so a user who returns to a branch finds it unchanged. Indexes of the
//! database permit one shown exchange at each depth, and one chosen exchange among the hidden children of a parent.
//!
//! Everything else reads the shown branch: the public interface, the model's context, exports. While an answer is in
//! progress its branch stays shown.

use domain::id::{AccountId, ConversationId, MessageId};

use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, params};

/// The place of an exchange in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExchangePlace {
    /// Its number among all exchanges of the conversation, from 0.
    pub(crate) ordinal: u32,
    /// The ordinal of the exchange before it.
    pub(crate) parent: Option<u32>,
    /// The number of exchanges before it.
    pub(crate) depth: u32,
}

impl ExchangePlace {
    /// Returns the value of the column `parent`.
    pub(crate) fn parent_column(self) -> i64 {
        self.parent.map_or(-1, i64::from)
    }
}

/// The branch of a conversation that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShownBranch {
    pub last: MessageId,
    /// The number of its exchanges.
    pub exchanges: u32,
}

/// The reasons why [`show_branch`] failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ShowRefused {
    /// The conversation or answer does not exist, or belongs to another account.
    #[error("no such conversation or message")]
    NotFound,
    /// An answer of the conversation is in progress.
    #[error("the conversation is still being answered: wait for the answer or stop it")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of [`show_branch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchPosition {
    /// The position among the shown exchanges, from 0.
    pub position: u32,
    /// The number of exchanges that are shown.
    pub exchanges: u32,
    /// True if another branch was shown before.
    pub is_other: bool,
}

/// The versions of an exchange that has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versions {
    /// The position among the shown exchanges, from 0.
    pub position: u32,
    /// The number of the version that is shown, from 1.
    pub number: u32,
    /// The number of versions.
    pub count: u32,
    /// The answer of the version before the one that is shown.
    pub previous: Option<MessageId>,
    /// The answer of the version after it.
    pub next: Option<MessageId>,
}

/// Shows the branch of an answer in its last state. The conversation continues with the model of its last exchange.
/// Leaves `modified_at` unchanged.
///
/// # Errors
/// [`ShowRefused`].
pub fn show_branch(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<BranchPosition, ShowRefused> {
    // A question that is asked in the meantime waits.
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    let (place, is_shown) = place_of(tx, account, conversation, answer)?.ok_or(ShowRefused::NotFound)?;
    if !is_shown {
        let open = tx.query_one(
            "SELECT id FROM answers WHERE conversation_id = $1 AND completed_at IS NULL",
            params![conversation],
            |_| Ok(()),
        )?;
        if open.is_some() {
            return Err(ShowRefused::Busy);
        }
        show_place(tx, conversation, place)?;
    }
    let last = tx.query_one(
        "SELECT depth FROM questions WHERE conversation_id = $1 AND shown = 1 ORDER BY depth DESC LIMIT 1",
        params![conversation],
        |row| row.get_u32(0),
    )?;
    let exchanges = last.unwrap_or(place.depth).saturating_add(1);
    Ok(BranchPosition { position: place.depth, exchanges, is_other: !is_shown })
}

/// Returns the model with which the branch of an answer continues; `None` if the answer does not exist, or belongs to
/// another account.
///
/// # Errors
/// [`StoreError`].
pub fn model_of_branch(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<Option<String>> {
    tx.query_one(
        "WITH RECURSIVE branch (ordinal, depth, shown, model) AS (
            SELECT q.ordinal, q.depth, q.shown, q.model FROM answers a
                JOIN conversations c ON c.id = a.conversation_id
                JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
                WHERE a.id = $3 AND c.id = $2 AND c.account_id = $1 AND c.deleted_at IS NULL
            UNION ALL SELECT q.ordinal, q.depth, q.shown, q.model FROM questions q
                JOIN branch b ON q.conversation_id = $2 AND q.parent = b.ordinal
                WHERE q.shown = 1 OR b.shown = 0 AND q.chosen = 1)
         SELECT model FROM branch ORDER BY depth DESC LIMIT 1",
        params![account, conversation, answer],
        |row| Ok(row.get_text(0)?.to_owned()),
    )
}

/// Returns the branch that is shown; `None` if the conversation does not exist or belongs to another account.
///
/// # Errors
/// [`StoreError`].
pub fn shown_branch(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<Option<ShownBranch>> {
    tx.query_one(
        "SELECT a.id, q.depth FROM conversations c JOIN questions q ON q.conversation_id = c.id
         JOIN answers a ON a.conversation_id = q.conversation_id AND a.ordinal = q.ordinal
         WHERE c.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL AND q.shown = 1
         ORDER BY q.depth DESC LIMIT 1",
        params![conversation, account],
        |row| Ok(ShownBranch { last: row.get_id(0)?, exchanges: row.get_u32(1)?.saturating_add(1) }),
    )
}

/// Returns true if the exchange of an answer is shown.
///
/// # Errors
/// [`StoreError`].
pub fn is_shown(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<bool> {
    Ok(place_of(tx, account, conversation, answer)?.is_some_and(|(_, is_shown)| is_shown))
}

/// Returns the versions of the exchanges that have several, among `limit` shown exchanges from the position `from` on,
/// in their order.
///
/// # Errors
/// [`StoreError`].
pub fn list_versions(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    from: u32,
    limit: u32,
) -> Result<Vec<Versions>> {
    let others = tx.query_all(
        "SELECT q.depth, q.ordinal, s.ordinal, a.id
         FROM conversations c JOIN questions q ON q.conversation_id = c.id
         JOIN questions s ON s.conversation_id = q.conversation_id AND s.parent = q.parent AND s.shown = 0
         JOIN answers a ON a.conversation_id = s.conversation_id AND a.ordinal = s.ordinal
         WHERE c.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL AND q.shown = 1 AND q.depth >= $3
            AND q.depth < $4
         ORDER BY q.depth, s.ordinal",
        params![conversation, account, from, from.saturating_add(limit)],
        |row| Ok((row.get_u32(0)?, row.get_int(1)?, row.get_int(2)?, row.get_id(3)?)),
    )?;
    let mut versions = Vec::<Versions>::new();
    for (position, shown, other, answer) in others {
        if versions.last().is_none_or(|last| last.position != position) {
            versions.push(Versions { position, number: 1, count: 1, previous: None, next: None });
        }
        let Some(of) = versions.last_mut() else { continue };
        of.count += 1;
        if other < shown {
            of.number += 1;
            of.previous = Some(answer);
        } else if of.next.is_none() {
            of.next = Some(answer);
        }
    }
    Ok(versions)
}

/// Returns the place of an answer's exchange, and whether it is shown.
pub(crate) fn place_of(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<Option<(ExchangePlace, bool)>> {
    tx.query_one(
        "SELECT q.ordinal, q.parent, q.depth, q.shown FROM answers a
         JOIN conversations c ON c.id = a.conversation_id
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.id = $3 AND c.id = $2 AND c.account_id = $1 AND c.deleted_at IS NULL",
        params![account, conversation, answer],
        |row| {
            let parent = (row.get_int(1)? >= 0).then(|| row.get_u32(1)).transpose()?;
            Ok((ExchangePlace { ordinal: row.get_u32(0)?, parent, depth: row.get_u32(2)? }, row.get_flag(3)?))
        },
    )
}

/// The exchange $2 of the conversation $1 and those before it that are not shown.
macro_rules! hidden_path {
    () => {
        "WITH RECURSIVE hidden (ordinal, parent, depth) AS (
            SELECT ordinal, parent, depth FROM questions WHERE conversation_id = $1 AND ordinal = $2
            UNION ALL SELECT q.ordinal, q.parent, q.depth FROM questions q
                JOIN hidden h ON q.conversation_id = $1 AND q.ordinal = h.parent WHERE q.shown = 0) "
    };
}

/// Shows the branch of an exchange that is not shown. The caller has locked the account.
pub(crate) fn show_place(tx: &mut dyn Sql, conversation: ConversationId, place: ExchangePlace) -> Result<()> {
    let path = params![conversation, place.ordinal];
    let top = tx.query_one(
        concat!(hidden_path!(), "SELECT ordinal, depth FROM hidden ORDER BY depth LIMIT 1"),
        path,
        |row| Ok((row.get_u32(0)?, row.get_u32(1)?)),
    )?;
    let (first, depth) = top.ok_or(StoreError::TransactionLost)?;
    tx.send_statement(
        "UPDATE questions SET shown = 0 WHERE conversation_id = $1 AND shown = 1 AND depth >= $2",
        params![conversation, depth],
    )?;
    tx.send_statement(
        concat!(
            hidden_path!(),
            "UPDATE questions SET chosen = 0 WHERE conversation_id = $1 AND shown = 0 AND chosen = 1
                AND parent IN (SELECT parent FROM hidden)"
        ),
        path,
    )?;
    tx.send_statement(
        concat!(
            hidden_path!(),
            "UPDATE questions SET chosen = 1 WHERE conversation_id = $1 AND ordinal IN (SELECT ordinal FROM hidden)"
        ),
        path,
    )?;
    tx.send_statement(
        "WITH RECURSIVE branch (ordinal) AS (
            SELECT ordinal FROM questions WHERE conversation_id = $1 AND ordinal = $2
            UNION ALL SELECT q.ordinal FROM questions q
                JOIN branch b ON q.conversation_id = $1 AND q.parent = b.ordinal
                WHERE q.shown = 0 AND q.chosen = 1)
         UPDATE questions SET shown = 1 WHERE conversation_id = $1 AND ordinal IN (SELECT ordinal FROM branch)",
        params![conversation, first],
    )?;
    tx.send_statement(
        "UPDATE conversations SET (model, settings) = (SELECT q.model, q.settings FROM questions q
            WHERE q.conversation_id = $1 AND q.shown = 1 ORDER BY q.depth DESC LIMIT 1)
         WHERE id = $1",
        params![conversation],
    )
}
