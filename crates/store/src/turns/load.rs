//! Reading all that a turn needs to go on.

use std::collections::HashMap;

use domain::answer::{Ending, LogEntry};
use domain::credits::{Bill, Credits};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;

use super::{bill_columns, read_bill};
use crate::conversations::read_ending;
use crate::error::StoreError;
use crate::form;
use crate::sql::{Result, Row, RowExt, Sql, SqlExt, params};

/// How much of the earlier exchanges is read: the newest of them, up to this size together.
const EARLIER_MAX_BYTES: i64 = 16 * 1024 * 1024;
/// How many of the earlier exchanges are read.
const EARLIER_EXCHANGES_MAX: u32 = 1000;

/// An answer in progress with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// Whose it is.
    pub account: AccountId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Its place among the conversation's exchanges, from 0.
    pub ordinal: u32,
    /// The newest epoch.
    pub epoch: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// The question.
    pub question: String,
    /// Workspace paths that were attached to it.
    pub attachments: Vec<String>,
    /// The chosen agent's full name.
    pub agent: Option<String>,
    /// The chosen skills' full names.
    pub skills: Vec<String>,
    /// The model that the conversation answers with.
    pub model: String,
    /// The settings of the model: keys and values.
    pub settings: Vec<(String, String)>,
    /// Identifiers of jurisdictions.
    pub jurisdictions: Vec<String>,
    /// Whether it may search the web.
    pub web_search: bool,
    /// The conversation's earlier exchanges, oldest first.
    pub earlier: Vec<Exchange>,
    /// How many exchanges before those were left out, because there are too many or they are too long.
    pub earlier_left_out: u32,
    /// What was done so far.
    pub log: Vec<LogEntry>,
    /// What it has used and paid.
    pub bill: Bill,
    /// The credits that are held for it.
    pub outstanding: Credits,
    /// Whether the user asked that it be stopped.
    pub stop_requested: bool,
}

/// An exchange that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The question.
    pub question: String,
    /// Workspace paths that were attached to it.
    pub attachments: Vec<String>,
    /// How the answer came about.
    pub log: Vec<LogEntry>,
    /// How the answer ended.
    pub ending: Ending,
}

/// The answer, when it is in progress; `None` when it is not or there is none.
///
/// # Errors
/// [`StoreError`].
pub fn load(tx: &mut dyn Sql, answer: MessageId) -> Result<Option<TurnRecord>> {
    let Some(mut turn) = load_head(tx, answer)? else { return Ok(None) };
    turn.log = log_of(tx, answer)?;
    let first = first_read(tx, turn.conversation, turn.ordinal)?;
    turn.earlier = exchanges(tx, turn.conversation, first, turn.ordinal)?;
    turn.earlier_left_out = first;
    Ok(Some(turn))
}

/// The log of one answer.
pub(crate) fn log_of(tx: &mut dyn Sql, answer: MessageId) -> Result<Vec<LogEntry>> {
    tx.all(
        "SELECT step, call_id, body, answer_id FROM log WHERE answer_id = $1 ORDER BY entry",
        params![answer],
        |row| read_entry(row, answer),
    )
}

