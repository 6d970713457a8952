//! The deletion of accounts: closing, and the removal of what belonged to them.

use domain::answer::Ending;
use domain::credits::Credits;
use domain::id::{AccountId, JobId, SessionId};
use domain::job::Job;
use domain::time::Timestamp;
use store::accounts::{AccountError, AccountRemoval, NewAccount};
use store::audit::{AuditEntry, AuditFilter};
use store::credits::GrantError;
use store::questions::AskRefused;
use store::sessions::NewSession;
use store::{accounts, audit, credits, jobs, keys, machines, sessions};

use crate::fixture::{Engine, Fixture, START, done};

on_every_engine!(
    a_closed_account_is_gone_at_once_and_its_email_is_free,
    a_closed_account_is_removed_in_bounded_pieces_and_its_ledger_stays,
    answers_in_progress_end_before_their_keys_go,
    the_audit_log_forgets_every_email_of_a_deleted_account_and_no_other,
);

impl Fixture {
    async fn close(&self, account: AccountId, now: Timestamp) -> Result<usize, AccountError> {
        let job = JobId::from_random(self.bits());
        let closed = self.store.write(move |tx| accounts::close(tx, account, job, now)).await;
        closed.map(|answers| answers.len())
    }

    async fn remove(&self, account: AccountId, limit: u32) -> AccountRemoval {
        self.store.write(move |tx| accounts::remove(tx, account, limit)).await.expect("a removal")
    }

    async fn note(
        &self,
        account: Option<AccountId>,
        at: Timestamp,
        actor: &str,
        action: &str,
        subject: &str,
    ) {
        let [actor, action, subject] = [actor, action, subject].map(ToOwned::to_owned);
        let detail = "a laptop".to_owned();
        let entry = AuditEntry { at, account, actor, action, subject, detail, trace: None };
        self.store.write(move |tx| audit::append(tx, &entry)).await.expect("an entry");
    }
}

async fn a_closed_account_is_gone_at_once_and_its_email_is_free(engine: Engine) {
    let fixture = Fixture::new(engine);
    let new = NewAccount { email: "Ada@example.org".to_owned(), ..fixture.new_account(100) };
    let (id, user, made) = (new.account, new.user, new.clone());
    fixture.store.write(move |tx| accounts::create(tx, &made)).await.expect("it is made");
    fixture.key(id, None).await;
    let session = NewSession {
        id: SessionId::from_random(fixture.bits()),
        account: id,
        user,
        fingerprint: [3; 32],
        browser: "Firefox".to_owned(),
        expires_at: START.plus(std::time::Duration::from_secs(60)),
        now: START,
    };
    fixture.store.write(move |tx| sessions::create(tx, &session)).await.expect("a session");
    let question = fixture.question(id);
    let asked = fixture.ask(question.clone()).await.expect("it is accepted");
    assert!(fixture.store.read(|tx| accounts::any_open(tx)).await.expect("a read"));
    assert!(!fixture.store.read(move |tx| accounts::is_closed(tx, id)).await.expect("a read"));

    assert_eq!(fixture.close(id, START).await.expect("it is closed"), 1, "its answer is to stop");

    assert!(fixture.store.read(move |tx| accounts::is_closed(tx, id)).await.expect("a read"));
    assert!(!fixture.store.read(|tx| accounts::any_open(tx)).await.expect("a read"));
    assert!(fixture.store.read(|tx| accounts::any(tx)).await.expect("a read"));
    assert!(matches!(fixture.close(id, START).await, Err(AccountError::NotFound)), "once");
    let (by_id, by_email, listed, machine, left) = fixture
        .store
        .read(move |tx| {
            Ok::<_, store::StoreError>((
                accounts::get(tx, id)?,
                accounts::by_email(tx, "ada@example.org")?,
                accounts::list(tx, None, 10)?,
                machines::get(tx, id)?,
                keys::list(tx, id)?,
            ))
        })
        .await
        .expect("reads");
    assert_eq!((by_id, by_email, listed.len(), machine, left.len()), (None, None, 0, None, 0));
    let again = fixture.store.write(move |tx| machines::remove(tx, id)).await;
    assert!(again.is_ok(), "its machine is nobody's already");
    let open = sessions_open(&fixture).await;
    assert_eq!(open, 0);
    let refused = fixture.ask(fixture.question(id)).await;
    assert!(matches!(refused, Err(AskRefused::NotFound)), "{refused:?}");
    let refused = fixture.ask(fixture.follow_up(id, asked.conversation.id)).await;
    assert!(matches!(refused, Err(AskRefused::NotFound)), "{refused:?}");
    let posting = domain::id::PostingId::from_random(fixture.bits());
    let granted = fixture.store.write(move |tx| credits::grant(tx, id, posting, Credits(1), START)).await;
    assert!(matches!(granted, Err(GrantError::NotFound)), "{granted:?}");
    let licensed = fixture.store.write(move |tx| accounts::set_licence(tx, id, Some(START))).await;
    assert!(matches!(licensed, Err(AccountError::NotFound)), "{licensed:?}");
    let claim = jobs::ClaimOptions {
        node: crate::fixture::node(),
        now: START,
        lease: std::time::Duration::from_secs(9),
        limit: 9,
    };
    let claimed = fixture.store.write(move |tx| jobs::claim(tx, &claim)).await.expect("a claim");
    assert_eq!(claimed.iter().map(|job| job.job).collect::<Vec<_>>(), [Some(Job::RemoveAccount(id))]);
    let again = NewAccount { email: "ada@EXAMPLE.org".to_owned(), ..fixture.new_account(0) };
    fixture.store.write(move |tx| accounts::create(tx, &again)).await.expect("the email is free");
}

