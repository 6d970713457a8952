//! The identity provider at which users sign in.

use std::time::Duration;

use control::OidcConfig;
use control::single_sign_on::{NewAccounts, SingleSignOnConfig};
use domain::credits::Credits;
use domain::outgoing::OutgoingConfig;
use domain::secret::Secret;

use crate::form::{SettingForm, count_form, duration_form, quote_toml, single_line, text_form, text_schema};
use crate::source::SettingSources;

/// The path to which the provider returns users.
const CALLBACK: &str = "/sign-in/callback";
/// The default duration of the licence of a new account.
const LICENCE: Duration = Duration::from_secs(365 * 24 * 3600);
/// The default credits of a new account.
const CREDITS: u64 = 1000;
/// The maximum number of domains whose users get an account.
const DOMAINS_MAX: usize = 100;
/// The value for no domains.
const NONE: &str = "none";

/// Reads the keys under `oidc`; `None` without an issuer.
pub(crate) fn read_single_sign_on(from: &mut SettingSources) -> Option<SingleSignOnConfig> {
    const ISSUER: &str = "oidc.issuer";
    let issuer = from.optional_value(ISSUER, text_form());
    let client_id = from.optional_value("oidc.client_id", text_form());
    let client_secret = from.secret_value("oidc.client_secret", "oidc.client_secret_file").map(Secret::new);
    let public_url = from.optional_value("oidc.public_url", text_form());
    let button = from.value_or_default("oidc.button", "Single sign-on".to_owned(), text_form());
    let domains = from.value_or_default("oidc.new_account_domains", Vec::new(), domains_form());
    let bounds = Duration::from_secs(24 * 3600)..=Duration::from_secs(100 * 365 * 24 * 3600);
    let licence = from.value_or_default("oidc.new_account_licence", LICENCE, duration_form(bounds));
    let credits = from.value_or_default("oidc.new_account_credits", CREDITS, count_form(0..=1_000_000_000));
    let issuer = issuer?;
    let (Some(client_id), Some(public_url)) = (client_id.clone(), public_url.clone()) else {
        for (key, is_there) in
            [("oidc.client_id", client_id.is_some()), ("oidc.public_url", public_url.is_some())]
        {
            if !is_there {
                from.record_problem(key, "required with oidc.issuer");
            }
        }
        return None;
    };
    let redirect_url = format!("{}{CALLBACK}", public_url.trim_end_matches('/'));
    let provider = OidcConfig { issuer, client_id, client_secret, redirect_url };
    if let Err(error) = provider.check() {
        from.record_problem(ISSUER, error);
    }
    let new = NewAccounts { domains, licence, credits: Credits(credits) };
    let new_accounts = (!new.domains.is_empty()).then_some(new);
    Some(SingleSignOnConfig { provider, button, new_accounts, outgoing: OutgoingConfig::default() })
}

/// Domains of emails separated by commas; or `none`.
fn domains_form() -> SettingForm<Vec<String>> {
    SettingForm {
        read: Box::new(|raw| match single_line(raw)? {
            NONE => Ok(Vec::new()),
            text => {
                let domains = text.split(',').map(|domain| domain.trim().to_lowercase());
                let domains: Vec<String> = domains.collect();
                let is_domain = |domain: &String| {
                    !domain.is_empty()
                        && !domain.contains(|c: char| c == '@' || c == '*' || c.is_whitespace())
                };
                if domains.len() > DOMAINS_MAX || !domains.iter().all(is_domain) {
                    return Err(format!(
                        "expected at most {DOMAINS_MAX} domains separated by commas, such as \"example.org\""
                    ));
                }
                Ok(domains)
            }
        }),
        show: |domains| if domains.is_empty() { quote_toml(NONE) } else { quote_toml(&domains.join(",")) },
        schema: text_schema(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single_sign_on_from_variables(
        pairs: &[(&str, &str)],
    ) -> Result<Option<SingleSignOnConfig>, Vec<String>> {
        let variables =
            pairs.iter().map(|(name, value)| (format!("CAUSERIE_OIDC_{name}"), (*value).to_owned()));
        let mut sources = SettingSources::new(Vec::new(), variables);
        let config = read_single_sign_on(&mut sources);
        sources.into_effective().map(|_| config)
    }

    const PROVIDER: [(&str, &str); 4] = [
        ("ISSUER", "https://id.example/realms/x"),
        ("CLIENT_ID", "causerie"),
        ("CLIENT_SECRET", "secret"),
        ("PUBLIC_URL", "https://causerie.example/"),
    ];

    #[test]
    fn read_single_sign_on_needs_issuer() {
        assert_eq!(single_sign_on_from_variables(&[]), Ok(None));
        let config = single_sign_on_from_variables(&PROVIDER).expect("it is right").expect("a provider");
        assert_eq!(config.provider.redirect_url, "https://causerie.example/sign-in/callback");
        assert_eq!((config.button.as_str(), &config.new_accounts), ("Single sign-on", &None));
        let domains = [&PROVIDER[..], &[("NEW_ACCOUNT_DOMAINS", "Example.org, example.com")]].concat();
        let new = single_sign_on_from_variables(&domains)
            .expect("it is right")
            .and_then(|config| config.new_accounts)
            .expect("domains");
        assert_eq!(new.domains, ["example.org", "example.com"]);
        assert_eq!((new.licence, new.credits), (LICENCE, Credits(CREDITS)));
    }

    #[test]
    fn an_incomplete_provider_is_refused() {
        for missing in [1, 3] {
            let mut pairs = PROVIDER.to_vec();
            pairs.remove(missing);
            let problems = single_sign_on_from_variables(&pairs).expect_err("refused");
            assert!(problems[0].contains("required with oidc.issuer"), "{problems:?}");
        }
        for wrong in ["http://id.example", "id.example"] {
            let mut pairs = PROVIDER.to_vec();
            pairs[0].1 = wrong;
            assert!(single_sign_on_from_variables(&pairs).is_err(), "{wrong}");
        }
        for wrong in ["@example.org", "*.example.org", "a b", ""] {
            let pairs = [&PROVIDER[..], &[("NEW_ACCOUNT_DOMAINS", wrong)]].concat();
            // An empty variable counts as unset.
            assert_eq!(single_sign_on_from_variables(&pairs).is_err(), !wrong.is_empty(), "{wrong}");
        }
    }
}
