//! The headings of columns above passages of rows.

use rusqlite::Connection;

/// Adds the column of headings to an index of an earlier release. Its tables are read again, see
/// [`documents::READER_VERSION`].
pub(crate) fn add_headings_column(connection: &Connection) -> rusqlite::Result<()> {
    if connection.column_exists(None, "passage", "columns")? {
        return Ok(());
    }
    connection.execute_batch("ALTER TABLE passage ADD COLUMN columns TEXT NOT NULL DEFAULT ''")
}
