//! The names that authors give to tools: for notices of those that mean none.

use domain::tool::{Offer, ToolFacts};

/// The tools of the programs for which plugins are written too, in small letters, apart from those that
/// [`domain::tool`] knows as aliases.
const FOREIGN: [&str; 21] = [
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
    "view",
];
/// How many names one notice tells.
const NAMES_SHOWN_MAX: usize = 5;
/// How much of a name it tells, in characters.
const NAME_SHOWN_MAX_CHARS: usize = 60;

/// Those of the names that mean no tool anybody has, as a notice tells them; `None` when all mean one. What stands in
/// brackets says what a tool may be called with. The tools of MCP servers are not known here.
pub(crate) fn unknown(names: &[String]) -> Option<String> {
    let is_tool = |name: &str| {
        let bare = name.split('(').next().unwrap_or(name).trim().to_lowercase();
        let is_own = || called_by_models().any(|tool| tool.names().any(|known| known == bare));
        bare == "*" || bare.contains("__") || FOREIGN.contains(&bare.as_str()) || is_own()
    };
    let told: Vec<String> = names
        .iter()
        .filter(|name| !is_tool(name))
        .map(|name| format!("{:?}", name.chars().take(NAME_SHOWN_MAX_CHARS).collect::<String>()))
        .collect();
    let more = if told.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    (!told.is_empty()).then(|| told[..told.len().min(NAMES_SHOWN_MAX)].join(", ") + more)
}

/// Returns the tools of this service that a model may call.
fn called_by_models() -> impl Iterator<Item = &'static ToolFacts> {
    domain::tool::all().filter(|tool| tool.offer != Offer::Never)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_program_has_are_told() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let known =
            ["Read", "Bash(git add:*)", "Bash(git:*, npm *)", "mcp__github__list", "web_search", "*", "Task"];
        assert_eq!(unknown(&names(&known)), None);
        assert_eq!(unknown(&names(&["Scribe", "Read", "(x)"])).as_deref(), Some("\"Scribe\", \"(x)\""));
        assert!(unknown(&vec!["no".repeat(500); 50]).is_some_and(|told| told.len() < 400));
    }
}
