//! Signing in and out, and what only a signed-in user sees.

use conformance::{Api, NewAccount, Options, Say, Service};

use crate::browser::{Browser, PASSWORD, Page, Stage, account_with_password, attribute};
use crate::conversations::{ask, completed};

#[test]
fn a_session_begins_with_the_password_and_ends_with_signing_out() {
    let stage = Stage::new();
    let browser = Browser::new(&stage.service);
    browser.get("/").expect_redirect("/sign-in");
    browser.get("/keys").expect_redirect("/sign-in?next=/keys");
    let form = browser.get("/sign-in?next=/keys").expect_page(200);
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
    browser.post("/sign-in", &fields).expect_redirect("/keys");
    assert!(browser.get("/").expect_page(200).contains(&stage.account.email));
    browser.get("/sign-in").expect_redirect("/");
    let secret = browser.cookie("causerie-session").expect("a cookie");
    let thief = browser.with("x-test", "a copy of the cookie");
    browser.post("/sign-out", &[]).expect_redirect("/sign-in");
    assert_eq!(browser.cookie("causerie-session"), None);
    browser.get("/").expect_redirect("/sign-in");
    assert_eq!(thief.cookie("causerie-session"), Some(secret.clone()));
    thief.get("/").expect_redirect("/sign-in");
    let audit = stage.service.admin(&["audit", "list"]).to_string();
    assert!(audit.contains("sign in") && audit.contains("sign out"), "{audit}");
    assert!(!stage.service.log().contains(&secret) && !audit.contains(&secret));
}

#[test]
fn signing_in_and_choosing_a_language_lead_back_to_the_page() {
    let stage = Stage::new();
    let browser = Browser::new(&stage.service);
    let page = "/files/uploads/a%20b.txt?view&page=2";
    browser.get(page).expect_redirect("/sign-in?next=/files/uploads/a%2520b.txt?view%26page=2");
    let form = browser.get("/sign-in?next=/files/uploads/a%2520b.txt?view%26page=2").expect_page(200);
    assert_eq!(form.matches(&format!("value=\"{}\"", page.replace('&', "&#38;"))).count(), 2, "{form}");
    browser.post("/language", &[("language", "cs"), ("next", page)]).expect_redirect(page);
    let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD), ("next", page)];
    browser.post("/sign-in", &fields).expect_redirect(page);
    let history = browser.get("/history?q=rent&page=2").expect_page(200);
    assert!(history.contains("name=\"next\" value=\"/history?q=rent&#38;page=2\""), "{history}");

    // A form that comes too late says why nothing was done, and leads back to its page.
    let late = Browser::new(&stage.service);
    let conversation = "/c/0190c8a0-0000-7000-8000-000000000000";
    let answer = late.post(&format!("{conversation}/ask"), &[("input", "Hello")]);
    answer.expect_redirect(&format!("/sign-in?next={conversation}&done=ended"));
    let form = late.get("/sign-in?done=ended").expect_page(200);
    assert!(form.contains("Your session has ended. Sign in again."), "{form}");
    // What a refused form leaves in the address bar leads to its page.
    browser.get("/ask").expect_redirect("/");
    browser.get(&format!("{conversation}/ask")).expect_redirect(conversation);
    assert_eq!(browser.get("/account/email").header("location"), Some("/account"));
}

#[test]
fn nobody_is_sent_to_another_site_after_signing_in() {
    let stage = Stage::new();
    for next in
        ["https://evil.example/", "//evil.example", "/\\evil.example", "/sign-in", "javascript:alert(1)"]
    {
        let browser = Browser::new(&stage.service);
        let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD), ("next", next)];
        browser.post("/sign-in", &fields).expect_redirect("/");
    }
}

#[test]
fn guesses_are_throttled_for_an_email_and_for_an_address() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service = Service::start(Options { environment: vec![trust], ..Options::default() });
    let (victim, other) = (account_with_password(&service), account_with_password(&service));
    let browser = Browser::new(&service);
    let guess = |email: &str| browser.sign_in(email, "wrong horse").status;
    let guesses: Vec<_> = (0..11).map(|_| guess(&victim.email)).collect();
    assert_eq!((&guesses[..10], guesses[10]), ([401; 10].as_slice(), 429), "{guesses:?}");
    let right = browser.sign_in(&victim.email, PASSWORD);
    assert_eq!(right.status, 429, "the right password is not compared either");
    let wait: u64 = right.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a time to wait");
    assert!((1..=30).contains(&wait), "{wait}");
    let elsewhere = Browser::new(&service).with("x-forwarded-for", "192.0.2.1");
    elsewhere.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    browser.sign_in(&other.email, PASSWORD).expect_redirect("/");
    let guesses: Vec<_> = (0..20).map(|number| guess(&format!("{number}@example.test"))).collect();
    assert!(guesses.contains(&429), "one address cannot try many emails: {guesses:?}");
}

