//! Finds conversations by the words of their titles and messages.
//!
//! An account's conversations are indexed when its owner searches: at first all, later those that have changed. So an
//! account that only asks pays nothing. The caller makes words of the texts, for the index and for a search alike.

use std::collections::BTreeSet;

use domain::id::{AccountId, ConversationId};
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, Value, int, params};

/// The longest word, in bytes.
pub const WORD_MAX_BYTES: usize = 64;
/// The exchanges of a conversation that are indexed at once.
pub const INDEXED_TOGETHER_MAX: u32 = 16;
/// The words of a search that count.
pub const WORDS_MAX: usize = 4;
/// The largest result of [`find`].
pub const FOUND_MAX: u32 = 200;

/// The texts of a conversation that are not indexed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unindexed {
    pub conversation: ConversationId,
    pub title: String,
    /// The questions and completed answers of up to [`INDEXED_TOGETHER_MAX`] exchanges.
    pub texts: Vec<String>,
    /// The number of exchanges that are indexed once these texts are.
    pub exchanges: u32,
    /// The time of the conversation's change up to which it is indexed then; `None` if exchanges remain.
    pub until: Option<Timestamp>,
}

/// Returns the texts of up to `limit` conversations that have changed since they were indexed, last changed first.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn unindexed(tx: &mut dyn Sql, account: AccountId, limit: u32) -> Result<Vec<Unindexed>> {
    let found = tx.all(
        "SELECT id, title, searched_exchanges, modified_at FROM conversations
         WHERE account_id = $1 AND deleted_at IS NULL AND (searched_at IS NULL OR searched_at < modified_at)
         ORDER BY modified_at DESC LIMIT $2",
        params![account, limit],
        |row| Ok((row.id(0)?, row.text(1)?.to_owned(), row.small(2)?, row.time(3)?)),
    )?;
    let mut unindexed = Vec::with_capacity(found.len());
    for (conversation, title, from, modified_at) in found {
        let exchanges = texts(tx, conversation, from)?;
        let read = u32::try_from(exchanges.len()).unwrap_or(u32::MAX);
        let is_whole = read < INDEXED_TOGETHER_MAX;
        unindexed.push(Unindexed {
            conversation,
            title,
            texts: exchanges.into_iter().flat_map(|(question, answer)| [question, answer]).collect(),
            exchanges: from.saturating_add(read),
            until: is_whole.then_some(modified_at),
        });
    }
    Ok(unindexed)
}

/// Reads questions with their completed answers.
fn texts(tx: &mut dyn Sql, conversation: ConversationId, from: u32) -> Result<Vec<(String, String)>> {
    tx.all(
        // The first characters of each message.
        "SELECT substr(q.text, 1, 65536), substr(a.text, 1, 65536) FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.conversation_id = $1 AND a.ordinal >= $2 AND a.text IS NOT NULL ORDER BY a.ordinal LIMIT $3",
        params![conversation, from, INDEXED_TOGETHER_MAX],
        |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())),
    )
}

/// Adds the words of texts that [`unindexed`] returned. Words that are there, or longer than [`WORD_MAX_BYTES`], are passed
/// over. Does nothing if the conversation was deleted in the meantime.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn index(
    tx: &mut dyn Sql,
    account: AccountId,
    indexed: &Unindexed,
    words: &BTreeSet<String>,
) -> Result<()> {
    let found = tx.execute(
        "UPDATE conversations SET searched_exchanges = $3, searched_at = COALESCE($4, searched_at)
         WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL",
        params![indexed.conversation, account, indexed.exchanges, indexed.until],
    )?;
    if found == 0 {
        return Ok(());
    }
    for word in words.iter().filter(|word| (1..=WORD_MAX_BYTES).contains(&word.len())) {
        tx.send(
            "INSERT INTO search_words (account_id, word, conversation_id) VALUES ($1, $2, $3)
             ON CONFLICT (account_id, word, conversation_id) DO NOTHING",
            params![account, word, indexed.conversation],
        )?;
    }
    Ok(())
}

/// The conversations that have the first `n` words, in the order of [`conversations::list`](crate::conversations::list).
macro_rules! matching {
    ($($from:literal $beyond:literal),+) => {
        concat!(
            "SELECT id FROM conversations WHERE account_id = $1 AND deleted_at IS NULL",
            $(
                " AND id IN (SELECT conversation_id FROM search_words WHERE account_id = $1 AND word >= ", $from,
                " AND word < ", $beyond, ")",
            )+
            " ORDER BY pinned DESC, modified_at DESC, id DESC LIMIT $2 OFFSET $3"
        )
    };
}

/// The statements for one word, two words, and so on.
const MATCHING: [&str; WORDS_MAX] = [
    matching!("$4" "$5"),
    matching!("$4" "$5", "$6" "$7"),
    matching!("$4" "$5", "$6" "$7", "$8" "$9"),
    matching!("$4" "$5", "$6" "$7", "$8" "$9", "$10" "$11"),
];

/// Returns up to `limit` conversations (at most [`FOUND_MAX`]) from `offset` on that have a word for each prefix which begins
/// with it: pinned ones first, then by the last change. Prefixes beyond the first [`WORDS_MAX`] do not count; without any,
/// nothing is found.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find(
    tx: &mut dyn Sql,
    account: AccountId,
    prefixes: &[String],
    offset: u64,
    limit: u32,
) -> Result<Vec<ConversationId>> {
    let prefixes = &prefixes[..prefixes.len().min(WORDS_MAX)];
    let Some(statement) = prefixes.len().checked_sub(1).map(|last| MATCHING[last]) else {
        return Ok(Vec::new());
    };
    let beyond: Vec<String> = prefixes.iter().map(|prefix| format!("{prefix}{}", char::MAX)).collect();
    let mut parameters = params![account, limit.min(FOUND_MAX), int(offset)?].to_vec();
    for (from, beyond) in prefixes.iter().zip(&beyond) {
        parameters.extend([Value::from(from), Value::from(beyond)]);
    }
    tx.all(statement, &parameters, |row| row.id(0))
}
