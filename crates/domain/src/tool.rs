//! The registry of tools: one table with the facts of every tool that the service has.
//!
//! Each tool is listed by its executor: [`MachineTool`] or [`HostTool`]. Each side runs its tools in one exhaustive
//! match, so a new entry does not compile until its executor handles it. Tools of MCP servers are not in the table.

/// The maximum number of passages of one call.
pub const PASSAGES_MAX: u32 = 40;
/// The maximum number of passages of all attached files together.
const ATTACHED_PASSAGES_MAX: u32 = 300;

/// The facts of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolFacts {
    /// The name by which a model calls it.
    pub name: &'static str,
    /// The names of similar tools in other agent programs, in small letters. Agents of plugins may use them.
    pub aliases: &'static [&'static str],
    /// The description for the model.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub schema: &'static str,
    /// The repeatability of a call after a crash.
    pub effect: CallEffect,
    /// The condition under which the tool is offered to a model.
    pub offer: Offer,
    /// The kind of part that shows its calls.
    pub form: CallPartKind,
    /// The passages of one result, unless the call asks for another number.
    pub passages_default: u32,
    /// The maximum number of passages of one result.
    pub passages_max: u32,
}

/// The repeatability of a tool's call after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEffect {
    /// It changes nothing: it runs again.
    Repeatable,
    /// It may change something: it never runs twice.
    Effectful,
}

/// The condition under which a tool is offered to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// The tool is offered unless the agent names its tools without this one.
    Always,
    /// As [`Self::Always`], if the model accepts images.
    WithImages,
    /// As [`Self::Always`], if the question allows web search and the operator configured it.
    WithWeb,
    /// As [`Self::Always`], if there are agents that may be given a task.
    WithAgents,
    /// The tool is offered if there are skills.
    WithSkills,
    /// As [`Self::Always`], if somebody answers the questions of the model.
    WithUser,
    /// The tool is never offered: only the service calls it.
    Never,
}

/// The kind of part that shows a call in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPartKind {
    /// A part with the tool's name.
    Tool,
    /// A part with the skill.
    Skill,
    /// A part with the agent and its report.
    Agent,
    /// A part with the query.
    WebSearch,
}

macro_rules! tools {
    ($($(#[$doc:meta])* $runner:ident { $($tool:ident: $facts:expr,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $runner { $($tool),+ }

        impl $runner {
            /// Every tool, in the order in which they are offered.
            pub const ALL: &[Self] = &[$(Self::$tool),+];

            /// Returns the tool's entry in the table.
            #[must_use]
            pub const fn facts(self) -> &'static ToolFacts {
                match self {$(
                    Self::$tool => {
                        const FACTS: ToolFacts = $facts;
                        &FACTS
                    }
                )+}
            }

            /// Returns the name by which a model calls it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                self.facts().name
            }

            /// Finds the tool of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|tool| tool.name() == name)
            }
        }
    )+};
}

