//! Claims with a large backlog.

use std::time::Duration;

use domain::id::MessageId;
use domain::time::Timestamp;
use store::turns::{self, ClaimOptions, ClaimedTurn, Fence, TurnError};
use store::{Options, RowExt, Sql, SqlExt, StoreError, audit, machines, questions};

use crate::fixture::{Engine, Fixture, claim_options, node, run};

on_every_engine!(claims_go_on_in_order_and_in_each_accounts_share_however_many_wait);

/// The number of waiting answers, spread evenly over the accounts.
const WAITING: usize = 20_000;
const ACCOUNTS: usize = 32;

/// Bulk inserts of the backlog, in the dialect of both engines.
const BACKLOG: [&str; 4] = [
    "INSERT INTO accounts (id, created_at, balance, reserved, conversations)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 31)
     SELECT 'a0000000-0000-4000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2), 0, 0, 0, 0 FROM n",
    "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned, created_at,
        modified_at, exchanges)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)
     SELECT 'c0000000-0000-4000-8000-' || substr(CAST(1000000000000 + i AS TEXT), 2),
        'a0000000-0000-4000-8000-' || substr(CAST(1000000000000 + i % 32 AS TEXT), 2), '', '', '{}', '[]', 0, 0, 0, 0, 1
     FROM n",
    "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step, next_entry,
        log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning, used_estimated)
     SELECT 'b' || substr(id, 2), id, 0, account_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM conversations",
    "INSERT INTO dispatch (answer_id, conversation_id, account_id, accepted_at, stop_requested)
     SELECT id, conversation_id, account_id, CAST(substr(id, 25) AS BIGINT), 0 FROM answers",
];

async fn fill(fixture: &Fixture) {
    for sql in BACKLOG {
        fixture.store.write(move |tx| run(tx, sql)).await.expect("rows");
    }
}

async fn claim(fixture: &Fixture, per_account_max: u32, limit: u32) -> Vec<ClaimedTurn> {
    let options = ClaimOptions { per_account_max, limit, ..claim_options() };
    fixture.store.write(move |tx| turns::claim(tx, &options)).await.expect("a claim")
}

/// Returns the positions of the claimed answers in the backlog, counted from the oldest.
fn places(claimed: &[ClaimedTurn]) -> Vec<usize> {
    let place = |one: &ClaimedTurn| one.fence.answer.to_string()[24..].parse().expect("a number");
    claimed.iter().map(place).collect()
}

async fn claims_go_on_in_order_and_in_each_accounts_share_however_many_wait(engine: Engine) {
    let fixture = Fixture::new(engine);
    fill(&fixture).await;
    assert_eq!(places(&claim(&fixture, 3, 40).await), (0..40).collect::<Vec<_>>());
    // Each account gets the rest of its three, and the other rows are behind hundreds of rows of full
    // accounts.
    assert_eq!(places(&claim(&fixture, 3, 256).await), (40..3 * ACCOUNTS).collect::<Vec<_>>());
    assert_eq!(claim(&fixture, 3, 256).await, []);
    let full = "UPDATE dispatch SET accepted_at = accepted_at + 1000000 WHERE account_id LIKE '%31'";
    fixture.store.write(move |tx| run(tx, full)).await.expect("a change");
    let free = "UPDATE dispatch SET lease_until = NULL, node_id = NULL WHERE account_id LIKE '%31'";
    fixture.store.write(move |tx| run(tx, free)).await.expect("a change");
    assert_eq!(places(&claim(&fixture, 3, 256).await), [31, 63, 95]);
    let mut seen = 3 * ACCOUNTS;
    while seen < 3000 {
        let claimed = claim(&fixture, 100, 256).await;
        let ages: Vec<usize> =
            places(&claimed).iter().map(|at| at + at % ACCOUNTS / 31 * 1_000_000).collect();
        assert!(ages.is_sorted());
        seen += claimed.len();
    }
}

/// The rows and index entries read from the tables that grow with the backlog.
const VISITED: &str = "SELECT CAST(COALESCE(SUM(pg_stat_get_xact_tuples_returned(c.oid)
        + pg_stat_get_xact_tuples_fetched(c.oid)), 0) AS BIGINT)
    FROM pg_class c LEFT JOIN pg_index i ON i.indexrelid = c.oid
    WHERE COALESCE(i.indrelid, c.oid) IN ('dispatch'::regclass, 'answers'::regclass, 'machines'::regclass,
        'audit'::regclass, 'idempotency'::regclass)";

