use std::cell::RefCell;
use std::collections::BTreeMap;

use documents::passages::DocumentPassage;
use documents::{EmbeddedImage, PageRange};
use domain::unread::UnreadReason;
use protocol::tool::FoundUnread;

use super::*;

/// A workspace of text files; each line is a piece, and one that begins with `image` is an image inside the document, too.
pub(super) struct IndexFixture {
    pub(super) workspace: tempfile::TempDir,
    pub(super) index: tempfile::TempDir,
    pub(super) library: DocumentLibrary,
    pub(super) read: RefCell<Vec<String>>,
    pub(super) spans: RefCell<Vec<(u32, u32)>>,
    pub(super) attached: RefCell<Vec<String>>,
}

impl IndexFixture {
    pub(super) fn with_files(files: &[(&str, &str)]) -> Self {
        let (workspace, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let library = DocumentLibrary::new(workspace.path(), index.path());
        let fixture = Self {
            workspace,
            index,
            library,
            read: RefCell::default(),
            spans: RefCell::default(),
            attached: RefCell::default(),
        };
        for (path, text) in files {
            fixture.write_file(path, text);
        }
        fixture
    }

    /// The same workspace and index, as the next start of the agent finds them.
    pub(super) fn restart_library(self) -> Self {
        Self { library: DocumentLibrary::new(self.workspace.path(), self.index.path()), ..self }
    }

    pub(super) fn write_file(&self, path: &str, text: &str) {
        let path = self.workspace.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) async fn search_all(&self, query: &str) -> ToolOutput {
        self.search_in(query, &[]).await
    }

    pub(super) async fn search_in(&self, query: &str, paths: &[&str]) -> ToolOutput {
        let arguments = SearchArguments {
            query: query.to_owned(),
            paths: paths.iter().map(ToString::to_string).collect(),
            limit: None,
        };
        let attached: Vec<String> = self.attached.borrow().clone();
        self.library
            .search_documents(&arguments, &attached, Duration::from_secs(60), |wanted| self.lines_of(wanted))
            .await
    }

    pub(super) async fn lines_of(&self, wanted: Wanted) -> Result<PassageBatch, ExtractionProblem> {
        if let Some(image) = wanted.image {
            self.read.borrow_mut().push(image.image.part.clone());
            let text = format!("the picture {} shows a quince", image.image.part);
            let piece = DocumentPassage { lines: Some((2, 2)), text, ..DocumentPassage::default() };
            return Ok(PassageBatch { pieces: vec![piece], ..PassageBatch::default() });
        }
        let path = wanted.file;
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.read.borrow_mut().push(name.clone());
        let text = std::fs::read_to_string(&path).unwrap();
        if text.starts_with("secret") {
            let text = "it is encrypted".to_owned();
            return Err(ExtractionProblem { reason: UnreadReason::Encrypted, text, passing: false });
        }
        if text.starts_with("endless") {
            std::future::pending::<()>().await;
        }
        if text.starts_with("pages") {
            return Ok(self.pages_of(&text, wanted.pages));
        }
        let piece = |(line, text): (usize, &str)| {
            let line = u32::try_from(line + 1).unwrap();
            DocumentPassage { lines: Some((line, line)), text: text.to_owned(), ..DocumentPassage::default() }
        };
        let part = |line: &str| line.strip_prefix("image ").map(str::to_owned);
        let images = text.lines().filter_map(part).map(|part| EmbeddedImage {
            part,
            page: None,
            line: Some(2),
            heading: None,
        });
        let images = images.collect();
        Ok(PassageBatch {
            pieces: text.lines().enumerate().map(piece).collect(),
            images,
            ..PassageBatch::default()
        })
    }

    /// A line is a page; five are read at a time.
    fn pages_of(&self, text: &str, pages: Option<(u32, u32)>) -> PassageBatch {
        let of = u32::try_from(text.lines().count()).unwrap();
        let (first, last) = pages.unwrap_or((1, of));
        let last = last.min(first + 4);
        self.spans.borrow_mut().push((first, last));
        let piece = |(text, page): (&str, u32)| DocumentPassage {
            page: Some(page),
            text: text.to_owned(),
            ..DocumentPassage::default()
        };
        let pieces =
            text.lines().zip(1..).map(piece).filter(|piece| (first..=last).contains(&piece.page.unwrap()));
        PassageBatch {
            pieces: pieces.collect(),
            span: Some(PageRange { first, last, of }),
            ..PassageBatch::default()
        }
    }

    fn is_retried(&self) {
        let index = Index::open_or_create(self.index.path()).unwrap();
        assert_eq!(
            index.connection().execute("UPDATE file SET retry_at = 1 WHERE retry_at > 1", []).unwrap(),
            1
        );
    }

    /// Returns the files read since the last call, in the order of reading.
    pub(super) fn read_in_order(&self) -> Vec<String> {
        self.read.take()
    }

    pub(super) fn read_since(&self) -> Vec<String> {
        let mut read = self.read.take();
        read.sort();
        read
    }
}

pub(super) fn passage_paths(output: &ToolOutput) -> Vec<&str> {
    output.passages.iter().map(|passage| passage.path.as_str()).collect()
}

#[tokio::test]
async fn search_ignores_forms_and_diacritics() {
    let fixture = IndexFixture::with_files(&[
        ("lease.txt", "Nájemce je povinen platit nájemné do pátého dne.\nVýpovědní doba činí tři měsíce."),
        ("other.txt", "Zápis ze schůze výboru."),
    ]);
    for query in ["vypovedni doby", "výpovědní dobou", "VYPOVEDNI DOBA"] {
        let output = fixture.search_all(query).await;
        assert_eq!(output.passages[0].text, "Výpovědní doba činí tři měsíce.", "{query}");
        assert_eq!(output.passages[0].lines, Some((2, 2)));
    }
    assert!(fixture.search_all("velbloud").await.passages.is_empty());
}

#[tokio::test]
async fn only_what_changed_is_read_again() {
    let fixture = IndexFixture::with_files(&[
        ("a.txt", "one apple"),
        ("b.txt", "two pears"),
        ("sub/c.txt", "three plums"),
    ]);
    fixture.search_all("apple").await;
    assert_eq!(fixture.read_since(), ["a.txt", "b.txt", "c.txt"]);
    assert_eq!(passage_paths(&fixture.search_all("plum").await), ["/sub/c.txt"]);
    assert!(fixture.read_since().is_empty());

    fixture.write_file("b.txt", "two peaches");
    std::fs::remove_file(fixture.workspace.path().join("a.txt")).unwrap();
    assert!(fixture.search_all("apple").await.passages.is_empty());
    assert_eq!(fixture.read_since(), ["b.txt"]);
    assert_eq!(passage_paths(&fixture.search_all("peach").await), ["/b.txt"]);
    assert!(fixture.search_all("pears").await.passages.is_empty());
}

#[tokio::test]
async fn search_finds_option_as_written() {
    let fixture = IndexFixture::with_files(&[
        ("a.txt", "the log has merges"),
        ("b.txt", "--no-merges leaves those with several parents out of the log"),
    ]);
    assert_eq!(passage_paths(&fixture.search_all("merges log").await)[0], "/a.txt");
    assert_eq!(passage_paths(&fixture.search_all("--no-merges log").await)[0], "/b.txt");
}

#[tokio::test]
async fn renamed_file_keeps_only_new_name() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple")]);
    fixture.search_all("apple").await;
    std::fs::rename(fixture.workspace.path().join("a.txt"), fixture.workspace.path().join("z.txt")).unwrap();
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/z.txt"]);
}

