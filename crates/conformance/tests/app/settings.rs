//! Email, password, sessions, the ledger, what is known of the machine.

use crate::browser::{Browser, PASSWORD, Page, Stage, account_with_password, attribute};
use crate::conversations::{ask, completed};
use crate::hostile::{PAYLOADS, assert_harmless};

const NEW_PASSWORD: &str = "battery staple";

fn passwords<'a>(present: &'a str, new: &'a str, again: &'a str) -> [(&'static str, &'a str); 3] {
    [("password", present), ("new", new), ("again", again)]
}

#[test]
fn a_password_is_changed_with_the_present_one_and_ends_other_sessions() {
    let stage = Stage::new();
    let (browser, other) = (stage.signed_in(), stage.signed_in());
    for (fields, status, reason) in [
        (passwords("wrong password", NEW_PASSWORD, NEW_PASSWORD), 403, "The current password is wrong."),
        (passwords(PASSWORD, NEW_PASSWORD, "battery stable"), 400, "are not the same"),
        (passwords(PASSWORD, "short", "short"), 400, "8 to 1,024 bytes"),
    ] {
        let page = browser.post("/account/password", &fields).expect_page(status);
        assert!(page.contains(reason) && !page.contains(NEW_PASSWORD), "{page}");
    }
    browser.get("/account").expect_page(200);
    let changed = browser.post("/account/password", &passwords(PASSWORD, NEW_PASSWORD, NEW_PASSWORD));
    changed.expect_redirect("/account?done=password");
    assert!(browser.get("/account?done=password").expect_page(200).contains("The password was changed"));
    other.get("/account").expect_redirect("/sign-in?next=/account");
    let fresh = Browser::new(&stage.service);
    fresh.sign_in(&stage.account.email, PASSWORD).expect_page(401);
    fresh.sign_in(&stage.account.email, NEW_PASSWORD).expect_redirect("/");
    let audit = stage.service.admin(&["audit", "list"]).to_string();
    assert!(audit.contains("change password") && !audit.contains(NEW_PASSWORD), "{audit}");
}

#[test]
fn an_email_is_changed_with_the_password_and_signs_in() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let taken = account_with_password(&stage.service).email.to_uppercase();
    let change = |email: &str, password: &str| {
        browser.post("/account/email", &[("email", email), ("password", password)])
    };
    for (email, password, status, reason) in [
        ("new@example.org", "wrong password", 403, "The current password is wrong."),
        (taken.as_str(), PASSWORD, 409, "Another account has this email."),
        ("no address", PASSWORD, 400, "not an email address"),
    ] {
        let page = change(email, password).expect_page(status);
        assert!(page.contains(reason) && page.contains(&format!("value=\"{email}\"")), "{page}");
    }
    change("New.Ada@example.org", PASSWORD).expect_redirect("/account?done=email");
    assert!(browser.get("/").expect_page(200).contains("New.Ada@example.org"), "the session goes on");
    let fresh = Browser::new(&stage.service);
    fresh.sign_in(&stage.account.email, PASSWORD).expect_page(401);
    fresh.sign_in("new.ada@example.org", PASSWORD).expect_redirect("/");
    assert_harmless(&change(PAYLOADS[2], PASSWORD).expect_page(400));
}

#[test]
fn guessing_the_password_in_a_session_is_throttled() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    let guess =
        || browser.post("/account/email", &[("email", "x@example.org"), ("password", "wrong password")]);
    for _ in 0..10 {
        guess().expect_page(403);
    }
    let throttled = guess();
    assert!(throttled.header("retry-after").is_some());
    throttled.expect_page(429);
    browser.get("/account").expect_page(200);
}

#[test]
fn signing_out_everywhere_ends_every_session_and_keeps_keys() {
    let stage = Stage::new();
    let (browser, other) = (stage.signed_in(), stage.signed_in());
    browser.post("/account/sign-out-everywhere", &[]).expect_redirect("/sign-in");
    for ended in [&browser, &other] {
        ended.get("/account").expect_redirect("/sign-in?next=/account");
    }
    assert_eq!(stage.service.api(&stage.account).chats("").status, 200);
    stage.signed_in().get("/account").expect_page(200);
}

