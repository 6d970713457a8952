//! The vectors of passages, in the file of the index, and the passages nearest to a query's vector.
//!
//! All of them have the same model and dimension; others are dropped.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hasher};

use domain::embedding::{DIMENSION_MAX, cosine_similarity};
use protocol::embedding::{EMBEDDED_TEXT_MAX_BYTES, PassageVector, Unembedded, UnembeddedPassage};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::candidates::scope_filter;
use super::{Index, IndexError};

/// The maximum number of vectors: reading them all takes a third of a second. Further passages are found by words.
const VECTORS_MAX: i64 = 200_000;

/// The tables of vectors. An index of an earlier release gets them when it is opened.
pub(crate) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS vector (passage INTEGER PRIMARY KEY, components BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS embedding (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1), model TEXT NOT NULL, dimension INTEGER NOT NULL) STRICT;
";

/// A passage and the cosine of its angle to the query's vector.
#[derive(Debug, Clone, Copy)]
struct Near {
    cosine: f32,
    id: i64,
}

impl Ord for Near {
    /// The farthest is the greatest, so that a heap gives it up first; of equals the later passage.
    fn cmp(&self, other: &Self) -> Ordering {
        other.cosine.total_cmp(&self.cosine).then_with(|| self.id.cmp(&other.id))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}

impl Index {
    /// Returns the passages after `after` without a vector of this model, by id. Vectors of another model are dropped.
    ///
    /// # Errors
    /// Fails if the index cannot be read or written.
    pub fn list_unembedded(
        &mut self,
        model: &str,
        after: i64,
        at_most: usize,
    ) -> Result<Unembedded, IndexError> {
        let connection = self.connection();
        if embedding_model(connection)?.is_none_or(|(known, _)| known != model) {
            reset_vectors(connection, model, 0)?;
        }
        // Counting vectors reads them all, so this is done only near the limit.
        let count = |of: &str| connection.query_row(of, [], |row| row.get::<_, i64>(0));
        if count("SELECT count(*) FROM passage")? >= VECTORS_MAX
            && count("SELECT count(*) FROM vector")? >= VECTORS_MAX
        {
            return Ok(Unembedded { passages: Vec::new(), full: true });
        }
        let mut statement = connection.prepare(
            "SELECT passage.id, passage.heading, passage.columns, passage.text FROM passage LEFT JOIN vector ON vector.passage = passage.id
             WHERE passage.id > ?1 AND vector.passage IS NULL ORDER BY passage.id LIMIT ?2",
        )?;
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let rows = statement.query_map([after, at_most], |row| {
            let text = embedded_text(row, 1)?;
            Ok(UnembeddedPassage { id: row.get(0)?, digest: text_digest(&text), text })
        })?;
        Ok(Unembedded { passages: rows.collect::<Result<_, _>>()?, full: false })
    }

    /// Stores vectors of this model, except for passages that have changed, and returns their number. Vectors of another
    /// model or dimension are dropped first. If dimensions differ, only vectors with the first one's dimension are stored.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub fn add_vectors(&mut self, model: &str, vectors: &[PassageVector]) -> Result<u32, IndexError> {
        let dimension = vectors.iter().map(|vector| vector.components.len()).find(|length| *length > 0);
        let dimension = dimension.unwrap_or(0);
        if dimension > DIMENSION_MAX {
            return Ok(0);
        }
        let transaction = self.begin_transaction()?;
        let known = i64::try_from(dimension).unwrap_or(i64::MAX);
        match embedding_model(&transaction)? {
            Some((name, of)) if name == model && (of == known || dimension == 0) => {}
            Some((name, 0)) if name == model => {
                transaction.execute("UPDATE embedding SET dimension = ?1", [known])?;
            }
            _ => reset_vectors(&transaction, model, known)?,
        }
        let mut stored = 0;
        for vector in vectors {
            let length = vector.components.len();
            let passage = "SELECT heading, columns, text FROM passage WHERE id = ?1";
            let content = transaction
                .prepare_cached(passage)?
                .query_row([vector.id], |row| Ok(text_digest(&embedded_text(row, 0)?)));
            if content.optional()? != Some(vector.digest) || length != 0 && length != dimension {
                continue;
            }
            let bytes: Vec<u8> =
                vector.components.iter().map(|component| component.cast_unsigned()).collect();
            let insert = "INSERT OR REPLACE INTO vector (passage, components) VALUES (?1, ?2)";
            transaction.prepare_cached(insert)?.execute(params![vector.id, bytes])?;
            stored += 1;
        }
        transaction.commit()?;
        Ok(stored)
    }

