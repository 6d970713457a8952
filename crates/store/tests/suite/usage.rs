//! Usage of answers, summed up by day and by model.

use std::sync::Arc;
use std::time::Duration;

use domain::credits::Credits;
use domain::id::AccountId;
use domain::step::TokenUsage;
use domain::time::Timestamp;
use store::turns::{Fence, StepDone, StepLog};
use store::usage::{self, ModelUsageRow};
use store::{RowExt, SqlExt, turns};

use crate::fixture::{START, StoreEngine, StoreFixture};

on_every_engine!(usage_sums_by_day_and_model, absurd_token_counts_still_sum);

const DAY: Duration = Duration::from_hours(24);

/// A settled step: its day after the start, its model, cost and tokens.
struct Settled {
    days: u32,
    model: &'static str,
    cost: u64,
    tokens: TokenUsage,
}

fn new_usage(input: u64, output: u64, estimated: bool) -> TokenUsage {
    let (cached_tokens, reasoning_tokens) = (input / 2, output / 4);
    TokenUsage { input_tokens: input, cached_tokens, output_tokens: output, reasoning_tokens, estimated }
}

async fn settle_step(fixture: &StoreFixture, fence: Fence, number: u32, settled: Settled) {
    fixture.reserve_step(fence, number, settled.cost).await.expect("there are credits");
    let mut done = fixture.step_done(number, settled.cost);
    let mut step = (*done.step).clone();
    step.usage = settled.tokens;
    done = StepDone {
        step: Arc::new(step),
        model: settled.model.to_owned(),
        now: START.saturating_add(DAY * settled.days),
        ..done
    };
    fixture
        .store
        .write(move |tx| turns::commit_step(tx, fence, StepLog::Answer, &done))
        .await
        .expect("the lease holds");
}

async fn usage_rows(fixture: &StoreFixture, account: AccountId, since: Timestamp) -> Vec<ModelUsageRow> {
    let read = fixture.store.read(move |tx| usage::by_day_and_model(tx, account, since)).await;
    let (rows, more) = read.expect("a read");
    assert!(!more);
    rows
}

async fn usage_sums_by_day_and_model(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(1000).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    let other = fixture.create_account(1000).await;
    let (_, others) = fixture.ask_and_claim(other).await;
    settle_step(
        &fixture,
        others,
        0,
        Settled { days: 0, model: "b", cost: 9, tokens: new_usage(9, 9, false) },
    )
    .await;
    for (number, settled) in [
        Settled { days: 0, model: "b", cost: 1, tokens: new_usage(100, 8, false) },
        Settled { days: 0, model: "b", cost: 2, tokens: new_usage(10, 4, true) },
        Settled { days: 0, model: "a", cost: 4, tokens: new_usage(20, 4, false) },
        Settled { days: 1, model: "b", cost: 8, tokens: new_usage(40, 4, false) },
    ]
    .into_iter()
    .enumerate()
    {
        settle_step(&fixture, fence, u32::try_from(number).expect("a few"), settled).await;
    }
    let rows = usage_rows(&fixture, account, START).await;
    let day = |days: u32| {
        let at = START.saturating_add(DAY * days).micros();
        Timestamp::from_micros(at - at.rem_euclid(86_400_000_000))
    };
    let row = |days, model: &str, steps, cost, mut tokens: TokenUsage, estimated_tokens| {
        tokens.estimated = estimated_tokens > 0;
        let (day, model, credits) = (day(days), Some(model.to_owned()), Credits(cost));
        let summaries = (0, Credits(0));
        ModelUsageRow { day, model, steps, summaries, credits, tokens, estimated_tokens }
    };
    let both = TokenUsage {
        input_tokens: 110,
        cached_tokens: 55,
        output_tokens: 12,
        reasoning_tokens: 3,
        estimated: true,
    };
    let newest = row(1, "b", 1, 8, new_usage(40, 4, false), 0);
    let expected =
        [newest.clone(), row(0, "a", 1, 4, new_usage(20, 4, false), 0), row(0, "b", 2, 3, both, 14)];
    assert_eq!(rows, expected);
    assert_eq!(usage_rows(&fixture, account, START.saturating_add(DAY)).await, [newest]);
    assert_eq!(usage_rows(&fixture, account, START.saturating_add(DAY * 2)).await, []);
    let spent = fixture
        .store
        .read(move |tx| {
            tx.query_one(
                "SELECT CAST(SUM(amount) AS BIGINT) FROM postings WHERE kind = 'settle'",
                &[],
                |row| row.get_count(0),
            )
        })
        .await;
    assert_eq!(spent.expect("a read"), Some(15 + 9), "the sum equals the settled credits");
    fixture.assert_usage(account).await;
    fixture.assert_usage(other).await;
    let days = fixture.store.read(move |tx| usage::of_days(tx, account, START.saturating_add(DAY))).await;
    assert_eq!(days.expect("a read").0.len(), 1, "from the day on");
}

async fn absurd_token_counts_still_sum(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let (_, fence) = fixture.ask_and_claim(account).await;
    for number in 0..3 {
        let tokens = new_usage(u64::MAX, u64::MAX, true);
        settle_step(&fixture, fence, number, Settled { days: 0, model: "a", cost: 1, tokens }).await;
    }
    let rows = usage_rows(&fixture, account, START).await;
    assert_eq!((rows.len(), rows[0].credits, rows[0].steps), (1, Credits(3), 3));
    fixture.assert_usage(account).await;
    assert!(rows[0].tokens.input_tokens > 1 << 41 && rows[0].estimated_tokens > 1 << 42);
}
