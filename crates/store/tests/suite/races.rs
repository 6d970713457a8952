//! Concurrent callers.

use std::collections::HashSet;

use domain::credits::{Balance, Credits, Shortage};
use domain::id::NodeId;
use store::accounts::NewAccount;
use store::questions::{AskRefused, AskedThrough, NewQuestion};
use store::turns::{StepLog, TurnClaimOptions, TurnError};
use store::{StoreError, accounts, conversations, machines, turns};

use crate::fixture::{START, StoreEngine, StoreFixture, claim_options, done_answer};

on_every_engine!(
    one_of_64_askers_wins,
    credits_for_50_carry_50_questions,
    key_never_exceeds_spending_limit,
    concurrent_steps_keep_key_limit,
    no_answer_claimed_twice,
    answer_is_completed_by_one_caller,
    concurrent_claims_respect_account_limit,
    an_account_gets_one_machine,
);

async fn one_of_64_askers_wins(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100_000).await;
    let (first, fence) = fixture.ask_and_claim(account).await;
    fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    let mut tasks = Vec::new();
    for _ in 0..64 {
        let question = fixture.follow_up(account, first.conversation.id);
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move {
            store.write(move |tx| store::questions::ask_question(tx, &question)).await
        }));
    }
    let mut won = 0;
    for task in tasks {
        match task.await.expect("it does not panic") {
            Ok(_) => won += 1,
            Err(error) => assert!(matches!(error, AskRefused::Busy), "{error}"),
        }
    }
    assert_eq!(won, 1);
    assert_eq!(fixture.query_count("SELECT count(*) FROM answers").await, 2);
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(99_990), reserved: Credits(10) }
    );
}

async fn credits_for_50_carry_50_questions(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(509).await;
    let mut tasks = Vec::new();
    for _ in 0..200 {
        let question: NewQuestion = fixture.new_question(account);
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move {
            store.write(move |tx| store::questions::ask_question(tx, &question)).await
        }));
    }
    let mut accepted = 0;
    for task in tasks {
        match task.await.expect("it does not panic") {
            Ok(_) => accepted += 1,
            Err(error) => assert!(matches!(error, AskRefused::Insufficient { .. }), "{error}"),
        }
    }
    assert_eq!(accepted, 50);
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(9), reserved: Credits(500) }
    );
    assert_eq!(fixture.query_count("SELECT count(*) FROM dispatch").await, 50);
    assert_eq!(fixture.query_count("SELECT conversations FROM accounts").await, 50);
}

