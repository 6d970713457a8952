//! Accepting questions (section 4.4 of the interface): writes all that must be durable before a question
//! counts as accepted.

mod idempotency;

use domain::catalog::ModelLimits;
use domain::credits::{Balance, Credits, PostingKind};
use domain::id::{AccountId, ConversationId, KeyId, MessageId, PostingId, TraceId, UserId};
use domain::step::ToolSpec;
use domain::time::Timestamp;

use crate::client_histories::{ClientExchange, QuestionFacts, import_exchanges, record_client_exchange};
use crate::codec;
use crate::conversations::{
    ConversationSummary, ExchangePlace, place_of, read_summary_columns, show_place, summary_columns,
};
use crate::credits::{Posting, count_spent, read_balance, record_posting};
use crate::error::StoreError;
use crate::skills;
use crate::sql::{Result, RowExt, Sql, SqlExt, params, stored_int};

pub use idempotency::sweep_idempotency;

/// The lifetime of an idempotency key, in microseconds: 24 hours.
const IDEMPOTENCY_KEPT_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// The maximum number of versions of one exchange.
pub const VERSIONS_MAX: u32 = 100;

/// A question to be accepted. Its catalog entries and paths are already checked.
#[derive(Debug, Clone)]
pub struct NewQuestion {
    /// The account that pays.
    pub account: AccountId,
    /// The user who asks, if known.
    pub user: Option<UserId>,
    /// The channel of the question.
    pub through: AskedThrough,
    /// The trace of the request.
    pub trace: Option<TraceId>,
    /// The existing or new conversation.
    pub target: QuestionTarget,
    /// The identifier of the question's message.
    pub question: MessageId,
    /// The identifier of the answer's message.
    pub answer: MessageId,
    /// The instructions that the client sent with it, at most 256 KiB.
    pub instructions: Option<String>,
    /// The functions that the client runs itself.
    pub functions: Vec<ToolSpec>,
    /// True if the model may ask the user questions.
    pub asks_user: bool,
    /// The history of a client that keeps it itself.
    pub client: Option<ClientExchange>,
    /// The text, at most [`QUESTION_MAX_BYTES`](domain::limits::QUESTION_MAX_BYTES), without NUL.
    pub text: String,
    /// Workspace paths of the attachments.
    pub attachments: Vec<String>,
    /// The full name of the chosen agent.
    pub agent: Option<String>,
    /// The full names of the chosen skills.
    pub skills: Vec<String>,
    /// The model that answers. A new conversation, a version and a change of the conversation's choices set it;
    /// otherwise it is the model that the branch is expected to have.
    pub model: String,
    /// The choices of the conversation from this question on; `None` to keep them.
    pub goes_on: Option<GoesOn>,
    /// The price and token limits of the model. The answer is charged by these, regardless of later changes
    /// of the catalog.
    pub model_limits: ModelLimits,
    /// The credits to reserve for the first step.
    pub reserve: Credits,
    /// The posting of the reservation.
    pub posting: PostingId,
    /// The client's idempotency key.
    pub idempotency: Option<Idempotency>,
    /// The current time, at which the answer begins.
    pub now: Timestamp,
}

/// The channel of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedThrough {
    Key(KeyId),
    /// A session of the application, by an identifier of at most 128 bytes.
    Session(String),
    /// The service itself, such as an operator's command.
    Service,
}

/// The conversation of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionTarget {
    /// An existing conversation. The question follows the last exchange that is shown.
    Existing(ConversationId),
    /// An existing conversation, on the branch of an answer. If another branch is shown, this one is shown first.
    BranchOf {
        conversation: ConversationId,
        answer: MessageId,
    },
    /// Another version of an exchange. It is shown instead of that exchange and the following ones.
    Version(NewExchangeVersion),
    New(NewConversation),
}

/// A conversation that begins with the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewConversation {
    pub id: ConversationId,
    /// Its title, at most 120 characters.
    pub title: String,
    /// The settings of the model, as keys and values.
    pub settings: Vec<(String, String)>,
    pub jurisdictions: Vec<String>,
    /// Answers may search the web.
    pub web_search: bool,
}

/// New choices of an existing conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoesOn {
    /// The settings of [`NewQuestion::model`], as keys and values; `None` to keep the model and its settings.
    pub settings: Option<Vec<(String, String)>>,
    pub jurisdictions: Vec<String>,
    /// Answers may search the web.
    pub web_search: bool,
}

