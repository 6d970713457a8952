//! Section 4.2: the catalogs and their languages.

use conformance::{Expect, Options, Request, Say, Service, Vendor, poll, vendor};
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
        let items = labels(Some(language));
        assert!(items.contains(&("DE".to_owned(), germany.to_owned())), "{language}: {items:?}");
        assert!(items.iter().map(|(id, _)| id).eq(czech.iter().map(|(id, _)| id)), "{language}");
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
        assert_eq!(failed["error"]["code"], "MODEL_KEY_REFUSED", "{failed}");
    }
    shows("DOWN");
    assert_eq!(api.completed(&api.ask("Again"))["text"], "Done.", "it can be asked all the same");
}

#[test]
fn a_vendor_that_refuses_calls_for_key_or_money_is_told_of_until_one_succeeds() {
    let server = Vendor::start();
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let figure = |name: &str| crate::metrics::metrics(&api).get(name).copied();
    let (up, base) = ("causerie_vendor_up{vendor=\"OPENAI\"}", server.base_url());
    poll::until("its models are listed", || (figure(up) == Some(1.0)).then_some(()));
    for (status, code, trouble) in [(401, "MODEL_KEY_REFUSED", "key"), (402, "MODEL_UNPAID", "payment")] {
        server.will([Say::Refuse(status)]);
        let failed = api.completed(&api.accepted(&json!({ "input": "Hello", "model": vendor::MODEL })));
        assert_eq!(failed["error"]["code"], code, "{failed}");
        let sentence = failed["error"]["message"].as_str().unwrap_or_default();
        assert!(sentence.contains("The question is not the cause"), "{sentence}");
        assert_eq!(figure(up), Some(0.0));
        let counted = format!("causerie_vendor_failures_total{{vendor=\"OPENAI\",cause=\"{trouble}\"}}");
        assert_eq!(figure(&counted), Some(1.0));
        assert_eq!(figure(&format!("causerie_answers_failed_total{{code=\"{code}\"}}")), Some(1.0));
        for shown in [service.admin(&["status"]), service.admin(&["models"])] {
            let vendor = &shown["vendors"][0];
            assert_eq!((&vendor["status"], &vendor["trouble"]), (&json!("DOWN"), &json!(trouble)), "{shown}");
            assert!(vendor["cause"].as_str().is_some_and(|cause| cause.contains(&status.to_string())));
        }
        let output = service.try_admin(&["doctor"]);
        let doctor: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let checks = doctor["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == "vendor_openai").expect("the vendor");
        assert!(check["status"] == "fail" && check.to_string().contains(&base), "{check}");
    }
    let ready = Request::new("GET", "/readyz?verbose").send(service.address()).expect_status(200).json();
    let checks = ready["checks"].as_array().expect("checks");
    let vendor = checks.iter().find(|check| check["name"] == "vendor_openai");
    assert_eq!(vendor.map(|check| &check["status"]), Some(&json!("warn")), "{ready}");
    assert_eq!(api.completed(&api.ask("Again"))["text"], "Done.", "it is asked all the same");
    assert_eq!(figure(up), Some(1.0));
    assert_eq!(service.admin(&["status"])["vendors"][0]["trouble"], Value::Null);
}

#[test]
fn a_vendor_with_a_wrong_key_is_told_of_and_nothing_answers_in_its_place_until_it_is_mended() {
    let server = Vendor::start();
    server.lists(Some((401, json!({ "error": { "message": "Incorrect API key provided: sk-stand-in" } }))));
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let (base, cause) = (server.base_url(), "the key is refused (401: Incorrect API key provided: [secret])");
    let log = service.log();
    let is_logged =
        |line: &&str| line.contains("OPENAI") && line.contains(&base) && line.contains("the key is refused");
    assert!(log.lines().any(|line| is_logged(&line)), "{log}");
    assert!(!log.contains("sk-stand-in"), "{log}");
    let shown = service.admin(&["models"]);
    let vendor = &shown["vendors"][0];
    assert_eq!((&vendor["vendor"], &vendor["baseUrl"]), (&json!("OPENAI"), &json!(base)), "{shown}");
    assert_eq!((&vendor["status"], &vendor["cause"]), (&json!("DOWN"), &json!(cause)), "{shown}");
    let models = entries(&api.catalog("models", None).expect_status(200).json());
    assert!(models.iter().all(|model| model["default"] == false), "{models:?}");
    let refused = api.send(&json!({ "input": "Hello" }));
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    refused.expect_code(409, "MODEL_UNAVAILABLE");
    assert!(message.contains("OPENAI") && !message.contains(&base), "{message}");
    api.send(&json!({ "input": "Hello", "model": vendor::MODEL })).expect_code(409, "MODEL_UNAVAILABLE");
    let read =
        api.completed(&api.accepted(&json!({ "input": "Hello", "model": conformance::api::reader(&api) })));
    assert_eq!(read["error"], Value::Null, "it answers when it is chosen explicitly: {read}");
    let figures = crate::metrics::metrics(&api);
    assert_eq!(figures.get("causerie_vendor_up{vendor=\"OPENAI\"}"), Some(&0.0));
    let failures = "causerie_vendor_failures_total{vendor=\"OPENAI\",cause=\"key\"}";
    assert!(figures.get(failures).is_some_and(|count| *count >= 1.0), "{figures:?}");
    // The operator fixes the key at the vendor while the service runs.
    server.lists(None);
    poll::until("its model is found", || {
        let models = entries(&api.catalog("models", None).json());
        models.into_iter().find(|model| model["id"] == vendor::MODEL && model["default"] == true)
    });
    assert_eq!(api.completed(&api.ask("Again"))["text"], "Done.");
    assert_eq!(crate::metrics::metrics(&api).get("causerie_vendor_up{vendor=\"OPENAI\"}"), Some(&1.0));
    assert_eq!(service.admin(&["models"])["vendors"][0]["cause"], Value::Null);
}

#[test]
fn the_models_of_a_vendor_that_is_away_are_down_and_what_fails_names_it() {
    let dead = test_support::port::ReservedPort::reserve();
    let base = format!("http://{}", dead.address());
    for (variables, provider) in [
        (["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"], "ANTHROPIC"),
        (["GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"], "GOOGLE"),
    ] {
        let environment = vec![
            (variables[0].to_owned(), base.clone()),
            (variables[1].to_owned(), "sk-stand-in".to_owned()),
        ];
        let service = Service::start(Options { environment, ..Options::default() });
        let api = service.api(&service.account());
        let log = service.log();
        let is_logged = |line: &str| {
            line.contains(provider) && line.contains(&base) && line.contains("the connection was refused")
        };
        assert!(log.lines().any(is_logged), "{log}");
        let models = entries(&api.catalog("models", None).expect_status(200).json());
        let default = models.iter().find(|model| model["default"] == true).expect("a default");
        assert_eq!(
            (&default["provider"], &default["status"]),
            (&json!(provider), &json!("DOWN")),
            "{models:?}"
        );
        assert_eq!(default.get("builtin"), None, "{default}");
        let failed = api.completed(&api.ask("Hello"));
        assert_eq!(failed["error"]["code"], "MODEL_UNAVAILABLE", "{failed}");
        assert!(
            failed["error"]["message"].as_str().is_some_and(|message| message.contains(provider)),
            "{failed}"
        );
    }
}

#[test]
fn a_conversation_whose_model_is_gone_says_so_and_what_to_do() {
    let server = Vendor::start();
    let mut service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let first = api.completed(&api.accepted(&json!({ "input": "Hello", "model": vendor::MODEL })));
    service.kill();
    server.lists(Some((
        200,
        json!({ "object": "list", "data": [{ "id": "another-model", "object": "model" }] }),
    )));
    service.restart();
    let refused = api.send(&json!({ "input": "Go on", "chatId": first["chatId"] }));
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    refused.expect_code(409, "MODEL_UNAVAILABLE");
    assert!(message.contains(vendor::MODEL) && message.contains("begin a new conversation"), "{message}");
}

#[test]
fn a_model_that_is_refused_names_its_vendor() {
    let server = Vendor::start();
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    server.will([Say::Refuse(401)]);
    let failed = api.completed(&api.ask("Hello"));
    assert_eq!(failed["error"]["code"], "MODEL_KEY_REFUSED", "{failed}");
    assert!(
        failed["error"]["message"].as_str().is_some_and(|message| message.contains("OPENAI")),
        "{failed}"
    );
}

#[test]
fn one_odd_entry_of_a_vendors_list_drops_no_other() {
    let server = Vendor::start();
    let odd = json!([null, {}, { "id": 7 }, { "id": "both", "context_length": 9000, "max_model_len": 4000 },
        { "id": vendor::MODEL, "created": "yesterday", "context_length": null }, { "id": vendor::MODEL }]);
    server.lists(Some((200, json!({ "data": odd }))));
    let service = Service::start(Options { environment: server.environment(), ..Options::default() });
    let api = service.api(&service.account());
    let models = entries(&api.catalog("models", None).expect_status(200).json());
    let ids: Vec<&Value> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(
        ids,
        [&json!("both"), &json!(vendor::MODEL), &json!(conformance::api::reader(&api))],
        "{models:?}"
    );
    let log = service.log();
    assert!(log.lines().any(|line| line.contains("OPENAI") && line.contains("left out")), "{log}");
}
