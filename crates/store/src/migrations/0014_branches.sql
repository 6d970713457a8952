-- The exchanges of a conversation are a tree: an edited question or a retried answer is another child of the same parent.
-- One path through it is shown and goes on; the others are kept.
ALTER TABLE questions ADD COLUMN depth BIGINT NOT NULL DEFAULT 0 CHECK (depth >= 0);
-- The ordinal of the exchange before it; -1 for a first one.
ALTER TABLE questions ADD COLUMN parent BIGINT NOT NULL DEFAULT -1 CHECK (parent >= -1);
-- Of the children of a parent, the one that was shown last.
ALTER TABLE questions ADD COLUMN chosen BIGINT NOT NULL DEFAULT 1 CHECK (chosen IN (0, 1));
-- Whether it and all before it are chosen.
ALTER TABLE questions ADD COLUMN shown BIGINT NOT NULL DEFAULT 1 CHECK (shown IN (0, 1));
-- The model that answers, and its settings. Another model may answer a retry.
ALTER TABLE questions ADD COLUMN model TEXT NOT NULL DEFAULT '' CHECK (octet_length(model) <= 512);
ALTER TABLE questions ADD COLUMN settings TEXT NOT NULL DEFAULT '[]' CHECK (octet_length(settings) <= 65536);
UPDATE questions SET depth = ordinal, parent = ordinal - 1,
    model = (SELECT c.model FROM conversations c WHERE c.id = questions.conversation_id),
    settings = (SELECT c.settings FROM conversations c WHERE c.id = questions.conversation_id);
CREATE UNIQUE INDEX questions_shown ON questions (conversation_id, depth) WHERE shown = 1;
-- A conversation without branches has nothing in these.
CREATE INDEX questions_hidden ON questions (conversation_id, parent, ordinal) WHERE shown = 0;
CREATE UNIQUE INDEX questions_left ON questions (conversation_id, parent) WHERE shown = 0 AND chosen = 1;