#[tokio::test]
async fn paths_narrow_a_search() {
    let fixture = IndexFixture::with_files(&[
        ("a/one.txt", "an apple"),
        ("ab/two.txt", "an apple"),
        ("c.txt", "an apple"),
    ]);
    assert_eq!(passage_paths(&fixture.search_in("apple", &["/a"]).await), ["/a/one.txt"]);
    assert_eq!(
        passage_paths(&fixture.search_in("apple", &["c.txt", "/workspace/ab/"]).await),
        ["/ab/two.txt", "/c.txt"]
    );
    assert_eq!(fixture.search_in("apple", &["/"]).await.passages.len(), 3);
    assert_eq!(fixture.search_in("apple", &[""]).await.passages.len(), 3);
    // A path that leads nowhere finds nothing, rather than everything.
    assert!(fixture.search_in("apple", &["/../etc"]).await.failed);
    assert!(fixture.search_in("apple", &["/nowhere"]).await.passages.is_empty());
}

#[tokio::test]
async fn earlier_release_index_is_searched() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple")]);
    fixture.search_all("apple").await;
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    index.connection().execute("DROP INDEX passage_place", []).unwrap();
    drop(index);
    fixture.read_since();
    let again = fixture.restart_library();
    assert_eq!(passage_paths(&again.search_all("apple").await), ["/a.txt"]);
    assert!(again.read_since().is_empty(), "it is not read again");
}

