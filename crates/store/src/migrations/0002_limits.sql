-- What a key with a spending limit has spent or has held; of other keys it is not counted.
ALTER TABLE keys ADD COLUMN spent BIGINT NOT NULL DEFAULT 0 CHECK (spent >= 0)
    CONSTRAINT spent_within_limit CHECK (spending_limit IS NULL OR spent <= spending_limit);
-- The audit log is listed from a day on, and what is old is removed from it.
CREATE INDEX audit_age ON audit (created_at, entry);
