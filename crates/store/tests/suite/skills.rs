//! Skill use counts: counted with the accepted question, per account.

use store::questions::{AskRefused, Idempotency};
use store::skills;

use crate::fixture::{Engine, Fixture};

on_every_engine!(
    a_question_counts_the_skills_that_it_chose,
    a_rejected_question_counts_no_uses,
    counting_side_by_side_loses_nothing,
);

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn uses(fixture: &Fixture, account: domain::id::AccountId) -> Vec<(String, u64)> {
    fixture.store.read(move |tx| skills::uses(tx, account)).await.expect("a read")
}

async fn a_question_counts_the_skills_that_it_chose(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (account, other) = (fixture.account(100).await, fixture.account(100).await);
    for chosen in [&["p:b", "p:a"][..], &["p:b"], &[], &["p:a", "p:b", "p:b"]] {
        let mut question = fixture.question(account);
        question.skills = names(chosen);
        fixture.ask(question).await.expect("there are credits");
    }
    assert_eq!(uses(&fixture, account).await, [("p:b".to_owned(), 3), ("p:a".to_owned(), 2)]);
    assert_eq!(uses(&fixture, other).await, []);
    fixture.store.write(move |tx| skills::count(tx, other, &names(&["p:z", "p:c"]))).await.expect("a write");
    assert_eq!(uses(&fixture, other).await, [("p:c".to_owned(), 1), ("p:z".to_owned(), 1)], "ties by name");
}

async fn a_rejected_question_counts_no_uses(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(15).await;
    let mut question = fixture.question(account);
    question.skills = names(&["p:a"]);
    question.idempotency = Some(Idempotency { key: "k".to_owned(), body_hash: [1; 32] });
    fixture.ask(question.clone()).await.expect("there are credits");
    let mut poor = fixture.question(account);
    poor.skills = names(&["p:b"]);
    assert!(matches!(fixture.ask(poor).await, Err(AskRefused::Insufficient { .. })));
    fixture.store.write(move |tx| store::questions::ask(tx, &question)).await.expect("it is replayed");
    assert_eq!(uses(&fixture, account).await, [("p:a".to_owned(), 1)]);
}

async fn counting_side_by_side_loses_nothing(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    let mut counts = tokio::task::JoinSet::new();
    for number in 0..32 {
        // In either order: callers that count several skills must not deadlock.
        let chosen = if number % 2 == 0 { names(&["p:a", "p:b"]) } else { names(&["p:b", "p:a"]) };
        let store = fixture.store.clone();
        counts.spawn(async move { store.write(move |tx| skills::count(tx, account, &chosen)).await });
    }
    while let Some(counted) = counts.join_next().await {
        counted.expect("a task").expect("a count");
    }
    assert_eq!(uses(&fixture, account).await, [("p:a".to_owned(), 32), ("p:b".to_owned(), 32)]);
}
