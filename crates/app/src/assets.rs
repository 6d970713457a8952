//! The style sheet, the script and the icon. Their addresses contain their digests, so that browsers cache them
//! permanently and never mix versions.
//!
//! A browser without the style sheet gets it inline in its first page, which saves a round trip before the page
//! is shown; the security policy names its digest. The browser then loads the sheet in the background and
//! records that in a cookie.

use std::sync::LazyLock;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::paths;
use crate::session_cookie::{cookie_value, set_cookie};

pub(crate) const STYLE: &str = concat!(
    include_str!("../assets/app.css"),
    include_str!("../assets/files.css"),
    include_str!("../assets/cards.css")
);
const SCRIPT: &str = concat!(
    include_str!("../assets/app.js"),
    include_str!("../assets/uploads.js"),
    include_str!("../assets/files.js"),
    include_str!("../assets/cards.js"),
    include_str!("../assets/viewer.js")
);
const ICON: &str = include_str!("../assets/icon.svg");
/// The digits of a digest in an address.
const VERSION_DIGITS: usize = 12;
/// The cookie with the version of the style sheet that the browser has, and its age: a browser may drop the sheet earlier.
const COOKIE: &str = "causerie-style";
const COOKIE_SECONDS: u32 = 30 * 24 * 3600;

/// The addresses of the assets with their versions.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
    /// The style sheet itself, for a browser that does not have it.
    pub(crate) sheet: Option<&'static str>,
}

impl Addresses {
    fn new(sheet: Option<&'static str>) -> Self {
        Self {
            style: versioned_address(paths::STYLE, STYLE),
            script: versioned_address(paths::SCRIPT, SCRIPT),
            icon: versioned_address(paths::ICON, ICON),
            sheet,
        }
    }
}

pub(crate) static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses::new(None));
static FIRST: LazyLock<Addresses> = LazyLock::new(|| Addresses::new(Some(STYLE)));

/// Returns the addresses for the pages of a browser with these headers.
pub(crate) fn asset_addresses(headers: &HeaderMap) -> &'static Addresses {
    let has = cookie_value(headers, COOKIE).is_some_and(|had| ADDRESSES.style.ends_with(&format!("={had}")));
    if has { &ADDRESSES } else { &FIRST }
}

/// Creates the cookie of a browser that has loaded the style sheet.
pub(crate) fn style_loaded_cookie() -> HeaderValue {
    let version = ADDRESSES.style.rsplit('=').next().unwrap_or_default();
    set_cookie(COOKIE, version, COOKIE_SECONDS, false)
}

/// Returns the style sheet's source in a security policy.
pub(crate) fn style_source() -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(STYLE.as_bytes())))
}

fn versioned_address(path: &str, content: &str) -> String {
    let digest = domain::hex::encode_hex(&Sha256::digest(content.as_bytes()));
    format!("{path}?v={}", &digest[..VERSION_DIGITS])
}

pub(crate) async fn serve_style() -> Response {
    asset_response(STYLE, "text/css; charset=utf-8")
}

/// Returns the style of the design page, which only debug builds have.
#[cfg(debug_assertions)]
pub(crate) async fn serve_design_style() -> Response {
    asset_response(include_str!("../assets/design.css"), "text/css; charset=utf-8")
}

pub(crate) async fn serve_script() -> Response {
    asset_response(SCRIPT, "text/javascript; charset=utf-8")
}

pub(crate) async fn serve_icon() -> Response {
    asset_response(ICON, "image/svg+xml")
}

fn asset_response(content: &'static str, media_type: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, kept);
    response
}
