//! Passages of tables carry the headings of their columns.

use std::time::Duration;

use protocol::tool::{SearchArguments, ToolOutput};
use tempfile::TempDir;

use super::{Batch, ExtractionProblem, Index, Library, PIECE_MAX_BYTES, Wanted};
use crate::documents::passages::split;
use crate::documents::{extract, reader_of};

const TIME: Duration = Duration::from_secs(60);

struct Workspace {
    library: Library,
    index: TempDir,
    folder: TempDir,
}

impl Workspace {
    fn with(files: &[(&str, &str)]) -> Self {
        let (folder, index) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let library = Library::new(folder.path(), index.path());
        Self { library, index, folder }
    }

    async fn search(&self, query: &str) -> ToolOutput {
        search(&self.library, query).await
    }
}

async fn search(library: &Library, query: &str) -> ToolOutput {
    let arguments = SearchArguments { query: query.to_owned(), paths: Vec::new(), limit: None };
    library.search(&arguments, &[], TIME, read).await
}

async fn read(wanted: Wanted) -> Result<Batch, ExtractionProblem> {
    let extracted = extract(&wanted.file, std::fs::File::open(&wanted.file).unwrap()).unwrap();
    Ok(Batch { pieces: split(&extracted, PIECE_MAX_BYTES), ..Batch::default() })
}

/// A table of 300 towns; the births of town 217 in 2019 are 217019.
fn towns() -> String {
    let row = |town: u32| format!("Town {town},,{town}017,{town}018,{town}019\n");
    std::iter::once("Town,,2017,2018,2019\n".to_owned()).chain((1..=300).map(row)).collect()
}

#[tokio::test]
async fn a_passage_of_rows_begins_with_the_headings_of_its_columns() {
    let workspace = Workspace::with(&[("births.csv", &towns())]);
    let found = workspace.search("births in town 217 in 2019").await;
    let first = &found.passages[0];
    let lines: Vec<&str> = first.text.lines().collect();
    assert_eq!(lines[0], "Town\t2017\t2018\t2019", "empty columns are left out");
    assert!(lines.contains(&"Town 217\t217017\t217018\t217019"), "{lines:?}");
    // The place is that of the rows: the file's first line has the headings.
    let (from, to) = first.lines.unwrap();
    assert_eq!(lines[1], format!("Town {0}\t{0}017\t{0}018\t{0}019", from - 1));
    assert_eq!(lines.len() as u32 - 1, to - from + 1);
    let counts = "Lines of column headings that begin the passages, in order: 1 | 1";
    assert!(found.text.contains(counts), "{}", found.text);
}

#[tokio::test]
async fn headings_alone_are_no_passage_of_their_own() {
    let sheet = format!("Births by town\n\n{}", towns());
    for text in [towns(), sheet.replace(',', "\t")] {
        let workspace = Workspace::with(&[("births.tsv", &text)]);
        for query in ["town 2018", "births by town"] {
            for passage in workspace.search(query).await.passages {
                assert!(passage.text.lines().any(|line| line.starts_with("Town ")), "{query}: {passage:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_index_without_headings_gets_them_when_its_tables_are_read_again() {
    let workspace = Workspace::with(&[("births.csv", &towns())]);
    workspace.search("town").await;
    let index = Index::open(workspace.index.path()).unwrap();
    index
        .connection()
        .execute_batch("ALTER TABLE passage DROP COLUMN columns; UPDATE file SET reader = 13")
        .unwrap();
    drop(index);
    let library = Library::new(workspace.folder.path(), workspace.index.path());
    assert!(reader_of("births.csv") > 13);
    library.touch([]);
    library.keep_up(read).await;
    let found = search(&library, "town 217").await;
    assert!(found.passages[0].text.starts_with("Town\t2017"), "{:?}", found.passages[0]);
}
