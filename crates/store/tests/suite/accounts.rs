//! Accounts, keys, machines, credits and the audit log.

use std::time::Duration;

use domain::account::{AccountRole, Licence};
use domain::credits::{Balance, Credits, PostingKind};
use domain::id::{AccountId, KeyId, PostingId, UserId};
use domain::key::{KeyFingerprint, SecretKey};
use domain::scope::{Permission, Scope};
use domain::time::Timestamp;
use store::accounts::{AccountError, EmailSource, NewAccount};
use store::audit::AuditFilter;
use store::credits::GrantError;
use store::keys::{KeyError, NewKey};
use store::machines::{MachineCounts, MachineRecordError, StoredDesiredState, StoredMachine};
use store::{StoreError, accounts, audit, credits, keys, machines};

use crate::fixture::{START, StoreEngine, StoreFixture};

on_every_engine!(
    account_found_by_id_and_email,
    list_accounts_pages_with_credits,
    email_is_unique_in_any_case,
    email_is_replaced_by_free_one,
    owner_becomes_operator_and_back,
    password_belongs_to_one_user,
    grant_raises_balance_and_ledger,
    machine_ordinals_have_no_gaps,
    key_ends_with_its_licence,
    revoked_key_never_resolves_again,
    key_keeps_its_latest_use,
    key_has_scope_and_own_end,
    list_audit_entries_newest_first,
);

async fn account_found_by_id_and_email(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = NewAccount { email: "Žofie.N@Example.org".to_owned(), ..fixture.new_account(5) };
    assert!(!fixture.store.read(|tx| accounts::has_any_account(tx)).await.expect("a read"));
    let (made, id) = (new.clone(), new.account);
    let made = fixture.store.write(move |tx| accounts::create_account(tx, &made)).await.expect("it is made");
    assert!(fixture.store.read(|tx| accounts::has_any_account(tx)).await.expect("a read"));
    assert_eq!((made.id, made.user, made.email.as_str()), (new.account, new.user, "Žofie.N@Example.org"));
    assert_eq!((made.licence, made.has_machine), (Licence { until: new.licence_until }, true));
    let until = Timestamp::from_micros(7);
    fixture.store.write(move |tx| accounts::set_licence(tx, id, Some(until))).await.expect("there is one");
    let found = fixture
        .store
        .read(|tx| accounts::by_email(tx, " žOFIE.n@EXAMPLE.ORG"))
        .await
        .expect("a read")
        .expect("it is found");
    let same = fixture.store.read(move |tx| accounts::find_account(tx, id)).await.expect("a read");
    assert_eq!(Some(&found), same.as_ref());
    assert_eq!(found.licence.until, Some(until));
    let none = fixture.store.read(|tx| accounts::by_email(tx, "nobody\0")).await.expect("a read");
    assert_eq!(none, None);
    let unknown = AccountId::from_random(99);
    let refused = fixture.store.write(move |tx| accounts::set_licence(tx, unknown, None)).await;
    assert!(matches!(refused, Err(AccountError::NotFound)));
}

async fn list_accounts_pages_with_credits(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let mut made = Vec::new();
    for grant in [5, 0, 7] {
        made.push((fixture.create_account(grant).await, grant));
    }
    made.sort_unstable();
    let mut listed = Vec::new();
    let mut after = None;
    loop {
        let page = fixture.store.read(move |tx| accounts::list_accounts(tx, after, 2)).await.expect("a read");
        let Some((last, _)) = page.last() else { break };
        after = Some(last.id);
        listed.extend(page.iter().map(|(account, credits)| (account.id, credits.available.0)));
    }
    assert_eq!(listed, made);
}

