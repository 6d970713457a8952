//! The images inside indexed documents whose text is still to be recognized. The text of a document is searched meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use documents::passages::DocumentPassage;
use documents::{EmbeddedImage, IMAGES_MAX};
use domain::unread::{UnreadImage, UnreadImages};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use text_analysis::TextLanguage;
use tokio::time::Instant;

use super::{Index, IndexError, add_pieces, row_of, update_file};
use crate::progress::{ExtractionProblem, IndexQueue, IndexedFile, PassageBatch, PendingImage, Wanted};
use crate::walk::FoundFile;
use crate::{BEGIN_TIME_MIN, DocumentLibrary, FAIR_TIME, SliceOutcome, unix_seconds};

/// The time in which a search waits for the images inside documents that the question names; the rest are read in the background.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(10);
/// The time in which the images of a document are read, from the beginning of one to its end; the rest are not read.
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(600);
/// The share of an image's words on its page above which its text counts as repeated.
const REPEATED_MIN_PERCENT: usize = 80;
/// An image has a row until it was read. For each file, the images taken for reading, the images that are not read, and the
/// time spent are counted. In an index of an earlier release, documents that may have images must be read again.
const SCHEMA: &str = "DROP TABLE IF EXISTS image;
CREATE TABLE image (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, part TEXT NOT NULL, page INTEGER, line INTEGER, heading TEXT) STRICT;
CREATE INDEX image_file ON image (file);
CREATE TABLE image_count (
    file INTEGER PRIMARY KEY, taken INTEGER NOT NULL DEFAULT 0, millis INTEGER NOT NULL DEFAULT 0,
    too_large INTEGER NOT NULL DEFAULT 0, too_slow INTEGER NOT NULL DEFAULT 0, too_many INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0) STRICT;
UPDATE file SET reader = -1, complete = 0 WHERE path LIKE '%.docx' OR path LIKE '%.pptx' OR path LIKE '%.odt'
    OR path LIKE '%.odp' OR path LIKE '%.epub' OR path LIKE '%.pdf';";
/// The number of a file's images that are still to be read; 0 without text recognition.
pub(crate) const PENDING: &str = "CASE WHEN EXISTS (SELECT 1 FROM recognizer WHERE languages > 0)
     THEN (SELECT count(*) FROM image WHERE image.file = file.id) ELSE 0 END";

/// Creates the tables if the index has none.
pub(crate) fn create_image_tables(connection: &Connection) -> rusqlite::Result<()> {
    if connection.table_exists(None, "image_count")? {
        return Ok(());
    }
    connection.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))
}

/// Adds images of a file for reading, up to the limit of the file. Returns the number of the others.
pub(crate) fn add_images(
    transaction: &Transaction<'_>,
    file: i64,
    images: &[&EmbeddedImage],
) -> Result<u32, IndexError> {
    if images.is_empty() {
        return Ok(0);
    }
    let mut take = transaction.prepare(
        "INSERT INTO image_count (file, taken) VALUES (?1, ?2)
         ON CONFLICT (file) DO UPDATE SET taken = taken + excluded.taken RETURNING taken - ?2",
    )?;
    let number = i64::try_from(images.len()).unwrap_or(i64::MAX);
    let taken: i64 = take.query_row(params![file, number], |row| row.get(0))?;
    let room = IMAGES_MAX.saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX)).min(images.len());
    let mut insert = transaction
        .prepare("INSERT INTO image (file, part, page, line, heading) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for image in &images[..room] {
        insert.execute(params![file, image.part, image.page, image.line, image.heading])?;
    }
    Ok(u32::try_from(images.len() - room).unwrap_or(u32::MAX))
}

/// Returns true if the page of an image already contains its text.
fn repeats_page_text(
    transaction: &Transaction<'_>,
    file: i64,
    page: Option<u32>,
    pieces: &[DocumentPassage],
) -> Result<bool, IndexError> {
    let Some(page) = page else { return Ok(false) };
    let mut beside = HashSet::new();
    let mut passages = transaction.prepare("SELECT text FROM passage WHERE file = ?1 AND page = ?2")?;
    let mut rows = passages.query(params![file, page])?;
    while let Some(row) = rows.next()? {
        beside.extend(lowercase_words(&row.get::<_, String>(0)?));
    }
    let words: HashSet<String> = pieces.iter().flat_map(|piece| lowercase_words(&piece.text)).collect();
    let repeated = words.iter().filter(|word| beside.contains(*word)).count();
    Ok(repeated * 100 >= words.len() * REPEATED_MIN_PERCENT)
}

fn lowercase_words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Forgets the images of a file.
pub(crate) fn remove_images(transaction: &Transaction<'_>, file: i64) -> Result<(), IndexError> {
    transaction.prepare("DELETE FROM image WHERE file = ?1")?.execute([file])?;
    transaction.prepare("DELETE FROM image_count WHERE file = ?1")?.execute([file])?;
    Ok(())
}

/// Adds to the time spent on the images of a file, and to the numbers of images that are not read. Returns the sums.
pub(crate) fn add_unread_counts(
    transaction: &Transaction<'_>,
    file: i64,
    time: Duration,
    unread: UnreadImages,
) -> Result<(Duration, UnreadImages), IndexError> {
    let [too_large, too_slow, too_many, failed] = unread.to_counts();
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    let mut add = transaction.prepare(
        "INSERT INTO image_count (file, millis, too_large, too_slow, too_many, failed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (file) DO UPDATE SET
             millis = millis + excluded.millis, too_large = too_large + excluded.too_large,
             too_slow = too_slow + excluded.too_slow, too_many = too_many + excluded.too_many,
             failed = failed + excluded.failed
         RETURNING millis, too_large, too_slow, too_many, failed",
    )?;
    let values = params![file, millis, too_large, too_slow, too_many, failed];
    Ok(add.query_row(values, |row| {
        let unread = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
        let spent: i64 = row.get(0)?;
        Ok((Duration::from_millis(spent.unsigned_abs()), UnreadImages::from_counts(unread)))
    })?)
}

