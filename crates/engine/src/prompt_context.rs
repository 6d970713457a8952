//! Builds the prompt of a turn: instructions, tools and skills.
//!
//! Skills are disclosed in steps: the instructions name and describe them, a call of the tool `skill` opens one, and its
//! files are in the machine. A turn keeps the library with which it began.

use std::collections::HashSet;
use std::sync::Arc;

use domain::answer::LogEntry;
use domain::step::{Purpose, StepCall, StepOutcome, ToolSpec};
use domain::tool::{CallPartKind, HostTool, MachineTool, Offer, facts_of};
use domain::turn::{CallOutput, estimated_tokens};
use plugins::{Lookup, PluginAgent, PluginLibrary, Skill};
use serde::Deserialize;
use store::turns::TurnRecord;

use super::tool_selection::{self, PermittedTools, is_named};
use super::web::{self, WebAccess};
use crate::templates::{PromptTemplates, Section};

/// The maximum number of skills that the instructions describe.
const SKILLS_LISTED_MAX: usize = 100;
/// The longest descriptions of all skills together, and of one skill, in characters.
const DESCRIPTIONS_MAX_CHARS: usize = 32 * 1024;
const DESCRIPTION_MAX_CHARS: usize = 1024;
/// The maximum number of files that an opened skill names.
const FILES_LISTED_MAX: usize = 200;

/// The maximum number of agents that the tool describes.
const AGENTS_LISTED_MAX: usize = 50;

/// The prompt of a turn.
pub(super) struct PromptContext {
    library: Arc<PluginLibrary>,
    templates: Arc<PromptTemplates>,
    skills: Vec<String>,
    jurisdictions: Vec<String>,
    /// The instructions in the workspace.
    workspace: Option<String>,
    /// The model that the agent asks for.
    model: Option<String>,
    /// The tools that the agent names.
    named: Option<Vec<String>>,
    /// True if the agent may start subagents.
    delegates: bool,
    web: WebAccess,
    /// The full names of the skills that may be opened.
    offered: Vec<String>,
    tools: Vec<ToolSpec>,
    /// The index of the first tool that the machine listed.
    brought_from: Option<usize>,
    instructions: String,
}

/// The choices of a question.
#[derive(Debug, Clone, Copy)]
pub struct PromptOptions<'a> {
    /// The agent's full name; the default agent if `None`.
    pub agent: Option<&'a str>,
    /// The skills' full names; all skills if empty.
    pub skills: &'a [String],
    /// The identifiers of the jurisdictions.
    pub jurisdictions: &'a [String],
    /// Its access to the web.
    pub web: WebAccess,
    /// The instructions in the workspace, if there are any.
    pub workspace: Option<&'a str>,
    /// The instructions that the client sent with the question, if there are any.
    pub client: Option<&'a str>,
    pub templates: &'a Arc<PromptTemplates>,
}

/// The arguments of the tool `skill`.
#[derive(Deserialize)]
struct SkillArguments {
    skill: String,
}

/// The arguments of the tool `agent`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentArguments {
    /// The agent's full name.
    pub(super) agent: String,
    pub(super) task: String,
}

impl PromptContext {
    /// Creates the prompt of a question. Choices that do not exist any more are ignored.
    pub(super) fn new(library: Arc<PluginLibrary>, chosen: PromptOptions<'_>) -> Self {
        Self::from_options(library, chosen, true)
    }

    /// Creates the prompt of a subagent, which cannot hand its task on.
    pub(super) fn for_other(&self, agent: &str) -> Self {
        let (skills, jurisdictions) = (&self.skills, &self.jurisdictions);
        let chosen = PromptOptions {
            agent: Some(agent),
            skills,
            jurisdictions,
            web: self.web,
            workspace: self.workspace.as_deref(),
            // For the answer, not for a task.
            client: None,
            templates: &self.templates,
        };
        Self::from_options(self.library.clone(), chosen, false)
    }

