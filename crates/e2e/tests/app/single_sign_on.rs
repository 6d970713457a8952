//! Signing in at an identity provider, and all its failures.

use e2e::identity_provider::{IdentityProvider, ProviderFault};
use e2e::{ServiceOptions, TestAccount, TestAccountOptions, TestService};

use crate::browser::{HttpBrowser, PASSWORD, PageAssertions, account_with_password};

struct SingleSignOnFixture {
    provider: IdentityProvider,
    service: TestService,
    account: TestAccount,
}

/// A service with an account whose owner has no password, and its provider, at which the owner is signed in.
fn single_sign_on_fixture(settings: &[(&str, &str)]) -> SingleSignOnFixture {
    let provider = IdentityProvider::start();
    let mut environment = provider.service_environment();
    // The provider returns to the configured address; the tests' browser ignores the host.
    environment.push(("CAUSERIE_OIDC_PUBLIC_URL".to_owned(), "http://127.0.0.1".to_owned()));
    environment.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    provider.sign_in_user("1", &account.email.to_uppercase());
    SingleSignOnFixture { provider, service, account }
}

impl SingleSignOnFixture {
    /// Begins a sign-in and returns the path at the service to which the provider sends the browser.
    fn begin_sign_in(&self, browser: &HttpBrowser) -> String {
        let begun = browser.get_page("/sign-in/provider?next=/keys");
        assert_eq!(begun.status, 303, "{}", begun.text());
        let back = self.provider.authorize_user(begun.header("location").expect("a URL of the provider"));
        back.strip_prefix("http://127.0.0.1").expect("the public URL").to_owned()
    }

    fn sign_in(&self) -> (HttpBrowser, e2e::HttpResponse) {
        let browser = HttpBrowser::new(&self.service);
        let back = self.begin_sign_in(&browser);
        let response = browser.get_page(&back);
        (browser, response)
    }
}

#[test]
fn provider_user_is_bound_to_account() {
    let stage = single_sign_on_fixture(&[("CAUSERIE_OIDC_BUTTON", "Continue with <Example>")]);
    let page = HttpBrowser::new(&stage.service).get_page("/sign-in?next=/keys").expect_page(200);
    assert!(page.contains("href=\"/sign-in/provider?next=/keys\""), "{page}");
    assert!(page.contains("Continue with &#60;Example&#62;"), "{page}");
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get_page("/keys").expect_page(200).contains(&stage.account.email));
    // From now on the subject counts, not the email.
    stage.provider.sign_in_user("1", "other@example.org");
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.sign_in_user("2", &stage.account.email);
    let refused = stage.sign_in().1.expect_page(403);
    assert!(refused.contains("Somebody else signs in to the account"), "{refused}");
    // A session like any other.
    let page = browser.get_page("/account").expect_page(200);
    assert!(page.contains("You sign in at the identity provider."), "{page}");
    browser.post_form("/sign-out", &[]).expect_redirect("/sign-in");
    browser.get_page("/keys").expect_redirect("/sign-in?next=/keys");
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("bind identity") && audit.contains("identity provider"), "{audit}");
    assert!(audit.contains(&stage.provider.issuer_url()), "{audit}");
}

#[test]
fn unverified_provider_user_refused() {
    let stage = single_sign_on_fixture(&[]);
    for (fault, status, reason) in [
        (ProviderFault::WrongNonce, 400, "not valid any more"),
        (ProviderFault::NoNonce, 400, "not valid any more"),
        (ProviderFault::WrongAudience, 400, "not valid any more"),
        (ProviderFault::WrongIssuer, 400, "not valid any more"),
        (ProviderFault::AlgorithmNone, 400, "not valid any more"),
        (ProviderFault::PublicKeyAsSecret, 400, "not valid any more"),
        (ProviderFault::Expired, 400, "not valid any more"),
        (ProviderFault::FromTheFuture, 400, "not valid any more"),
        (ProviderFault::OtherKey, 400, "not valid any more"),
        (ProviderFault::MixUp, 400, "not valid any more"),
        (ProviderFault::OtherUserInfo, 400, "not valid any more"),
        (ProviderFault::EmailNotVerified, 403, "has not verified your email"),
    ] {
        stage.provider.set_fault(Some(fault));
        let (browser, response) = stage.sign_in();
        let page = response.expect_page(status);
        assert!(page.contains(reason), "{fault:?}: {page}");
        browser.get_page("/keys").expect_redirect("/sign-in?next=/keys");
    }
}