/// A version of an exchange that begins with the question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewExchangeVersion {
    pub conversation: ConversationId,
    /// The answer of the other version.
    pub of: MessageId,
    /// The settings of the model, as keys and values.
    pub settings: Vec<(String, String)>,
}

/// The `Idempotency-Key` of a request and the hash of its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// The key, 1 to 1024 bytes, unique within the account.
    pub key: String,
    /// The SHA-256 of the request's body.
    pub body_hash: [u8; 32],
}

/// The result of [`ask_question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskResult {
    /// The question was accepted.
    Accepted(Accepted),
    /// The same request was accepted before.
    Replayed { conversation: ConversationId, answer: MessageId },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The conversation after the question.
    pub conversation: ConversationSummary,
    /// The answer, which is in progress.
    pub answer: MessageId,
    /// The number of the exchange among all of the conversation, from 0.
    pub ordinal: u32,
    /// The time at which the answer began.
    pub created_at: Timestamp,
}

/// The reasons why a question was rejected. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AskRefused {
    /// The conversation or account does not exist, or the conversation belongs to another account.
    #[error("no such conversation")]
    NotFound,
    /// The conversation's previous question is still being answered.
    #[error("the conversation is still being answered: wait for the answer or stop it")]
    Busy,
    /// The exchange has [`VERSIONS_MAX`] versions.
    #[error("the question has too many versions: {VERSIONS_MAX} is the maximum")]
    TooManyVersions,
    /// The branch has another model than the question was checked for, because another branch was shown meanwhile.
    #[error("the conversation was switched to the model {0} by another request")]
    OtherModel(String),
    /// The lookup of the question finds another place, because of a question that was asked meanwhile.
    #[error("another question was asked there: ask again")]
    OtherPlace,
    /// The balance does not cover the first step.
    #[error("not enough credits: the question needs {needed}, and the account has {available}", needed = needed.0, available = available.0)]
    Insufficient { needed: Credits, available: Credits },
    /// The key has reached its spending limit, or the first step would exceed it.
    #[error("the key has reached its spending limit")]
    SpendingLimit,
    /// The idempotency key was used with another body.
    #[error("the idempotency key was used with another body: use a new key")]
    Mismatch,
    /// The same request was accepted before, and its conversation has been deleted since.
    #[error("the conversation of the repeated request was deleted")]
    Gone,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Accepts a question. Writes the idempotency key, the first reservation, conversation, answer, question,
/// dispatch row and skill uses in one transaction.
///
/// # Errors
/// [`AskRefused`]. If several apply, the first in this order: repeated, not found, insufficient, busy, spending limit.
/// In an existing conversation, busy precedes insufficient.
pub fn ask_question(tx: &mut dyn Sql, new: &NewQuestion) -> Result<AskResult, AskRefused> {
    if let Some(idempotency) = &new.idempotency
        && let Some((conversation, answer)) = claim_idempotency_key(tx, new, idempotency)?
    {
        return Ok(AskResult::Replayed { conversation, answer });
    }
    let Some((balance, limited)) = reserve_credits(tx, new)? else { return Err(reservation_error(tx, new)?) };
    let (conversation, place) = assign_place(tx, new)?;
    if conversation.model != new.model {
        return Err(AskRefused::OtherModel(conversation.model));
    }
    begin_answer(tx, new, &conversation, place)?;
    if let Some(client) = &new.client {
        record_client_exchange(tx, &new.facts_in(conversation.id), client)?;
    }
    if new.reserve > Credits(0) {
        let mut posting = Posting::new(new.posting, new.account, PostingKind::Reserve, new.reserve, new.now);
        posting.conversation = Some(conversation.id);
        posting.answer = Some(new.answer);
        posting.key = new.key_id();
        posting.model = Some(&conversation.model);
        posting.step = Some(0);
        posting.limited = limited;
        if !count_spent(tx, &posting)? {
            return Err(AskRefused::SpendingLimit);
        }
        record_posting(tx, &posting, balance)?;
    }
    skills::count_skill_uses(tx, new.account, &new.skills)?;
    let conversation = ConversationSummary { open_answer: Some(new.answer), ..conversation };
    Ok(AskResult::Accepted(Accepted {
        conversation,
        answer: new.answer,
        ordinal: place.ordinal,
        created_at: new.now,
    }))
}

