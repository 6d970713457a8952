//! Users of identity providers.

use store::identities::NewIdentity;
use store::{accounts, identities};

use crate::fixture::{START, StoreEngine, StoreFixture};

on_every_engine!(identity_binds_to_one_account, closed_account_returns_its_identity);

async fn new_identity(fixture: &StoreFixture, subject: &str) -> NewIdentity {
    let new = fixture.new_account(0);
    let (account, user) = (new.account, new.user);
    fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("an account");
    let (issuer, subject) = ("https://id.example".to_owned(), subject.to_owned());
    NewIdentity { issuer, subject, account, user, now: START }
}

async fn bind_identity(fixture: &StoreFixture, new: &NewIdentity) -> bool {
    let new = new.clone();
    fixture.store.write(move |tx| identities::bind_identity(tx, &new)).await.expect("a write")
}

async fn find_account(fixture: &StoreFixture, subject: &'static str) -> Option<domain::id::AccountId> {
    let found = fixture
        .store
        .read(move |tx| identities::find_identity_account(tx, "https://id.example", subject))
        .await;
    found.expect("a read")
}

async fn identity_binds_to_one_account(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (first, second) = (new_identity(&fixture, "1").await, new_identity(&fixture, "1").await);
    assert_eq!(find_account(&fixture, "1").await, None);
    assert!(bind_identity(&fixture, &first).await);
    assert!(
        !bind_identity(&fixture, &first).await && !bind_identity(&fixture, &second).await,
        "the subject is bound"
    );
    let another = NewIdentity { subject: "2".to_owned(), ..first.clone() };
    assert!(!bind_identity(&fixture, &another).await, "the user is bound");
    let elsewhere = NewIdentity { issuer: "https://other.example".to_owned(), ..another };
    assert!(bind_identity(&fixture, &elsewhere).await, "another provider is another matter");
    assert_eq!(
        (find_account(&fixture, "1").await, find_account(&fixture, "2").await),
        (Some(first.account), None)
    );
    let id = second.account;
    let bound = fixture.store.read(move |tx| identities::is_bound(tx, id, "https://id.example")).await;
    assert!(!bound.expect("a read"));
    let id = first.account;
    let bound = fixture.store.read(move |tx| identities::is_bound(tx, id, "https://id.example")).await;
    assert!(bound.expect("a read"));
}

async fn closed_account_returns_its_identity(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (first, second) = (new_identity(&fixture, "1").await, new_identity(&fixture, "1").await);
    assert!(bind_identity(&fixture, &first).await);
    let (id, job) = (first.account, domain::id::JobId::from_random(fixture.next_bits()));
    fixture.store.write(move |tx| accounts::close_account(tx, id, job, START)).await.expect("it is closed");
    assert_eq!(find_account(&fixture, "1").await, None);
    assert!(bind_identity(&fixture, &second).await);
    let id = second.account;
    fixture.store.write(move |tx| identities::remove_identities(tx, id)).await.expect("a write");
    assert_eq!(find_account(&fixture, "1").await, None);
}
