-- The browser that opened a session, and its last use. Of earlier sessions only the creation is known.
ALTER TABLE sessions ADD COLUMN browser TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0;
UPDATE sessions SET used_at = created_at;
