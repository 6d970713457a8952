//! Tests of the reading between questions.

use std::cell::RefCell;
use std::collections::BTreeMap;

use domain::unread::UnreadReason;

use super::tests::IndexFixture;
use super::*;

/// Returns the states of files in the report after a revision.
async fn reported_states(library: &DocumentLibrary) -> BTreeMap<String, (String, Option<(u32, u32)>)> {
    let report = library.report_states(None, Duration::from_secs(1)).await;
    let files = report.files.expect("a first report has files").into_iter();
    files.map(|file| (file.path, (file.reason.unwrap_or(file.state), file.pages))).collect()
}

#[tokio::test(start_paused = true)]
async fn background_reads_files_and_reports_states() {
    let fixture = IndexFixture::with_files(&[
        ("a.txt", "an apple"),
        ("b.txt", "secret"),
        (".tmp/1/c.txt", "a pear"),
        ("d.txt", ""),
    ]);
    assert_eq!(
        fixture.library.report_states(None, Duration::from_secs(1)).await.files,
        None,
        "nothing was looked at"
    );
    fixture.library.touch_files(["/.tmp/1/c.txt".to_owned()]);
    fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
    let report = fixture.library.report_states(None, Duration::from_secs(1)).await;
    assert!(!report.working);
    let known = reported_states(&fixture.library).await;
    let of = |path: &str| known[path].0.as_str();
    assert_eq!((of("/a.txt"), of("/b.txt"), of("/d.txt")), ("indexed", "encrypted", "indexed"));
    assert_eq!(of("/.tmp/1/c.txt"), "indexed", "a hidden file that is named");
    let again = fixture.library.report_states(Some(report.revision), Duration::from_secs(1)).await;
    assert_eq!((again.files, again.revision), (None, report.revision), "nothing has changed");
    fixture.read_since();
    fixture.search_all("apple").await;
    assert!(fixture.read_since().is_empty(), "a question has nothing left to read");
}

#[tokio::test(start_paused = true)]
async fn search_interrupts_background_reading() {
    let fixture =
        IndexFixture::with_files(&[("a.txt", "an apple"), ("z/long.txt", "endless pages of apples")]);
    fixture.library.touch_files([]);
    let background = async {
        fixture.library.keep_up(|wanted| fixture.lines_of(wanted)).await;
        Instant::now()
    };
    let search = async {
        let begun = Instant::now();
        let until = begun + Duration::from_secs(1);
        tokio::time::sleep_until(until).await;
        let output = fixture.search_in("apple", &["/a.txt"]).await;
        (output.passages.len(), until)
    };
    let (interrupted, (found, until)) = tokio::join!(background, search);
    assert_eq!((found, interrupted), (1, until), "the endless document does not hold up the search");
}

#[tokio::test(start_paused = true)]
async fn next_agent_resumes_killed_one() {
    let text: String = (1..=23).map(|page| format!("pages apple{page}\n")).collect();
    let fixture = IndexFixture::with_files(&[("long.pdf", text.as_str())]);
    let count = RefCell::new(0);
    fixture.library.touch_files([]);
    let killed = fixture.library.keep_up(|wanted| {
        *count.borrow_mut() += 1;
        let (over, fixture) = (*count.borrow() > 2, &fixture);
        async move {
            if over {
                std::future::pending::<()>().await;
            }
            fixture.lines_of(wanted).await
        }
    });
    assert!(tokio::time::timeout(Duration::from_secs(1), killed).await.is_err());
    assert_eq!(reported_states(&fixture.library).await["/long.pdf"], ("indexing".to_owned(), Some((10, 23))));
    let other = DocumentLibrary::new(fixture.workspace.path(), fixture.index.path());
    other.touch_files([]);
    other.keep_up(|wanted| fixture.lines_of(wanted)).await;
    assert_eq!(
        fixture.spans.take(),
        [(1, 5), (6, 10), (11, 15), (16, 20), (21, 23)],
        "no page is read twice"
    );
    assert_eq!(reported_states(&other).await["/long.pdf"], ("indexed".to_owned(), Some((23, 23))));
}

#[tokio::test(start_paused = true)]
async fn search_names_late_files_at_once() {
    let fixture = IndexFixture::with_files(&[
        ("in/a.txt", "an apple"),
        ("in/b.txt", "secret"),
        ("in/long.txt", "endless"),
        ("c.txt", "secret"),
    ]);
    let unread = fixture
        .library
        .read_now(&["/in".to_owned()], Duration::from_secs(2), |wanted| fixture.lines_of(wanted))
        .await;
    let file = |path: &str, reason| UnreadFile { path: path.to_owned(), reason };
    assert_eq!(
        unread,
        [file("/in/b.txt", UnreadReason::Encrypted), file("/in/long.txt", UnreadReason::Indexing)]
    );
    assert!(!fixture.read_since().contains(&"c.txt".to_owned()), "nothing else is read");
}
