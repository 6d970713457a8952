//! Tests that the work of a claim, counted in steps of SQLite's virtual machine, does not grow with the
//! backlog.

use std::collections::HashSet;
use std::time::Duration;

use domain::id::NodeId;
use rusqlite::{Connection, StatementStatus};

use super::*;
use crate::sql::SqlValue;
use crate::{migrations, sqlite};

/// Inserts a backlog of `$1` rows, spread over `$2` accounts.
const BACKLOG: [&str; 4] = [
    "INSERT INTO accounts (id, created_at, balance, reserved, conversations)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
     SELECT printf('a0000000-0000-4000-8000-%012d', i), 0, 0, 0, 0 FROM n WHERE ?1 > 0",
    "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned, created_at,
        modified_at, exchanges)
     WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
     SELECT printf('c0000000-0000-4000-8000-%012d', i), printf('a0000000-0000-4000-8000-%012d', i % ?2), '', '', '{}',
        '[]', 0, 0, 0, 0, 1 FROM n",
    "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step, next_entry,
        log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning, used_estimated)
     SELECT 'b' || substr(id, 2), id, 0, account_id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM conversations
     WHERE ?1 > 0 AND ?2 > 0",
    "INSERT INTO dispatch (answer_id, conversation_id, account_id, accepted_at, stop_requested)
     SELECT id, conversation_id, account_id, CAST(substr(id, 25) AS INTEGER), 0 FROM answers WHERE ?1 > 0 AND ?2 > 0",
];

/// Creates a database with `rows` waiting answers of `accounts` accounts.
fn create_backlog(rows: i64, accounts: i64) -> (tempfile::TempDir, Connection) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut connection = sqlite::open_writer(&folder.path().join("store.db"), None).expect("a database");
    migrations::apply_migrations(&mut connection).expect("the tables");
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN").expect("a transaction");
    for sql in BACKLOG {
        connection.execute(sql, [rows, accounts]).expect("rows");
    }
    connection.execute_batch("COMMIT").expect("a commit");
    (folder, connection)
}

/// Records the statements that run.
struct Recorder<'c> {
    inner: sqlite::SqliteTransaction<'c>,
    statements: HashSet<&'static str>,
}

impl Sql for Recorder<'_> {
    fn execute(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<u64> {
        self.statements.insert(sql);
        self.inner.execute(sql, params)
    }

    fn query_each(
        &mut self,
        sql: &'static str,
        params: &[SqlValue<'_>],
        row: &mut dyn FnMut(&dyn SqlRow) -> Result<()>,
    ) -> Result<()> {
        self.statements.insert(sql);
        self.inner.query_each(sql, params, row)
    }

    fn send_statement(&mut self, sql: &'static str, params: &[SqlValue<'_>]) -> Result<()> {
        self.execute(sql, params).map(drop)
    }

    fn lock_rows(&mut self, _: &'static str, _: &[SqlValue<'_>]) -> Result<()> {
        Ok(())
    }
}

/// Returns the result of `work` and the virtual machine steps that it takes.
fn count_vm_steps<T>(connection: &Connection, work: impl Fn(&mut dyn Sql) -> Result<T>) -> (i64, T) {
    let inner = sqlite::SqliteTransaction::new(connection);
    let mut recorder = Recorder { inner, statements: HashSet::new() };
    let outcome = work(&mut recorder).expect("it is done");
    let of_one = |sql: &&str| {
        let statement = connection.prepare_cached(sql).expect("it is cached");
        i64::from(statement.reset_status(StatementStatus::VmStep))
    };
    (recorder.statements.iter().map(of_one).sum(), outcome)
}

fn claim_options(limit: u32, per_account_max: u32) -> TurnClaimOptions {
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    let lease_until = now.saturating_add(Duration::from_secs(10));
    TurnClaimOptions { node: NodeId::from_random(1), now, lease_until, per_account_max, limit }
}

#[test]
fn claim_work_independent_of_backlog() {
    let (_few_folder, few) = create_backlog(640, 32);
    let (_many_folder, many) = create_backlog(100_000, 32);
    // First the front of the queue suffices; then every account is at its limit; then some have room again.
    for (per_account_max, limit) in [(100, 20), (2, 256), (2, 256), (3, 256)] {
        let options = claim_options(limit, per_account_max);
        let claim_all = |tx: &mut dyn Sql| {
            claim_stopped(tx, &options)?;
            claim_turns(tx, &options)
        };
        let (of_few, claimed_of_few) = count_vm_steps(&few, claim_all);
        let (of_many, claimed_of_many) = count_vm_steps(&many, claim_all);
        assert_eq!(claimed_of_few, claimed_of_many);
        assert!(of_many <= of_few * 2, "{of_few} steps with 640 waiting, {of_many} with 100,000");
        assert!(of_many < 100_000, "{of_many} steps");
    }
}

#[test]
fn claim_full_accounts_starve_nobody() {
    let (_folder, connection) = create_backlog(20_000, 40);
    // Thousands of answers wait for accounts at their limit, and the answers of the last account are the newest.
    connection
        .execute_batch(
            "UPDATE dispatch SET node_id = '00000000-0000-4000-8000-000000000009', lease_until = 1900000000000000
             WHERE accepted_at < 39;
             UPDATE dispatch SET accepted_at = accepted_at + 1000000 WHERE account_id LIKE '%39'",
        )
        .expect("leases");
    let claimed = count_vm_steps(&connection, |tx| claim_turns(tx, &claim_options(256, 1))).1;
    assert_eq!(claimed.len(), 1);
    assert!(claimed[0].account.to_string().ends_with("39"));
    let claimed = count_vm_steps(&connection, |tx| claim_turns(tx, &claim_options(256, 100))).1;
    let ages: Vec<String> = claimed.iter().map(|one| one.fence.answer.to_string()).collect();
    assert_eq!(claimed.len(), 256);
    assert!(ages.is_sorted(), "the oldest first");
}
