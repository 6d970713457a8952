//! The rate limits of clients, and the trusted proxies.

use http_common::{Network, Rate, RateLimits};

use super::form::{Form, line, quoted};
use super::source::Sources;

/// The value that disables a limit.
const OFF: &str = "off";
/// The value for no networks.
const NONE: &str = "none";

/// Reads the keys under `rate`.
pub(super) fn read(from: &mut Sources) -> RateLimits {
    let default = RateLimits::default();
    RateLimits {
        per_key: from.key("rate.per_key", default.per_key, rate()),
        per_address: from.key("rate.per_address", default.per_address, rate()),
        failed_keys: from.key("rate.failed_keys", default.failed_keys, rate()),
        trusted_proxies: from.key("rate.trusted_proxies", default.trusted_proxies, networks()),
    }
}

/// Requests per second, optionally with a burst; or `off`.
fn rate() -> Form<Option<Rate>> {
    let wanted =
        "expected requests per second such as \"50\", or with a burst such as \"50/200\", or \"off\"";
    Form {
        read: Box::new(move |raw| match line(raw)? {
            OFF => Ok(None),
            text => text.parse().map(Some).map_err(|_| wanted.to_owned()),
        }),
        show: |rate| rate.map_or_else(|| quoted(OFF), |rate| quoted(&rate.to_string())),
    }
}

/// Addresses and networks separated by commas; or `none`.
fn networks() -> Form<Vec<Network>> {
    Form {
        read: Box::new(|raw| match line(raw)? {
            NONE => Ok(Vec::new()),
            text => {
                let each =
                    text.split(',').map(|one| one.parse::<Network>().map_err(|error| error.to_string()));
                each.collect()
            }
        }),
        show: |networks| {
            let texts: Vec<String> = networks.iter().map(ToString::to_string).collect();
            if texts.is_empty() { quoted(NONE) } else { quoted(&texts.join(",")) }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<RateLimits, Vec<String>> {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = Sources::new(Vec::new(), variables);
        let limits = read(&mut sources);
        sources.finish().map(|_| limits)
    }

    #[test]
    fn each_limit_is_set_or_off_or_by_default() {
        let unset = of(&[]).expect("nothing is wrong with nothing");
        assert!(unset.per_key.is_none() && unset.per_address.is_none() && unset.failed_keys.is_some());
        let set = of(&[
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
    fn what_can_not_be_read_is_named() {
        for name in ["CAUSERIE_RATE_PER_KEY", "CAUSERIE_RATE_FAILED_KEYS", "CAUSERIE_RATE_TRUSTED_PROXIES"] {
            let problems = of(&[(name, "many")]).expect_err("refused");
            assert!(problems.iter().any(|problem| problem.contains(name)), "{problems:?}");
        }
    }
}
