//! A server with a full disk.

use std::sync::Arc;

use domain::credits::Credits;
use store::questions::{AskRefused, NewQuestion};
use store::{Options, SqlExt, StoreError, questions};

use crate::fixture::Fixture;
use test_support::postgres::Server;

/// Space that is allocated first and freed later to make room.
const BALLAST: &str = "CREATE TABLE ballast AS SELECT string_agg(md5(i::text), '') AS text
    FROM generate_series(1, 200000) i GROUP BY i % 200";

#[test]
fn postgres_a_full_disk_is_reported_as_full() {
    // The server outlives the runtime, and its folder the threads that use it.
    let server = Server::small(24);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(fill(&server));
}

async fn fill(server: &Server) {
    let fixture = Arc::new(Fixture::at(server.new_database(), Options::default()));
    let account = fixture.account(100_000).await;
    server.sql(BALLAST);
    let mut tasks = Vec::new();
    for number in 0..400 {
        let question = NewQuestion { text: noise(number, 60_000), ..fixture.question(account) };
        let answer = question.answer;
        let store = fixture.store.clone();
        tasks.push((
            answer,
            tokio::spawn(async move { store.write(move |tx| questions::ask(tx, &question)).await }),
        ));
    }
    let (mut accepted, mut full) = (0, 0);
    for (answer, task) in tasks {
        let outcome = task.await.expect("it does not panic");
        let there = fixture
            .store
            .read(move |tx| tx.one("SELECT 1 FROM answers WHERE id = $1", &[answer.into()], |_| Ok(())))
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
    assert_eq!(fixture.balance(account).await.reserved, Credits(10 * accepted));
    server.sql("DROP TABLE ballast");
    fixture.ask(fixture.question(account)).await.expect("there is room again");
}

/// Returns incompressible letters.
fn noise(seed: u64, length: usize) -> String {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut letter = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + u8::try_from(state % 26).expect("it is less than 26"))
    };
    (0..length).map(|_| letter()).collect()
}
