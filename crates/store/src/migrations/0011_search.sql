-- The words of conversations, folded and cut, by which their owners find them. A conversation is indexed when its owner
-- searches: searched_at is its modified_at at that time, searched_exchanges the number of exchanges whose words are there.
CREATE TABLE search_words (
    account_id TEXT NOT NULL,
    word TEXT COLLATE "C" NOT NULL CHECK (octet_length(word) BETWEEN 1 AND 64),
    conversation_id TEXT NOT NULL,
    PRIMARY KEY (account_id, word, conversation_id)
);
CREATE INDEX search_words_conversation ON search_words (conversation_id);
ALTER TABLE conversations ADD COLUMN searched_at BIGINT;
ALTER TABLE conversations ADD COLUMN searched_exchanges BIGINT NOT NULL DEFAULT 0 CHECK (searched_exchanges >= 0);
CREATE INDEX conversations_unsearched ON conversations (account_id, modified_at)
    WHERE deleted_at IS NULL AND (searched_at IS NULL OR searched_at < modified_at);
