//! Credits that run out during an answer, and the cost of deleted conversations.

use conformance::api::id;
use conformance::{Account, Api, Expect, NewAccount, Options, Say, Service, Vendor, poll};
use serde_json::{Value, json};

use crate::streams::shows;

/// Starts a service on which a step reserves and costs 21 credits: one for the answer, one for each of twenty
/// tokens.
pub(crate) fn expensive(vendor: &Vendor) -> Service {
    let mut environment = vendor.environment();
    for (name, value) in [
        ("CAUSERIE_PRICES_BASE", "1"),
        ("CAUSERIE_PRICES_THOUSAND_TOKENS_READ", "0"),
        ("CAUSERIE_PRICES_THOUSAND_TOKENS_WRITTEN", "1000"),
        ("CAUSERIE_MODELS_OUTPUT_MAX_TOKENS", "20"),
    ] {
        environment.push((name.to_owned(), value.to_owned()));
    }
    Service::start(Options { environment, ..Options::default() })
}

/// Asks a question whose second step cannot be paid for.
fn ends_for_want_of(code: &str, vendor: &Vendor, api: &Api) -> Value {
    let write = json!({ "path": "/note.txt", "content": "x" });
    let call = Say::Call { tool: "write".to_owned(), arguments: write };
    vendor.will([Say::text("I look."), Say::Hold, call]);
    let answer = api.ask("Go on");
    let mut events = api.events_of(&answer);
    shows(&mut events, "I look.");
    vendor.release();
    let last = events.rest().pop().expect("a completion");
    assert_eq!(last.name, "completed");
    let whole = api.completed(&answer);
    assert_eq!(last.data, whole, "streams and collected answers agree");
    let error = &whole["error"];
    assert_eq!(error["code"], code, "{whole}");
    let message = error["message"].as_str().expect("a sentence");
    assert_eq!(whole["text"], format!("I look.\n\n{message}"), "the text so far, and the reason for the end");
    let parts = whole["parts"].as_array().expect("parts");
    let last = parts.last().expect("a part");
    assert_eq!(last["type"], "TEXT");
    assert!(last["content"].as_str().is_some_and(|html| html.contains(message)), "{whole}");
    assert!(parts.iter().all(|part| part["state"] != "PENDING"), "{whole}");
    assert_eq!(api.download("/note.txt").expect_status(200).text(), "x", "the paid step was executed");
    assert_eq!(vendor.requests().len(), 1, "no step is begun that can't be paid for");
    whole
}

pub(crate) fn settled(service: &Service, account: &Account) -> i64 {
    let nothing_reserved = || Some(service.credits(account)).filter(|(_, reserved)| *reserved == 0);
    poll::until("nothing is reserved", nothing_reserved).0
}

#[test]
fn an_answer_under_way_ends_at_the_spending_limit_of_its_key() {
    let vendor = Vendor::start();
    let service = expensive(&vendor);
    let account = service.account();
    let make = ["key", "create", "--account", &account.email, "--name", "n", "--spending-limit", "30"];
    let made = service.admin(&make);
    let api = service.api(&account).with_key(made["key"].as_str().expect("a key"));
    let answer = ends_for_want_of("SPENDING_LIMIT", &vendor, &api);
    assert_eq!(settled(&service, &account), 10_000 - 21);
    let keys = service.admin(&["key", "list", "--account", &account.email]);
    let keys = keys["keys"].as_array().expect("keys");
    let spent = keys.iter().find(|key| key["keyId"] == made["keyId"]).expect("it is listed");
    assert_eq!(spent["spent"], 21);
    // A caller with more credits continues in the same conversation.
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send(&more).expect_code(409, "SPENDING_LIMIT");
    let other = service.api(&account);
    assert_eq!(other.completed(&other.accepted(&more))["text"], "Done.");
}

#[test]
fn an_answer_under_way_ends_with_the_balance() {
    let vendor = Vendor::start();
    let service = expensive(&vendor);
    let account = service.account_as(&NewAccount { credits: 30, ..NewAccount::default() });
    let api = service.api(&account);
    let answer = ends_for_want_of("INSUFFICIENT_CREDITS", &vendor, &api);
    assert_eq!(settled(&service, &account), 9);
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send(&more).expect_code(409, "INSUFFICIENT_CREDITS");
    service.admin(&["credits", "grant", "--account", &account.email, "50"]);
    assert_eq!(api.completed(&api.accepted(&more))["text"], "Done.");
}

