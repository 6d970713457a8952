//! Selects the tools that an agent may use, by the names in its `tools` line.

use std::sync::Arc;

use domain::step::ToolSpec;
use domain::tool::{HostTool, MachineTool, Offer, ToolFacts};
use plugins::PluginLibrary;

/// Returns whether an agent that names its tools names this one; an agent that names none has all.
pub(super) fn is_named(named: Option<&[String]>, tool: &ToolFacts) -> bool {
    is_any_named(named, |name| tool.accepted_names().any(|known| known == name))
}

/// Returns the machine's tools that an agent names. An agent that names none of them has all.
pub(super) fn of_machine(named: Option<&[String]>) -> Vec<ToolSpec> {
    let offered = || {
        let tools = MachineTool::ALL.iter().map(|tool| tool.facts());
        tools.filter(|tool| matches!(tool.offer, Offer::Always | Offer::WithImages))
    };
    let tools: Vec<ToolSpec> = offered().filter(|tool| is_named(named, tool)).map(ToolSpec::from).collect();
    if tools.is_empty() { offered().map(ToolSpec::from).collect() } else { tools }
}

/// The tools that a model may call in a turn. A model may call other tools that it knows from elsewhere.
#[derive(Debug, Clone)]
pub(super) struct PermittedTools {
    /// The tools of the machine and of the host that are offered.
    builtin: Vec<&'static str>,
    /// The tools that the agent names.
    named: Option<Vec<String>>,
    library: Arc<PluginLibrary>,
}

impl PermittedTools {
    /// Creates the tools of a turn. `offered` selects the tools of the machine and of the host.
    pub(super) fn new(
        offered: impl Fn(&str) -> bool,
        named: Option<&[String]>,
        library: &Arc<PluginLibrary>,
    ) -> Self {
        let machine = MachineTool::ALL.iter().map(|tool| tool.facts());
        let host = HostTool::ALL.iter().map(|tool| tool.facts());
        // The service itself calls tools that are never offered.
        let builtin = machine.chain(host).filter(|tool| tool.offer == Offer::Never || offered(tool.name));
        Self {
            builtin: builtin.map(|tool| tool.name).collect(),
            named: named.map(<[String]>::to_vec),
            library: library.clone(),
        }
    }

    /// Returns true if the tool may be called. A tool of an MCP server may be one that is listed later.
    pub(super) fn has_tool(&self, tool: &str) -> bool {
        match mcp::server_of(tool) {
            Some(_) => is_mcp_tool_named(self.named.as_deref(), &self.library, tool),
            None => self.builtin.contains(&tool),
        }
    }
}

/// Returns whether an agent names this tool of an MCP server.
pub(super) fn is_mcp_tool_named(named: Option<&[String]>, library: &PluginLibrary, tool: &str) -> bool {
    let names = mcp_names(library, tool);
    is_any_named(named, |name| names.iter().any(|known| known == name))
}

fn is_any_named(named: Option<&[String]>, is_known: impl Fn(&str) -> bool) -> bool {
    named.is_none_or(|names| {
        names.iter().any(|name| is_known(&name.split('(').next().unwrap_or(name).trim().to_lowercase()))
    })
}

/// Returns the names that agents may use for a tool of an MCP server, in small letters: its own, the one of other agent
/// programs, and the names that mean all tools of its server.
fn mcp_names(library: &PluginLibrary, tool: &str) -> Vec<String> {
    let own = tool.to_lowercase();
    let Some((server, bare)) = own.split_once(mcp::DIVIDER) else { return vec![own] };
    let mut names = vec![format!("mcp__{own}"), format!("mcp__{server}"), format!("mcp__{server}__*")];
    if let Some(server) = library.server_of(tool) {
        let called = format!("mcp__plugin_{}_{}", server.plugin, server.called).to_lowercase();
        names.extend([format!("{called}__{bare}"), format!("{called}__*"), called]);
    }
    names.push(own);
    names
}

#[cfg(test)]
mod tests {
    use domain::tool::HostTool;

    use super::*;

    #[test]
    fn agent_tools_match_names_and_aliases() {
        let names = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            of_machine(Some(&named)).into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["Read", "Grep"]), ["search", "read", "find"]);
        assert_eq!(names(&["Bash(git:*)"]), ["shell"]);
        assert_eq!(names(&["WebFetch"]).len(), of_machine(None).len());
        assert!(is_named(Some(&["Task".to_owned()]), HostTool::Agent.facts()));
        assert!(!is_named(Some(&["Read".to_owned()]), HostTool::WebFetch.facts()));
    }

    #[test]
    fn tool_schemas_agree_with_bounds() {
        for tool in domain::tool::all_tool_facts() {
            let schema: serde_json::Value = serde_json::from_str(tool.schema).expect(tool.name);
            let fields = schema["properties"].as_object().expect(tool.name);
            let required = schema["required"].as_array().into_iter().flatten();
            assert!(required.filter_map(|name| name.as_str()).all(|name| fields.contains_key(name)));
            // The argument that requests another number of passages.
            let Some(count) = fields.get("limit").or(fields.get("count")) else {
                assert_eq!(tool.passages_default, tool.passages_max, "{}", tool.name);
                continue;
            };
            assert_eq!(
                (&count["default"], &count["maximum"]),
                (&tool.passages_default.into(), &tool.passages_max.into())
            );
        }
        let max = |tool: HostTool| tool.facts().passages_max as usize;
        assert_eq!(max(HostTool::WebSearch), egress::RESULTS_MAX);
        assert_eq!(max(HostTool::WebFetch), egress::PASSAGES_MAX);
    }
}
