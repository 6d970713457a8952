//! Email, password, sessions, the ledger, and the state of the machine.

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};
use crate::conversations::{ask_question, wait_for_completed_page};
use crate::hostile::{PAYLOADS, assert_harmless};

const NEW_PASSWORD: &str = "battery staple";

fn password_fields<'a>(present: &'a str, new: &'a str, again: &'a str) -> [(&'static str, &'a str); 3] {
    [("password", present), ("new", new), ("again", again)]
}

#[test]
fn password_change_ends_other_sessions() {
    let stage = AppFixture::new();
    let (browser, other) = (stage.sign_in_browser(), stage.sign_in_browser());
    for (fields, status, reason) in [
        (
            password_fields("wrong password", NEW_PASSWORD, NEW_PASSWORD),
            403,
            "The current password is wrong.",
        ),
        (password_fields(PASSWORD, NEW_PASSWORD, "battery stable"), 400, "are not the same"),
        (password_fields(PASSWORD, "short", "short"), 400, "8 to 1,024 bytes"),
    ] {
        let page = browser.post_form("/account/password", &fields).expect_page(status);
        assert!(page.contains(reason) && !page.contains(NEW_PASSWORD), "{page}");
    }
    browser.get_page("/account").expect_page(200);
    let changed =
        browser.post_form("/account/password", &password_fields(PASSWORD, NEW_PASSWORD, NEW_PASSWORD));
    changed.expect_redirect("/account?done=password");
    assert!(browser.get_page("/account?done=password").expect_page(200).contains("The password was changed"));
    other.get_page("/account").expect_redirect("/sign-in?next=/account");
    let fresh = HttpBrowser::new(&stage.service);
    fresh.sign_in(&stage.account.email, PASSWORD).expect_page(401);
    fresh.sign_in(&stage.account.email, NEW_PASSWORD).expect_redirect("/");
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("change password") && !audit.contains(NEW_PASSWORD), "{audit}");
}

#[test]
fn email_change_needs_password() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let taken = account_with_password(&stage.service).email.to_uppercase();
    let change = |email: &str, password: &str| {
        browser.post_form("/account/email", &[("email", email), ("password", password)])
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
    assert!(browser.get_page("/").expect_page(200).contains("New.Ada@example.org"), "the session goes on");
    let fresh = HttpBrowser::new(&stage.service);
    fresh.sign_in(&stage.account.email, PASSWORD).expect_page(401);
    fresh.sign_in("new.ada@example.org", PASSWORD).expect_redirect("/");
    assert_harmless(&change(PAYLOADS[2], PASSWORD).expect_page(400));
}

#[test]
fn password_guesses_in_session_throttled() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    let guess =
        || browser.post_form("/account/email", &[("email", "x@example.org"), ("password", "wrong password")]);
    for _ in 0..10 {
        guess().expect_page(403);
    }
    let throttled = guess();
    assert!(throttled.header("retry-after").is_some());
    throttled.expect_page(429);
    browser.get_page("/account").expect_page(200);
}

#[test]
fn sign_out_everywhere_keeps_keys() {
    let stage = AppFixture::new();
    let (browser, other) = (stage.sign_in_browser(), stage.sign_in_browser());
    browser.post_form("/account/sign-out-everywhere", &[]).expect_redirect("/sign-in");
    for ended in [&browser, &other] {
        ended.get_page("/account").expect_redirect("/sign-in?next=/account");
    }
    assert_eq!(stage.service.api_for(&stage.account).list_chats("").status, 200);
    stage.sign_in_browser().get_page("/account").expect_page(200);
}

#[test]
fn open_sessions_listed_and_ended() {
    let stage = AppFixture::new();
    let signed_in = |user_agent: &str, email: &str| {
        let browser = HttpBrowser::new(&stage.service).with_request_header("user-agent", user_agent);
        browser.sign_in(email, PASSWORD).expect_redirect("/");
        browser
    };
    let email = stage.account.email.as_str();
    let here = signed_in("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", email);
    let phone = signed_in("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", email);
    let page = here.get_page("/account").expect_page(200);
    for text in ["Firefox · Linux <span class=\"tag\">this one</span>", "Safari · iPhone</h3>"] {
        assert!(page.contains(text), "{text} in {page}");
    }
    assert_eq!(page.matches("/end\"").count(), 1, "the present one is ended by signing out: {page}");
    let end = find_attribute(&page, "action=\"/account/sessions/", "action");
    let stranger = signed_in("curl/8", &account_with_password(&stage.service).email);
    assert!(stranger.get_page("/account").expect_page(200).contains("Unknown browser"));
    stranger.post_form(&end, &[]).expect_redirect("/account?done=session");
    phone.get_page("/account").expect_page(200);
    here.post_form(&end, &[]).expect_redirect("/account?done=session");
    phone.get_page("/account").expect_redirect("/sign-in?next=/account");
    let page = here.get_page("/account?done=session").expect_page(200);
    assert!(page.contains("The session was ended.") && !page.contains("Safari"), "{page}");
    here.post_form("/account/sessions/x/end", &[]).expect_page(404);
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    let ended = end.trim_start_matches("/account/sessions/").trim_end_matches("/end");
    assert_eq!(audit.matches("\"sign out\"").count(), 1, "a stranger's attempt ended nothing: {audit}");
    assert!(audit.contains(ended), "{audit}");
}

