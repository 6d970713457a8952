//! Usage of answers, summed up by day and by model.

use std::sync::Arc;
use std::time::Duration;

use domain::credits::Credits;
use domain::id::AccountId;
use domain::step::Usage;
use domain::time::Timestamp;
use store::turns::{Fence, Log, StepDone};
use store::usage::{self, UsageRow};
use store::{RowExt, SqlExt, turns};

use crate::fixture::{Engine, Fixture, START};

on_every_engine!(steps_are_added_up_by_day_and_model, absurd_counts_are_added_up_as_well);

const DAY: Duration = Duration::from_hours(24);

/// A settled step: its day after the start, its model, cost and tokens.
struct Settled {
    days: u32,
    model: &'static str,
    cost: u64,
    tokens: Usage,
}

fn tokens(input: u64, output: u64, estimated: bool) -> Usage {
    let (cached_tokens, reasoning_tokens) = (input / 2, output / 4);
    Usage { input_tokens: input, cached_tokens, output_tokens: output, reasoning_tokens, estimated }
}

async fn settle(fixture: &Fixture, fence: Fence, number: u32, settled: Settled) {
    fixture.reserve(fence, number, settled.cost).await.expect("there are credits");
    let mut done = fixture.step_done(number, settled.cost);
    let mut step = (*done.step).clone();
    step.usage = settled.tokens;
    done = StepDone {
        step: Arc::new(step),
        model: settled.model.to_owned(),
        now: START.plus(DAY * settled.days),
        ..done
    };
    fixture
        .store
        .write(move |tx| turns::commit_step(tx, fence, Log::Answer, &done))
        .await
        .expect("the lease holds");
}

async fn used(fixture: &Fixture, account: AccountId, since: Timestamp) -> Vec<UsageRow> {
    let read = fixture.store.read(move |tx| usage::by_day_and_model(tx, account, since)).await;
    let (rows, more) = read.expect("a read");
    assert!(!more);
    rows
}

async fn steps_are_added_up_by_day_and_model(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(1000).await;
    let (_, fence) = fixture.turn(account).await;
    let other = fixture.account(1000).await;
    let (_, others) = fixture.turn(other).await;
    settle(&fixture, others, 0, Settled { days: 0, model: "b", cost: 9, tokens: tokens(9, 9, false) }).await;
    for (number, settled) in [
        Settled { days: 0, model: "b", cost: 1, tokens: tokens(100, 8, false) },
        Settled { days: 0, model: "b", cost: 2, tokens: tokens(10, 4, true) },
        Settled { days: 0, model: "a", cost: 4, tokens: tokens(20, 4, false) },
        Settled { days: 1, model: "b", cost: 8, tokens: tokens(40, 4, false) },
    ]
    .into_iter()
    .enumerate()
    {
        settle(&fixture, fence, u32::try_from(number).expect("a few"), settled).await;
    }
    let rows = used(&fixture, account, START).await;
    let day = |days: u32| {
        let at = START.plus(DAY * days).micros();
        Timestamp::from_micros(at - at.rem_euclid(86_400_000_000))
    };
    let row = |days, model: &str, steps, cost, mut tokens: Usage, estimated_tokens| {
        tokens.estimated = estimated_tokens > 0;
        let (day, model, credits) = (day(days), Some(model.to_owned()), Credits(cost));
        let summaries = (0, Credits(0));
        UsageRow { day, model, steps, summaries, credits, tokens, estimated_tokens }
    };
    let both = Usage {
        input_tokens: 110,
        cached_tokens: 55,
        output_tokens: 12,
        reasoning_tokens: 3,
        estimated: true,
    };
    let newest = row(1, "b", 1, 8, tokens(40, 4, false), 0);
    let expected = [newest.clone(), row(0, "a", 1, 4, tokens(20, 4, false), 0), row(0, "b", 2, 3, both, 14)];
    assert_eq!(rows, expected);
    assert_eq!(used(&fixture, account, START.plus(DAY)).await, [newest]);
    assert_eq!(used(&fixture, account, START.plus(DAY * 2)).await, []);
    let spent = fixture
        .store
        .read(move |tx| {
            tx.one("SELECT CAST(SUM(amount) AS BIGINT) FROM postings WHERE kind = 'settle'", &[], |row| {
                row.count(0)
            })
        })
        .await;
    assert_eq!(spent.expect("a read"), Some(15 + 9), "the sum equals the settled credits");
    fixture.assert_usage(account).await;
    fixture.assert_usage(other).await;
    let days = fixture.store.read(move |tx| usage::of_days(tx, account, START.plus(DAY))).await;
    assert_eq!(days.expect("a read").0.len(), 1, "from the day on");
}

async fn absurd_counts_are_added_up_as_well(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100).await;
    let (_, fence) = fixture.turn(account).await;
    for number in 0..3 {
        let tokens = tokens(u64::MAX, u64::MAX, true);
        settle(&fixture, fence, number, Settled { days: 0, model: "a", cost: 1, tokens }).await;
    }
    let rows = used(&fixture, account, START).await;
    assert_eq!((rows.len(), rows[0].credits, rows[0].steps), (1, Credits(3), 3));
    fixture.assert_usage(account).await;
    assert!(rows[0].tokens.input_tokens > 1 << 41 && rows[0].estimated_tokens > 1 << 42);
}
