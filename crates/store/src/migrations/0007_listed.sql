-- Conversations in the order in which they are listed, from the last one on. New ones come to its end, where pages are
-- filled; at its beginning they would be left half empty. That none is deleted stands in it, too: it says all that
-- passing over one takes, and SQLite does not ask for the row.
DROP INDEX conversations_listed;
CREATE INDEX conversations_listed ON conversations (account_id, pinned, modified_at, id, deleted_at)
    WHERE deleted_at IS NULL;
