//! Many callers at once.

use std::collections::HashSet;

use domain::credits::{Credits, Purse};
use domain::id::NodeId;
use store::questions::{AskError, NewQuestion};
use store::turns;
use store::turns::Terms;

use crate::fixture::{Engine, Fixture, done, terms};

on_every_engine!(
    of_64_askers_of_one_conversation_one_wins,
    credits_for_50_carry_50_of_200,
    no_answer_is_taken_up_twice,
);

async fn of_64_askers_of_one_conversation_one_wins(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100_000).await;
    let (first, fence) = fixture.turn(account).await;
    fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    let mut tasks = Vec::new();
    for _ in 0..64 {
        let question = fixture.follow_up(account, first.conversation.id);
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(
            async move { store.write(move |tx| store::questions::ask(tx, &question)).await },
        ));
    }
    let mut won = 0;
    for task in tasks {
        match task.await.expect("it does not panic") {
            Ok(_) => won += 1,
            Err(error) => assert!(matches!(error, AskError::Busy), "{error}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM answers").await, 2);
    assert_eq!(fixture.purse(account).await, Purse { balance: Credits(99_990), reserved: Credits(10) });
}

async fn credits_for_50_carry_50_of_200(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(509).await;
    let mut tasks = Vec::new();
    for _ in 0..200 {
        let question: NewQuestion = fixture.question(account);
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(
            async move { store.write(move |tx| store::questions::ask(tx, &question)).await },
        ));
    }
    let mut accepted = 0;
    for task in tasks {
        match task.await.expect("it does not panic") {
            Ok(_) => accepted += 1,
            Err(error) => assert!(matches!(error, AskError::Insufficient), "{error}"),
        }
    }
    assert_eq!(accepted, 50);
    assert_eq!(fixture.purse(account).await, Purse { balance: Credits(9), reserved: Credits(500) });
    assert_eq!(fixture.count("SELECT count(*) FROM dispatch").await, 50);
    assert_eq!(fixture.count("SELECT conversations FROM accounts").await, 50);
}

async fn no_answer_is_taken_up_twice(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    for _ in 0..40 {
        fixture.ask(fixture.question(account)).await.expect("there are credits");
    }
    let mut tasks = Vec::new();
    for number in 0..16 {
        let terms = Terms { node: NodeId::from_random(number), limit: 4, ..terms() };
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move { store.write(move |tx| turns::claim(tx, &terms)).await }));
    }
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(task.await.expect("it does not panic").expect("a claim"));
    }
    let answers: HashSet<_> = taken.iter().map(|claimed| claimed.fence.answer).collect();
    assert_eq!((taken.len(), answers.len()), (40, 40));
    assert!(taken.iter().all(|claimed| claimed.fence.epoch == 1));
}
