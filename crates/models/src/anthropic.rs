//! Anthropic's Messages format.

mod events;
mod request;

use serde_json::Value;

use crate::listing::{self, Discovered, ModelListing};
pub(crate) use events::AnthropicFold;
pub(crate) use request::{AnthropicDialect, build_body};

/// Reads the vendor's list of models, which is ordered newest first.
pub(crate) fn parse_models(body: &[u8]) -> Option<ModelListing> {
    ModelListing::parse_body(body, &["data"], |model, name| {
        let lifecycle = model["lifecycle"].as_str();
        (lifecycle != Some("retired")).then(|| Discovered {
            context_tokens: listing::token_count(model, &["max_input_tokens"]),
            output_max_tokens: listing::token_count(model, &["max_tokens"]),
            label: listing::display_name(model, "display_name"),
            reasons: model["capabilities"]["thinking"]["supported"].as_bool(),
            deprecated: lifecycle == Some("deprecated"),
            created: 0,
            name: name.to_owned(),
        })
    })
}

/// Reads the capabilities of the listed models. Skips models without them.
pub(crate) fn parse_dialects(body: &[u8]) -> Vec<(String, AnthropicDialect)> {
    let list: Value = serde_json::from_slice(body).unwrap_or_default();
    let read = |model: &Value| {
        let of = |path: &str| model.pointer(&format!("/capabilities{path}")).and_then(Value::as_bool);
        let dialect = AnthropicDialect::from_capabilities(
            of("/thinking/types/adaptive/supported")?,
            of("/thinking/types/enabled/supported")?,
            of("/effort/supported")?,
        );
        Some((model["id"].as_str()?.to_owned(), dialect))
    };
    list["data"].as_array().into_iter().flatten().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let body = r#"{"data":[
            {"id":"claude-a","type":"model","display_name":"Claude A","created_at":"2026-01-01T00:00:00Z",
             "lifecycle":"active","max_input_tokens":1000000,"max_tokens":64000,
             "capabilities":{"thinking":{"supported":true,"types":{}}}},
            {"id":"claude-b","type":"model","display_name":"Claude B","created_at":"2024-01-01T00:00:00Z"},
            {"id":"claude-c","lifecycle":"retired"},{"id":"claude-d","lifecycle":"deprecated"}],
            "first_id":"claude-a","last_id":"claude-d","has_more":false}"#;
        let models = parse_models(body.as_bytes()).unwrap().models;
        let ids: Vec<_> = models.iter().map(|model| (model.name.as_str(), model.deprecated)).collect();
        assert_eq!(ids, [("claude-a", false), ("claude-b", false), ("claude-d", true)]);
        assert_eq!((models[0].context_tokens, models[0].reasons), (Some(1_000_000), Some(true)));
        assert_eq!((models[1].context_tokens, models[1].reasons), (None, None));
    }

    #[test]
    fn dialects_are_read_from_the_list() {
        let model = |id: &str, adaptive: bool, enabled: bool, effort: bool| {
            serde_json::json!({"id": id, "capabilities": {"effort": {"supported": effort}, "thinking": {"supported": true,
                "types": {"adaptive": {"supported": adaptive}, "enabled": {"supported": enabled}}}}})
        };
        let list = serde_json::json!({"data": [model("new", true, false, true), model("old", false, true, false),
            model("plain", false, false, false), {"id": "silent", "capabilities": null}]});
        let listed = parse_dialects(list.to_string().as_bytes());
        let names: Vec<_> = listed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["new", "old", "plain"]);
        assert_eq!(listed[0].1, AnthropicDialect::from_model("claude-opus-4-6"));
        assert_eq!(listed[1].1, AnthropicDialect::from_model("claude-sonnet-4-5"));
        assert_eq!(listed[2].1, AnthropicDialect::from_model("claude-3-5-haiku"));
        assert!(parse_dialects(b"invalid").is_empty());
    }
}
