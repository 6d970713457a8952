-- A task that an answer's agent gave to another agent, as long as the answer is in progress: what is held and was paid
-- for it. What is held is part of what the answer holds.
CREATE TABLE delegations (
    answer_id TEXT NOT NULL REFERENCES answers (id),
    -- The call that gave the task.
    call_id TEXT NOT NULL CHECK (octet_length(call_id) <= 1024),
    next_step BIGINT NOT NULL CHECK (next_step >= 0),
    outstanding BIGINT NOT NULL CHECK (outstanding >= 0),
    settled BIGINT NOT NULL CHECK (settled >= 0),
    used_input BIGINT NOT NULL CHECK (used_input >= 0),
    used_cached BIGINT NOT NULL CHECK (used_cached >= 0),
    used_output BIGINT NOT NULL CHECK (used_output >= 0),
    used_reasoning BIGINT NOT NULL CHECK (used_reasoning >= 0),
    used_estimated BIGINT NOT NULL CHECK (used_estimated IN (0, 1)),
    PRIMARY KEY (answer_id, call_id)
);
-- What the other agent said and did stands in the answer's log, under the call that gave it its task.
ALTER TABLE log ADD COLUMN delegation TEXT CHECK (octet_length(delegation) <= 1024);
DROP INDEX log_step;
DROP INDEX log_result;
CREATE UNIQUE INDEX log_step ON log (answer_id, step) WHERE call_id IS NULL AND delegation IS NULL;
CREATE UNIQUE INDEX log_result ON log (answer_id, call_id) WHERE call_id IS NOT NULL AND delegation IS NULL;
CREATE UNIQUE INDEX log_delegated_step ON log (answer_id, delegation, step)
    WHERE call_id IS NULL AND delegation IS NOT NULL;
CREATE UNIQUE INDEX log_delegated_result ON log (answer_id, delegation, call_id)
    WHERE call_id IS NOT NULL AND delegation IS NOT NULL;
