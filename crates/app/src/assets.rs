//! The style sheet, the script and the icon. Their addresses in pages contain their digests, so that browsers keep them for
//! good and never mix versions.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use crate::paths;

/// The style sheet.
pub(crate) const STYLE: &str =
    concat!(include_str!("../assets/app.css"), include_str!("../assets/files.css"));
const SCRIPT: &str = concat!(include_str!("../assets/app.js"), include_str!("../assets/files.js"));
const ICON: &str = include_str!("../assets/icon.svg");
/// The digits of a digest in an address.
const VERSION_DIGITS: usize = 12;

/// The addresses of the assets with their versions.
pub(crate) struct Addresses {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
}

pub(crate) static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses {
    style: versioned(paths::STYLE, STYLE),
    script: versioned(paths::SCRIPT, SCRIPT),
    icon: versioned(paths::ICON, ICON),
});

fn versioned(path: &str, content: &str) -> String {
    let digest = domain::hex::encode(&Sha256::digest(content.as_bytes()));
    format!("{path}?v={}", &digest[..VERSION_DIGITS])
}

pub(crate) async fn style() -> Response {
    asset(STYLE, "text/css; charset=utf-8")
}

/// Returns the style of the design page, which debug builds alone have.
#[cfg(debug_assertions)]
pub(crate) async fn design() -> Response {
    asset(include_str!("../assets/design.css"), "text/css; charset=utf-8")
}

pub(crate) async fn script() -> Response {
    asset(SCRIPT, "text/javascript; charset=utf-8")
}

pub(crate) async fn icon() -> Response {
    asset(ICON, "image/svg+xml")
}

fn asset(content: &'static str, media_type: &'static str) -> Response {
    let mut response = content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, kept);
    response
}
