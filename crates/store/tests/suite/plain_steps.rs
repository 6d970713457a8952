//! The credits of model steps without a conversation.

use domain::credits::{Balance, Credits, Price};
use domain::id::{AccountId, KeyId, PostingId};
use domain::step::TokenUsage;
use store::plain_steps::{self, PlainStepDone, PlainStepError, PlainStepReserve};

use crate::fixture::{START, StoreEngine, StoreFixture};

on_every_engine!(plain_step_settles_its_reservation, killed_plain_step_is_released);

const PRICE: Price = Price { base_millis: 1000, input_millis: 1000, output_millis: 1000 };

async fn reserve(
    fixture: &StoreFixture,
    account: AccountId,
    key: Option<KeyId>,
    greatest: u64,
) -> Result<PostingId, PlainStepError> {
    let step = PostingId::from_random(fixture.next_bits());
    let greatest = Credits(greatest);
    let new = PlainStepReserve { account, key, step, greatest, model: "m".to_owned(), now: START };
    fixture.store.write(move |tx| plain_steps::reserve_plain_step(tx, &new)).await.map(|()| step)
}

async fn settle(fixture: &StoreFixture, step: PostingId, tokens: u64) -> u64 {
    let done = PlainStepDone {
        step,
        usage: TokenUsage { input_tokens: tokens, ..TokenUsage::default() },
        price: PRICE,
        model: "m".to_owned(),
        settle: PostingId::from_random(fixture.next_bits()),
        release: PostingId::from_random(fixture.next_bits()),
        now: START,
    };
    fixture.store.write(move |tx| plain_steps::settle_plain_step(tx, &done)).await.expect("the store").0
}

fn balance(available: u64, reserved: u64) -> Balance {
    Balance { available: Credits(available), reserved: Credits(reserved) }
}

async fn plain_step_settles_its_reservation(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(20).await;
    let key = fixture.create_key(account, Some(10)).await;
    let step = reserve(&fixture, account, Some(key), 8).await.expect("credits");
    assert_eq!(fixture.read_balance(account).await, balance(12, 8));
    let limited = reserve(&fixture, account, Some(key), 3).await;
    assert!(matches!(limited, Err(PlainStepError::SpendingLimit)), "{limited:?}");
    let short = reserve(&fixture, account, None, 13).await;
    assert!(matches!(short, Err(PlainStepError::Insufficient { .. })), "{short:?}");
    assert_eq!(settle(&fixture, step, 2_000).await, 3);
    assert_eq!(settle(&fixture, step, 2_000).await, 0, "it is over");
    assert_eq!(fixture.read_balance(account).await, balance(17, 0));
    assert_eq!(fixture.spent_by_key(account, key).await, Credits(3));
    let step = reserve(&fixture, account, None, 2).await.expect("credits");
    assert_eq!(settle(&fixture, step, 9_000_000).await, 2, "never more than was reserved");
}

async fn killed_plain_step_is_released(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(20).await;
    let step = reserve(&fixture, account, None, 8).await.expect("credits");
    let pending = fixture.store.read(|tx| plain_steps::list_pending_plain_steps(tx)).await.expect("a read");
    assert_eq!(pending, [step]);
    for _ in 0..2 {
        let posting = PostingId::from_random(fixture.next_bits());
        let release =
            move |tx: &mut dyn store::Sql| plain_steps::release_plain_step(tx, step, posting, START);
        fixture.store.write(release).await.expect("a write");
        assert_eq!(fixture.read_balance(account).await, balance(20, 0));
    }
}