#[test]
fn provider_email_may_come_from_userinfo() {
    let stage = single_sign_on_fixture(&[]);
    stage.provider.set_fault(Some(ProviderFault::EmailInUserInfo));
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get_page("/keys").expect_page(200).contains(&stage.account.email));
}

#[test]
fn broken_provider_reported_on_page() {
    let stage = single_sign_on_fixture(&[]);
    for (fault, status, reason) in [
        (ProviderFault::NoEmail, 403, "has not verified your email"),
        (ProviderFault::ServerError, 502, "does not answer"),
        (ProviderFault::Endless, 502, "does not answer"),
        (ProviderFault::Cancelled, 403, "did not sign you in"),
    ] {
        stage.provider.set_fault(Some(fault));
        let (_, response) = stage.sign_in();
        assert!(response.expect_page(status).contains(reason), "{fault:?}");
    }
    stage.provider.set_fault(None);
    stage.provider.sign_in_user("3", "nobody@example.org");
    let page = HttpBrowser::new(&stage.service).with_request_header("accept-language", "cs");
    let back = stage.begin_sign_in(&page);
    assert!(page.get_page(&back).expect_page(403).contains("Účet s vaším e-mailem neexistuje."));
    let log = stage.service.log_text();
    assert!(log.contains("sign-in at the identity provider failed") && !log.contains("a secret"), "{log}");
}

#[test]
fn metadata_of_another_provider_is_refused() {
    let stage = single_sign_on_fixture(&[]);
    stage.provider.set_fault(Some(ProviderFault::OtherMetadata));
    let refused = HttpBrowser::new(&stage.service).get_page("/sign-in/provider").expect_page(502);
    assert!(refused.contains("does not answer"), "{refused}");
    stage.provider.set_fault(None);
    stage.sign_in().1.expect_redirect("/keys");
}

#[test]
fn provider_sign_in_completes_once() {
    let stage = single_sign_on_fixture(&[]);
    let browser = HttpBrowser::new(&stage.service);
    let back = stage.begin_sign_in(&browser);
    let stranger = HttpBrowser::new(&stage.service);
    stranger.get_page(&back).expect_page(400);
    stranger.get_page("/keys").expect_redirect("/sign-in?next=/keys");
    // The stranger's sign-in does not match either.
    let _own = stage.begin_sign_in(&stranger);
    stranger.get_page(&back).expect_page(400);
    let before = browser.cookie_value("causerie-sign-in").expect("a cookie");
    browser.get_page(&back).expect_redirect("/keys");
    HttpBrowser::new(&stage.service).get_page(&back).expect_page(400);
    // The cookie alone, without a second code, signs nobody in.
    let kept =
        HttpBrowser::new(&stage.service).with_request_header("cookie", &format!("causerie-sign-in={before}"));
    kept.get_page(&back).expect_page(403);
    let forged = back.replace("state=", "state=x");
    browser.get_page(&forged).expect_page(400);
    browser.get_page("/sign-in/callback").expect_page(400);
}

