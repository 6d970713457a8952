//! Models whose servers refuse something: they answer nevertheless, and the answer lists the omissions.

use e2e::fake_vendors::{FakeVendorFormat, FakeVendors};
use e2e::{Api, Expect, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

fn start_chat_completions() -> (FakeVendors, TestService, Api) {
    let fake_vendors = FakeVendors::start();
    let environment = fake_vendors.service_environment_for(FakeVendorFormat::ChatCompletions);
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let api = service.api_for(&service.create_account());
    poll::wait_until("the vendor's models are listed", || {
        let models = api.get_catalog("models", None).expect_status(200).json();
        models.as_array().expect("models").iter().any(|model| model["id"] == "no-tools").then_some(())
    });
    (fake_vendors, service, api)
}

#[test]
fn toolless_model_answers_without_files() {
    let (fake_vendors, service, api) = start_chat_completions();
    for requests in [2, 3] {
        let answer =
            api.wait_for_completion(&api.expect_accepted(&json!({ "model": "no-tools", "input": "Hello" })));
        let text = answer["text"].as_str().expect("a text");
        assert!(text.starts_with("The stand-in says a few words."), "{answer}");
        assert!(text.contains("This model cannot use files"), "{answer}");
        assert_eq!(answer["error"], Value::Null, "{answer}");
        assert_eq!(fake_vendors.all_requests().len(), requests, "it is remembered");
    }
    let report = service.run_admin_command(&["models"]);
    let models = report["models"].as_array().expect("models");
    let uses_tools = |id: &str| &models.iter().find(|model| model["id"] == id).expect("it")["usesTools"];
    assert_eq!((uses_tools("no-tools"), uses_tools("standin")), (&json!(false), &json!(true)));
}

#[test]
fn filtered_answer_keeps_text_with_error() {
    let (_fake_vendors, _service, api) = start_chat_completions();
    let answer =
        api.wait_for_completion(&api.expect_accepted(&json!({ "model": "filtered", "input": "Hello" })));
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("The stand-in says a few words.\n\nThe answer is not complete"), "{answer}");
    assert_eq!(answer["error"]["code"], "MODEL_REFUSED", "{answer}");
}
