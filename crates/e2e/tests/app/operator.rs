//! The pages of operators.

use e2e::crawl::crawl_pages;
use e2e::{ScriptedVendor, ServiceOptions, TestService, poll};

use crate::browser::{
    AppFixture, HttpBrowser, PASSWORD, PageAssertions, account_with_password, find_attribute,
};

/// A stage whose owner is an operator, and another account.
fn operator_fixture() -> (AppFixture, HttpBrowser, e2e::TestAccount) {
    let stage = AppFixture::new();
    let arguments = ["account", "set-role", "--account", &stage.account.email, "--role", "operator"];
    assert_eq!(stage.service.run_admin_command(&arguments)["role"], "operator");
    let (browser, other) = (stage.sign_in_browser(), account_with_password(&stage.service));
    (stage, browser, other)
}

#[test]
fn operator_changes_licence_and_credits() {
    let (stage, browser, other) = operator_fixture();
    let page = browser.get_page("/operator").expect_page(200);
    assert!(page.contains(&stage.account.email) && page.contains(&other.email), "{page}");
    assert!(page.contains(&stage.vendor.base_url()), "the vendors' health is shown: {page}");
    assert!(
        browser.get_page("/readyz?verbose").text().contains("\"reason\""),
        "an operator reads the reasons of checks"
    );
    let path = format!("/operator/accounts/{}", other.id);
    browser.get_page(&format!("/operator?account={}", other.email)).expect_redirect(&path);
    browser.get_page("/operator?account=nobody@example.test").expect_page(404);
    assert!(browser.get_page(&path).expect_page(200).contains(">10,000<"));
    let page = browser.get_page(&path).expect_page(200);
    let once = find_attribute(&page, "name=\"once\"", "value");
    for _ in 0..2 {
        // A double click sends the form twice.
        let form = [("amount", "500"), ("once", &*once)];
        browser.post_form(&format!("{path}/credits"), &form).expect_redirect(&path);
    }
    // Going back and correcting the amount also grants the new amount.
    let corrected = [("amount", "1000"), ("once", &*once)];
    browser.post_form(&format!("{path}/credits"), &corrected).expect_redirect(&path);
    assert_eq!(stage.service.show_credits(&other).0, 11_500);
    browser.post_form(&format!("{path}/licence"), &[("until", "2098-01-31")]).expect_redirect(&path);
    let page = browser.get_page(&path).expect_page(200);
    assert!(page.contains(">11,500<") && page.contains("31 Jan 2098"), "{page}");
    assert_eq!(stage.service.show_credits(&other).0, 11_500);
    for (change, field, value) in [
        ("credits", "amount", "0"),
        ("credits", "amount", "-1"),
        ("credits", "amount", "many"),
        ("licence", "until", "soon"),
    ] {
        let refused = browser.post_form(&format!("{path}/{change}"), &[(field, value)]);
        refused.expect_page(400);
    }
    assert_eq!(stage.service.show_credits(&other).0, 11_500);
    let audit = browser.get_page("/operator/audit").expect_page(200);
    assert!(audit.contains(">Grant credits<") && audit.contains(">Set licence<"), "{audit}");
    for (language, granted) in [("cs", "Připsání kreditů"), ("sk", "Pripísanie kreditov")] {
        let audit = browser
            .with_request_header("accept-language", language)
            .get_page("/operator/audit")
            .expect_page(200);
        assert!(audit.contains(&format!(">{granted}<")) && !audit.contains("Grant"), "{language}: {audit}");
    }
    let noted = stage.service.run_admin_command(&["audit", "list"]);
    let grant =
        noted["entries"].as_array().expect("entries").iter().find(|it| it["action"] == "grant credits");
    assert_eq!(grant.expect("an entry")["actor"], stage.account.email, "in the operator's name");
}

