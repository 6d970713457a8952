//! Tests of the prompt of a turn.

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
        functions: &[],
        asks_user: false,
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
            functions: &[],
            asks_user: false,
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
            functions: &[],
            asks_user: false,
            templates: &templates,
        };
        offered_skills(&library, chosen).iter().map(|skill| skill.name.full_name.clone()).collect::<Vec<_>>()
    };
    let all = library.skills.len();
    assert_eq!(names(&[], &[]).len(), all);
    let czech = names(&[], &["CZ"]);
    assert_eq!((czech[0].as_str(), czech.len()), ("law:czech", all - 1), "it comes first: {czech:?}");
    assert_eq!(names(&["law:polish"], &["CZ"]), ["law:polish"], "the user knows better");
}

#[test]
fn open_skill_names_jurisdictions() {
    let templates = Arc::new(PromptTemplates::builtin(Arc::new(domain::catalog::builtin_jurisdictions())));
    let jurisdictions = ["SK".to_owned()];
    let web = WebAccess::default();
    let chosen = PromptOptions {
        agent: None,
        skills: &[],
        jurisdictions: &jurisdictions,
        web,
        workspace: None,
        client: None,
        functions: &[],
        asks_user: false,
        templates: &templates,
    };
    let prompt = PromptContext::new(Arc::new(plugins::read_plugins(&[])), chosen);
    assert!(prompt.instructions().contains("the law of: Slovakia (SK)"));
    let opened = prompt.open_skill(&skill_call(r#"{"skill": "statute-lookup"}"#));
    assert!(opened.text.ends_with("The jurisdictions of this question: Slovakia (SK)."), "{}", opened.text);
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
    assert!(!one.instructions().contains("contract-review") && one.instructions().contains("The user chose"));
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
    let Purpose::Skill(skill) = prompt.purpose_of(&skill_call(arguments)) else { unreachable!("a skill") };
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
