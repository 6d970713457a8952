//! The same conversation through the format of each vendor, against a fake that rejects the same requests as
//! the vendor: calls without results, and reasoning that is not sent back.

use e2e::api::find_parts;
use e2e::fake_vendors::{FakeVendorFormat, FakeVendors};
use e2e::{Api, Expect, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

/// Starts a service whose models use this format.
fn start_with_format(format: FakeVendorFormat) -> (FakeVendors, TestService, Api) {
    let fake_vendors = FakeVendors::start();
    let environment = fake_vendors.service_environment_for(format);
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    poll::wait_until("the vendor's models are listed", || {
        let models = api.get_catalog("models", None).expect_status(200).json();
        models.as_array().expect("models").iter().any(|model| model["id"] == "standin").then_some(())
    });
    (fake_vendors, service, api)
}

fn script_question(script: &Value) -> Value {
    json!({ "model": "standin", "input": format!("STANDIN {script}") })
}

fn check_conversation(format: FakeVendorFormat, provider: &str, path: &str) {
    let (fake_vendors, _service, api) = start_with_format(format);
    let models = api.get_catalog("models", None).json();
    let found = models.as_array().expect("models").iter().find(|model| model["id"] == "standin").expect("it");
    assert_eq!((&found["provider"], &found["default"]), (&json!(provider), &json!(true)));
    let script = json!({ "steps": [
        { "actions": [{ "think": "Where is **it**?" }, "think_hidden", { "say": "I look." },
            { "call": { "tool": "list", "arguments": { "path": "/" } } }] },
        { "actions": [{ "tokens": { "count": 20, "every_ms": 5 } }, { "say": "Found." }] },
    ]});
    let asked = api.expect_accepted(&script_question(&script));
    let mut events = api.stream_answer(&asked);
    events.find_event("the first words of a step", |event| {
        let text = event.data["text"].as_str().unwrap_or("");
        text.contains("t0 ") && !text.contains("Found.")
    });
    let answer = api.wait_for_completion(&asked);
    assert!(answer["text"].as_str().is_some_and(|text| text.ends_with("Found.")), "{answer}");
    let kinds: Vec<_> =
        answer["parts"].as_array().expect("parts").iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["REASONING", "TEXT", "TOOL", "TEXT"], "{answer}");
    assert_eq!(find_parts(&answer, "TOOL")[0]["state"], "COMPLETE", "{answer}");
    let reasoning = find_parts(&answer, "REASONING")[0]["content"].to_string();
    assert!(reasoning.contains("<strong>it</strong>"), "{reasoning}");

    let mut next = script_question(&json!({ "steps": [{ "actions": [{ "say": "Gladly." }] }] }));
    next["chatId"] = answer["chatId"].clone();
    let second = api.wait_for_completion(&api.expect_accepted(&next));
    assert_eq!((&second["text"], &second["error"]), (&json!("Gladly."), &Value::Null), "{second}");
    let requests = fake_vendors.all_requests();
    let seen: Vec<_> = requests.iter().filter(|seen| seen["outcome"] != "refused 404").collect();
    assert!(seen.iter().all(|seen| seen["outcome"] == "done"), "{seen:?}");
    assert!(seen.iter().all(|seen| seen["path"].as_str().is_some_and(|at| at.starts_with(path))), "{seen:?}");
    // Encrypted reasoning is sent back with the results and in the next turn.
    let sealed = format != FakeVendorFormat::ChatCompletions;
    for seen in &seen[1..] {
        assert_eq!(seen["body"].to_string().contains("c2VhbA"), sealed, "{seen}");
    }
}

