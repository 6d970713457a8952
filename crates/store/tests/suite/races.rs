//! Concurrent callers.

use std::collections::HashSet;

use domain::credits::{Balance, Credits, Shortage};
use domain::id::NodeId;
use store::accounts::NewAccount;
use store::questions::{AskRefused, AskedThrough, NewQuestion};
use store::turns::{ClaimOptions, Log, TurnError};
use store::{StoreError, accounts, conversations, machines, turns};

use crate::fixture::{Engine, Fixture, START, claim_options, done};

on_every_engine!(
    of_64_askers_of_one_conversation_one_wins,
    credits_for_50_carry_50_of_200,
    a_key_never_spends_more_than_it_may,
    steps_of_one_key_keep_its_limit_together,
    no_answer_is_taken_up_twice,
    an_answer_is_completed_by_one_caller_only,
    concurrent_claims_respect_the_limit_per_account,
    an_account_gets_one_machine,
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
            Err(error) => assert!(matches!(error, AskRefused::Busy), "{error}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM answers").await, 2);
    assert_eq!(fixture.balance(account).await, Balance { available: Credits(99_990), reserved: Credits(10) });
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
            Err(error) => assert!(matches!(error, AskRefused::Insufficient { .. }), "{error}"),
        }
    }
    assert_eq!(accepted, 50);
    assert_eq!(fixture.balance(account).await, Balance { available: Credits(9), reserved: Credits(500) });
    assert_eq!(fixture.count("SELECT count(*) FROM dispatch").await, 50);
    assert_eq!(fixture.count("SELECT conversations FROM accounts").await, 50);
}

async fn a_key_never_spends_more_than_it_may(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100_000).await;
    let (key, other) = (fixture.key(account, Some(205)).await, fixture.key(account, None).await);
    let mut tasks = Vec::new();
    for number in 0..64 {
        let through = AskedThrough::Key(if number % 2 == 0 { key } else { other });
        let question = NewQuestion { through, ..fixture.question(account) };
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move {
            let asked = store.write(move |tx| store::questions::ask(tx, &question)).await;
            (number % 2 == 0, asked)
        }));
    }
    let (mut limited, mut free) = (0, 0);
    for task in tasks {
        match task.await.expect("it does not panic") {
            (true, Ok(_)) => limited += 1,
            (true, Err(error)) => assert!(matches!(error, AskRefused::SpendingLimit), "{error}"),
            (false, asked) => free += i32::from(asked.is_ok()),
        }
    }
    assert_eq!((limited, free), (20, 32), "each question holds 10; the other key is not bound");
    assert_eq!(fixture.spent(account, key).await, Credits(200));
    assert_eq!(
        fixture.balance(account).await,
        Balance { available: Credits(99_480), reserved: Credits(520) }
    );
    assert_eq!(fixture.count("SELECT count(*) FROM answers").await, 52, "what is refused leaves nothing");
}

async fn steps_of_one_key_keep_its_limit_together(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100_000).await;
    let key = fixture.key(account, Some(300)).await;
    let mut fences = Vec::new();
    for _ in 0..16 {
        let question = NewQuestion { through: AskedThrough::Key(key), ..fixture.question(account) };
        fixture.ask(question).await.expect("the key's limit covers it");
    }
    fences.extend(fixture.claim().await.into_iter().map(|claimed| claimed.fence));
    let mut tasks = Vec::new();
    for fence in &fences {
        let (store, new, fence) = (fixture.store.clone(), fixture.reservation(0, 45), *fence);
        tasks.push(tokio::spawn(async move {
            store.write(move |tx| turns::reserve(tx, fence, Log::Answer, &new)).await
        }));
    }
    let mut granted = 0;
    for task in tasks {
        match task.await.expect("it does not panic") {
            Ok(()) => granted += 1,
            Err(error) => assert!(matches!(error, TurnError::Short(Shortage::SpendingLimit)), "{error}"),
        }
    }
    // Sixteen times ten are reserved; each success reserves thirty-five more.
    assert_eq!(granted, 4);
    assert_eq!(fixture.spent(account, key).await, Credits(300));
    for fence in fences {
        fixture.complete(fence, done(fence.answer)).await.expect("the lease holds");
    }
    assert_eq!(fixture.spent(account, key).await, Credits(0), "reservations are released");
}

