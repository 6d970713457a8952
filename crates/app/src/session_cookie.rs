//! Cookies: the secret of the session, and the chosen language.
//!
//! Over HTTPS the cookie of the session is `Secure` and has the prefix `__Host-`, which no other host and no
//! plain connection can set. Over plain HTTP it has another name, which is ignored if the connection is known
//! to be HTTPS: an attacker who can inject plain HTTP must not be able to sign a visitor in to another account.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use control::known_browser::KnownBrowser;
use control::sessions::{AGE_MAX, SessionSecret};

/// The cookie over HTTPS.
const SECURE: &str = "__Host-causerie";
/// The cookies of a browser in which its owner has signed in before, over HTTPS and plain HTTP. They stay when the session ends.
const SECURE_KNOWN: &str = "__Host-causerie-known";
const PLAIN_KNOWN: &str = "causerie-known";
/// The lifetime of the cookies.
const KNOWN_SECONDS: u32 = 365 * 24 * 3600;
/// The cookie over plain HTTP.
const PLAIN: &str = "causerie-session";

/// Returns the secret in the cookies of a request. `https` is true if the connection is known to be HTTPS.
pub(crate) fn session_secret(headers: &HeaderMap, https: bool) -> Option<SessionSecret> {
    let plain = || if https { None } else { cookie_value(headers, PLAIN) };
    cookie_value(headers, SECURE).or_else(plain).and_then(SessionSecret::parse)
}

/// Creates the cookie that holds a secret.
pub(crate) fn keep_session(secret: &SessionSecret, https: bool) -> HeaderValue {
    let seconds = u32::try_from(AGE_MAX.as_secs()).unwrap_or(u32::MAX);
    set_cookie(if https { SECURE } else { PLAIN }, secret.reveal(), seconds, https)
}

/// Returns the proof in the cookies of a request that its owner has signed in with this browser before.
pub(crate) fn known_browser(headers: &HeaderMap, https: bool) -> Option<KnownBrowser> {
    let plain = || if https { None } else { cookie_value(headers, PLAIN_KNOWN) };
    cookie_value(headers, SECURE_KNOWN).or_else(plain).and_then(KnownBrowser::parse)
}

/// Creates the cookie that holds this proof.
pub(crate) fn keep_known(known: &KnownBrowser, https: bool) -> HeaderValue {
    let name = if https { SECURE_KNOWN } else { PLAIN_KNOWN };
    set_cookie(name, &known.reveal(), KNOWN_SECONDS, https)
}

/// Creates the cookies that remove a secret.
fn removal_cookies() -> [HeaderValue; 2] {
    [set_cookie(SECURE, "", 0, true), set_cookie(PLAIN, "", 0, false)]
}

/// Adds the cookies that remove a secret to a response.
pub(crate) fn remove_session(mut response: Response) -> Response {
    for removed in removal_cookies() {
        response.headers_mut().append(header::SET_COOKIE, removed);
    }
    response
}

/// Returns the value of the first cookie with this name.
pub(crate) fn cookie_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Creates a cookie that no script reads and no other site sends along with a form. `value` is plain ASCII.
pub(crate) fn set_cookie(name: &str, value: &str, seconds: u32, secure: bool) -> HeaderValue {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(text).expect("a cookie of plain ASCII is a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookie_headers(cookies: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, cookies.parse().expect("a value"))])
    }

    #[test]
    fn session_secret_ignores_plain_over_https() {
        let (one, two) = ("1".repeat(64), "2".repeat(64));
        let shown = |cookies: &str, https| {
            session_secret(&cookie_headers(cookies), https).map(|it| it.reveal().to_owned())
        };
        let plain = format!("{PLAIN}={one}");
        assert_eq!(shown(&plain, false), Some(one.clone()));
        assert_eq!(shown(&plain, true), None);
        for https in [false, true] {
            assert_eq!(shown(&format!("{plain}; {SECURE}={two}"), https), Some(two.clone()));
        }
        assert_eq!(shown(&format!("{PLAIN}=x"), false), None);
    }

    #[test]
    fn keep_session_binds_host() {
        let secret = SessionSecret::parse(&"a".repeat(64)).expect("a secret");
        let kept = keep_session(&secret, true);
        let text = kept.to_str().expect("ASCII");
        assert!(text.starts_with("__Host-causerie=aaaa"), "{text}");
        for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Secure"] {
            assert!(text.contains(attribute), "{text}");
        }
    }
}