    fn from_options(library: Arc<PluginLibrary>, chosen: PromptOptions<'_>, delegates: bool) -> Self {
        let skills = offered_skills(&library, chosen);
        let templates = chosen.templates;
        let agent = library.agent_or_default(chosen.agent);
        let mut sections = vec![templates.render_section(Section::Base, &[])];
        if let Some(agent) = agent {
            sections.push(templates.render_section(Section::Agent, &[("instructions", &agent.instructions)]));
        }
        if let Some(instructions) = chosen.workspace {
            sections.push(templates.render_section(Section::Workspace, &[("instructions", instructions)]));
        }
        if let Some(instructions) = chosen.client {
            sections.push(templates.render_section(Section::Client, &[("instructions", instructions)]));
        }
        let named = agent.and_then(|agent| agent.tools.as_deref());
        let web = chosen.web.restrict_to(named);
        if web.is_any() {
            sections.push(templates.render_section(Section::Web, &[]));
        }
        if !delegates {
            sections.push(templates.render_section(Section::Task, &[]));
        }
        if !chosen.jurisdictions.is_empty() {
            let names = templates.name_jurisdictions(chosen.jurisdictions);
            sections.push(templates.render_section(Section::Jurisdictions, &[("jurisdictions", &names)]));
        }
        if !skills.is_empty() {
            let why = if chosen.skills.is_empty() {
                String::new()
            } else {
                templates.render_section(Section::Chosen, &[])
            };
            sections.push(
                templates
                    .render_section(Section::Skills, &[("chosen", &why), ("skills", &list_skills(&skills))]),
            );
        }
        let instructions = sections.join("\n\n");
        let delegates = delegates && is_named(named, HostTool::Agent.facts()) && !library.agents.is_empty();
        let of_host = HostTool::ALL.iter().filter(|tool| match tool.facts().offer {
            Offer::Always | Offer::WithImages => is_named(named, tool.facts()),
            Offer::WithWeb => web.has_tool(**tool),
            Offer::WithAgents => delegates,
            Offer::WithSkills => !skills.is_empty(),
            Offer::Never => false,
        });
        let mut tools = tool_selection::of_machine(named);
        tools.extend(of_host.map(|tool| {
            let mut spec = ToolSpec::from(tool.facts());
            if tool.facts().form == CallPartKind::Agent {
                spec.description.push_str(&agent_list(&library.agents));
            }
            spec
        }));
        let offered = skills.iter().map(|skill| skill.name.full_name.clone()).collect();
        Self {
            offered,
            templates: templates.clone(),
            tools,
            brought_from: None,
            instructions,
            skills: chosen.skills.to_vec(),
            jurisdictions: chosen.jurisdictions.to_vec(),
            workspace: chosen.workspace.map(str::to_owned),
            model: agent.and_then(|agent| agent.model.clone()),
            named: named.map(<[String]>::to_vec),
            delegates,
            web: chosen.web,
            library,
        }
    }

    /// Adds tools of MCP servers, except tools that the agent's list leaves out.
    pub(super) fn offer_tools(&mut self, tools: Vec<ToolSpec>) {
        let (named, library) = (self.named.as_deref(), &self.library);
        let offered = |tool: &ToolSpec| tool_selection::is_mcp_tool_named(named, library, &tool.name);
        self.tools.extend(tools.into_iter().filter(offered));
    }

    /// Replaces the tools that the machine listed before.
    pub(super) fn replace_tools(&mut self, tools: Vec<ToolSpec>) {
        let before = *self.brought_from.get_or_insert(self.tools.len());
        self.tools.truncate(before);
        self.offer_tools(tools);
    }

    /// Returns the library with which the turn began.
    pub(super) fn library(&self) -> &Arc<PluginLibrary> {
        &self.library
    }

    /// Returns the system instructions.
    pub(super) fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Returns the instructions in the workspace.
    pub(super) fn workspace_instructions(&self) -> Option<&str> {
        self.workspace.as_deref()
    }