async fn email_is_unique_in_any_case(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let first = NewAccount { email: "a@x".to_owned(), ..fixture.new_account(5) };
    let second = NewAccount { email: "A@X".to_owned(), ..fixture.new_account(5) };
    let id = second.account;
    fixture.store.write(move |tx| accounts::create_account(tx, &first)).await.expect("it is made");
    let refused = fixture.store.write(move |tx| accounts::create_account(tx, &second)).await;
    assert!(matches!(refused, Err(AccountError::EmailTaken)));
    assert_eq!(fixture.store.read(move |tx| accounts::find_account(tx, id)).await.expect("a read"), None);
}

async fn email_is_replaced_by_free_one(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (ada, bo) = (fixture.new_account(0), fixture.new_account(0));
    let (ada_user, taken) = (ada.user, bo.email.to_uppercase());
    for new in [ada, bo] {
        fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("it is made");
    }
    let refused =
        fixture.store.write(move |tx| accounts::set_email(tx, ada_user, &taken, EmailSource::Owner)).await;
    assert!(matches!(refused, Err(AccountError::EmailTaken)), "{refused:?}");
    let chosen = || fixture.store.read(move |tx| accounts::is_email_chosen(tx, ada_user));
    assert!(!chosen().await.expect("a read"), "the operator gave it");
    for (email, source) in
        [("Ada.L@example.org", EmailSource::Owner), ("ada.l@example.org", EmailSource::Operator)]
    {
        let set = fixture.store.write(move |tx| accounts::set_email(tx, ada_user, email, source));
        set.await.expect("it is free");
        assert_eq!(chosen().await.expect("a read"), source == EmailSource::Owner);
        let found = fixture.store.read(move |tx| accounts::by_email(tx, "ADA.L@example.org")).await;
        let found = found.expect("a read").expect("it is found");
        assert_eq!((found.user, found.email.as_str()), (ada_user, email));
    }
}

async fn owner_becomes_operator_and_back(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = fixture.new_account(0);
    let (account, user) = (new.account, new.user);
    fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("it is made");
    for role in [AccountRole::Operator, AccountRole::Owner] {
        fixture.store.write(move |tx| accounts::set_role(tx, user, role)).await.expect("it is set");
        let found = fixture.store.read(move |tx| accounts::find_account(tx, account)).await.expect("a read");
        assert_eq!(found.map(|found| found.role), Some(role));
        let any = fixture.store.read(|tx| accounts::any_operator(tx)).await.expect("a read");
        assert_eq!(any, role == AccountRole::Operator);
    }
}

async fn password_belongs_to_one_user(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (new, other) = (fixture.new_account(0), fixture.new_account(0));
    let (user, stranger) = (new.user, other.user);
    for new in [new, other] {
        fixture.store.write(move |tx| accounts::create_account(tx, &new)).await.expect("it is made");
    }
    let stored = async |user| {
        fixture.store.read(move |tx| accounts::find_password_hash(tx, user)).await.expect("a read")
    };
    assert_eq!(stored(user).await, None);
    for hash in ["$argon2id$one", "$argon2id$two"] {
        fixture.store.write(move |tx| accounts::set_password(tx, user, hash)).await.expect("there is one");
        assert_eq!(stored(user).await.as_deref(), Some(hash));
    }
    let keeps = async |hash: &'static str| {
        fixture.store.write(move |tx| accounts::keeps_password(tx, user, hash)).await.expect("a write")
    };
    assert!(keeps("$argon2id$two").await && !keeps("$argon2id$one").await, "only the last one is kept");
    assert_eq!(stored(user).await.as_deref(), Some("$argon2id$two"));
    assert_eq!(stored(stranger).await, None);
    let unknown = UserId::from_random(99);
    let refused = fixture.store.write(move |tx| accounts::set_password(tx, unknown, "x")).await;
    assert!(matches!(refused, Err(AccountError::NotFound)));
    assert_eq!(stored(unknown).await, None);
}