#[test]
fn owners_sign_in_with_their_browser_while_others_guess() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service = Service::start(Options { environment: vec![trust], ..Options::default() });
    let victim = account_with_password(&service);
    let owner = Browser::new(&service).with("x-forwarded-for", "192.0.2.250");
    owner.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    owner.post("/sign-out", &[]).expect_redirect("/sign-in");
    assert!(owner.cookie("causerie-known").is_some(), "it stays when the session ends");
    let from = |number: u32| Browser::new(&service).with("x-forwarded-for", &format!("198.51.100.{number}"));
    let guesses: Vec<_> =
        (0..120).map(|number| from(number).sign_in(&victim.email, "wrong").status).collect();
    assert!(guesses.contains(&429), "{guesses:?}");
    from(250).sign_in(&victim.email, PASSWORD).expect_page(429);
    owner.sign_in(&victim.email, PASSWORD).expect_redirect("/");
    // What the browser keeps opens nothing, and is good for its own account only.
    let other = account_with_password(&service);
    assert_eq!(owner.sign_in(&other.email, "wrong").status, 401);
    let guesses: Vec<_> = (0..11).map(|_| owner.sign_in(&victim.email, "wrong").status).collect();
    assert!(guesses.contains(&401) && guesses.contains(&429), "{guesses:?}");
}

#[test]
fn networks_of_one_customer_share_their_guesses() {
    let trust = ("CAUSERIE_RATE_TRUSTED_PROXIES".to_owned(), "127.0.0.1".to_owned());
    let service = Service::start(Options { environment: vec![trust], ..Options::default() });
    let from = |network: u32, number: u32| {
        let address = format!("2001:db8:{network:x}:{number:x}::1");
        let email = format!("{network}-{number}@example.test");
        Browser::new(&service).with("x-forwarded-for", &address).sign_in(&email, "wrong").status
    };
    // Each guess comes from another /64 of one /56.
    let guesses: Vec<_> = (0..200).map(|number| from(1, number)).collect();
    assert!(guesses[..80].iter().all(|status| *status == 401), "{guesses:?}");
    assert!(guesses.contains(&429), "{guesses:?}");
    assert_eq!(from(2, 0), 401, "another customer is not concerned");
}

#[test]
fn a_form_of_another_site_changes_nothing() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("x-nothing", "at all"),
    ] {
        for path in ["/ask", "/keys", "/machine/start", "/sign-out", "/sign-in", "/language"] {
            let refused =
                browser.with(name, value).post_as_is(path, &[("input", "Forged"), ("name", "forged")]);
            refused.expect_page(403);
        }
    }
    let page = browser.get("/keys").expect_page(200);
    assert!(!page.contains("Forged") && !page.contains("forged"), "{page}");
}

#[test]
fn a_session_ends_with_the_password() {
    let stage = Stage::new();
    let (first, second) = (stage.signed_in(), Browser::new(&stage.service));
    let arguments = ["account", "set-password", "--account", &stage.account.email, "--password-stdin"];
    let set = stage.service.try_admin_typing(&arguments, b"another horse\n");
    assert!(set.status.success());
    first.get("/").expect_redirect("/sign-in");
    assert_eq!(second.sign_in(&stage.account.email, PASSWORD).status, 401);
    second.sign_in(&stage.account.email, "another horse").expect_redirect("/");
}

#[test]
fn an_owner_without_a_licence_reads_exports_and_deletes_and_asks_nothing() {
    let stage = Stage::new();
    let before = stage.signed_in();
    before.upload("/uploads", &[("lease.txt", b"The rent is due.")]).expect_redirect("/files/uploads");
    stage.vendor.will([Say::text("On the first day.")]);
    let path = ask(&before, "When is the rent due?");
    completed(&before, &path);
    stage.service.admin(&["licence", "set", "--account", &stage.account.email, "--until", "2020-01-01"]);

    // The session goes on, and a new one begins.
    before.get("/").expect_page(200);
    let browser = Browser::new(&stage.service);
    browser.sign_in(&stage.account.email, PASSWORD).expect_redirect("/");
    let told = "Asking needs a licence";
    for page in ["/", &path, "/files/uploads", "/keys", "/account", "/history"] {
        let page = browser.get(page).expect_page(200);
        assert!(page.contains(told) && !page.contains("class=\"composer"), "{page}");
    }
    let page = browser.get(&path).expect_page(200);
    assert!(page.contains("On the first day.") && !page.contains("/retry\""), "{page}");
    let export = browser.get(&format!("{path}/export.md"));
    assert!(export.status == 200 && export.text().contains("On the first day."), "{}", export.text());
    let archive = browser.get("/files/uploads?archive");
    assert_eq!(archive.status, 200);
    assert_eq!(browser.get("/files/uploads/lease.txt").text(), "The rent is due.");
    let csv = browser.get("/credits/ledger.csv");
    assert_eq!(csv.status, 200, "{}", csv.text());

    let answer = attribute(&page, "id=\"a-", "id").trim_start_matches("a-").to_owned();
    for (form, fields) in [
        ("/ask".to_owned(), &[("input", "And the deposit?")][..]),
        (format!("{path}/ask"), &[("input", "And the deposit?")]),
        (format!("{path}/{answer}/retry"), &[]),
        ("/machine/start".to_owned(), &[]),
        ("/keys".to_owned(), &[("name", "New"), ("read", "on")]),
        ("/workspace/folder".to_owned(), &[("folder", "/"), ("name", "New")]),
        ("/workspace/rename".to_owned(), &[("file", "/uploads/lease.txt"), ("name", "new.txt")]),
    ] {
        let refused = browser.post(&form, fields).expect_page(403);
        assert!(refused.contains(told), "{form}: {refused}");
    }
    browser.upload("/uploads", &[("new.txt", b"New.")]).expect_page(403);
    assert_eq!(stage.vendor.requests().len(), 1);

    browser.post("/workspace/delete", &[("path", "/uploads/lease.txt")]).expect_redirect("/files/uploads");
    browser.post(&format!("{path}/delete"), &[]).expect_redirect("/");
    browser.get(&path).expect_page(404);
    stage.service.admin(&["licence", "set", "--account", &stage.account.email, "--until", "2099-12-31"]);
    assert!(browser.get("/").expect_page(200).contains("class=\"composer\""));
}

