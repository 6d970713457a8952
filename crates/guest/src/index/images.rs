//! The images inside indexed documents whose text is still to be recognized. The text of a document is searched meanwhile.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use text_analysis::Language;
use tokio::time::Instant;

use super::progress::{Batch, ExtractionProblem, IndexQueue, IndexedFile, Wanted};
use super::store::{Index, IndexError, add_pieces, row_of, update_file};
use super::walk::Found;
use super::{BEGIN_TIME_MIN, FAIR_TIME, Library, Turn, seconds};
use crate::documents::EmbeddedImage;
use crate::documents::passages::Piece;

/// The time in which a search waits for the images inside documents that the question names; the rest are read in the background.
pub(super) const TIME_MAX: Duration = Duration::from_secs(10);
/// An image has a row until it was read. In an index of an earlier release, documents that may have images are to be read again.
const SCHEMA: &str = "CREATE TABLE image (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, part TEXT NOT NULL, page INTEGER, line INTEGER, heading TEXT) STRICT;
CREATE INDEX image_file ON image (file);
UPDATE file SET reader = -1, complete = 0 WHERE path LIKE '%.docx' OR path LIKE '%.pptx' OR path LIKE '%.odt'
    OR path LIKE '%.odp' OR path LIKE '%.epub';";
/// The number of a file's images that are to be read: without text recognition none.
pub(super) const PENDING: &str = "CASE WHEN EXISTS (SELECT 1 FROM recognizer WHERE languages > 0)
     THEN (SELECT count(*) FROM image WHERE image.file = file.id) ELSE 0 END";

/// The next image of a document to recognize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingImage {
    pub(super) id: i64,
    /// The image and its place.
    pub image: EmbeddedImage,
    /// The language of the document, if it has text.
    pub language: Option<Language>,
}

/// Creates the table if the index has none.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    if connection.table_exists(None, "image")? {
        return Ok(());
    }
    connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))
}

/// Adds images of a file that are to be read.
pub(super) fn add(
    transaction: &Transaction<'_>,
    file: i64,
    images: &[EmbeddedImage],
) -> Result<(), IndexError> {
    if images.is_empty() {
        return Ok(());
    }
    let mut insert = transaction
        .prepare("INSERT INTO image (file, part, page, line, heading) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for image in images {
        insert.execute(params![file, image.part, image.page, image.line, image.heading])?;
    }
    Ok(())
}

/// Forgets the images of a file.
pub(super) fn remove(transaction: &Transaction<'_>, file: i64) -> Result<(), IndexError> {
    transaction.prepare("DELETE FROM image WHERE file = ?1")?.execute([file])?;
    Ok(())
}

/// Returns true if an index has images that were not read.
pub(super) fn are_any(connection: &Connection) -> Result<bool, IndexError> {
    Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM image)", [], |row| row.get(0))?)
}

impl Library {
    /// Reads the next image inside a document. One that cannot be recognized in a fair time has no text.
    pub(super) async fn read_image<R, F>(
        &self,
        file: &Found,
        todo: IndexQueue,
        until: Instant,
        read: &R,
    ) -> Result<Turn, IndexError>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<Batch, ExtractionProblem>>,
    {
        let time = until.saturating_duration_since(Instant::now());
        if time < BEGIN_TIME_MIN {
            return Ok(Turn::Over(todo));
        }
        let path = file.path.clone();
        let Some(image) = self.with_index(move |index| index.next_image(&path)).await? else {
            return Ok(Turn::Done);
        };
        let path = self.workspace.join(file.path.trim_start_matches('/'));
        let wanted = Wanted { file: path, pages: None, image: Some(image.clone()), time: time / 2 };
        let pieces = match tokio::time::timeout(time, read(wanted)).await {
            Ok(outcome) => outcome.unwrap_or_default().pieces,
            Err(_) if time < FAIR_TIME => return Ok(Turn::Over(todo)),
            Err(_) => Vec::new(),
        };
        let found = file.clone();
        let known = self.with_index(move |index| index.add_image(&found, &image, &pieces)).await?;
        self.activity.progress();
        let next = known.and_then(|known| known.todo(&file.stamp, seconds()));
        Ok(next.filter(|next| next.images > 0).map_or(Turn::Done, Turn::More))
    }
}

impl Index {
    /// Returns the next image of a file that is to be read.
    pub(super) fn next_image(&self, path: &str) -> Result<Option<PendingImage>, IndexError> {
        let mut statement = self.connection().prepare(
            "SELECT image.id, part, page, line, heading, CASE WHEN text_bytes > 0 THEN language END
             FROM image JOIN file ON file.id = image.file WHERE path = ?1 ORDER BY image.id LIMIT 1",
        )?;
        let next = statement.query_row([path], |row| {
            let language: Option<String> = row.get(5)?;
            Ok(PendingImage {
                id: row.get(0)?,
                image: EmbeddedImage {
                    part: row.get(1)?,
                    page: row.get(2)?,
                    line: row.get(3)?,
                    heading: row.get(4)?,
                },
                language: language.as_deref().and_then(Language::of_code),
            })
        });
        Ok(next.optional()?)
    }

    /// Adds the text of an image, which may be none, if the file is still that of this stamp.
    pub(super) fn add_image(
        &mut self,
        file: &Found,
        image: &PendingImage,
        pieces: &[Piece],
    ) -> Result<Option<IndexedFile>, IndexError> {
        let transaction = self.transaction()?;
        let Some((id, mut known)) = row_of(&transaction, &file.path)? else { return Ok(None) };
        if known.stamp != file.stamp {
            return Ok(None);
        }
        let read =
            transaction.execute("DELETE FROM image WHERE id = ?1 AND file = ?2", params![image.id, id])?;
        if read > 0 && !pieces.is_empty() && add_pieces(&transaction, file, id, pieces)? {
            known.add_text(pieces);
            update_file(&transaction, id, &known)?;
        }
        known.images = known.images.saturating_sub(u32::try_from(read).unwrap_or(0));
        transaction.commit()?;
        Ok(Some(known))
    }
}
