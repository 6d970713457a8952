//! Recognizes the tool names that authors write, to report unknown ones.

use domain::tool::{Offer, ToolFacts};

/// The tools of other programs for which plugins are written, in small letters, apart from the ones that
/// [`domain::tool`] knows as aliases.
const FOREIGN: [&str; 20] = [
    "askuserquestion",
    "bashoutput",
    "enterplanmode",
    "enterworktree",
    "exitplanmode",
    "exitworktree",
    "killbash",
    "killshell",
    "listmcpresourcestool",
    "lsp",
    "monitor",
    "notebookedit",
    "powershell",
    "readmcpresourcetool",
    "slashcommand",
    "taskoutput",
    "taskstop",
    "todoread",
    "todowrite",
    "toolsearch",
];
/// The maximum number of names in one notice.
const NAMES_SHOWN_MAX: usize = 5;
/// The maximum length of a name in a notice, in characters.
const NAME_SHOWN_MAX_CHARS: usize = 60;

/// Lists the names that match no known tool; `None` if all are known. Ignores arguments in brackets. Tools of MCP
/// servers are always accepted.
pub(crate) fn list_unknown_tools(names: &[String]) -> Option<String> {
    let is_tool = |name: &str| {
        let bare = name.split('(').next().unwrap_or(name).trim().to_lowercase();
        let is_own = || called_by_models().any(|tool| tool.accepted_names().any(|known| known == bare));
        bare == "*" || bare.contains("__") || FOREIGN.contains(&bare.as_str()) || is_own()
    };
    let listed: Vec<String> = names
        .iter()
        .filter(|name| !is_tool(name))
        .map(|name| format!("{:?}", name.chars().take(NAME_SHOWN_MAX_CHARS).collect::<String>()))
        .collect();
    let more = if listed.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    (!listed.is_empty()).then(|| listed[..listed.len().min(NAMES_SHOWN_MAX)].join(", ") + more)
}

/// Returns the tools of this service that a model may call.
fn called_by_models() -> impl Iterator<Item = &'static ToolFacts> {
    domain::tool::all_tool_facts().filter(|tool| tool.offer != Offer::Never)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_unknown_tools_skips_program_tools() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let known =
            ["Read", "Bash(git add:*)", "Bash(git:*, npm *)", "mcp__github__list", "web_search", "*", "Task"];
        assert_eq!(list_unknown_tools(&names(&known)), None);
        assert_eq!(
            list_unknown_tools(&names(&["Scribe", "Read", "(x)"])).as_deref(),
            Some("\"Scribe\", \"(x)\"")
        );
        assert!(list_unknown_tools(&vec!["no".repeat(500); 50]).is_some_and(|listed| listed.len() < 400));
    }
}
