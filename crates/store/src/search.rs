//! Finds conversations by the words of their titles and messages.
//!
//! An account's conversations are indexed when its owner searches: at first all, later the changed ones. So an
//! account that only asks pays nothing. The caller splits the texts into words, both for the index and for a search.

use std::collections::BTreeSet;

use domain::id::{AccountId, ConversationId};
use domain::time::Timestamp;

use crate::sql::{Result, RowExt, Sql, SqlExt, SqlValue, params, stored_int};

/// The exchanges of [`last_texts`].
const LAST_EXCHANGES_MAX: u32 = 10;
/// The longest word, in bytes.
pub const WORD_MAX_BYTES: usize = 64;
/// The number of exchanges of a conversation that are indexed at once.
pub const INDEXED_TOGETHER_MAX: u32 = 16;
/// The size of the texts, in bytes, from which on a batch takes no further conversation.
pub const BATCH_TEXT_BYTES: usize = 256 * 1024;
/// The maximum number of words of a search that count.
pub const WORDS_MAX: usize = 4;
/// The largest result of [`find_conversations`].
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

/// Conversations that are indexed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnindexedBatch {
    pub conversations: Vec<Unindexed>,
    /// True if texts remain to be indexed after this batch.
    pub more: bool,
}

/// Returns the texts of up to `limit` conversations that have changed since they were indexed, last changed first. Fewer
/// if their texts reach [`BATCH_TEXT_BYTES`].
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn list_unindexed(tx: &mut dyn Sql, account: AccountId, limit: u32) -> Result<UnindexedBatch> {
    let found = tx.query_all(
        "SELECT id, title, searched_exchanges, modified_at FROM conversations
         WHERE account_id = $1 AND deleted_at IS NULL AND (searched_at IS NULL OR searched_at < modified_at)
         ORDER BY modified_at DESC LIMIT $2",
        params![account, limit.saturating_add(1)],
        |row| Ok((row.get_id(0)?, row.get_text(1)?.to_owned(), row.get_u32(2)?, row.get_time(3)?)),
    )?;
    let mut batch = UnindexedBatch { conversations: Vec::with_capacity(found.len()), more: false };
    let mut text_bytes = 0;
    for (conversation, title, from, modified_at) in found {
        if batch.conversations.len() == limit as usize || text_bytes >= BATCH_TEXT_BYTES {
            batch.more = true;
            break;
        }
        let exchanges = read_exchange_texts(tx, conversation, from)?;
        let read = u32::try_from(exchanges.len()).unwrap_or(u32::MAX);
        let is_whole = read < INDEXED_TOGETHER_MAX;
        batch.more |= !is_whole;
        text_bytes += exchanges.iter().map(|(question, answer)| question.len() + answer.len()).sum::<usize>();
        batch.conversations.push(Unindexed {
            conversation,
            title,
            texts: exchanges.into_iter().flat_map(|(question, answer)| [question, answer]).collect(),
            exchanges: from.saturating_add(read),
            until: is_whole.then_some(modified_at),
        });
    }
    Ok(batch)
}

/// Reads questions with their completed answers.
fn read_exchange_texts(
    tx: &mut dyn Sql,
    conversation: ConversationId,
    from: u32,
) -> Result<Vec<(String, String)>> {
    tx.query_all(
        // The first characters of each message.
        "SELECT substr(q.text, 1, 65536), substr(a.text, 1, 65536) FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.conversation_id = $1 AND a.ordinal >= $2 AND a.text IS NOT NULL ORDER BY a.ordinal LIMIT $3",
        params![conversation, from, INDEXED_TOGETHER_MAX],
        |row| Ok((row.get_text(0)?.to_owned(), row.get_text(1)?.to_owned())),
    )
}

/// Reads the beginnings of a conversation's last messages, the newest exchange first and each answer before its
/// question. Returns nothing for a conversation of another account.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn last_texts(tx: &mut dyn Sql, account: AccountId, conversation: ConversationId) -> Result<Vec<String>> {
    let exchanges = tx.query_all(
        "SELECT substr(a.text, 1, 8192), substr(q.text, 1, 8192) FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         JOIN conversations c ON c.id = a.conversation_id
         WHERE a.conversation_id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL AND a.text IS NOT NULL
         ORDER BY a.ordinal DESC LIMIT $3",
        params![conversation, account, LAST_EXCHANGES_MAX],
        |row| Ok([row.get_text(0)?.to_owned(), row.get_text(1)?.to_owned()]),
    )?;
    Ok(exchanges.into_iter().flatten().collect())
}

