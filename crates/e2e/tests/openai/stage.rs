//! A service with a scripted model, and calls of its interface for OpenAI's programs.

use e2e::{Api, HttpRequest, HttpResponse, ServiceOptions, TestAccount, TestService};
use serde_json::Value;

/// A service with one account.
pub(crate) struct OpenAiStage {
    pub(crate) service: TestService,
    pub(crate) account: TestAccount,
}

impl OpenAiStage {
    /// Starts a service with the built-in reader.
    pub(crate) fn with_reader() -> Self {
        Self::with_options(ServiceOptions::default())
    }

    pub(crate) fn with_options(options: ServiceOptions) -> Self {
        let service = TestService::start(options);
        let account = service.create_account();
        Self { service, account }
    }

    /// Returns a caller of the service's own interface.
    pub(crate) fn api(&self) -> Api {
        self.service.api_for(&self.account)
    }

    /// Creates a request with the key.
    pub(crate) fn request(&self, method: &str, target: &str) -> HttpRequest {
        HttpRequest::new(method, target).with_header("authorization", &format!("Bearer {}", self.account.key))
    }

    /// Sends a request without a body.
    pub(crate) fn call(&self, method: &str, target: &str) -> HttpResponse {
        self.request(method, target).send(self.service.address())
    }
}

/// Returns the error of a response, which must have this status and code.
pub(crate) fn expect_error(response: &HttpResponse, status: u16, code: Option<&str>) -> Value {
    let body = response.json();
    assert_eq!(response.status, status, "{body}");
    let error = &body["error"];
    assert_eq!(error["code"].as_str(), code, "{body}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    assert!(error["type"].is_string() && error.get("param").is_some(), "{body}");
    assert!(response.header("x-request-id").is_some());
    error.clone()
}
