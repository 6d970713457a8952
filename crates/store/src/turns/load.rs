//! Reads the state that a turn needs to continue.

use std::collections::HashMap;
use std::sync::Arc;

use domain::answer::LogEntry;
use domain::catalog::ModelLimits;
use domain::credits::{AnswerCost, Credits, Price};
use domain::id::{AccountId, ConversationId, InstanceId, MessageId, TraceId};
use domain::pause::PauseState;
use domain::step::{OutputBlock, Step, ToolSpec};
use domain::time::Timestamp;
use domain::turn::host::LoggedExchange;

use super::{cost_columns, pauses, read_cost};
use crate::codec;
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The maximum number of earlier exchanges that are read, newest first.
pub const EARLIER_EXCHANGES_MAX: u32 = 200;
/// The bytes of earlier exchanges that are read with their step logs; more than most models accept. Further
/// exchanges are read as question and answer only.
pub const EARLIER_WHOLE_MAX_BYTES: i64 = 1024 * 1024;
/// The bytes of exchanges that are read as question and answer only. Older ones are omitted.
pub const EARLIER_BRIEF_MAX_BYTES: i64 = 512 * 1024;
/// The longest text of an answer that is read in that case, in characters; the rest is truncated.
const BRIEF_ANSWER_MAX_CHARS: u32 = 16 * 1024;
/// The same in bytes; a character has up to four.
const BRIEF_ANSWER_MAX_BYTES: i64 = 64 * 1024;

/// An answer in progress with its step log and context.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    pub account: AccountId,
    pub conversation: ConversationId,
    /// Its position among the exchanges of its branch, from 0.
    pub ordinal: u32,
    pub epoch: u64,
    /// The time at which it began.
    pub created_at: Timestamp,
    pub question: String,
    /// Workspace paths of the question's attachments.
    pub attachments: Vec<String>,
    /// The instructions that the client sent with the question.
    pub instructions: Option<String>,
    /// The functions that the client runs itself.
    pub functions: Vec<ToolSpec>,
    /// The model may ask the user questions.
    pub asks_user: bool,
    /// The pauses so far.
    pub pause: PauseState,
    /// The full name of the chosen agent.
    pub agent: Option<String>,
    /// The full names of the chosen skills.
    pub skills: Vec<String>,
    /// The model that answers.
    pub model: String,
    /// The settings of the model, as keys and values.
    pub settings: Vec<(String, String)>,
    pub jurisdictions: Vec<String>,
    /// The answer may search the web.
    pub web_search: bool,
    /// The earlier exchanges of its branch, oldest first.
    pub earlier: Vec<LoggedExchange>,
    /// The number of older exchanges that were omitted, because of their number or their length.
    pub earlier_left_out: u32,
    /// The step log so far.
    pub log: Vec<LogEntry>,
    /// The price and token limits of the model when the question was accepted; `None` for questions accepted
    /// before these were stored.
    pub model_limits: Option<ModelLimits>,
    /// Its usage and settled credits.
    pub bill: AnswerCost,
    /// The trace of its question.
    pub trace: Option<TraceId>,
    /// The credits that are reserved for it.
    pub outstanding: Credits,
    /// The user requested a stop.
    pub stop_requested: bool,
    /// The conversation is deleted and no longer visible.
    pub deleted: bool,
}

/// Returns an answer in progress; `None` if it does not exist or is completed.
///
/// # Errors
/// [`StoreError::Newer`] if a later version of this program has worked on it, [`StoreError::Damaged`] if its log cannot be
/// read, otherwise an error of the engine.
pub fn load_turn(tx: &mut dyn Sql, answer: MessageId) -> Result<Option<TurnRecord>> {
    let Some(mut turn) = load_head(tx, answer)? else { return Ok(None) };
    turn.pause = pauses::load_pauses(tx, answer)?;
    turn.log = log_of(tx, answer)?;
    let earlier = choose_exchanges(tx, turn.conversation, turn.ordinal)?;
    turn.earlier_left_out = earlier.first;
    turn.earlier = load_exchanges(tx, turn.conversation, &earlier, turn.ordinal)?;
    Ok(Some(turn))
}

/// Reads the log of one answer.
fn log_of(tx: &mut dyn Sql, answer: MessageId) -> Result<Vec<LogEntry>> {
    tx.query_all(
        "SELECT step, call_id, body, answer_id, summary_kept FROM log
         WHERE answer_id = $1 AND delegation IS NULL ORDER BY entry",
        params![answer],
        |row| read_entry(row, answer),
    )
}

/// Returns the trace of the answer's question and the time at which the answer began. Works even if the log
/// is damaged.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn find_trace(tx: &mut dyn Sql, answer: MessageId) -> Result<Option<(Option<TraceId>, Timestamp)>> {
    tx.query_one(
        "SELECT q.trace_id, a.created_at FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal WHERE a.id = $1",
        params![answer],
        |row| Ok((row.opt_id(0)?, row.get_time(1)?)),
    )
}

