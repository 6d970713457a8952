//! Credits that run out during an answer, and the cost of deleted conversations.

use e2e::api::id_field;
use e2e::{
    Api, Expect, Say, ScriptedVendor, ServiceOptions, TestAccount, TestAccountOptions, TestService, poll,
};
use serde_json::{Value, json};

use crate::streams::find_shown_text;

/// Starts a service on which a step reserves and costs 21 credits: one for the answer, one for each of twenty
/// tokens.
pub(crate) fn start_expensive_service(vendor: &ScriptedVendor) -> TestService {
    let mut environment = vendor.service_environment();
    for (name, value) in [
        ("CAUSERIE_PRICES_BASE", "1"),
        ("CAUSERIE_PRICES_THOUSAND_TOKENS_READ", "0"),
        ("CAUSERIE_PRICES_THOUSAND_TOKENS_WRITTEN", "1000"),
        ("CAUSERIE_MODELS_OUTPUT_MAX_TOKENS", "20"),
    ] {
        environment.push((name.to_owned(), value.to_owned()));
    }
    TestService::start(ServiceOptions { environment, ..ServiceOptions::default() })
}

/// Asks a question whose second step cannot be paid for.
fn ask_unpaid_second_step(code: &str, vendor: &ScriptedVendor, api: &Api) -> Value {
    let write = json!({ "path": "/note.txt", "content": "x" });
    let call = Say::Call { tool: "write".to_owned(), arguments: write };
    vendor.add_script([Say::from_text("I look."), Say::Hold, call]);
    let answer = api.ask_question("Go on");
    let mut events = api.stream_answer(&answer);
    find_shown_text(&mut events, "I look.");
    vendor.release_hold();
    let last = events.remaining_events().pop().expect("a completion");
    assert_eq!(last.name, "completed");
    let whole = api.wait_for_completion(&answer);
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
    assert_eq!(api.download_file("/note.txt").expect_status(200).text(), "x", "the paid step was executed");
    assert_eq!(vendor.request_bodies().len(), 1, "no unaffordable step is started");
    whole
}

pub(crate) fn wait_until_settled(service: &TestService, account: &TestAccount) -> i64 {
    let nothing_reserved = || Some(service.show_credits(account)).filter(|(_, reserved)| *reserved == 0);
    poll::wait_until("nothing is reserved", nothing_reserved).0
}

#[test]
fn answer_ends_at_key_spending_limit() {
    let vendor = ScriptedVendor::start();
    let service = start_expensive_service(&vendor);
    let account = service.create_account();
    let make = ["key", "create", "--account", &account.email, "--name", "n", "--spending-limit", "30"];
    let made = service.run_admin_command(&make);
    let api = service.api_for(&account).with_key(made["key"].as_str().expect("a key"));
    let answer = ask_unpaid_second_step("SPENDING_LIMIT", &vendor, &api);
    assert_eq!(wait_until_settled(&service, &account), 10_000 - 21);
    let keys = service.run_admin_command(&["key", "list", "--account", &account.email]);
    let keys = keys["keys"].as_array().expect("keys");
    let spent = keys.iter().find(|key| key["keyId"] == made["keyId"]).expect("it is listed");
    assert_eq!(spent["spent"], 21);
    // A caller with more credits continues in the same conversation.
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send_question(&more).expect_code(409, "SPENDING_LIMIT");
    let other = service.api_for(&account);
    assert_eq!(other.wait_for_completion(&other.expect_accepted(&more))["text"], "Done.");
}

#[test]
fn answer_ends_with_empty_balance() {
    let vendor = ScriptedVendor::start();
    let service = start_expensive_service(&vendor);
    let account =
        service.create_account_with(&TestAccountOptions { credits: 30, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    let answer = ask_unpaid_second_step("INSUFFICIENT_CREDITS", &vendor, &api);
    assert_eq!(wait_until_settled(&service, &account), 9);
    let more = json!({ "input": "More", "chatId": answer["chatId"] });
    api.send_question(&more).expect_code(409, "INSUFFICIENT_CREDITS");
    service.run_admin_command(&["credits", "grant", "--account", &account.email, "50"]);
    assert_eq!(api.wait_for_completion(&api.expect_accepted(&more))["text"], "Done.");
}

#[test]
fn thousand_credits_carry_ten_questions() {
    let vendor = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let account =
        service.create_account_with(&TestAccountOptions { credits: 1000, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    (0..10).for_each(|_| vendor.add_script([Say::Hold, Say::from_text("Done.")]));
    let answers: Vec<Value> = (0..10).map(|n| api.ask_question(&format!("Question {n}"))).collect();
    vendor.wait_for_holds(10);
    (0..10).for_each(|_| vendor.release_hold());
    for answer in &answers {
        assert_eq!(api.wait_for_completion(answer)["text"], "Done.");
    }
    let cost = 1000 - wait_until_settled(&service, &account);
    assert!((10..=200).contains(&cost), "1 to 20 each: {cost}");
}

#[test]
fn missing_usage_is_estimated_and_charged() {
    let vendor = ScriptedVendor::start();
    let service = start_expensive_service(&vendor);
    let account = service.create_account();
    let api = service.api_for(&account);
    vendor.add_script([Say::from_text("Some words that nobody counts."), Say::NoUsage]);
    assert!(api.wait_for_completion(&api.ask_question("Hello"))["error"].is_null());
    let cost = 10_000 - wait_until_settled(&service, &account);
    assert!((2..=21).contains(&cost), "no more than was held, and more than the base: {cost}");
}

#[test]
fn deleted_conversation_releases_reserved_credits() {
    let vendor = ScriptedVendor::start();
    let service = start_expensive_service(&vendor);
    let account = service.create_account();
    let api = service.api_for(&account);
    let done = api.wait_for_completion(&api.ask_question("Hello"));
    assert_eq!(wait_until_settled(&service, &account), 10_000 - 21);
    api.delete_chat(&id_field(&done, "chatId")).expect_status(204);
    vendor.add_script([Say::Hold, Say::from_text("never said")]);
    let held = api.ask_question("Go on");
    vendor.wait_for_holds(1);
    assert_eq!(service.show_credits(&account), (10_000 - 42, 21));
    api.delete_chat(&id_field(&held, "chatId")).expect_status(204);
    assert_eq!(wait_until_settled(&service, &account), 10_000 - 21);
}

#[test]
fn usage_grouped_by_day_and_model() {
    let vendor = ScriptedVendor::start();
    let mut service = start_expensive_service(&vendor);
    let account = service.create_account();
    let api = service.api_for(&account);
    let counted = api.wait_for_completion(&api.ask_question("Hello"));
    vendor.add_script([Say::from_text("Some words that nobody counts."), Say::NoUsage]);
    api.wait_for_completion(&api.ask_question("Hello"));
    let cost = 10_000 - wait_until_settled(&service, &account);
    api.delete_chat(&id_field(&counted, "chatId")).expect_status(204);
    let usage = |service: &TestService, since: &[&str]| {
        service.run_admin_command(&[&["usage", "--account", account.email.as_str()], since].concat())
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
    let other = service.create_account();
    assert_eq!(service.run_admin_command(&["usage", "--account", &other.email])["total"]["steps"], 0);
    service.terminate();
    assert_eq!(usage(&service, &[]), report);
}