/// Returns the conversation and the answer of the same request if it was accepted within the last 24 hours.
/// Call it before checking the question, which may refer to things deleted since.
///
/// # Errors
/// [`AskRefused::Mismatch`], [`AskRefused::Gone`], [`AskRefused::Store`].
pub fn find_accepted_question(
    tx: &mut dyn Sql,
    account: AccountId,
    idempotency: &Idempotency,
    now: Timestamp,
) -> Result<Option<(ConversationId, MessageId)>, AskRefused> {
    let found = tx.query_one(
        "SELECT i.body_hash, i.conversation_id, i.answer_id, c.id FROM idempotency i
         LEFT JOIN conversations c ON c.id = i.conversation_id AND c.deleted_at IS NULL
         WHERE i.account_id = $1 AND i.name = $2 AND i.created_at > $3",
        params![account, &idempotency.key, now.micros() - IDEMPOTENCY_KEPT_MICROS],
        |row| {
            let same = row.opt_blob(0)? == Some(idempotency.body_hash.as_slice());
            Ok((same, row.get_id(1)?, row.get_id(2)?, row.opt_text(3)?.is_some()))
        },
    )?;
    match found {
        None => Ok(None),
        Some((false, ..)) => Err(AskRefused::Mismatch),
        Some((true, _, _, false)) => Err(AskRefused::Gone),
        Some((true, conversation, answer, true)) => Ok(Some((conversation, answer))),
    }
}

impl NewQuestion {
    fn conversation_id(&self) -> ConversationId {
        match &self.target {
            QuestionTarget::Existing(id) | QuestionTarget::BranchOf { conversation: id, .. } => *id,
            QuestionTarget::Version(version) => version.conversation,
            QuestionTarget::New(new) => new.id,
        }
    }

    fn facts_in(&self, conversation: ConversationId) -> QuestionFacts<'_> {
        QuestionFacts {
            account: self.account,
            user: self.user,
            key: self.key_id(),
            conversation,
            answer: self.answer,
            model: &self.model,
            now: self.now,
        }
    }

    fn key_id(&self) -> Option<KeyId> {
        match &self.through {
            AskedThrough::Key(key) => Some(*key),
            AskedThrough::Session(_) | AskedThrough::Service => None,
        }
    }
}

/// Claims the idempotency key for this question, or returns the earlier question that holds it.
fn claim_idempotency_key(
    tx: &mut dyn Sql,
    new: &NewQuestion,
    idempotency: &Idempotency,
) -> Result<Option<(ConversationId, MessageId)>, AskRefused> {
    let taken = tx.query_one(
        "INSERT INTO idempotency (account_id, name, body_hash, conversation_id, answer_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (account_id, name) DO UPDATE SET body_hash = $3, conversation_id = $4, answer_id = $5,
            created_at = $6 WHERE idempotency.created_at <= $7
         RETURNING answer_id",
        params![
            new.account,
            &idempotency.key,
            &idempotency.body_hash,
            new.conversation_id(),
            new.answer,
            new.now,
            new.now.micros() - IDEMPOTENCY_KEPT_MICROS,
        ],
        |_| Ok(()),
    )?;
    if taken.is_some() {
        return Ok(None);
    }
    Ok(Some(
        find_accepted_question(tx, new.account, idempotency, new.now)?.ok_or(StoreError::TransactionLost)?,
    ))
}

/// Locks the account's row, reserves the credits and counts the conversation. Returns the balance and whether
/// the key has a spending limit, which never changes; `None` if the balance is insufficient.
fn reserve_credits(tx: &mut dyn Sql, new: &NewQuestion) -> Result<Option<(Balance, bool)>> {
    let begun = matches!(new.target, QuestionTarget::New(_));
    tx.query_one(
        "UPDATE accounts SET balance = balance - $2, reserved = reserved + $2, conversations = conversations + $3
         WHERE id = $1 AND balance >= $2 AND closed_at IS NULL
         RETURNING balance, reserved, (SELECT k.spending_limit FROM keys k WHERE k.id = $4)",
        params![new.account, stored_int(new.reserve.0)?, begun, new.key_id()],
        |row| Ok((read_balance(row)?, row.opt_int(2)?.is_some())),
    )
}

/// Returns the reason why [`reserve_credits`] failed. A missing or busy conversation takes precedence.
fn reservation_error(tx: &mut dyn Sql, new: &NewQuestion) -> Result<AskRefused> {
    let account = "SELECT balance, reserved FROM accounts WHERE id = $1 AND closed_at IS NULL";
    let Some(balance) = tx.query_one(account, params![new.account], read_balance)? else {
        return Ok(AskRefused::NotFound);
    };
    let insufficient = AskRefused::Insufficient { needed: new.reserve, available: balance.available };
    if matches!(new.target, QuestionTarget::New(_)) {
        return Ok(insufficient);
    }
    let open = tx.query_one(
        "SELECT (SELECT a.id FROM answers a WHERE a.conversation_id = c.id AND a.completed_at IS NULL)
         FROM conversations c WHERE c.id = $1 AND c.account_id = $2 AND c.deleted_at IS NULL",
        params![new.conversation_id(), new.account],
        |row| Ok(row.opt_text(0)?.is_some()),
    )?;
    Ok(match open {
        None => AskRefused::NotFound,
        Some(true) => AskRefused::Busy,
        Some(false) => insufficient,
    })
}

