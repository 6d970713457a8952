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
    a_user_sees_the_open_sessions_in_order_of_use,
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
    let browser = "Firefox · Linux".to_owned();
    let new = NewSession { id, account, user, fingerprint, browser, expires_at: now.plus(HOUR), now };
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

async fn record_use(fixture: &Fixture, session: &NewSession, used_at: Timestamp) {
    let (id, end) = (session.id, used_at.plus(HOUR));
    fixture.store.write(move |tx| sessions::record_use(tx, id, used_at, end)).await.expect("a write");
}

async fn listed(fixture: &Fixture, user: UserId, now: Timestamp) -> Vec<SessionId> {
    let listed = fixture.store.read(move |tx| sessions::list(tx, user, now)).await.expect("a read");
    listed.into_iter().map(|session| session.id).collect()
}

async fn a_session_is_found_by_its_fingerprint_until_it_expires(engine: Engine) {
    let fixture = Fixture::new(engine);
    let new = open(&fixture, owner(&fixture).await, START).await;
    let expected = Session {
        id: new.id,
        account: new.account,
        user: new.user,
        browser: new.browser.clone(),
        created_at: START,
        used_at: START,
        expires_at: START.plus(HOUR),
    };
    assert_eq!(found(&fixture, &new, START).await, Some(expected));
    assert!(is_open(&fixture, &new, START).await);
    assert_eq!(found(&fixture, &new, START.plus(HOUR)).await, None, "it has expired");
    assert!(!is_open(&fixture, &new, START.plus(HOUR)).await);
    let other = NewSession { fingerprint: [9; 32], ..new.clone() };
    assert_eq!(found(&fixture, &other, START).await, None);
    for used_at in [START.plus(HOUR), START] {
        record_use(&fixture, &new, used_at).await;
        let session = found(&fixture, &new, START.plus(HOUR)).await.expect("its end has moved");
        assert_eq!(session.used_at, START.plus(HOUR), "an earlier use changes nothing");
        assert_eq!(session.expires_at, START.plus(2 * HOUR));
    }
}

async fn a_session_ends_by_its_own_account_alone(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (one, other) = (owner(&fixture).await, owner(&fixture).await);
    let (mine, theirs) = (open(&fixture, one, START).await, open(&fixture, other, START).await);
    let id = mine.id;
    for (account, ends) in [(other.0, false), (one.0, true), (one.0, false)] {
        let ended = fixture.store.write(move |tx| sessions::end(tx, account, id)).await.expect("a write");
        assert_eq!(ended, ends, "it ends once, and for its own account");
        assert_eq!(is_open(&fixture, &mine, START).await, account != one.0);
    }
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

async fn a_user_sees_the_open_sessions_in_order_of_use(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (one, other) = (owner(&fixture).await, owner(&fixture).await);
    let (first, second) = (open(&fixture, one, START).await, open(&fixture, one, START).await);
    open(&fixture, other, START).await;
    let half = START.plus(HOUR / 2);
    record_use(&fixture, &first, half).await;
    assert_eq!(listed(&fixture, one.1, half).await, [first.id, second.id]);
    record_use(&fixture, &second, half.plus(HOUR / 4)).await;
    assert_eq!(listed(&fixture, one.1, half).await, [second.id, first.id]);
    assert_eq!(listed(&fixture, one.1, half.plus(HOUR)).await, [second.id], "the other has expired");
}