/// Reads the answer's log up to the first entry that cannot be decoded, for readers of the answer. A turn
/// needs all of it and uses [`load_turn`].
pub(crate) fn log_before_damage(tx: &mut dyn Sql, answer: MessageId) -> Result<Vec<LogEntry>> {
    let entries = tx.query_all(
        "SELECT step, call_id, body, answer_id, summary_kept FROM log
         WHERE answer_id = $1 AND delegation IS NULL ORDER BY entry",
        params![answer],
        |row| Ok(read_entry(row, answer).ok()),
    )?;
    Ok(entries.into_iter().map_while(|entry| entry).collect())
}

fn load_head(tx: &mut dyn Sql, answer: MessageId) -> Result<Option<TurnRecord>> {
    tx.query_one(
        concat!(
            "SELECT a.account_id, a.conversation_id, q.depth, a.epoch, a.created_at, a.outstanding,
                d.stop_requested, q.text, q.attachments, q.agent, q.skills, q.model, q.settings, c.jurisdictions,
                c.web_search, ",
            cost_columns!(),
            ", a.price_base, a.price_input, a.price_output, a.context_tokens, a.output_max_tokens,
                q.trace_id, c.deleted_at, q.instructions, q.functions, q.asks_user
             FROM answers a JOIN dispatch d ON d.answer_id = a.id JOIN conversations c ON c.id = a.conversation_id
             JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
             WHERE a.id = $1 AND a.completed_at IS NULL"
        ),
        params![answer],
        |row| {
            let place = answer.to_string();
            Ok(TurnRecord {
                account: row.get_id(0)?,
                conversation: row.get_id(1)?,
                ordinal: row.get_u32(2)?,
                epoch: row.get_count(3)?,
                created_at: row.get_time(4)?,
                outstanding: row.get_credits(5)?,
                stop_requested: row.get_flag(6)?,
                question: row.get_text(7)?.to_owned(),
                attachments: codec::decode_json(row.get_text(8)?, "question of answer", &place)?,
                agent: row.opt_text(9)?.map(str::to_owned),
                skills: codec::decode_json(row.get_text(10)?, "question of answer", &place)?,
                model: row.get_text(11)?.to_owned(),
                settings: codec::decode_json(row.get_text(12)?, "conversation of answer", &place)?,
                jurisdictions: codec::decode_json(row.get_text(13)?, "conversation of answer", &place)?,
                web_search: row.get_flag(14)?,
                bill: read_cost(row, 15)?,
                model_limits: read_model_limits(row, 21)?,
                trace: row.opt_id(26)?,
                deleted: row.opt_int(27)?.is_some(),
                instructions: row.opt_text(28)?.map(str::to_owned),
                functions: codec::read_functions(row.opt_text(29)?, &place)?,
                asks_user: row.get_flag(30)?,
                pause: PauseState::default(),
                earlier: Vec::new(),
                earlier_left_out: 0,
                log: Vec::new(),
            })
        },
    )
}

/// Reads the five columns of [`ModelLimits`] from `column` on.
fn read_model_limits(row: &dyn SqlRow, column: usize) -> Result<Option<ModelLimits>> {
    if row.opt_int(column)?.is_none() {
        return Ok(None);
    }
    let price = Price {
        base_millis: row.get_count(column)?,
        input_millis: row.get_count(column + 1)?,
        output_millis: row.get_count(column + 2)?,
    };
    let (context_tokens, output_max_tokens) = (row.get_u32(column + 3)?, row.get_u32(column + 4)?);
    Ok(Some(ModelLimits { price, context_tokens, output_max_tokens }))
}

/// The earlier exchanges that are read, and their form.
struct EarlierExchange {
    /// The position of the oldest one.
    first: u32,
    /// The exchanges that are read as question and answer only.
    brief: Vec<u32>,
}

/// Selects the exchanges that fit, newest first. The branch of an answer in progress is shown until it has ended, so that
/// the exchanges before it are the shown ones.
fn choose_exchanges(tx: &mut dyn Sql, conversation: ConversationId, before: u32) -> Result<EarlierExchange> {
    let mut earlier = EarlierExchange { first: before, brief: Vec::new() };
    let (mut whole, mut brief) = (EARLIER_WHOLE_MAX_BYTES, EARLIER_BRIEF_MAX_BYTES);
    let mut full = false;
    tx.query_each(
        "SELECT q.depth, a.log_bytes, octet_length(q.text), octet_length(COALESCE(a.text, '')) FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE q.conversation_id = $1 AND q.shown = 1 AND q.depth < $2 ORDER BY q.depth DESC LIMIT $3",
        params![conversation, before, EARLIER_EXCHANGES_MAX],
        &mut |row| {
            let (position, question) = (row.get_u32(0)?, row.get_int(2)?);
            let in_whole = row.get_int(1)?.saturating_add(question);
            let in_brief = row.get_int(3)?.min(BRIEF_ANSWER_MAX_BYTES).saturating_add(question);
            if full {
                return Ok(());
            }
            if in_whole <= whole {
                whole -= in_whole;
            } else if in_brief <= brief {
                brief -= in_brief;
                earlier.brief.push(position);
            } else {
                full = true;
                return Ok(());
            }
            earlier.first = position;
            Ok(())
        },
    )?;
    Ok(earlier)
}