    /// Returns the cosine of the angle between each passage's vector of this model and a query's; `None` for a passage without
    /// one.
    pub(crate) fn passage_similarities(
        &self,
        model: &str,
        query: &[i8],
        passages: &[i64],
    ) -> Result<Vec<Option<f32>>, IndexError> {
        let connection = self.connection();
        if embedding_model(connection)?.is_none_or(|(known, _)| known != model) {
            return Ok(vec![None; passages.len()]);
        }
        let mut statement = connection.prepare_cached("SELECT components FROM vector WHERE passage = ?1")?;
        let similarity = |id: &i64| {
            let components = statement.query_row([id], |row| row.get::<_, Vec<u8>>(0)).optional()?;
            let components = components.unwrap_or_default();
            let components: Vec<i8> = components.into_iter().map(u8::cast_signed).collect();
            Ok(cosine_similarity(query, &components))
        };
        passages.iter().map(similarity).collect()
    }

    /// Returns the passages nearest to a query's vector of this model, nearest first, within the given files or folders.
    /// Includes hidden files only at or below `named`.
    pub(crate) fn nearest_passages(
        &self,
        model: &str,
        query: &[i8],
        paths: &[String],
        named: &[String],
        at_most: usize,
    ) -> Result<Vec<i64>, IndexError> {
        let connection = self.connection();
        let of = i64::try_from(query.len()).unwrap_or(i64::MAX);
        if embedding_model(connection)?.is_none_or(|known| known != (model.to_owned(), of)) {
            return Ok(Vec::new());
        }
        let mut values = Vec::new();
        let filter = scope_filter(&mut values, paths, named);
        let mut statement = connection.prepare(&format!(
            "SELECT vector.passage, vector.components FROM vector
             JOIN passage INDEXED BY passage_place ON passage.id = vector.passage
             JOIN file ON file.id = passage.file WHERE 1{filter}"
        ))?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut nearest: BinaryHeap<Near> = BinaryHeap::with_capacity(at_most + 1);
        let mut components: Vec<i8> = Vec::with_capacity(query.len());
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(1)?.as_blob().unwrap_or_default();
            components.clear();
            components.extend(bytes.iter().map(|byte| byte.cast_signed()));
            if let Some(cosine) = cosine_similarity(query, &components).filter(|cosine| *cosine > 0.0) {
                nearest.push(Near { cosine, id: row.get(0)? });
                if nearest.len() > at_most {
                    nearest.pop();
                }
            }
        }
        Ok(nearest.into_sorted_vec().into_iter().map(|near| near.id).collect())
    }
}

/// Drops all vectors, and records the model and dimension of later ones; dimension 0 means not known yet.
fn reset_vectors(connection: &Connection, model: &str, dimension: i64) -> Result<(), IndexError> {
    connection.execute("DELETE FROM vector", [])?;
    let insert = "INSERT OR REPLACE INTO embedding (only_row, model, dimension) VALUES (1, ?1, ?2)";
    connection.execute(insert, params![model, dimension])?;
    Ok(())
}

/// Returns the model and dimension of the vectors.
fn embedding_model(connection: &Connection) -> Result<Option<(String, i64)>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT model, dimension FROM embedding")?;
    Ok(statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// Returns the embedded text of a passage, from the columns of a row with its heading, the headings of its columns, and its
/// text: text after a heading belongs to it.
fn embedded_text(row: &Row<'_>, from: usize) -> rusqlite::Result<String> {
    let parts: [String; 3] = [row.get(from)?, row.get(from + 1)?, row.get(from + 2)?];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let mut all = parts.join("\n");
    all.truncate(all.floor_char_boundary(EMBEDDED_TEXT_MAX_BYTES));
    Ok(all)
}

fn text_digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}