async fn grant_raises_balance_and_ledger(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(5).await;
    let posting = PostingId::from_random(fixture.next_bits());
    let later = START.saturating_add(Duration::from_secs(1));
    let balance = fixture
        .store
        .write(move |tx| credits::grant_credits(tx, account, posting, Credits(7), later))
        .await
        .expect("there is an account");
    assert_eq!(balance, Balance { available: Credits(12), reserved: Credits(0) });
    assert_eq!(fixture.read_balance(account).await, balance);
    let ledger =
        fixture.store.read(move |tx| credits::list_postings(tx, account, 0, 10)).await.expect("a read");
    let entries: Vec<_> = ledger.iter().map(|posted| (posted.kind, posted.amount, posted.balance)).collect();
    let first = Balance { available: Credits(5), reserved: Credits(0) };
    assert_eq!(entries, [(PostingKind::Grant, Credits(7), balance), (PostingKind::Grant, Credits(5), first)]);
    assert_eq!(ledger[0].id, posting);
    let of = |id: PostingId| fixture.store.write(move |tx| credits::is_posted(tx, account, id));
    let unposted = PostingId::from_random(fixture.next_bits());
    assert!(of(posting).await.expect("a read") && !of(unposted).await.expect("a read"));
    let (unknown, other) = (AccountId::from_random(99), PostingId::from_random(fixture.next_bits()));
    let refused =
        fixture.store.write(move |tx| credits::grant_credits(tx, unknown, other, Credits(7), START)).await;
    assert!(matches!(refused, Err(GrantError::NotFound)));
    let again =
        fixture.store.write(move |tx| credits::grant_credits(tx, account, posting, Credits(7), later)).await;
    assert!(matches!(again, Err(GrantError::Store(StoreError::Constraint(_)))));
    assert_eq!(fixture.read_balance(account).await, balance);
}

async fn machine_ordinals_have_no_gaps(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let first = fixture.create_account(0).await;
    let without = NewAccount { machine: false, ..fixture.new_account(0) };
    let second = without.account;
    fixture.store.write(move |tx| accounts::create_account(tx, &without)).await.expect("it is made");
    let lost: Result<(), StoreError> = fixture
        .store
        .write(move |tx| {
            machines::create_machine(tx, second, START)?;
            Err(StoreError::Rule("it is undone"))
        })
        .await;
    assert!(lost.is_err());
    assert_eq!(fixture.store.read(move |tx| machines::find_machine(tx, second)).await.expect("a read"), None);
    let refused =
        fixture.store.write(move |tx| machines::set_desired(tx, second, StoredDesiredState::Running)).await;
    assert!(matches!(refused, Err(MachineRecordError::NotFound)));
    for _ in 0..2 {
        fixture
            .store
            .write(move |tx| machines::create_machine(tx, second, START))
            .await
            .expect("there is an account");
    }
    fixture
        .store
        .write(move |tx| machines::set_desired(tx, second, StoredDesiredState::Running))
        .await
        .expect("has one");
    let machine = |account, ordinal, desired| StoredMachine { account, ordinal, desired };
    let all =
        [machine(first, 0, StoredDesiredState::Stopped), machine(second, 1, StoredDesiredState::Running)];
    assert_eq!(fixture.store.read(|tx| machines::list_machines(tx, None, 10)).await.expect("a read"), all);
    assert_eq!(
        fixture.store.read(|tx| machines::list_machines(tx, Some(0), 10)).await.expect("a read"),
        all[1..]
    );
    let counts = fixture.store.read(|tx| machines::count_machines(tx)).await.expect("a read");
    assert_eq!(counts, MachineCounts { running: 1, stopped: 1 });
}

fn at_minute(number: u64) -> Timestamp {
    START.saturating_add(Duration::from_secs(60 * number))
}

fn new_key(fixture: &StoreFixture, account: AccountId) -> NewKey {
    let id = KeyId::from_random(fixture.next_bits());
    let mut bits = [0; 24];
    bits[..16].copy_from_slice(&id.bits().to_be_bytes());
    NewKey {
        id,
        account,
        user: None,
        name: "a tool".to_owned(),
        fingerprint: SecretKey::from_random(bits).fingerprint(),
        expires_at: None,
        scope: Scope::ALL,
        spending_limit: None,
        now: START,
    }
}

