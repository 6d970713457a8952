//! Section 4.2: the catalogs and their languages.

use e2e::{Expect, HttpRequest, Say, ScriptedVendor, ServiceOptions, TestService, poll, scripted_vendor};
use serde_json::{Value, json};

fn nonempty_entries(value: &Value) -> Vec<Value> {
    let entries = value.as_array().expect("an array").clone();
    assert!(!entries.is_empty(), "no catalog is empty");
    entries
}

#[test]
fn models_of_a_server_are_discovered() {
    let server = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let found = poll::wait_until("the server's model is listed", || {
        let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
        models.into_iter().find(|model| model["id"] == scripted_vendor::MODEL)
    });
    assert_eq!((&found["provider"], &found["default"]), (&Value::from("OPENAI"), &Value::from(true)));
    poll::wait_until("its health is known", || {
        let models = nonempty_entries(&api.get_catalog("models", None).json());
        models.into_iter().find(|model| model["id"] == scripted_vendor::MODEL && model["status"] == "UP")
    });
}

#[test]
fn jurisdictions_have_three_languages() {
    let service = TestService::start(ServiceOptions::default());
    let api = service.api_for(&service.create_account());
    let labels = |language: Option<&str>| -> Vec<(String, String)> {
        let listed = nonempty_entries(&api.get_catalog("jurisdictions", language).expect_status(200).json());
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
fn failing_model_is_down_until_success() {
    let server = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let shows = |status: &str| {
        poll::wait_until(status, || {
            let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
            models
                .into_iter()
                .find(|model| model["id"] == scripted_vendor::MODEL && model["status"] == status)
        })
    };
    shows("UP");
    (0..4).for_each(|_| server.add_script([Say::Refuse(401)]));
    for _ in 0..4 {
        let failed = api.wait_for_completion(
            &api.expect_accepted(&json!({ "input": "Hello", "model": scripted_vendor::MODEL })),
        );
        assert_eq!(failed["error"]["code"], "MODEL_KEY_REFUSED", "{failed}");
    }
    shows("DOWN");
    assert_eq!(api.wait_for_completion(&api.ask_question("Again"))["text"], "Done.", "it can still be asked");
}

#[test]
fn refused_vendor_reported_until_success() {
    let server = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let figure = |name: &str| crate::metrics::read_metrics(&api).get(name).copied();
    let (up, base) = ("causerie_vendor_up{vendor=\"OPENAI\"}", server.base_url());
    poll::wait_until("its models are listed", || (figure(up) == Some(1.0)).then_some(()));
    for (status, code, trouble) in [(401, "MODEL_KEY_REFUSED", "key"), (402, "MODEL_UNPAID", "payment")] {
        server.add_script([Say::Refuse(status)]);
        let failed = api.wait_for_completion(
            &api.expect_accepted(&json!({ "input": "Hello", "model": scripted_vendor::MODEL })),
        );
        assert_eq!(failed["error"]["code"], code, "{failed}");
        let sentence = failed["error"]["message"].as_str().unwrap_or_default();
        assert!(sentence.contains("The question is not the cause"), "{sentence}");
        assert_eq!(figure(up), Some(0.0));
        let counted = format!("causerie_vendor_failures_total{{vendor=\"OPENAI\",cause=\"{trouble}\"}}");
        assert_eq!(figure(&counted), Some(1.0));
        assert_eq!(figure(&format!("causerie_answers_failed_total{{code=\"{code}\"}}")), Some(1.0));
        for shown in [service.run_admin_command(&["status"]), service.run_admin_command(&["models"])] {
            let vendor = &shown["vendors"][0];
            assert_eq!((&vendor["status"], &vendor["trouble"]), (&json!("DOWN"), &json!(trouble)), "{shown}");
            assert!(vendor["cause"].as_str().is_some_and(|cause| cause.contains(&status.to_string())));
        }
        let output = service.try_admin_command(&["doctor"]);
        let doctor: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        let checks = doctor["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == "vendor_openai").expect("the vendor");
        assert!(check["status"] == "fail" && check.to_string().contains(&base), "{check}");
    }
    let ready = HttpRequest::new("GET", "/readyz?verbose").send(service.address()).expect_status(200).json();
    let checks = ready["checks"].as_array().expect("checks");
    let vendor = checks.iter().find(|check| check["name"] == "vendor_openai");
    assert_eq!(vendor.map(|check| &check["status"]), Some(&json!("warn")), "{ready}");
    assert_eq!(api.wait_for_completion(&api.ask_question("Again"))["text"], "Done.", "it is still asked");
    assert_eq!(figure(up), Some(1.0));
    assert_eq!(service.run_admin_command(&["status"])["vendors"][0]["trouble"], Value::Null);
}

#[test]
fn wrong_vendor_key_has_no_fallback() {
    let server = ScriptedVendor::start();
    server.set_model_list(Some((
        401,
        json!({ "error": { "message": "Incorrect API key provided: sk-stand-in" } }),
    )));
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let (base, cause) = (server.base_url(), "the key is refused (401: Incorrect API key provided: [secret])");
    let log = service.log_text();
    let is_logged =
        |line: &&str| line.contains("OPENAI") && line.contains(&base) && line.contains("the key is refused");
    assert!(log.lines().any(|line| is_logged(&line)), "{log}");
    assert!(!log.contains("sk-stand-in"), "{log}");
    let shown = service.run_admin_command(&["models"]);
    let vendor = &shown["vendors"][0];
    assert_eq!((&vendor["vendor"], &vendor["baseUrl"]), (&json!("OPENAI"), &json!(base)), "{shown}");
    assert_eq!((&vendor["status"], &vendor["cause"]), (&json!("DOWN"), &json!(cause)), "{shown}");
    let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
    assert!(models.iter().all(|model| model["default"] == false), "{models:?}");
    let refused = api.send_question(&json!({ "input": "Hello" }));
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    refused.expect_code(409, "MODEL_UNAVAILABLE");
    assert!(message.contains("OPENAI") && !message.contains(&base), "{message}");
    api.send_question(&json!({ "input": "Hello", "model": scripted_vendor::MODEL }))
        .expect_code(409, "MODEL_UNAVAILABLE");
    let read = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "Hello", "model": e2e::api::builtin_reader_id(&api) })),
    );
    assert_eq!(read["error"], Value::Null, "it answers when it is chosen explicitly: {read}");
    let figures = crate::metrics::read_metrics(&api);
    assert_eq!(figures.get("causerie_vendor_up{vendor=\"OPENAI\"}"), Some(&0.0));
    let failures = "causerie_vendor_failures_total{vendor=\"OPENAI\",cause=\"key\"}";
    assert!(figures.get(failures).is_some_and(|count| *count >= 1.0), "{figures:?}");
    // The operator fixes the key at the vendor while the service runs.
    server.set_model_list(None);
    poll::wait_until("its model is found", || {
        let models = nonempty_entries(&api.get_catalog("models", None).json());
        models.into_iter().find(|model| model["id"] == scripted_vendor::MODEL && model["default"] == true)
    });
    assert_eq!(api.wait_for_completion(&api.ask_question("Again"))["text"], "Done.");
    assert_eq!(crate::metrics::read_metrics(&api).get("causerie_vendor_up{vendor=\"OPENAI\"}"), Some(&1.0));
    assert_eq!(service.run_admin_command(&["models"])["vendors"][0]["cause"], Value::Null);
}