fn check_errors_and_stops(format: FakeVendorFormat) {
    let (fake_vendors, _service, api) = start_with_format(format);
    let refused = json!({ "steps": [{ "status": 400, "message": "the vendor's own words" }] });
    let answer = api.wait_for_completion(&api.expect_accepted(&script_question(&refused)));
    assert!(answer["error"]["code"].is_string(), "{answer}");
    assert!(!answer.to_string().contains("own words"), "nothing internal is shown: {answer}");
    let broken = json!({ "steps": [[
        { "actions": [{ "say": "Half" }, { "error": { "message": "Overloaded", "code": "overloaded_error" } }] },
        { "actions": [{ "say": "Whole." }] },
    ]]});
    let answer = api.wait_for_completion(&api.expect_accepted(&script_question(&broken)));
    assert_eq!(
        (&answer["text"], &answer["error"]),
        (&json!("Whole."), &Value::Null),
        "generated again: {answer}"
    );
    let endless = json!({ "steps": [{ "actions": [{ "say": "So far." }, "stall"] }] });
    let asked = api.expect_accepted(&script_question(&endless));
    api.stream_answer(&asked).find_event("the first words", |event| event.data["text"] == "So far.");
    api.stop_chat(asked["chatId"].as_str().expect("its conversation")).expect_status(202);
    let answer = api.wait_for_completion(&asked);
    assert_eq!((&answer["text"], &answer["error"]), (&json!("So far."), &Value::Null), "{answer}");
    poll::wait_until("the vendor is let go", || {
        (fake_vendors.all_requests().last().expect("a request")["outcome"] == "closed").then_some(())
    });
}

#[test]
fn a_conversation_goes_through_anthropics_format() {
    check_conversation(FakeVendorFormat::Anthropic, "ANTHROPIC", "/v1/messages");
}

#[test]
fn a_conversation_goes_through_chat_completions() {
    check_conversation(FakeVendorFormat::ChatCompletions, "OPENAI", "/v1/chat/completions");
}

#[test]
fn a_conversation_goes_through_openais_responses() {
    check_conversation(FakeVendorFormat::Responses, "OPENAI", "/v1/responses");
}

#[test]
fn a_conversation_goes_through_geminis_format() {
    check_conversation(
        FakeVendorFormat::Gemini,
        "GOOGLE",
        "/v1beta/models/standin:streamGenerateContent?alt=sse",
    );
}

#[test]
fn errors_and_stops_in_anthropic_format() {
    check_errors_and_stops(FakeVendorFormat::Anthropic);
}

#[test]
fn errors_and_stops_in_chat_completions() {
    check_errors_and_stops(FakeVendorFormat::ChatCompletions);
}

#[test]
fn errors_and_stops_in_responses_format() {
    check_errors_and_stops(FakeVendorFormat::Responses);
}

#[test]
fn errors_and_stops_in_gemini_format() {
    check_errors_and_stops(FakeVendorFormat::Gemini);
}

#[test]
fn first_vendor_model_is_default() {
    let fake_vendors = FakeVendors::start();
    let formats = [FakeVendorFormat::Anthropic, FakeVendorFormat::ChatCompletions, FakeVendorFormat::Gemini];
    let environment =
        formats.iter().flat_map(|format| fake_vendors.service_environment_for(*format)).collect();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    let models = poll::wait_until("all are listed", || {
        let models = api.get_catalog("models", None).expect_status(200).json();
        let models = models.as_array().expect("models").clone();
        models.iter().any(|model| model["provider"] == "GOOGLE").then_some(models)
    });
    for (id, provider) in
        [("standin", "ANTHROPIC"), ("openai/standin", "OPENAI"), ("google/standin", "GOOGLE")]
    {
        let of: Vec<_> = models.iter().filter(|model| model["id"] == id).collect();
        assert_eq!((of.len(), &of[0]["provider"]), (1, &json!(provider)), "{id}");
        assert_eq!(of[0]["default"], json!(provider == "ANTHROPIC"), "{id}");
        let answer = api.wait_for_completion(&api.expect_accepted(&json!({ "model": id, "input": "Hello" })));
        assert_eq!((&answer["error"], &answer["model"]), (&Value::Null, &json!(id)), "{answer}");
    }
    let paths: Vec<_> = fake_vendors.all_requests().iter().map(|seen| seen["path"].clone()).collect();
    let expected =
        ["/v1/messages", "/v1/chat/completions", "/v1beta/models/standin:streamGenerateContent?alt=sse"];
    assert_eq!(paths, expected);
}