#[test]
fn ledger_shown_and_exported_as_csv() {
    let stage = AppFixture::new();
    let (browser, api) = (stage.sign_in_browser(), stage.service.api_for(&stage.account));
    assert!(browser.get_page("/credits/ledger").expect_page(200).contains("Granted"));
    let path = ask_question(&browser, "Hello");
    wait_for_completed_page(&browser, &path);
    api.wait_for_completion(&api.ask_question("Hello again"));
    let page = browser.get_page("/credits/ledger").expect_page(200);
    for text in
        ["Reserved", ">Spent</td><td class=\"number\">", "Released", "10,000", &format!("href=\"{path}\"")]
    {
        assert!(page.contains(text), "{text} in {page}");
    }
    let csv = browser.get_page("/credits/ledger.csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.header("content-disposition").is_some_and(|shown| shown.starts_with("attachment")));
    let text = csv.text();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("time,kind,credits,balance,reserved,model"), "{text}");
    let columns = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == columns), "{text}");
    assert!(lines.last().is_some_and(|line| line.contains(",grant,10000,10000,0,")), "{text}");
    let (balance, _) = stage.service.show_credits(&stage.account);
    assert!(lines[1].contains(&format!(",{balance},0,")), "the newest entry has the balance: {text}");
    let credits = browser.get_page("/credits").expect_page(200);
    assert!(credits.contains("By key") && credits.contains("The application"), "{credits}");
    assert_eq!(credits.matches("<rect ").count(), 30, "a bar for each day");
    assert!(credits.contains("When the licence ends") && credits.contains("midnight UTC"), "{credits}");
}

#[test]
fn a_long_ledger_has_pages() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    for _ in 0..100 {
        stage.service.run_admin_command(&["credits", "grant", "--account", &stage.account.email, "1"]);
    }
    let first = browser.get_page("/credits/ledger").expect_page(200);
    assert_eq!(first.matches("Granted").count(), 100);
    let second = browser.get_page(&find_attribute(&first, "rel=\"next\"", "href")).expect_page(200);
    assert_eq!(second.matches("Granted").count(), 1);
    assert_eq!(find_attribute(&second, "rel=\"prev\"", "href"), "/credits/ledger?from=0");
    assert_eq!(browser.get_page("/credits/ledger.csv").text().lines().count(), 102);
}

#[test]
fn machine_settings_show_driver_and_usage() {
    let stage = AppFixture::new();
    let browser = stage.sign_in_browser();
    browser.upload_files("/uploads", &[("a.txt", &[b'x'; 5000])]).expect_redirect("/files/uploads");
    let page = browser.get_page("/machine").expect_page(200);
    assert!(page.contains("<dt>Driver</dt>") && page.contains("<dt>Isolation</dt>"), "{page}");
    assert!(page.contains("5 kB") || page.contains("5\u{a0}kB"), "{page}");
    browser.post_form("/machine/start", &[]).expect_redirect("/machine");
    for (language, reason) in [
        ("en", "A start was requested"),
        ("cs", "Bylo vyžádáno spuštění"),
        ("sk", "Bolo vyžiadané spustenie"),
    ] {
        let page =
            browser.with_request_header("accept-language", language).get_page("/machine").expect_page(200);
        assert!(page.contains(&format!("<dd>{reason}</dd>")), "{page}");
    }
}

#[test]
fn account_deletion_needs_password_and_confirmation() {
    let stage = AppFixture::new();
    let (browser, other) = (stage.sign_in_browser(), stage.sign_in_browser());
    let kept = account_with_password(&stage.service);
    wait_for_completed_page(&browser, &ask_question(&browser, "Hello"));
    let page = browser.get_page("/account").expect_page(200);
    assert!(page.contains("action=\"/account/delete\"") && page.contains("credits that are left"), "{page}");
    for (fields, status, reason) in [
        ([("password", PASSWORD), ("sure", "")], 400, "Confirm that nothing can be restored."),
        ([("password", "wrong password"), ("sure", "on")], 403, "The current password is wrong."),
    ] {
        let page = browser.post_form("/account/delete", &fields).expect_page(status);
        assert!(page.contains(reason), "{page}");
    }
    browser.get_page("/history").expect_page(200);
    let deleted = browser.post_form("/account/delete", &[("password", PASSWORD), ("sure", "on")]);
    deleted.expect_redirect("/sign-in?done=deleted");
    assert!(browser.get_page("/sign-in?done=deleted").expect_page(200).contains("The account was deleted."));
    other.get_page("/history").expect_redirect("/sign-in?next=/history");
    HttpBrowser::new(&stage.service).sign_in(&stage.account.email, PASSWORD).expect_page(401);
    assert_eq!(stage.service.api_for(&stage.account).list_chats("").status, 401);
    let fresh = HttpBrowser::new(&stage.service);
    fresh.sign_in(&kept.email, PASSWORD).expect_redirect("/");
    fresh.get_page("/history").expect_page(200);
}
