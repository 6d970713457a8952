//! The length of all indexed text. The database keeps the sum, so that no batch has to add up the files.

use rusqlite::Connection;

/// An index of an earlier release gets the sum when it is opened.
const SCHEMA: &str = "CREATE TABLE text_total (bytes INTEGER NOT NULL) STRICT;
INSERT INTO text_total SELECT coalesce(sum(text_bytes), 0) FROM file;
CREATE TRIGGER text_added AFTER INSERT ON file BEGIN
    UPDATE text_total SET bytes = bytes + new.text_bytes; END;
CREATE TRIGGER text_removed AFTER DELETE ON file BEGIN
    UPDATE text_total SET bytes = bytes - old.text_bytes; END;
CREATE TRIGGER text_changed AFTER UPDATE OF text_bytes ON file BEGIN
    UPDATE text_total SET bytes = bytes + new.text_bytes - old.text_bytes; END;";

/// Creates the sum if the index has none.
pub(crate) fn create_text_total(connection: &Connection) -> rusqlite::Result<()> {
    if connection.table_exists(None, "text_total")? {
        return Ok(());
    }
    connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))
}

/// Returns the length of the text of all files, in bytes.
pub(crate) fn total_text_bytes(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT bytes FROM text_total", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{ExtractionProblem, PassageBatch};
    use crate::store::Index;
    use crate::walk::{FileStamp, FoundFile};
    use documents::PageRange;
    use documents::passages::DocumentPassage;

    fn found_file(path: &str, changed_nanos: i64) -> FoundFile {
        let stamp = FileStamp { size: 9, modified_nanos: 1, changed_nanos, inode: 1 };
        FoundFile { path: path.to_owned(), stamp, hidden: false }
    }

    fn page_batch(page: u32, text: &str) -> PassageBatch {
        let piece = DocumentPassage {
            page: Some(page),
            lines: None,
            heading: None,
            columns: None,
            text: text.to_owned(),
        };
        let span = Some(PageRange { first: page, last: page, of: 2 });
        PassageBatch { pieces: vec![piece], span, ..PassageBatch::default() }
    }

    fn is_sum(index: &Index) -> i64 {
        let connection = index.connection();
        let sum = "SELECT coalesce(sum(text_bytes), 0) FROM file";
        let sum: i64 = connection.query_row(sum, [], |row| row.get(0)).unwrap();
        assert_eq!(total_text_bytes(connection).unwrap(), sum);
        sum
    }

    #[test]
    fn total_text_bytes_follows_changes() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = Index::open_or_create(folder.path()).unwrap();
        assert_eq!(is_sum(&index), 0);
        index.add_outcome(&found_file("/a", 1), Ok(&page_batch(1, "1234")), 0).unwrap();
        index.add_outcome(&found_file("/a", 1), Ok(&page_batch(2, "56")), 0).unwrap();
        index.add_outcome(&found_file("/b", 1), Ok(&page_batch(1, "123")), 0).unwrap();
        let problem = ExtractionProblem::no_text(None);
        index.add_outcome(&found_file("/c", 1), Err(&problem), 0).unwrap();
        assert_eq!(is_sum(&index), 9, "two pages of one, one of another");
        index.add_outcome(&found_file("/a", 2), Ok(&page_batch(1, "12345")), 0).unwrap();
        assert_eq!(is_sum(&index), 8, "it has changed");
        index.drop_files(["/b"].into_iter()).unwrap();
        assert_eq!(is_sum(&index), 5);
        // The state that an earlier release left.
        let undone = "DROP TABLE text_total; DROP TRIGGER text_added; DROP TRIGGER text_removed;
            DROP TRIGGER text_changed;";
        index.connection().execute_batch(undone).unwrap();
        let mut index = Index::open_or_create(folder.path()).unwrap();
        assert_eq!(is_sum(&index), 5);
        index.drop_files(["/a"].into_iter()).unwrap();
        assert_eq!(is_sum(&index), 0);
    }
}
