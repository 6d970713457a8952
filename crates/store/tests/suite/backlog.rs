//! Claims with a large backlog.

use std::time::Duration;

use domain::id::MessageId;
use domain::time::Timestamp;
use store::turns::{self, ClaimedTurn, Fence, TurnClaimOptions, TurnError};
use store::{RowExt, Sql, SqlExt, StoreError, StoreOptions, audit, machines, questions};

use crate::fixture::{StoreEngine, StoreFixture, claim_options, claiming_node, run_sql};

on_every_engine!(claims_follow_order_and_account_share);

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

async fn fill_backlog(fixture: &StoreFixture) {
    for sql in BACKLOG {
        fixture.store.write(move |tx| run_sql(tx, sql)).await.expect("rows");
    }
}

async fn claim_limited(fixture: &StoreFixture, per_account_max: u32, limit: u32) -> Vec<ClaimedTurn> {
    let options = TurnClaimOptions { per_account_max, limit, ..claim_options() };
    fixture.store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim")
}

/// Returns the positions of the claimed answers in the backlog, counted from the oldest.
fn backlog_positions(claimed: &[ClaimedTurn]) -> Vec<usize> {
    let place = |one: &ClaimedTurn| one.fence.answer.to_string()[24..].parse().expect("a number");
    claimed.iter().map(place).collect()
}

async fn claims_follow_order_and_account_share(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    fill_backlog(&fixture).await;
    assert_eq!(backlog_positions(&claim_limited(&fixture, 3, 40).await), (0..40).collect::<Vec<_>>());
    // Each account gets the rest of its three, and the other rows are behind hundreds of rows of full
    // accounts.
    assert_eq!(
        backlog_positions(&claim_limited(&fixture, 3, 256).await),
        (40..3 * ACCOUNTS).collect::<Vec<_>>()
    );
    assert_eq!(claim_limited(&fixture, 3, 256).await, []);
    let full = "UPDATE dispatch SET accepted_at = accepted_at + 1000000 WHERE account_id LIKE '%31'";
    fixture.store.write(move |tx| run_sql(tx, full)).await.expect("a change");
    let free = "UPDATE dispatch SET lease_until = NULL, node_id = NULL WHERE account_id LIKE '%31'";
    fixture.store.write(move |tx| run_sql(tx, free)).await.expect("a change");
    assert_eq!(backlog_positions(&claim_limited(&fixture, 3, 256).await), [31, 63, 95]);
    let mut seen = 3 * ACCOUNTS;
    while seen < 3000 {
        let claimed = claim_limited(&fixture, 100, 256).await;
        let ages: Vec<usize> =
            backlog_positions(&claimed).iter().map(|at| at + at % ACCOUNTS / 31 * 1_000_000).collect();
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
fn count_visits(tx: &mut dyn Sql) -> Result<i64, StoreError> {
    Ok(tx.query_one(VISITED, &[], |row| row.get_int(0))?.unwrap_or_default())
}

/// Returns the number of rows and index entries that a transaction of `work` reads.
async fn measure_visits<E: From<StoreError> + std::fmt::Debug + Send + 'static>(
    fixture: &StoreFixture,
    work: impl Fn(&mut dyn Sql) -> Result<(), E> + Send + 'static,
) -> i64 {
    let visits = move |tx: &mut dyn Sql| {
        let before = count_visits(tx)?;
        work(tx)?;
        Ok::<_, E>(count_visits(tx)? - before)
    };
    fixture.store.write(visits).await.expect("it is done")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_outdated_plans_visit_few_rows() {
    let options =
        StoreOptions { writers: Some(1), plans_kept: Some(Duration::ZERO), ..StoreOptions::default() };
    let fixture = StoreFixture::with_options(StoreEngine::Postgres, options);
    let account = fixture.create_account(0).await;
    for table in ["ANALYZE dispatch", "ANALYZE answers", "ANALYZE audit", "ANALYZE idempotency"] {
        fixture.store.write(move |tx| run_sql(tx, table)).await.expect("figures");
    }
    let fence = Fence { answer: MessageId::from_random(1), epoch: 1, node: claiming_node() };
    let sweep = |tx: &mut dyn Sql| {
        audit::trim_audit_log(tx, 100, 50)?;
        questions::sweep_idempotency(tx, Timestamp::from_micros(100 + 86_400_000_000), 50)?;
        Ok::<_, StoreError>(())
    };
    for _ in 0..8 {
        let refused = fixture.store.write(move |tx| turns::release_lease(tx, fence)).await;
        assert!(matches!(refused, Err(TurnError::Fenced)), "{refused:?}");
        measure_visits(&fixture, move |tx| machines::clear_start_request(tx, account).map(drop)).await;
        measure_visits(&fixture, sweep).await;
    }
    fill_backlog(&fixture).await;
    for sql in [
        "INSERT INTO audit (created_at, account_id, actor, action, subject, detail)
         SELECT CAST(substr(id, 25) AS BIGINT), account_id, 'a', 'a', 'a', 'a' FROM answers",
        "INSERT INTO idempotency (account_id, name, body_hash, conversation_id, answer_id, created_at)
         SELECT a.account_id, a.id, k.fingerprint, a.conversation_id, a.id, CAST(substr(a.id, 25) AS BIGINT)
         FROM answers a CROSS JOIN (SELECT decode(repeat('00', 32), 'hex') AS fingerprint) k",
    ] {
        fixture.store.write(move |tx| run_sql(tx, sql)).await.expect("rows");
    }
    let held = claim_limited(&fixture, 1, 1).await[0].fence;
    let few = |visited: i64| assert!(visited < 1000, "{visited} of {WAITING} rows were visited");
    few(measure_visits(&fixture, move |tx| turns::put_back(tx, held)).await);
    few(measure_visits(&fixture, move |tx| machines::clear_start_request(tx, account).map(drop)).await);
    few(measure_visits(&fixture, sweep).await);
    assert_eq!(fixture.query_count("SELECT count(*) FROM audit").await, WAITING as i64 - 50);
    assert_eq!(fixture.query_count("SELECT count(*) FROM idempotency").await, WAITING as i64 - 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_claims_visit_few_rows() {
    let options = StoreOptions { writers: Some(1), ..StoreOptions::default() };
    let fixture = StoreFixture::with_options(StoreEngine::Postgres, options);
    let visits = async |per_account_max, limit| {
        let options = TurnClaimOptions { per_account_max, limit, ..claim_options() };
        let visits = move |tx: &mut dyn Sql| {
            let before = count_visits(tx)?;
            turns::claim_stopped(tx, &options)?;
            let claimed = turns::claim_turns(tx, &options)?.len();
            Ok::<_, StoreError>((claimed, count_visits(tx)? - before))
        };
        fixture.store.write(visits).await.expect("a claim")
    };
    // The server's plans and statistics are of an empty queue.
    for table in ["ANALYZE dispatch", "ANALYZE answers", "ANALYZE machines"] {
        fixture.store.write(move |tx| run_sql(tx, table)).await.expect("figures");
    }
    for _ in 0..8 {
        assert_eq!(visits(100, 256).await.0, 0);
    }
    fill_backlog(&fixture).await;
    for (per_account_max, limit, wanted) in
        [(2, 20, 20), (2, 256, 2 * ACCOUNTS - 20), (2, 256, 0), (100, 256, 256)]
    {
        let (claimed, visited) = visits(per_account_max, limit).await;
        assert_eq!(claimed, wanted);
        assert!(visited < 8_000, "{visited} of {WAITING} rows were visited to take up {claimed}");
    }
}
