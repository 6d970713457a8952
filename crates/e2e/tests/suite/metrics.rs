//! Metrics, the dashboard that uses them, and the audit log.

use std::collections::BTreeMap;
use std::path::Path;

use e2e::{Api, Expect, HttpRequest, ServiceOptions, TestService, poll};
use serde_json::{Value, json};

/// Returns the samples of the metrics by name and labels.
pub(crate) fn read_metrics(api: &Api) -> BTreeMap<String, f64> {
    let text = HttpRequest::new("GET", "/metrics").send(&api.address).expect_status(200).text();
    let mut typed = Vec::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            typed.push(name.to_owned());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a sample");
            let base = name.split('{').next().unwrap_or(name);
            assert!(typed.last().is_some_and(|last| base.starts_with(last.as_str())), "{line} has no head");
            let before = samples.insert(name.to_owned(), value.parse().expect("a number"));
            assert!(before.is_none(), "{line} is there twice");
        }
    }
    samples
}

#[test]
fn the_metrics_count_requests_and_answers() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let api = service.api_for(&account);
    let answer = api.ask_question("What is the rent?");
    let stream = api.stream_answer(&answer);
    api.wait_for_completion(&answer);
    drop(stream.remaining_events());
    api.with_key("api-wrong").get_vm().expect_rejection();
    api.call_endpoint("GET", "/api/v1/nothing").expect_code(404, "NOT_FOUND");
    let samples = poll::wait_until("the answer is counted", || {
        let samples = read_metrics(&api);
        (samples["causerie_answers_total{outcome=\"done\"}"] > 0.0).then_some(samples)
    });
    for (sample, wanted) in [
        ("causerie_requests_total{operation=\"askQuestion\",status=\"202\"}", 1.0),
        ("causerie_requests_total{operation=\"getVm\",status=\"401\"}", 1.0),
        ("causerie_requests_total{operation=\"other\",status=\"404\"}", 1.0),
        ("causerie_request_duration_seconds_count{operation=\"askQuestion\"}", 1.0),
        ("causerie_answers_total{outcome=\"done\"}", 1.0),
        ("causerie_answer_duration_seconds_count", 1.0),
        ("causerie_time_to_first_token_seconds_count", 1.0),
        ("causerie_credits_settled_total", 1.0),
        ("causerie_answers_in_progress", 0.0),
        ("causerie_answers_open", 0.0),
        ("causerie_streams_open{kind=\"answer\"}", 0.0),
        ("causerie_rate_limited_total{limit=\"failed_keys\"}", 0.0),
    ] {
        assert_eq!(samples.get(sample), Some(&wanted), "{sample} in {samples:#?}");
    }
    let machines =
        |driver: &str| samples.get(&format!("causerie_machines{{state=\"RUNNING\",driver=\"{driver}\"}}"));
    let running = ["qemu", "uml", "sandbox"].into_iter().find_map(machines);
    assert_eq!(running, Some(&1.0), "{samples:#?}");
    assert!(samples["causerie_store_operation_duration_seconds_count{operation=\"write\"}"] > 3.0);
    assert!(samples["process_resident_memory_bytes"] > 1e6 && samples["process_open_fds"] > 3.0);
    let text = HttpRequest::new("GET", "/metrics").send(&api.address).text();
    for inner in [&account.id, &account.email, &account.key_id, "/uploads"] {
        assert!(!text.contains(inner), "{inner} is no label");
    }
    every_metric_of_the_dashboard_is_exported(&samples);
}

/// Checks that each metric of the dashboard is exported by a service that has done some work.
fn every_metric_of_the_dashboard_is_exported(samples: &BTreeMap<String, f64>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/grafana/causerie.json");
    let dashboard: Value =
        serde_json::from_slice(&std::fs::read(path).expect("the dashboard")).expect("it is JSON");
    let mut seen = 0;
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().expect("targets") {
            let query = target["expr"].as_str().expect("a query");
            let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names = words.filter(|word| word.starts_with("causerie_") || word.starts_with("process_"));
            for name in names {
                let known = samples.keys().any(|sample| sample.split('{').next() == Some(name));
                assert!(known, "{}: {name} is not exported", panel["title"]);
                seen += 1;
            }
        }
    }
    assert!(seen >= 20, "{seen} metrics");
}