    /// Returns the instruction for a summary.
    pub(super) fn summing_up(&self) -> String {
        self.templates.render_section(Section::Summary, &[])
    }

    /// Returns the tools that are offered to a model. A model that accepts no images reads files instead of viewing
    /// them, even for an agent that names only `view`.
    pub(super) fn tools_for(&self, sees_images: bool) -> Vec<ToolSpec> {
        if sees_images {
            return self.tools.clone();
        }
        let needs_images =
            |tool: &ToolSpec| facts_of(&tool.name).is_some_and(|tool| tool.offer == Offer::WithImages);
        let (without, mut tools): (Vec<_>, Vec<_>) = self.tools.iter().cloned().partition(needs_images);
        if !without.is_empty() && tools.iter().all(|tool| tool.name != MachineTool::Read.name()) {
            tools.insert(0, ToolSpec::from(MachineTool::Read.facts()));
        }
        tools
    }

    /// Returns the tools that a model may call.
    pub(super) fn permitted_tools(&self) -> PermittedTools {
        let tools = [self.tools_for(true), self.tools_for(false)].concat();
        let offered = |name: &str| tools.iter().any(|tool| tool.name == name);
        PermittedTools::new(offered, self.named.as_deref(), &self.library)
    }

    /// Estimates the tokens of instructions and tools, which every request has.
    pub(super) fn estimate_tokens(&self) -> u64 {
        let tools = self.tools.iter().map(|tool| tool.description.len() + tool.schema.len()).sum();
        estimated_tokens(self.instructions.len()) + estimated_tokens(tools)
    }