async fn make_key(fixture: &StoreFixture, new: &NewKey) -> Result<(), KeyError> {
    let new = new.clone();
    fixture.store.write(move |tx| keys::create_key(tx, &new)).await
}

async fn resolve_key(fixture: &StoreFixture, fingerprint: KeyFingerprint) -> Option<keys::ResolvedKey> {
    fixture.store.read(move |tx| keys::resolve_key(tx, fingerprint)).await.expect("a read")
}

async fn key_ends_with_its_licence(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let unlicensed = NewAccount { licence_until: Some(START), machine: false, ..fixture.new_account(0) };
    let account = unlicensed.account;
    let key = new_key(&fixture, account);
    assert!(matches!(make_key(&fixture, &key).await, Err(KeyError::NotFound)));
    fixture.store.write(move |tx| accounts::create_account(tx, &unlicensed)).await.expect("it is made");
    assert!(matches!(make_key(&fixture, &key).await, Err(KeyError::NoLicence)));
    let until = START.saturating_add(Duration::from_secs(60));
    fixture
        .store
        .write(move |tx| accounts::set_licence(tx, account, Some(until)))
        .await
        .expect("there is one");
    make_key(&fixture, &key).await.expect("the licence holds");
    let soon = START.saturating_add(Duration::from_secs(5));
    let short = NewKey { expires_at: Some(soon), ..new_key(&fixture, account) };
    make_key(&fixture, &short).await.expect("the licence holds");
    let listed = fixture.store.read(move |tx| keys::list_keys(tx, account)).await.expect("a read");
    let entries: Vec<_> = listed.iter().map(|key| (key.id, key.name.as_str(), key.expires_at)).collect();
    assert_eq!(entries, [(key.id, "a tool", Some(until)), (short.id, "a tool", Some(soon))]);
    let found = resolve_key(&fixture, key.fingerprint).await.expect("it is known");
    assert_eq!((found.key, found.account, found.has_machine), (key.id, account, false));
    assert!(found.is_valid(soon) && !found.is_valid(until));
    let found = resolve_key(&fixture, short.fingerprint).await.expect("it is known");
    assert!(found.is_valid(START) && !found.is_valid(soon));
    assert_eq!(resolve_key(&fixture, KeyFingerprint([0; 32])).await, None);
}

async fn revoked_key_never_resolves_again(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(0).await, fixture.create_account(0).await);
    let (key, remaining) = (new_key(&fixture, account), new_key(&fixture, account));
    make_key(&fixture, &key).await.expect("the licence holds");
    make_key(&fixture, &remaining).await.expect("the licence holds");
    let id = key.id;
    let refused = fixture.store.write(move |tx| keys::revoke_key(tx, Some(other), id, START)).await;
    assert!(matches!(refused, Err(KeyError::NotFound)), "it is not the other account's");
    let owner =
        fixture.store.write(move |tx| keys::revoke_key(tx, None, id, START)).await.expect("it is there");
    assert_eq!(owner, account);
    let again = fixture.store.write(move |tx| keys::revoke_key(tx, Some(account), id, START)).await;
    assert!(matches!(again, Err(KeyError::NotFound)));
    assert!(!resolve_key(&fixture, key.fingerprint).await.expect("it is known").is_valid(START));
    assert!(resolve_key(&fixture, remaining.fingerprint).await.expect("it is known").is_valid(START));
    let listed = fixture.store.read(move |tx| keys::list_keys(tx, account)).await.expect("a read");
    assert_eq!(listed.iter().map(|key| key.id).collect::<Vec<_>>(), [remaining.id]);
}

