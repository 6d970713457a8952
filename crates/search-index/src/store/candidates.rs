//! The passages that a search ranks, as the index finds them by their stems.

use rusqlite::{OptionalExtension, Row};
use text_analysis::TextLanguage;

use super::{Index, IndexError};
use crate::text::any_of;

/// A passage with the data that ranking needs.
#[derive(Debug, Clone)]
pub(crate) struct PassageCandidate {
    pub(crate) id: i64,
    pub(crate) file: i64,
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) language: TextLanguage,
    pub(crate) page: Option<u32>,
    pub(crate) lines: Option<(u32, u32)>,
    pub(crate) heading: String,
    /// The headings of the columns, if the text is rows of a table.
    pub(crate) columns: String,
    pub(crate) text: String,
}

impl Index {
    /// Returns the number of passages with this stem.
    pub(crate) fn passages_with(&self, stem: &str) -> Result<u64, IndexError> {
        let mut statement = self.connection().prepare_cached("SELECT doc FROM stems_in WHERE term = ?1")?;
        let count: Option<i64> = statement.query_row([stem], |row| row.get(0)).optional()?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// Returns the files that have a passage with one of these stems.
    pub(crate) fn files_with(&self, stems: &[String]) -> Result<Vec<i64>, IndexError> {
        let mut statement = self.connection().prepare(
            "SELECT DISTINCT passage.file FROM stems
             JOIN passage INDEXED BY passage_place ON passage.id = stems.rowid WHERE stems MATCH ?1",
        )?;
        let rows = statement.query_map([any_of(stems.iter())], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the passages with the best BM25 scores among those with any of the stems, within the given files or
    /// folders. Includes hidden files only at or below `named`.
    pub(crate) fn find_candidates(
        &self,
        stems: &[String],
        paths: &[String],
        named: &[String],
        at_most: usize,
    ) -> Result<Vec<PassageCandidate>, IndexError> {
        if stems.is_empty() {
            return Ok(Vec::new());
        }
        let mut values: Vec<String> = vec![any_of(stems.iter())];
        let filter = scope_filter(&mut values, paths, named);
        let sql = format!(
            "SELECT passage.id FROM stems JOIN passage INDEXED BY passage_place ON passage.id = stems.rowid
             JOIN file ON file.id = passage.file
             WHERE stems MATCH ?1{filter} ORDER BY bm25(stems, 1.0, 0.5), passage.id LIMIT {at_most}"
        );
        let mut statement = self.connection().prepare(&sql)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(0))?;
        self.candidates_of(&rows.collect::<Result<Vec<i64>, _>>()?)
    }

    /// Returns these passages, in this order, as far as they exist.
    pub(crate) fn candidates_of(&self, ids: &[i64]) -> Result<Vec<PassageCandidate>, IndexError> {
        let mut statement = self.connection().prepare(&format!(
            "SELECT {CANDIDATE} FROM passage JOIN file ON file.id = passage.file WHERE passage.id = ?1"
        ))?;
        let found = ids.iter().map(|id| statement.query_row([id], candidate_from_row).optional());
        Ok(found.filter_map(Result::transpose).collect::<Result<_, _>>()?)
    }
}

/// Returns the SQL condition that a passage is of these files or folders, and of a hidden file only at or below `named`. Adds
/// its parameters to `values`.
pub(crate) fn scope_filter(values: &mut Vec<String>, paths: &[String], named: &[String]) -> String {
    let mut within = |paths: &[String]| -> String {
        let mut either = Vec::with_capacity(paths.len());
        for path in paths {
            let (file, folder) = (values.len() + 1, values.len() + 2);
            either
                .push(format!("file.path = ?{file} OR substr(file.path, 1, length(?{folder})) = ?{folder}"));
            let path = path.trim_end_matches('/');
            values.push(path.to_owned());
            values.push(format!("{path}/"));
        }
        either.join(" OR ")
    };
    let mut filter = match named {
        [] => " AND file.hidden = 0".to_owned(),
        _ => format!(" AND (file.hidden = 0 OR {})", within(named)),
    };
    if !paths.is_empty() {
        filter.push_str(&format!(" AND ({})", within(paths)));
    }
    filter
}

/// The columns of a [`PassageCandidate`], in the order that [`candidate_from_row`] expects.
const CANDIDATE: &str =
    "passage.id, file.id, file.path, file.title, file.language, passage.page, passage.first_line,
     passage.last_line, passage.heading, passage.text, passage.columns";

fn candidate_from_row(row: &Row<'_>) -> rusqlite::Result<PassageCandidate> {
    let language: String = row.get(4)?;
    let lines: (Option<u32>, Option<u32>) = (row.get(6)?, row.get(7)?);
    Ok(PassageCandidate {
        id: row.get(0)?,
        file: row.get(1)?,
        path: row.get(2)?,
        title: row.get(3)?,
        language: TextLanguage::of_code(&language).unwrap_or(TextLanguage::English),
        page: row.get(5)?,
        lines: lines.0.zip(lines.1),
        heading: row.get(8)?,
        text: row.get(9)?,
        columns: row.get(10)?,
    })
}
