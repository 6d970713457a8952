//! The revision under which a message is served, and the headers that must match it.
//!
//! ```text
//!   _meta names a revision, or the header names one that is not of a handshake --> Stateless: each request says it all
//!   anything else, such as `initialize` ----------------------------------------> Handshake: of no session, all the same
//! ```

use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::excerpt::Excerpt;
use mcp::{HANDSHAKE_REVISIONS, PIPES_REVISION, STATELESS_REVISIONS};

use crate::error::{McpError, McpResult};
use crate::message::{RequestParams, RpcRequest};

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The delimiters of a header's value in base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// The revision of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Without a handshake.
    Stateless {
        /// True if the client can poll tasks.
        has_tasks: bool,
    },
    /// With `initialize`.
    Handshake {
        /// One of [`HANDSHAKE_REVISIONS`].
        revision: &'static str,
    },
}

impl Era {
    /// Returns true if results may link to resources.
    pub(crate) fn has_links(self) -> bool {
        // The oldest revision lacks them.
        !matches!(self, Self::Handshake { revision } if revision == HANDSHAKE_REVISIONS[2])
    }

    pub(crate) const fn is_stateless(self) -> bool {
        matches!(self, Self::Stateless { .. })
    }

    /// Returns true if the client can poll tasks.
    pub(crate) const fn has_tasks(self) -> bool {
        matches!(self, Self::Stateless { has_tasks: true })
    }
}

/// Returns true if a message is of a stateless revision, in which each request says everything about itself.
pub(crate) fn is_stateless(headers: &HeaderMap, params: &RequestParams) -> bool {
    let named = params.meta.as_ref().is_some_and(|meta| meta.revision.is_some());
    named || only_header(headers, &VERSION).is_some_and(|version| handshake_revision(version).is_none())
}

/// Returns the revision of a message that is not of a stateless one.
pub(crate) fn handshake_era(headers: &HeaderMap) -> Era {
    let named = only_header(headers, &VERSION).and_then(handshake_revision);
    // Without the header it is the revision that had none.
    Era::Handshake { revision: named.unwrap_or(HANDSHAKE_REVISIONS[2]) }
}

/// Returns the revision that `initialize` agrees on: the one that the client asks for, or else the newest.
pub(crate) fn negotiate_revision(asked: Option<&str>) -> &'static str {
    let known = HANDSHAKE_REVISIONS.into_iter().find(|revision| Some(*revision) == asked);
    known.unwrap_or(HANDSHAKE_REVISIONS[0])
}

/// Checks a request of a stateless revision: its facts about itself, and that its headers match them.
///
/// # Errors
/// [`McpError`].
pub(crate) fn check_stateless(headers: &HeaderMap, request: &RpcRequest) -> McpResult<Era> {
    let version = only_header(headers, &VERSION);
    let meta = request.params.meta.as_ref();
    let Some(revision) = meta.and_then(|meta| meta.revision.as_deref()) else {
        return Err(match version.filter(|version| !STATELESS_REVISIONS.contains(version)) {
            Some(unknown) => McpError::unsupported_revision(unknown),
            None => McpError::malformed_params("_meta lacks io.modelcontextprotocol/protocolVersion"),
        });
    };
    let Some(capabilities) = meta.and_then(|meta| meta.capabilities.as_ref()) else {
        return Err(McpError::malformed_params("_meta lacks io.modelcontextprotocol/clientCapabilities"));
    };
    require_equal(&VERSION, version, revision)?;
    if !STATELESS_REVISIONS.contains(&revision) {
        return Err(McpError::unsupported_revision(revision));
    }
    require_equal(&METHOD, only_header(headers, &METHOD), &request.method)?;
    let params = &request.params;
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => params.task_id.as_deref(),
        _ => None,
    };
    if let Some(name) = name {
        let decoded = only_header(headers, &NAME).map(decode_value).transpose()?;
        require_equal(&NAME, decoded.as_deref(), name)?;
    }
    Ok(Era::Stateless { has_tasks: capabilities.has_tasks() })
}

fn handshake_revision(version: &str) -> Option<&'static str> {
    // Some clients keep the revision of pipes, which is not different here.
    let of_pipes = (version == PIPES_REVISION).then_some(HANDSHAKE_REVISIONS[2]);
    HANDSHAKE_REVISIONS.into_iter().find(|revision| *revision == version).or(of_pipes)
}

/// Returns the value of a header that occurs once.
fn only_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let only = values.next().filter(|_| values.next().is_none())?;
    only.to_str().ok().map(str::trim)
}

