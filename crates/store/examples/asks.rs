//! Measures durable questions per second with 64 callers, compared with a bare loop of the same inserts
//! without callers, queue and savepoints; then reads, and pages of a hundred thousand conversations.
//!
//! `cargo run -p store --example asks [seconds [postgres://… [connections that write]]]`. Compare only
//! figures of one run. On PostgreSQL there is neither a bare loop nor a list.

#![expect(clippy::print_stdout, reason = "it is run by hand to see its figures")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use domain::account::AccountRole;
use domain::credits::Credits;
use domain::id::{AccountId, ConversationId, KeyId, MessageId, PostingId, UserId};
use domain::time::Timestamp;
use rusqlite::{Connection, params};
use store::accounts::NewAccount;
use store::questions::{AskedThrough, NewConversation, NewQuestion, QuestionTarget};
use store::{SqlExt, Store, StoreError, StoreOptions, accounts, conversations, questions};

const CALLERS: usize = 64;
const ACCOUNTS: u128 = 64;
const LISTED: i64 = 100_000;
const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?;
    let time = Duration::from_secs(seconds);
    if let Some(url) = std::env::args().nth(2) {
        return on_server(&url, time).await;
    }
    let folder = tempfile::tempdir()?;
    // Bare, store, bare: the difference of the bare runs shows the variance of the disk.
    let before = measure_bare_statements(&folder.path().join("bare.db"), time)?;
    let store = Store::open(&folder.path().join("store.db"))?;
    make_accounts(&store).await?;
    let asked = measure_asks(&store, time, ACCOUNTS).await?;
    let after = measure_bare_statements(&folder.path().join("again.db"), time)?;
    println!("bare loop, groups of {CALLERS}: {before:.0}/s before, {after:.0}/s after");
    println!(
        "store, {CALLERS} callers: {asked:.0}/s, {:.2} of the bare loop",
        asked * 2.0 / (before + after)
    );
    println!("store, {CALLERS} callers of one account: {:.0}/s", measure_asks(&store, time, 1).await?);
    println!("store, {CALLERS} readers of one answer: {:.0}/s", measure_reads(&store, time).await?);
    measure_listing(&store).await?;
    store.close().await;
    Ok(())
}

async fn on_server(url: &str, time: Duration) -> Outcome<()> {
    let writers = std::env::args().nth(3).map(|number| number.parse()).transpose()?;
    let store = Store::connect_with(url, StoreOptions { writers, ..StoreOptions::default() })?;
    make_accounts(&store).await?;
    println!("store, {CALLERS} callers: {:.0}/s", measure_asks(&store, time, ACCOUNTS).await?);
    println!("store, {CALLERS} callers of one account: {:.0}/s", measure_asks(&store, time, 1).await?);
    println!("store, {CALLERS} readers of one answer: {:.0}/s", measure_reads(&store, time).await?);
    store.close().await;
    Ok(())
}

fn account_id(number: u128) -> AccountId {
    AccountId::from_random(number % ACCOUNTS)
}

async fn make_accounts(store: &Store) -> Outcome<()> {
    for number in 0..ACCOUNTS {
        let new = NewAccount {
            account: account_id(number),
            user: UserId::from_random(number),
            role: AccountRole::Owner,
            email: format!("{number}@example.org"),
            licence_until: None,
            grant: Credits(1_000_000_000_000),
            posting: PostingId::from_random(number),
            machine: false,
            now: NOW,
        };
        store.write(move |tx| accounts::create_account(tx, &new)).await?;
    }
    Ok(())
}

/// Spreads numbers over all bits, like random identifiers.
fn scatter_bits(number: u64) -> u128 {
    u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
}

fn new_question(number: u64, accounts: u128) -> NewQuestion {
    let bits = scatter_bits(number + 1);
    NewQuestion {
        model: "reader".to_owned(),
        goes_on: None,
        model_limits: domain::catalog::ModelLimits {
            price: domain::credits::Price { base_millis: 1000, input_millis: 0, output_millis: 0 },
            context_tokens: 8000,
            output_max_tokens: 1000,
        },
        account: account_id(u128::from(number) % accounts),
        user: None,
        through: AskedThrough::Key(KeyId::from_random(7)),
        trace: None,
        target: QuestionTarget::New(NewConversation {
            id: ConversationId::from_random(bits),
            title: "What is the rent?".to_owned(),
            settings: Vec::new(),
            jurisdictions: vec!["CZ".to_owned()],
            web_search: false,
        }),
        question: MessageId::from_random(bits ^ 1),
        answer: MessageId::from_random(bits ^ 2),
        text: "What is the rent, and when is it due?".to_owned(),
        attachments: vec!["/uploads/lease.pdf".to_owned()],
        instructions: None,
        functions: Vec::new(),
        asks_user: false,
        client: None,
        agent: None,
        skills: Vec::new(),
        reserve: Credits(20),
        posting: PostingId::from_random(bits ^ 3),
        idempotency: None,
        now: NOW,
    }
}

