//! Section 4.2: the catalogs and their languages.

use serde_json::{Value, json};

use super::Case;
use crate::api::{Api, Expect, builtin_reader_id, id_field, is_uuid};

fn nonempty_entries(value: &Value) -> Vec<Value> {
    let entries = value.as_array().expect("an array").clone();
    assert!(!entries.is_empty(), "no catalog is empty");
    entries
}

fn assert_texts(entry: &Value, fields: &[&str]) {
    for field in fields {
        assert!(entry[*field].as_str().is_some_and(|text| !text.is_empty()), "{field} in {entry}");
    }
}

pub(super) const CASES: &[Case] = cases![
    Key:
    models_are_complete_and_one_is_the_default,
    labels_are_czech_unless_another_language_is_asked_for,
    skills_and_agents_that_no_catalog_has_are_refused;
    Answers:
    jurisdictions_are_listed_and_taken_by_questions,
    skills_and_agents_are_listed_and_taken_by_questions,
];

fn models_are_complete_and_one_is_the_default(api: &Api) {
    let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
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
            let options = nonempty_entries(&setting["options"]);
            assert!(options.iter().any(|option| option["value"] == setting["defaultValue"]), "{setting}");
        }
    }
    assert_eq!(models.iter().filter(|model| model["default"] == true).count(), 1);
}

fn jurisdictions_are_listed_and_taken_by_questions(api: &Api) {
    let jurisdictions = nonempty_entries(&api.get_catalog("jurisdictions", None).expect_status(200).json());
    for jurisdiction in &jurisdictions {
        assert_texts(jurisdiction, &["id", "label"]);
    }
    let english = api.get_catalog("jurisdictions", Some("en")).expect_status(200).json();
    assert_ne!(english, Value::from(jurisdictions.clone()), "labels follow the language");
    let chosen = json!([jurisdictions[0]["id"]]);
    let answer = api.expect_accepted(&json!({ "input": "Hello", "jurisdictions": chosen }));
    let chat = api.get_chat(&id_field(&answer, "chatId")).expect_status(200).json();
    assert_eq!(chat["chat"]["jurisdictions"], chosen);
    api.wait_for_completion(&answer);
}

fn skills_and_agents_are_listed_and_taken_by_questions(api: &Api) {
    let skills = nonempty_entries(&api.get_catalog("skills", None).expect_status(200).json());
    let agents = nonempty_entries(&api.get_catalog("agents", None).expect_status(200).json());
    for entry in skills.iter().chain(&agents) {
        assert_texts(entry, &["name", "fullName", "description"]);
        assert!(is_uuid(&entry["id"]), "{entry}");
        let last = entry["fullName"].as_str().and_then(|name| name.split_once(':')).map(|(_, last)| last);
        assert_eq!(last, entry["name"].as_str(), "{entry}");
    }
    for word in ["id", "fullName"] {
        let (skill, agent) = (&skills[skills.len() - 1][word], &agents[0][word]);
        let question = json!({ "input": "Hello", "model": builtin_reader_id(api), "skillIds": [skill], "agentId": agent });
        api.wait_for_completion(&api.expect_accepted(&question));
    }
}

fn skills_and_agents_that_no_catalog_has_are_refused(api: &Api) {
    let nobody = "00000000-0000-4000-8000-000000000000";
    for word in ["none", nobody, "none:none", ""] {
        api.send_question(&json!({ "input": "x", "skillIds": [word] })).expect_code(400, "UNKNOWN_SKILL");
        api.send_question(&json!({ "input": "x", "agentId": word })).expect_code(400, "UNKNOWN_AGENT");
    }
    assert_eq!(api.list_chats("").expect_status(200).json()["totalCount"], 0, "no question was accepted");
}

fn labels_are_czech_unless_another_language_is_asked_for(api: &Api) {
    let label = |language: Option<&str>| {
        let response = api.get_catalog("models", language).expect_status(200);
        let language =
            response.header("content-language").expect("the response names its language").to_owned();
        let vary = response.header("vary").unwrap_or_default().to_lowercase();
        assert!(vary.contains("accept-language"), "{vary}");
        (language, response.json()[0]["description"].clone())
    };
    let (czech, english, slovak) = (label(Some("cs")), label(Some("en")), label(Some("sk")));
    assert_eq!((czech.0.as_str(), english.0.as_str(), slovak.0.as_str()), ("cs", "en", "sk"));
    assert!(
        czech.1 != english.1 && czech.1 != slovak.1 && english.1 != slovak.1,
        "each language has its text"
    );
    assert_eq!(label(None), czech);
    let lines = ["de, cs;q=0.5", "sk;q=0.8"].iter();
    let request = api.new_request("GET", "/api/v1/models");
    let request = lines.fold(request, |request, line| request.with_header("accept-language", line));
    let divided = request.send(&api.address).expect_status(200);
    assert_eq!(divided.header("content-language"), Some("sk"), "several lines are one list");
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
