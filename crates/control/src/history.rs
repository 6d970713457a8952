//! The history of an account: pages of its conversations, and search by words of their titles and messages.
//!
//! Conversations are indexed when their owner searches. A search waits for one batch, of the conversations that changed last;
//! a task indexes the rest, one for each account at a time.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use domain::id::{AccountId, ConversationId};
use domain::scope::Permission::Read;
use engine::BackgroundTasks;
use store::conversations::{self, ConversationError, ConversationSummary};
use store::search::{self, Unindexed, UnindexedBatch};
use store::{Sql, Store, StoreError};

use crate::error::UseCaseError;
use crate::found_passage;
pub use crate::found_passage::FoundPiece;
use crate::principal::Principal;

/// The number of characters of a word that count. The rest is an ending in most languages.
const WORD_MAX_CHARS: usize = 16;
/// Shorter words are not indexed.
const WORD_MIN_CHARS: usize = 2;
/// The number of words of a conversation that are indexed at once.
const INDEXED_WORDS_MAX: usize = 8_000;
/// The size of the texts in which a search looks for the passages that it shows, in bytes.
const PASSAGES_TEXT_BYTES: usize = 512 << 10;
/// The number of conversations of a batch.
const BATCH: u32 = 20;

/// A conversation of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    pub summary: ConversationSummary,
    /// The name of the key through which it was begun; `None` if it was begun in the application.
    pub key_name: Option<String>,
    /// The passage with searched words, if one of the last messages has any.
    pub passage: Vec<FoundPiece>,
}

/// A page of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryListing {
    /// The conversations: pinned ones first, then the latest modified.
    pub entries: Vec<HistoryEntry>,
    /// True if a further page follows.
    pub more: bool,
    /// True if conversations are still being indexed, so that a search may miss some.
    pub is_indexing: bool,
}

/// The histories of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct HistoryService {
    store: Store,
    background: BackgroundTasks,
    /// The accounts whose conversations a task indexes.
    indexing: Arc<Mutex<HashSet<AccountId>>>,
}

impl HistoryService {
    pub(crate) fn new(store: &Store, background: &BackgroundTasks) -> Self {
        Self { store: store.clone(), background: background.clone(), indexing: Arc::default() }
    }

    /// Returns `limit` conversations from `offset` on: the ones that contain, for each word of `searched`, a word that
    /// begins with it, regardless of case and diacritics; all if `searched` is empty.
    ///
    /// # Errors
    /// [`UseCaseError`].
    pub async fn history_page(
        &self,
        principal: &Principal,
        searched: &str,
        offset: usize,
        limit: usize,
    ) -> Result<HistoryListing, UseCaseError> {
        principal.require_any(&[Read])?;
        let account = principal.account();
        let words: Vec<String> = index_words(searched).take(search::WORDS_MAX).collect();
        if words.is_empty() && !searched.trim().is_empty() {
            return Ok(HistoryListing { entries: Vec::new(), more: false, is_indexing: false });
        }
        let is_indexing = !words.is_empty() && self.index_changes(account).await?;
        let sought = words.clone();
        let found = self.store.read(move |tx| {
            let ids = if words.is_empty() {
                list_ids(tx, account, offset, limit)?
            } else {
                let limit = u32::try_from(limit + 1).unwrap_or(u32::MAX);
                search::find_conversations(tx, account, &words, offset as u64, limit)?
            };
            history_entries(tx, account, ids)
        });
        let mut entries = found.await?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        if !sought.is_empty() {
            entries = self.with_passages(account, entries, sought).await?;
        }
        Ok(HistoryListing { entries, more, is_indexing })
    }

    /// Adds the passages with searched words, if they are among the first [`PASSAGES_TEXT_BYTES`] of last messages.
    async fn with_passages(
        &self,
        account: AccountId,
        mut entries: Vec<HistoryEntry>,
        words: Vec<String>,
    ) -> Result<Vec<HistoryEntry>, UseCaseError> {
        let ids: Vec<ConversationId> = entries.iter().map(|entry| entry.summary.id).collect();
        let texts = self.store.read(move |tx| {
            let mut texts = Vec::with_capacity(ids.len());
            let mut bytes = 0;
            for id in &ids {
                let last = if bytes < PASSAGES_TEXT_BYTES {
                    search::last_texts(tx, account, *id)?
                } else {
                    Vec::new()
                };
                bytes += last.iter().map(String::len).sum::<usize>();
                texts.push(last);
            }
            Ok::<_, StoreError>(texts)
        });
        let texts = texts.await?;
        let with_passages = tokio::task::spawn_blocking(move || {
            for (entry, texts) in entries.iter_mut().zip(texts) {
                let passage = texts.iter().find_map(|text| found_passage::find_passage(text, &words));
                entry.passage = passage.unwrap_or_default();
            }
            entries
        });
        with_passages.await.map_err(UseCaseError::internal)
    }