/// Decodes a value that is not plain text.
fn decode_value(value: &str) -> McpResult<String> {
    let encoded = value.strip_prefix(ENCODED.0).and_then(|value| value.strip_suffix(ENCODED.1));
    let Some(encoded) = encoded else { return Ok(value.to_owned()) };
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.ok_or_else(|| McpError::header_mismatch("the header Mcp-Name is not valid base64 of a text"))
}

fn require_equal(name: &HeaderName, header: Option<&str>, body: &str) -> McpResult<()> {
    match header {
        Some(value) if value == body => Ok(()),
        Some(value) => {
            let (value, body) = (Excerpt(value), Excerpt(body));
            Err(McpError::header_mismatch(format_args!("the header {name} is {value}, the body has {body}")))
        }
        None => Err(McpError::header_mismatch(format_args!("send the header {name} once, as text"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::message::{ClientMessage, parse_message};

    fn request(method: &str, params: serde_json::Value) -> RpcRequest {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
        let raw = serde_json::from_str::<Box<serde_json::value::RawValue>>(&message).expect("JSON");
        match parse_message(&raw).expect("a message") {
            ClientMessage::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
        });
        HeaderMap::from_iter(pairs)
    }

    fn meta(revision: &str) -> serde_json::Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    }

    fn code_of(headers: &HeaderMap, request: &RpcRequest) -> i64 {
        let error = check_stateless(headers, request).expect_err("an error").to_message(None);
        error["error"]["code"].as_i64().expect("a code")
    }

    #[test]
    fn stateless_request_needs_its_facts() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let method = ("mcp-method", "tools/call");
        let ask = |meta: serde_json::Value| request("tools/call", json!({ "name": "ask", "_meta": meta }));
        let whole = headers(&[version, method, ("mcp-name", "ask")]);
        let era = check_stateless(&whole, &ask(meta("2026-07-28"))).expect("a request");
        assert_eq!(era, Era::Stateless { has_tasks: false });
        assert_eq!(code_of(&whole, &ask(json!({}))), -32602);
        let no_capabilities = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        assert_eq!(code_of(&whole, &ask(no_capabilities)), -32602);
        for wrong in [
            headers(&[method, ("mcp-name", "ask")]),
            headers(&[version, ("mcp-name", "ask")]),
            headers(&[version, ("mcp-method", "TOOLS/CALL"), ("mcp-name", "ask")]),
            headers(&[version, method]),
            headers(&[version, method, ("mcp-name", "wait")]),
            headers(&[version, method, ("mcp-name", "=?base64?*?=")]),
        ] {
            assert_eq!(code_of(&wrong, &ask(meta("2026-07-28"))), -32020, "{wrong:?}");
        }
        assert_eq!(code_of(&whole, &ask(meta("v999"))), -32020, "the header says otherwise");
        let other = headers(&[("mcp-protocol-version", "v999"), method, ("mcp-name", "ask")]);
        assert_eq!(code_of(&other, &ask(meta("v999"))), -32022);
        assert_eq!(code_of(&other, &ask(json!({}))), -32022);
    }

    #[test]
    fn encoded_name_is_decoded() {
        let uri = "causerie://files/uploads/nájem.txt";
        let encoded = format!("=?base64?{}?=", STANDARD.encode(uri));
        let read = request("resources/read", json!({ "uri": uri, "_meta": meta("2026-07-28") }));
        let headers = headers(&[
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "resources/read"),
            ("mcp-name", &encoded),
        ]);
        assert!(check_stateless(&headers, &read).is_ok());
    }

    #[test]
    fn era_follows_revision() {
        let list = request("tools/list", json!({}));
        for (version, stateless, revision) in [
            (None, false, "2025-03-26"),
            (Some("2025-11-25"), false, "2025-11-25"),
            (Some("2024-11-05"), false, "2025-03-26"),
            (Some("2026-07-28"), true, ""),
            (Some("1999-01-01"), true, ""),
        ] {
            let headers = headers(
                &version.map(|version| ("mcp-protocol-version", version)).into_iter().collect::<Vec<_>>(),
            );
            assert_eq!(is_stateless(&headers, &list.params), stateless, "{version:?}");
            if !stateless {
                assert_eq!(handshake_era(&headers), Era::Handshake { revision }, "{version:?}");
            }
        }
        let named = request("tools/list", json!({ "_meta": meta("2026-07-28") }));
        assert!(is_stateless(&HeaderMap::new(), &named.params));
        assert_eq!(negotiate_revision(Some("2025-06-18")), "2025-06-18");
        assert_eq!(negotiate_revision(Some("2024-11-05")), "2025-11-25");
        assert_eq!(negotiate_revision(None), "2025-11-25");
    }
}
