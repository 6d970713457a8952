-- When an account was deleted. What belonged to it is removed in the background; its row stays, because its postings add up
-- to the balance in it.
ALTER TABLE accounts ADD COLUMN closed_at BIGINT;