#[test]
fn operator_creates_account_with_role() {
    let (stage, browser, other) = operator_fixture();
    let new =
        [("email", "new@example.test"), ("until", "2098-01-31"), ("credits", "700"), ("password", PASSWORD)];
    let made = browser.post_form("/operator/accounts", &new);
    let path = made.header("location").expect("its page").to_owned();
    let page = browser.get_page(&path).expect_page(200);
    assert!(page.contains("new@example.test") && page.contains(">700<"), "{page}");
    browser.post_form("/operator/accounts", &new).expect_page(409);
    for (field, value) in [("email", "nobody"), ("until", "soon"), ("credits", "many"), ("password", "short")]
    {
        let wrong = new.map(|(name, right)| match name {
            "email" if field != name => (name, "newer@example.test"),
            name if name == field => (name, value),
            _ => (name, right),
        });
        browser.post_form("/operator/accounts", &wrong).expect_page(400);
    }
    let owner = HttpBrowser::new(&stage.service);
    owner.sign_in("new@example.test", PASSWORD).expect_redirect("/");
    owner.get_page("/operator").expect_page(404);
    owner.post_form("/operator/accounts", &new).expect_page(404);

    browser.post_form(&format!("{path}/role"), &[("role", "operator")]).expect_redirect(&path);
    owner.get_page("/operator").expect_page(200);
    browser.post_form(&format!("{path}/role"), &[("role", "owner")]).expect_redirect(&path);
    owner.get_page("/operator").expect_page(404);
    browser.post_form(&format!("{path}/password"), &[("password", "another horse")]).expect_redirect(&path);
    owner.get_page("/").expect_redirect("/sign-in");
    owner.sign_in("new@example.test", "another horse").expect_redirect("/");

    // A session alone changes neither the password nor the role of its account.
    let own = format!("/operator/accounts/{}", stage.account.id);
    browser.post_form(&format!("{own}/password"), &[("password", "another horse")]).expect_page(400);
    browser.post_form(&format!("{own}/role"), &[("role", "owner")]).expect_page(400);
    browser.post_form(&format!("{path}/role"), &[("role", "king")]).expect_page(400);
    let noted = stage.service.run_admin_command(&["audit", "list"]);
    let entries = noted["entries"].as_array().expect("entries");
    for action in ["create account", "set password", "set role"] {
        let entry = entries.iter().find(|entry| entry["action"] == action).expect("an entry");
        assert_eq!(entry["actor"], stage.account.email, "in the operator's name");
    }
    assert_eq!(stage.service.show_credits(&other).0, 10_000);
}

#[test]
fn operators_start_and_stop_machines() {
    let (_stage, browser, other) = operator_fixture();
    let path = format!("/operator/accounts/{}", other.id);
    let state = |wanted: &str| {
        poll::wait_until(wanted, || browser.get_page(&path).expect_page(200).contains(wanted).then_some(()));
    };
    browser.post_form(&format!("{path}/machine/start"), &[]).expect_redirect(&path);
    state(">Running<");
    browser.post_form(&format!("{path}/machine/stop"), &[]).expect_redirect(&path);
    state(">Stopped<");
    browser.post_form(&format!("{path}/machine/explode"), &[]).expect_page(404);
}

#[test]
fn operator_deletes_account_except_own() {
    let (stage, browser, other) = operator_fixture();
    let path = format!("/operator/accounts/{}", other.id);
    assert!(browser.get_page(&path).expect_page(200).contains(&format!("action=\"{path}/delete\"")));
    browser.post_form(&format!("{path}/delete"), &[("email", &stage.account.email)]).expect_page(400);
    browser.get_page(&path).expect_page(200);
    let own = format!("/operator/accounts/{}", stage.account.id);
    assert!(!browser.get_page(&own).expect_page(200).contains("/delete\""));
    browser.post_form(&format!("{own}/delete"), &[("email", &stage.account.email)]).expect_page(400);
    browser.post_form(&format!("{path}/delete"), &[("email", &other.email)]).expect_redirect("/operator");
    browser.get_page(&path).expect_page(404);
    assert!(!browser.get_page("/operator").expect_page(200).contains(&other.email));
    assert_eq!(stage.service.api_for(&other).list_chats("").status, 401);
    let entries = stage.service.run_admin_command(&["audit", "list"]);
    let entries = entries["entries"].as_array().expect("entries");
    let deletion = entries.iter().find(|entry| entry["action"] == "delete account").expect("an entry");
    assert_eq!(deletion["actor"], stage.account.email, "in the operator's name");
}

