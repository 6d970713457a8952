//! Skill use counts: counted with the accepted question, per account.

use store::questions::{AskRefused, Idempotency};
use store::skills;

use crate::fixture::{StoreEngine, StoreFixture};

on_every_engine!(
    question_counts_its_skills,
    rejected_question_counts_no_uses,
    concurrent_skill_counts_lose_nothing,
);

fn owned_names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn list_uses(fixture: &StoreFixture, account: domain::id::AccountId) -> Vec<(String, u64)> {
    fixture.store.read(move |tx| skills::list_skill_uses(tx, account)).await.expect("a read")
}

async fn question_counts_its_skills(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    for chosen in [&["p:b", "p:a"][..], &["p:b"], &[], &["p:a", "p:b", "p:b"]] {
        let mut question = fixture.new_question(account);
        question.skills = owned_names(chosen);
        fixture.ask_question(question).await.expect("there are credits");
    }
    assert_eq!(list_uses(&fixture, account).await, [("p:b".to_owned(), 3), ("p:a".to_owned(), 2)]);
    assert_eq!(list_uses(&fixture, other).await, []);
    fixture
        .store
        .write(move |tx| skills::count_skill_uses(tx, other, &owned_names(&["p:z", "p:c"])))
        .await
        .expect("a write");
    assert_eq!(
        list_uses(&fixture, other).await,
        [("p:c".to_owned(), 1), ("p:z".to_owned(), 1)],
        "ties by name"
    );
}

async fn rejected_question_counts_no_uses(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(15).await;
    let mut question = fixture.new_question(account);
    question.skills = owned_names(&["p:a"]);
    question.idempotency = Some(Idempotency { key: "k".to_owned(), body_hash: [1; 32] });
    fixture.ask_question(question.clone()).await.expect("there are credits");
    let mut poor = fixture.new_question(account);
    poor.skills = owned_names(&["p:b"]);
    assert!(matches!(fixture.ask_question(poor).await, Err(AskRefused::Insufficient { .. })));
    fixture
        .store
        .write(move |tx| store::questions::ask_question(tx, &question))
        .await
        .expect("it is replayed");
    assert_eq!(list_uses(&fixture, account).await, [("p:a".to_owned(), 1)]);
}

async fn concurrent_skill_counts_lose_nothing(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let mut counts = tokio::task::JoinSet::new();
    for number in 0..32 {
        // In either order: callers that count several skills must not deadlock.
        let chosen =
            if number % 2 == 0 { owned_names(&["p:a", "p:b"]) } else { owned_names(&["p:b", "p:a"]) };
        let store = fixture.store.clone();
        counts.spawn(
            async move { store.write(move |tx| skills::count_skill_uses(tx, account, &chosen)).await },
        );
    }
    while let Some(counted) = counts.join_next().await {
        counted.expect("a task").expect("a count");
    }
    assert_eq!(list_uses(&fixture, account).await, [("p:a".to_owned(), 32), ("p:b".to_owned(), 32)]);
}
