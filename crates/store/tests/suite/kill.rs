//! Kills the process: every acknowledged write survives.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use domain::credits::Credits;
use domain::id::{AccountId, ConversationId, MessageId, PostingId, UserId};
use store::accounts::NewAccount;
use store::questions::NewQuestion;
use store::{Store, StoreError, accounts, conversations, credits, questions};

use crate::fixture::{START, StoreEngine, StoreFixture};

/// The store's URL, set for the child process that asks until it is killed.
const ASKER: &str = "STORE_SUITE_ASKER";
/// The number of concurrent tasks in the child process.
const TASKS: u64 = 32;
/// The numbers of acknowledgements after which it is killed: in the first group, between groups, in the
/// middle of many.
const KILLED_AFTER: [usize; 10] = [1, 2, 33, 64, 100, 163, 250, 400, 555, 800];

#[test]
fn sqlite_acknowledged_questions_survive_a_kill() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    kill_again_and_again(
        "kill::sqlite_acknowledged_questions_survive_a_kill",
        &format!("sqlite:{}", folder.path().join("store.db").display()),
        &KILLED_AFTER,
    );
}

#[test]
fn postgres_acknowledged_questions_survive_a_kill() {
    let url = match env::var(ASKER) {
        Ok(url) => url,
        Err(_) => test_support::postgres::shared_server().new_database(),
    };
    kill_again_and_again("kill::postgres_acknowledged_questions_survive_a_kill", &url, &KILLED_AFTER[..6]);
}

fn kill_again_and_again(test: &str, url: &str, rounds: &[usize]) {
    if let Ok(url) = env::var(ASKER) {
        ask_until_killed(&url);
    }
    let mut acknowledged = Vec::new();
    for (round, &after) in rounds.iter().enumerate() {
        let before = acknowledged.len();
        let mut asker = spawn_asker(test, url, round);
        let lines = BufReader::new(asker.stdout.take().expect("its output is piped"));
        for line in lines.split(b'\n') {
            let line = String::from_utf8(line.expect("its output can be read")).expect("UTF-8");
            // Only complete lines of its output count.
            if let Some(both) = line.strip_prefix("ack ").and_then(|rest| rest.strip_suffix(" .")) {
                let (conversation, answer) = both.split_once(' ').expect("two identifiers");
                let conversation: ConversationId = conversation.parse().expect("an identifier");
                acknowledged.push((conversation, answer.parse::<MessageId>().expect("an identifier")));
            }
            if acknowledged.len() == before + after {
                asker.kill().expect("it runs");
            }
        }
        asker.wait().expect("it was killed");
        assert!(acknowledged.len() >= before + after, "it was killed while it asked");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(all_there(url, acknowledged));
}

fn spawn_asker(test: &str, url: &str, round: usize) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(ASKER, url)
        .env("STORE_SUITE_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

fn asker_account() -> AccountId {
    AccountId::from_random(1)
}

/// Runs the child process.
fn ask_until_killed(url: &str) -> ! {
    let round: u128 = env::var("STORE_SUITE_ROUND").expect("it is set").parse().expect("a number");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = Store::connect(url).expect("the store opens after a kill");
        if store.read(|tx| accounts::find_account(tx, asker_account())).await.expect("a read").is_none() {
            make_account(&store).await;
        }
        let fixture = Arc::new(StoreFixture::new(StoreEngine::Sqlite));
        for _ in 1..TASKS {
            tokio::spawn(ask_in_a_row(store.clone(), Arc::clone(&fixture), round));
        }
        ask_in_a_row(store, fixture, round).await
    })
}

async fn ask_in_a_row(store: Store, fixture: Arc<StoreFixture>, round: u128) -> ! {
    loop {
        ask_one(&store, fixture.new_question(asker_account()), round).await;
    }
}

async fn make_account(store: &Store) {
    let new = NewAccount {
        account: asker_account(),
        user: UserId::from_random(1),
        role: domain::account::AccountRole::Owner,
        email: "a@x".to_owned(),
        licence_until: None,
        grant: Credits(1_000_000_000),
        posting: PostingId::from_random(u128::MAX),
        machine: false,
        now: START,
    };
    store.write(move |tx| accounts::create_account(tx, &new)).await.expect("a new account");
}

/// Asks, with identifiers of this round, and acknowledges.
async fn ask_one(store: &Store, question: NewQuestion, round: u128) {
    let shift = |bits: u128| bits | (round + 1) << 96;
    let mut question = question;
    question.answer = MessageId::from_random(shift(question.answer.bits()));
    question.posting = PostingId::from_random(shift(question.posting.bits()));
    if let questions::QuestionTarget::New(new) = &mut question.target {
        new.id = ConversationId::from_random(shift(new.id.bits()));
    }
    let answer = question.answer;
    let asked = store.write(move |tx| questions::ask_question(tx, &question)).await.expect("it is accepted");
    let questions::AskResult::Accepted(accepted) = asked else { panic!("it was never asked before") };
    let line = format!("\nack {} {answer} .\n", accepted.conversation.id);
    std::io::stdout().write_all(line.as_bytes()).expect("the test listens");
}

async fn all_there(url: &str, acknowledged: Vec<(ConversationId, MessageId)>) {
    let store = Store::connect(url).expect("the store opens after a kill");
    let count = acknowledged.len() as u64;
    for (conversation, answer) in acknowledged {
        let found =
            store.read(move |tx| conversations::find_answer(tx, asker_account(), conversation, answer)).await;
        assert!(found.is_ok(), "{answer} was acknowledged and is lost");
    }
    let (balance, audited, page) = store
        .read(|tx| {
            let balance = credits::find_balance(tx, asker_account())?;
            let page = conversations::list_conversations(tx, asker_account(), 0, 1)?;
            Ok::<_, StoreError>((balance, credits::recomputed_balance(tx, asker_account())?, page))
        })
        .await
        .expect("a read");
    assert_eq!(balance, Some(audited));
    assert!(page.total >= count);
    assert_eq!(audited.reserved, Credits(10 * page.total), "each question is there with its reservation");
}