async fn measure_asks(store: &Store, time: Duration, accounts: u128) -> Outcome<f64> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let first = NEXT.load(Ordering::Relaxed);
    let began = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        let store = store.clone();
        callers.push(tokio::spawn(async move {
            while began.elapsed() < time {
                let new = new_question(NEXT.fetch_add(1, Ordering::Relaxed), accounts);
                store.write(move |tx| questions::ask_question(tx, &new)).await?;
            }
            Ok::<_, questions::AskRefused>(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    Ok((NEXT.load(Ordering::Relaxed) - first) as f64 / began.elapsed().as_secs_f64())
}

async fn measure_reads(store: &Store, time: Duration) -> Outcome<f64> {
    let count = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut callers = Vec::new();
    for number in 0..CALLERS as u64 {
        let (store, count) = (store.clone(), Arc::clone(&count));
        let asked = new_question(number, ACCOUNTS);
        let QuestionTarget::New(NewConversation { id, .. }) = asked.target else { continue };
        callers.push(tokio::spawn(async move {
            while began.elapsed() < time {
                store.read(move |tx| conversations::find_answer(tx, asked.account, id, asked.answer)).await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, conversations::ConversationError>(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    Ok(count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
}

async fn measure_listing(store: &Store) -> Outcome<()> {
    let owner = AccountId::from_random(1 << 50);
    let new = NewAccount {
        account: owner,
        user: UserId::from_random(1 << 50),
        role: AccountRole::Owner,
        email: "many".to_owned(),
        licence_until: None,
        grant: Credits(0),
        posting: PostingId::from_random(1 << 50),
        machine: false,
        now: NOW,
    };
    store.write(move |tx| accounts::create_account(tx, &new)).await?;
    store
        .write(move |tx| {
            tx.execute(
                "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned,
                    created_at, modified_at, exchanges)
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2)
                 SELECT lower(substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-8'
                    || substr(h, 18, 3) || '-' || substr(h, 21, 12)), $1, 'title ' || i, 'reader', '[]', '[]', 0, i % 1000 = 0, i, i, 0
                 FROM (SELECT i, hex(randomblob(16)) AS h FROM n)",
                &[owner.into(), LISTED.into()],
            )?;
            tx.execute("UPDATE accounts SET conversations = $2 WHERE id = $1", &[owner.into(), LISTED.into()])?;
            tx.query_one("SELECT 1", &[], |_| Ok(()))
        })
        .await?;
    for (page, offset) in [(1, 0), (1000, 49_950), (2000, 99_950)] {
        let mut best = Duration::MAX;
        for _ in 0..20 {
            let began = Instant::now();
            let listed =
                store.read(move |tx| conversations::list_conversations(tx, owner, offset, 50)).await?;
            best = best.min(began.elapsed());
            if listed.conversations.len() != 50 || listed.total != LISTED as u64 {
                return Err(StoreError::Rule("a page of 50 is full").into());
            }
        }
        println!("page {page} of {LISTED} conversations: {:.2} ms", best.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// Runs the statements of a question, prepared once, in groups as large as the number of callers.
fn measure_bare_statements(path: &Path, time: Duration) -> Outcome<f64> {
    static NUMBER: AtomicU64 = AtomicU64::new(1 << 60);
    drop(Store::open(path)?);
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "cache_size", -8192)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
    connection.set_prepared_statement_cache_capacity(64);
    for number in 0..ACCOUNTS {
        connection.execute(
            "INSERT INTO accounts (id, created_at, balance, reserved, conversations) VALUES (?1, 0, ?2, 0, 0)
             ON CONFLICT DO NOTHING",
            params![account_id(number).to_string(), 1_000_000_000_000_i64],
        )?;
    }
    let began = Instant::now();
    let mut done = 0_u64;
    while began.elapsed() < time {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for _ in 0..CALLERS {
            bare_ask(&connection, NUMBER.fetch_add(1, Ordering::Relaxed))?;
            done += 1;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}

fn bare_ask(connection: &Connection, number: u64) -> Outcome<()> {
    let bits = scatter_bits(number + 1);
    let account = account_id(u128::from(number)).to_string();
    let conversation = ConversationId::from_random(bits).to_string();
    let (question, answer) = (MessageId::from_random(bits ^ 1), MessageId::from_random(bits ^ 2));
    let (question, answer) = (question.to_string(), answer.to_string());
    let posting = PostingId::from_random(bits ^ 3).to_string();
    let key = KeyId::from_random(7).to_string();
    let now = NOW.micros();
    connection
        .prepare_cached(
            "UPDATE accounts SET balance = balance - 20, reserved = reserved + 20, conversations = conversations + 1
             WHERE id = ?1 AND balance >= 20",
        )?
        .execute(params![account])?;
    connection
        .prepare_cached(
            "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned,
                created_at, modified_at, exchanges)
             VALUES (?1, ?2, 'What is the rent?', 'reader', '[]', '[\"CZ\"]', 0, 0, ?3, ?3, 1)",
        )?
        .execute(params![conversation, account, now])?;
    connection
        .prepare_cached(
            "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step,
                next_entry, log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning,
                used_estimated)
             VALUES (?1, ?2, 0, ?3, ?4, 0, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0)",
        )?
        .execute(params![answer, conversation, account, now])?;
    connection
        .prepare_cached(
            "INSERT INTO questions (conversation_id, ordinal, id, text, attachments, skills, created_at, key_id)
             VALUES (?1, 0, ?2, 'What is the rent, and when is it due?', '[\"/uploads/lease.pdf\"]', '[]', ?3, ?4)",
        )?
        .execute(params![conversation, question, now, key])?;
    connection
        .prepare_cached(
            "INSERT INTO dispatch (answer_id, conversation_id, account_id, accepted_at, stop_requested)
             VALUES (?1, ?2, ?3, ?4, 0)",
        )?
        .execute(params![answer, conversation, account, now])?;
    connection
        .prepare_cached(
            "INSERT INTO postings (id, account_id, created_at, kind, amount, balance, reserved, conversation_id,
                answer_id, key_id, model, step)
             VALUES (?1, ?2, ?3, 'reserve', 20, 1, 1, ?4, ?5, ?6, 'reader', 0)",
        )?
        .execute(params![posting, account, now, conversation, answer, key])?;
    Ok(())
}
