-- The exchanges of clients that send the whole history with each question. The hashes find the conversation that such a
-- history continues.
CREATE TABLE client_exchanges (
    answer_id TEXT NOT NULL PRIMARY KEY CHECK (length(answer_id) = 36),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    -- The client's name of the conversation.
    name TEXT CHECK (octet_length(name) BETWEEN 1 AND 512),
    -- Of the questions up to this one.
    users_hash BYTEA NOT NULL,
    -- Of the questions and answers up to this answer, as they were sent; NULL until it is sent as a whole.
    after_hash BYTEA,
    -- Of the key and the body of the request; NULL for an exchange that came as part of a history.
    request_hash BYTEA,
    created_at BIGINT NOT NULL
);
CREATE INDEX client_exchanges_after ON client_exchanges (account_id, after_hash);
CREATE INDEX client_exchanges_users ON client_exchanges (account_id, users_hash);
CREATE INDEX client_exchanges_name ON client_exchanges (account_id, name, created_at) WHERE name IS NOT NULL;
CREATE INDEX client_exchanges_request ON client_exchanges (account_id, request_hash) WHERE request_hash IS NOT NULL;
CREATE INDEX client_exchanges_conversation ON client_exchanges (conversation_id);
-- The instructions that a client sent with a question.
ALTER TABLE questions ADD COLUMN instructions TEXT CHECK (octet_length(instructions) <= 262144);
-- Model steps without a conversation that are under way, with the credits reserved for each: those that a killed process
-- has left are released at the next start.
CREATE TABLE plain_steps (
    id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (id),
    key_id TEXT,
    -- Whether the key has a spending limit.
    limited BIGINT NOT NULL CHECK (limited IN (0, 1)),
    reserved BIGINT NOT NULL CHECK (reserved >= 0)
);
CREATE INDEX plain_steps_account ON plain_steps (account_id);
