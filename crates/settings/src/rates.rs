//! The rate limits of clients, and the trusted proxies.

use http_common::{Network, RateLimit, RateLimits};

use crate::form::{SettingForm, quote_toml, single_line, text_schema};
use crate::source::SettingSources;

/// The value that disables a limit.
const OFF: &str = "off";
/// The value for no networks.
const NONE: &str = "none";

/// Reads the keys under `rate`.
pub(crate) fn read_rate_limits(from: &mut SettingSources) -> RateLimits {
    let default = RateLimits::default();
    RateLimits {
        per_key: from.value_or_default("rate.per_key", default.per_key, rate_form()),
        per_address: from.value_or_default("rate.per_address", default.per_address, rate_form()),
        failed_keys: from.value_or_default("rate.failed_keys", default.failed_keys, rate_form()),
        trusted_proxies: from.value_or_default(
            "rate.trusted_proxies",
            default.trusted_proxies,
            networks_form(),
        ),
    }
}

/// Requests per second, optionally with a burst; or `off`.
fn rate_form() -> SettingForm<Option<RateLimit>> {
    let wanted =
        "expected requests per second such as \"50\", or with a burst such as \"50/200\", or \"off\"";
    SettingForm {
        read: Box::new(move |raw| match single_line(raw)? {
            OFF => Ok(None),
            text => text.parse().map(Some).map_err(|_| wanted.to_owned()),
        }),
        show: |rate| rate.map_or_else(|| quote_toml(OFF), |rate| quote_toml(&rate.to_string())),
        schema: text_schema(),
    }
}

/// Addresses and networks separated by commas; or `none`.
fn networks_form() -> SettingForm<Vec<Network>> {
    SettingForm {
        read: Box::new(|raw| match single_line(raw)? {
            NONE => Ok(Vec::new()),
            text => {
                let each =
                    text.split(',').map(|one| one.parse::<Network>().map_err(|error| error.to_string()));
                each.collect()
            }
        }),
        show: |networks| {
            let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
            if texts.is_empty() { quote_toml(NONE) } else { quote_toml(&texts.join(",")) }
        },
        schema: text_schema(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate_limits_from_variables(pairs: &[(&str, &str)]) -> Result<RateLimits, Vec<String>> {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = SettingSources::new(Vec::new(), variables);
        let limits = read_rate_limits(&mut sources);
        sources.into_effective().map(|_| limits)
    }

    #[test]
    fn read_rate_limits_off_and_default() {
        let unset = rate_limits_from_variables(&[]).expect("nothing is wrong with nothing");
        assert!(unset.per_key.is_none() && unset.per_address.is_none() && unset.failed_keys.is_some());
        let set = rate_limits_from_variables(&[
            ("CAUSERIE_RATE_PER_KEY", "50/200"),
            ("CAUSERIE_RATE_PER_ADDRESS", " 7 "),
            ("CAUSERIE_RATE_FAILED_KEYS", "off"),
            ("CAUSERIE_RATE_TRUSTED_PROXIES", "10.0.0.0/8, ::1"),
        ])
        .expect("all can be read");
        assert_eq!(set.per_key.map(|rate| rate.to_string()).as_deref(), Some("50/200"));
        assert_eq!(set.per_address.map(|rate| rate.to_string()).as_deref(), Some("7/7"));
        assert!(set.failed_keys.is_none());
        assert_eq!(set.trusted_proxies.len(), 2);
    }

    #[test]
    fn read_rate_limits_names_invalid() {
        for name in ["CAUSERIE_RATE_PER_KEY", "CAUSERIE_RATE_FAILED_KEYS", "CAUSERIE_RATE_TRUSTED_PROXIES"] {
            let problems = rate_limits_from_variables(&[(name, "many")]).expect_err("refused");
            assert!(problems.iter().any(|problem| problem.contains(name)), "{problems:?}");
        }
    }
}