async fn sessions_open(fixture: &Fixture) -> i64 {
    fixture.count("SELECT count(*) FROM sessions").await
}

async fn a_closed_account_is_removed_in_bounded_pieces_and_its_ledger_stays(engine: Engine) {
    let fixture = Fixture::new(engine);
    let (account, other) = (fixture.account(100).await, fixture.account(100).await);
    for owner in [account, other] {
        for _ in 0..3 {
            fixture.key(owner, None).await;
            let mut question = fixture.question(owner);
            question.skills = vec![format!("a:{}", fixture.bits())];
            let asked = fixture.ask(question).await.expect("it is accepted");
            let claimed = fixture.claim().await;
            assert_eq!(claimed[0].fence.answer, asked.answer);
            fixture.complete(claimed[0].fence, done(asked.answer)).await.expect("it ends");
        }
    }
    let open = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(open.expect("a write"), 0, "only of closed accounts");
    assert_eq!(fixture.remove(account, 2).await, AccountRemoval::Done, "only of closed accounts");
    let balance = fixture.balance(account).await;
    fixture.close(account, START).await.expect("it is closed");
    let deleted = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(deleted.expect("a write"), 3);
    let jobs = fixture.count("SELECT count(*) FROM jobs WHERE kind = 'remove_conversation'").await;
    assert_eq!(jobs, 3, "each has a job of its own");
    let mut pieces = 0;
    while fixture.remove(account, 2).await == AccountRemoval::Continues {
        pieces += 1;
    }
    assert!((2..=4).contains(&pieces), "three skills, three keys and a user in twos: {pieces}");
    assert_eq!(fixture.remove(account, 2).await, AccountRemoval::Done, "again");
    for (table, left) in [
        ("SELECT count(*) FROM users", 1),
        ("SELECT count(*) FROM keys", 3),
        ("SELECT count(*) FROM skill_uses", 3),
        ("SELECT count(*) FROM machines", 1),
        ("SELECT count(*) FROM accounts", 2),
    ] {
        assert_eq!(fixture.count(table).await, left, "{table}");
    }
    assert_eq!(fixture.balance(account).await, balance, "the postings still add up");
}

async fn answers_in_progress_end_before_their_keys_go(engine: Engine) {
    let fixture = Fixture::new(engine);
    let account = fixture.account(100).await;
    let key = fixture.key(account, Some(50)).await;
    let mut question = fixture.question(account);
    question.through = store::questions::AskedThrough::Key(key);
    let asked = fixture.ask(question).await.expect("it is accepted");
    let fence = fixture.claim().await[0].fence;
    assert_eq!(fixture.close(account, START).await.expect("it is closed"), 1);
    assert_eq!(fixture.remove(account, 100).await, AccountRemoval::Answering);
    let deleted = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(deleted.expect("a write"), 1);
    let stopped = domain::answer::Answer::rebuild(asked.answer, &[], &[], Some(Ending::Stopped));
    fixture.complete(fence, stopped).await.expect("what was reserved is released");
    assert_eq!(fixture.balance(account).await.reserved, Credits(0));
    assert_eq!(fixture.remove(account, 100).await, AccountRemoval::Done);
    assert_eq!(fixture.count("SELECT count(*) FROM keys").await, 0);
}

async fn the_audit_log_forgets_every_email_of_a_deleted_account_and_no_other(engine: Engine) {
    let fixture = Fixture::new(engine);
    let new = NewAccount { email: "new@example.org".to_owned(), ..fixture.new_account(0) };
    let (id, made) = (new.account, new.clone());
    fixture.store.write(move |tx| accounts::create(tx, &made)).await.expect("it is made");
    let other = fixture.account(0).await;
    let later = START.plus(std::time::Duration::from_secs(10));
    // The owner was an operator, and had another email before.
    fixture.note(Some(id), START, "boss@example.org", "create account", "old@example.org").await;
    fixture.note(Some(id), START, "old@example.org", "create key", "key-1").await;
    fixture.note(Some(other), START, "old@example.org", "set licence", "other@example.org").await;
    fixture.note(Some(id), START, "old@example.org", "change email", "old@example.org").await;
    fixture.note(None, START, "new@example.org", "backup", "/backup").await;
    fixture.note(Some(id), START, "boss@example.org", "set licence", "new@example.org").await;
    fixture.close(id, later).await.expect("it is closed");
    // Somebody else has the email now.
    fixture.note(Some(other), later, "new@example.org", "create key", "key-2").await;
    let mut after = 0;
    let mut pieces = 1;
    while let Some(next) =
        fixture.store.write(move |tx| audit::erase(tx, id, after, 2)).await.expect("a write")
    {
        after = next;
        pieces += 1;
    }
    assert_eq!(pieces, 4, "seven entries in twos");
    // Again, as after a crash.
    let again = fixture.store.write(move |tx| audit::erase(tx, id, 0, 1000)).await.expect("a write");
    assert_eq!(again, None);
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    let listed = fixture.store.read(move |tx| audit::list(tx, &filter)).await.expect("a read");
    let shown: Vec<_> = listed
        .iter()
        .rev()
        .map(|(_, entry)| {
            (entry.actor.as_str(), entry.action.as_str(), entry.subject.as_str(), &*entry.detail)
        })
        .collect();
    let gone = format!("deleted:{id}");
    let gone = gone.as_str();
    assert_eq!(
        shown,
        [
            ("boss@example.org", "create account", gone, "a laptop"),
            (gone, "create key", "key-1", ""),
            (gone, "set licence", "other@example.org", "a laptop"),
            (gone, "change email", gone, "a laptop"),
            (gone, "backup", "/backup", "a laptop"),
            ("boss@example.org", "set licence", gone, "a laptop"),
            ("new@example.org", "create key", "key-2", "a laptop"),
        ]
    );
}