#[tokio::test]
async fn search_splits_unknown_compound() {
    let fixture = IndexFixture::with_files(&[
        ("a.txt", "Der Urlaub beträgt mindestens 30 Werktage."),
        ("b.txt", "Der Tag beginnt um 6 Uhr."),
        ("c.txt", "Die Miete ist zu zahlen."),
    ]);
    assert_eq!(passage_paths(&fixture.search_all("Urlaubsmiete").await), ["/a.txt", "/c.txt"]);
    fixture.write_file("d.txt", "Die Urlaubsmiete ist zu zahlen.");
    assert_eq!(passage_paths(&fixture.search_all("Urlaubsmiete").await), ["/d.txt"]);
}

#[tokio::test]
async fn unreadable_file_is_named_not_retried() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple"), ("b.txt", "secret")]);
    let output = fixture.search_all("apple").await;
    assert!(output.text.contains("Not readable: /b.txt (it is encrypted)"), "{}", output.text);
    fixture.read_since();
    fixture.search_all("apple").await;
    assert!(fixture.read_since().is_empty());
}

#[tokio::test]
async fn search_without_time_lists_pending() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple"), ("b.txt", "two apples")]);
    let arguments = SearchArguments { query: "apple".to_owned(), paths: Vec::new(), limit: None };
    let never = |_: Wanted| std::future::pending::<Result<PassageBatch, ExtractionProblem>>();
    let output = fixture.library.search_documents(&arguments, &[], Duration::ZERO, never).await;
    assert!(!output.failed);
    assert!(output.text.contains("Not searched yet, 2 files: /a.txt, /b.txt"), "{}", output.text);
    assert_eq!(fixture.search_all("apple").await.passages.len(), 2);
}

#[tokio::test]
async fn hostile_queries_do_no_harm() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple")]);
    let long = "apple ".repeat(10_000);
    for query in [
        "\" OR 1",
        "NEAR(",
        "a* -b ^c",
        "'; DROP TABLE file; --",
        "\u{0}apple",
        long.as_str(),
        "§§§",
        "的 не",
    ] {
        let output = fixture.search_all(query).await;
        assert!(!output.failed, "{query:.40}: {}", output.text);
    }
    assert!(fixture.search_all("   ").await.failed);
    assert_eq!(fixture.search_all("apple").await.passages.len(), 1);
}

#[tokio::test]
async fn search_order_is_stable() {
    let files: Vec<(String, String)> =
        (0..30).map(|n| (format!("f{n:02}.txt"), "an apple a day".to_owned())).collect();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let fixture = IndexFixture::with_files(&borrowed);
    let mut seen: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for _ in 0..3 {
        let output = fixture.search_all("apple").await;
        *seen.entry(output.passages.into_iter().map(|passage| passage.path).collect()).or_default() += 1;
    }
    assert_eq!(seen.len(), 1);
    assert_eq!(seen.into_keys().next().unwrap()[0], "/f00.txt");
}

#[tokio::test(start_paused = true)]
async fn timed_out_document_waits_for_retry() {
    let fixture = IndexFixture::with_files(&[("a.txt", "one apple"), ("slow.txt", "endless")]);
    let first = fixture.search_all("apple").await;
    assert_eq!(fixture.read_since(), ["a.txt", "slow.txt"]);
    assert!(first.text.contains("Not readable: /slow.txt (it was not read within 40 s)"), "{}", first.text);
    assert_eq!(first.passages.len(), 1, "the others are searched");
    fixture.search_all("apple").await;
    assert!(fixture.read_since().is_empty(), "it was tried again by the next search");
    // Another agent on the same index also knows it.
    let again = fixture.restart_library();
    again.search_all("apple").await;
    assert!(again.read_since().is_empty());
    again.is_retried();
    again.search_all("apple").await;
    assert_eq!(again.read_since(), ["slow.txt"]);
    again.search_all("apple").await;
    assert!(again.read_since().is_empty());
    again.write_file("slow.txt", "two apples");
    assert_eq!(again.search_all("apple").await.passages.len(), 2);
    assert_eq!(again.read_since(), ["slow.txt"]);
}

#[tokio::test(start_paused = true)]
async fn other_reader_version_failure_is_retried() {
    let fixture = IndexFixture::with_files(&[("b.txt", "secret")]);
    fixture.search_all("apple").await;
    fixture.read_since();
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    index.connection().execute("UPDATE file SET reader = reader - 1", []).unwrap();
    drop(index);
    fixture.search_all("apple").await;
    assert_eq!(fixture.read_since(), ["b.txt"]);
}

