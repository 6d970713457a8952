//! Signing in and out, and the pages for signed-in users only.

use e2e::{Api, Say, ServiceOptions, TestAccountOptions, TestService};

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};

#[test]
fn session_lasts_until_sign_out() {
    let stage = AppFixture::new();
    let browser = HttpBrowser::new(&stage.service);
    browser.get_page("/").expect_redirect("/sign-in");
    browser.get_page("/keys").expect_redirect("/sign-in?next=/keys");
    let form = browser.get_page("/sign-in?next=/keys").expect_page(200);
    assert!(form.contains("name=\"next\" value=\"/keys\""), "{form}");
    for (email, password) in [
        (stage.account.email.as_str(), "wrong horse"),
        ("nobody@example.test", PASSWORD),
        (&stage.account.email, "short"),
        ("", ""),
    ] {
        let refused = browser.sign_in(email, password);
        assert!(refused.expect_page(401).contains("The email or the password is wrong."));
        let set = refused.header("set-cookie");
        assert!(set.is_none_or(|set| set.starts_with("causerie-style=")), "no session: {set:?}");
    }
    let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD), ("next", "/keys")];
    browser.post_form("/sign-in", &fields).expect_redirect("/keys");
    assert!(browser.get_page("/").expect_page(200).contains(&stage.account.email));
    browser.get_page("/sign-in").expect_redirect("/");
    let secret = browser.cookie_value("causerie-session").expect("a cookie");
    let thief = browser.with_request_header("x-test", "a copy of the cookie");
    browser.post_form("/sign-out", &[]).expect_redirect("/sign-in");
    assert_eq!(browser.cookie_value("causerie-session"), None);
    browser.get_page("/").expect_redirect("/sign-in");
    assert_eq!(thief.cookie_value("causerie-session"), Some(secret.clone()));
    thief.get_page("/").expect_redirect("/sign-in");
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("sign in") && audit.contains("sign out"), "{audit}");
    assert!(!stage.service.log_text().contains(&secret) && !audit.contains(&secret));
}

#[test]
fn sign_in_returns_to_page() {
    let stage = AppFixture::new();
    let browser = HttpBrowser::new(&stage.service);
    let page = "/files/uploads/a%20b.txt?view&page=2";
    browser.get_page(page).expect_redirect("/sign-in?next=/files/uploads/a%2520b.txt?view%26page=2");
    let form = browser.get_page("/sign-in?next=/files/uploads/a%2520b.txt?view%26page=2").expect_page(200);
    assert_eq!(form.matches(&format!("value=\"{}\"", page.replace('&', "&#38;"))).count(), 2, "{form}");
    browser.post_form("/language", &[("language", "cs"), ("next", page)]).expect_redirect(page);
    let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD), ("next", page)];
    browser.post_form("/sign-in", &fields).expect_redirect(page);
    let history = browser.get_page("/history?q=rent&page=2").expect_page(200);
    assert!(history.contains("name=\"next\" value=\"/history?q=rent&#38;page=2\""), "{history}");

    // A late form explains why nothing was done, and leads back to its page.
    let late = HttpBrowser::new(&stage.service);
    let conversation = "/c/0190c8a0-0000-7000-8000-000000000000";
    let answer = late.post_form(&format!("{conversation}/ask"), &[("input", "Hello")]);
    answer.expect_redirect(&format!("/sign-in?next={conversation}&done=ended"));
    let form = late.get_page("/sign-in?done=ended").expect_page(200);
    assert!(form.contains("Your session has ended. Sign in again."), "{form}");
    // The address after a refused form leads to its page.
    browser.get_page("/ask").expect_redirect("/");
    browser.get_page(&format!("{conversation}/ask")).expect_redirect(conversation);
    assert_eq!(browser.get_page("/account/email").header("location"), Some("/account"));
}

