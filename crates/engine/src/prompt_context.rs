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

use super::outside_calls::OutsideCalls;
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
    outside: OutsideCalls,
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
    /// The functions that the client runs itself.
    pub functions: &'a [ToolSpec],
    /// True if the model may ask the user questions.
    pub asks_user: bool,
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
            // For the answer, not for a task, which cannot be paused.
            client: None,
            functions: &[],
            asks_user: false,
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
            Offer::WithUser => chosen.asks_user && is_named(named, tool.facts()),
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
        tools.extend(chosen.functions.iter().cloned());
        let outside = OutsideCalls {
            functions: chosen.functions.iter().map(|tool| tool.name.clone()).collect(),
            asks_user: chosen.asks_user,
        };
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
            outside,
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

    /// Returns the calls that the model may make to the outside.
    pub(super) fn outside_calls(&self) -> &OutsideCalls {
        &self.outside
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
mod tests;
