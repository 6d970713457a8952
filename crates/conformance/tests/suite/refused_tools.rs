//! Models whose servers refuse something: they answer nevertheless, and the answer says what was left out.

use conformance::fake_vendors::{FakeVendors, Format};
use conformance::{Api, Expect, Options, Service, poll};
use serde_json::{Value, json};

fn stage() -> (FakeVendors, Service, Api) {
    let fake_vendors = FakeVendors::start();
    let environment = fake_vendors.environment_of(Format::ChatCompletions);
    let service = Service::start(Options { environment, ..Options::default() });
    let api = service.api(&service.account());
    poll::until("the vendor's models are listed", || {
        let models = api.catalog("models", None).expect_status(200).json();
        models.as_array().expect("models").iter().any(|model| model["id"] == "no-tools").then_some(())
    });
    (fake_vendors, service, api)
}

#[test]
fn model_without_tools_answers_and_says_that_it_cannot_use_files() {
    let (fake_vendors, service, api) = stage();
    for requests in [2, 3] {
        let answer = api.completed(&api.accepted(&json!({ "model": "no-tools", "input": "Hello" })));
        let text = answer["text"].as_str().expect("a text");
        assert!(text.starts_with("The stand-in says a few words."), "{answer}");
        assert!(text.contains("This model cannot use files"), "{answer}");
        assert_eq!(answer["error"], Value::Null, "{answer}");
        assert_eq!(fake_vendors.requests().len(), requests, "it is remembered");
    }
    let report = service.admin(&["models"]);
    let models = report["models"].as_array().expect("models");
    let uses_tools = |id: &str| &models.iter().find(|model| model["id"] == id).expect("it")["usesTools"];
    assert_eq!((uses_tools("no-tools"), uses_tools("standin")), (&json!(false), &json!(true)));
}

#[test]
fn answer_that_a_filter_cuts_keeps_its_text_with_the_error() {
    let (_fake_vendors, _service, api) = stage();
    let answer = api.completed(&api.accepted(&json!({ "model": "filtered", "input": "Hello" })));
    let text = answer["text"].as_str().expect("a text");
    assert!(text.starts_with("The stand-in says a few words.\n\nThe answer is not complete"), "{answer}");
    assert_eq!(answer["error"]["code"], "MODEL_REFUSED", "{answer}");
}
