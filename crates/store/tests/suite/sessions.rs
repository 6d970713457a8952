//! Sessions of the web application.

use std::time::Duration;

use domain::id::{AccountId, SessionId, UserId};
use domain::time::Timestamp;
use store::sessions::{NewSession, SESSIONS_MAX, Session};
use store::{accounts, sessions};

use crate::fixture::{Engine, Fixture, START};

on_every_engine!(
    a_session_is_found_by_its_fingerprint_until_it_expires,
    a_session_ends_by_its_own_account_alone,
    a_user_has_a_bounded_number_of_sessions,
);

const HOUR: Duration = Duration::from_secs(3600);

async fn owner(fixture: &Fixture) -> (AccountId, UserId) {
    let new = fixture.new_account(0);
    let (account, user) = (new.account, new.user);
    fixture.store.write(move |tx| accounts::create(tx, &new)).await.expect("it is made");
    (account, user)
}

async fn open(fixture: &Fixture, (account, user): (AccountId, UserId), now: Timestamp) -> NewSession {
    let bits = fixture.bits();
    let mut fingerprint = [7; 32];
    fingerprint[..16].copy_from_slice(&bits.to_be_bytes());
    let id = SessionId::from_random(bits);
    let new = NewSession { id, account, user, fingerprint, expires_at: now.plus(HOUR), now };
    let made = new.clone();
    fixture.store.write(move |tx| sessions::create(tx, &made)).await.expect("it is made");
    new
}

async fn found(fixture: &Fixture, session: &NewSession, now: Timestamp) -> Option<Session> {
    let fingerprint = session.fingerprint;
    fixture.store.read(move |tx| sessions::resolve(tx, fingerprint, now)).await.expect("a read")
}

async fn is_open(fixture: &Fixture, session: &NewSession, now: Timestamp) -> bool {
    let id = session.id;
    fixture.store.read(move |tx| sessions::is_open(tx, id, now)).await.expect("a read")
}

async fn a_session_is_found_by_its_fingerprint_until_it_expires(engine: Engine) {
    let fixture = Fixture::new(engine);
    let new = open(&fixture, owner(&fixture).await, START).await;
    let expected = Session {
        id: new.id,
        account: new.account,
        user: new.user,
        created_at: START,
        expires_at: START.plus(HOUR),
    };
    assert_eq!(found(&fixture, &new, START).await, Some(expected));
    assert!(is_open(&fixture, &new, START).await);
    assert_eq!(found(&fixture, &new, START.plus(HOUR)).await, None, "it has expired");
    assert!(!is_open(&fixture, &new, START.plus(HOUR)).await);
    let other = NewSession { fingerprint: [9; 32], ..new.clone() };
    assert_eq!(found(&fixture, &other, START).await, None);
    let (id, earlier, later) = (new.id, START, START.plus(3 * HOUR));
    for end in [later, earlier] {
        fixture.store.write(move |tx| sessions::extend(tx, id, end)).await.expect("a write");
        assert!(is_open(&fixture, &new, START.plus(2 * HOUR)).await, "an earlier end changes nothing");
    }
}

async fn a_session_ends_by_its_own_account_alone(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (one, other) = (owner(&fixture).await, owner(&fixture).await);
    let (mine, theirs) = (open(&fixture, one, START).await, open(&fixture, other, START).await);
    let (id, account, stranger) = (mine.id, one.0, other.0);
    fixture.store.write(move |tx| sessions::end(tx, stranger, id)).await.expect("a write");
    assert!(is_open(&fixture, &mine, START).await, "it is another account's");
    fixture.store.write(move |tx| sessions::end(tx, account, id)).await.expect("a write");
    assert!(!is_open(&fixture, &mine, START).await);
    let again = open(&fixture, one, START).await;
    let user = one.1;
    fixture.store.write(move |tx| sessions::end_all(tx, user)).await.expect("a write");
    assert!(!is_open(&fixture, &again, START).await);
    assert!(is_open(&fixture, &theirs, START).await);
}

async fn a_user_has_a_bounded_number_of_sessions(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (one, other) = (owner(&fixture).await, owner(&fixture).await);
    let theirs = open(&fixture, other, START).await;
    let mut opened = Vec::new();
    for second in 0..=u64::from(SESSIONS_MAX) {
        opened.push(open(&fixture, one, START.plus(Duration::from_secs(second))).await);
    }
    let now = START.plus(Duration::from_secs(60));
    assert!(!is_open(&fixture, &opened[0], now).await, "the oldest made room");
    assert!(is_open(&fixture, &opened[1], now).await);
    assert!(is_open(&fixture, &theirs, now).await, "another user's remain");
    // Expired sessions are removed: a time before their end does not find them either.
    open(&fixture, other, START.plus(2 * HOUR)).await;
    assert!(!is_open(&fixture, &opened[1], now).await);
}