#[test]
fn a_thousand_credits_carry_ten_plain_questions_at_once() {
    let vendor = Vendor::start();
    let service = Service::start(Options { environment: vendor.environment(), ..Options::default() });
    let account = service.account_as(&NewAccount { credits: 1000, ..NewAccount::default() });
    let api = service.api(&account);
    (0..10).for_each(|_| vendor.will([Say::Hold, Say::text("Done.")]));
    let answers: Vec<Value> = (0..10).map(|n| api.ask(&format!("Question {n}"))).collect();
    vendor.wait_held(10);
    (0..10).for_each(|_| vendor.release());
    for answer in &answers {
        assert_eq!(api.completed(answer)["text"], "Done.");
    }
    let cost = 1000 - settled(&service, &account);
    assert!((10..=200).contains(&cost), "1 to 20 each: {cost}");
}

#[test]
fn missing_usage_is_estimated_and_charged() {
    let vendor = Vendor::start();
    let service = expensive(&vendor);
    let account = service.account();
    let api = service.api(&account);
    vendor.will([Say::text("Some words that nobody counts."), Say::NoUsage]);
    assert!(api.completed(&api.ask("Hello"))["error"].is_null());
    let cost = 10_000 - settled(&service, &account);
    assert!((2..=21).contains(&cost), "no more than was held, and more than the base: {cost}");
}

#[test]
fn deleting_a_conversation_gives_back_what_was_held_and_nothing_that_was_spent() {
    let vendor = Vendor::start();
    let service = expensive(&vendor);
    let account = service.account();
    let api = service.api(&account);
    let done = api.completed(&api.ask("Hello"));
    assert_eq!(settled(&service, &account), 10_000 - 21);
    api.delete_chat(&id(&done, "chatId")).expect_status(204);
    vendor.will([Say::Hold, Say::text("never said")]);
    let held = api.ask("Go on");
    vendor.wait_held(1);
    assert_eq!(service.credits(&account), (10_000 - 42, 21));
    api.delete_chat(&id(&held, "chatId")).expect_status(204);
    assert_eq!(settled(&service, &account), 10_000 - 21);
}

#[test]
fn usage_is_told_by_day_and_model_with_and_without_a_service() {
    let vendor = Vendor::start();
    let mut service = expensive(&vendor);
    let account = service.account();
    let api = service.api(&account);
    let counted = api.completed(&api.ask("Hello"));
    vendor.will([Say::text("Some words that nobody counts."), Say::NoUsage]);
    api.completed(&api.ask("Hello"));
    let cost = 10_000 - settled(&service, &account);
    api.delete_chat(&id(&counted, "chatId")).expect_status(204);
    let usage = |service: &Service, since: &[&str]| {
        service.admin(&[&["usage", "--account", account.email.as_str()], since].concat())
    };
    let report = usage(&service, &[]);
    let total = &report["total"];
    assert_eq!((&total["steps"], &total["credits"]), (&json!(2), &json!(cost)), "{report}");
    let estimated = total["estimatedTokens"].as_u64().expect("a number");
    assert!(estimated > 0, "{report}");
    let read_and_written = total["inputTokens"].as_u64().zip(total["outputTokens"].as_u64());
    assert_eq!(read_and_written.map(|(read, written)| read + written), Some(120 + estimated), "{report}");
    assert_eq!((&report["complete"], &report["since"]), (&json!(true), &Value::Null));
    let models = report["models"].as_array().expect("models");
    assert_eq!(
        (models.len(), &models[0]["model"], &models[0]["credits"]),
        (1, &counted["model"], &json!(cost))
    );
    let days = report["days"].as_array().expect("days");
    let of_days: i64 = days.iter().map(|day| day["credits"].as_i64().expect("credits")).sum();
    assert_eq!(of_days, cost, "{report}");
    let today = counted["createdAt"].as_str().expect("a time")[..10].to_owned();
    assert_eq!(days.last().expect("a day")["day"], today.as_str());
    assert_eq!(usage(&service, &["--since", &today])["total"], report["total"]);
    let none = usage(&service, &["--since", "2999-01-01"]);
    assert_eq!((&none["total"]["credits"], &none["days"]), (&json!(0), &json!([])));
    assert_eq!(usage(&service, &["--since", "2026-11-21T10:00:00Z"])["since"], "2026-11-21T10:00:00.000Z");
    let other = service.account();
    assert_eq!(service.admin(&["usage", "--account", &other.email])["total"]["steps"], 0);
    service.terminate();
    assert_eq!(usage(&service, &[]), report);
}
