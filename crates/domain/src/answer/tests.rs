//! Tests of the fold.

use super::*;
use crate::citation::NumberedPassage;
use crate::id::InstanceId;
use crate::image::{ImageKind, ImageRef};
use crate::step::StopReason;
use crate::unread::{UnreadFile, UnreadReason};

/// Creates a step log in which these calls wrote these files.
fn log(written: &[Vec<String>]) -> Vec<LogEntry> {
    let call = |index: usize| Call {
        id: format!("c{index}"),
        tool: "write".into(),
        arguments: "{}".into(),
        purpose: Purpose::Tool,
    };
    let blocks = (0..written.len()).map(|index| Block::Call(call(index))).collect();
    let step = Step { blocks, stop: StopReason::Calls, ..Step::default() };
    let instance = InstanceId::from_random(1);
    let mut log = vec![LogEntry::Step { number: 0, step: step.into(), instance }];
    for (index, written) in written.iter().enumerate() {
        let result = CallResult {
            images: Vec::new(),
            call: format!("c{index}"),
            tool: "write".into(),
            outcome: StepOutcome::Done,
            text: String::new(),
            passages: Vec::new(),
            written: written.clone(),
            unread: Vec::new(),
        };
        log.push(LogEntry::Result { number: 0, result: result.into() });
    }
    log
}

fn files(answer: &Answer) -> Vec<&str> {
    let files = answer.parts.iter().filter_map(|part| match &part.body {
        Body::File { path } => Some(path.as_str()),
        Body::Text(_) | Body::Reasoning(_) | Body::Run(_) => None,
    });
    files.collect()
}

#[test]
fn a_file_enters_an_answer_once_however_often_it_is_written() {
    let written =
        [vec!["/b".to_owned(), "/b".to_owned()], vec!["/b".to_owned(), "/a".to_owned(), "/c".to_owned()]];
    let answer = Answer::rebuild(MessageId::from_random(1), &["/a".to_owned()], &log(&written), None);
    assert_eq!(files(&answer), ["/a", "/b", "/c"]);
}

#[test]
fn no_number_of_written_files_makes_an_answer_endless() {
    let written: Vec<Vec<String>> =
        (0..32).map(|call| (0..100).map(|file| format!("/{call}/{file}")).collect()).collect();
    let answer = Answer::rebuild(MessageId::from_random(1), &[], &log(&written), None);
    assert_eq!(files(&answer).len(), FILE_PARTS_MAX);
}

#[test]
fn vendor_citations_are_marked_and_removed_when_the_step_is_repeated() {
    let mut answer = Answer::new(MessageId::from_random(1), &[]);
    let place = |url: &str| Place::Web { url: url.into(), title: String::new() };
    let cited = |at, number, url: &str| Change::Cited { block: 1, at, number, place: place(url) };
    let text = |text: &str| Change::TextGrew { block: 1, text: text.into() };
    let step = |number| Change::StepBegan { number };
    let changes = [
        step(0),
        text("Due. Paid."),
        cited(10, 2, "https://b.example/"),
        cited(4, 1, "https://a.example/"),
        text(" So."),
        step(1),
        text("Cut off."),
        cited(8, 1, "https://a.example/"),
        cited(8, 3, "https://c.example/"),
        step(1),
        text("Said anew."),
    ];
    for (change, revision) in changes.into_iter().zip(1..) {
        assert!(answer.fold(Stamp { epoch: 1, revision }, change));
    }
    let Body::Text(first) = &answer.parts[0].body else { panic!("{answer:?}") };
    assert_eq!(first, "Due. [1] Paid. [2] So.");
    assert_eq!(answer.text(), "Due. Paid. So.\n\nSaid anew.");
    assert_eq!(answer.source(1), Some(&place("https://a.example/")), "the step before still cites it");
    assert_eq!(answer.source(3), None);
}

