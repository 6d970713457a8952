//! Passages of tables carry the headings of their columns.

use std::time::Duration;

use documents::passages::split_passages;
use documents::{extract_file, reader_of};
use protocol::tool::{SearchArguments, ToolOutput};
use tempfile::TempDir;

use super::{DocumentLibrary, ExtractionProblem, Index, PIECE_MAX_BYTES, PassageBatch, Wanted};

const TIME: Duration = Duration::from_secs(60);

struct TableWorkspace {
    library: DocumentLibrary,
    index: TempDir,
    folder: TempDir,
}

impl TableWorkspace {
    fn with_files(files: &[(&str, &str)]) -> Self {
        let (folder, index) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let library = DocumentLibrary::new(folder.path(), index.path());
        Self { library, index, folder }
    }

    async fn search_tables(&self, query: &str) -> ToolOutput {
        search_library(&self.library, query).await
    }
}

async fn search_library(library: &DocumentLibrary, query: &str) -> ToolOutput {
    let arguments = SearchArguments { query: query.to_owned(), paths: Vec::new(), limit: None };
    library.search_documents(&arguments, &[], TIME, extract_batch).await
}

async fn extract_batch(wanted: Wanted) -> Result<PassageBatch, ExtractionProblem> {
    let extracted = extract_file(&wanted.file, std::fs::File::open(&wanted.file).unwrap()).unwrap();
    Ok(PassageBatch { pieces: split_passages(&extracted, PIECE_MAX_BYTES), ..PassageBatch::default() })
}

/// A table of 300 towns; the births of town 217 in 2019 are 2179019.
fn towns_csv() -> String {
    let row = |town: u32| format!("Town {town},,{town}9017,{town}9018,{town}9019\n");
    std::iter::once("Town,,2017,2018,2019\n".to_owned()).chain((1..=300).map(row)).collect()
}

#[tokio::test]
async fn row_passage_begins_with_headings() {
    let workspace = TableWorkspace::with_files(&[("births.csv", &towns_csv())]);
    let found = workspace.search_tables("births in town 217 in 2019").await;
    let first = &found.passages[0];
    let lines: Vec<&str> = first.text.lines().collect();
    assert_eq!(lines[0], "Town\t2017\t2018\t2019", "empty columns are left out");
    assert!(lines.contains(&"Town 217\t2179017\t2179018\t2179019"), "{lines:?}");
    // The place counts rows after the file's first line, which has the headings.
    let (from, to) = first.lines.unwrap();
    assert_eq!(lines[1], format!("Town {0}\t{0}9017\t{0}9018\t{0}9019", from - 1));
    assert_eq!(lines.len() as u32 - 1, to - from + 1);
    let counts = "Lines of column headings that begin the passages, in order: 1 | 1";
    assert!(found.text.contains(counts), "{}", found.text);
}

#[tokio::test]
async fn table_headings_alone_make_no_passage() {
    let sheet = format!("Births by town\n\n{}", towns_csv());
    for text in [towns_csv(), sheet.replace(',', "\t")] {
        let workspace = TableWorkspace::with_files(&[("births.tsv", &text)]);
        for query in ["town 2018", "births by town"] {
            for passage in workspace.search_tables(query).await.passages {
                assert!(passage.text.lines().any(|line| line.starts_with("Town ")), "{query}: {passage:?}");
            }
        }
    }
}

#[tokio::test]
async fn old_index_rereads_tables_for_headings() {
    let workspace = TableWorkspace::with_files(&[("births.csv", &towns_csv())]);
    workspace.search_tables("town").await;
    let index = Index::open_or_create(workspace.index.path()).unwrap();
    index
        .connection()
        .execute_batch("ALTER TABLE passage DROP COLUMN columns; UPDATE file SET reader = 13")
        .unwrap();
    drop(index);
    let library = DocumentLibrary::new(workspace.folder.path(), workspace.index.path());
    assert!(reader_of("births.csv") > 13);
    library.touch_files([]);
    library.keep_up(extract_batch).await;
    let found = search_library(&library, "town 217").await;
    assert!(found.passages[0].text.starts_with("Town\t2017"), "{:?}", found.passages[0]);
}