#[test]
fn open_sessions_are_listed_and_ended_one_by_one() {
    let stage = Stage::new();
    let signed_in = |user_agent: &str, email: &str| {
        let browser = Browser::new(&stage.service).with("user-agent", user_agent);
        browser.sign_in(email, PASSWORD).expect_redirect("/");
        browser
    };
    let email = stage.account.email.as_str();
    let here = signed_in("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", email);
    let phone = signed_in("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", email);
    let page = here.get("/account").expect_page(200);
    for text in ["Firefox · Linux <span class=\"tag\">this one</span>", "Safari · iPhone</h3>"] {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert_eq!(page.matches("/end\"").count(), 1, "the present one is ended by signing out: {page}");
    let end = attribute(&page, "action=\"/account/sessions/", "action");
    let stranger = signed_in("curl/8", &account_with_password(&stage.service).email);
    assert!(stranger.get("/account").expect_page(200).contains("Unknown browser"));
    stranger.post(&end, &[]).expect_redirect("/account?done=session");
    phone.get("/account").expect_page(200);
    here.post(&end, &[]).expect_redirect("/account?done=session");
    phone.get("/account").expect_redirect("/sign-in?next=/account");
    let page = here.get("/account?done=session").expect_page(200);
    assert!(page.contains("The session was ended.") && !page.contains("Safari"), "{page}");
    here.post("/account/sessions/x/end", &[]).expect_page(404);
    let audit = stage.service.admin(&["audit", "list"]).to_string();
    let ended = end.trim_start_matches("/account/sessions/").trim_end_matches("/end");
    assert_eq!(audit.matches("\"sign out\"").count(), 1, "a stranger's attempt ended nothing: {audit}");
    assert!(audit.contains(ended), "{audit}");
}

#[test]
fn the_ledger_is_shown_entry_by_entry_and_as_csv() {
    let stage = Stage::new();
    let (browser, api) = (stage.signed_in(), stage.service.api(&stage.account));
    assert!(browser.get("/credits/ledger").expect_page(200).contains("Granted"));
    let path = ask(&browser, "Hello");
    completed(&browser, &path);
    api.completed(&api.ask("Hello again"));
    let page = browser.get("/credits/ledger").expect_page(200);
    for text in ["Reserved", "Settled", "Released", "10,000", &format!("href=\"{path}\"")] {
        assert!(page.contains(text), "{text} in {page}");
    }
    let csv = browser.get("/credits/ledger.csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.header("content-disposition").is_some_and(|shown| shown.starts_with("attachment")));
    let text = csv.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("time,kind,credits,balance,reserved,model"), "{text}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{text}");
    assert!(lines.last().is_some_and(|line| line.contains(",grant,10000,10000,0,")), "{text}");
    let (balance, _) = stage.service.credits(&stage.account);
    assert!(lines[1].contains(&format!(",{balance},0,")), "the newest entry has the balance: {text}");
    let credits = browser.get("/credits").expect_page(200);
    assert!(credits.contains("By key") && credits.contains("The application"), "{credits}");
    assert_eq!(credits.matches("<rect ").count(), 30, "a bar for each day");
    assert!(credits.contains("When the licence ends"), "{credits}");
}

#[test]
fn a_long_ledger_has_pages() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    for _ in 0..100 {
        stage.service.admin(&["credits", "grant", "--account", &stage.account.email, "1"]);
    }
    let first = browser.get("/credits/ledger").expect_page(200);
    assert_eq!(first.matches("Granted").count(), 100);
    let second = browser.get(&attribute(&first, "rel=\"next\"", "href")).expect_page(200);
    assert_eq!(second.matches("Granted").count(), 1);
    assert_eq!(attribute(&second, "rel=\"prev\"", "href"), "/credits/ledger?from=0");
    assert_eq!(browser.get("/credits/ledger.csv").text().lines().count(), 102);
}

#[test]
fn the_machine_tells_its_driver_and_the_size_of_the_workspace() {
    let stage = Stage::new();
    let browser = stage.signed_in();
    browser.upload("/uploads", &[("a.txt", &[b'x'; 5000])]).expect_redirect("/files/uploads");
    let page = browser.get("/machine").expect_page(200);
    assert!(page.contains("<dt>Driver</dt>") && page.contains("<dt>Isolation</dt>"), "{page}");
    assert!(page.contains("5 kB") || page.contains("5\u{a0}kB"), "{page}");
    browser.post("/machine/start", &[]).expect_redirect("/machine");
    for (language, reason) in [
        ("en", "A start was requested"),
        ("cs", "Bylo vyžádáno spuštění"),
        ("sk", "Bolo vyžiadané spustenie"),
    ] {
        let page = browser.with("accept-language", language).get("/machine").expect_page(200);
        assert!(page.contains(&format!("<dd>{reason}</dd>")), "{page}");
    }
}

#[test]
fn an_account_is_deleted_with_its_password_once_its_owner_is_sure() {
    let stage = Stage::new();
    let (browser, other) = (stage.signed_in(), stage.signed_in());
    let kept = account_with_password(&stage.service);
    completed(&browser, &ask(&browser, "Hello"));
    let page = browser.get("/account").expect_page(200);
    assert!(page.contains("action=\"/account/delete\"") && page.contains("credits that are left"), "{page}");
    for (fields, status, reason) in [
        ([("password", PASSWORD), ("sure", "")], 400, "Confirm that nothing can be restored."),
        ([("password", "wrong password"), ("sure", "on")], 403, "The current password is wrong."),
    ] {
        let page = browser.post("/account/delete", &fields).expect_page(status);
        assert!(page.contains(reason), "{page}");
    }
    browser.get("/history").expect_page(200);
    let deleted = browser.post("/account/delete", &[("password", PASSWORD), ("sure", "on")]);
    deleted.expect_redirect("/sign-in?done=deleted");
    assert!(browser.get("/sign-in?done=deleted").expect_page(200).contains("The account was deleted."));
    other.get("/history").expect_redirect("/sign-in?next=/history");
    Browser::new(&stage.service).sign_in(&stage.account.email, PASSWORD).expect_page(401);
    assert_eq!(stage.service.api(&stage.account).chats("").status, 401);
    let fresh = Browser::new(&stage.service);
    fresh.sign_in(&kept.email, PASSWORD).expect_redirect("/");
    fresh.get("/history").expect_page(200);
}
