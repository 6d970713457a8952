-- Requests for embeddings that are under way, with the credits reserved for each: those that a killed process has left are
-- released at the next start.
CREATE TABLE embedding_requests (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    reserved BIGINT NOT NULL CHECK (reserved >= 0)
);
-- What an account's embeddings have cost beyond the whole credits that were settled, in millionths of a credit.
CREATE TABLE embedding_costs (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    unsettled_micros BIGINT NOT NULL CHECK (unsettled_micros >= 0)
);
