//! The names that authors give to tools: for notices of those that mean none.

/// The tools of this service, and those of the programs for which plugins are written too, in small letters.
const KNOWN: [&str; 41] = [
    "agent",
    "edit",
    "find",
    "list",
    "read",
    "search",
    "shell",
    "skill",
    "web_fetch",
    "web_search",
    "write",
    "askuserquestion",
    "bash",
    "bashoutput",
    "enterplanmode",
    "enterworktree",
    "exitplanmode",
    "exitworktree",
    "glob",
    "grep",
    "killbash",
    "killshell",
    "listmcpresourcestool",
    "ls",
    "lsp",
    "monitor",
    "multiedit",
    "notebookedit",
    "notebookread",
    "powershell",
    "readmcpresourcetool",
    "slashcommand",
    "task",
    "taskoutput",
    "taskstop",
    "todoread",
    "todowrite",
    "toolsearch",
    "view",
    "webfetch",
    "websearch",
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
        bare == "*" || bare.contains("__") || KNOWN.contains(&bare.as_str())
    };
    let told: Vec<String> = names
        .iter()
        .filter(|name| !is_tool(name))
        .map(|name| format!("{:?}", name.chars().take(NAME_SHOWN_MAX_CHARS).collect::<String>()))
        .collect();
    let more = if told.len() > NAMES_SHOWN_MAX { ", …" } else { "" };
    (!told.is_empty()).then(|| told[..told.len().min(NAMES_SHOWN_MAX)].join(", ") + more)
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
