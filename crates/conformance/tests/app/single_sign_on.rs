//! Signing in at an identity provider, and every way in which that must fail.

use conformance::identity_provider::{Fault, IdentityProvider};
use conformance::{Account, NewAccount, Options, Service};

use crate::browser::{Browser, PASSWORD, Page, account_with_password};

struct Stage {
    provider: IdentityProvider,
    service: Service,
    account: Account,
}

/// A service with an account whose owner has no password, and its provider, at which the owner is signed in.
fn stage(settings: &[(&str, &str)]) -> Stage {
    let provider = IdentityProvider::start();
    let mut environment = provider.environment();
    // The provider returns to whatever is configured; the tests' browser ignores the host.
    environment.push(("CAUSERIE_OIDC_PUBLIC_URL".to_owned(), "http://127.0.0.1".to_owned()));
    environment.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    provider.user("1", &account.email.to_uppercase());
    Stage { provider, service, account }
}

impl Stage {
    /// Begins a sign-in and returns the path at the service to which the provider sends the browser.
    fn begin(&self, browser: &Browser) -> String {
        let begun = browser.get("/sign-in/provider?next=/keys");
        assert_eq!(begun.status, 303, "{}", begun.text());
        let back = self.provider.authorize(begun.header("location").expect("a URL of the provider"));
        back.strip_prefix("http://127.0.0.1").expect("the public URL").to_owned()
    }

    fn sign_in(&self) -> (Browser, conformance::Response) {
        let browser = Browser::new(&self.service);
        let back = self.begin(&browser);
        let response = browser.get(&back);
        (browser, response)
    }
}

#[test]
fn a_user_signs_in_at_the_provider_and_is_bound_to_the_account() {
    let stage = stage(&[("CAUSERIE_OIDC_BUTTON", "Continue with <Example>")]);
    let page = Browser::new(&stage.service).get("/sign-in?next=/keys").expect_page(200);
    assert!(page.contains("href=\"/sign-in/provider?next=/keys\""), "{page}");
    assert!(page.contains("Continue with &#60;Example&#62;"), "{page}");
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get("/keys").expect_page(200).contains(&stage.account.email));
    // From now on the subject counts, and not the email.
    stage.provider.user("1", "other@example.org");
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.user("2", &stage.account.email);
    let refused = stage.sign_in().1.expect_page(403);
    assert!(refused.contains("Somebody else signs in to the account"), "{refused}");
    // A session as any other.
    let page = browser.get("/account").expect_page(200);
    assert!(page.contains("You sign in at the identity provider."), "{page}");
    browser.post("/sign-out", &[]).expect_redirect("/sign-in");
    browser.get("/keys").expect_redirect("/sign-in?next=/keys");
    let audit = stage.service.admin(&["audit", "list"]).to_string();
    assert!(audit.contains("bind identity") && audit.contains("identity provider"), "{audit}");
    assert!(audit.contains(&stage.provider.issuer()), "{audit}");
}

#[test]
fn only_verified_users_with_an_account_are_signed_in() {
    let stage = stage(&[]);
    for (fault, status, reason) in [
        (Fault::WrongNonce, 400, "not valid any more"),
        (Fault::NoNonce, 400, "not valid any more"),
        (Fault::WrongAudience, 400, "not valid any more"),
        (Fault::WrongIssuer, 400, "not valid any more"),
        (Fault::AlgorithmNone, 400, "not valid any more"),
        (Fault::PublicKeyAsSecret, 400, "not valid any more"),
        (Fault::Expired, 400, "not valid any more"),
        (Fault::FromTheFuture, 400, "not valid any more"),
        (Fault::OtherKey, 400, "not valid any more"),
        (Fault::MixUp, 400, "not valid any more"),
        (Fault::OtherUserInfo, 400, "not valid any more"),
        (Fault::EmailNotVerified, 403, "has not verified your email"),
    ] {
        stage.provider.fault(Some(fault));
        let (browser, response) = stage.sign_in();
        let page = response.expect_page(status);
        assert!(page.contains(reason), "{fault:?}: {page}");
        browser.get("/keys").expect_redirect("/sign-in?next=/keys");
    }
}

#[test]
fn the_email_may_be_in_the_user_info_alone() {
    let stage = stage(&[]);
    stage.provider.fault(Some(Fault::EmailInUserInfo));
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get("/keys").expect_page(200).contains(&stage.account.email));
}

#[test]
fn a_broken_provider_is_reported_on_a_page() {
    let stage = stage(&[]);
    for (fault, status, reason) in [
        (Fault::NoEmail, 403, "has not verified your email"),
        (Fault::ServerError, 502, "does not answer"),
        (Fault::Endless, 502, "does not answer"),
        (Fault::Cancelled, 403, "did not sign you in"),
    ] {
        stage.provider.fault(Some(fault));
        let (_, response) = stage.sign_in();
        assert!(response.expect_page(status).contains(reason), "{fault:?}");
    }
    stage.provider.fault(None);
    stage.provider.user("3", "nobody@example.org");
    let page = Browser::new(&stage.service).with("accept-language", "cs");
    let back = stage.begin(&page);
    assert!(page.get(&back).expect_page(403).contains("Účet s vaším e-mailem neexistuje."));
    let log = stage.service.log();
    assert!(log.contains("sign-in at the identity provider failed") && !log.contains("a secret"), "{log}");
}