/// Creates or locks the conversation's row and assigns the exchange its place.
fn assign_place(
    tx: &mut dyn Sql,
    new: &NewQuestion,
) -> Result<(ConversationSummary, ExchangePlace), AskRefused> {
    let place_of_version = match &new.target {
        QuestionTarget::New(conversation) => {
            let imported = new.client.as_ref().map_or(0, |client| client.imported.len());
            let ordinal = u32::try_from(imported).unwrap_or(u32::MAX);
            let place = ExchangePlace { ordinal, parent: ordinal.checked_sub(1), depth: ordinal };
            return Ok((insert_conversation(tx, new, conversation, ordinal)?, place));
        }
        QuestionTarget::Existing(_) => None,
        QuestionTarget::BranchOf { conversation, answer } => {
            show_branch(tx, new.account, *conversation, *answer)?;
            None
        }
        QuestionTarget::Version(version) => Some(make_way(tx, new.account, version)?),
    };
    let (conversation, mut place) = append_exchange(tx, new)?;
    if let Some(ExchangePlace { parent, depth, .. }) = place_of_version {
        place = ExchangePlace { parent, depth, ..place };
    }
    Ok((conversation, place))
}

/// Counts the exchange in its conversation, and returns the place after the last exchange that is shown.
fn append_exchange(
    tx: &mut dyn Sql,
    new: &NewQuestion,
) -> Result<(ConversationSummary, ExchangePlace), AskRefused> {
    let goes_on = new.goes_on.as_ref();
    let settings = match &new.target {
        QuestionTarget::Version(version) => Some(&version.settings),
        QuestionTarget::New(_) | QuestionTarget::Existing(_) | QuestionTarget::BranchOf { .. } => {
            goes_on.and_then(|goes_on| goes_on.settings.as_ref())
        }
    };
    let model = settings.map(|_| &new.model);
    let settings = settings.map(codec::encode_json).transpose()?;
    let jurisdictions = goes_on.map(|goes_on| codec::encode_json(&goes_on.jurisdictions)).transpose()?;
    tx.query_one(
        concat!(
            "UPDATE conversations SET modified_at = $3, exchanges = exchanges + 1, model = COALESCE($4, model),
                settings = COALESCE($5, settings), jurisdictions = COALESCE($6, jurisdictions),
                web_search = COALESCE($7, web_search)
             WHERE id = $1 AND account_id = $2 AND deleted_at IS NULL RETURNING ",
            summary_columns!(),
            ", exchanges - 1,
             (SELECT q.ordinal FROM questions q WHERE q.conversation_id = $1 AND q.shown = 1
                ORDER BY q.depth DESC LIMIT 1),
             (SELECT q.depth FROM questions q WHERE q.conversation_id = $1 AND q.shown = 1
                ORDER BY q.depth DESC LIMIT 1)"
        ),
        params![
            new.conversation_id(),
            new.account,
            new.now,
            model,
            settings.as_ref(),
            jurisdictions.as_ref(),
            goes_on.map(|goes_on| goes_on.web_search),
        ],
        |row| {
            let parent = row.opt_int(10)?.is_some().then(|| row.get_u32(10)).transpose()?;
            let depth = parent.map_or(Ok(0), |_| row.get_u32(11).map(|last| last.saturating_add(1)))?;
            Ok((read_summary_columns(row)?, ExchangePlace { ordinal: row.get_u32(9)?, parent, depth }))
        },
    )?
    .ok_or(AskRefused::NotFound)
}

/// Shows the branch of an answer, if it is not shown.
fn show_branch(
    tx: &mut dyn Sql,
    account: AccountId,
    conversation: ConversationId,
    answer: MessageId,
) -> Result<ExchangePlace, AskRefused> {
    let (place, is_shown) = place_of(tx, account, conversation, answer)?.ok_or(AskRefused::NotFound)?;
    if !is_shown {
        show_place(tx, conversation, place)?;
    }
    Ok(place)
}