/// Returns the result of a tool that reports these unread files.
fn report(tool: &str, unread: &[UnreadFile]) -> CallResult {
    CallResult {
        images: Vec::new(),
        call: "c".into(),
        tool: tool.into(),
        outcome: StepOutcome::Done,
        text: String::new(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: unread.to_vec(),
    }
}

/// Returns the answer to a question with these attachments after these tools reported these unread files.
fn after(attached: &[&str], calls: &[(&str, &[(&str, UnreadReason)])]) -> Answer {
    let attached: Vec<String> = attached.iter().map(|&path| path.to_owned()).collect();
    let result = |tool: &str, unread: &[(&str, UnreadReason)]| {
        let unread = unread.iter().map(|&(path, reason)| UnreadFile { path: path.into(), reason });
        report(tool, &unread.collect::<Vec<_>>())
    };
    let log: Vec<LogEntry> = calls
        .iter()
        .map(|(tool, unread)| LogEntry::Result { number: 0, result: result(tool, unread).into() })
        .collect();
    Answer::rebuild(MessageId::from_random(1), &attached, &log, Some(Ending::Done))
}

#[test]
fn an_attached_file_that_could_not_be_read_is_named_with_the_reason() {
    let unread = [("/a.pdf", UnreadReason::Encrypted), ("/folder/b.pdf", UnreadReason::NoText)];
    let answer = after(&["/a.pdf", "/folder"], &[("attached_files", &unread)]);
    let text = answer.text();
    assert!(text.contains("`a.pdf` could not be read: it is encrypted"), "{text}");
    assert!(text.contains("`b.pdf` could not be read: it holds no text"), "{text}");
    assert!(matches!(&answer.parts.last().expect("parts").body, Body::Text(_)));
    let once = after(&["/a.pdf"], &[("attached_files", &unread), ("search", &unread)]);
    assert_eq!(once.text().matches("a.pdf").count(), 1);
    assert!(!once.text().contains("b.pdf"), "only attached files are reported");
}

#[test]
fn a_file_that_was_indexed_meanwhile_is_not_named() {
    let waiting = [("/a.pdf", UnreadReason::Indexing)];
    assert!(after(&["/a.pdf"], &[("search", &waiting)]).text().contains("still being indexed"));
    assert!(
        after(&["/a.pdf"], &[("search", &waiting), ("read", &[])]).text().contains("still being indexed")
    );
    assert_eq!(after(&["/a.pdf"], &[("search", &waiting), ("search", &[])]).text(), "");
    assert_eq!(
        after(&["/a.pdf"], &[("attached_files", &waiting), ("search", &[])]).text(),
        "",
        "a search that does not name it has searched all of it"
    );
}

#[test]
fn a_document_without_text_is_not_named_once_the_model_saw_its_pages() {
    let none = [UnreadFile { path: "/a.pdf".to_owned(), reason: UnreadReason::NoText }];
    let result = |tool: &str, path: &str, page: Option<u32>| {
        let of = ImageRef { path: path.to_owned(), page, kind: ImageKind::Png, sha256: [0; 32] };
        CallResult { images: vec![of], unread: Vec::new(), ..report(tool, &none) }
    };
    let noted = || report("attached_files", &none);
    let after = |results: Vec<CallResult>| {
        let log: Vec<LogEntry> =
            results.into_iter().map(|result| LogEntry::Result { number: 0, result: result.into() }).collect();
        let attached = ["/a.pdf".to_owned()];
        Answer::rebuild(MessageId::from_random(1), &attached, &log, Some(Ending::Done)).text()
    };
    let named = |text: String| text.contains("`a.pdf` could not be read: it holds no text");
    assert!(named(after(vec![noted()])));
    assert_eq!(after(vec![noted(), result("view", "/a.pdf", Some(2))]), "");
    let searched = report("search", &none);
    assert_eq!(
        after(vec![noted(), result("view", "/a.pdf", Some(2)), searched]),
        "",
        "a search changes nothing"
    );
    assert!(named(after(vec![noted(), result("view", "/b.pdf", Some(2))])), "another document");
}

#[test]
fn a_file_of_which_a_part_was_read_is_named() {
    let partly = [("/a.pdf", UnreadReason::ScannedPages)];
    assert!(
        after(&["/a.pdf"], &[("attached_files", &partly), ("search", &[])]).text().contains("only in part")
    );
}

#[test]
fn a_text_cites_only_what_was_found_before_it() {
    let mut answer = Answer::new(MessageId::from_random(1), &[]);
    let text = |text: &str| Change::TextGrew { block: 0, text: text.into() };
    let place = |page| Place::File { path: "/a.pdf".into(), page, lines: None, page_name: None };
    let passage = |number| NumberedPassage { number, place: place(Some(number)), text: "rent".into() };
    let found = CallResult { passages: vec![passage(1), passage(2)], ..report("search", &[]) };
    let changes = [
        Change::StepBegan { number: 0 },
        text("Options: [1] yes [2] no."),
        Change::Resulted { result: found.into() },
        Change::StepBegan { number: 1 },
        text("It is due [1, 2], not [3] or A[1]."),
    ];
    for (change, revision) in changes.into_iter().zip(1..) {
        assert!(answer.fold(Stamp { epoch: 1, revision }, change));
    }
    let said = "Options: [1] yes [2] no.\n\nIt is due, not [3] or A[1].";
    assert_eq!(answer.text(), said);
    assert_eq!(answer.cited_passages().into_keys().collect::<Vec<_>>(), [1, 2]);
    let since = |source: &Source| (source.clone(), answer.citable_since(source.number));
    let sources: Vec<_> = answer.sources.iter().map(since).collect();
    let mut stored = Answer::new(answer.id, &[]).with_sources(sources);
    stored.parts = answer.parts.clone();
    assert_eq!(stored.text(), said, "as stored");
}

#[test]
fn the_instructions_of_the_workspace_are_a_file_of_the_answer() {
    let result = |call: &str| LogEntry::Result {
        number: 0,
        result: Arc::new(CallResult {
            images: Vec::new(),
            call: call.to_owned(),
            tool: call.to_owned(),
            outcome: StepOutcome::Done,
            text: "Be brief.".to_owned(),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }),
    };
    let paths = |attached: &[&str], log: &[LogEntry]| {
        let attached: Vec<String> = attached.iter().map(|&path| path.to_owned()).collect();
        let answer = Answer::rebuild(MessageId::from_random(1), &attached, log, None);
        let file = |part: &Part| match &part.body {
            Body::File { path } => path.clone(),
            other => panic!("{other:?}"),
        };
        answer.parts.iter().map(file).collect::<Vec<_>>()
    };
    let log = [result(WORKSPACE_INSTRUCTIONS)];
    assert_eq!(paths(&["/a.pdf"], &log), ["/a.pdf", "/AGENTS.md"]);
    assert_eq!(paths(&["/AGENTS.md"], &log), ["/AGENTS.md"], "it is named once");
    assert_eq!(paths(&[], &[result("attached_files")]), [""; 0]);
}
