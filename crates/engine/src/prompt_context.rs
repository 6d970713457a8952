//! What a turn tells its model of itself: who it is, which skills there are, and what opening one gives.
//!
//! Skills are disclosed step by step: the instructions name and describe them, a call of the tool `skill` opens
//! one, and its files lie in the machine. A turn keeps the library with which it began.

use std::collections::HashSet;
use std::sync::Arc;

use domain::answer::LogEntry;
use domain::step::{Call, Purpose, StepOutcome, ToolSpec, USE_AGENT, USE_SKILL, WEB_SEARCH};
use domain::turn::{Output, estimated_tokens};
use plugins::{Agent, Library, Lookup, Skill};
use protocol::tool::Tool;
use serde::Deserialize;
use store::turns::TurnRecord;

use super::subagent;
use super::web::{self, WebAccess};
use crate::templates::{PromptTemplates, Section};

/// The most skills that the instructions describe.
const SKILLS_TOLD_MAX: usize = 100;
/// The most that they say of all skills together, and of one, in characters.
const DESCRIPTIONS_MAX_CHARS: usize = 32 * 1024;
const DESCRIPTION_MAX_CHARS: usize = 1024;
/// The most files that an opened skill names.
const FILES_TOLD_MAX: usize = 200;

const SKILL_TOOL: &str = "Open a skill: its instructions for one kind of task, and its files in the machine. Open one \
    before you begin a task that its description fits.";
const SKILL_SCHEMA: &str = r#"{"type":"object","properties":{"skill":{"type":"string","description":"The skill's full name, as it is listed."}},"required":["skill"],"additionalProperties":false}"#;

const AGENT_TOOL: &str = "Give a task to another agent and get its report. It works on the same workspace and knows \
    nothing of this conversation: say in the task all that it needs. Give away what is large and stands by itself, such \
    as one of several documents each, in one step so that they work side by side; do small things yourself. Passages of \
    its report have numbers of this answer: cite them like your own. The agents:\n";
const AGENT_SCHEMA: &str = r#"{"type":"object","properties":{"agent":{"type":"string","description":"The agent's full name, as it is listed."},"task":{"type":"string","description":"What it is to do and to report."}},"required":["agent","task"],"additionalProperties":false}"#;
/// The most agents that the tool describes.
const AGENTS_TOLD_MAX: usize = 50;

/// What a turn begins with besides its exchange.
pub(super) struct PromptContext {
    library: Arc<Library>,
    templates: Arc<PromptTemplates>,
    skills: Vec<String>,
    jurisdictions: Vec<String>,
    /// The model that the agent's author wishes.
    model: Option<String>,
    /// The tools that it names.
    named: Option<Vec<String>>,
    /// Whether tasks may be given to other agents.
    delegates: bool,
    web: WebAccess,
    /// The full names of the skills that may be opened.
    offered: Vec<String>,
    tools: Vec<ToolSpec>,
    /// Where those begin that the machine brought.
    brought_from: Option<usize>,
    instructions: String,
}

/// What a question chose.
#[derive(Debug, Clone, Copy)]
pub struct PromptOptions<'a> {
    /// The agent's full name; the default one's unless given.
    pub agent: Option<&'a str>,
    /// The skills' full names; all when there are none.
    pub skills: &'a [String],
    /// The identifiers of the jurisdictions.
    pub jurisdictions: &'a [String],
    /// What of the web there is for it.
    pub web: WebAccess,
    /// What models are told.
    pub templates: &'a Arc<PromptTemplates>,
}

#[derive(Deserialize)]
struct Arguments {
    skill: String,
}

impl PromptContext {
    /// The prompt for a question. What it chose and is gone by now is passed over.
    pub(super) fn new(library: Arc<Library>, chosen: PromptOptions<'_>) -> Self {
        Self::of(library, chosen, true)
    }