#[test]
fn audit_log_names_actions_without_secrets() {
    let mut service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let narrow = service.run_admin_command(&[
        "key",
        "create",
        "--account",
        &account.email,
        "--name",
        "n",
        "--scope",
        "read",
    ]);
    let key = narrow["key"].as_str().expect("a key");
    let api = service.api_for(&account).with_key(key);
    for _ in 0..3 {
        api.start_vm().expect_code(403, "KEY_SCOPE");
    }
    service.run_admin_command(&["credits", "grant", "--account", &account.email, "5"]);
    service.run_admin_command(&["key", "revoke", narrow["keyId"].as_str().expect("its id")]);
    api.get_vm().expect_rejection();
    let list = |arguments: &[&str]| {
        let all = [&["audit", "list"], arguments].concat();
        service.run_admin_command(&all)
    };
    let actions = |page: &Value| {
        let entries = page["entries"].as_array().expect("entries").iter();
        entries.map(|entry| entry["action"].as_str().expect("a word").to_owned()).collect::<Vec<_>>()
    };
    let page = poll::wait_until("the refused uses are noted", || {
        let page = list(&["--account", &account.email]);
        (actions(&page).len() == 7).then_some(page)
    });
    let mut recorded = actions(&page);
    recorded.sort();
    let wanted = [
        "create account",
        "create key",
        "create key",
        "grant credits",
        "refused key",
        "refused key",
        "revoke key",
    ];
    assert_eq!(recorded, wanted, "repeated rejections are recorded once");
    let refused: Vec<&str> = page["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .filter_map(|entry| entry["detail"].as_str())
        .collect();
    assert!(refused.contains(&"revoked") && refused.contains(&"beyond its scope: startVm"), "{refused:?}");
    let text = page.to_string();
    assert!(!text.contains(key) && !text.contains(&account.key), "no key is shown");
    assert!(text.contains("operator uid "), "{text}");
    let first = list(&["--account", &account.email, "--limit", "4"]);
    let next = first["next"].as_i64().expect("there is more").to_string();
    let rest = list(&["--account", &account.email, "--limit", "4", "--before", &next]);
    assert_eq!([actions(&first), actions(&rest)].concat(), actions(&page));
    assert_eq!((rest["next"].clone(), actions(&list(&["--since", "2099-01-01"]))), (json!(null), Vec::new()));
    service.terminate();
    assert_eq!(
        service.run_admin_command(&["audit", "list", "--account", &account.email]),
        page,
        "also without a service"
    );
}

#[test]
fn check_reasons_are_for_operators_only() {
    let vendor = e2e::ScriptedVendor::start();
    let service = TestService::start(ServiceOptions {
        environment: vendor.service_environment(),
        ..ServiceOptions::default()
    });
    let (owner, operator) = (service.create_account(), service.create_account());
    service.run_admin_command(&["account", "set-role", "--account", &operator.email, "--role", "operator"]);
    let checks = |key: Option<&str>| {
        let request = HttpRequest::new("GET", "/readyz?verbose");
        let request = match key {
            Some(key) => request.with_header("x-api-key", key),
            None => request,
        };
        request.send(service.address()).expect_status(200).json()["checks"]
            .as_array()
            .expect("checks")
            .clone()
    };
    let known = checks(Some(&operator.key));
    assert!(Value::from(known.clone()).to_string().contains(&vendor.base_url()), "{known:?}");
    assert!(known.iter().all(|check| check["reason"].is_string()), "{known:?}");
    for key in [None, Some(owner.key.as_str()), Some("api-wrong")] {
        let public = checks(key);
        assert_eq!(public.len(), known.len(), "the names and states of all checks");
        for check in public {
            let fields: Vec<_> = check.as_object().expect("an object").keys().cloned().collect();
            assert_eq!(fields, ["name", "status"], "{check}");
        }
    }
}