#[tokio::test(start_paused = true)]
async fn long_document_resumes_by_page_runs() {
    let text: String = (1..=23).map(|page| format!("pages apple{page}\n")).collect();
    let fixture = IndexFixture::with_files(&[("long.pdf", text.as_str())]);
    // The third read does not come back: the time is over with ten pages.
    let count = RefCell::new(0);
    let arguments =
        SearchArguments { query: "apple7".to_owned(), paths: vec!["/long.pdf".to_owned()], limit: None };
    let output = fixture
        .library
        .search_documents(&arguments, &[], Duration::from_secs(4), |wanted| {
            *count.borrow_mut() += 1;
            let over = *count.borrow() > 2;
            let fixture = &fixture;
            async move {
                if over {
                    std::future::pending::<()>().await;
                }
                fixture.lines_of(wanted).await
            }
        })
        .await;
    assert_eq!(output.passages.len(), 1, "what is read is found");
    assert!(output.text.contains("/long.pdf (10 of 23 pages searched)"), "{}", output.text);
    assert_eq!(output.unread, [FoundUnread { path: "/long.pdf".into(), reason: "indexing".into() }]);
    let output = fixture.search_all("apple23").await;
    assert_eq!((output.passages.len(), output.passages[0].page), (1, Some(23)));
    assert!(!output.text.contains("Not searched yet") && output.unread.is_empty(), "{}", output.text);
    assert_eq!(
        fixture.spans.take(),
        [(1, 5), (6, 10), (11, 15), (16, 20), (21, 23)],
        "no page is read twice"
    );
    fixture.search_all("apple").await;
    assert!(fixture.spans.take().is_empty());
}

#[tokio::test]
async fn search_hidden_files_needs_attachment() {
    let fixture = IndexFixture::with_files(&[
        (".tmp/1/a.txt", "one apple"),
        (".tmp/2/b.txt", "two apples"),
        ("c.txt", "apples"),
    ]);
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/c.txt"]);
    fixture.attached.replace(vec!["/.tmp/1/a.txt".to_owned()]);
    assert_eq!(passage_paths(&fixture.search_all("one apple").await), ["/.tmp/1/a.txt", "/c.txt"]);
    assert_eq!(passage_paths(&fixture.search_in("apple", &["/.tmp/1/a.txt"]).await), ["/.tmp/1/a.txt"]);
    fixture.read_since();
    // The other question neither finds the first file nor removes it.
    fixture.attached.replace(vec!["/.tmp/2".to_owned()]);
    assert_eq!(passage_paths(&fixture.search_all("two apples").await), ["/.tmp/2/b.txt", "/c.txt"]);
    fixture.attached.take();
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/c.txt"]);
    fixture.attached.replace(vec!["/.tmp/1/a.txt".to_owned()]);
    assert_eq!(fixture.search_all("apple").await.passages.len(), 2);
    assert_eq!(fixture.read_since(), ["b.txt"]);
    std::fs::remove_dir_all(fixture.workspace.path().join(".tmp/1")).unwrap();
    assert_eq!(passage_paths(&fixture.search_all("apple").await), ["/c.txt"]);
}

#[tokio::test]
async fn search_reports_unreadable_named_files() {
    let fixture =
        IndexFixture::with_files(&[("a/b.txt", "secret"), ("c.txt", "secret"), ("d.txt", "an apple")]);
    assert!(fixture.search_all("apple").await.unread.is_empty());
    let encrypted = [FoundUnread { path: "/a/b.txt".into(), reason: "encrypted".into() }];
    assert_eq!(fixture.search_in("apple", &["/a"]).await.unread, encrypted);
    fixture.attached.replace(vec!["/a".to_owned()]);
    assert_eq!(fixture.search_all("apple").await.unread, encrypted);
}

