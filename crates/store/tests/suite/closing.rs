//! The deletion of accounts: closing, and the removal of their data.

use domain::answer::AnswerEnding;
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

use crate::fixture::{START, StoreEngine, StoreFixture, done_answer};

on_every_engine!(
    closed_account_frees_its_email,
    closed_account_rows_go_ledger_stays,
    answers_end_before_their_keys_go,
    audit_log_forgets_closed_account_emails,
);

impl StoreFixture {
    async fn close_account(&self, account: AccountId, now: Timestamp) -> Result<usize, AccountError> {
        let job = JobId::from_random(self.next_bits());
        let closed = self.store.write(move |tx| accounts::close_account(tx, account, job, now)).await;
        closed.map(|answers| answers.len())
    }

    async fn remove_account_rows(&self, account: AccountId, limit: u32) -> AccountRemoval {
        self.store
            .write(move |tx| accounts::remove_account_rows(tx, account, limit))
            .await
            .expect("a removal")
    }

    async fn append_audit_note(
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
        self.store.write(move |tx| audit::append_audit_entry(tx, &entry)).await.expect("an entry");
    }
}

async fn closed_account_frees_its_email(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = NewAccount { email: "Ada@example.org".to_owned(), ..fixture.new_account(100) };
    let (id, user, made) = (new.account, new.user, new.clone());
    fixture.store.write(move |tx| accounts::create_account(tx, &made)).await.expect("it is made");
    fixture.create_key(id, None).await;
    let session = NewSession {
        id: SessionId::from_random(fixture.next_bits()),
        account: id,
        user,
        fingerprint: [3; 32],
        browser: "Firefox".to_owned(),
        expires_at: START.saturating_add(std::time::Duration::from_secs(60)),
        now: START,
    };
    fixture.store.write(move |tx| sessions::create_session(tx, &session)).await.expect("a session");
    let question = fixture.new_question(id);
    let asked = fixture.ask_question(question.clone()).await.expect("it is accepted");
    assert!(fixture.store.read(|tx| accounts::any_open(tx)).await.expect("a read"));
    assert!(!fixture.store.read(move |tx| accounts::is_closed(tx, id)).await.expect("a read"));

    assert_eq!(fixture.close_account(id, START).await.expect("it is closed"), 1, "its answer is to stop");

    assert!(fixture.store.read(move |tx| accounts::is_closed(tx, id)).await.expect("a read"));
    assert!(!fixture.store.read(|tx| accounts::any_open(tx)).await.expect("a read"));
    assert!(fixture.store.read(|tx| accounts::has_any_account(tx)).await.expect("a read"));
    assert!(matches!(fixture.close_account(id, START).await, Err(AccountError::NotFound)), "once");
    let (by_id, by_email, listed, machine, left) = fixture
        .store
        .read(move |tx| {
            Ok::<_, store::StoreError>((
                accounts::find_account(tx, id)?,
                accounts::by_email(tx, "ada@example.org")?,
                accounts::list_accounts(tx, None, 10)?,
                machines::find_machine(tx, id)?,
                keys::list_keys(tx, id)?,
            ))
        })
        .await
        .expect("reads");
    assert_eq!((by_id, by_email, listed.len(), machine, left.len()), (None, None, 0, None, 0));
    let again = fixture.store.write(move |tx| machines::remove_machine(tx, id)).await;
    assert!(again.is_ok(), "its machine is nobody's already");
    let open = sessions_open(&fixture).await;
    assert_eq!(open, 0);
    let refused = fixture.ask_question(fixture.new_question(id)).await;
    assert!(matches!(refused, Err(AskRefused::NotFound)), "{refused:?}");
    let refused = fixture.ask_question(fixture.follow_up(id, asked.conversation.id)).await;
    assert!(matches!(refused, Err(AskRefused::NotFound)), "{refused:?}");
    let posting = domain::id::PostingId::from_random(fixture.next_bits());
    let granted =
        fixture.store.write(move |tx| credits::grant_credits(tx, id, posting, Credits(1), START)).await;
    assert!(matches!(granted, Err(GrantError::NotFound)), "{granted:?}");
    let licensed = fixture.store.write(move |tx| accounts::set_licence(tx, id, Some(START))).await;
    assert!(matches!(licensed, Err(AccountError::NotFound)), "{licensed:?}");
    let claim = jobs::JobClaimOptions {
        node: crate::fixture::claiming_node(),
        now: START,
        lease: std::time::Duration::from_secs(9),
        limit: 9,
    };
    let claimed = fixture.store.write(move |tx| jobs::claim_jobs(tx, &claim)).await.expect("a claim");
    assert_eq!(claimed.iter().map(|job| job.job).collect::<Vec<_>>(), [Some(Job::RemoveAccount(id))]);
    let again = NewAccount { email: "ada@EXAMPLE.org".to_owned(), ..fixture.new_account(0) };
    fixture.store.write(move |tx| accounts::create_account(tx, &again)).await.expect("the email is free");
}

async fn sessions_open(fixture: &StoreFixture) -> i64 {
    fixture.query_count("SELECT count(*) FROM sessions").await
}

