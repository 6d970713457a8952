//! The credits of requests for embeddings.

use domain::credits::{Balance, Credits, Price, Shortage};
use domain::id::{AccountId, PostingId};
use domain::step::TokenUsage;
use store::embeddings::{self, EmbeddingDone, EmbeddingError, EmbeddingReserve};
use store::usage;

use crate::fixture::{START, StoreEngine, StoreFixture};

/// 0.4 credits for a thousand tokens.
const PRICE: Price = Price { base_millis: 0, input_millis: 400, output_millis: 0 };

async fn reserve_embedding(
    fixture: &StoreFixture,
    account: AccountId,
    tokens_max: u64,
) -> Result<PostingId, EmbeddingError> {
    let request = PostingId::from_random(fixture.next_bits());
    let model = "vectors".to_owned();
    let new = EmbeddingReserve { account, request, tokens_max, price: PRICE, model, now: START };
    fixture.store.write(move |tx| embeddings::reserve_embedding(tx, &new)).await.map(|()| request)
}

async fn settle_embedding(fixture: &StoreFixture, request: PostingId, tokens: u64) -> u64 {
    let done = EmbeddingDone {
        request,
        usage: TokenUsage { input_tokens: tokens, ..TokenUsage::default() },
        price: PRICE,
        model: "vectors".to_owned(),
        settle: PostingId::from_random(fixture.next_bits()),
        release: PostingId::from_random(fixture.next_bits()),
        now: START,
    };
    fixture.store.write(move |tx| embeddings::settle_embedding(tx, &done)).await.expect("the store").0
}

async fn embedding_fractions_sum_to_credits(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(4).await;
    let balance =
        |available, reserved| Balance { available: Credits(available), reserved: Credits(reserved) };
    let request = reserve_embedding(&fixture, account, 2_000).await.expect("credits");
    assert_eq!(fixture.read_balance(account).await, balance(3, 1));
    assert_eq!(settle_embedding(&fixture, request, 1_000).await, 0, "less than a credit is kept for later");
    assert_eq!(settle_embedding(&fixture, request, 1_000).await, 0, "it is over");
    assert_eq!(fixture.read_balance(account).await, balance(4, 0));
    // 0.4 are not settled: with 0.8 more the first credit is.
    let one = reserve_embedding(&fixture, account, 2_000).await.expect("credits");
    assert_eq!(fixture.read_balance(account).await, balance(2, 2));
    let short = reserve_embedding(&fixture, account, 5_000).await;
    assert!(matches!(short, Err(EmbeddingError::Short(Shortage::Balance))), "{short:?}");
    let other = reserve_embedding(&fixture, account, 1_000).await.expect("credits");
    assert_eq!(settle_embedding(&fixture, other, 1_000).await, 0);
    assert_eq!(settle_embedding(&fixture, one, 9_000_000).await, 2, "never more than was reserved");
    assert_eq!(fixture.read_balance(account).await, balance(2, 0));

    // A process is killed during a request.
    // Unsettled costs of earlier requests count with its reservation.
    let lost = reserve_embedding(&fixture, account, 1).await.expect("credits");
    assert_eq!(fixture.read_balance(account).await, balance(0, 2));
    let pending = fixture.store.read(|tx| embeddings::list_pending_embeddings(tx)).await.expect("the store");
    assert_eq!(pending, [lost]);
    for _ in 0..2 {
        let posting = PostingId::from_random(fixture.next_bits());
        let released = fixture.store.write(move |tx| embeddings::release_embedding(tx, lost, posting, START));
        released.await.expect("the store");
        assert_eq!(fixture.read_balance(account).await, balance(2, 0));
    }
    let rows = fixture.store.read(move |tx| usage::by_day_and_model(tx, account, START)).await;
    let (rows, _) = rows.expect("the store");
    assert_eq!((rows[0].model.as_deref(), rows[0].credits), (Some("vectors"), Credits(2)));
    assert_eq!(rows[0].tokens.input_tokens, 9_002_000);
}

on_every_engine!(embedding_fractions_sum_to_credits);
