//! Sessions of the web application.

use std::time::Duration;

use domain::id::{AccountId, SessionId, UserId};
use domain::time::Timestamp;
use store::sessions::{NewSession, SESSIONS_MAX, StoredSession};
use store::{accounts, sessions};

use crate::fixture::{START, StoreEngine, StoreFixture};

on_every_engine!(
    session_resolves_until_it_expires,
    session_ends_by_own_account_only,
    sessions_of_user_are_bounded,
    list_sessions_in_order_of_use,
);

const HOUR: Duration = Duration::from_secs(3600);

async fn create_owner(fixture: &StoreFixture) -> (AccountId, UserId) {
    let new = fixture.new_account(0);
    let (account, user) = (new.account, new.user);
    fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("it is made");
    (account, user)
}

async fn open_session(
    fixture: &StoreFixture,
    (account, user): (AccountId, UserId),
    now: Timestamp,
) -> NewSession {
    let bits = fixture.next_bits();
    let mut fingerprint = [7; 32];
    fingerprint[..16].copy_from_slice(&bits.to_be_bytes());
    let id = SessionId::from_random(bits);
    let browser = "Firefox · Linux".to_owned();
    let new =
        NewSession { id, account, user, fingerprint, browser, expires_at: now.saturating_add(HOUR), now };
    let made = new.clone();
    fixture.store.write(move |tx| sessions::create_session(tx, &made)).await.expect("it is made");
    new
}

async fn find_session(fixture: &StoreFixture, session: &NewSession, now: Timestamp) -> Option<StoredSession> {
    let fingerprint = session.fingerprint;
    fixture.store.read(move |tx| sessions::resolve_session(tx, fingerprint, now)).await.expect("a read")
}

async fn is_open(fixture: &StoreFixture, session: &NewSession, now: Timestamp) -> bool {
    let id = session.id;
    fixture.store.read(move |tx| sessions::is_open(tx, id, now)).await.expect("a read")
}

async fn record_use(fixture: &StoreFixture, session: &NewSession, used_at: Timestamp) {
    let (id, end) = (session.id, used_at.saturating_add(HOUR));
    fixture.store.write(move |tx| sessions::record_use(tx, id, used_at, end)).await.expect("a write");
}

async fn list_session_ids(fixture: &StoreFixture, user: UserId, now: Timestamp) -> Vec<SessionId> {
    let listed = fixture.store.read(move |tx| sessions::list_sessions(tx, user, now)).await.expect("a read");
    listed.into_iter().map(|session| session.id).collect()
}

async fn session_resolves_until_it_expires(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = open_session(&fixture, create_owner(&fixture).await, START).await;
    let expected = StoredSession {
        id: new.id,
        account: new.account,
        user: new.user,
        browser: new.browser.clone(),
        created_at: START,
        used_at: START,
        expires_at: START.saturating_add(HOUR),
    };
    assert_eq!(find_session(&fixture, &new, START).await, Some(expected));
    assert!(is_open(&fixture, &new, START).await);
    assert_eq!(find_session(&fixture, &new, START.saturating_add(HOUR)).await, None, "it has expired");
    assert!(!is_open(&fixture, &new, START.saturating_add(HOUR)).await);
    let other = NewSession { fingerprint: [9; 32], ..new.clone() };
    assert_eq!(find_session(&fixture, &other, START).await, None);
    for used_at in [START.saturating_add(HOUR), START] {
        record_use(&fixture, &new, used_at).await;
        let session =
            find_session(&fixture, &new, START.saturating_add(HOUR)).await.expect("its end has moved");
        assert_eq!(session.used_at, START.saturating_add(HOUR), "an earlier use changes nothing");
        assert_eq!(session.expires_at, START.saturating_add(2 * HOUR));
    }
}

async fn session_ends_by_own_account_only(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (one, other) = (create_owner(&fixture).await, create_owner(&fixture).await);
    let (mine, theirs) =
        (open_session(&fixture, one, START).await, open_session(&fixture, other, START).await);
    let id = mine.id;
    for (account, ends) in [(other.0, false), (one.0, true), (one.0, false)] {
        let ended =
            fixture.store.write(move |tx| sessions::end_session(tx, account, id)).await.expect("a write");
        assert_eq!(ended, ends, "it ends once, and for its own account");
        assert_eq!(is_open(&fixture, &mine, START).await, account != one.0);
    }
    let again = open_session(&fixture, one, START).await;
    let user = one.1;
    fixture.store.write(move |tx| sessions::end_all(tx, user)).await.expect("a write");
    assert!(!is_open(&fixture, &again, START).await);
    assert!(is_open(&fixture, &theirs, START).await);
}

async fn sessions_of_user_are_bounded(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (one, other) = (create_owner(&fixture).await, create_owner(&fixture).await);
    let theirs = open_session(&fixture, other, START).await;
    let mut opened = Vec::new();
    for second in 0..=u64::from(SESSIONS_MAX) {
        opened.push(open_session(&fixture, one, START.saturating_add(Duration::from_secs(second))).await);
    }
    let now = START.saturating_add(Duration::from_secs(60));
    assert!(!is_open(&fixture, &opened[0], now).await, "the oldest made room");
    assert!(is_open(&fixture, &opened[1], now).await);
    assert!(is_open(&fixture, &theirs, now).await, "another user's remain");
    // Expired sessions are removed: a time before their end does not find them either.
    open_session(&fixture, other, START.saturating_add(2 * HOUR)).await;
    assert!(!is_open(&fixture, &opened[1], now).await);
}

async fn list_sessions_in_order_of_use(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (one, other) = (create_owner(&fixture).await, create_owner(&fixture).await);
    let (first, second) =
        (open_session(&fixture, one, START).await, open_session(&fixture, one, START).await);
    open_session(&fixture, other, START).await;
    let half = START.saturating_add(HOUR / 2);
    record_use(&fixture, &first, half).await;
    assert_eq!(list_session_ids(&fixture, one.1, half).await, [first.id, second.id]);
    record_use(&fixture, &second, half.saturating_add(HOUR / 4)).await;
    assert_eq!(list_session_ids(&fixture, one.1, half).await, [second.id, first.id]);
    assert_eq!(
        list_session_ids(&fixture, one.1, half.saturating_add(HOUR)).await,
        [second.id],
        "the other has expired"
    );
}