async fn key_never_exceeds_spending_limit(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100_000).await;
    let (key, other) =
        (fixture.create_key(account, Some(205)).await, fixture.create_key(account, None).await);
    let mut tasks = Vec::new();
    for number in 0..64 {
        let through = AskedThrough::Key(if number % 2 == 0 { key } else { other });
        let question = NewQuestion { through, ..fixture.new_question(account) };
        let store = fixture.store.clone();
        tasks.push(tokio::spawn(async move {
            let asked = store.write(move |tx| store::questions::ask_question(tx, &question)).await;
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
    assert_eq!(fixture.spent_by_key(account, key).await, Credits(200));
    assert_eq!(
        fixture.read_balance(account).await,
        Balance { available: Credits(99_480), reserved: Credits(520) }
    );
    assert_eq!(
        fixture.query_count("SELECT count(*) FROM answers").await,
        52,
        "what is refused leaves nothing"
    );
}

async fn concurrent_steps_keep_key_limit(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100_000).await;
    let key = fixture.create_key(account, Some(300)).await;
    let mut fences = Vec::new();
    for _ in 0..16 {
        let question = NewQuestion { through: AskedThrough::Key(key), ..fixture.new_question(account) };
        fixture.ask_question(question).await.expect("the key's limit covers it");
    }
    fences.extend(fixture.claim_turns().await.into_iter().map(|claimed| claimed.fence));
    let mut tasks = Vec::new();
    for fence in &fences {
        let (store, new, fence) = (fixture.store.clone(), fixture.new_reservation(0, 45), *fence);
        tasks.push(tokio::spawn(async move {
            store.write(move |tx| turns::reserve_step(tx, fence, StepLog::Answer, &new)).await
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
    assert_eq!(fixture.spent_by_key(account, key).await, Credits(300));
    for fence in fences {
        fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
    }
    assert_eq!(fixture.spent_by_key(account, key).await, Credits(0), "reservations are released");
}

async fn no_answer_claimed_twice(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    for _ in 0..40 {
        fixture.ask_question(fixture.new_question(account)).await.expect("there are credits");
    }
    let mut tasks = Vec::new();
    for number in 0..16 {
        let options = TurnClaimOptions { node: NodeId::from_random(number), limit: 4, ..claim_options() };
        let store = fixture.store.clone();
        tasks
            .push(tokio::spawn(async move { store.write(move |tx| turns::claim_turns(tx, &options)).await }));
    }
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(task.await.expect("it does not panic").expect("a claim"));
    }
    let answers: HashSet<_> = taken.iter().map(|claimed| claimed.fence.answer).collect();
    assert_eq!((taken.len(), answers.len()), (40, 40));
    assert!(taken.iter().all(|claimed| claimed.fence.epoch == 1));
}

async fn answer_is_completed_by_one_caller(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let mut turns_taken = Vec::new();
    for _ in 0..24 {
        turns_taken.push(fixture.ask_and_claim(account).await);
    }
    let mut tasks = Vec::new();
    for (accepted, fence) in turns_taken {
        let (store, done_with) = (fixture.store.clone(), fixture.new_completion(done_answer(fence.answer)));
        tasks.push(tokio::spawn(async move {
            match store.write(move |tx| turns::complete_answer(tx, fence, &done_with)).await {
                Ok(()) => 1,
                Err(error) => {
                    assert!(matches!(error, TurnError::Fenced), "{error}");
                    0
                }
            }
        }));
        let (store, step) = (fixture.store.clone(), fixture.step_done(0, 3));
        tasks.push(tokio::spawn(async move {
            if let Err(error) =
                store.write(move |tx| turns::commit_step(tx, fence, StepLog::Answer, &step)).await
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
            let deleted = store
                .write(move |tx| conversations::delete_conversation(tx, account, conversation, START))
                .await;
            deleted.expect("it is there");
            0
        }));
    }
    let mut ended = 0;
    for task in tasks {
        ended += task.await.expect("it does not panic");
    }
    assert_eq!(ended, 24, "each once, deleted or not");
    let balance = fixture.read_balance(account).await;
    assert_eq!(balance.reserved, Credits(0), "nothing is reserved");
    assert_eq!(fixture.query_count("SELECT count(*) FROM dispatch").await, 0);
    assert_eq!(fixture.query_count("SELECT conversations FROM accounts").await, 0);
}

async fn concurrent_claims_respect_account_limit(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    for _ in 0..40 {
        fixture.ask_question(fixture.new_question(account)).await.expect("there are credits");
    }
    let mut tasks = Vec::new();
    for number in 0..16 {
        let options =
            TurnClaimOptions { node: NodeId::from_random(number), per_account_max: 7, ..claim_options() };
        let store = fixture.store.clone();
        tasks
            .push(tokio::spawn(async move { store.write(move |tx| turns::claim_turns(tx, &options)).await }));
    }
    let mut taken = 0;
    for task in tasks {
        taken += task.await.expect("it does not panic").expect("a claim").len();
    }
    assert_eq!(taken, 7);
}

async fn an_account_gets_one_machine(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    for round in 1..=8 {
        let new = NewAccount { machine: false, ..fixture.new_account(0) };
        let account = new.account;
        fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("a new account");
        let mut tasks = Vec::new();
        for _ in 0..16 {
            let store = fixture.store.clone();
            tasks.push(tokio::spawn(async move {
                store.write(move |tx| machines::create_machine(tx, account, START)).await
            }));
        }
        for task in tasks {
            task.await.expect("it does not panic").expect("there is one now");
        }
        assert_eq!(fixture.query_count("SELECT count(*) FROM machines").await, round);
        assert_eq!(fixture.query_count("SELECT next FROM counters WHERE name = 'machine'").await, round);
    }
}