/// Hides an exchange and the following ones in favour of a version of it. Returns their common place.
fn make_way(
    tx: &mut dyn Sql,
    account: AccountId,
    version: &NewExchangeVersion,
) -> Result<ExchangePlace, AskRefused> {
    let conversation = version.conversation;
    let place = show_branch(tx, account, conversation, version.of)?;
    let hidden = tx.query_one(
        "SELECT count(*) FROM questions WHERE conversation_id = $1 AND parent = $2 AND shown = 0",
        params![conversation, place.parent_column()],
        |row| row.get_u32(0),
    )?;
    if hidden.is_some_and(|hidden| hidden + 1 >= VERSIONS_MAX) {
        return Err(AskRefused::TooManyVersions);
    }
    tx.send_statement(
        "UPDATE questions SET shown = 0 WHERE conversation_id = $1 AND shown = 1 AND depth >= $2",
        params![conversation, place.depth],
    )?;
    tx.send_statement(
        "UPDATE questions SET chosen = 0 WHERE conversation_id = $1 AND parent = $2 AND shown = 0
            AND chosen = 1",
        params![conversation, place.parent_column()],
    )?;
    Ok(place)
}

fn insert_conversation(
    tx: &mut dyn Sql,
    question: &NewQuestion,
    new: &NewConversation,
    imported: u32,
) -> Result<ConversationSummary> {
    let settings = codec::encode_json(&new.settings)?;
    tx.send_statement(
        "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned,
            created_at, modified_at, exchanges)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $8, $9)",
        params![
            new.id,
            question.account,
            &new.title,
            &question.model,
            &settings,
            &codec::encode_json(&new.jurisdictions)?,
            new.web_search,
            question.now,
            imported.saturating_add(1),
        ],
    )?;
    if let Some(client) = &question.client {
        import_exchanges(tx, &question.facts_in(new.id), &settings, client)?;
    }
    Ok(ConversationSummary {
        id: new.id,
        title: new.title.clone(),
        model: question.model.clone(),
        settings: new.settings.clone(),
        jurisdictions: new.jurisdictions.clone(),
        web_search: new.web_search,
        pinned: false,
        created_at: question.now,
        modified_at: question.now,
        open_answer: None,
    })
}

/// Writes answer, question and dispatch row, unless the conversation has an answer in progress.
fn begin_answer(
    tx: &mut dyn Sql,
    new: &NewQuestion,
    conversation: &ConversationSummary,
    place: ExchangePlace,
) -> Result<(), AskRefused> {
    let ModelLimits { price, context_tokens, output_max_tokens } = new.model_limits;
    tx.query_one(
        "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step,
            next_entry, log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning,
            used_estimated, price_base, price_input, price_output, context_tokens, output_max_tokens)
         VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0, 0, $6, 0, 0, 0, 0, 0, 0, $7, $8, $9, $10, $11)
         ON CONFLICT (conversation_id) WHERE completed_at IS NULL DO NOTHING RETURNING id",
        params![
            new.answer,
            conversation.id,
            place.ordinal,
            new.account,
            new.now,
            stored_int(new.reserve.0)?,
            stored_int(price.base_millis)?,
            stored_int(price.input_millis)?,
            stored_int(price.output_millis)?,
            context_tokens,
            output_max_tokens,
        ],
        |_| Ok(()),
    )?
    .ok_or(AskRefused::Busy)?;
    let session = match &new.through {
        AskedThrough::Session(session) => Some(session),
        AskedThrough::Key(_) | AskedThrough::Service => None,
    };
    tx.send_statement(
        "INSERT INTO questions (conversation_id, ordinal, id, text, attachments, agent, skills, created_at,
            user_id, key_id, session_id, trace_id, depth, parent, model, settings, instructions,
            functions, asks_user)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)",
        params![
            conversation.id,
            place.ordinal,
            new.question,
            &new.text,
            &codec::encode_json(&new.attachments)?,
            new.agent.as_ref(),
            &codec::encode_json(&new.skills)?,
            new.now,
            new.user,
            new.key_id(),
            session,
            new.trace,
            place.depth,
            place.parent_column(),
            &conversation.model,
            &codec::encode_json(&conversation.settings)?,
            new.instructions.as_ref(),
            codec::write_functions(&new.functions)?.as_ref(),
            new.asks_user,
        ],
    )?;
    tx.send_statement(
        "INSERT INTO dispatch (answer_id, conversation_id, account_id, accepted_at, stop_requested)
         VALUES ($1, $2, $3, $4, 0)",
        params![new.answer, conversation.id, new.account, new.now],
    )?;
    Ok(())
}