#[test]
fn models_of_unreachable_vendor_are_down() {
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
        let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
        let api = service.api_for(&service.create_account());
        let log = service.log_text();
        let is_logged = |line: &str| {
            line.contains(provider) && line.contains(&base) && line.contains("the connection was refused")
        };
        assert!(log.lines().any(is_logged), "{log}");
        let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
        let default = models.iter().find(|model| model["default"] == true).expect("a default");
        assert_eq!(
            (&default["provider"], &default["status"]),
            (&json!(provider), &json!("DOWN")),
            "{models:?}"
        );
        assert_eq!(default.get("builtin"), None, "{default}");
        let failed = api.wait_for_completion(&api.ask_question("Hello"));
        assert_eq!(failed["error"]["code"], "MODEL_UNAVAILABLE", "{failed}");
        assert!(
            failed["error"]["message"].as_str().is_some_and(|message| message.contains(provider)),
            "{failed}"
        );
    }
}

#[test]
fn conversation_of_removed_model_says_so() {
    let server = ScriptedVendor::start();
    let mut service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let first = api.wait_for_completion(
        &api.expect_accepted(&json!({ "input": "Hello", "model": scripted_vendor::MODEL })),
    );
    service.kill();
    server.set_model_list(Some((
        200,
        json!({ "object": "list", "data": [{ "id": "another-model", "object": "model" }] }),
    )));
    service.restart();
    let refused = api.send_question(&json!({ "input": "Go on", "chatId": first["chatId"] }));
    let message = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    refused.expect_code(409, "MODEL_UNAVAILABLE");
    assert!(
        message.contains(scripted_vendor::MODEL) && message.contains("begin a new conversation"),
        "{message}"
    );
}

#[test]
fn refused_model_names_its_vendor() {
    let server = ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    server.add_script([Say::Refuse(401)]);
    let failed = api.wait_for_completion(&api.ask_question("Hello"));
    assert_eq!(failed["error"]["code"], "MODEL_KEY_REFUSED", "{failed}");
    assert!(
        failed["error"]["message"].as_str().is_some_and(|message| message.contains("OPENAI")),
        "{failed}"
    );
}

#[test]
fn odd_model_entry_drops_no_other() {
    let server = ScriptedVendor::start();
    let odd = json!([null, {}, { "id": 7 }, { "id": "both", "context_length": 9000, "max_model_len": 4000 },
        { "id": scripted_vendor::MODEL, "created": "yesterday", "context_length": null }, { "id": scripted_vendor::MODEL }]);
    server.set_model_list(Some((200, json!({ "data": odd }))));
    let service = TestService::start(ServiceOptions {
        environment: server.service_environment(),
        ..ServiceOptions::default()
    });
    let api = service.api_for(&service.create_account());
    let models = nonempty_entries(&api.get_catalog("models", None).expect_status(200).json());
    let ids: Vec<&Value> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(
        ids,
        [&json!("both"), &json!(scripted_vendor::MODEL), &json!(e2e::api::builtin_reader_id(&api))],
        "{models:?}"
    );
    let log = service.log_text();
    assert!(log.lines().any(|line| line.contains("OPENAI") && line.contains("left out")), "{log}");
}
