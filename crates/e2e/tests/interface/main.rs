//! Runs every case, concurrently on one service with an account for each, and cases that need the operator.
//! Then compares all recorded responses with the published schema.

mod large;
mod operator;

use std::io::{self, Write};

use e2e::operations::all_operations;
use e2e::run::{CaseRun, run_all};
use e2e::schema::Schema;
use e2e::{HttpRequest, ServiceOptions, TestService, built_program, cases, met};

/// The number of concurrent cases: most of them wait for the service.
const AT_ONCE: usize = 12;

/// Documented responses that do not occur here, with the reason. An empty method, path or code matches any.
const NOT_MET: &[(&str, &str, u16, &str, &str)] = &[
    ("", "", 500, "INTERNAL", "the service does not fail; the tests of `api` show the form"),
    ("", "", 503, "UNAVAILABLE", "a moment of the shutdown; the tests of `control` show it"),
    ("", "/api/v1/files", 408, "TOO_SLOW", "a minute of silence; the tests of `http-common` simulate it"),
    ("", "", 400, "AMBIGUOUS_NAME", "it takes an operator's plugins; the suite's tests of plugins have some"),
    ("", "", 429, "RATE_LIMITED", "the operator sets no rates here; the suite's tests of rates set some"),
    ("", "", 431, "HEAD_TOO_LARGE", "the same for all, met by some"),
    ("", "", 414, "TARGET_TOO_LONG", "the same for all, met by some"),
    ("", "", 409, "MODEL_UNAVAILABLE", "a vendor that is away; the suite's tests of vendors have one"),
    ("", "", 409, "TOO_MANY_ENTRIES", "a hundred thousand files; the tests of `workspace` make them"),
    ("", "", 403, "FORBIDDEN", "met where a caller can cause it, by deleting the home folder"),
];

#[test]
fn the_interface_holds() {
    // Short timeouts, so that slow clients are detected soon.
    let timeouts = [("CAUSERIE_LIMITS_BODY_TIMEOUT", "5s"), ("CAUSERIE_LIMITS_HEADER_TIMEOUT", "5s")];
    let environment = timeouts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let all = cases::all_cases();
    let mut runs: Vec<CaseRun<'_>> = operator::CASES
        .iter()
        .map(|(name, body)| CaseRun { name: (*name).to_owned(), body: Box::new(*body) })
        .collect();
    for case in &all {
        let service = &service;
        let body = move || (case.run)(&service.api_for(&service.create_account()));
        runs.push(CaseRun { name: format!("{}: {}", case.subject(), case.name), body: Box::new(body) });
    }
    let began = std::time::Instant::now();
    let mut outcomes = run_all(&runs, AT_ONCE, |_| {});
    outcomes.sort_by_key(|outcome| std::cmp::Reverse(outcome.took));
    let mut out = io::stdout().lock();
    for outcome in outcomes.iter().filter(|outcome| outcome.failure.is_some()) {
        let _ = writeln!(out, "{}: {}", outcome.name, outcome.failure.as_deref().unwrap_or_default());
    }
    let _ = writeln!(out, "{} cases in {:?}; the longest:", outcomes.len(), began.elapsed());
    for outcome in outcomes.iter().take(10) {
        let _ = writeln!(out, "{:>8.2} s {}", outcome.took.as_secs_f64(), outcome.name);
    }
    drop(out);
    assert!(outcomes.iter().all(|outcome| outcome.failure.is_none()), "cases failed: see above");
    let yaml = HttpRequest::new("GET", "/openapi.yaml").send(service.address()).text();
    hold_against_schema(&Schema::from_yaml(&yaml));
}

fn hold_against_schema(schema: &Schema) {
    let mut published: Vec<String> = schema
        .operations
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    let mut known: Vec<String> =
        all_operations().map(|operation| format!("{} {}", operation.method, operation.path)).collect();
    published.sort();
    known.sort();
    assert_eq!(published, known, "the schema and the suite have the same operations");
    let met = met::recorded_responses();
    let undocumented = schema.undocumented_responses(&met);
    assert!(undocumented.is_empty(), "undocumented responses: {undocumented:#?}");
    let excused = |method: &str, path: &str, status: u16, code: Option<&str>| {
        NOT_MET.iter().any(|(of, at, why, word, _)| {
            (of.is_empty() || *of == method)
                && (at.is_empty() || *at == path)
                && *why == status
                && code.is_some_and(|code| word.is_empty() || *word == code)
        })
    };
    let unmet: Vec<String> = schema
        .unmet_responses(&met)
        .into_iter()
        .filter(|(operation, status, code)| !excused(&operation.method, &operation.path, *status, *code))
        .map(|(operation, status, code)| {
            format!("{} {}: {status} {}", operation.method, operation.path, code.unwrap_or_default())
        })
        .collect();
    assert!(unmet.is_empty(), "answers of the schema that no case has met: {unmet:#?}");
    for code in &schema.codes {
        let met = met.iter().any(|met| met.code.as_ref() == Some(code));
        let excused = NOT_MET.iter().any(|(_, _, _, word, _)| word == code);
        assert!(met || excused, "no case has met the code {code}");
    }
}

#[test]
fn conformance_binary_reports_cases_and_summary() {
    let service = TestService::start(ServiceOptions::default());
    let account = service.create_account();
    let mut command = std::process::Command::new(built_program("causerie-conformance"));
    command.env("CAUSERIE_API_KEY", &account.key).args(["--only", "catalogs:", "--no-questions"]);
    let ended = command.args(["--base-url", &format!("http://{}", service.address())]).output();
    let ended = ended.expect("the binary can be run");
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && out.contains("3 cases passed, 0 failed, 2 skipped"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("ok ")).count(), 3, "{out}");
}