    /// Returns the model that the agent asks for, as its author wrote it.
    pub(super) fn model_wished(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns the purpose of a call.
    pub(super) fn purpose_of(&self, call: &StepCall) -> Purpose {
        match facts_of(&call.tool).map_or(CallPartKind::Tool, |tool| tool.form) {
            CallPartKind::Skill => {
                let asked = serde_json::from_str(&call.arguments).ok();
                let skill = asked.and_then(|SkillArguments { skill }| self.find_skill(&skill));
                skill.map_or(Purpose::Tool, |skill| Purpose::Skill(skill.name.clone()))
            }
            CallPartKind::Agent if self.delegates => {
                let asked = serde_json::from_str::<AgentArguments>(&call.arguments).ok();
                let agent = asked.and_then(|asked| match self.library.find_agent(&asked.agent) {
                    Lookup::Found(agent) => Some(agent.to_agent_name()),
                    Lookup::Unknown | Lookup::Ambiguous(_) => None,
                });
                agent.map_or(Purpose::Tool, Purpose::Agent)
            }
            CallPartKind::WebSearch => {
                let query = web::query_of(&call.arguments);
                query.map_or(Purpose::Tool, |query| Purpose::WebSearch { query })
            }
            CallPartKind::Agent | CallPartKind::Tool => Purpose::Tool,
        }
    }

    /// Returns the error for a call of a tool that does not exist. It names the offered tools.
    pub(super) fn no_such_tool(&self, called: &str, sees_images: bool) -> String {
        /// The maximum length of the repeated name.
        const NAME_MAX_CHARS: usize = 100;
        let called: String =
            called.chars().filter(|letter| !letter.is_control()).take(NAME_MAX_CHARS).collect();
        let tools = self.tools_for(sees_images);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        format!("unknown tool `{called}`; use one of {}", names.join(", "))
    }

    /// Returns the error for a task to an agent that does not exist.
    pub(super) fn no_such_agent(&self) -> String {
        if !self.delegates {
            return "Tasks cannot be delegated to other agents here.".to_owned();
        }
        let names: Vec<&str> = self.library.agents.iter().map(|agent| agent.full_name.as_str()).collect();
        format!(
            "Invalid arguments: use {{\"agent\": \"<full name>\", \"task\": \"…\"}}. Agents: {}.",
            names.join(", ")
        )
    }

    /// Runs a call of the tool `skill`.
    pub(super) fn open_skill(&self, call: &StepCall) -> CallOutput {
        let asked = match &call.purpose {
            Purpose::Skill(skill) => Some(skill.full_name.clone()),
            Purpose::Tool | Purpose::Agent(_) | Purpose::WebSearch { .. } => {
                serde_json::from_str::<SkillArguments>(&call.arguments).ok().map(|arguments| arguments.skill)
            }
        };
        let (outcome, text) = match asked.as_deref().map(|asked| self.find_skill(asked)) {
            Some(Some(skill)) => (StepOutcome::Done, self.skill_text(skill)),
            Some(None) => {
                (StepOutcome::Failed, format!("Unknown skill. Use one of: {}.", self.offered.join(", ")))
            }
            None => (StepOutcome::Failed, "Invalid arguments: use {\"skill\": \"<full name>\"}.".to_owned()),
        };
        CallOutput {
            images: Vec::new(),
            outcome,
            text,
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Returns the text of an opened skill, with the jurisdictions of the question.
    fn skill_text(&self, skill: &Skill) -> String {
        let mut text = format_skill(skill);
        if !self.jurisdictions.is_empty() {
            let names = self.templates.name_jurisdictions(&self.jurisdictions);
            text.push_str(&format!("\n\nThe jurisdictions of this question: {names}."));
        }
        text
    }

    fn find_skill(&self, word: &str) -> Option<&Skill> {
        match self.library.find_skill(word) {
            Lookup::Found(skill) if self.offered.contains(&skill.name.full_name) => Some(skill),
            Lookup::Found(_) | Lookup::Unknown | Lookup::Ambiguous(_) => None,
        }
    }
}

/// Returns the skills whose use by this answer is counted already: chosen by the question, or opened.
pub(super) fn find_counted_skills(record: &TurnRecord) -> HashSet<String> {
    let results = record.log.iter().filter_map(|entry| match entry {
        LogEntry::Result { result, .. } => Some(result.call.as_str()),
        LogEntry::Step { .. } | LogEntry::Summary { .. } => None,
    });
    let results: HashSet<&str> = results.collect();
    let opened = record.log.iter().flat_map(|entry| match entry {
        LogEntry::Step { step, .. } => step.tool_calls().collect(),
        LogEntry::Result { .. } | LogEntry::Summary { .. } => Vec::new(),
    });
    let opened = opened.filter(|call| results.contains(call.id.as_str()));
    let opened = opened.filter_map(|call| match &call.purpose {
        Purpose::Skill(skill) => Some(skill.full_name.clone()),
        Purpose::Tool | Purpose::Agent(_) | Purpose::WebSearch { .. } => None,
    });
    record.skills.iter().cloned().chain(opened).collect()
}

/// Lists the agents, for the description of the tool `agent`.
fn agent_list(agents: &[PluginAgent]) -> String {
    let mut text = " The agents:\n".to_owned();
    let room = (DESCRIPTIONS_MAX_CHARS / agents.len().clamp(1, AGENTS_LISTED_MAX)).min(DESCRIPTION_MAX_CHARS);
    for agent in agents.iter().take(AGENTS_LISTED_MAX) {
        let description: String = agent.description.chars().take(room).collect();
        text.push_str(&format!("- {}: {description}\n", agent.full_name));
    }
    text
}

/// Returns the skills that may be opened: the ones that the question chose, or else all except skills for other
/// jurisdictions. Skills for the jurisdictions of the question come first.
fn offered_skills<'l>(library: &'l PluginLibrary, chosen: PromptOptions<'_>) -> Vec<&'l Skill> {
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

/// Lists the skills for the instructions.
fn list_skills(skills: &[&Skill]) -> String {
    let mut instructions = String::new();
    let room = (DESCRIPTIONS_MAX_CHARS / skills.len().min(SKILLS_LISTED_MAX)).min(DESCRIPTION_MAX_CHARS);
    for skill in skills.iter().take(SKILLS_LISTED_MAX) {
        let description: String = skill.description.chars().take(room).collect();
        let cut = if description.len() < skill.description.len() { "…" } else { "" };
        instructions.push_str(&format!("- `{}`: {description}{cut}\n", skill.name.full_name));
    }
    let rest: Vec<&str> =
        skills.iter().skip(SKILLS_LISTED_MAX).map(|skill| skill.name.full_name.as_str()).collect();
    if !rest.is_empty() {
        instructions.push_str(&format!("- and {} more, which only the user can name\n", rest.len()));
    }
    instructions
}

/// Returns the instructions and files of a skill.
fn format_skill(skill: &Skill) -> String {
    let mut text = format!("# Skill {}\n\n", skill.name.full_name);
    if !skill.files.is_empty() {
        let place = skill.machine_folder();
        text.push_str(&format!(
            "Its files are in the machine below {place}, read-only. Read and run them with the tool `shell`, such as \
             `cat {place}/{}`. Paths in what follows are relative to that folder.\n\n",
            skill.files[0]
        ));
        for file in skill.files.iter().take(FILES_LISTED_MAX) {
            text.push_str(&format!("- {file}\n"));
        }
        let rest = skill.files.len().saturating_sub(FILES_LISTED_MAX);
        if rest > 0 {
            text.push_str(&format!("- and {rest} more\n"));
        }
        text.push('\n');
    }
    text.push_str(&skill.instructions);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_prompt(agent: Option<&str>, skills: &[&str]) -> PromptContext {
        let skills: Vec<String> = skills.iter().map(|&name| name.to_owned()).collect();
        let templates = Arc::new(PromptTemplates::builtin(Arc::default()));
        let web = WebAccess::default();
        let chosen = PromptOptions {
            agent,
            skills: &skills,
            jurisdictions: &[],
            web,
            templates: &templates,
            workspace: None,
            client: None,
        };
        PromptContext::new(Arc::new(plugins::read_plugins(&[])), chosen)
    }

    #[test]
    fn view_tool_replaced_for_blind_model() {
        let templates = Arc::new(PromptTemplates::builtin(Arc::default()));
        let names = |named: Option<&[&str]>, sees_images: bool| {
            let mut library = plugins::read_plugins(&[]);
            library.skills.clear();
            let agent = &mut library.agents[0];
            agent.tools = named.map(|named| named.iter().map(|&name| name.to_owned()).collect());
            let called = agent.full_name.clone();
            let web = WebAccess::default();
            let chosen = PromptOptions {
                agent: Some(&called),
                skills: &[],
                jurisdictions: &[],
                web,
                workspace: None,
                client: None,
                templates: &templates,
            };
            let context = PromptContext::new(Arc::new(library), chosen);
            let tools = context.tools_for(sees_images);
            let names = tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
            let error = context.no_such_tool("gr\nep", sees_images);
            assert_eq!(error, format!("unknown tool `grep`; use one of {}", names.join(", ")));
            names
        };
        assert_eq!(names(Some(&["View"]), true), ["view"]);
        assert_eq!(names(Some(&["View"]), false), ["read"]);
        assert_eq!(names(Some(&["View", "Bash"]), false), ["read", "shell"]);
        assert_eq!(names(Some(&["Read", "View"]), false), ["read"]);
        let all = names(None, false);
        assert_eq!(all.iter().filter(|name| *name == "read").count(), 1, "{all:?}");
        assert_eq!(names(Some(&["Bash"]), false), ["shell"]);
    }

    #[test]
    fn other_jurisdiction_skills_need_choice() {
        let mut library = plugins::read_plugins(&[]);
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
                workspace: None,
                client: None,
                templates: &templates,
            };
            offered_skills(&library, chosen)
                .iter()
                .map(|skill| skill.name.full_name.clone())
                .collect::<Vec<_>>()
        };
        let all = library.skills.len();
        assert_eq!(names(&[], &[]).len(), all);
        let czech = names(&[], &["CZ"]);
        assert_eq!((czech[0].as_str(), czech.len()), ("law:czech", all - 1), "it comes first: {czech:?}");
        assert_eq!(names(&["law:polish"], &["CZ"]), ["law:polish"], "the user knows better");
    }

    #[test]
    fn open_skill_names_jurisdictions() {
        let templates =
            Arc::new(PromptTemplates::builtin(Arc::new(domain::catalog::builtin_jurisdictions())));
        let jurisdictions = ["SK".to_owned()];
        let web = WebAccess::default();
        let chosen = PromptOptions {
            agent: None,
            skills: &[],
            jurisdictions: &jurisdictions,
            web,
            workspace: None,
            client: None,
            templates: &templates,
        };
        let prompt = PromptContext::new(Arc::new(plugins::read_plugins(&[])), chosen);
        assert!(prompt.instructions().contains("the law of: Slovakia (SK)"));
        let opened = prompt.open_skill(&skill_call(r#"{"skill": "statute-lookup"}"#));
        assert!(
            opened.text.ends_with("The jurisdictions of this question: Slovakia (SK)."),
            "{}",
            opened.text
        );
    }

    fn skill_call(arguments: &str) -> StepCall {
        StepCall {
            id: "c".into(),
            tool: HostTool::Skill.name().into(),
            arguments: arguments.into(),
            purpose: Purpose::Tool,
        }
    }

    #[test]
    fn chosen_skills_exclude_others() {
        let all = sample_prompt(None, &[]);
        assert!(all.instructions().contains("`causerie:contract-review`: Reviews"));
        let one = sample_prompt(None, &["causerie:statute-lookup", "gone:since"]);
        assert!(
            !one.instructions().contains("contract-review") && one.instructions().contains("The user chose")
        );
        let refused = one.open_skill(&skill_call(r#"{"skill": "causerie:contract-review"}"#));
        assert_eq!(refused.outcome, StepOutcome::Failed);
        assert!(refused.text.contains("causerie:statute-lookup"), "{}", refused.text);
        let none = sample_prompt(None, &["gone:since"]);
        assert!(
            none.tools_for(true).iter().all(|tool| tool.name != HostTool::Skill.name()),
            "nothing is left to open"
        );
    }

    #[test]
    fn open_skill_gives_instructions_and_files() {
        let prompt = sample_prompt(None, &[]);
        let arguments = r#"{"skill": "contract-review"}"#;
        let Purpose::Skill(skill) = prompt.purpose_of(&skill_call(arguments)) else {
            unreachable!("a skill")
        };
        assert_eq!(skill.full_name, "causerie:contract-review");
        let opened = prompt.open_skill(&skill_call(arguments));
        assert_eq!(opened.outcome, StepOutcome::Done);
        assert!(opened.text.contains("# Reviewing a contract"));
        assert!(opened.text.contains("/plugins/causerie/skills/contract-review/references/checklist.md"));
        for wrong in ["", "{}", "[]", r#"{"skill": 1}"#, r#"{"skill": "x"}"#] {
            assert_eq!(prompt.open_skill(&skill_call(wrong)).outcome, StepOutcome::Failed, "{wrong}");
            assert_eq!(prompt.purpose_of(&skill_call(wrong)), Purpose::Tool, "{wrong}");
        }
    }

    #[test]
    fn agent_brings_instructions_and_tools() {
        let lawyer = sample_prompt(Some("causerie:lawyer"), &[]);
        assert!(lawyer.instructions().contains("You write for a lawyer"));
        let gone = sample_prompt(Some("gone:since"), &[]);
        assert_eq!(gone.instructions(), sample_prompt(None, &[]).instructions(), "the default one answers");
    }
}
