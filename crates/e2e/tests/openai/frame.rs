//! Keys, errors and models.

use e2e::{Expect, HttpRequest, ServiceOptions};
use serde_json::Value;

use crate::stage::{OpenAiStage, expect_error};

#[test]
fn errors_have_openai_form() {
    let stage = OpenAiStage::with_reader();
    let address = stage.service.address();
    for target in ["/v1", "/v1/models", "/v1/nothing"] {
        let refused = HttpRequest::new("GET", target).send(address);
        expect_error(&refused, 401, Some("invalid_api_key"));
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        let mistyped =
            HttpRequest::new("GET", target).with_header("authorization", "Bearer api-x").send(address);
        expect_error(&mistyped, 401, Some("invalid_api_key"));
    }
    for target in ["/v1", "/v1/", "/v1/nothing", "/v1/models/"] {
        assert_eq!(stage.call("GET", target).status, 404, "{target}");
    }
    expect_error(&stage.call("GET", "/v1/nothing/at/all"), 404, Some("unknown_url"));
    expect_error(&stage.call("DELETE", "/v1/models"), 405, Some("method_not_allowed"));
    let id = "request-7";
    let named = stage.request("GET", "/v1/nothing").with_header("x-request-id", id).send(address);
    assert_eq!(named.header("x-request-id"), Some(id));
    // Refused before the routes.
    let long = stage.request("GET", "/v1/models").with_header("x-long", &"x".repeat(70 << 10)).send(address);
    expect_error(&long, 431, Some("head_too_large"));
    // The service's own interface keeps its form.
    let native = stage.api().call_endpoint("GET", "/api/v1/nothing").expect_status(404).json();
    assert_eq!(native["code"], "NOT_FOUND");
}

#[test]
fn ended_licence_refuses_key() {
    let stage = OpenAiStage::with_reader();
    stage.call("GET", "/v1/models").expect_status(200);
    let end = ["licence", "set", "--account", &stage.account.email, "--until", "2020-01-01"];
    stage.service.run_admin_command(&end);
    expect_error(&stage.call("GET", "/v1/models"), 401, Some("invalid_api_key"));
}

#[test]
fn models_agents_and_plain_models_listed() {
    let stage = OpenAiStage::with_reader();
    let list = stage.call("GET", "/v1/models").expect_status(200).json();
    assert_eq!(list["object"], "list");
    let models = list["data"].as_array().expect("a list").clone();
    let ids: Vec<&str> = models.iter().filter_map(|model| model["id"].as_str()).collect();
    for id in ["reader", "agent/causerie:assistant", "plain/reader"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    for model in &models {
        assert_eq!(model["object"], "model");
        assert!(model["created"].is_u64() && model["owned_by"].is_string() && model["name"].is_string());
    }
    let one = |target: &str| -> Value { stage.call("GET", target).expect_status(200).json() };
    assert_eq!(one("/v1/models/reader")["id"], "reader");
    assert_eq!(one("/v1/models/agent/causerie:assistant")["id"], "agent/causerie:assistant");
    assert_eq!(one("/v1/models/plain%2Freader")["id"], "plain/reader");
    let error = expect_error(&stage.call("GET", "/v1/models/none"), 404, Some("model_not_found"));
    assert_eq!(error["param"], "model");
}

#[test]
fn keys_are_limited_to_their_rate() {
    let environment = vec![("CAUSERIE_RATE_PER_KEY".to_owned(), "1/5".to_owned())];
    let options = ServiceOptions { environment, ..ServiceOptions::default() };
    let stage = OpenAiStage::with_options(options, None);
    let responses: Vec<_> = (0..30).map(|_| stage.call("GET", "/v1/models")).collect();
    let limited: Vec<_> = responses.iter().filter(|response| response.status == 429).collect();
    assert!(!limited.is_empty() && limited.len() <= 25, "{} limited", limited.len());
    for response in limited {
        expect_error(response, 429, Some("rate_limit_exceeded"));
        assert!(response.header("retry-after").is_some());
    }
}

#[test]
fn key_scope_limits_requests() {
    let stage = OpenAiStage::with_reader();
    let account = &stage.account.email;
    let made = ["key", "create", "--account", account, "--name", "narrow", "--scope", "read"];
    let made = stage.service.run_admin_command(&made);
    let bearer = format!("Bearer {}", made["key"].as_str().expect("a key"));
    let call = |method: &str, target: &str| {
        let request = HttpRequest::new(method, target).with_header("authorization", &bearer);
        request.with_body("{}").send(stage.service.address())
    };
    call("GET", "/v1/models").expect_status(200);
    expect_error(&call("POST", "/v1/chat/completions"), 403, Some("key_scope"));
}
