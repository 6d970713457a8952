//! The name of a browser and its system, for users to recognize their sessions. Display only.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

/// Names of browsers with the product in their header. Specific browsers precede the ones that they claim to be.
const BROWSERS: [(&str, &str); 8] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrom", "Chrome"),
    ("Safari/", "Safari"),
];
/// Names of systems, likewise.
const SYSTEMS: [(&str, &str); 7] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// The browser of a request, as in "Firefox · Linux"; empty if neither is known.
pub(crate) struct BrowserName(pub(crate) String);

impl BrowserName {
    fn from_user_agent(user_agent: &str) -> Self {
        let named = |names: &[(&str, &'static str)]| {
            names.iter().find(|(product, _)| user_agent.contains(product)).map(|(_, name)| *name)
        };
        let known: Vec<_> = [named(&BROWSERS), named(&SYSTEMS)].into_iter().flatten().collect();
        Self(known.join(" · "))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for BrowserName {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let user_agent = parts.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        Ok(Self::from_user_agent(user_agent.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_name_from_user_agent() {
        let webkit = "AppleWebKit/537.36 (KHTML, like Gecko)";
        for (user_agent, name) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0", "Firefox · Linux"),
            (
                &format!("Mozilla/5.0 (Windows NT 10.0; Win64; x64) {webkit} Chrome/143.0.0.0 Safari/537.36"),
                "Chrome · Windows",
            ),
            (
                &format!(
                    "Mozilla/5.0 (Windows NT 10.0) {webkit} Chrome/143.0.0.0 Safari/537.36 Edg/143.0.0.0"
                ),
                "Edge · Windows",
            ),
            (
                &format!("Mozilla/5.0 (Linux; Android 16; K) {webkit} Chrome/143.0.0.0 Mobile Safari/537.36"),
                "Chrome · Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
                 Gecko) Version/19.0 Mobile/15E148 Safari/604.1",
                "Safari · iPhone",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                 Version/19.0 Safari/605.1.15",
                "Safari · macOS",
            ),
            ("Lynx/2.9.2 on Linux <script>", "Linux"),
            ("curl/8.14.1", ""),
            ("", ""),
        ] {
            assert_eq!(BrowserName::from_user_agent(user_agent).0, name, "{user_agent}");
        }
    }
}
