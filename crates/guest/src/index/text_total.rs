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
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    if connection.table_exists(None, "text_total")? {
        return Ok(());
    }
    connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))
}

/// Returns the length of the text of all files, in bytes.
pub(super) fn bytes(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT bytes FROM text_total", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::super::progress::{Batch, ExtractionProblem};
    use super::super::store::Index;
    use super::super::walk::{Found, Stamp};
    use super::*;
    use crate::documents::Span;
    use crate::documents::passages::Piece;

    fn file(path: &str, changed_nanos: i64) -> Found {
        let stamp = Stamp { size: 9, modified_nanos: 1, changed_nanos, inode: 1 };
        Found { path: path.to_owned(), stamp, hidden: false }
    }

    fn page(page: u32, text: &str) -> Batch {
        let piece =
            Piece { page: Some(page), lines: None, heading: None, columns: None, text: text.to_owned() };
        let span = Some(Span { first: page, last: page, of: 2 });
        Batch { pieces: vec![piece], span, ..Batch::default() }
    }

    fn is_sum(index: &Index) -> i64 {
        let connection = index.connection();
        let sum = "SELECT coalesce(sum(text_bytes), 0) FROM file";
        let sum: i64 = connection.query_row(sum, [], |row| row.get(0)).unwrap();
        assert_eq!(bytes(connection).unwrap(), sum);
        sum
    }

    #[test]
    fn the_length_of_all_text_follows_every_change() {
        let folder = tempfile::tempdir().unwrap();
        let mut index = Index::open(folder.path()).unwrap();
        assert_eq!(is_sum(&index), 0);
        index.add(&file("/a", 1), Ok(&page(1, "1234")), 0).unwrap();
        index.add(&file("/a", 1), Ok(&page(2, "56")), 0).unwrap();
        index.add(&file("/b", 1), Ok(&page(1, "123")), 0).unwrap();
        let problem = ExtractionProblem::no_text(None);
        index.add(&file("/c", 1), Err(&problem), 0).unwrap();
        assert_eq!(is_sum(&index), 9, "two pages of one, one of another");
        index.add(&file("/a", 2), Ok(&page(1, "12345")), 0).unwrap();
        assert_eq!(is_sum(&index), 8, "it has changed");
        index.drop_files(["/b"].into_iter()).unwrap();
        assert_eq!(is_sum(&index), 5);
        // As an earlier release left it.
        let undone = "DROP TABLE text_total; DROP TRIGGER text_added; DROP TRIGGER text_removed;
            DROP TRIGGER text_changed;";
        index.connection().execute_batch(undone).unwrap();
        let mut index = Index::open(folder.path()).unwrap();
        assert_eq!(is_sum(&index), 5);
        index.drop_files(["/a"].into_iter()).unwrap();
        assert_eq!(is_sum(&index), 0);
    }
}