#[test]
fn metadata_of_another_provider_is_refused() {
    let stage = stage(&[]);
    stage.provider.fault(Some(Fault::OtherMetadata));
    let refused = Browser::new(&stage.service).get("/sign-in/provider").expect_page(502);
    assert!(refused.contains("does not answer"), "{refused}");
    stage.provider.fault(None);
    stage.sign_in().1.expect_redirect("/keys");
}

#[test]
fn a_sign_in_is_completed_once_and_only_in_the_browser_that_began_it() {
    let stage = stage(&[]);
    let browser = Browser::new(&stage.service);
    let back = stage.begin(&browser);
    let stranger = Browser::new(&stage.service);
    stranger.get(&back).expect_page(400);
    stranger.get("/keys").expect_redirect("/sign-in?next=/keys");
    // The stranger's own sign-in does not fit, either.
    let _own = stage.begin(&stranger);
    stranger.get(&back).expect_page(400);
    let before = browser.cookie("causerie-sign-in").expect("a cookie");
    browser.get(&back).expect_redirect("/keys");
    Browser::new(&stage.service).get(&back).expect_page(400);
    // The cookie alone, without a second code, signs nobody in.
    let kept = Browser::new(&stage.service).with("cookie", &format!("causerie-sign-in={before}"));
    kept.get(&back).expect_page(403);
    let forged = back.replace("state=", "state=x");
    browser.get(&forged).expect_page(400);
    browser.get("/sign-in/callback").expect_page(400);
}

#[test]
fn keys_are_rotated_and_both_algorithms_are_verified() {
    let stage = stage(&[]);
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.use_rsa();
    stage.sign_in().1.expect_redirect("/keys");
    assert_eq!(stage.provider.key_reads(), 1, "keys are kept");
    let stage = self::stage(&[]);
    stage.sign_in().1.expect_redirect("/keys");
    stage.provider.rotate_key();
    stage.sign_in().1.expect_redirect("/keys");
    assert_eq!(stage.provider.key_reads(), 2, "they are read again for a key that is new");
    stage.provider.rotate_key();
    stage.sign_in().1.expect_page(400);
    assert_eq!(stage.provider.key_reads(), 2, "but not for every token");
}

#[test]
fn accounts_are_created_for_the_operators_domains() {
    let stage = stage(&[
        ("CAUSERIE_OIDC_NEW_ACCOUNT_DOMAINS", "example.org"),
        ("CAUSERIE_OIDC_NEW_ACCOUNT_CREDITS", "77"),
    ]);
    stage.provider.user("4", "eve@evil.example.org");
    stage.sign_in().1.expect_page(403);
    stage.provider.user("5", "New.Ada@Example.org");
    let (browser, response) = stage.sign_in();
    response.expect_redirect("/keys");
    assert!(browser.get("/credits").expect_page(200).contains(">77<"));
    browser.get("/files").expect_page(200);
    let shown = stage.service.admin(&["account", "show", "new.ada@example.org"]);
    assert_eq!((&shown["role"], &shown["balance"]), (&"owner".into(), &77.into()));
    // Without a password, the email confirms the deletion.
    let delete = |text: &str| browser.post("/account/delete", &[("password", text), ("sure", "on")]);
    delete("other@example.org").expect_page(403);
    delete("new.ada@example.org").expect_redirect("/sign-in?done=deleted");
    // The same user of the provider begins again, with a new account.
    let (fresh, response) = stage.sign_in();
    response.expect_redirect("/keys");
    fresh.get("/keys").expect_page(200);
}

#[test]
fn an_email_that_an_owner_chose_matches_nobody() {
    let stage = stage(&[]);
    let mallory = account_with_password(&stage.service);
    let browser = Browser::new(&stage.service);
    browser.sign_in(&mallory.email, PASSWORD).expect_redirect("/");
    let form = [("email", "ceo@corp.example"), ("password", PASSWORD)];
    browser.post("/account/email", &form).expect_redirect("/account?done=email");
    stage.provider.user("7", "ceo@corp.example");
    let refused = stage.sign_in().1.expect_page(403);
    assert!(refused.contains("nobody has confirmed it"), "{refused}");
    let confirm = ["account", "set-email", "--account", &mallory.id, "--email", "ceo@corp.example"];
    assert_eq!(stage.service.admin(&confirm)["email"], "ceo@corp.example");
    stage.sign_in().1.expect_redirect("/keys");
    let audit = stage.service.admin(&["audit", "list"]).to_string();
    assert!(audit.contains("set email"), "{audit}");
}

#[test]
fn an_owner_without_a_licence_and_one_with_a_password_sign_in() {
    let stage = stage(&[]);
    let owner = account_with_password(&stage.service);
    Browser::new(&stage.service).sign_in(&owner.email, PASSWORD).expect_redirect("/");
    let ended = stage.service.account_as(&NewAccount::default());
    stage.service.admin(&["licence", "set", "--account", &ended.email, "--until", "none"]);
    stage.provider.user("6", &ended.email);
    let (browser, signed_in) = stage.sign_in();
    signed_in.expect_redirect("/keys");
    assert!(browser.get("/").expect_page(200).contains("The licence of this account has ended."));
}

#[test]
fn without_a_provider_there_is_no_button_and_no_way() {
    let service = Service::start(Options::default());
    let browser = Browser::new(&service);
    assert!(!browser.get("/sign-in").expect_page(200).contains("/sign-in/provider"));
    browser.get("/sign-in/provider").expect_page(404);
    browser.get("/sign-in/callback?code=x&state=y").expect_page(404);
}