async fn key_keeps_its_latest_use(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(0).await;
    let key = new_key(&fixture, account);
    make_key(&fixture, &key).await.expect("the licence holds");
    for number in [1, 3, 2] {
        let (id, at) = (key.id, at_minute(number));
        fixture.store.write(move |tx| keys::record_key_use(tx, id, at)).await.expect("a write");
    }
    let listed = fixture.store.read(move |tx| keys::list_keys(tx, account)).await.expect("a read");
    assert_eq!(listed[0].last_used_at, Some(at_minute(3)));
}

async fn key_has_scope_and_own_end(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(0).await;
    let scope = Scope::from_permissions(&[Permission::Files, Permission::Read]).expect("there are two");
    let narrow = NewKey { scope, spending_limit: Some(Credits(7)), ..new_key(&fixture, account) };
    make_key(&fixture, &narrow).await.expect("the licence holds");
    let whole = new_key(&fixture, account);
    make_key(&fixture, &whole).await.expect("the licence holds");
    let entries = |key: &keys::StoredKey| (key.scope, key.spending);
    let listed = fixture.store.read(move |tx| keys::list_keys(tx, account)).await.expect("a read");
    let spending = Some(keys::Spending { limit: Credits(7), spent: Credits(0) });
    assert_eq!(listed.iter().map(entries).collect::<Vec<_>>(), [(scope, spending), (Scope::ALL, None)]);
    assert_eq!(resolve_key(&fixture, narrow.fingerprint).await.expect("it is known").scope, scope);
    assert_eq!(resolve_key(&fixture, whole.fingerprint).await.expect("it is known").scope, Scope::ALL);
    let ended = NewKey { expires_at: Some(START), ..new_key(&fixture, account) };
    assert!(matches!(make_key(&fixture, &ended).await, Err(KeyError::Ended)));
}

async fn list_audit_entries_newest_first(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(0).await;
    let entry = |action: &str| audit::AuditEntry {
        at: START,
        account: Some(account),
        actor: "operator".to_owned(),
        action: action.to_owned(),
        subject: "key".to_owned(),
        detail: String::new(),
        trace: None,
    };
    for action in ["key.made", "key.revoked"] {
        let entry = entry(action);
        fixture.store.write(move |tx| audit::append_audit_entry(tx, &entry)).await.expect("a write");
    }
    let later = audit::AuditEntry { at: at_minute(5), account: None, ..entry("backup") };
    let written = later.clone();
    fixture.store.write(move |tx| audit::append_audit_entry(tx, &written)).await.expect("a write");
    let of_account = AuditFilter { account: Some(account), limit: 10, ..AuditFilter::default() };
    let entries = |listed: Vec<(i64, audit::AuditEntry)>| {
        listed.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>()
    };
    let list = async |wanted: AuditFilter| {
        fixture.store.read(move |tx| audit::list_audit_entries(tx, &wanted)).await.expect("a read")
    };
    assert_eq!(entries(list(of_account).await), [entry("key.revoked"), entry("key.made")]);
    let all = list(AuditFilter { limit: 2, ..AuditFilter::default() }).await;
    let before = all.last().map(|(number, _)| *number);
    assert_eq!(entries(all), [later.clone(), entry("key.revoked")]);
    assert_eq!(
        entries(list(AuditFilter { before, limit: 2, ..AuditFilter::default() }).await),
        [entry("key.made")]
    );
    let recent = AuditFilter { since: Some(at_minute(5)), limit: 10, ..AuditFilter::default() };
    assert_eq!(entries(list(recent).await), std::slice::from_ref(&later));
    let sweep = async |limit| {
        fixture
            .store
            .write(move |tx| audit::trim_audit_log(tx, at_minute(5).micros(), limit))
            .await
            .expect("a write")
    };
    assert_eq!((sweep(1).await, sweep(10).await, sweep(10).await), (1, 1, 0), "only old entries, in chunks");
    assert_eq!(entries(list(AuditFilter { limit: 10, ..AuditFilter::default() }).await), [later]);
}
