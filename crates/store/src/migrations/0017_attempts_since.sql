-- When the first of the attempts in a row without progress began. Meaningless while there are none.
ALTER TABLE answers ADD COLUMN attempts_since BIGINT;
