-- What sums up the exchange before a step stands in the log under that step's number: how many entries before it are still
-- shown as they are.
ALTER TABLE log ADD COLUMN summary_kept BIGINT CHECK (summary_kept >= 0);
DROP INDEX log_step;
DROP INDEX log_delegated_step;
CREATE UNIQUE INDEX log_step ON log (answer_id, step)
    WHERE call_id IS NULL AND delegation IS NULL AND summary_kept IS NULL;
CREATE UNIQUE INDEX log_delegated_step ON log (answer_id, delegation, step)
    WHERE call_id IS NULL AND delegation IS NOT NULL AND summary_kept IS NULL;
CREATE UNIQUE INDEX log_summary ON log (answer_id, COALESCE(delegation, ''), step) WHERE summary_kept IS NOT NULL;
-- Whether a posting is for a summary.
ALTER TABLE postings ADD COLUMN summary BIGINT CHECK (summary IN (0, 1));