    /// Indexes a batch of changed conversations. Returns true if a task indexes the rest.
    async fn index_changes(&self, account: AccountId) -> Result<bool, UseCaseError> {
        // The task also takes the latest changes first: a batch of this search would repeat its work.
        if self.lock_indexing().contains(&account) {
            return Ok(true);
        }
        if !self.index_batch(account).await? {
            return Ok(false);
        }
        if self.lock_indexing().insert(account) {
            let this = self.clone();
            self.background.spawn_until_shutdown(async move {
                // Freed even if the service ends in the middle.
                let _working = IndexingMark(&this, account);
                while this.index_batch(account).await.unwrap_or(false) {}
            });
        }
        Ok(true)
    }

    /// Indexes a batch. Returns true if there is more.
    async fn index_batch(&self, account: AccountId) -> Result<bool, UseCaseError> {
        let UnindexedBatch { conversations, more } =
            self.store.read(move |tx| search::list_unindexed(tx, account, BATCH)).await?;
        if conversations.is_empty() {
            return Ok(false);
        }
        let with_words = tokio::task::spawn_blocking(move || {
            conversations.into_iter().map(|one| (words_of(&one), one)).collect::<Vec<_>>()
        });
        let with_words = with_words.await.map_err(UseCaseError::internal)?;
        let indexed = self.store.write(move |tx| {
            with_words.iter().try_for_each(|(words, one)| search::index_conversation(tx, account, one, words))
        });
        indexed.await?;
        Ok(more)
    }

    fn lock_indexing(&self) -> std::sync::MutexGuard<'_, HashSet<AccountId>> {
        self.indexing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks an account as being indexed until it is dropped.
struct IndexingMark<'a>(&'a HistoryService, AccountId);

impl Drop for IndexingMark<'_> {
    fn drop(&mut self) {
        self.0.lock_indexing().remove(&self.1);
    }
}

/// Returns one conversation more than `limit`, if there is one.
fn list_ids(
    tx: &mut dyn Sql,
    account: AccountId,
    offset: usize,
    limit: usize,
) -> Result<Vec<ConversationId>, StoreError> {
    let limit = u32::try_from(limit + 1).unwrap_or(u32::MAX);
    let page = conversations::list_conversations(tx, account, offset as u64, limit)?;
    Ok(page.conversations.into_iter().map(|summary| summary.id).collect())
}

fn history_entries(
    tx: &mut dyn Sql,
    account: AccountId,
    ids: Vec<ConversationId>,
) -> Result<Vec<HistoryEntry>, StoreError> {
    let mut entries = Vec::with_capacity(ids.len());
    for id in ids {
        match conversations::read_conversation_summary(tx, account, id) {
            Ok(summary) => {
                let key_name = conversations::key_name(tx, account, id)?;
                entries.push(HistoryEntry { summary, key_name, passage: Vec::new() });
            }
            // It was deleted in between.
            Err(ConversationError::NotFound) => {}
            Err(ConversationError::Store(error)) => return Err(error),
        }
    }
    Ok(entries)
}

fn words_of(unindexed: &Unindexed) -> BTreeSet<String> {
    let texts = std::iter::once(&unindexed.title).chain(&unindexed.texts);
    let mut found = BTreeSet::new();
    for word in texts.flat_map(|text| index_words(text)) {
        if found.len() == INDEXED_WORDS_MAX {
            break;
        }
        found.insert(word);
    }
    found
}

/// Returns the words of a text as they are indexed and searched: in lower case, without diacritics, cut.
fn index_words(text: &str) -> impl Iterator<Item = String> {
    let folded = text_analysis::fold_text(text);
    let words: Vec<String> = folded
        .split(|c: char| !c.is_alphanumeric())
        .map(|word| word.chars().take(WORD_MAX_CHARS).collect::<String>())
        .filter(|word| word.chars().count() >= WORD_MIN_CHARS)
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_folded_and_cut() {
        let found: Vec<_> = index_words("Výpověď z NÁJMU, a 7: nejneobhospodařovávatelnějšími").collect();
        assert_eq!(found, ["vypoved", "najmu", "nejneobhospodaro"]);
        assert!(index_words("日本語の文書").all(|word| word.len() <= search::WORD_MAX_BYTES));
        assert_eq!(index_words(" . ").count(), 0);
    }
}