#[test]
fn sign_in_refuses_foreign_redirect() {
    let stage = AppFixture::new();
    for next in
        ["https://evil.example/", "//evil.example", "/\\evil.example", "/sign-in", "javascript:alert(1)"]
    {
        let browser = HttpBrowser::new(&stage.service);
        let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD), ("next", next)];
        browser.post_form("/sign-in", &fields).expect_redirect("/");
    }
}

#[test]
fn sign_in_guesses_are_throttled() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service =
        TestService::start(ServiceOptions { environment: vec![trust], ..ServiceOptions::default() });
    let (victim, other) = (account_with_password(&service), account_with_password(&service));
    let browser = HttpBrowser::new(&service);
    let guess = |email: &str| browser.sign_in(email, "wrong horse").status;
    let guesses: Vec<_> = (0..11).map(|_| guess(&victim.email)).collect();
    assert_eq!((&guesses[..10], guesses[10]), ([401; 10].as_slice(), 429), "{guesses:?}");
    let right = browser.sign_in(&victim.email, PASSWORD);
    assert_eq!(right.status, 429, "the right password is not compared either");
    let wait: u64 = right.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time to wait");
    assert!((1..=30).contains(&wait), "{wait}");
    let elsewhere = HttpBrowser::new(&service).with_request_header("x-forwarded-for", "192.0.2.1");
    elsewhere.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    browser.sign_in(&other.email, PASSWORD).expect_redirect("/");
    let guesses: Vec<_> = (0..20).map(|number| guess(&format!("{number}@example.test"))).collect();
    assert!(guesses.contains(&429), "one address cannot try many emails: {guesses:?}");
}

#[test]
fn known_browser_signs_in_during_guesses() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service =
        TestService::start(ServiceOptions { environment: vec![trust], ..ServiceOptions::default() });
    let victim = account_with_password(&service);
    let owner = HttpBrowser::new(&service).with_request_header("x-forwarded-for", "192.0.2.250");
    owner.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    owner.post_form("/sign-out", &[]).expect_redirect("/sign-in");
    assert!(owner.cookie_value("causerie-known").is_some(), "it stays when the session ends");
    let from = |number: u32| {
        HttpBrowser::new(&service).with_request_header("x-forwarded-for", &format!("198.51.100.{number}"))
    };
    let guesses: Vec<_> =
        (0..120).map(|number| from(number).sign_in(&victim.email, "wrong").status).collect();
    assert!(guesses.contains(&429), "{guesses:?}");
    from(250).sign_in(&victim.email, PASSWORD).expect_page(429);
    owner.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    // The cookie alone opens nothing, and is valid for its account only.
    let other = account_with_password(&service);
    assert_eq!(owner.sign_in(&other.email, "wrong").status, 401);
    let guesses: Vec<_> = (0..11).map(|_| owner.sign_in(&victim.email, "wrong").status).collect();
    assert!(guesses.contains(&401) && guesses.contains(&429), "{guesses:?}");
}

#[test]
fn guesses_counted_by_customer_network() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service =
        TestService::start(ServiceOptions { environment: vec![trust], ..ServiceOptions::default() });
    let from = |network: u32, number: u32| {
        let address = format!("2001:db8:{network:x}:{number:x}::1");
        let email = format!("{network}-{number}@example.test");
        HttpBrowser::new(&service)
            .with_request_header("x-forwarded-for", &address)
            .sign_in(&email, "wrong")
            .status
    };
    // Each guess comes from another /64 of one /56.
    let guesses: Vec<_> = (0..200).map(|number| from(1, number)).collect();
    assert!(guesses[..80].iter().all(|status| *status == 401), "{guesses:?}");
    assert!(guesses.contains(&429), "{guesses:?}");
    assert_eq!(from(2, 0), 401, "another customer is not concerned");
}

