//! Section 4.2: what a question may choose from, and its languages.

use conformance::{Expect, Options, Say, Service, Vendor, poll, vendor};
use serde_json::{Value, json};

fn entries(value: &Value) -> Vec<Value> {
    let entries = value.as_array().expect("an array").clone();
    assert!(!entries.is_empty(), "no catalog is empty");
    entries
}

#[test]
fn models_of_a_server_are_discovered() {
    let server = Vendor::start();
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let found = poll::until("the server's model is listed", || {
        let models = entries(&api.catalog("models", None).expect_status(200).json());
        models.into_iter().find(|model| model["id"] == vendor::MODEL)
    });
    assert_eq!((&found["provider"], &found["default"]), (&Value::from("OPENAI"), &Value::from(true)));
    poll::until("its health is known", || {
        let models = entries(&api.catalog("models", None).json());
        models.into_iter().find(|model| model["id"] == vendor::MODEL && model["status"] == "UP")
    });
}

#[test]
fn jurisdictions_are_built_in_in_three_languages() {
    let service = Service::start(Options::default());
    let api = service.api(&service.account());
    let labels = |language: Option<&str>| -> Vec<(String, String)> {
        let listed = entries(&api.catalog("jurisdictions", language).expect_status(200).json());
        let text = |one: &Value, field: &str| one[field].as_str().expect("a text").to_owned();
        listed.iter().map(|one| (text(one, "id"), text(one, "label"))).collect()
    };
    let czech = labels(None);
    let ids: Vec<&str> = czech.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["CZ", "SK", "EU", "DE", "AT", "PL"]);
    for (language, germany) in [("cs", "Německo"), ("en", "Germany"), ("sk", "Nemecko")] {
        let told = labels(Some(language));
        assert!(told.contains(&("DE".to_owned(), germany.to_owned())), "{language}: {told:?}");
        assert!(told.iter().map(|(id, _)| id).eq(czech.iter().map(|(id, _)| id)), "{language}");
    }
}

#[test]
fn a_model_whose_calls_fail_is_shown_as_down_until_they_succeed() {
    let server = Vendor::start();
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let shows = |status: &str| {
        poll::until(status, || {
            let models = entries(&api.catalog("models", None).expect_status(200).json());
            models.into_iter().find(|model| model["id"] == vendor::MODEL && model["status"] == status)
        })
    };
    shows("UP");
    (0..4).for_each(|_| server.will([Say::Refuse(401)]));
    for _ in 0..4 {
        let failed = api.completed(&api.accepted(&json!({ "input": "Hello", "model": vendor::MODEL })));
        assert_eq!(failed["error"]["code"], "MODEL_REJECTED", "{failed}");
    }
    shows("DOWN");
    assert_eq!(api.completed(&api.ask("Again"))["text"], "Done.", "it can be asked all the same");
}
