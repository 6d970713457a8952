//! Section 5: the key is the only authentication, and is checked before everything else.

use super::Case;
use crate::api::{Api, Expect, Part};
use crate::http::Request;
use crate::operations::{operations, sample_target};

/// Requests that an invalid key must not pass: each operation, malformed bodies, paths that do not exist or
/// leave the workspace.
///
/// # Panics
/// If one passes.
pub fn assert_rejected(api: &Api) {
    for operation in operations() {
        api.call(operation.method, &sample_target(operation)).expect_rejection();
    }
    api.send_bytes(b"{\"input\":").expect_rejection();
    api.upload_form(&[Part::field("nothing", "x")]).expect_rejection();
    api.download("/../../etc/passwd").expect_rejection();
    api.call("GET", "/api/v1/nothing").expect_rejection();
    api.call("PUT", "/api/v1/vm").expect_rejection();
}

pub(super) const CASES: &[Case] = cases![
    Key:
    a_mistyped_key_is_rejected_before_anything_else,
    a_missing_key_is_rejected_wherever_else_it_stands,
    two_keys_are_none,
];

fn a_mistyped_key_is_rejected_before_anything_else(api: &Api) {
    api.vm().expect_status(200);
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
        api.with_key(&wrong).vm().expect_rejection();
    }
}

fn a_missing_key_is_rejected_wherever_else_it_stands(api: &Api) {
    for operation in operations() {
        Request::new(operation.method, &sample_target(operation)).send(&api.address).expect_rejection();
    }
    for target in [
        format!("/api/v1/vm?X-Api-Key={}", api.key),
        format!("/api/v1/vm?api_key={}", api.key),
        format!("/api/v1/vm?key={}", api.key),
    ] {
        Request::new("GET", &target).send(&api.address).expect_rejection();
    }
    let bearer = Request::new("GET", "/api/v1/vm").header("authorization", &format!("Bearer {}", api.key));
    bearer.send(&api.address).expect_rejection();
    let lower = Request::new("GET", "/api/v1/vm").header("x-api-key", &api.key);
    lower.send(&api.address).expect_status(200);
    let upper = Request::new("GET", "/api/v1/vm").header("X-API-KEY", &api.key);
    upper.send(&api.address).expect_status(200);
}

fn two_keys_are_none(api: &Api) {
    for second in [api.key.as_str(), "api-no-such-key", ""] {
        for (one, other) in [(api.key.as_str(), second), (second, api.key.as_str())] {
            let both = Request::new("GET", "/api/v1/vm").header("x-api-key", one).header("X-Api-Key", other);
            both.send(&api.address).expect_rejection();
        }
    }
}
