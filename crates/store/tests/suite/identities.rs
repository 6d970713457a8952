//! Users of identity providers.

use store::identities::NewIdentity;
use store::{accounts, identities};

use crate::fixture::{Engine, Fixture, START};

on_every_engine!(a_user_of_a_provider_is_bound_to_one_account, a_closed_account_gives_its_identity_back);

async fn identity(fixture: &Fixture, subject: &str) -> NewIdentity {
    let new = fixture.new_account(0);
    let (account, user) = (new.account, new.user);
    fixture.store.write(move |tx| accounts::create(tx, &new)).await.expect("an account");
    let (issuer, subject) = ("https://id.example".to_owned(), subject.to_owned());
    NewIdentity { issuer, subject, account, user, now: START }
}

async fn bind(fixture: &Fixture, new: &NewIdentity) -> bool {
    let new = new.clone();
    fixture.store.write(move |tx| identities::bind(tx, &new)).await.expect("a write")
}

async fn account(fixture: &Fixture, subject: &'static str) -> Option<domain::id::AccountId> {
    let found = fixture.store.read(move |tx| identities::account(tx, "https://id.example", subject)).await;
    found.expect("a read")
}

async fn a_user_of_a_provider_is_bound_to_one_account(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (first, second) = (identity(&fixture, "1").await, identity(&fixture, "1").await);
    assert_eq!(account(&fixture, "1").await, None);
    assert!(bind(&fixture, &first).await);
    assert!(!bind(&fixture, &first).await && !bind(&fixture, &second).await, "the subject is bound");
    let another = NewIdentity { subject: "2".to_owned(), ..first.clone() };
    assert!(!bind(&fixture, &another).await, "the user is bound");
    let elsewhere = NewIdentity { issuer: "https://other.example".to_owned(), ..another };
    assert!(bind(&fixture, &elsewhere).await, "another provider is another matter");
    assert_eq!((account(&fixture, "1").await, account(&fixture, "2").await), (Some(first.account), None));
    let id = second.account;
    let bound = fixture.store.read(move |tx| identities::is_bound(tx, id, "https://id.example")).await;
    assert!(!bound.expect("a read"));
    let id = first.account;
    let bound = fixture.store.read(move |tx| identities::is_bound(tx, id, "https://id.example")).await;
    assert!(bound.expect("a read"));
}

async fn a_closed_account_gives_its_identity_back(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (first, second) = (identity(&fixture, "1").await, identity(&fixture, "1").await);
    assert!(bind(&fixture, &first).await);
    let (id, job) = (first.account, domain::id::JobId::from_random(fixture.bits()));
    fixture.store.write(move |tx| accounts::close(tx, id, job, START)).await.expect("it is closed");
    assert_eq!(account(&fixture, "1").await, None);
    assert!(bind(&fixture, &second).await);
    let id = second.account;
    fixture.store.write(move |tx| identities::remove(tx, id)).await.expect("a write");
    assert_eq!(account(&fixture, "1").await, None);
}
