-- The deadline of an answer that waits for replies from outside and for nothing else. It has no lease meanwhile, unless the
-- deadline has passed or its stop was requested.
ALTER TABLE dispatch ADD COLUMN paused_until BIGINT;
-- The step whose calls awaited the replies of the last pause, and the machine instance that may run its remaining calls.
-- Without an instance none of them has begun.
ALTER TABLE dispatch ADD COLUMN paused_step BIGINT CHECK (paused_step >= 0);
ALTER TABLE dispatch ADD COLUMN named_instance TEXT CHECK (length(named_instance) = 36);
DROP INDEX dispatch_order;
DROP INDEX dispatch_waiting;
CREATE INDEX dispatch_order ON dispatch (accepted_at, answer_id) WHERE paused_until IS NULL;
CREATE INDEX dispatch_waiting ON dispatch (account_id, accepted_at, answer_id)
    WHERE lease_until IS NULL AND paused_until IS NULL;
CREATE INDEX dispatch_paused ON dispatch (paused_until, account_id) WHERE paused_until IS NOT NULL;
-- The calls of an answer that await a reply from outside, or have one.
CREATE TABLE awaited_calls (
    answer_id TEXT NOT NULL REFERENCES answers (id),
    call_id TEXT NOT NULL CHECK (octet_length(call_id) <= 1024),
    kind TEXT NOT NULL CHECK (kind IN ('function', 'question', 'approval')),
    deadline BIGINT NOT NULL,
    reply TEXT CHECK (octet_length(reply) <= 8388608),
    replied_at BIGINT,
    PRIMARY KEY (answer_id, call_id),
    CONSTRAINT replied_or_not CHECK ((reply IS NULL) = (replied_at IS NULL))
);
-- The functions that the client of a question runs itself, and whether it answers questions of the model.
ALTER TABLE questions ADD COLUMN functions TEXT CHECK (octet_length(functions) <= 1048576);
ALTER TABLE questions ADD COLUMN asks_user BIGINT NOT NULL DEFAULT 0 CHECK (asks_user IN (0, 1));