tools! {
    /// A tool that the program in the machine runs.
    MachineTool {
        Search: ToolFacts {
            name: "search",
            aliases: &["grep"],
            description: "Search the text of all documents in the workspace and get the passages that fit best, ranked \
                and numbered, with file and page; cite them by number. Word forms and diacritics do not matter.",
            schema: r#"{"type":"object","properties":{"query":{"type":"string"},"paths":{"type":"array","items":{"type":"string"},"description":"Only these files or folders."},"limit":{"type":"integer","minimum":1,"maximum":20,"default":8}},"required":["query"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: 8,
            passages_max: 20,
        },
        Read: ToolFacts {
            name: "read",
            aliases: &["notebookread"],
            description: "Read a file of the workspace as text: plain text, PDF, HTML, office documents, spreadsheets, slides, \
                e-mail, e-books. The text comes as numbered passages with their page or lines; cite them by number. Long files are read in pieces.",
            schema: r#"{"type":"object","properties":{"path":{"type":"string"},"first_page":{"type":"integer","minimum":1},"first_line":{"type":"integer","minimum":1},"skip_passages":{"type":"integer","minimum":0,"description":"Passages of the first page or line to skip, to read on within it."}},"required":["path"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: PASSAGES_MAX,
            passages_max: PASSAGES_MAX,
        },
        View: ToolFacts {
            name: "view",
            aliases: &[],
            description: "See pages of a PDF as pictures, or an image file. Use it for what the text of read does not show: \
                drawings, charts, handwriting, stamps, layout, and scans without text. Pictures cannot be cited by number: \
                name the file and page.",
            schema: r#"{"type":"object","properties":{"path":{"type":"string"},"first_page":{"type":"integer","minimum":1,"default":1},"pages":{"type":"integer","minimum":1,"maximum":4,"default":1}},"required":["path"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithImages,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
        List: ToolFacts {
            name: "list",
            aliases: &["ls", "glob"],
            description: "List one folder of the workspace.",
            schema: r#"{"type":"object","properties":{"path":{"type":"string","default":"/"}},"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
        Find: ToolFacts {
            name: "find",
            aliases: &["grep", "glob"],
            description: "Find files of the workspace by a glob over their paths, and, when content is given, only \
                those whose text contains it, with the lines where it stands.",
            schema: r#"{"type":"object","properties":{"glob":{"type":"string","default":"**"},"content":{"type":"string"}},"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: PASSAGES_MAX,
            passages_max: PASSAGES_MAX,
        },
        Write: ToolFacts {
            name: "write",
            aliases: &[],
            description: "Write a whole text file in the workspace; missing folders are made.",
            schema: r#"{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}"#,
            effect: CallEffect::Effectful,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
        Edit: ToolFacts {
            name: "edit",
            aliases: &["multiedit"],
            description: "Replace one exact piece of text in a text file of the workspace. It must occur exactly once \
                unless all is true.",
            schema: r#"{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"all":{"type":"boolean","default":false}},"required":["path","old","new"],"additionalProperties":false}"#,
            effect: CallEffect::Effectful,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
        Shell: ToolFacts {
            name: "shell",
            aliases: &["bash"],
            description: "Run a command line with /bin/sh in the machine. The working folder is the workspace, \
                /workspace. There is no network. Output beyond the bound is cut in the middle.",
            schema: r#"{"type":"object","properties":{"command":{"type":"string"},"timeout_seconds":{"type":"integer","minimum":1,"maximum":600,"default":60}},"required":["command"],"additionalProperties":false}"#,
            effect: CallEffect::Effectful,
            offer: Offer::Always,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
        AttachedFiles: ToolFacts {
            name: "attached_files",
            aliases: &[],
            description: "Read the files that are attached to the question, before the first step. The result follows \
                the question as the content of the files.",
            schema: r#"{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}},"text_max_bytes":{"type":"integer","minimum":0}},"required":["paths","text_max_bytes"]}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::Never,
            form: CallPartKind::Tool,
            passages_default: ATTACHED_PASSAGES_MAX,
            passages_max: ATTACHED_PASSAGES_MAX,
        },
    }

    /// A tool that the service runs itself, because it gives access that no machine has.
    HostTool {
        WebSearch: ToolFacts {
            name: "web_search",
            aliases: &["websearch"],
            description: "Search the web. Gives titles, addresses and what the pages say of the query, as numbered \
                passages; cite them by number. Read a page with web_fetch before you rest anything on it.",
            schema: r#"{"type":"object","properties":{"query":{"type":"string","description":"What is searched for, in a few words. Never put text of the user's documents into it."},"count":{"type":"integer","minimum":1,"maximum":20,"default":8},"language":{"type":"string","description":"The language of the pages that are preferred, such as cs."}},"required":["query"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithWeb,
            form: CallPartKind::WebSearch,
            passages_default: 8,
            passages_max: 20,
        },
        WebFetch: ToolFacts {
            name: "web_fetch",
            aliases: &["webfetch"],
            description: "Read a page of the web: only addresses that stand in the user's words, or that a search or a \
                page of this conversation gave, letter by letter. The text comes as numbered passages; cite them by \
                number. A document (PDF, DOCX, …) is put into the workspace, to be read there.",
            schema: r#"{"type":"object","properties":{"url":{"type":"string"},"first_passage":{"type":"integer","minimum":0,"default":0,"description":"Where to go on in a long page."}},"required":["url"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithWeb,
            form: CallPartKind::Tool,
            passages_default: PASSAGES_MAX,
            passages_max: PASSAGES_MAX,
        },
        // It resumes after an interruption, by the rules of its own calls.
        Agent: ToolFacts {
            name: "agent",
            aliases: &["task"],
            description: "Give a task to another agent and get its report. It works on the same workspace and knows \
                nothing of this conversation: say in the task all that it needs. Give away what is large and stands by \
                itself, such as one of several documents each, in one step so that they work side by side; do small \
                things yourself. Passages of its report have numbers of this answer: cite them like your own.",
            schema: r#"{"type":"object","properties":{"agent":{"type":"string","description":"The agent's full name, as it is listed."},"task":{"type":"string","description":"What it is to do and to report."}},"required":["agent","task"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithAgents,
            form: CallPartKind::Agent,
            passages_default: PASSAGES_MAX,
            passages_max: PASSAGES_MAX,
        },
        Skill: ToolFacts {
            name: "skill",
            aliases: &[],
            description: "Open a skill: its instructions for one kind of task, and its files in the machine. Open one \
                before you begin a task that its description fits.",
            schema: r#"{"type":"object","properties":{"skill":{"type":"string","description":"The skill's full name, as it is listed."}},"required":["skill"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithSkills,
            form: CallPartKind::Skill,
            passages_default: 0,
            passages_max: 0,
        },
        AskUser: ToolFacts {
            name: "ask_user",
            aliases: &["askuserquestion"],
            description: "Ask the user a question and wait for the answer, which may take hours. Ask only what you cannot \
                find out yourself and cannot sensibly assume; put what belongs together into one question. Give choices \
                when there are few.",
            schema: r#"{"type":"object","properties":{"question":{"type":"string"},"choices":{"type":"array","items":{"type":"string"},"maxItems":20}},"required":["question"],"additionalProperties":false}"#,
            effect: CallEffect::Repeatable,
            offer: Offer::WithUser,
            form: CallPartKind::Tool,
            passages_default: 0,
            passages_max: 0,
        },
    }
}

/// Returns the facts of all tools, the machine's first.
pub fn all_tool_facts() -> impl Iterator<Item = &'static ToolFacts> {
    let machine = MachineTool::ALL.iter().map(|tool| tool.facts());
    machine.chain(HostTool::ALL.iter().map(|tool| tool.facts()))
}

/// Returns the facts of the tool of this name.
#[must_use]
pub fn facts_of(name: &str) -> Option<&'static ToolFacts> {
    all_tool_facts().find(|tool| tool.name == name)
}

impl ToolFacts {
    /// Returns the names by which an agent may name the tool: its own and the aliases.
    pub fn accepted_names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tool_facts_have_unique_names() {
        let mut names = HashSet::new();
        for tool in all_tool_facts() {
            let ToolFacts { name, aliases, description, schema, .. } = *tool;
            assert!(names.insert(name), "{name} stands twice");
            assert!(!description.is_empty() && description.ends_with('.'), "{name}: {description:?}");
            assert!(schema.starts_with(r#"{"type":"object","properties":{"#), "{name}: {schema}");
            assert!(tool.passages_default <= tool.passages_max, "{name}");
            let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(
                tool.accepted_names().all(is_plain),
                "{name}: models and agents call it by these: {aliases:?}"
            );
            assert_eq!(facts_of(name), Some(tool));
        }
        for tool in all_tool_facts() {
            assert!(tool.aliases.iter().all(|alias| !names.contains(alias)), "{}", tool.name);
        }
    }

    #[test]
    fn agent_page_describes_every_tool() {
        let page = include_str!("../../../docs/agent.md");
        for tool in all_tool_facts().filter(|tool| tool.offer != Offer::Never) {
            assert!(page.contains(&format!("`{}`", tool.name)), "docs/agent.md lacks {}", tool.name);
        }
    }

    #[test]
    fn what_changes_something_is_effectful() {
        let effectful =
            all_tool_facts().filter(|tool| tool.effect == CallEffect::Effectful).map(|tool| tool.name);
        assert_eq!(effectful.collect::<Vec<_>>(), ["write", "edit", "shell"]);
    }
}
