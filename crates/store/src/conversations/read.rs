//! Reads conversations and their messages.

use domain::answer::{Answer, AnswerEnding, AnswerFailure, ErrorCode, LogEntry, RevisionStamp};
use domain::credits::{AnswerCost, Credits};
use domain::id::{AccountId, ConversationId, MessageId};
use domain::time::Timestamp;

use super::{ConversationError, ConversationSummary, read_conversation_summary};
use crate::codec;
use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};
use crate::turns::{cost_columns, log_before_damage, pending_calls, read_cost};

/// The maximum number of exchanges per read. A long conversation is never held in memory as a whole.
pub const EXCHANGES_PAGE_MAX: u32 = 50;

/// A conversation with its first messages (section 2.9).
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationDetail {
    pub summary: ConversationSummary,
    /// The messages of its first [`EXCHANGES_PAGE_MAX`] exchanges, oldest first.
    pub messages: Vec<StoredMessage>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum StoredMessage {
    Question(StoredQuestion),
    Answer(Box<StoredAnswer>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredQuestion {
    pub id: MessageId,
    /// Its position among the exchanges of its branch, from 0.
    pub ordinal: u32,
    pub created_at: Timestamp,
    pub text: String,
    /// Workspace paths of the attachments.
    pub attachments: Vec<String>,
}

/// A stored answer: complete when completed; while in progress, the readable prefix of its step log.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAnswer {
    pub id: MessageId,
    pub conversation: ConversationId,
    /// Its position among the exchanges of its branch, from 0.
    pub ordinal: u32,
    /// The time at which it began.
    pub created_at: Timestamp,
    /// The time at which it was completed; `None` while in progress.
    pub completed_at: Option<Timestamp>,
    /// The model that answers.
    pub model: String,
    /// The cost of its steps so far.
    pub cost: Credits,
    pub text: String,
    /// Its parts, sources and ending. While in progress, its stamp is revision 0 of the newest epoch.
    pub answer: Answer,
}

macro_rules! answer_select {
    () => {
        "SELECT a.id, a.conversation_id, q.depth, a.created_at, a.completed_at, q.model, a.text, a.body,
            a.ending, a.error_code, a.error_message, a.epoch, q.attachments, a.settled
         FROM answers a JOIN conversations c ON c.id = a.conversation_id
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE c.account_id = $1 AND c.id = $2 AND c.deleted_at IS NULL"
    };
}

/// Returns a conversation with its first messages.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn read_conversation(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<ConversationDetail, ConversationError> {
    let summary = read_conversation_summary(tx, account, conversation)?;
    Ok(ConversationDetail {
        summary,
        messages: read_messages(tx, account, conversation, 0, EXCHANGES_PAGE_MAX)?,
    })
}

/// Returns the messages of up to `limit` exchanges (at most [`EXCHANGES_PAGE_MAX`]) of the branch that is shown, from
/// the position `from` on. Empty past the end.
///
/// # Errors
/// [`StoreError`].
pub fn read_messages(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    from: u32,
    limit: u32,
) -> Result<Vec<StoredMessage>> {
    let until = from.saturating_add(limit.min(EXCHANGES_PAGE_MAX));
    let questions = tx.query_all(
        "SELECT q.id, q.depth, q.created_at, q.text, q.attachments
         FROM questions q JOIN conversations c ON c.id = q.conversation_id
         WHERE c.account_id = $1 AND c.id = $2 AND c.deleted_at IS NULL AND q.shown = 1 AND q.depth >= $3
            AND q.depth < $4
         ORDER BY q.depth",
        params![account, conversation, from, until],
        |row| {
            Ok(StoredQuestion {
                id: row.get_id(0)?,
                ordinal: row.get_u32(1)?,
                created_at: row.get_time(2)?,
                text: row.get_text(3)?.to_owned(),
                attachments: codec::decode_json(row.get_text(4)?, "question", row.get_text(0)?)?,
            })
        },
    )?;
    let answers = tx.query_all(
        concat!(answer_select!(), " AND q.shown = 1 AND q.depth >= $3 AND q.depth < $4 ORDER BY q.depth"),
        params![account, conversation, from, until],
        read_stored,
    )?;
    let mut messages = Vec::with_capacity(questions.len() * 2);
    for (question, answer) in questions.into_iter().zip(answers) {
        messages.push(StoredMessage::Question(question));
        messages.push(StoredMessage::Answer(Box::new(answer.read_whole_answer(tx)?)));
    }
    Ok(messages)
}

/// Returns one answer.
///
/// # Errors
/// [`ConversationError::NotFound`], also if the message is a question.
pub fn find_answer(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    message: MessageId,
) -> Result<StoredAnswer, ConversationError> {
    let stored = tx.query_one(
        concat!(answer_select!(), " AND a.id = $3"),
        params![account, conversation, message],
        read_stored,
    )?;
    Ok(stored.ok_or(ConversationError::NotFound)?.read_whole_answer(tx)?)
}

/// Returns the conversation of an answer; `None` if the account has no such answer.
///
/// # Errors
/// [`StoreError`].
pub fn conversation_of_answer(
    tx: &mut dyn Sql,
    account: AccountId,
    answer: MessageId,
) -> Result<Option<ConversationId>> {
    tx.query_one(
        "SELECT c.id FROM answers a JOIN conversations c ON c.id = a.conversation_id
         WHERE a.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL",
        params![answer, account],
        |row| row.get_id(0),
    )
}

/// Returns the cost of a completed answer; `None` while it is in progress.
///
/// # Errors
/// [`ConversationError::NotFound`], also if the message is a question.
pub fn answer_cost(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    message: MessageId,
) -> Result<Option<Credits>, ConversationError> {
    tx.query_one(
        "SELECT a.settled, a.completed_at FROM answers a JOIN conversations c ON c.id = a.conversation_id
         WHERE c.account_id = $1 AND c.id = $2 AND c.deleted_at IS NULL AND a.id = $3",
        params![account, conversation, message],
        |row| row.opt_int(1)?.map(|_| row.get_credits(0)).transpose(),
    )?
    .ok_or(ConversationError::NotFound)
}

/// Returns the usage and the cost of an answer so far.
///
/// # Errors
/// [`ConversationError::NotFound`], also if the message is a question.
pub fn answer_bill(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    message: MessageId,
) -> Result<AnswerCost, ConversationError> {
    tx.query_one(
        concat!(
            "SELECT ",
            cost_columns!(),
            " FROM answers a JOIN conversations c ON c.id = a.conversation_id
              WHERE c.account_id = $1 AND c.id = $2 AND c.deleted_at IS NULL AND a.id = $3"
        ),
        params![account, conversation, message],
        |row| read_cost(row, 0),
    )?
    .ok_or(ConversationError::NotFound)
}

/// Returns the latest answer of the branch that is shown. A conversation always has one.
///
/// # Errors
/// [`ConversationError::NotFound`].
pub fn latest_answer(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<StoredAnswer, ConversationError> {
    let stored = tx.query_one(
        concat!(answer_select!(), " AND q.shown = 1 ORDER BY q.depth DESC LIMIT 1"),
        params![account, conversation],
        read_stored,
    )?;
    Ok(stored.ok_or(ConversationError::NotFound)?.read_whole_answer(tx)?)
}

/// Returns the title of a conversation, and the text of its first shown question; `None` without a shown question.
///
/// # Errors
/// [`StoreError`].
pub fn title_and_first_question(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
) -> Result<Option<(String, String)>> {
    tx.query_one(
        "SELECT c.title, q.text FROM conversations c JOIN questions q ON q.conversation_id = c.id
         WHERE c.id = $2 AND c.account_id = $1 AND c.deleted_at IS NULL AND q.shown = 1 AND q.depth = 0",
        params![account, conversation],
        |row| Ok((row.get_text(0)?.to_owned(), row.get_text(1)?.to_owned())),
    )
}

/// A question as it was asked, so that it can be asked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedExchange {
    pub text: String,
    /// Workspace paths of the attachments.
    pub attachments: Vec<String>,
    /// The full name of the chosen agent.
    pub agent: Option<String>,
    /// The full names of the chosen skills.
    pub skills: Vec<String>,
    /// The model that answers.
    pub model: String,
    /// The settings of the model, as keys and values.
    pub settings: Vec<(String, String)>,
}

/// Returns the question of an answer.
///
/// # Errors
/// [`ConversationError::NotFound`], also if the message is a question.
pub fn asked_exchange(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<AskedExchange, ConversationError> {
    let place = "question of answer";
    tx.query_one(
        "SELECT q.text, q.attachments, q.agent, q.skills, q.model, q.settings
         FROM answers a JOIN conversations c ON c.id = a.conversation_id
         JOIN questions q ON q.conversation_id = a.conversation_id AND q.ordinal = a.ordinal
         WHERE a.id = $3 AND c.account_id = $1 AND c.id = $2 AND c.deleted_at IS NULL",
        params![account, conversation, answer],
        |row| {
            let id = answer.to_string();
            Ok(AskedExchange {
                text: row.get_text(0)?.to_owned(),
                attachments: codec::decode_json(row.get_text(1)?, place, &id)?,
                agent: row.opt_text(2)?.map(str::to_owned),
                skills: codec::decode_json(row.get_text(3)?, place, &id)?,
                model: row.get_text(4)?.to_owned(),
                settings: codec::decode_json(row.get_text(5)?, place, &id)?,
            })
        },
    )?
    .ok_or(ConversationError::NotFound)
}

/// An answer whose log, if needed, is still to be read.
enum AnswerRow {
    Whole(Box<StoredAnswer>),
    InProgress { answered: Box<StoredAnswer>, attachments: Vec<String> },
}

impl AnswerRow {
    fn read_whole_answer(self, tx: &mut dyn Sql) -> Result<StoredAnswer> {
        match self {
            Self::Whole(answered) => Ok(*answered),
            Self::InProgress { mut answered, attachments } => {
                let log: Vec<LogEntry> = log_before_damage(tx, answered.id)?;
                let stamp = answered.answer.stamp;
                answered.answer = Answer::from_log(answered.id, &attachments, &log, None);
                answered.answer.stamp = stamp;
                let last_step = log.iter().rev().find_map(|entry| match entry {
                    LogEntry::Step { step, .. } => Some(&**step),
                    LogEntry::Result { .. } | LogEntry::Summary { .. } => None,
                });
                answered.answer.pending = pending_calls(tx, answered.id, last_step)?;
                answered.text = answered.answer.unmarked_text();
                Ok(*answered)
            }
        }
    }
}

fn read_stored(row: &dyn SqlRow) -> Result<AnswerRow> {
    let id: MessageId = row.get_id(0)?;
    let ending = read_ending(row, 8)?;
    let mut answered = Box::new(StoredAnswer {
        id,
        conversation: row.get_id(1)?,
        ordinal: row.get_u32(2)?,
        created_at: row.get_time(3)?,
        completed_at: row.opt_time(4)?,
        model: row.get_text(5)?.to_owned(),
        cost: row.get_credits(13)?,
        text: String::new(),
        answer: Answer::new(id, &[]),
    });
    match ending {
        Some(ending) => {
            row.get_text(6)?.clone_into(&mut answered.text);
            answered.answer = codec::read_answer(row.get_text(7)?, id, ending)?;
            Ok(AnswerRow::Whole(answered))
        }
        None => {
            answered.answer.stamp = RevisionStamp { epoch: row.get_count(11)?, revision: 0 };
            let attachments = codec::decode_json(row.get_text(12)?, "question", row.get_text(0)?)?;
            Ok(AnswerRow::InProgress { answered, attachments })
        }
    }
}

/// Reads the ending from `column` on: its kind, the error's code and the error's message.
pub(crate) fn read_ending(row: &dyn SqlRow, column: usize) -> Result<Option<AnswerEnding>> {
    let Some(kind) = row.opt_text(column)? else { return Ok(None) };
    let ending = match kind {
        "done" => AnswerEnding::Done,
        "stopped" => AnswerEnding::Stopped,
        "failed" => {
            let code = row.get_text(column + 1)?;
            let code = ErrorCode::parse(code)
                .ok_or_else(|| StoreError::damaged_row("error code", code, "is unknown"))?;
            AnswerEnding::Failed(AnswerFailure { code, message: row.get_text(column + 2)?.to_owned() })
        }
        _ => return Err(StoreError::damaged_row("ending", kind, "is unknown")),
    };
    Ok(Some(ending))
}
