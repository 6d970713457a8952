//! A server with a full disk.

use std::sync::Arc;

use domain::credits::Credits;
use store::questions::{AskRefused, NewQuestion};
use store::{SqlExt, StoreError, StoreOptions, questions};

use crate::fixture::StoreFixture;
use test_support::postgres::PostgresServer;

/// Space that is allocated first and freed later to make room.
const BALLAST: &str = "CREATE TABLE ballast AS SELECT string_agg(md5(i::text), '') AS text
    FROM generate_series(1, 200000) i GROUP BY i % 200";

#[test]
fn postgres_full_disk_is_reported() {
    // The server outlives the runtime, and its folder the threads that use it.
    let server = PostgresServer::start_small(24);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(fill_disk(&server));
}

async fn fill_disk(server: &PostgresServer) {
    let fixture = Arc::new(StoreFixture::open_at(server.new_database(), StoreOptions::default()));
    let account = fixture.create_account(100_000).await;
    server.run_sql(BALLAST);
    let mut tasks = Vec::new();
    for number in 0..400 {
        let question = NewQuestion { text: random_letters(number, 60_000), ..fixture.new_question(account) };
        let answer = question.answer;
        let store = fixture.store.clone();
        tasks.push((
            answer,
            tokio::spawn(async move { store.write(move |tx| questions::ask_question(tx, &question)).await }),
        ));
    }
    let (mut accepted, mut full) = (0, 0);
    for (answer, task) in tasks {
        let outcome = task.await.expect("it does not panic");
        let there = fixture
            .store
            .read(move |tx| tx.query_one("SELECT 1 FROM answers WHERE id = $1", &[answer.into()], |_| Ok(())))
            .await
            .expect("reads still work");
        match outcome {
            Ok(_) => {
                assert!(there.is_some());
                accepted += 1;
            }
            Err(error) => {
                assert!(matches!(error, AskRefused::Store(StoreError::Full)), "{error}");
                assert!(there.is_none());
                full += 1;
            }
        }
    }
    assert!(accepted > 0 && full > 0, "some fit, some do not: {accepted}, {full}");
    assert_eq!(fixture.read_balance(account).await.reserved, Credits(10 * accepted));
    server.run_sql("DROP TABLE ballast");
    fixture.ask_question(fixture.new_question(account)).await.expect("there is room again");
}

fn random_letters(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state % 26).expect("it is less than 26"))
    };
    (0..length).map(|_| letter()).collect()
}
