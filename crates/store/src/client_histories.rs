//! Histories of clients that send the whole conversation with each question.
//!
//! Such a client names no conversation. Each of its exchanges is stored with hashes of the history up to it, which find
//! the place where another history continues: after an exchange with the same history, or else after the same questions.

use domain::answer::{Answer, AnswerEnding, LogEntry};
use domain::id::{AccountId, ConversationId, InstanceId, KeyId, MessageId, UserId};
use domain::step::{OutputBlock, Step};
use domain::time::Timestamp;
use std::sync::Arc;

use crate::codec;
use crate::conversations::{place_of, shown_branch};
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

/// The maximum number of exchanges that are compared to find out whether only one conversation has the same questions.
const CANDIDATES_MAX: u32 = 64;
/// The largest stored encoding of an imported answer, in bytes.
const BODY_MAX_BYTES: usize = 64 * 1024 * 1024;

/// A hash of a history.
pub type HistoryHash = [u8; 32];

/// The client's side of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientExchange {
    /// The client's name of the conversation, 1 to 512 bytes.
    pub name: Option<String>,
    /// The hash of the questions up to this one.
    pub users_hash: HistoryHash,
    /// The hash of the request and its key.
    pub request_hash: HistoryHash,
    /// The earlier exchanges of a new conversation, oldest first; otherwise ignored.
    pub imported: Arc<Vec<ImportedExchange>>,
    /// The lookup that finds the place of the question; `None` if the question names it.
    pub lookup: Option<PlaceLookup>,
}

/// An exchange that a client had before the conversation began here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedExchange {
    pub question: MessageId,
    pub answer: MessageId,
    pub text: String,
    pub reply: String,
    /// The hash of the questions up to this one.
    pub users_hash: HistoryHash,
    /// The hash of the questions and answers up to this answer.
    pub after_hash: HistoryHash,
}

/// A history without its last question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryLookup {
    /// The client's name of the conversation.
    pub name: Option<String>,
    /// True if the name alone finds a conversation whose first question is asked again.
    pub is_name_unique: bool,
    /// The hash of its questions and answers, and that of its questions; `None` if it has none.
    pub hashes: Option<(HistoryHash, HistoryHash)>,
}

/// The way to find the place of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceLookup {
    History(HistoryLookup),
    /// After the last exchange of the conversation with this name.
    Name(String),
    /// After this answer.
    Answer {
        conversation: ConversationId,
        answer: MessageId,
    },
}

/// The place where a history continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryPlace {
    /// After the last exchange of a branch.
    After { conversation: ConversationId, answer: MessageId },
    /// Instead of this exchange, which follows the history already.
    Instead { conversation: ConversationId, answer: MessageId },
}

/// Returns the place where a question continues; `None` if no conversation has its history, or the answer does not exist.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find_place(
    tx: &mut dyn Sql,
    account: AccountId,
    lookup: &PlaceLookup,
) -> Result<Option<HistoryPlace>> {
    let found = match lookup {
        PlaceLookup::History(HistoryLookup { name, is_name_unique, hashes: None }) => {
            let name = name.as_deref().filter(|name| *is_name_unique && !name.is_empty());
            return name.map_or(Ok(None), |name| first_exchange(tx, account, name));
        }
        PlaceLookup::History(HistoryLookup { name, hashes: Some((after, users)), .. }) => {
            let name = name.as_deref().unwrap_or_default();
            match find_same_history(tx, account, after, name)? {
                Some(found) => Some(found),
                None => find_same_questions(tx, account, users, name)?,
            }
        }
        PlaceLookup::Name(name) => {
            let Some(conversation) = named_conversation(tx, account, name)? else { return Ok(None) };
            let shown = shown_branch(tx, account, conversation)?;
            return Ok(shown.map(|shown| HistoryPlace::After { conversation, answer: shown.last }));
        }
        PlaceLookup::Answer { conversation, answer } => {
            let place = place_of(tx, account, *conversation, *answer)?;
            place.map(|_| (*conversation, *answer))
        }
    };
    let Some((conversation, answer)) = found else { return Ok(None) };
    let next = next_exchange(tx, conversation, answer)?;
    Ok(Some(match next {
        Some(answer) => HistoryPlace::Instead { conversation, answer },
        None => HistoryPlace::After { conversation, answer },
    }))
}