fn load_head(tx: &mut dyn Sql, answer: MessageId) -> Result<Option<TurnRecord>> {
    tx.one(
        concat!(
            "SELECT a.account_id, a.conversation_id, a.ordinal, a.epoch, a.created_at, a.outstanding,
                d.stop_requested, q.text, q.attachments, q.agent, q.skills, c.model, c.settings, c.jurisdictions,
                c.web_search, ",
            bill_columns!(),
            " FROM answers a JOIN dispatch d ON d.answer_id = a.id JOIN conversations c ON c.id = a.conversation_id
             JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
             WHERE a.id = $1 AND a.completed_at IS NULL"
        ),
        params![answer],
        |row| {
            let place = answer.to_string();
            Ok(TurnRecord {
                account: row.id(0)?,
                conversation: row.id(1)?,
                ordinal: row.small(2)?,
                epoch: row.count(3)?,
                created_at: row.time(4)?,
                outstanding: row.credits(5)?,
                stop_requested: row.flag(6)?,
                question: row.text(7)?.to_owned(),
                attachments: form::read(row.text(8)?, "question of answer", &place)?,
                agent: row.opt_text(9)?.map(str::to_owned),
                skills: form::read(row.text(10)?, "question of answer", &place)?,
                model: row.text(11)?.to_owned(),
                settings: form::read(row.text(12)?, "conversation of answer", &place)?,
                jurisdictions: form::read(row.text(13)?, "conversation of answer", &place)?,
                web_search: row.flag(14)?,
                bill: read_bill(row, 15)?,
                earlier: Vec::new(),
                earlier_left_out: 0,
                log: Vec::new(),
            })
        },
    )
}

/// The ordinal of the oldest exchange before `before` that still fits the bounds with all after it.
fn first_read(tx: &mut dyn Sql, conversation: ConversationId, before: u32) -> Result<u32> {
    let mut first = before;
    let mut bytes = 0_i64;
    let mut full = false;
    tx.each(
        "SELECT a.ordinal, a.log_bytes + octet_length(q.text) FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.conversation_id = $1 AND a.ordinal < $2 ORDER BY a.ordinal DESC LIMIT $3",
        params![conversation, before, EARLIER_EXCHANGES_MAX],
        &mut |row| {
            bytes = bytes.saturating_add(row.int(1)?);
            full = full || bytes > EARLIER_MAX_BYTES;
            if !full {
                first = row.small(0)?;
            }
            Ok(())
        },
    )?;
    Ok(first)
}

fn exchanges(
    tx: &mut dyn Sql,
    conversation: ConversationId,
    first: u32,
    before: u32,
) -> Result<Vec<Exchange>> {
    if first == before {
        return Ok(Vec::new());
    }
    let mut logs: HashMap<MessageId, Vec<LogEntry>> = HashMap::new();
    tx.each(
        "SELECT l.step, l.call_id, l.body, l.answer_id FROM log l JOIN answers a ON a.id = l.answer_id
         WHERE a.conversation_id = $1 AND a.ordinal >= $2 AND a.ordinal < $3 ORDER BY a.ordinal, l.entry",
        params![conversation, first, before],
        &mut |row| {
            let answer = row.id(3)?;
            logs.entry(answer).or_default().push(read_entry(row, answer)?);
            Ok(())
        },
    )?;
    let heads = tx.all(
        "SELECT a.id, q.text, q.attachments, a.ending, a.error_code, a.error_message FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.conversation_id = $1 AND a.ordinal >= $2 AND a.ordinal < $3 ORDER BY a.ordinal",
        params![conversation, first, before],
        |row| {
            let answer: MessageId = row.id(0)?;
            let ending = read_ending(row, 3)?
                .ok_or_else(|| StoreError::damaged("answer", answer, "is in progress beside another"))?;
            let attachments = form::read(row.text(2)?, "question of answer", row.text(0)?)?;
            Ok((answer, Exchange { question: row.text(1)?.to_owned(), attachments, log: Vec::new(), ending }))
        },
    )?;
    let with_log =
        |(answer, exchange)| Exchange { log: logs.remove(&answer).unwrap_or_default(), ..exchange };
    Ok(heads.into_iter().map(with_log).collect())
}

/// Reads step, call, body of an entry.
fn read_entry(row: &dyn Row, answer: MessageId) -> Result<LogEntry> {
    let number = row.small(0)?;
    let call = row.opt_text(1)?;
    let place = || format!("of answer {answer}, step {number}, call {}", call.unwrap_or("none"));
    if call.is_some() {
        let result = form::read_result(row.text(2)?, &place())?;
        return Ok(LogEntry::Result { number, result });
    }
    let (step, instance) = form::read_step(row.text(2)?, &place())?;
    Ok(LogEntry::Step { number, step, instance })
}