async fn closed_account_rows_go_ledger_stays(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let (account, other) = (fixture.create_account(100).await, fixture.create_account(100).await);
    for owner in [account, other] {
        for _ in 0..3 {
            fixture.create_key(owner, None).await;
            let mut question = fixture.new_question(owner);
            question.skills = vec![format!("a:{}", fixture.next_bits())];
            let asked = fixture.ask_question(question).await.expect("it is accepted");
            let claimed = fixture.claim_turns().await;
            assert_eq!(claimed[0].fence.answer, asked.answer);
            fixture.complete_answer(claimed[0].fence, done_answer(asked.answer)).await.expect("it ends");
        }
    }
    let open = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(open.expect("a write"), 0, "only of closed accounts");
    assert_eq!(
        fixture.remove_account_rows(account, 2).await,
        AccountRemoval::Done,
        "only of closed accounts"
    );
    let balance = fixture.read_balance(account).await;
    fixture.close_account(account, START).await.expect("it is closed");
    let deleted = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(deleted.expect("a write"), 3);
    let jobs = fixture.query_count("SELECT count(*) FROM jobs WHERE kind = 'remove_conversation'").await;
    assert_eq!(jobs, 3, "each has a job of its own");
    let mut pieces = 0;
    while fixture.remove_account_rows(account, 2).await == AccountRemoval::Continues {
        pieces += 1;
    }
    assert!((2..=4).contains(&pieces), "three skills, three keys and a user in twos: {pieces}");
    assert_eq!(fixture.remove_account_rows(account, 2).await, AccountRemoval::Done, "again");
    for (table, left) in [
        ("SELECT count(*) FROM users", 1),
        ("SELECT count(*) FROM keys", 3),
        ("SELECT count(*) FROM skill_uses", 3),
        ("SELECT count(*) FROM machines", 1),
        ("SELECT count(*) FROM accounts", 2),
    ] {
        assert_eq!(fixture.query_count(table).await, left, "{table}");
    }
    assert_eq!(fixture.read_balance(account).await, balance, "the postings still add up");
}

async fn answers_end_before_their_keys_go(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let account = fixture.create_account(100).await;
    let key = fixture.create_key(account, Some(50)).await;
    let mut question = fixture.new_question(account);
    question.through = store::questions::AskedThrough::Key(key);
    let asked = fixture.ask_question(question).await.expect("it is accepted");
    let fence = fixture.claim_turns().await[0].fence;
    assert_eq!(fixture.close_account(account, START).await.expect("it is closed"), 1);
    assert_eq!(fixture.remove_account_rows(account, 100).await, AccountRemoval::Answering);
    let deleted = fixture.store.write(move |tx| accounts::delete_conversations(tx, account, START)).await;
    assert_eq!(deleted.expect("a write"), 1);
    let stopped = domain::answer::Answer::from_log(asked.answer, &[], &[], Some(AnswerEnding::Stopped));
    fixture.complete_answer(fence, stopped).await.expect("what was reserved is released");
    assert_eq!(fixture.read_balance(account).await.reserved, Credits(0));
    assert_eq!(fixture.remove_account_rows(account, 100).await, AccountRemoval::Done);
    assert_eq!(fixture.query_count("SELECT count(*) FROM keys").await, 0);
}

async fn audit_log_forgets_closed_account_emails(engine: StoreEngine) {
    let fixture = StoreFixture::new(engine);
    let new = NewAccount { email: "new@example.org".to_owned(), ..fixture.new_account(0) };
    let (id, made) = (new.account, new.clone());
    fixture.store.write(move |tx| accounts::create_account(tx, &made)).await.expect("it is made");
    let other = fixture.create_account(0).await;
    let later = START.saturating_add(std::time::Duration::from_secs(10));
    // The owner was an operator, and had another email before.
    fixture.append_audit_note(Some(id), START, "boss@example.org", "create account", "old@example.org").await;
    fixture.append_audit_note(Some(id), START, "old@example.org", "create key", "key-1").await;
    fixture
        .append_audit_note(Some(other), START, "old@example.org", "set licence", "other@example.org")
        .await;
    fixture.append_audit_note(Some(id), START, "old@example.org", "change email", "old@example.org").await;
    fixture.append_audit_note(None, START, "new@example.org", "backup", "/backup").await;
    fixture.append_audit_note(Some(id), START, "boss@example.org", "set licence", "new@example.org").await;
    fixture.close_account(id, later).await.expect("it is closed");
    // Another user has the email now.
    fixture.append_audit_note(Some(other), later, "new@example.org", "create key", "key-2").await;
    let mut after = 0;
    let mut pieces = 1;
    while let Some(next) = fixture
        .store
        .write(move |tx| audit::erase_account_from_audit(tx, id, after, 2))
        .await
        .expect("a write")
    {
        after = next;
        pieces += 1;
    }
    assert_eq!(pieces, 4, "seven entries in twos");
    // Again, as after a crash.
    let again = fixture
        .store
        .write(move |tx| audit::erase_account_from_audit(tx, id, 0, 1000))
        .await
        .expect("a write");
    assert_eq!(again, None);
    let filter = AuditFilter { limit: 100, ..AuditFilter::default() };
    let listed = fixture.store.read(move |tx| audit::list_audit_entries(tx, &filter)).await.expect("a read");
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
