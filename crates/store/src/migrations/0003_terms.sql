-- What an answer's model cost, read and put out at most as its question was accepted: what was agreed is what is
-- paid, whatever the catalog says later. NULL for questions that were accepted before this was kept.
ALTER TABLE answers ADD COLUMN price_base BIGINT CHECK (price_base >= 0);
ALTER TABLE answers ADD COLUMN price_input BIGINT CHECK (price_input >= 0);
ALTER TABLE answers ADD COLUMN price_output BIGINT CHECK (price_output >= 0);
ALTER TABLE answers ADD COLUMN context_tokens BIGINT CHECK (context_tokens >= 0);
ALTER TABLE answers ADD COLUMN output_max_tokens BIGINT CHECK (output_max_tokens >= 0);