async fn no_answer_is_taken_up_twice(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    for _ in 0..40 {
        fixture.ask(fixture.question(account)).await.expect("there are credits");
    }
    let mut tasks = Vec::new();
    for number in 0..16 {
        let options = ClaimOptions { node: NodeId::from_random(number), limit: 4, ..claim_options() };
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move { store.write(move |tx| turns::claim(tx, &options)).await }));
    }
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(task.await.expect("it does not panic").expect("a claim"));
    }
    let answers: HashSet<_> = taken.iter().map(|claimed| claimed.fence.answer).collect();
    assert_eq!((taken.len(), answers.len()), (40, 40));
    assert!(taken.iter().all(|claimed| claimed.fence.epoch == 1));
}

async fn an_answer_is_completed_by_one_caller_only(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    let mut turns_taken = Vec::new();
    for _ in 0..24 {
        turns_taken.push(fixture.turn(account).await);
    }
    let mut tasks = Vec::new();
    for (accepted, fence) in turns_taken {
        let (store, done_with) = (fixture.store.clone(), fixture.completion(done(fence.answer)));
        tasks.push(tokio::spawn(async move {
            match store.write(move |tx| turns::complete(tx, fence, &done_with)).await {
                Ok(()) => 1,
                Err(error) => {
                    assert!(matches!(error, TurnError::Fenced), "{error}");
                    0
                }
            }
        }));
        let (store, step) = (fixture.store.clone(), fixture.step_done(0, 3));
        tasks.push(tokio::spawn(async move {
            if let Err(error) = store.write(move |tx| turns::commit_step(tx, fence, Log::Answer, &step)).await
            {
                assert!(
                    matches!(error, TurnError::Fenced | TurnError::Store(StoreError::Rule(_))),
                    "{error}"
                );
            }
            0
        }));
        let store = fixture.store.clone();
        let conversation = accepted.conversation.id;
        tasks.push(tokio::spawn(async move {
            let deleted =
                store.write(move |tx| conversations::delete(tx, account, conversation, START)).await;
            deleted.expect("it is there");
            0
        }));
    }
    let mut ended = 0;
    for task in tasks {
        ended += task.await.expect("it does not panic");
    }
    assert_eq!(ended, 24, "each once, deleted or not");
    let balance = fixture.balance(account).await;
    assert_eq!(balance.reserved, Credits(0), "nothing is reserved");
    assert_eq!(fixture.count("SELECT count(*) FROM dispatch").await, 0);
    assert_eq!(fixture.count("SELECT conversations FROM accounts").await, 0);
}

async fn concurrent_claims_respect_the_limit_per_account(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    for _ in 0..40 {
        fixture.ask(fixture.question(account)).await.expect("there are credits");
    }
    let mut tasks = Vec::new();
    for number in 0..16 {
        let options =
            ClaimOptions { node: NodeId::from_random(number), per_account_max: 7, ..claim_options() };
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move { store.write(move |tx| turns::claim(tx, &options)).await }));
    }
    let mut taken = 0;
    for task in tasks {
        taken += task.await.expect("it does not panic").expect("a claim").len();
    }
    assert_eq!(taken, 7);
}

async fn an_account_gets_one_machine(engine: Engine) {
    let fixture = Fixture::new(engine);
    for round in 1..=8 {
        let new = NewAccount { machine: false, ..fixture.new_account(0) };
        let account = new.account;
        fixture.store.write(move |tx| accounts::create(tx, &new)).await.expect("a new account");
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let store = fixture.store.clone();
            tasks.push(tokio::spawn(async move {
                store.write(move |tx| machines::create(tx, account, START)).await
            }));
        }
        for task in tasks {
            task.await.expect("it does not panic").expect("there is one now");
        }
        assert_eq!(fixture.count("SELECT count(*) FROM machines").await, round);
        assert_eq!(fixture.count("SELECT next FROM counters WHERE name = 'machine'").await, round);
    }
}