/// Returns the count of this session so far, including earlier transactions.
fn counted(tx: &mut dyn Sql) -> Result<i64, StoreError> {
    Ok(tx.one(VISITED, &[], |row| row.int(0))?.unwrap_or_default())
}

/// Returns the number of rows and index entries that a transaction of `work` reads.
async fn visited<E: From<StoreError> + std::fmt::Debug + Send + 'static>(
    fixture: &Fixture,
    work: impl Fn(&mut dyn Sql) -> Result<(), E> + Send + 'static,
) -> i64 {
    let visits = move |tx: &mut dyn Sql| {
        let before = counted(tx)?;
        work(tx)?;
        Ok::<_, E>(counted(tx)? - before)
    };
    fixture.store.write(visits).await.expect("it is done")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_operations_visit_few_rows_with_outdated_plans() {
    let options = Options { writers: Some(1), plans_kept: Some(Duration::ZERO), ..Options::default() };
    let fixture = Fixture::with(Engine::Postgres, options);
    let account = fixture.account(0).await;
    for table in ["ANALYZE dispatch", "ANALYZE answers", "ANALYZE audit", "ANALYZE idempotency"] {
        fixture.store.write(move |tx| run(tx, table)).await.expect("figures");
    }
    let fence = Fence { answer: MessageId::from_random(1), epoch: 1, node: node() };
    let sweep = |tx: &mut dyn Sql| {
        audit::sweep(tx, 100, 50)?;
        questions::sweep_idempotency(tx, Timestamp::from_micros(100 + 86_400_000_000), 50)?;
        Ok::<_, StoreError>(())
    };
    for _ in 0..8 {
        let refused = fixture.store.write(move |tx| turns::release(tx, fence)).await;
        assert!(matches!(refused, Err(TurnError::Fenced)), "{refused:?}");
        visited(&fixture, move |tx| machines::clear_start_request(tx, account).map(drop)).await;
        visited(&fixture, sweep).await;
    }
    fill(&fixture).await;
    for sql in [
        "INSERT INTO audit (created_at, account_id, actor, action, subject, detail)
         SELECT CAST(substr(id, 25) AS BIGINT), account_id, 'a', 'a', 'a', 'a' FROM answers",
        "INSERT INTO idempotency (account_id, name, body_hash, conversation_id, answer_id, created_at)
         SELECT a.account_id, a.id, k.fingerprint, a.conversation_id, a.id, CAST(substr(a.id, 25) AS BIGINT)
         FROM answers a CROSS JOIN (SELECT decode(repeat('00', 32), 'hex') AS fingerprint) k",
    ] {
        fixture.store.write(move |tx| run(tx, sql)).await.expect("rows");
    }
    let held = claim(&fixture, 1, 1).await[0].fence;
    let few = |visited: i64| assert!(visited < 1000, "{visited} of {WAITING} rows were visited");
    few(visited(&fixture, move |tx| turns::put_back(tx, held)).await);
    few(visited(&fixture, move |tx| machines::clear_start_request(tx, account).map(drop)).await);
    few(visited(&fixture, sweep).await);
    assert_eq!(fixture.count("SELECT count(*) FROM audit").await, WAITING as i64 - 50);
    assert_eq!(fixture.count("SELECT count(*) FROM idempotency").await, WAITING as i64 - 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_claims_visit_few_rows_with_outdated_statistics() {
    let options = Options { writers: Some(1), ..Options::default() };
    let fixture = Fixture::with(Engine::Postgres, options);
    let visits = async |per_account_max, limit| {
        let options = ClaimOptions { per_account_max, limit, ..claim_options() };
        let visits = move |tx: &mut dyn Sql| {
            let before = counted(tx)?;
            turns::claim_stopped(tx, &options)?;
            let claimed = turns::claim(tx, &options)?.len();
            Ok::<_, StoreError>((claimed, counted(tx)? - before))
        };
        fixture.store.write(visits).await.expect("a claim")
    };
    // The server's plans and statistics are of an empty queue.
    for table in ["ANALYZE dispatch", "ANALYZE answers", "ANALYZE machines"] {
        fixture.store.write(move |tx| run(tx, table)).await.expect("figures");
    }
    for _ in 0..8 {
        assert_eq!(visits(100, 256).await.0, 0);
    }
    fill(&fixture).await;
    for (per_account_max, limit, wanted) in
        [(2, 20, 20), (2, 256, 2 * ACCOUNTS - 20), (2, 256, 0), (100, 256, 256)]
    {
        let (claimed, visited) = visits(per_account_max, limit).await;
        assert_eq!(claimed, wanted);
        assert!(visited < 8_000, "{visited} of {WAITING} rows were visited to take up {claimed}");
    }
}
