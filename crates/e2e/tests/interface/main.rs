//! Runs every case, concurrently on one service with an account for each, and cases that need the operator.
//! Then compares all recorded responses with the published schema.

mod large;
mod operator;

use std::io::{self, Write};

use e2e::coverage::{NOT_MET, expected_codes, test_sources};
use e2e::met::Met;
use e2e::operations::all_operations;
use e2e::run::{CaseRun, run_all};
use e2e::schema::Schema;
use e2e::{HttpRequest, ServiceOptions, TestService, built_program, cases, met};

/// The number of concurrent cases: most of them wait for the service.
const AT_ONCE: usize = 12;

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
    let unmet: Vec<String> = schema
        .unmet_responses(&met)
        .into_iter()
        .filter(|(operation, status, code)| {
            !is_excused(schema, &met, &operation.path, *status, code.unwrap_or_default())
        })
        .map(|(operation, status, code)| {
            format!("{} {}: {status} {}", operation.method, operation.path, code.unwrap_or_default())
        })
        .collect();
    assert!(unmet.is_empty(), "answers of the schema that no case has met: {unmet:#?}");
    let of_operations = |code: &String| {
        schema
            .operations
            .iter()
            .flat_map(|operation| operation.answers.values())
            .any(|all| all.contains(code))
    };
    for code in schema.codes.iter().filter(|code| !of_operations(code)) {
        assert!(met.iter().any(|met| met.code.as_ref() == Some(code)), "no case has met the code {code}");
    }
}

/// Returns true if an operation need not return the answer here: it is listed with a reason, it is the same for all operations and
/// some test meets it, or only a service that is set up differently returns it, which a test of the suite has.
fn is_excused(schema: &Schema, met: &[Met], path: &str, status: u16, code: &str) -> bool {
    if NOT_MET
        .iter()
        .any(|(at, of, word, _)| (at.is_empty() || *at == path) && *of == status && *word == code)
    {
        return true;
    }
    let met_here = met.iter().any(|met| met.status == status && met.code.as_deref() == Some(code));
    let of_all = schema
        .operations
        .iter()
        .all(|operation| operation.answers.get(&status).is_some_and(|codes| codes.contains(code)));
    let met_elsewhere =
        || expected_codes(&test_sources(&["tests/suite"])).contains(&(status, code.to_owned()));
    if met_here { of_all } else { met_elsewhere() }
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
