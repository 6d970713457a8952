//! Tests the addresses that become fetchable, and the limit of calls to the web.

use domain::citation::NumberedPassage;
use domain::id::InstanceId;
use domain::step::{Block, Purpose};
use egress::{DocumentKind, Link};

use super::*;

const WEB_SEARCH: &str = HostTool::WebSearch.name();
const WEB_FETCH: &str = HostTool::WebFetch.name();
const USE_AGENT: &str = HostTool::Agent.name();

fn result(tool: &str, outcome: StepOutcome, text: &str, passages: Vec<Passage>) -> LogEntry {
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

fn passage(url: &str) -> Passage {
    Passage { place: Place::Web { url: url.to_owned(), title: "t".to_owned() }, text: "x".to_owned() }
}

fn allowed(log: &[LogEntry]) -> UrlAllowlist {
    let mut allowed = UrlAllowlist::new();
    add_log(&mut allowed, log);
    allowed
}

const EVIL: &str = "https://evil.example/?secret=rent";

#[test]
fn what_searches_and_fetches_give_may_be_fetched_and_what_others_cite_may_not() {
    for (tool, outcome, may) in [
        (WEB_SEARCH, StepOutcome::Done, true),
        (WEB_FETCH, StepOutcome::Done, true),
        (USE_AGENT, StepOutcome::Done, false),
        (USE_AGENT, StepOutcome::Failed, false),
        (HostTool::Skill.name(), StepOutcome::Done, false),
        ("registry__look_up", StepOutcome::Done, false),
        ("read", StepOutcome::Done, false),
    ] {
        let log = [result(tool, outcome, "", vec![passage(EVIL)])];
        assert_eq!(allowed(&log).contains(EVIL), may, "{tool}");
        let text = format!("# t\n<{EVIL}>\n\nIts links:\n- a <{EVIL}#x>\n{EVIL}{IS_DOCUMENT}");
        let log = [result(tool, outcome, &text, Vec::new())];
        assert_eq!(allowed(&log).contains(EVIL), tool == WEB_FETCH, "{tool}");
    }
    let failed =
        result(WEB_FETCH, StepOutcome::Failed, &format!("<{EVIL}>\n{EVIL}{IS_DOCUMENT}"), Vec::new());
    assert!(!allowed(&[failed]).contains(EVIL), "what failed tells of the model's own words");
}

#[test]
fn what_a_vendor_cites_may_not_be_fetched() {
    let cited = domain::citation::Citation {
        block: 0,
        at: 0,
        number: 1,
        place: Place::Web { url: EVIL.to_owned(), title: String::new() },
        quote: String::new(),
    };
    let step = Step { cited: vec![cited], ..step(&[]) };
    let log = [LogEntry::Step { number: 0, step: Arc::new(step), instance: InstanceId::from_random(0) }];
    assert!(!allowed(&log).contains(EVIL));
}

#[test]
fn the_links_of_a_page_may_be_fetched_as_they_are_told() {
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
    let page = Page {
        url: url("https://example.org/page!"),
        title: "no-address.example/but <https://title.example/a>b".to_owned(),
        passages: Vec::new(),
        links: links.iter().map(|link| Link { url: url(link), text: "example.net > <".to_owned() }).collect(),
        next_passage: None,
    };
    let page = read(page);
    let may = allowed(&[result(WEB_FETCH, StepOutcome::Done, &page.text, page.passages)]);
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
    let name = name_of(&Document { url: document.clone(), kind, bytes: Vec::new() });
    let text = format!("{document}{IS_DOCUMENT} It is now in the workspace: read it as /web/{name}");
    let may = allowed(&[result(WEB_FETCH, StepOutcome::Done, &text, Vec::new())]);
    assert!(may.contains(document.as_str()) && !may.contains("https://example.org/lease.pdf"));
}

fn call(id: usize, tool: &str) -> Call {
    Call { id: id.to_string(), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose: Purpose::Tool }
}

fn step(calls: &[Call]) -> Step {
    Step { blocks: calls.iter().cloned().map(Block::Call).collect(), ..Step::default() }
}

#[tokio::test]
async fn calls_side_by_side_do_not_pass_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    // Thirty calls in each step, every other one to the web, without any result yet.
    let calls: Vec<Call> =
        (0..150).map(|id| call(id, ["read", WEB_FETCH, WEB_SEARCH, USE_AGENT, WEB_FETCH][id % 5])).collect();
    let log: Vec<LogEntry> = (0..)
        .zip(calls.chunks(30))
        .map(|(number, calls)| LogEntry::Step {
            number,
            step: Arc::new(step(calls)),
            instance: InstanceId::from_random(0),
        })
        .collect();
    let web = Web::new(WebConfig::default()).expect("it holds");
    let mut refused = Vec::new();
    for asked in calls.iter().filter(|call| is_of_web(&call.tool)) {
        let workspaces = Workspaces::new(folder.path().to_owned(), workspace::Quota::default());
        let reading =
            WebPolicy { reach: web.reach(true), allowed: Arc::new(UrlAllowlist::new()), country: None };
        let web_call = WebCall {
            web: web.clone(),
            workspaces: workspaces.expect("workspaces"),
            account: AccountId::from_random(0),
            reading,
            log: log.clone(),
        };
        refused.push(web_call.run(asked).await.text.contains("no more"));
    }
    assert_eq!(refused.len(), 90);
    assert!(refused[..CALLS_MAX].iter().all(|refused| !refused), "{refused:?}");
    assert!(refused[CALLS_MAX..].iter().all(|refused| *refused), "{refused:?}");
    let unknown = call(999, WEB_FETCH);
    assert!(number_of(&log, &unknown) > CALLS_MAX, "what no step called counts after all others");
}