/// Adds the words of texts that [`list_unindexed`] returned. Skips words that exist already or are longer than
/// [`WORD_MAX_BYTES`]. Does nothing if the conversation was deleted in the meantime.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn index_conversation(
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
        tx.send_statement(
            "INSERT INTO search_words (account_id, word, conversation_id) VALUES ($1, $2, $3)
             ON CONFLICT (account_id, word, conversation_id) DO NOTHING",
            params![account, word, indexed.conversation],
        )?;
    }
    Ok(())
}

/// The maximum number of rows of a rare word. Its conversations are found first, and then sorted; for a frequent word,
/// the search checks conversations in their order until the page is full.
pub const RARE_ROWS_MAX: u32 = 5_000;

/// Requires that the conversation `c` has a word of a range.
macro_rules! has_word {
    ($from:literal $beyond:literal) => {
        concat!(
            " AND EXISTS (SELECT 1 FROM search_words w WHERE w.conversation_id = c.id AND w.word >= ",
            $from,
            " AND w.word < ",
            $beyond,
            ")"
        )
    };
}
/// The conversations with words, in the order of [`list_conversations`](crate::conversations::list_conversations).
macro_rules! matching {
    ($($condition:expr),+) => {
        concat!(
            "SELECT c.id FROM conversations c WHERE c.account_id = $1 AND c.deleted_at IS NULL",
            $($condition,)+
            " ORDER BY c.pinned DESC, c.modified_at DESC, c.id DESC LIMIT $2 OFFSET $3"
        )
    };
}
/// Requires that the conversation `c` has the first word, which is rare.
macro_rules! rare_word {
    () => {
        " AND c.id IN (SELECT conversation_id FROM search_words WHERE account_id = $1 AND word >= $4 AND word < $5)"
    };
}

/// The statements for one word, two words, and so on, if the first word is rare.
const MATCHING_RARE: [&str; WORDS_MAX] = [
    matching!(rare_word!()),
    matching!(rare_word!(), has_word!("$6" "$7")),
    matching!(rare_word!(), has_word!("$6" "$7"), has_word!("$8" "$9")),
    matching!(rare_word!(), has_word!("$6" "$7"), has_word!("$8" "$9"), has_word!("$10" "$11")),
];
/// The statements for frequent words alone.
const MATCHING_FREQUENT: [&str; WORDS_MAX] = [
    matching!(has_word!("$4" "$5")),
    matching!(has_word!("$4" "$5"), has_word!("$6" "$7")),
    matching!(has_word!("$4" "$5"), has_word!("$6" "$7"), has_word!("$8" "$9")),
    matching!(has_word!("$4" "$5"), has_word!("$6" "$7"), has_word!("$8" "$9"), has_word!("$10" "$11")),
];

/// Returns up to `limit` conversations (at most [`FOUND_MAX`]) from `offset` on that have a word for each prefix which begins
/// with it: pinned ones first, then by the last change. Prefixes beyond the first [`WORDS_MAX`] do not count; without any,
/// nothing is found.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find_conversations(
    tx: &mut dyn Sql,
    account: AccountId,
    prefixes: &[String],
    offset: u64,
    limit: u32,
) -> Result<Vec<ConversationId>> {
    let prefixes = &prefixes[..prefixes.len().min(WORDS_MAX)];
    let Some(last) = prefixes.len().checked_sub(1) else { return Ok(Vec::new()) };
    let mut ranges = Vec::with_capacity(prefixes.len());
    for from in prefixes {
        let beyond = format!("{from}{}", char::MAX);
        let rows = tx.query_one(
            "SELECT count(*) FROM (SELECT 1 FROM search_words WHERE account_id = $1 AND word >= $2 AND word < $3
                LIMIT $4) found",
            params![account, from, &beyond, RARE_ROWS_MAX + 1],
            |row| row.get_u32(0),
        )?;
        ranges.push((rows.unwrap_or(0), from, beyond));
    }
    ranges.sort_by_key(|(rows, ..)| *rows);
    let is_rare = ranges[0].0 <= RARE_ROWS_MAX;
    let statement = if is_rare { MATCHING_RARE[last] } else { MATCHING_FREQUENT[last] };
    let mut parameters = params![account, limit.min(FOUND_MAX), stored_int(offset)?].to_vec();
    for (_, from, beyond) in &ranges {
        parameters.extend([SqlValue::from(*from), SqlValue::from(beyond)]);
    }
    tx.query_all(statement, &parameters, |row| row.get_id(0))
}