#[test]
fn operator_sees_plugin_problems_and_settings() {
    let vendor = ScriptedVendor::start();
    let folder = tempfile::tempdir().expect("a folder");
    let skill = |name: &str, text: &str| {
        let place = folder.path().join("law/skills").join(name);
        std::fs::create_dir_all(&place).expect("a folder");
        std::fs::write(place.join("SKILL.md"), text).expect("a file");
    };
    skill("leases", "---\nname: leases\ndescription: Reads leases.\n---\nRead them.\n");
    skill("broken<script>alert(1)<", "---\ndescription: Reads leases.\n---\nRead them.\n");
    let mut environment = vendor.service_environment();
    environment.push(("CAUSERIE_PLUGINS".to_owned(), folder.path().display().to_string()));
    environment.push(("BRAVE_API_KEY".to_owned(), "very-secret-key".to_owned()));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = account_with_password(&service);
    service.run_admin_command(&["account", "set-role", "--account", &account.email, "--role", "operator"]);
    let browser = HttpBrowser::new(&service);
    browser.sign_in(&account.email, PASSWORD).expect_redirect("/");
    let page = browser.get_page("/operator/plugins").expect_page(200);
    assert!(page.contains(">law</th><td>1</td><td>0</td><td>0</td>"), "{page}");
    assert!(page.contains(">causerie</th>") && page.contains("broken&#60;script"), "{page}");
    assert!(page.contains("skipped") && !page.contains("<script>alert"), "{page}");
    let page = browser.get_page("/operator/settings").expect_page(200);
    let set = page.split("<h2>Defaults</h2>").next().expect("the settings that are set");
    assert!(set.contains("<code>plugins</code>") && set.contains("CAUSERIE_PLUGINS"), "{set}");
    assert!(set.contains("web.brave_api_key") && set.contains("BRAVE_API_KEY"), "{set}");
    assert!(!page.contains("very-secret-key") && page.contains("(secret)"), "{page}");
    assert!(page.contains("machine.idle_timeout") && !set.contains("machine.idle_timeout"), "{page}");
}

#[test]
fn owners_find_no_pages_of_operators() {
    let (stage, operator, other) = operator_fixture();
    let owner = HttpBrowser::new(&stage.service);
    owner.sign_in(&other.email, PASSWORD).expect_redirect("/");
    let path = format!("/operator/accounts/{}", other.id);
    let all = crawl_pages(&[&path, "/"], |path| {
        let page = operator.get_page(path);
        page.header("content-type").is_some_and(|kind| kind.starts_with("text/html")).then(|| page.text())
    });
    let mut pages: Vec<_> =
        all.iter().map(String::as_str).filter(|page| page.starts_with("/operator")).collect();
    assert!(pages.len() > 4 && pages.contains(&"/operator/audit"), "{pages:?}");
    pages.push("/operator?account=x");
    for page in pages {
        owner.get_page(page).expect_page(404);
        assert_eq!(HttpBrowser::new(&stage.service).get_page(page).status, 303, "strangers sign in first");
    }
    for (change, field) in [
        ("credits", ("amount", "1")),
        ("licence", ("until", "2099-01-01")),
        ("machine/start", ("", "")),
        ("delete", ("email", other.email.as_str())),
    ] {
        owner.post_form(&format!("{path}/{change}"), &[field]).expect_page(404);
    }
    assert_eq!(stage.service.show_credits(&other).0, 10_000);
    assert!(!owner.get_page("/").expect_page(200).contains("href=\"/operator\""));
    assert!(operator.get_page("/").expect_page(200).contains("href=\"/operator\""));
    // The account's current role counts, not its role at sign-in.
    let arguments = ["account", "set-role", "--account", &stage.account.email, "--role", "owner"];
    stage.service.run_admin_command(&arguments);
    operator.get_page("/operator").expect_page(404);
}