    /// The prompt of another agent, which gets a task. It has none to give it to.
    pub(super) fn for_other(&self, agent: &str) -> Self {
        let (skills, jurisdictions) = (&self.skills, &self.jurisdictions);
        let chosen = PromptOptions {
            agent: Some(agent),
            skills,
            jurisdictions,
            web: self.web,
            templates: &self.templates,
        };
        Self::of(self.library.clone(), chosen, false)
    }

    fn of(library: Arc<Library>, chosen: PromptOptions<'_>, delegates: bool) -> Self {
        let skills = offered(&library, chosen);
        let templates = chosen.templates;
        let agent = library.agent_or_default(chosen.agent);
        let mut sections = vec![templates.tell(Section::Base, &[])];
        if let Some(agent) = agent {
            sections.push(templates.tell(Section::Agent, &[("instructions", &agent.instructions)]));
        }
        let named = agent.and_then(|agent| agent.tools.as_deref());
        let web = chosen.web.named(named);
        if web.is_any() {
            sections.push(templates.tell(Section::Web, &[]));
        }
        if !delegates {
            sections.push(templates.tell(Section::Task, &[]));
        }
        if !chosen.jurisdictions.is_empty() {
            let names = templates.jurisdictions(chosen.jurisdictions);
            sections.push(templates.tell(Section::Jurisdictions, &[("jurisdictions", &names)]));
        }
        if !skills.is_empty() {
            let why =
                if chosen.skills.is_empty() { String::new() } else { templates.tell(Section::Chosen, &[]) };
            sections.push(templates.tell(Section::Skills, &[("chosen", &why), ("skills", &list(&skills))]));
        }
        let instructions = sections.join("\n\n");
        let mut tools = tools_of(named);
        tools.extend(web.tools());
        let delegates = delegates && may_delegate(named) && !library.agents.is_empty();
        if delegates {
            tools.push(ToolSpec {
                name: USE_AGENT.to_owned(),
                description: agent_tool(&library.agents),
                schema: AGENT_SCHEMA.to_owned(),
            });
        }
        if !skills.is_empty() {
            tools.push(ToolSpec {
                name: USE_SKILL.to_owned(),
                description: SKILL_TOOL.to_owned(),
                schema: SKILL_SCHEMA.to_owned(),
            });
        }
        let offered = skills.iter().map(|skill| skill.name.full_name.clone()).collect();
        Self {
            offered,
            templates: templates.clone(),
            tools,
            brought_from: None,
            instructions,
            skills: chosen.skills.to_vec(),
            jurisdictions: chosen.jurisdictions.to_vec(),
            model: agent.and_then(|agent| agent.model.clone()),
            named: named.map(<[String]>::to_vec),
            delegates,
            web: chosen.web,
            library,
        }
    }

    /// Offers these as well, unless the agent names its tools and not them.
    pub(super) fn offer(&mut self, tools: Vec<ToolSpec>) {
        let (named, library) = (self.named.as_deref(), &self.library);
        self.tools.extend(tools.into_iter().filter(|tool| {
            let names = names_of(library, tool);
            is_named(named, &names.iter().map(String::as_str).collect::<Vec<_>>())
        }));
    }

    /// Offers these of the machine instead of those that it brought before.
    pub(super) fn bring(&mut self, tools: Vec<ToolSpec>) {
        let before = *self.brought_from.get_or_insert(self.tools.len());
        self.tools.truncate(before);
        self.offer(tools);
    }

    /// The library that the turn began with.
    pub(super) fn library(&self) -> &Arc<Library> {
        &self.library
    }

    /// The system's instructions.
    pub(super) fn instructions(&self) -> &str {
        &self.instructions
    }

    /// What a model is told that sums up.
    pub(super) fn summing_up(&self) -> String {
        self.templates.tell(Section::Summary, &[])
    }