/// Locks the account, and returns true if a lookup still finds this place. Otherwise two questions with the same history,
/// asked at the same time, would begin two conversations.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn is_still_place(
    tx: &mut dyn Sql,
    account: AccountId,
    lookup: &PlaceLookup,
    expected: Option<HistoryPlace>,
) -> Result<bool> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    Ok(find_place(tx, account, lookup)? == expected)
}

/// Finds an exchange after the same history. One with another name belongs to another conversation of the client.
fn find_same_history(
    tx: &mut dyn Sql,
    account: AccountId,
    after: &HistoryHash,
    name: &str,
) -> Result<Option<(ConversationId, MessageId)>> {
    tx.query_one(
        "SELECT e.conversation_id, e.answer_id FROM client_exchanges e
         JOIN conversations c ON c.id = e.conversation_id AND c.deleted_at IS NULL
         WHERE e.account_id = $1 AND e.after_hash = $2 AND ($3 = '' OR e.name IS NULL OR e.name = $3)
         ORDER BY CASE WHEN e.name = $3 THEN 0 ELSE 1 END, e.created_at DESC, e.answer_id DESC LIMIT 1",
        params![account, after, name],
        |row| Ok((row.get_id(0)?, row.get_id(1)?)),
    )
}

/// Finds the newest exchange after the same questions, in the conversation with this name, or in the only one.
fn find_same_questions(
    tx: &mut dyn Sql,
    account: AccountId,
    users: &HistoryHash,
    name: &str,
) -> Result<Option<(ConversationId, MessageId)>> {
    let found: Vec<(ConversationId, MessageId)> = tx.query_all(
        "SELECT e.conversation_id, e.answer_id FROM client_exchanges e
         JOIN conversations c ON c.id = e.conversation_id AND c.deleted_at IS NULL
         WHERE e.account_id = $1 AND e.users_hash = $2 AND ($3 = '' OR e.name = $3)
         ORDER BY e.created_at DESC, e.answer_id DESC LIMIT $4",
        params![account, users, name, CANDIDATES_MAX],
        |row| Ok((row.get_id(0)?, row.get_id(1)?)),
    )?;
    let newest = found.first().copied();
    let is_only = found.iter().all(|(conversation, _)| Some(*conversation) == newest.map(|found| found.0));
    Ok(newest.filter(|_| is_only || !name.is_empty()))
}

/// Returns an exchange that follows this one: the one that is shown, or the one that was shown last.
fn next_exchange(
    tx: &mut dyn Sql,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<Option<MessageId>> {
    tx.query_one(
        "SELECT b.id FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.parent = a.ordinal
         JOIN answers b ON b.conversation_id = q.conversation_id AND b.ordinal = q.ordinal
         WHERE a.conversation_id = $1 AND a.id = $2 ORDER BY q.shown DESC, q.chosen DESC, q.ordinal DESC LIMIT 1",
        params![conversation, answer],
        |row| row.get_id(0),
    )
}

/// Returns the newest conversation with this name.
fn named_conversation(tx: &mut dyn Sql, account: AccountId, name: &str) -> Result<Option<ConversationId>> {
    tx.query_one(
        "SELECT e.conversation_id FROM client_exchanges e
         JOIN conversations c ON c.id = e.conversation_id AND c.deleted_at IS NULL
         WHERE e.account_id = $1 AND e.name = $2 ORDER BY e.created_at DESC LIMIT 1",
        params![account, name],
        |row| row.get_id(0),
    )
}

/// Returns the first exchange of the newest conversation with this name.
fn first_exchange(tx: &mut dyn Sql, account: AccountId, name: &str) -> Result<Option<HistoryPlace>> {
    let Some(conversation) = named_conversation(tx, account, name)? else { return Ok(None) };
    let first = tx.query_one(
        "SELECT a.id FROM questions q
         JOIN answers a ON a.conversation_id = q.conversation_id AND a.ordinal = q.ordinal
         WHERE q.conversation_id = $1 AND q.shown = 1 AND q.depth = 0",
        params![conversation],
        |row| row.get_id(0),
    )?;
    Ok(first.map(|answer| HistoryPlace::Instead { conversation, answer }))
}

/// Returns the answer of the same request, if it was accepted after `since`.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find_request(
    tx: &mut dyn Sql,
    account: AccountId,
    request_hash: &HistoryHash,
    since: Timestamp,
) -> Result<Option<(ConversationId, MessageId)>> {
    tx.query_one(
        "SELECT e.conversation_id, e.answer_id FROM client_exchanges e
         JOIN conversations c ON c.id = e.conversation_id AND c.deleted_at IS NULL
         WHERE e.account_id = $1 AND e.request_hash = $2 AND e.created_at > $3
         ORDER BY e.created_at DESC, e.answer_id DESC LIMIT 1",
        params![account, request_hash, since],
        |row| Ok((row.get_id(0)?, row.get_id(1)?)),
    )
}