#[test]
fn cross_site_form_changes_nothing() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("x-nothing", "at all"),
    ] {
        for path in ["/ask", "/keys", "/machine/start", "/sign-out", "/sign-in", "/language"] {
            let refused = browser
                .with_request_header(name, value)
                .post_as_is(path, &[("input", "Forged"), ("name", "forged")]);
            refused.expect_page(403);
        }
    }
    let page = browser.get_page("/keys").expect_page(200);
    assert!(!page.contains("Forged") && !page.contains("forged"), "{page}");
}

#[test]
fn a_session_ends_with_the_password() {
    let stage = AppFixture::new();
    let (first, second) = (stage.sign_in_browser(), HttpBrowser::new(&stage.service));
    let arguments = ["account", "set-password", "--account", &stage.account.email, "--password-stdin"];
    let set = stage.service.try_admin_command_with_stdin(&arguments, b"another horse\n");
    assert!(set.status.success());
    first.get_page("/").expect_redirect("/sign-in");
    assert_eq!(second.sign_in(&stage.account.email, PASSWORD).status, 401);
    second.sign_in(&stage.account.email, "another horse").expect_redirect("/");
}

#[test]
fn expired_licence_allows_reading_and_export() {
    let stage = AppFixture::new();
    let before = stage.sign_in_browser();
    before.upload_files("/uploads", &[("lease.txt", b"The rent is due.")]).expect_redirect("/files/uploads");
    stage.vendor.add_script([Say::from_text("On the first day.")]);
    let path = ask_question(&before, "When is the rent due?");
    wait_for_completed_page(&before, &path);
    stage.service.run_admin_command(&[
        "licence",
        "set",
        "--account",
        &stage.account.email,
        "--until",
        "2020-01-01",
    ]);

    // The session continues, and a new one begins.
    before.get_page("/").expect_page(200);
    let browser = HttpBrowser::new(&stage.service);
    browser.sign_in(&stage.account.email, PASSWORD).expect_redirect("/");
    let told = "Asking needs a licence";
    for page in ["/", &path, "/files/uploads", "/keys", "/account", "/history"] {
        let page = browser.get_page(page).expect_page(200);
        assert!(page.contains(told) && !page.contains("class=\"composer"), "{page}");
    }
    let page = browser.get_page(&path).expect_page(200);
    assert!(page.contains("On the first day.") && !page.contains("/retry\""), "{page}");
    let export = browser.get_page(&format!("{path}/export.md"));
    assert!(export.status == 200 && export.text().contains("On the first day."), "{}", export.text());
    let archive = browser.get_page("/files/uploads?archive");
    assert_eq!(archive.status, 200);
    assert_eq!(browser.get_page("/files/uploads/lease.txt").text(), "The rent is due.");
    let csv = browser.get_page("/credits/ledger.csv");
    assert_eq!(csv.status, 200, "{}", csv.text());

    let answer = find_attribute(&page, "id=\"a-", "id").trim_start_matches("a-").to_owned();
    for (form, fields) in [
        ("/ask".to_owned(), &[("input", "And the deposit?")][..]),
        (format!("{path}/ask"), &[("input", "And the deposit?")]),
        (format!("{path}/{answer}/retry"), &[]),
        ("/machine/start".to_owned(), &[]),
        ("/keys".to_owned(), &[("name", "New"), ("read", "on")]),
        ("/workspace/folder".to_owned(), &[("folder", "/"), ("name", "New")]),
        ("/workspace/rename".to_owned(), &[("file", "/uploads/lease.txt"), ("name", "new.txt")]),
    ] {
        let refused = browser.post_form(&form, fields).expect_page(403);
        assert!(refused.contains(told), "{form}: {refused}");
    }
    browser.upload_files("/uploads", &[("new.txt", b"New.")]).expect_page(403);
    assert_eq!(stage.vendor.request_bodies().len(), 1);

    browser
        .post_form("/workspace/delete", &[("path", "/uploads/lease.txt")])
        .expect_redirect("/files/uploads?done=deleted&count=1");
    browser.post_form(&format!("{path}/delete"), &[]).expect_redirect("/");
    browser.get_page(&path).expect_page(404);
    stage.service.run_admin_command(&[
        "licence",
        "set",
        "--account",
        &stage.account.email,
        "--until",
        "2099-12-31",
    ]);
    assert!(browser.get_page("/").expect_page(200).contains("class=\"composer\""));
}