#[test]
fn provider_keys_rotate_with_both_algorithms() {
    let stage = single_sign_on_fixture(&[]);
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.use_rsa();
    stage.sign_in().1.expect_redirect("/keys");
    assert_eq!(stage.provider.key_reads(), 1, "keys are kept");
    let stage = single_sign_on_fixture(&[]);
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.rotate_key();
    stage.sign_in().1.expect_redirect("/keys");
    assert_eq!(stage.provider.key_reads(), 2, "they are read again for a key that is new");
    stage.provider.rotate_key();
    stage.sign_in().1.expect_page(400);
    assert_eq!(stage.provider.key_reads(), 2, "but not for every token");
}

#[test]
fn accounts_created_for_allowed_domains() {
    let stage = single_sign_on_fixture(&[
        ("CAUSERIE_OIDC_NEW_ACCOUNT_DOMAINS", "example.org"),
        ("CAUSERIE_OIDC_NEW_ACCOUNT_CREDITS", "77"),
    ]);
    stage.provider.sign_in_user("4", "eve@evil.example.org");
    stage.sign_in().1.expect_page(403);
    stage.provider.sign_in_user("5", "New.Ada@Example.org");
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get_page("/credits").expect_page(200).contains(">77<"));
    browser.get_page("/files").expect_page(200);
    let shown = stage.service.run_admin_command(&["account", "show", "new.ada@example.org"]);
    assert_eq!((&shown["role"], &shown["balance"]), (&"owner".into(), &77.into()));
    // Without a password, the email confirms the deletion.
    let delete = |text: &str| browser.post_form("/account/delete", &[("password", text), ("sure", "on")]);
    delete("other@example.org").expect_page(403);
    delete("new.ada@example.org").expect_redirect("/sign-in?done=deleted");
    // The same user of the provider begins again, with a new account.
    let (fresh, response) = stage.sign_in();
    response.expect_redirect("/keys");
    fresh.get_page("/keys").expect_page(200);
}

#[test]
fn owner_chosen_email_not_matched() {
    let stage = single_sign_on_fixture(&[]);
    let mallory = account_with_password(&stage.service);
    let browser = HttpBrowser::new(&stage.service);
    browser.sign_in(&mallory.email, PASSWORD).expect_redirect("/");
    let form = [("email", "ceo@corp.example"), ("password", PASSWORD)];
    browser.post_form("/account/email", &form).expect_redirect("/account?done=email");
    stage.provider.sign_in_user("7", "ceo@corp.example");
    let refused = stage.sign_in().1.expect_page(403);
    assert!(refused.contains("nobody has confirmed it"), "{refused}");
    let confirm = ["account", "set-email", "--account", &mallory.id, "--email", "ceo@corp.example"];
    assert_eq!(stage.service.run_admin_command(&confirm)["email"], "ceo@corp.example");
    stage.sign_in().1.expect_redirect("/keys");
    let audit = stage.service.run_admin_command(&["audit", "list"]).to_string();
    assert!(audit.contains("set email"), "{audit}");
}

#[test]
fn unlicensed_owner_signs_in_at_provider() {
    let stage = single_sign_on_fixture(&[]);
    let owner = account_with_password(&stage.service);
    HttpBrowser::new(&stage.service).sign_in(&owner.email, PASSWORD).expect_redirect("/");
    let ended = stage.service.create_account_with(&TestAccountOptions::default());
    stage.service.run_admin_command(&["licence", "set", "--account", &ended.email, "--until", "none"]);
    stage.provider.sign_in_user("6", &ended.email);
    let (browser, signed_in) = stage.sign_in();
    signed_in.expect_redirect("/keys");
    assert!(browser.get_page("/").expect_page(200).contains("The licence of this account has ended."));
}

#[test]
fn sign_in_page_without_provider() {
    let service = TestService::start(ServiceOptions::default());
    let browser = HttpBrowser::new(&service);
    assert!(!browser.get_page("/sign-in").expect_page(200).contains("/sign-in/provider"));
    browser.get_page("/sign-in/provider").expect_page(404);
    browser.get_page("/sign-in/callback?code=x&state=y").expect_page(404);
}