/// Records the history after an answer that was sent as a whole. Does nothing for other answers.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn record_sent_answer(
    tx: &mut dyn Sql,
    account: AccountId,
    answer: MessageId,
    after_hash: &HistoryHash,
) -> Result<()> {
    tx.send_statement(
        "UPDATE client_exchanges SET after_hash = $3 WHERE answer_id = $1 AND account_id = $2",
        params![answer, account, after_hash],
    )
}

/// The facts of a question that its exchanges are stored with.
pub(crate) struct QuestionFacts<'a> {
    pub(crate) account: AccountId,
    pub(crate) user: Option<UserId>,
    pub(crate) key: Option<KeyId>,
    pub(crate) conversation: ConversationId,
    pub(crate) answer: MessageId,
    pub(crate) model: &'a str,
    pub(crate) now: Timestamp,
}

/// Writes the client's side of an accepted question.
pub(crate) fn record_client_exchange(
    tx: &mut dyn Sql,
    new: &QuestionFacts<'_>,
    client: &ClientExchange,
) -> Result<()> {
    tx.send_statement(
        "INSERT INTO client_exchanges (answer_id, account_id, conversation_id, name, users_hash, request_hash,
            created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        params![
            new.answer,
            new.account,
            new.conversation,
            client.name.as_ref(),
            &client.users_hash,
            &client.request_hash,
            new.now,
        ],
    )
}

/// Writes the earlier exchanges of a new conversation, as completed ones without a cost.
pub(crate) fn import_exchanges(
    tx: &mut dyn Sql,
    new: &QuestionFacts<'_>,
    settings: &str,
    client: &ClientExchange,
) -> Result<()> {
    for (ordinal, exchange) in client.imported.iter().enumerate() {
        let ordinal = i64::try_from(ordinal).unwrap_or(i64::MAX);
        import_answer(tx, new, ordinal, exchange)?;
        tx.send_statement(
            "INSERT INTO questions (conversation_id, ordinal, id, text, attachments, skills, created_at, user_id,
                key_id, depth, parent, model, settings)
             VALUES ($1, $2, $3, $4, '[]', '[]', $5, $6, $7, $2, $8, $9, $10)",
            params![
                new.conversation,
                ordinal,
                exchange.question,
                &exchange.text,
                new.now,
                new.user,
                new.key,
                ordinal - 1,
                new.model,
                settings,
            ],
        )?;
        tx.send_statement(
            "INSERT INTO client_exchanges (answer_id, account_id, conversation_id, name, users_hash, after_hash,
                created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
            params![
                exchange.answer,
                new.account,
                new.conversation,
                client.name.as_ref(),
                &exchange.users_hash,
                &exchange.after_hash,
                new.now,
            ],
        )?;
    }
    Ok(())
}

/// Writes a completed answer that consists of one text.
fn import_answer(
    tx: &mut dyn Sql,
    new: &QuestionFacts<'_>,
    ordinal: i64,
    exchange: &ImportedExchange,
) -> Result<()> {
    let instance = InstanceId::from_random(0);
    let step = Arc::new(Step { blocks: vec![OutputBlock::Text(exchange.reply.clone())], ..Step::default() });
    let body = codec::write_step(&step, instance)?;
    let log = [LogEntry::Step { number: 0, step, instance }];
    let answer = Answer::from_log(exchange.answer, &[], &log, Some(AnswerEnding::Done));
    tx.send_statement(
        "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step,
            next_entry, log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning,
            used_estimated, completed_at, ending, text, body)
         VALUES ($1, $2, $3, $4, $5, 0, 0, 1, 1, $6, 0, 0, 0, 0, 0, 0, 0, $5, 'done', $7, $8)",
        params![
            exchange.answer,
            new.conversation,
            ordinal,
            new.account,
            new.now,
            stored_int(body.len() as u64)?,
            &answer.unmarked_text(),
            &codec::write_answer(&answer, BODY_MAX_BYTES)?,
        ],
    )?;
    tx.send_statement(
        "INSERT INTO log (answer_id, entry, step, epoch, created_at, body) VALUES ($1, 0, 0, 0, $2, $3)",
        params![exchange.answer, new.now, &body],
    )
}