#[test]
fn key_and_session_are_not_interchangeable() {
    let stage = AppFixture::new();
    let with_key = HttpBrowser::new(&stage.service).with_request_header("x-api-key", &stage.account.key);
    with_key.get_page("/").expect_redirect("/sign-in");
    let browser = stage.sign_in_browser();
    assert_eq!(browser.get_page("/api/v1/chats").status, 401);
    let api = Api { address: stage.service.address().into(), key: stage.account.key.clone() };
    assert_eq!(api.list_chats("").json()["totalCount"], 0);
}

#[test]
fn https_cookie_is_bound_to_host() {
    let stage = AppFixture::new();
    let plain = stage.sign_in_browser();
    let origin = format!("https://{}", stage.service.address());
    let browser = HttpBrowser::new(&stage.service).with_request_header("origin", &origin);
    let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD)];
    let signed_in = browser.post_as_is("/sign-in", &fields);
    signed_in.expect_redirect("/");
    let cookie = signed_in.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with("__Host-causerie=") && cookie.contains("; Secure"), "{cookie}");
    // A cookie that was set over plain HTTP does not sign anybody in over HTTPS.
    plain.with_request_header("x-forwarded-proto", "https").get_page("/").expect_redirect("/sign-in");
    plain.get_page("/").expect_page(200);
}

#[test]
fn page_language_follows_browser_or_choice() {
    let service = TestService::start(ServiceOptions::default());
    let browser = HttpBrowser::new(&service).with_request_header("accept-language", "sk-SK,cs;q=0.8");
    assert!(browser.get_page("/sign-in").expect_page(200).contains("Prihlásiť sa"));
    browser.post_form("/language", &[("language", "cs"), ("next", "/sign-in")]).expect_redirect("/sign-in");
    let czech = browser.get_page("/sign-in").expect_page(200);
    assert!(czech.contains("lang=\"cs\"") && czech.contains("Přihlásit se"), "{czech}");
    browser.post_form("/language", &[("language", "<b>"), ("next", "//evil.example")]).expect_redirect("/");
    let account = service.create_account_with(&TestAccountOptions::default());
    assert!(browser.sign_in(&account.email, "anything at all").expect_page(401).contains("není správné"));
}

#[test]
fn unknown_path_is_page_or_json() {
    let stage = AppFixture::new();
    let browser = HttpBrowser::new(&stage.service)
        .with_request_header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    for (language, text) in [
        ("en", "This page does not exist"),
        ("cs", "Tato stránka neexistuje"),
        ("sk", "Táto stránka neexistuje"),
    ] {
        let page = browser
            .with_request_header("accept-language", language)
            .get_page("/no/such/page")
            .expect_page(404);
        assert!(page.contains(text) && page.contains(&format!("lang=\"{language}\"")), "{page}");
    }
    for (path, to) in [("/files/", "/files"), ("/keys/", "/keys"), ("/docs/", "/docs")] {
        let led = browser.get_page(path);
        assert_eq!((led.status, led.header("location")), (308, Some(to)), "a slash at the end is no matter");
    }
    let program = HttpBrowser::new(&stage.service);
    for (path, accept) in
        [("/no/such/page", "*/*"), ("/no/such/page", "application/json"), ("/api", "text/html")]
    {
        let answer = program.with_request_header("accept", accept).get_page(path);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("NOT_FOUND")), "{path}");
    }
    assert_eq!(
        browser.get_page("/api/v1/none").status,
        401,
        "without a key, paths of the interface look alike"
    );
}