#[tokio::test(start_paused = true)]
async fn search_named_documents_skips_waiting() {
    let fixture = IndexFixture::with_files(&[
        ("a.txt", "The deposit is returned."),
        ("b.txt", "endless"),
        ("c.txt", "endless"),
    ]);
    fixture.attached.borrow_mut().push("/a.txt".to_owned());
    let begun = Instant::now();
    let found = fixture.search_all("deposit").await;
    assert!(found.passages.iter().any(|passage| passage.text.contains("returned")), "{}", found.text);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn partly_read_document_is_reported() {
    let fixture = IndexFixture::with_files(&[
        ("long.txt", "an apple"),
        ("scan.txt", "a pear"),
        ("files.txt", "a plum"),
    ]);
    let partial = |wanted: Wanted| {
        let is_long = wanted.file.ends_with("long.txt");
        let is_archive = wanted.file.ends_with("files.txt");
        let fixture = &fixture;
        async move {
            let mut batch = fixture.lines_of(wanted).await?;
            batch.cut = is_long;
            batch.holds_files = is_archive;
            batch.unread_files = if is_archive { vec![3, 4] } else { Vec::new() };
            batch.scans = if is_long || is_archive { Vec::new() } else { vec![3, 4] };
            Ok(batch)
        }
    };
    let all = ["/long.txt".to_owned(), "/scan.txt".to_owned(), "/files.txt".to_owned()];
    let unread = fixture.library.read_now(&all, Duration::from_secs(5), partial).await;
    let reasons: Vec<UnreadReason> = unread.into_iter().map(|file| file.reason).collect();
    assert_eq!(reasons, [UnreadReason::InnerFiles, UnreadReason::Long, UnreadReason::ScannedPages]);
    assert_eq!(fixture.search_all("apple").await.passages.len(), 1, "what was read is found");
}

#[tokio::test]
async fn more_languages_reread_scans() {
    let fixture =
        IndexFixture::with_files(&[("scan.txt", "an apple"), ("plain.txt", "a pear"), ("b.txt", "secret")]);
    let path = |name: &str| format!("/{name}");
    let all = [path("scan.txt"), path("plain.txt"), path("b.txt")];
    let scanned = |wanted: Wanted| {
        let is_scan = wanted.file.ends_with("scan.txt");
        let fixture = &fixture;
        async move {
            let mut batch = fixture.lines_of(wanted).await?;
            batch.scans = if is_scan { vec![1] } else { Vec::new() };
            Ok(batch)
        }
    };
    assert!(!fixture.library.lacks_recognition().await);
    fixture.library.record_languages(0).await;
    fixture.library.read_now(&all, Duration::from_secs(5), scanned).await;
    assert!(fixture.library.lacks_recognition().await, "the program is worth a look");
    fixture.read_since();
    for (languages, read) in [(0, 0), (2, 1), (2, 0), (1, 0), (2, 1)] {
        fixture.library.record_languages(languages).await;
        fixture.library.read_now(&all, Duration::from_secs(5), scanned).await;
        assert_eq!(fixture.read_since(), vec!["scan.txt"; read], "{languages} languages");
    }
    fixture.library.record_languages(3).await;
    let whole = |wanted: Wanted| fixture.lines_of(wanted);
    assert_eq!(fixture.library.read_now(&all[..2], Duration::from_secs(5), whole).await, []);
    assert!(!fixture.library.lacks_recognition().await);
    assert_eq!(fixture.search_all("apple").await.passages.len(), 1, "no passage is there twice");
}

#[tokio::test]
async fn only_whole_pages_are_given() {
    let fixture = IndexFixture::with_files(&[("a.zip", "an apple")]);
    let pieces_of = |page: u32, count: usize| {
        let piece =
            DocumentPassage { page: Some(page), text: format!("page {page}"), ..DocumentPassage::default() };
        vec![piece; count]
    };
    let pieces = [pieces_of(1, 3), pieces_of(2, 5), pieces_of(3, 1)].concat();
    let batch = PassageBatch {
        pieces,
        span: Some(PageRange { first: 1, last: 3, of: 3 }),
        ..PassageBatch::default()
    };
    let zip = ["/a.zip".to_owned()];
    fixture.library.read_now(&zip, Duration::from_secs(5), |_| std::future::ready(Ok(batch.clone()))).await;
    let stamp =
        Index::open_or_create(fixture.index.path()).unwrap().indexed_file("/a.zip").unwrap().unwrap().stamp;
    for (page, at_most, given) in [
        (1, 9, Some((9, 3))),
        (1, 8, Some((8, 2))),
        (1, 7, Some((3, 1))),
        (1, 3, Some((3, 1))),
        (1, 2, None),
        (2, 5, Some((5, 2))),
        (2, 4, None),
        (3, 1, Some((1, 3))),
    ] {
        let stored = fixture.library.read_stored_pages("/a.zip", stamp, page, at_most).await;
        let stored = stored.map(|stored| (stored.pieces.len(), stored.through));
        assert_eq!(stored, given, "{at_most} from page {page} on");
    }
}

#[tokio::test]
async fn short_reread_keeps_read_document() {
    let fixture = IndexFixture::with_files(&[("a.txt", "an apple")]);
    fixture.search_all("apple").await;
    let found = walk_workspace(fixture.workspace.path(), &[]).files.into_iter().next().unwrap();
    let stamp = found.stamp;
    fixture.library.store_outcome(found, Err(ExtractionProblem::too_slow(Duration::from_secs(20)))).await;
    assert_eq!(fixture.library.find_problem("/a.txt", stamp).await, None);
    assert!(fixture.library.is_complete("/a.txt", stamp).await);
}
