//! Section 5: the key is the only authentication, and is checked before everything else.

use super::Case;
use crate::api::{Api, Expect, UploadPart};
use crate::http::HttpRequest;
use crate::operations::{all_operations, sample_target};

/// Requests that an invalid key must not pass: each operation, malformed bodies, paths that do not exist or
/// leave the workspace.
///
/// # Panics
/// Panics if one passes.
pub fn assert_rejected(api: &Api) {
    for operation in all_operations() {
        api.call_endpoint(operation.method, &sample_target(operation)).expect_rejection();
    }
    api.send_bytes(b"{\"input\":").expect_rejection();
    api.upload_form(&[UploadPart::from_field("nothing", "x")]).expect_rejection();
    api.download_file("/../../etc/passwd").expect_rejection();
    api.call_endpoint("GET", "/api/v1/nothing").expect_rejection();
    api.call_endpoint("PUT", "/api/v1/vm").expect_rejection();
}

pub(super) const CASES: &[Case] = cases![
    Key:
    a_mistyped_key_is_rejected_before_anything_else,
    a_missing_key_is_rejected_wherever_else_it_stands,
    two_keys_are_none,
];

fn a_mistyped_key_is_rejected_before_anything_else(api: &Api) {
    api.get_vm().expect_status(200);
    assert_rejected(&api.with_key("api-no-such-key"));
    let key = api.key.clone();
    let last = if key.ends_with('x') { "y" } else { "x" };
    let mistyped = [
        format!("{}{last}", &key[..key.len() - 1]),
        key[..key.len() - 1].to_owned(),
        format!("{key}0"),
        key.replacen("api-", "API-", 1),
        key.replacen("api-", "", 1),
        format!("api-{}", "0".repeat(key.len() - 4)),
        format!("{key} {key}"),
        String::new(),
        "api-žluťoučký".to_owned(),
        "x".repeat(20_000),
    ];
    for wrong in mistyped {
        api.with_key(&wrong).get_vm().expect_rejection();
    }
}

fn a_missing_key_is_rejected_wherever_else_it_stands(api: &Api) {
    for operation in all_operations() {
        HttpRequest::new(operation.method, &sample_target(operation)).send(&api.address).expect_rejection();
    }
    for target in [
        format!("/api/v1/vm?X-Api-Key={}", api.key),
        format!("/api/v1/vm?api_key={}", api.key),
        format!("/api/v1/vm?key={}", api.key),
    ] {
        HttpRequest::new("GET", &target).send(&api.address).expect_rejection();
    }
    let bearer =
        HttpRequest::new("GET", "/api/v1/vm").with_header("authorization", &format!("Bearer {}", api.key));
    bearer.send(&api.address).expect_rejection();
    let lower = HttpRequest::new("GET", "/api/v1/vm").with_header("x-api-key", &api.key);
    lower.send(&api.address).expect_status(200);
    let upper = HttpRequest::new("GET", "/api/v1/vm").with_header("X-API-KEY", &api.key);
    upper.send(&api.address).expect_status(200);
}

fn two_keys_are_none(api: &Api) {
    for second in [api.key.as_str(), "api-no-such-key", ""] {
        for (one, other) in [(api.key.as_str(), second), (second, api.key.as_str())] {
            let both = HttpRequest::new("GET", "/api/v1/vm")
                .with_header("x-api-key", one)
                .with_header("X-Api-Key", other);
            both.send(&api.address).expect_rejection();
        }
    }
}
