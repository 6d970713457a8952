//! The passages of a document, page by page, as the index has them.

use documents::passages::DocumentPassage;
use rusqlite::{Row, params};

use super::{Index, IndexError, row_of};
use crate::progress::ExtractionProblem;
use crate::walk::FileStamp;

/// Indexed pages of a document.
#[derive(Debug)]
pub struct StoredPages {
    /// The passages, from the requested page on.
    pub pieces: Vec<DocumentPassage>,
    /// The last of the contiguous pages whose passages these are.
    pub through: u32,
    /// The number of pages of the document.
    pub of: u32,
    /// The reason why it is not read whole.
    pub problem: Option<ExtractionProblem>,
}

impl Index {
    /// Returns the passages of whole pages from a page on, if the index has that page of the file's current state and the page
    /// has at most `at_most` passages.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn read_stored_pages(
        &self,
        path: &str,
        stamp: &FileStamp,
        page: u32,
        at_most: usize,
    ) -> Result<Option<StoredPages>, IndexError> {
        let Some((id, known)) = row_of(self.connection(), path)? else { return Ok(None) };
        let Some((runs, of)) = known.pages.filter(|_| known.stamp == *stamp) else { return Ok(None) };
        let Some(mut through) = runs.end_of(page) else { return Ok(None) };
        let mut statement = self.connection().prepare(
            "SELECT page, heading, text, first_line, last_line, columns FROM passage
             WHERE file = ?1 AND page BETWEEN ?2 AND ?3 ORDER BY page, id LIMIT ?4",
        )?;
        // One more passage shows whether more exist.
        let rows_max = i64::try_from(at_most).unwrap_or(i64::MAX).saturating_add(1);
        let rows = statement.query_map(params![id, page, through, rows_max], piece_from_row)?;
        let mut pieces: Vec<DocumentPassage> = rows.collect::<Result<_, _>>()?;
        if let Some(cut) = pieces.get(at_most).and_then(|piece| piece.page) {
            if cut == page {
                return Ok(None);
            }
            pieces.retain(|piece| piece.page != Some(cut));
            through = cut - 1;
        }
        Ok(Some(StoredPages { pieces, through, of, problem: known.problem }))
    }

    /// Returns the passages of a workbook from a row of a sheet on, if the index has all of the file's current state: at most `at_most`, and
    /// one more if there are further ones.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn stored_rows(
        &self,
        path: &str,
        stamp: &FileStamp,
        (sheet, row): (u32, u32),
        at_most: usize,
    ) -> Result<Option<StoredPages>, IndexError> {
        let Some((id, known)) = row_of(self.connection(), path)? else { return Ok(None) };
        if known.stamp != *stamp || !known.complete || known.pages.is_some() {
            return Ok(None);
        }
        let mut statement = self.connection().prepare(
            "SELECT page, heading, text, first_line, last_line, columns FROM passage
             WHERE file = ?1 AND (page > ?2 OR page = ?2 AND (last_line IS NULL OR last_line >= ?3))
             ORDER BY page, id LIMIT ?4",
        )?;
        let rows_max = i64::try_from(at_most).unwrap_or(i64::MAX).saturating_add(1);
        let rows = statement.query_map(params![id, sheet, row, rows_max], piece_from_row)?;
        let pieces: Vec<DocumentPassage> = rows.collect::<Result<_, _>>()?;
        let of = self.connection().query_row(
            "SELECT max(page) FROM passage WHERE file = ?1",
            params![id],
            |row| row.get::<_, Option<u32>>(0),
        )?;
        let of = of.unwrap_or(sheet);
        Ok(Some(StoredPages { pieces, through: of, of, problem: known.problem }))
    }
}

/// Reads a passage of `page, heading, text, first_line, last_line, columns`.
fn piece_from_row(row: &Row<'_>) -> rusqlite::Result<DocumentPassage> {
    let (heading, columns): (String, String) = (row.get(1)?, row.get(5)?);
    let lines: (Option<u32>, Option<u32>) = (row.get(3)?, row.get(4)?);
    Ok(DocumentPassage {
        page: row.get(0)?,
        lines: lines.0.zip(lines.1),
        heading: (!heading.is_empty()).then_some(heading),
        columns: (!columns.is_empty()).then_some(columns),
        text: row.get(2)?,
    })
}