fn load_exchanges(
    tx: &mut dyn Sql,
    conversation: ConversationId,
    earlier: &EarlierExchange,
    before: u32,
) -> Result<Vec<LoggedExchange>> {
    if earlier.first == before {
        return Ok(Vec::new());
    }
    let heads: Vec<(MessageId, u32, LoggedExchange)> = tx.query_all(
        "SELECT a.id, q.depth, q.text, q.attachments FROM answers a
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE q.conversation_id = $1 AND q.shown = 1 AND q.depth >= $2 AND q.depth < $3 ORDER BY q.depth",
        params![conversation, earlier.first, before],
        |row| {
            let attachments = codec::decode_json(row.get_text(3)?, "question of answer", row.get_text(0)?)?;
            let exchange =
                LoggedExchange { question: row.get_text(2)?.to_owned(), attachments, log: Vec::new() };
            Ok((row.get_id(0)?, row.get_u32(1)?, exchange))
        },
    )?;
    let mut logs = logs_of(tx, conversation, earlier, before)?;
    let mut exchanges = Vec::with_capacity(heads.len());
    for (answer, position, exchange) in heads {
        let log = match logs.remove(&answer) {
            Some(Ok(log)) => log,
            // A log that cannot be read must not fail every later answer of the conversation.
            Some(Err(())) => brief_log(tx, answer)?,
            None if earlier.brief.contains(&position) => brief_log(tx, answer)?,
            None => Vec::new(),
        };
        exchanges.push(LoggedExchange { log, ..exchange });
    }
    Ok(exchanges)
}

/// Reads the logs of the exchanges that are read in full; `Err` for a damaged log.
fn logs_of(
    tx: &mut dyn Sql,
    conversation: ConversationId,
    earlier: &EarlierExchange,
    before: u32,
) -> Result<HashMap<MessageId, Result<Vec<LogEntry>, ()>>> {
    let mut logs = HashMap::new();
    // Exchanges without logs, oldest first, separate the ranges of exchanges with logs.
    let mut from = earlier.first;
    for end in earlier.brief.iter().rev().copied().chain([before]) {
        if from < end {
            tx.query_each(
                "SELECT l.step, l.call_id, l.body, l.answer_id, l.summary_kept FROM questions q
                 JOIN answers a ON a.conversation_id = q.conversation_id AND a.ordinal = q.ordinal
                 JOIN log l ON l.answer_id = a.id
                 WHERE q.conversation_id = $1 AND q.shown = 1 AND q.depth >= $2 AND q.depth < $3
                    AND l.delegation IS NULL
                 ORDER BY q.depth, l.entry",
                params![conversation, from, end],
                &mut |row| {
                    let answer = row.get_id(3)?;
                    let log = logs.entry(answer).or_insert_with(|| Ok(Vec::new()));
                    match (read_entry(row, answer), &mut *log) {
                        (Ok(entry), Ok(entries)) => entries.push(entry),
                        (Ok(_), Err(())) => {}
                        (Err(StoreError::Damaged { .. } | StoreError::Newer { .. }), _) => *log = Err(()),
                        (Err(error), _) => return Err(error),
                    }
                    Ok(())
                },
            )?;
        }
        from = end + 1;
    }
    Ok(logs)
}

/// Represents an answer as one step that consists of its text.
fn brief_log(tx: &mut dyn Sql, answer: MessageId) -> Result<Vec<LogEntry>> {
    let text = tx.query_one(
        "SELECT substr(COALESCE(text, ''), 1, $2) FROM answers WHERE id = $1",
        params![answer, BRIEF_ANSWER_MAX_CHARS],
        |row| Ok(row.get_text(0)?.to_owned()),
    )?;
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(Vec::new()) };
    let step = Step { blocks: vec![OutputBlock::Text(text)], ..Step::default() };
    Ok(vec![LogEntry::Step { number: 0, step: Arc::new(step), instance: InstanceId::from_random(0) }])
}

/// Reads the step, call and body of an entry and, for a summary, the number of entries it keeps.
pub(super) fn read_entry(row: &dyn SqlRow, answer: MessageId) -> Result<LogEntry> {
    let number = row.get_u32(0)?;
    let call = row.opt_text(1)?;
    let place = || format!("of answer {answer}, step {number}, call {}", call.unwrap_or("none"));
    if call.is_some() {
        let result = codec::read_result(row.get_text(2)?, &place())?;
        return Ok(LogEntry::Result { number, result });
    }
    let (step, instance) = codec::read_step(row.get_text(2)?, &place())?;
    if let Some(kept) = row.opt_int(4)? {
        return Ok(LogEntry::Summary { number, kept: u32::try_from(kept).unwrap_or(u32::MAX), step });
    }
    Ok(LogEntry::Step { number, step, instance })
}