#[test]
fn a_key_opens_no_page_and_a_session_no_operation_of_the_interface() {
    let stage = Stage::new();
    let with_key = Browser::new(&stage.service).with("x-api-key", &stage.account.key);
    with_key.get("/").expect_redirect("/sign-in");
    let browser = stage.signed_in();
    assert_eq!(browser.get("/api/v1/chats").status, 401);
    let api = Api { address: stage.service.address().into(), key: stage.account.key.clone() };
    assert_eq!(api.chats("").json()["totalCount"], 0);
}

#[test]
fn over_https_the_cookie_is_bound_to_the_host() {
    let stage = Stage::new();
    let plain = stage.signed_in();
    let origin = format!("https://{}", stage.service.address());
    let browser = Browser::new(&stage.service).with("origin", &origin);
    let fields = [("email", stage.account.email.as_str()), ("password", PASSWORD)];
    let signed_in = browser.post_as_is("/sign-in", &fields);
    signed_in.expect_redirect("/");
    let cookie = signed_in.header("set-cookie").expect("a cookie");
    assert!(cookie.starts_with("__Host-causerie=") && cookie.contains("; Secure"), "{cookie}");
    // A cookie that was set over plain HTTP does not sign anybody in over HTTPS.
    plain.with("x-forwarded-proto", "https").get("/").expect_redirect("/sign-in");
    plain.get("/").expect_page(200);
}

#[test]
fn pages_speak_the_language_of_the_browser_or_the_chosen_one() {
    let service = Service::start(Options::default());
    let browser = Browser::new(&service).with("accept-language", "sk-SK,cs;q=0.8");
    assert!(browser.get("/sign-in").expect_page(200).contains("Prihlásiť sa"));
    browser.post("/language", &[("language", "cs"), ("next", "/sign-in")]).expect_redirect("/sign-in");
    let czech = browser.get("/sign-in").expect_page(200);
    assert!(czech.contains("lang=\"cs\"") && czech.contains("Přihlásit se"), "{czech}");
    browser.post("/language", &[("language", "<b>"), ("next", "//evil.example")]).expect_redirect("/");
    let account = service.account_as(&NewAccount::default());
    assert!(browser.sign_in(&account.email, "anything at all").expect_page(401).contains("není správné"));
}

#[test]
fn an_unknown_path_is_a_page_to_browsers_and_json_to_programs() {
    let stage = Stage::new();
    let browser = Browser::new(&stage.service)
        .with("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");
    for (language, text) in [
        ("en", "This page does not exist"),
        ("cs", "Tato stránka neexistuje"),
        ("sk", "Táto stránka neexistuje"),
    ] {
        let page = browser.with("accept-language", language).get("/no/such/page").expect_page(404);
        assert!(page.contains(text) && page.contains(&format!("lang=\"{language}\"")), "{page}");
    }
    for (path, to) in [("/files/", "/files"), ("/keys/", "/keys"), ("/docs/", "/docs")] {
        let led = browser.get(path);
        assert_eq!((led.status, led.header("location")), (308, Some(to)), "a slash at the end is no matter");
    }
    let program = Browser::new(&stage.service);
    for (path, accept) in
        [("/no/such/page", "*/*"), ("/no/such/page", "application/json"), ("/api", "text/html")]
    {
        let answer = program.with("accept", accept).get(path);
        assert_eq!((answer.status, answer.json()["code"].as_str()), (404, Some("NOT_FOUND")), "{path}");
    }
    assert_eq!(browser.get("/api/v1/none").status, 401, "without a key, paths of the interface look alike");
}