#[test]
fn described_models_offered_and_requested() {
    let fake_vendors = FakeVendors::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("causerie.toml");
    let described = "models.only_configured = true\n\
        [[model]]\nid = \"thorough\"\nvendor = \"openai\"\nname = \"standin\"\ndefault = true\n\
        label = { cs = \"Důkladný\", en = \"Thorough\", sk = \"Dôkladný\" }\ndescription = \"It looks twice\"\n\
        price = { base = 7, thousand_tokens_read = 0, thousand_tokens_written = 0 }\n\
        options = { top_p = 0.25, metadata = { by = \"us\" } }\n\
        [[model]]\nid = \"secret\"\nvendor = \"openai\"\nname = \"reasoning\"\nhidden = true\n\
        [[model]]\nid = \"early\"\nvendor = \"openai\"\nname = \"reasoning\"\ndeprecated = true\n";
    std::fs::write(&file, described).expect("a file");
    let mut environment = fake_vendors.service_environment_for(FakeVendorFormat::ChatCompletions);
    environment.push(("CAUSERIE_CONFIG".to_owned(), file.display().to_string()));
    let mut service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let api = service.api_for(&account);
    let models = api.get_catalog("models", Some("sk")).expect_status(200).json();
    let models = models.as_array().expect("models");
    let ids: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
    assert_eq!(ids.len(), 2, "{models:?}");
    let of = |id: &str| models.iter().find(|model| model["id"] == id).expect("it is offered");
    assert_eq!((&of("thorough")["label"], &of("thorough")["default"]), (&json!("Dôkladný"), &json!(true)));
    assert_eq!(of("thorough")["description"], "It looks twice");
    assert_eq!((&of("early")["deprecated"], &of("early")["settings"]), (&json!(true), &json!([])));
    let refused =
        api.send_question(&json!({ "input": "Hello", "model": "secret" })).expect_status(400).json();
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("thorough")), "{refused}");
    let before = service.show_credits(&account);
    let answer = api.wait_for_completion(&api.ask_question("Hello"));
    assert_eq!((&answer["model"], &answer["error"]), (&json!("thorough"), &Value::Null), "{answer}");
    let seen = fake_vendors.all_requests();
    let seen = seen.iter().rev().find(|seen| !seen["body"]["messages"].is_null()).expect("it was asked");
    assert_eq!((&seen["body"]["model"], &seen["body"]["top_p"]), (&json!("standin"), &json!(0.25)), "{seen}");
    assert_eq!(seen["body"]["metadata"], json!({ "by": "us" }));
    let paid = || Some(service.show_credits(&account)).filter(|(_, reserved)| *reserved == 0);
    assert_eq!(before.0 - poll::wait_until("it is paid", paid).0, 7);
    // The operator gets the same list, with and without a running service.
    let report = service.run_admin_command(&["models"]);
    let mut shown: Vec<(Value, Value)> = Vec::new();
    for one in report["models"].as_array().expect("models") {
        shown.push((one["id"].clone(), one["status"].clone()));
    }
    assert_eq!(shown.len(), 2, "{report}");
    let thorough = &report["models"][usize::from(report["models"][0]["id"] != "thorough")];
    assert_eq!((&thorough["status"], &thorough["priceBase"]), (&json!("UP"), &json!(7.0)), "{report}");
    assert_eq!((&thorough["vendor"], &thorough["vendorName"]), (&json!("OPENAI"), &json!("standin")));
    assert!(thorough["contextTokens"].as_u64().is_some_and(|tokens| tokens > 1000), "{report}");
    service.terminate();
    let without = service.run_admin_command(&["models"]);
    assert_eq!((&without["models"], &without["failure"]), (&report["models"], &Value::Null));
    drop(fake_vendors);
    let away = service.run_admin_command(&["models"]);
    assert_eq!(away["models"][0]["status"], "DOWN", "{away}");
    assert!(away["failure"].as_str().is_some(), "{away}");
}
