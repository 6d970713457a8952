-- Background jobs, and the outbox: a row is written in the transaction that makes the job necessary.
CREATE TABLE jobs (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    kind TEXT NOT NULL CHECK (octet_length(kind) BETWEEN 1 AND 64),
    -- Of a kind at most one job with the same key waits or runs.
    unique_key TEXT CHECK (octet_length(unique_key) <= 256),
    account_id TEXT CHECK (length(account_id) = 36),
    payload TEXT NOT NULL CHECK (octet_length(payload) <= 65536),
    created_at BIGINT NOT NULL,
    run_at BIGINT NOT NULL,
    -- Claims since it last succeeded, the present one included.
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    -- Raised with every claim; what an earlier holder still reports is refused.
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    node_id TEXT CHECK (length(node_id) = 36),
    lease_until BIGINT,
    last_error TEXT CHECK (octet_length(last_error) <= 4096),
    -- When it was given up. It is kept for the operator.
    failed_at BIGINT,
    CONSTRAINT job_leased_or_not CHECK ((node_id IS NULL) = (lease_until IS NULL)),
    CONSTRAINT job_failed_is_not_leased CHECK (failed_at IS NULL OR node_id IS NULL)
);
CREATE UNIQUE INDEX jobs_unique ON jobs (kind, unique_key) WHERE unique_key IS NOT NULL AND failed_at IS NULL;
CREATE INDEX jobs_due ON jobs (run_at, id) WHERE failed_at IS NULL;
CREATE INDEX jobs_leased ON jobs (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (failed_at, id) WHERE failed_at IS NOT NULL;
-- Conversations that were deleted before, and that nobody answers any more. A deleted one that is still being answered
-- gets its job with the end of the answer.
INSERT INTO jobs (id, kind, account_id, payload, created_at, run_at, attempts, epoch)
    SELECT id, 'remove_conversation', account_id, '{"conversation":"' || id || '"}', deleted_at, deleted_at, 0, 0
    FROM conversations WHERE deleted_at IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM answers WHERE conversation_id = conversations.id AND completed_at IS NULL);
DROP INDEX conversations_deleted;
