//! Section 4.2: what a question may choose from, and its languages.

use conformance::{Expect, Options, Service, Vendor, vendor};
use serde_json::Value;

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
    let found = conformance::poll::until("the server's model is listed", || {
        let models = entries(&api.catalog("models", None).expect_status(200).json());
        models.into_iter().find(|model| model["id"] == vendor::MODEL)
    });
    assert_eq!((&found["provider"], &found["default"]), (&Value::from("OPENAI"), &Value::from(true)));
    conformance::poll::until("its health is known", || {
        let models = entries(&api.catalog("models", None).json());
        models.into_iter().find(|model| model["id"] == vendor::MODEL && model["status"] == "UP")
    });
}
