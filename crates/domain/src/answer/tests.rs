//! Tests of the fold.

use super::*;
use crate::citation::NumberedPassage;
use crate::id::InstanceId;
use crate::image::{ImageKind, ImageRef};
use crate::step::StopReason;
use crate::unread::{UnreadFile, UnreadReason};

/// Creates a step log in which these calls wrote these files.
fn log_of_writes(written: &[Vec<String>]) -> Vec<LogEntry> {
    let call = |index: usize| StepCall {
        id: format!("c{index}"),
        tool: "write".into(),
        arguments: "{}".into(),
        purpose: Purpose::Tool,
    };
    let blocks = (0..written.len()).map(|index| OutputBlock::Call(call(index))).collect();
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

fn file_paths(answer: &Answer) -> Vec<&str> {
    let files = answer.parts.iter().filter_map(|part| match &part.body {
        PartContent::File { path } => Some(path.as_str()),
        PartContent::Text(_) | PartContent::Reasoning(_) | PartContent::Run(_) => None,
    });
    files.collect()
}

#[test]
fn written_file_enters_answer_once() {
    let written =
        [vec!["/b".to_owned(), "/b".to_owned()], vec!["/b".to_owned(), "/a".to_owned(), "/c".to_owned()]];
    let answer =
        Answer::from_log(MessageId::from_random(1), &["/a".to_owned()], &log_of_writes(&written), None);
    assert_eq!(file_paths(&answer), ["/a", "/b", "/c"]);
}

#[test]
fn written_files_never_bloat_answer() {
    let written: Vec<Vec<String>> =
        (0..32).map(|call| (0..100).map(|file| format!("/{call}/{file}")).collect()).collect();
    let answer = Answer::from_log(MessageId::from_random(1), &[], &log_of_writes(&written), None);
    assert_eq!(file_paths(&answer).len(), FILE_PARTS_MAX);
}

#[test]
fn vendor_citations_marked_and_removed() {
    let mut answer = Answer::new(MessageId::from_random(1), &[]);
    let place = |url: &str| PassagePlace::Web { url: url.into(), title: String::new() };
    let cited = |at, number, url: &str| AnswerChange::Cited { block: 1, at, number, place: place(url) };
    let text = |text: &str| AnswerChange::TextGrew { block: 1, text: text.into() };
    let step = |number| AnswerChange::StepBegan { number };
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
        assert!(answer.fold_change(RevisionStamp { epoch: 1, revision }, change));
    }
    let PartContent::Text(first) = &answer.parts[0].body else { panic!("{answer:?}") };
    assert_eq!(first, "Due. [1] Paid. [2] So.");
    assert_eq!(answer.unmarked_text(), "Due. Paid. So.\n\nSaid anew.");
    assert_eq!(answer.source_place(1), Some(&place("https://a.example/")), "the step before still cites it");
    assert_eq!(answer.source_place(3), None);
}