    /// The tools that are offered.
    pub(super) fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// The tokens that instructions and tools take in every request.
    pub(super) fn tokens(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| tool.description.len() + tool.schema.len()).sum();
        estimated_tokens(self.instructions.len()) + estimated_tokens(tools)
    }

    /// The model that the agent's author wishes, as written.
    pub(super) fn model_wished(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// What a call is for.
    pub(super) fn purpose_of(&self, call: &Call) -> Purpose {
        match call.tool.as_str() {
            USE_SKILL => {
                let asked = serde_json::from_str(&call.arguments).ok();
                let skill = asked.and_then(|Arguments { skill }| self.find(&skill));
                skill.map_or(Purpose::Tool, |skill| Purpose::Skill(skill.name.clone()))
            }
            USE_AGENT if self.delegates => {
                let asked = serde_json::from_str::<subagent::Arguments>(&call.arguments).ok();
                let agent = asked.and_then(|asked| match self.library.agent(&asked.agent) {
                    Lookup::Found(agent) => Some(agent.called()),
                    Lookup::Unknown | Lookup::Ambiguous(_) => None,
                });
                agent.map_or(Purpose::Tool, Purpose::Agent)
            }
            WEB_SEARCH => {
                let query = web::query_of(&call.arguments);
                query.map_or(Purpose::Tool, |query| Purpose::WebSearch { query })
            }
            _ => Purpose::Tool,
        }
    }

    /// What is said of a task for an agent that there is not.
    pub(super) fn no_such_agent(&self) -> String {
        if !self.delegates {
            return "Tasks can't be given to other agents here.".to_owned();
        }
        let names: Vec<&str> = self.library.agents.iter().map(|agent| agent.full_name.as_str()).collect();
        format!(
            "The arguments are to be {{\"agent\": \"<full name>\", \"task\": \"…\"}}. There are: {}.",
            names.join(", ")
        )
    }

    /// Runs a call of the tool `skill`.
    pub(super) fn open(&self, call: &Call) -> Output {
        let asked = match &call.purpose {
            Purpose::Skill(skill) => Some(skill.full_name.clone()),
            Purpose::Tool | Purpose::Agent(_) | Purpose::WebSearch { .. } => {
                serde_json::from_str::<Arguments>(&call.arguments).ok().map(|arguments| arguments.skill)
            }
        };
        let (outcome, text) = match asked.as_deref().map(|asked| self.find(asked)) {
            Some(Some(skill)) => (StepOutcome::Done, self.opened(skill)),
            Some(None) => (
                StepOutcome::Failed,
                format!("There is no such skill. There are: {}.", self.offered.join(", ")),
            ),
            None => (StepOutcome::Failed, "The arguments are to be {\"skill\": \"<full name>\"}.".to_owned()),
        };
        Output {
            images: Vec::new(),
            outcome,
            text,
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// What an opened skill says, with what of the question its advice may hang on.
    fn opened(&self, skill: &Skill) -> String {
        let mut text = opened(skill);
        if !self.jurisdictions.is_empty() {
            let names = self.templates.jurisdictions(&self.jurisdictions);
            text.push_str(&format!("\n\nThe jurisdictions of this question: {names}."));
        }
        text
    }

    fn find(&self, word: &str) -> Option<&Skill> {
        match self.library.skill(word) {
            Lookup::Found(skill) if self.offered.contains(&skill.name.full_name) => Some(skill),
            Lookup::Found(_) | Lookup::Unknown | Lookup::Ambiguous(_) => None,
        }
    }
}

/// The skills whose use by this answer is counted already: those that the question chose, and those that were opened.
pub(super) fn counted(record: &TurnRecord) -> HashSet<String> {
    let results = record.log.iter().filter_map(|entry| match entry {
        LogEntry::Result { result, .. } => Some(result.call.as_str()),
        LogEntry::Step { .. } | LogEntry::Summary { .. } => None,
    });
    let results: HashSet<&str> = results.collect();
    let opened = record.log.iter().flat_map(|entry| match entry {
        LogEntry::Step { step, .. } => step.calls().collect(),
        LogEntry::Result { .. } | LogEntry::Summary { .. } => Vec::new(),
    });
    let opened = opened.filter(|call| results.contains(call.id.as_str()));
    let opened = opened.filter_map(|call| match &call.purpose {
        Purpose::Skill(skill) => Some(skill.full_name.clone()),
        Purpose::Tool | Purpose::Agent(_) | Purpose::WebSearch { .. } => None,
    });
    record.skills.iter().cloned().chain(opened).collect()
}

/// What a model is told of the other agents.
fn agent_tool(agents: &[Agent]) -> String {
    let mut text = AGENT_TOOL.to_owned();
    let room = (DESCRIPTIONS_MAX_CHARS / agents.len().clamp(1, AGENTS_TOLD_MAX)).min(DESCRIPTION_MAX_CHARS);
    for agent in agents.iter().take(AGENTS_TOLD_MAX) {
        let description: String = agent.description.chars().take(room).collect();
        text.push_str(&format!("- {}: {description}\n", agent.full_name));
    }
    text
}

/// Whether an agent that names its tools names the one that gives tasks away, as any agent program calls it.
fn may_delegate(named: Option<&[String]>) -> bool {
    is_named(named, &[USE_AGENT, "task"])
}

/// By what names agents name a tool of an MCP server, in small letters: its own, as other programs call it, and those of
/// all tools of its server.
fn names_of(library: &Library, tool: &ToolSpec) -> Vec<String> {
    let own = tool.name.to_lowercase();
    let Some((server, bare)) = own.split_once(mcp::DIVIDER) else { return vec![own] };
    let mut names = vec![format!("mcp__{own}"), format!("mcp__{server}"), format!("mcp__{server}__*")];
    if let Some(brought) = library.server_of(&tool.name) {
        let called = format!("mcp__plugin_{}_{}", brought.plugin, brought.called).to_lowercase();
        names.extend([format!("{called}__{bare}"), format!("{called}__*"), called]);
    }
    names.push(own);
    names
}

/// Whether an agent that names its tools names one of these; one that names none has all.
pub(super) fn is_named(named: Option<&[String]>, tools: &[&str]) -> bool {
    named.is_none_or(|names| {
        names.iter().any(|name| {
            let bare = name.split('(').next().unwrap_or(name).trim().to_lowercase();
            tools.contains(&bare.as_str())
        })
    })
}

/// The skills that may be opened: those that the question chose, or else all but those that are for other
/// jurisdictions than its own; those that are for its own come first.
fn offered<'l>(library: &'l Library, chosen: PromptOptions<'_>) -> Vec<&'l Skill> {
    if !chosen.skills.is_empty() {
        let wanted = |skill: &&Skill| chosen.skills.contains(&skill.name.full_name);
        return library.skills.iter().filter(wanted).collect();
    }
    let asked = |skill: &&Skill| skill.jurisdictions.iter().any(|own| chosen.jurisdictions.contains(own));
    if chosen.jurisdictions.is_empty() {
        return library.skills.iter().collect();
    }
    let (own, rest): (Vec<_>, Vec<_>) = library.skills.iter().partition(asked);
    let any = rest.into_iter().filter(|skill| skill.jurisdictions.is_empty());
    own.into_iter().chain(any).collect()
}

/// The skills as a model is told of them.
fn list(skills: &[&Skill]) -> String {
    let mut instructions = String::new();
    let room = (DESCRIPTIONS_MAX_CHARS / skills.len().min(SKILLS_TOLD_MAX)).min(DESCRIPTION_MAX_CHARS);
    for skill in skills.iter().take(SKILLS_TOLD_MAX) {
        let description: String = skill.description.chars().take(room).collect();
        let cut = if description.len() < skill.description.len() { "…" } else { "" };
        instructions.push_str(&format!("- `{}`: {description}{cut}\n", skill.name.full_name));
    }
    let rest: Vec<&str> =
        skills.iter().skip(SKILLS_TOLD_MAX).map(|skill| skill.name.full_name.as_str()).collect();
    if !rest.is_empty() {
        instructions.push_str(&format!("- and {} more, which only the user names\n", rest.len()));
    }
    instructions
}

/// What an opened skill says.
fn opened(skill: &Skill) -> String {
    let mut text = format!("# Skill {}\n\n", skill.name.full_name);
    if !skill.files.is_empty() {
        let place = skill.place();
        text.push_str(&format!(
            "Its files are in the machine below {place}, read-only. Read and run them with the tool `shell`, such as \
             `cat {place}/{}`. Paths in what follows are relative to that folder.\n\n",
            skill.files[0]
        ));
        for file in skill.files.iter().take(FILES_TOLD_MAX) {
            text.push_str(&format!("- {file}\n"));
        }
        let rest = skill.files.len().saturating_sub(FILES_TOLD_MAX);
        if rest > 0 {
            text.push_str(&format!("- and {rest} more\n"));
        }
        text.push('\n');
    }
    text.push_str(&skill.instructions);
    text
}

/// The machine's tools, or those of them that an agent names: by their names here, or by those that other agent
/// programs give to their likes. An agent that names none that there is has all.
fn tools_of(named: Option<&[String]>) -> Vec<ToolSpec> {
    let meant = |tool: Tool| {
        let others: &[&str] = match tool {
            Tool::Shell => &["bash"],
            Tool::Read => &["notebookread"],
            Tool::Write => &[],
            Tool::Edit => &["multiedit"],
            Tool::List => &["ls", "glob"],
            Tool::Find => &["grep", "glob"],
            Tool::Search => &["grep"],
        };
        is_named(named, others) || is_named(named, &[tool.name()])
    };
    let spec = |tool: Tool| ToolSpec {
        name: tool.name().to_owned(),
        description: tool.description().to_owned(),
        schema: tool.schema().to_owned(),
    };
    let tools: Vec<ToolSpec> = Tool::ALL.into_iter().filter(|tool| meant(*tool)).map(spec).collect();
    if tools.is_empty() { Tool::ALL.into_iter().map(spec).collect() } else { tools }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(agent: Option<&str>, skills: &[&str]) -> PromptContext {
        let skills: Vec<String> = skills.iter().map(|&name| name.to_owned()).collect();
        let templates = Arc::new(PromptTemplates::builtin(Arc::default()));
        let web = WebAccess::default();
        let chosen = PromptOptions { agent, skills: &skills, jurisdictions: &[], web, templates: &templates };
        PromptContext::new(Arc::new(plugins::read(&[])), chosen)
    }

    #[test]
    fn skills_for_other_jurisdictions_are_not_offered_unless_they_are_chosen() {
        let mut library = plugins::read(&[]);
        let mut make = |folder: &str, jurisdictions: &[&str]| {
            let mut skill = library.skills[0].clone();
            skill.name.full_name = format!("law:{folder}");
            skill.jurisdictions = jurisdictions.iter().map(|&id| id.to_owned()).collect();
            library.skills.push(skill);
        };
        make("polish", &["PL"]);
        make("czech", &["CZ", "SK"]);
        let (library, templates) = (Arc::new(library), Arc::new(PromptTemplates::builtin(Arc::default())));
        let names = |skills: &[&str], jurisdictions: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            let (skills, jurisdictions) = (owned(skills), owned(jurisdictions));
            let web = WebAccess::default();
            let chosen = PromptOptions {
                agent: None,
                skills: &skills,
                jurisdictions: &jurisdictions,
                web,
                templates: &templates,
            };
            offered(&library, chosen).iter().map(|skill| skill.name.full_name.clone()).collect::<Vec<_>>()
        };
        let all = library.skills.len();
        assert_eq!(names(&[], &[]).len(), all);
        let czech = names(&[], &["CZ"]);
        assert_eq!((czech[0].as_str(), czech.len()), ("law:czech", all - 1), "it comes first: {czech:?}");
        assert_eq!(names(&["law:polish"], &["CZ"]), ["law:polish"], "the user knows better");
    }

    #[test]
    fn an_opened_skill_is_told_the_jurisdictions() {
        let templates =
            Arc::new(PromptTemplates::builtin(Arc::new(domain::catalog::builtin_jurisdictions())));
        let jurisdictions = ["SK".to_owned()];
        let web = WebAccess::default();
        let chosen = PromptOptions {
            agent: None,
            skills: &[],
            jurisdictions: &jurisdictions,
            web,
            templates: &templates,
        };
        let prompt = PromptContext::new(Arc::new(plugins::read(&[])), chosen);
        assert!(prompt.instructions().contains("the law of: Slovakia (SK)"));
        let opened = prompt.open(&call(r#"{"skill": "statute-lookup"}"#));
        assert!(
            opened.text.ends_with("The jurisdictions of this question: Slovakia (SK)."),
            "{}",
            opened.text
        );
    }

    fn call(arguments: &str) -> Call {
        Call { id: "c".into(), tool: USE_SKILL.into(), arguments: arguments.into(), purpose: Purpose::Tool }
    }

    #[test]
    fn chosen_skills_are_all_that_there_is() {
        let all = prompt(None, &[]);
        assert!(all.instructions().contains("`causerie:contract-review`: Reviews"));
        let one = prompt(None, &["causerie:statute-lookup", "gone:since"]);
        assert!(
            !one.instructions().contains("contract-review") && one.instructions().contains("The user chose")
        );
        let refused = one.open(&call(r#"{"skill": "causerie:contract-review"}"#));
        assert_eq!(refused.outcome, StepOutcome::Failed);
        assert!(refused.text.contains("causerie:statute-lookup"), "{}", refused.text);
        let none = prompt(None, &["gone:since"]);
        assert!(none.tools().iter().all(|tool| tool.name != USE_SKILL), "nothing is left to open");
    }

    #[test]
    fn an_opened_skill_gives_its_instructions_and_its_files() {
        let prompt = prompt(None, &[]);
        let arguments = r#"{"skill": "contract-review"}"#;
        let Purpose::Skill(skill) = prompt.purpose_of(&call(arguments)) else { unreachable!("a skill") };
        assert_eq!(skill.full_name, "causerie:contract-review");
        let opened = prompt.open(&call(arguments));
        assert_eq!(opened.outcome, StepOutcome::Done);
        assert!(opened.text.contains("# Reviewing a contract"));
        assert!(opened.text.contains("/plugins/causerie/skills/contract-review/references/checklist.md"));
        for wrong in ["", "{}", "[]", r#"{"skill": 1}"#, r#"{"skill": "x"}"#] {
            assert_eq!(prompt.open(&call(wrong)).outcome, StepOutcome::Failed, "{wrong}");
            assert_eq!(prompt.purpose_of(&call(wrong)), Purpose::Tool, "{wrong}");
        }
    }

    #[test]
    fn an_agent_brings_its_instructions_and_its_tools() {
        let lawyer = prompt(Some("causerie:lawyer"), &[]);
        assert!(lawyer.instructions().contains("You write for a lawyer"));
        let gone = prompt(Some("gone:since"), &[]);
        assert_eq!(gone.instructions(), prompt(None, &[]).instructions(), "the default one answers");
        let names = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            tools_of(Some(&named)).into_iter().map(|tool| tool.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["Read", "Grep"]), ["search", "read", "find"]);
        assert_eq!(names(&["Bash(git:*)"]), ["shell"]);
        assert_eq!(names(&["WebFetch"]).len(), Tool::ALL.len());
    }
}
