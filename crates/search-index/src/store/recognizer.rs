//! Scans are read again when text recognition has gained languages since they were read.

use domain::unread::UnreadReason;
use rusqlite::params;

use super::images;
use super::{Index, IndexError};
use crate::DocumentLibrary;

/// The number of languages of text recognition when scans were last read; without a row, none.
pub(crate) const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS recognizer (languages INTEGER NOT NULL) STRICT;";
/// The reader version of files that must be read again.
const OUTDATED: i64 = -1;

/// The reasons of files that text recognition may read.
const REASONS: [UnreadReason; 3] = [UnreadReason::NoText, UnreadReason::ScannedPages, UnreadReason::Image];

impl DocumentLibrary {
    /// Returns true if the index has files with pages that could not be recognized.
    pub async fn lacks_recognition(&self) -> bool {
        self.with_index(|index| index.lacks_recognition()).await.unwrap_or_default()
    }

    /// Records how many languages the machine recognizes. If they are more than before, files with pages that could not be
    /// recognized are read again, and images inside documents that were not read.
    pub async fn record_languages(&self, languages: u32) {
        // Without an index everything is read anyway.
        let outdated = self
            .with_index(move |index| index.mark_unrecognized_outdated(languages))
            .await
            .unwrap_or_default();
        if let Some(outdated) = outdated {
            self.touch_files(outdated);
        }
    }
}

impl Index {
    fn lacks_recognition(&mut self) -> Result<bool, IndexError> {
        let found = "SELECT EXISTS (SELECT 1 FROM file WHERE reason IN (?1, ?2, ?3))";
        let transaction = self.begin_transaction()?;
        let are_scans: bool =
            transaction.query_row(found, REASONS.map(UnreadReason::code), |row| row.get(0))?;
        Ok(are_scans || images::are_any(&transaction)?)
    }

    /// Marks files as outdated whose pages could not be recognized with fewer languages, and returns their paths; `None` if
    /// no language was added.
    fn mark_unrecognized_outdated(&mut self, languages: u32) -> Result<Option<Vec<String>>, IndexError> {
        let transaction = self.begin_transaction()?;
        let before: u32 =
            transaction
                .query_row("SELECT coalesce(max(languages), 0) FROM recognizer", [], |row| row.get(0))?;
        let mut outdated = None;
        if languages > before {
            let reasons = REASONS.map(UnreadReason::code);
            let mut update = transaction
                .prepare("UPDATE file SET reader = ?1 WHERE reason IN (?2, ?3, ?4) RETURNING path")?;
            let paths =
                update.query_map(params![OUTDATED, reasons[0], reasons[1], reasons[2]], |row| row.get(0))?;
            outdated = Some(paths.collect::<Result<_, _>>()?);
        }
        if languages != before {
            transaction.execute("DELETE FROM recognizer", [])?;
            transaction.execute("INSERT INTO recognizer VALUES (?1)", [languages])?;
        }
        transaction.commit()?;
        Ok(outdated)
    }
}
