//! Properties of the ledger: its postings add up to the balance, and no balance is ever below zero.

use domain::credits::{Balance, Credits, PostingKind};
use domain::id::{AccountId, KeyId, PostingId};
use proptest::prelude::*;
use store::questions::AskedThrough;
use store::turns::{Fence, TurnClaimOptions};
use store::{RowExt, SqlExt, StoreError, conversations, credits, turns};

use crate::fixture::{START, StoreEngine, StoreFixture, claim_options, done_answer};

/// A limit that accounts can exceed, so that tests reach it.
const SPENDING_LIMIT: u64 = 70;

/// An operation that moves credits, or could move them by mistake.
#[derive(Debug, Clone)]
enum LedgerAct {
    Grant(u64),
    Ask(u64),
    Claim,
    /// On the turn of this number, like all below.
    Reserve(usize, u64),
    Step(usize, u64),
    Complete(usize),
    GiveBack(usize),
    Delete(usize),
    /// Under the lease before the current one.
    Stale(usize),
}

fn act_strategy() -> impl Strategy<Value = LedgerAct> {
    prop_oneof![
        1 => (0_u64..60).prop_map(LedgerAct::Grant),
        4 => (0_u64..30).prop_map(LedgerAct::Ask),
        4 => Just(LedgerAct::Claim),
        4 => (0_usize..4, 0_u64..40).prop_map(|(at, amount)| LedgerAct::Reserve(at, amount)),
        4 => (0_usize..4, 0_u64..20).prop_map(|(at, cost)| LedgerAct::Step(at, cost)),
        2 => (0_usize..4).prop_map(LedgerAct::Complete),
        1 => (0_usize..4).prop_map(LedgerAct::GiveBack),
        1 => (0_usize..4).prop_map(LedgerAct::Delete),
        1 => (0_usize..4).prop_map(LedgerAct::Stale),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_postings_sum_to_balance(acts in prop::collection::vec(act_strategy(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        runtime.block_on(play_acts(StoreEngine::Sqlite, acts));
    }

    #[test]
    fn postgres_postings_sum_to_balance(acts in prop::collection::vec(act_strategy(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
        runtime.block_on(play_acts(StoreEngine::Postgres, acts));
    }
}

async fn play_acts(engine: StoreEngine, acts: Vec<LedgerAct>) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let key = fixture.create_key(account, Some(SPENDING_LIMIT)).await;
    let mut turns_taken: Vec<(Fence, domain::id::ConversationId, u32)> = Vec::new();
    for act in acts {
        let pick = |at: usize| turns_taken.len().checked_sub(1).map(|last| at.min(last));
        match act {
            LedgerAct::Grant(amount) => {
                let posting = PostingId::from_random(fixture.next_bits());
                fixture
                    .store
                    .write(move |tx| credits::grant_credits(tx, account, posting, Credits(amount), START))
                    .await
                    .expect("there is an account");
            }
            LedgerAct::Ask(reserve) => {
                let mut question = fixture.new_question(account);
                question.reserve = Credits(reserve);
                question.through = AskedThrough::Key(key);
                drop(fixture.ask_question(question).await);
            }
            LedgerAct::Claim => {
                let options = TurnClaimOptions { limit: 2, ..claim_options() };
                let claimed =
                    fixture.store.write(move |tx| turns::claim_turns(tx, &options)).await.expect("a claim");
                turns_taken.extend(claimed.into_iter().map(|one| (one.fence, one.conversation, 0)));
            }
            LedgerAct::Reserve(at, amount) => {
                let Some(at) = pick(at) else { continue };
                let (fence, _, step) = turns_taken[at];
                drop(fixture.reserve_step(fence, step, amount).await);
            }
            LedgerAct::Step(at, cost) => {
                let Some(at) = pick(at) else { continue };
                let (fence, _, step) = turns_taken[at];
                if fixture.commit_step(fence, step, cost).await.is_ok() {
                    turns_taken[at].2 += 1;
                }
            }
            LedgerAct::Complete(at) => {
                let Some(at) = pick(at) else { continue };
                let (fence, ..) = turns_taken.remove(at);
                fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
            }
            LedgerAct::GiveBack(at) => {
                let Some(at) = pick(at) else { continue };
                let (fence, ..) = turns_taken.remove(at);
                fixture
                    .store
                    .write(move |tx| turns::release_lease(tx, fence))
                    .await
                    .expect("the lease holds");
            }
            LedgerAct::Delete(at) => {
                let Some(at) = pick(at) else { continue };
                let (fence, id, _) = turns_taken.remove(at);
                fixture
                    .store
                    .write(move |tx| conversations::delete_conversation(tx, account, id, START))
                    .await
                    .expect("it is there");
                fixture.complete_answer(fence, done_answer(fence.answer)).await.expect("the lease holds");
            }
            LedgerAct::Stale(at) => {
                let Some(at) = pick(at) else { continue };
                let (fence, _, step) = turns_taken[at];
                let stale = Fence { epoch: fence.epoch - 1, ..fence };
                assert!(fixture.reserve_step(stale, step, 1).await.is_err());
                assert!(fixture.commit_step(stale, step, 0).await.is_err());
                assert!(fixture.complete_answer(stale, done_answer(stale.answer)).await.is_err());
            }
        }
        check_ledger(&fixture, account, key).await;
    }
}

/// Checks that the postings add up to the balance, that reserved credits match the answers, and that
/// grants equal the balance plus the spending. (Stored numbers cannot be negative.) All questions use one
/// key, which must stay within its spending limit.
async fn check_ledger(fixture: &StoreFixture, account: AccountId, key: KeyId) {
    let balance = fixture.read_balance(account).await;
    let held = fixture.query_count("SELECT CAST(COALESCE(SUM(outstanding), 0) AS BIGINT) FROM answers").await;
    assert_eq!(Credits(u64::try_from(held).expect("not below zero")), balance.reserved);
    let sums = fixture
        .store
        .read(move |tx| {
            tx.query_one(
                "SELECT CAST(COALESCE(SUM(CASE kind WHEN 'grant' THEN amount ELSE 0 END), 0) AS BIGINT),
                    CAST(COALESCE(SUM(CASE kind WHEN 'settle' THEN amount ELSE 0 END), 0) AS BIGINT) FROM postings",
                &[],
                |row| Ok((row.get_count(0)?, row.get_count(1)?)),
            )
        })
        .await;
    let (granted, settled) = sums.expect("a read").expect("there are sums");
    assert_eq!(balance.available.0 + balance.reserved.0 + settled, granted);
    let spent = fixture.spent_by_key(account, key).await;
    assert_eq!(spent, Credits(balance.reserved.0 + settled));
    assert!(spent <= Credits(SPENDING_LIMIT));
    let newest_first =
        fixture.store.read(move |tx| credits::list_postings(tx, account, 0, 1000)).await.expect("a read");
    let paged = fixture.store.read(move |tx| {
        let mut paged = credits::list_postings(tx, account, 0, 3)?;
        while let Some(last) = paged.last().map(|entry| (entry.at, entry.id)) {
            let page = credits::ledger_before(tx, account, last, 3)?;
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        Ok::<_, StoreError>(paged)
    });
    assert_eq!(paged.await.expect("a read"), newest_first, "in pages");
    let mut replayed = Balance::default();
    let mut posted: Vec<_> = newest_first.into_iter().map(|one| (one.kind, one.amount)).collect();
    // Postings of one moment have no defined order; the sums do not depend on it.
    posted.sort_by_key(|(kind, _)| match kind {
        PostingKind::Grant => 0,
        PostingKind::Release | PostingKind::Settle => 2,
        PostingKind::Reserve => 1,
    });
    let reservable: u64 =
        posted.iter().filter(|(kind, _)| *kind == PostingKind::Reserve).map(|(_, a)| a.0).sum();
    replayed.available = Credits(reservable);
    for (kind, amount) in posted {
        replayed = replayed.after_posting(kind, amount).expect("each posting fits the purse");
    }
    assert_eq!(replayed, Balance { available: Credits(balance.available.0 + reservable), ..balance });
}
