//! Tests the addresses that become fetchable, and the limit of calls to the web.

use domain::citation::NumberedPassage;
use domain::id::InstanceId;
use domain::step::{OutputBlock, Purpose};
use egress::{DocumentKind, PageLink};

use super::*;

const WEB_SEARCH: &str = HostTool::WebSearch.name();
const WEB_FETCH: &str = HostTool::WebFetch.name();
const USE_AGENT: &str = HostTool::Agent.name();

fn result_entry(tool: &str, outcome: StepOutcome, text: &str, passages: Vec<Passage>) -> LogEntry {
    let numbered = passages.into_iter().zip(1..);
    let passages = numbered
        .map(|(passage, number)| NumberedPassage { number, place: passage.place, text: passage.text })
        .collect();
    let result = CallResult {
        call: "c".to_owned(),
        tool: tool.to_owned(),
        outcome,
        text: text.to_owned(),
        passages,
        written: Vec::new(),
        images: Vec::new(),
        unread: Vec::new(),
    };
    LogEntry::Result { number: 0, result: Arc::new(result) }
}

fn web_passage(url: &str) -> Passage {
    Passage { place: PassagePlace::Web { url: url.to_owned(), title: "t".to_owned() }, text: "x".to_owned() }
}

fn allowed_by_log(log: &[LogEntry]) -> UrlAllowlist {
    let mut allowed = UrlAllowlist::new();
    add_log(&mut allowed, log);
    allowed
}

const EVIL: &str = "https://evil.example/?secret=rent";

#[test]
fn only_web_results_allow_fetch() {
    for (tool, outcome, may) in [
        (WEB_SEARCH, StepOutcome::Done, true),
        (WEB_FETCH, StepOutcome::Done, true),
        (USE_AGENT, StepOutcome::Done, false),
        (USE_AGENT, StepOutcome::Failed, false),
        (HostTool::Skill.name(), StepOutcome::Done, false),
        ("registry__look_up", StepOutcome::Done, false),
        ("read", StepOutcome::Done, false),
    ] {
        let log = [result_entry(tool, outcome, "", vec![web_passage(EVIL)])];
        assert_eq!(allowed_by_log(&log).contains(EVIL), may, "{tool}");
        let text = format!("# t\n<{EVIL}>\n\nIts links:\n- a <{EVIL}#x>\n{EVIL}{IS_DOCUMENT}");
        let log = [result_entry(tool, outcome, &text, Vec::new())];
        assert_eq!(allowed_by_log(&log).contains(EVIL), tool == WEB_FETCH, "{tool}");
    }
    let failed =
        result_entry(WEB_FETCH, StepOutcome::Failed, &format!("<{EVIL}>\n{EVIL}{IS_DOCUMENT}"), Vec::new());
    assert!(!allowed_by_log(&[failed]).contains(EVIL), "what failed tells of the model's own words");
}

#[test]
fn vendor_citations_do_not_allow_fetch() {
    let cited = domain::citation::NumberedCitation {
        block: 0,
        at: 0,
        number: 1,
        place: PassagePlace::Web { url: EVIL.to_owned(), title: String::new() },
        quote: String::new(),
    };
    let step = Step { cited: vec![cited], ..step_with_calls(&[]) };
    let log = [LogEntry::Step { number: 0, step: Arc::new(step), instance: InstanceId::from_random(0) }];
    assert!(!allowed_by_log(&log).contains(EVIL));
}

#[test]
fn page_links_allow_fetch() {
    let url = |text: &str| WebUrl::parse(text).expect("an address");
    let links = [
        "https://example.org/a.",
        "https://example.org/a|b",
        "https://example.org/a?b=`c`",
        "https://example.org/x_(y)",
        "https://example.org/)",
        "https://example.org/a'",
        "https://example.org/slash/",
        "http://example.org/b",
    ];
    let page = WebPage {
        url: url("https://example.org/page!"),
        title: "no-address.example/but <https://title.example/a>b".to_owned(),
        passages: Vec::new(),
        links: links
            .iter()
            .map(|link| PageLink { url: url(link), text: "example.net > <".to_owned() })
            .collect(),
        next_passage: None,
    };
    let page = page_output(page);
    let may = allowed_by_log(&[result_entry(WEB_FETCH, StepOutcome::Done, &page.text, page.passages)]);
    for link in links.iter().chain(&["https://example.org/page!"]) {
        assert!(may.contains(link), "{link}");
    }
    for other in [
        "https://example.org/a",
        "https://example.org/page",
        "https://example.org/slash",
        "https://example.org/b",
        "https://example.net/",
        "https://no-address.example/but",
        "https://title.example/a",
    ] {
        assert!(!may.contains(other), "{other}");
    }
    let (document, kind) = (url("https://example.org/lease.pdf,"), DocumentKind::Pdf);
    let name = name_of(&FetchedDocument { url: document.clone(), kind, bytes: Vec::new() });
    let text = format!("{document}{IS_DOCUMENT} It is now in the workspace: read it as /web/{name}");
    let may = allowed_by_log(&[result_entry(WEB_FETCH, StepOutcome::Done, &text, Vec::new())]);
    assert!(may.contains(document.as_str()) && !may.contains("https://example.org/lease.pdf"));
}

fn tool_call(id: usize, tool: &str) -> StepCall {
    StepCall { id: id.to_string(), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

fn step_with_calls(calls: &[StepCall]) -> Step {
    Step { blocks: calls.iter().cloned().map(OutputBlock::Call).collect(), ..Step::default() }
}

#[tokio::test]
async fn parallel_web_calls_stay_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    // Thirty calls in each step, every other one to the web, without any result yet.
    let calls: Vec<StepCall> = (0..150)
        .map(|id| tool_call(id, ["read", WEB_FETCH, WEB_SEARCH, USE_AGENT, WEB_FETCH][id % 5]))
        .collect();
    let log: Vec<LogEntry> = (0..)
        .zip(calls.chunks(30))
        .map(|(number, calls)| LogEntry::Step {
            number,
            step: Arc::new(step_with_calls(calls)),
            instance: InstanceId::from_random(0),
        })
        .collect();
    let web = WebTools::new(WebConfig::default()).expect("it holds");
    let mut refused = Vec::new();
    for asked in calls.iter().filter(|call| is_of_web(&call.tool)) {
        let workspaces = Workspaces::new(folder.path().to_owned(), workspace::Quota::default());
        let reading =
            WebPolicy { reach: web.access_for(true), allowed: Arc::new(UrlAllowlist::new()), country: None };
        let web_call = WebCall {
            web: web.clone(),
            workspaces: workspaces.expect("workspaces"),
            account: AccountId::from_random(0),
            reading,
            log: log.clone(),
        };
        refused.push(web_call.run_call(asked).await.text.contains("is the maximum"));
    }
    assert_eq!(refused.len(), 90);
    assert!(refused[..CALLS_MAX].iter().all(|refused| !refused), "{refused:?}");
    assert!(refused[CALLS_MAX..].iter().all(|refused| *refused), "{refused:?}");
    let unknown = tool_call(999, WEB_FETCH);
    assert!(number_of(&log, &unknown) > CALLS_MAX, "what no step called counts after all others");
}
