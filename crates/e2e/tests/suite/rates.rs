//! Configured rate limits.

use e2e::{Api, Expect, HttpRequest, HttpResponse, ServiceOptions, TestAccountOptions, TestService, poll};

fn start_service(environment: &[(&str, &str)]) -> (TestService, Api) {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let service = TestService::start(ServiceOptions {
        environment: environment.collect(),
        ..ServiceOptions::default()
    });
    let account =
        service.create_account_with(&TestAccountOptions { machine: false, ..TestAccountOptions::default() });
    let api = service.api_for(&account);
    (service, api)
}

fn expect_limited(response: HttpResponse) {
    let wait = response.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| wait >= 1), "{response:?}");
    response.expect_code(429, "RATE_LIMITED");
}

#[test]
fn key_guesses_limited_by_address() {
    let (service, api) = start_service(&[("CAUSERIE_RATE_FAILED_KEYS", "1/20")]);
    api.list_chats("").expect_status(200);
    let wrong = api.with_key("api-wrong");
    let answers: Vec<HttpResponse> = (0..60).map(|_| wrong.list_chats("")).collect();
    let (rejected, limited): (Vec<HttpResponse>, Vec<HttpResponse>) =
        answers.into_iter().partition(|response| response.status == 401);
    assert!(rejected.len() >= 20 && !limited.is_empty(), "{} rejected", rejected.len());
    rejected.into_iter().for_each(|response| response.expect_rejection());
    limited.into_iter().for_each(expect_limited);
    api.list_chats("").expect_status(200);
    // For a locked-out address, a right key is rejected as well. Slow hosts need several attempts.
    poll::wait_until("a right guess is rejected, too", || {
        let (_, unused) = service.new_key("account-0@example.test");
        while wrong.list_chats("").status != 429 {}
        (api.with_key(&unused).list_chats("").status == 429).then_some(())
    });
    api.list_chats("").expect_status(200);
}

#[test]
fn key_limited_to_its_rate() {
    let (service, api) = start_service(&[("CAUSERIE_RATE_PER_KEY", "1/5")]);
    let (_, other) = service.new_key("account-0@example.test");
    let answers: Vec<HttpResponse> = (0..30).map(|_| api.list_chats("")).collect();
    let (served, limited): (Vec<HttpResponse>, Vec<HttpResponse>) =
        answers.into_iter().partition(|response| response.status == 200);
    assert!(served.len() >= 5 && !limited.is_empty(), "{} served", served.len());
    // 429 with `Retry-After`.
    limited.into_iter().for_each(expect_limited);
    api.with_key(&other).list_chats("").expect_status(200);
}

#[test]
fn only_trusted_proxy_sets_rate_address() {
    let limits = [("CAUSERIE_RATE_PER_ADDRESS", "1/5"), ("CAUSERIE_RATE_TRUSTED_PROXIES", "127.0.0.1")];
    let (_trusting, api) = start_service(&limits);
    let from = |api: &Api, client: &str| {
        let request = HttpRequest::new("GET", "/api/v1/chats").with_header("x-api-key", &api.key);
        request.with_header("x-forwarded-for", client).send(&api.address)
    };
    let statuses = |api: &Api, client: &str| (0..30).map(|_| from(api, client).status).collect::<Vec<_>>();
    assert!(statuses(&api, "192.0.2.1").contains(&429));
    from(&api, "192.0.2.2").expect_status(200);
    let (_wary, api) = start_service(&limits[..1]);
    let forged: Vec<u16> = (0..30).map(|n| from(&api, &format!("192.0.2.{n}")).status).collect();
    assert!(forged.contains(&429), "{forged:?}");
}

#[test]
fn unreadable_rate_prevents_start() {
    let service = TestService::start(ServiceOptions::default());
    let mut command = service.build_command();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(service.data_folder().with_file_name("other"));
    let refused = command.env("CAUSERIE_RATE_PER_KEY", "many").output().expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("CAUSERIE_RATE_PER_KEY"), "{stderr}");
}
