//! Configured rate limits.

use conformance::{Api, Expect, NewAccount, Options, Request, Response, Service, poll};

fn service(environment: &[(&str, &str)]) -> (Service, Api) {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let service = Service::start(Options { environment: environment.collect(), ..Options::default() });
    let account = service.account_as(&NewAccount { machine: false, ..NewAccount::default() });
    let api = service.api(&account);
    (service, api)
}

fn expect_limited(response: Response) {
    let wait = response.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| wait >= 1), "{response:?}");
    response.expect_code(429, "RATE_LIMITED");
}

#[test]
fn whoever_guesses_keys_learns_nothing_more_while_others_go_on() {
    let (service, api) = service(&[("CAUSERIE_RATE_FAILED_KEYS", "1/20")]);
    api.chats("").expect_status(200);
    let wrong = api.with_key("api-wrong");
    let answers: Vec<Response> = (0..60).map(|_| wrong.chats("")).collect();
    let (rejected, limited): (Vec<Response>, Vec<Response>) =
        answers.into_iter().partition(|response| response.status == 401);
    assert!(rejected.len() >= 20 && !limited.is_empty(), "{} rejected", rejected.len());
    rejected.into_iter().for_each(|response| response.expect_rejection());
    limited.into_iter().for_each(expect_limited);
    api.chats("").expect_status(200);
    // For a locked-out address, a right key is rejected as well. Slow hosts need several attempts.
    poll::until("a right guess is rejected, too", || {
        let (_, unused) = service.new_key("account-0@example.test");
        while wrong.chats("").status != 429 {}
        (api.with_key(&unused).chats("").status == 429).then_some(())
    });
    api.chats("").expect_status(200);
}

#[test]
fn a_key_is_kept_to_its_rate() {
    let (service, api) = service(&[("CAUSERIE_RATE_PER_KEY", "1/5")]);
    let (_, other) = service.new_key("account-0@example.test");
    let answers: Vec<Response> = (0..30).map(|_| api.chats("")).collect();
    let (served, limited): (Vec<Response>, Vec<Response>) =
        answers.into_iter().partition(|response| response.status == 200);
    assert!(served.len() >= 5 && !limited.is_empty(), "{} served", served.len());
    // 429 with `Retry-After`.
    limited.into_iter().for_each(expect_limited);
    api.with_key(&other).chats("").expect_status(200);
}

#[test]
fn an_address_is_kept_to_its_rate_and_only_a_trusted_proxy_tells_another() {
    let limits = [("CAUSERIE_RATE_PER_ADDRESS", "1/5"), ("CAUSERIE_RATE_TRUSTED_PROXIES", "127.0.0.1")];
    let (_trusting, api) = service(&limits);
    let from = |api: &Api, client: &str| {
        let request = Request::new("GET", "/api/v1/chats").header("x-api-key", &api.key);
        request.header("x-forwarded-for", client).send(&api.address)
    };
    let statuses = |api: &Api, client: &str| (0..30).map(|_| from(api, client).status).collect::<Vec<_>>();
    assert!(statuses(&api, "192.0.2.1").contains(&429));
    from(&api, "192.0.2.2").expect_status(200);
    let (_wary, api) = service(&limits[..1]);
    let forged: Vec<u16> = (0..30).map(|n| from(&api, &format!("192.0.2.{n}")).status).collect();
    assert!(forged.contains(&429), "{forged:?}");
}

#[test]
fn a_rate_that_can_not_be_read_keeps_the_service_from_starting() {
    let service = Service::start(Options::default());
    let mut command = service.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(service.data().with_file_name("other"));
    let refused = command.env("CAUSERIE_RATE_PER_KEY", "many").output().expect("the binary can be run");
    let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && stderr.contains("CAUSERIE_RATE_PER_KEY"), "{stderr}");
}
