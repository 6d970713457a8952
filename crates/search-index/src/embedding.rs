//! The exchange of vectors with the host.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use domain::embedding::{DIMENSION_MAX, MODEL_MAX_BYTES};
use protocol::embedding::{
    BATCH_MAX, EmbeddedPassages, EmbeddedReply, QUERY_MAX_BYTES, QueryVector, Unembedded, UnembeddedRequest,
};

use super::{DocumentLibrary, IndexError};

/// The maximum number of queries whose vectors are kept.
const QUERIES_MAX: usize = 64;

/// The vectors of the last queries, for searches that follow.
#[derive(Debug, Default)]
pub(super) struct QueryVectors(Mutex<VecDeque<QueryVector>>);

impl QueryVectors {
    fn add_vector(&self, vector: QueryVector) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.query != vector.query);
        if known.len() >= QUERIES_MAX {
            known.pop_front();
        }
        known.push_back(vector);
    }

    /// Returns the vector of a query.
    pub(super) fn find_vector(&self, query: &str) -> Option<QueryVector> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|vector| vector.query == query).cloned()
    }
}

impl DocumentLibrary {
    /// Returns passages without a vector of a model, in order of their ids.
    ///
    /// # Errors
    /// Fails if the index cannot be read or written.
    pub async fn list_unembedded(&self, asked: UnembeddedRequest) -> Result<Unembedded, IndexError> {
        let limit = (asked.limit as usize).min(BATCH_MAX);
        if asked.model.len() > MODEL_MAX_BYTES {
            return Ok(Unembedded::default());
        }
        self.with_index(move |index| index.list_unembedded(&asked.model, asked.after, limit)).await
    }

    /// Stores vectors of passages, except for passages that have changed.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub async fn store_embeddings(&self, embedded: EmbeddedPassages) -> Result<EmbeddedReply, IndexError> {
        if embedded.model.len() > MODEL_MAX_BYTES || embedded.vectors.len() > BATCH_MAX {
            return Ok(EmbeddedReply::default());
        }
        let stored =
            self.with_index(move |index| index.add_vectors(&embedded.model, &embedded.vectors)).await?;
        Ok(EmbeddedReply { stored })
    }

    /// Keeps the vector of a query for the searches that follow; the vectors of older queries are dropped.
    pub fn query_vector(&self, vector: QueryVector) {
        let fits = vector.model.len() <= MODEL_MAX_BYTES
            && vector.query.len() <= QUERY_MAX_BYTES
            && (1..=DIMENSION_MAX).contains(&vector.components.len());
        if fits {
            self.queries.add_vector(vector);
        }
    }
}