/// Returns the result of a tool that reports these unread files.
fn unread_report(tool: &str, unread: &[UnreadFile]) -> CallResult {
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
fn answer_after_reports(attached: &[&str], calls: &[(&str, &[(&str, UnreadReason)])]) -> Answer {
    let attached: Vec<String> = attached.iter().map(|&path| path.to_owned()).collect();
    let result = |tool: &str, unread: &[(&str, UnreadReason)]| {
        let unread = unread.iter().map(|&(path, reason)| UnreadFile { path: path.into(), reason });
        unread_report(tool, &unread.collect::<Vec<_>>())
    };
    let log: Vec<LogEntry> = calls
        .iter()
        .map(|(tool, unread)| LogEntry::Result { number: 0, result: result(tool, unread).into() })
        .collect();
    Answer::from_log(MessageId::from_random(1), &attached, &log, Some(AnswerEnding::Done))
}

#[test]
fn unread_attachment_named_with_reason() {
    let unread = [("/a.pdf", UnreadReason::Encrypted), ("/folder/b.pdf", UnreadReason::NoText)];
    let answer = answer_after_reports(&["/a.pdf", "/folder"], &[("attached_files", &unread)]);
    let text = answer.unmarked_text();
    assert!(text.contains("`a.pdf` could not be read: it is encrypted"), "{text}");
    assert!(text.contains("`b.pdf` could not be read: it holds no text"), "{text}");
    assert!(matches!(&answer.parts.last().expect("parts").body, PartContent::Text(_)));
    let once = answer_after_reports(&["/a.pdf"], &[("attached_files", &unread), ("search", &unread)]);
    assert_eq!(once.unmarked_text().matches("a.pdf").count(), 1);
    assert!(!once.unmarked_text().contains("b.pdf"), "only attached files are reported");
}

#[test]
fn file_indexed_meanwhile_not_named() {
    let waiting = [("/a.pdf", UnreadReason::Indexing)];
    assert!(
        answer_after_reports(&["/a.pdf"], &[("search", &waiting)])
            .unmarked_text()
            .contains("still being indexed")
    );
    assert!(
        answer_after_reports(&["/a.pdf"], &[("search", &waiting), ("read", &[])])
            .unmarked_text()
            .contains("still being indexed")
    );
    assert_eq!(
        answer_after_reports(&["/a.pdf"], &[("search", &waiting), ("search", &[])]).unmarked_text(),
        ""
    );
    assert_eq!(
        answer_after_reports(&["/a.pdf"], &[("attached_files", &waiting), ("search", &[])]).unmarked_text(),
        "",
        "a search that does not name it has searched all of it"
    );
}

#[test]
fn textless_document_seen_as_pages_unnamed() {
    let none = [UnreadFile { path: "/a.pdf".to_owned(), reason: UnreadReason::NoText }];
    let result = |tool: &str, path: &str, page: Option<u32>| {
        let of = ImageRef { path: path.to_owned(), page, kind: ImageKind::Png, sha256: [0; 32] };
        CallResult { images: vec![of], unread: Vec::new(), ..unread_report(tool, &none) }
    };
    let noted = || unread_report("attached_files", &none);
    let after = |results: Vec<CallResult>| {
        let log: Vec<LogEntry> =
            results.into_iter().map(|result| LogEntry::Result { number: 0, result: result.into() }).collect();
        let attached = ["/a.pdf".to_owned()];
        Answer::from_log(MessageId::from_random(1), &attached, &log, Some(AnswerEnding::Done)).unmarked_text()
    };
    let named = |text: String| text.contains("`a.pdf` could not be read: it holds no text");
    assert!(named(after(vec![noted()])));
    assert_eq!(after(vec![noted(), result("view", "/a.pdf", Some(2))]), "");
    let searched = unread_report("search", &none);
    assert_eq!(
        after(vec![noted(), result("view", "/a.pdf", Some(2)), searched]),
        "",
        "a search changes nothing"
    );
    assert!(named(after(vec![noted(), result("view", "/b.pdf", Some(2))])), "another document");
}

#[test]
fn partly_read_file_is_named() {
    let partly = [("/a.pdf", UnreadReason::ScannedPages)];
    assert!(
        answer_after_reports(&["/a.pdf"], &[("attached_files", &partly), ("search", &[])])
            .unmarked_text()
            .contains("only in part")
    );
}

#[test]
fn text_cites_only_earlier_findings() {
    let mut answer = Answer::new(MessageId::from_random(1), &[]);
    let text = |text: &str| AnswerChange::TextGrew { block: 0, text: text.into() };
    let place = |page| PassagePlace::File { path: "/a.pdf".into(), page, lines: None, page_name: None };
    let passage = |number| NumberedPassage { number, place: place(Some(number)), text: "rent".into() };
    let found = CallResult { passages: vec![passage(1), passage(2)], ..unread_report("search", &[]) };
    let changes = [
        AnswerChange::StepBegan { number: 0 },
        text("Options: [1] yes [2] no."),
        AnswerChange::Resulted { result: found.into() },
        AnswerChange::StepBegan { number: 1 },
        text("It is due [1, 2], not [3] or A[1]."),
    ];
    for (change, revision) in changes.into_iter().zip(1..) {
        assert!(answer.fold_change(RevisionStamp { epoch: 1, revision }, change));
    }
    let said = "Options: [1] yes [2] no.\n\nIt is due, not [3] or A[1].";
    assert_eq!(answer.unmarked_text(), said);
    assert_eq!(answer.cited_passages().into_keys().collect::<Vec<_>>(), [1, 2]);
    let since = |source: &AnswerSource| (source.clone(), answer.citable_since(source.number));
    let sources: Vec<_> = answer.sources.iter().map(since).collect();
    let mut stored = Answer::new(answer.id, &[]).with_sources(sources);
    stored.parts = answer.parts.clone();
    assert_eq!(stored.unmarked_text(), said, "as stored");
}

#[test]
fn workspace_instructions_are_answer_file() {
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
        let answer = Answer::from_log(MessageId::from_random(1), &attached, log, None);
        let file = |part: &ContentPart| match &part.body {
            PartContent::File { path } => path.clone(),
            other => panic!("{other:?}"),
        };
        answer.parts.iter().map(file).collect::<Vec<_>>()
    };
    let log = [result(WORKSPACE_INSTRUCTIONS)];
    assert_eq!(paths(&["/a.pdf"], &log), ["/a.pdf", "/AGENTS.md"]);
    assert_eq!(paths(&["/AGENTS.md"], &log), ["/AGENTS.md"], "it is named once");
    assert_eq!(paths(&[], &[result("attached_files")]), [""; 0]);
}
