//! Revisions of the protocol, and the negotiation between client and server.
//!
//! ```text
//!   server/discover --> a result that names a stateless revision --> Stateless: each request says its revision
//!                  \--> -32022 or a result without a shared one ---> Handshake if they name one of those, else None
//!                   \-> any other error, or none ------------------> Handshake: initialize, notifications/initialized
//! ```

use serde_json::{Map, Value, json};

use crate::message::{RpcError, RpcResponse};

/// The supported stateless revisions, newest first: they have no session, and each request names its revision.
pub const STATELESS_REVISIONS: [&str; 1] = ["2026-07-28"];
/// The revisions that start with `initialize` and are supported over every transport, newest first.
pub const HANDSHAKE_REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
/// The preceding revision, which differs only over HTTP: many servers over pipes use it.
pub const PIPES_REVISION: &str = "2024-11-05";

/// Asks a server for its revisions; part of every stateless revision.
pub const DISCOVER: &str = "server/discover";

/// JSON-RPC code: headers and body of a request differ, or headers are missing.
pub const HEADER_MISMATCH: i64 = -32020;
/// JSON-RPC code: a request needs a capability that the client has not declared.
pub const MISSING_CAPABILITY: i64 = -32021;
/// JSON-RPC code: the server does not speak the revision of the request.
pub const UNSUPPORTED_REVISION: i64 = -32022;
/// JSON-RPC codes that only the specification assigns, since the first stateless revision.
const SPECIFIED_CODES: std::ops::RangeInclusive<i64> = -32099..=-32020;

/// The field of parameters and results for facts about the exchange.
pub const META: &str = "_meta";
/// The field of [`META`] in which a server of a stateless revision names itself.
pub const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
const META_REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The lifecycle of requests to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifecycle {
    /// Without a handshake; each request names this revision.
    Stateless {
        /// One of [`STATELESS_REVISIONS`].
        revision: &'static str,
        /// The server has tools.
        has_tools: bool,
        /// The server sends a notification when its list of tools changes.
        notifies: bool,
    },
    /// With `initialize`, which negotiates a revision.
    Handshake,
}

/// Adds the fields that each request of a stateless revision contains.
#[must_use]
pub fn with_revision(mut params: Value, revision: &str) -> Value {
    if !params[META].is_object() {
        params[META] = Value::Object(Map::new());
    }
    params[META][META_REVISION] = revision.into();
    params[META][META_CLIENT] = client_info();
    params[META][META_CAPABILITIES] = json!({});
    params
}

/// Returns the parameters of [`DISCOVER`].
#[must_use]
pub fn discover_params() -> Value {
    with_revision(json!({}), STATELESS_REVISIONS[0])
}

/// Returns the parameters of `initialize`.
#[must_use]
pub fn initialize_params() -> Value {
    json!({ "protocolVersion": HANDSHAKE_REVISIONS[0], "capabilities": {}, "clientInfo": client_info() })
}

/// Reads the response to [`DISCOVER`]; `None` when the server has no revision in common with this client.
///
/// Any other response of an older server leads to a handshake, which negotiates a revision.
#[must_use]
pub fn parse_lifecycle(answer: &RpcResponse) -> Option<Lifecycle> {
    match answer {
        RpcResponse::Result(about) => {
            let Some(supported) = about.get("supportedVersions").and_then(Value::as_array) else {
                return Some(Lifecycle::Handshake);
            };
            let supports = |revision: &str| supported.iter().any(|one| one == revision);
            if let Some(revision) = STATELESS_REVISIONS.into_iter().find(|revision| supports(revision)) {
                let tools = about.pointer("/capabilities/tools").filter(|tools| !tools.is_null());
                let notifies = tools.is_some_and(|tools| tools["listChanged"] == true);
                return Some(Lifecycle::Stateless { revision, has_tools: tools.is_some(), notifies });
            }
            handshake_among(supports)
        }
        RpcResponse::Error(error) if error.code == UNSUPPORTED_REVISION => {
            handshake_among(|revision| error.supported.iter().any(|one| one == revision))
        }
        RpcResponse::Error(error) if error.is_specified() => None,
        RpcResponse::Error(_) => Some(Lifecycle::Handshake),
    }
}

fn handshake_among(supports: impl Fn(&str) -> bool) -> Option<Lifecycle> {
    let mut revisions = HANDSHAKE_REVISIONS.iter().chain([&PIPES_REVISION]);
    revisions.any(|revision| supports(revision)).then_some(Lifecycle::Handshake)
}

impl RpcError {
    /// Returns true for errors that only servers of stateless revisions send.
    #[must_use]
    pub fn is_specified(&self) -> bool {
        SPECIFIED_CODES.contains(&self.code)
    }
}

fn client_info() -> Value {
    json!({ "name": "causerie", "version": env!("CARGO_PKG_VERSION") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_answer(code: i64, supported: &[&str]) -> RpcResponse {
        let supported = supported.iter().map(|one| (*one).to_owned()).collect();
        RpcResponse::Error(RpcError { code, message: "no".to_owned(), supported })
    }

    #[test]
    fn with_revision_keeps_other_fields() {
        let params = with_revision(json!({"cursor": "2", "_meta": {"progressToken": 7}}), "2026-07-28");
        assert_eq!(params["cursor"], "2");
        assert_eq!(params["_meta"]["progressToken"], 7);
        assert_eq!(params["_meta"][META_REVISION], "2026-07-28");
        assert_eq!(params["_meta"][META_CAPABILITIES], json!({}));
        assert_eq!(params["_meta"][META_CLIENT]["name"], "causerie");
    }

    #[test]
    fn parse_lifecycle_covers_every_answer() {
        let stateless =
            |has_tools, notifies| Some(Lifecycle::Stateless { revision: "2026-07-28", has_tools, notifies });
        let about = |versions: Value, capabilities: Value| {
            parse_lifecycle(&RpcResponse::Result(
                json!({ "supportedVersions": versions, "capabilities": capabilities }),
            ))
        };
        assert_eq!(about(json!(["2027-01-01", "2026-07-28"]), json!({"tools": {}})), stateless(true, false));
        let notifies = json!({"tools": {"listChanged": true}});
        assert_eq!(about(json!(["2026-07-28", "2025-11-25"]), notifies), stateless(true, true));
        assert_eq!(about(json!(["2026-07-28"]), json!({})), stateless(false, false));
        assert_eq!(about(json!(["2025-06-18"]), json!({})), Some(Lifecycle::Handshake));
        assert_eq!(about(json!(["2027-01-01", 7]), json!({})), None);
        assert_eq!(
            parse_lifecycle(&RpcResponse::Result(json!({}))),
            Some(Lifecycle::Handshake),
            "of no such method"
        );
        assert_eq!(
            parse_lifecycle(&error_answer(UNSUPPORTED_REVISION, &["2027-01-01", "2024-11-05"])),
            Some(Lifecycle::Handshake)
        );
        assert_eq!(parse_lifecycle(&error_answer(UNSUPPORTED_REVISION, &["2027-01-01"])), None);
        assert_eq!(parse_lifecycle(&error_answer(-32021, &[])), None, "it wants what is not here");
        for code in [-32601, -32602, -32600, -32000, -32001, -32002, 0, 400] {
            assert_eq!(parse_lifecycle(&error_answer(code, &[])), Some(Lifecycle::Handshake), "{code}");
        }
    }
}
