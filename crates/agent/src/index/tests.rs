use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;

/// A workspace of text files; each line is a piece.
struct Desk {
    workspace: tempfile::TempDir,
    index: tempfile::TempDir,
    library: Library,
    read: RefCell<Vec<String>>,
}

impl Desk {
    fn with(files: &[(&str, &str)]) -> Self {
        let (workspace, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let library = Library::new(workspace.path(), index.path());
        let desk = Self { workspace, index, library, read: RefCell::default() };
        for (path, text) in files {
            desk.write(path, text);
        }
        desk
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.workspace.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    async fn search(&self, query: &str) -> ToolOutput {
        self.search_in(query, &[]).await
    }

    async fn search_in(&self, query: &str, paths: &[&str]) -> ToolOutput {
        let arguments = SearchArguments {
            query: query.to_owned(),
            paths: paths.iter().map(ToString::to_string).collect(),
            limit: None,
        };
        self.library.search(&arguments, Duration::from_secs(60), |path| self.lines_of(path)).await
    }

    async fn lines_of(&self, path: PathBuf) -> Result<Vec<Piece>, String> {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        self.read.borrow_mut().push(name.clone());
        let text = std::fs::read_to_string(&path).unwrap();
        if text.starts_with("secret") {
            return Err("it is encrypted".to_owned());
        }
        let piece = |(line, text): (usize, &str)| {
            let line = u32::try_from(line + 1).unwrap();
            Piece { page: None, lines: Some((line, line)), heading: None, text: text.to_owned() }
        };
        Ok(text.lines().enumerate().map(piece).collect())
    }

    fn read_since(&self) -> Vec<String> {
        let mut read = self.read.take();
        read.sort();
        read
    }
}

fn paths(output: &ToolOutput) -> Vec<&str> {
    output.passages.iter().map(|passage| passage.path.as_str()).collect()
}

#[tokio::test]
async fn word_forms_and_diacritics_do_not_matter() {
    let desk = Desk::with(&[
        ("lease.txt", "Nájemce je povinen platit nájemné do pátého dne.\nVýpovědní doba činí tři měsíce."),
        ("other.txt", "Zápis ze schůze výboru."),
    ]);
    for query in ["vypovedni doby", "výpovědní dobou", "VYPOVEDNI DOBA"] {
        let output = desk.search(query).await;
        assert_eq!(output.passages[0].text, "Výpovědní doba činí tři měsíce.", "{query}");
        assert_eq!(output.passages[0].lines, Some((2, 2)));
    }
    assert!(desk.search("velbloud").await.passages.is_empty());
}

#[tokio::test]
async fn only_what_changed_is_read_again() {
    let desk = Desk::with(&[("a.txt", "one apple"), ("b.txt", "two pears"), ("sub/c.txt", "three plums")]);
    desk.search("apple").await;
    assert_eq!(desk.read_since(), ["a.txt", "b.txt", "c.txt"]);
    assert_eq!(paths(&desk.search("plum").await), ["/sub/c.txt"]);
    assert!(desk.read_since().is_empty());

    desk.write("b.txt", "two peaches");
    std::fs::remove_file(desk.workspace.path().join("a.txt")).unwrap();
    assert!(desk.search("apple").await.passages.is_empty());
    assert_eq!(desk.read_since(), ["b.txt"]);
    assert_eq!(paths(&desk.search("peach").await), ["/b.txt"]);
    assert!(desk.search("pears").await.passages.is_empty());
}

#[tokio::test]
async fn a_renamed_file_is_found_under_its_new_name_only() {
    let desk = Desk::with(&[("a.txt", "one apple")]);
    desk.search("apple").await;
    std::fs::rename(desk.workspace.path().join("a.txt"), desk.workspace.path().join("z.txt")).unwrap();
    assert_eq!(paths(&desk.search("apple").await), ["/z.txt"]);
}

#[tokio::test]
async fn paths_narrow_a_search() {
    let desk = Desk::with(&[("a/one.txt", "an apple"), ("ab/two.txt", "an apple"), ("c.txt", "an apple")]);
    assert_eq!(paths(&desk.search_in("apple", &["/a"]).await), ["/a/one.txt"]);
    assert_eq!(
        paths(&desk.search_in("apple", &["c.txt", "/workspace/ab/"]).await),
        ["/ab/two.txt", "/c.txt"]
    );
    assert_eq!(desk.search_in("apple", &["/"]).await.passages.len(), 3);
    assert_eq!(desk.search_in("apple", &[""]).await.passages.len(), 3);
    // A path that leads nowhere finds nothing, rather than everything.
    assert!(desk.search_in("apple", &["/../etc"]).await.failed);
    assert!(desk.search_in("apple", &["/nowhere"]).await.passages.is_empty());
}

#[tokio::test]
async fn a_damaged_index_is_begun_anew() {
    let desk = Desk::with(&[("a.txt", "one apple")]);
    desk.search("apple").await;
    let file = std::fs::read_dir(desk.index.path()).unwrap().flatten().map(|entry| entry.path());
    for path in file {
        std::fs::write(path, "no database at all".repeat(1_000)).unwrap();
    }
    let again = Desk { library: Library::new(desk.workspace.path(), desk.index.path()), ..desk };
    assert_eq!(paths(&again.search("apple").await), ["/a.txt"]);
}

#[tokio::test]
async fn what_cannot_be_read_is_said_and_not_tried_again() {
    let desk = Desk::with(&[("a.txt", "one apple"), ("b.txt", "secret")]);
    let output = desk.search("apple").await;
    assert!(output.text.contains("Not readable: /b.txt (it is encrypted)"), "{}", output.text);
    desk.read_since();
    desk.search("apple").await;
    assert!(desk.read_since().is_empty());
}

#[tokio::test]
async fn a_search_without_time_says_what_waits() {
    let desk = Desk::with(&[("a.txt", "one apple"), ("b.txt", "two apples")]);
    let arguments = SearchArguments { query: "apple".to_owned(), paths: Vec::new(), limit: None };
    let never = |_: PathBuf| std::future::pending::<Result<Vec<Piece>, String>>();
    let output = desk.library.search(&arguments, Duration::ZERO, never).await;
    assert!(!output.failed);
    assert!(output.text.contains("Not searched yet, 2 files: /a.txt, /b.txt"), "{}", output.text);
    assert_eq!(desk.search("apple").await.passages.len(), 2);
}

#[tokio::test]
async fn hostile_queries_do_no_harm() {
    let desk = Desk::with(&[("a.txt", "one apple")]);
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
        let output = desk.search(query).await;
        assert!(!output.failed, "{query:.40}: {}", output.text);
    }
    assert!(desk.search("   ").await.failed);
    assert_eq!(desk.search("apple").await.passages.len(), 1);
}

#[tokio::test]
async fn the_order_is_the_same_each_time() {
    let files: Vec<(String, String)> =
        (0..30).map(|n| (format!("f{n:02}.txt"), "an apple a day".to_owned())).collect();
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let desk = Desk::with(&borrowed);
    let mut seen: BTreeMap<Vec<String>, u32> = BTreeMap::new();
    for _ in 0..3 {
        let output = desk.search("apple").await;
        *seen.entry(output.passages.into_iter().map(|passage| passage.path).collect()).or_default() += 1;
    }
    assert_eq!(seen.len(), 1);
    assert_eq!(seen.into_keys().next().unwrap()[0], "/f00.txt");
}