/// Returns true if an index has images that were not read.
pub(crate) fn are_any(connection: &Connection) -> Result<bool, IndexError> {
    Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM image)", [], |row| row.get(0))?)
}

impl DocumentLibrary {
    /// Reads the next image inside a document. An image that cannot be recognized in time is counted.
    pub(crate) async fn read_image<R, F>(
        &self,
        file: &FoundFile,
        todo: IndexQueue,
        until: Instant,
        read: &R,
    ) -> Result<SliceOutcome, IndexError>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        let time = until.saturating_duration_since(Instant::now());
        if time < BEGIN_TIME_MIN {
            return Ok(SliceOutcome::Over(todo));
        }
        let path = file.path.clone();
        let Some(image) = self.with_index(move |index| index.next_image(&path)).await? else {
            return Ok(SliceOutcome::Done);
        };
        let path = self.workspace.join(file.path.trim_start_matches('/'));
        let wanted =
            Wanted { file: path, pages: None, image: Some(image.clone()), time: time / 2, attempts: 0 };
        let began = Instant::now();
        let batch = match tokio::time::timeout(time, read(wanted)).await {
            Ok(outcome) => outcome.unwrap_or_else(|_| PassageBatch::of_unread_image(UnreadImage::Failed)),
            Err(_) if time < FAIR_TIME => return Ok(SliceOutcome::Over(todo)),
            Err(_) => PassageBatch::of_unread_image(UnreadImage::TooSlow),
        };
        let (found, time) = (file.clone(), began.elapsed());
        let known = self.with_index(move |index| index.add_image(&found, &image, &batch, time)).await?;
        self.activity.record_progress();
        let next = known.and_then(|known| known.remaining_work(&file.stamp, unix_seconds()));
        Ok(next.filter(|next| next.images > 0).map_or(SliceOutcome::Done, SliceOutcome::More))
    }
}

impl Index {
    /// Returns the next image of a file that is to be read.
    pub(crate) fn next_image(&self, path: &str) -> Result<Option<PendingImage>, IndexError> {
        let mut statement = self.connection().prepare(
            "SELECT image.id, part, page, line, heading, CASE WHEN text_bytes > 0 THEN language END
             FROM image JOIN file ON file.id = image.file WHERE path = ?1 ORDER BY image.id LIMIT 1",
        )?;
        let next = statement.query_row([path], |row| {
            let language: Option<String> = row.get(5)?;
            let image = EmbeddedImage {
                part: row.get(1)?,
                page: row.get(2)?,
                line: row.get(3)?,
                heading: row.get(4)?,
            };
            // A file in an archive or a message may be in another language.
            let language = language.filter(|_| !image.is_of_inner());
            Ok(PendingImage {
                id: row.get(0)?,
                image,
                following: Vec::new(),
                language: language.as_deref().and_then(TextLanguage::of_code),
            })
        });
        let Some(next) = next.optional()? else { return Ok(None) };
        let mut others = self.connection().prepare(
            "SELECT part FROM image WHERE file = (SELECT file FROM image WHERE id = ?1) AND id > ?1 ORDER BY id",
        )?;
        let rows = others.query_map([next.id], |row| row.get(0))?;
        Ok(Some(PendingImage { following: rows.collect::<Result<_, _>>()?, ..next }))
    }

    /// Adds the outcome of reading an image, which took this time, if the file still has this stamp. If the images of the file
    /// took too long altogether, the rest of them are not read.
    pub(crate) fn add_image(
        &mut self,
        file: &FoundFile,
        image: &PendingImage,
        outcome: &PassageBatch,
        time: Duration,
    ) -> Result<Option<IndexedFile>, IndexError> {
        let transaction = self.begin_transaction()?;
        let Some((id, mut known)) = row_of(&transaction, &file.path)? else { return Ok(None) };
        if known.stamp != file.stamp {
            return Ok(None);
        }
        let read =
            transaction.execute("DELETE FROM image WHERE id = ?1 AND file = ?2", params![image.id, id])?;
        if read == 0 {
            return Ok(Some(known));
        }
        known.images = known.images.saturating_sub(1);
        let pieces = &outcome.pieces;
        if !pieces.is_empty()
            // The page of an archive is a whole file, in which another image may contain nearly the same text.
            && (image.image.is_of_inner() || !repeats_page_text(&transaction, id, image.image.page, pieces)?)
            && add_pieces(&transaction, file, id, pieces)?
        {
            known.add_text(pieces);
        }
        let (spent, mut unread) =
            add_unread_counts(&transaction, id, time, UnreadImages::from_counts(outcome.unread_images))?;
        if spent >= DOCUMENT_TIME_MAX && known.images > 0 {
            let left = UnreadImages::of_reason(UnreadImage::TooSlow, known.images);
            transaction.execute("DELETE FROM image WHERE file = ?1", [id])?;
            (_, unread) = add_unread_counts(&transaction, id, Duration::ZERO, left)?;
            known.images = 0;
        }
        known.note_unread_images(unread);
        update_file(&transaction, id, &known)?;
        transaction.commit()?;
        Ok(Some(known))
    }
}
