//! Section 4.2: what a question may choose from, and its languages.

use conformance::api::id;
use conformance::{Expect, Options, Service, Vendor, caller, vendor};
use serde_json::{Value, json};

fn entries(value: &Value) -> Vec<Value> {
    let entries = value.as_array().expect("an array").clone();
    assert!(!entries.is_empty(), "no catalog is empty");
    entries
}

fn assert_texts(entry: &Value, fields: &[&str]) {
    for field in fields {
        assert!(entry[*field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {entry}");
    }
}

#[test]
fn models_are_complete_and_one_is_the_default() {
    let (_service, api) = caller();
    let models = entries(&api.catalog("models", None).expect_status(200).json());
    for model in &models {
        assert_texts(model, &["id", "label", "description", "provider", "status"]);
        assert!(["ANTHROPIC", "OPENAI", "GOOGLE"].iter().any(|known| model["provider"] == *known), "{model}");
        assert!(
            ["UP", "DEGRADED", "DOWN", "UNKNOWN"].iter().any(|known| model["status"] == *known),
            "{model}"
        );
        assert!(model["default"].is_boolean() && model["deprecated"].is_boolean(), "{model}");
        let settings = model["settings"].as_array().expect("settings");
        assert!(model["deprecated"] == false || settings.is_empty(), "{model}");
        for setting in settings {
            assert_texts(setting, &["key", "label", "defaultValue"]);
            let options = entries(&setting["options"]);
            assert!(options.iter().any(|option| option["value"] == setting["defaultValue"]), "{setting}");
        }
    }
    assert_eq!(models.iter().filter(|model| model["default"] == true).count(), 1);
}

#[test]
fn jurisdictions_are_listed_and_taken_by_questions() {
    let (_service, api) = caller();
    let jurisdictions = entries(&api.catalog("jurisdictions", None).expect_status(200).json());
    for jurisdiction in &jurisdictions {
        assert_texts(jurisdiction, &["id", "label"]);
    }
    let english = api.catalog("jurisdictions", Some("en")).expect_status(200).json();
    assert_ne!(english, Value::from(jurisdictions.clone()), "labels follow the language");
    let chosen = json!([jurisdictions[0]["id"]]);
    let answer = api.accepted(&json!({ "input": "Hello", "jurisdictions": chosen }));
    let chat = api.chat(&id(&answer, "chatId")).expect_status(200).json();
    assert_eq!(chat["chat"]["jurisdictions"], chosen);
    api.completed(&answer);
}

#[test]
fn labels_are_czech_unless_another_language_is_asked_for() {
    let (_service, api) = caller();
    let label = |language: Option<&str>| {
        let response = api.catalog("models", language).expect_status(200);
        let told = response.header("content-language").expect("the language is told").to_owned();
        let vary = response.header("vary").unwrap_or_default().to_lowercase();
        assert!(vary.contains("accept-language"), "{vary}");
        (told, response.json()[0]["description"].clone())
    };
    let (czech, english, slovak) = (label(Some("cs")), label(Some("en")), label(Some("sk")));
    assert_eq!((czech.0.as_str(), english.0.as_str(), slovak.0.as_str()), ("cs", "en", "sk"));
    assert!(
        czech.1 != english.1 && czech.1 != slovak.1 && english.1 != slovak.1,
        "each language has its text"
    );
    assert_eq!(label(None), czech);
    for (asked, wanted) in [
        ("de", &czech),
        ("de, fr;q=0.5", &czech),
        ("", &czech),
        (";;q=", &czech),
        ("en-GB", &english),
        ("EN", &english),
        ("sk-SK, en;q=0.8", &slovak),
        ("cs;q=0.1, en;q=0.9", &english),
        ("de, en;q=0.3, sk;q=0.7", &slovak),
        ("en;q=0, sk;q=0.1", &slovak),
    ] {
        assert_eq!(&label(Some(asked)), wanted, "{asked:?}");
    }
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
