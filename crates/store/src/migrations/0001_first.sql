-- Identifiers are UUIDs in text, times microseconds since 1970, flags 0 or 1. Every text has a bound: those of
-- what users and models write are generous backstops behind the limits of the edges.

CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    created_at BIGINT NOT NULL,
    licence_until BIGINT,
    -- The purse: what the postings of the account add up to.
    balance BIGINT NOT NULL CONSTRAINT balance_never_negative CHECK (balance >= 0),
    reserved BIGINT NOT NULL CONSTRAINT reserved_never_negative CHECK (reserved >= 0),
    -- Conversations that are not deleted: counting them costs more than reading a page of them.
    conversations BIGINT NOT NULL CHECK (conversations >= 0)
);

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'operator')),
    email TEXT NOT NULL CHECK (octet_length(email) BETWEEN 1 AND 320),
    -- The email in lower case, by which it is found and unique.
    email_key TEXT NOT NULL CHECK (octet_length(email_key) BETWEEN 1 AND 640),
    password_hash TEXT CHECK (octet_length(password_hash) <= 512),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_email ON users (email_key);
CREATE INDEX users_account ON users (account_id);

CREATE TABLE keys (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    user_id TEXT REFERENCES users (id),
    name TEXT NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 1024),
    fingerprint BYTEA NOT NULL CHECK (octet_length(fingerprint) = 32),
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    last_used_at BIGINT,
    -- Not offered yet: what the key may do, until when, and how many credits it may spend.
    scope TEXT CHECK (octet_length(scope) <= 4096),
    expires_at BIGINT,
    spending_limit BIGINT CHECK (spending_limit >= 0)
);
CREATE UNIQUE INDEX keys_fingerprint ON keys (fingerprint);
CREATE INDEX keys_account ON keys (account_id, created_at);

CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY CHECK (octet_length(name) <= 64),
    next BIGINT NOT NULL CHECK (next >= 0)
);
INSERT INTO counters (name, next) VALUES ('machine', 0);

CREATE TABLE machines (
    account_id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    -- Dense from 0: users of the host are counted by it.
    ordinal BIGINT NOT NULL CHECK (ordinal >= 0),
    driver TEXT CHECK (octet_length(driver) <= 64),
    desired TEXT NOT NULL CHECK (desired IN ('running', 'stopped')),
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX machines_ordinal ON machines (ordinal);

CREATE TABLE conversations (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    -- The most characters of a title, as domain has it.
    title TEXT NOT NULL CHECK (length(title) <= 120),
    model TEXT NOT NULL CHECK (octet_length(model) <= 512),
    settings TEXT NOT NULL CHECK (octet_length(settings) <= 65536),
    jurisdictions TEXT NOT NULL CHECK (octet_length(jurisdictions) <= 65536),
    web_search BIGINT NOT NULL CHECK (web_search IN (0, 1)),
    pinned BIGINT NOT NULL CHECK (pinned IN (0, 1)),
    created_at BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    -- How many questions were asked in it: the ordinal of the next.
    exchanges BIGINT NOT NULL CHECK (exchanges >= 0),
    deleted_at BIGINT
);
CREATE INDEX conversations_listed ON conversations (account_id, pinned DESC, modified_at DESC, id DESC)
    WHERE deleted_at IS NULL;
CREATE INDEX conversations_deleted ON conversations (deleted_at, id) WHERE deleted_at IS NOT NULL;

CREATE TABLE answers (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    conversation_id TEXT NOT NULL REFERENCES conversations (id),
    -- Of the exchange in the conversation, from 0; its question has the same.
    ordinal BIGINT NOT NULL CHECK (ordinal >= 0),
    account_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    -- Raised with every lease; what an earlier one still writes is refused.
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    -- Leases since the last step that was committed.
    attempts BIGINT NOT NULL CHECK (attempts >= 0),
    -- The number that the next step has at least.
    next_step BIGINT NOT NULL CHECK (next_step >= 0),
    -- The place of the next entry in the log, and the size of those that it has.
    next_entry BIGINT NOT NULL CHECK (next_entry >= 0),
    log_bytes BIGINT NOT NULL CHECK (log_bytes >= 0),
    -- Credits that are held for it.
    outstanding BIGINT NOT NULL CHECK (outstanding >= 0),
    settled BIGINT NOT NULL CHECK (settled >= 0),
    used_input BIGINT NOT NULL CHECK (used_input >= 0),
    used_cached BIGINT NOT NULL CHECK (used_cached >= 0),
    used_output BIGINT NOT NULL CHECK (used_output >= 0),
    used_reasoning BIGINT NOT NULL CHECK (used_reasoning >= 0),
    used_estimated BIGINT NOT NULL CHECK (used_estimated IN (0, 1)),
    -- While it is in progress there is a row in dispatch; then there is an ending.
    completed_at BIGINT,
    ending TEXT CHECK (ending IN ('done', 'stopped', 'failed', 'deleted')),
    error_code TEXT CHECK (octet_length(error_code) <= 64),
    error_message TEXT CHECK (octet_length(error_message) <= 65536),
    text TEXT CHECK (octet_length(text) <= 67108864),
    body TEXT CHECK (octet_length(body) <= 67108864),
    CONSTRAINT ended_or_not CHECK ((completed_at IS NULL) = (ending IS NULL)),
    CONSTRAINT ended_holds_nothing CHECK (completed_at IS NULL OR outstanding = 0)
);
CREATE UNIQUE INDEX answers_place ON answers (conversation_id, ordinal);
CREATE UNIQUE INDEX answers_open ON answers (conversation_id) WHERE completed_at IS NULL;

CREATE TABLE questions (
    conversation_id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    id TEXT NOT NULL CHECK (length(id) = 36),
    text TEXT NOT NULL CHECK (octet_length(text) <= 1048576),
    attachments TEXT NOT NULL CHECK (octet_length(attachments) <= 4194304),
    agent TEXT CHECK (octet_length(agent) <= 1024),
    skills TEXT NOT NULL CHECK (octet_length(skills) <= 262144),
    created_at BIGINT NOT NULL,
    -- Who asked, and the key or the session through which the question came.
    user_id TEXT CHECK (length(user_id) = 36),
    key_id TEXT CHECK (length(key_id) = 36),
    session_id TEXT CHECK (octet_length(session_id) <= 128),
    trace_id TEXT CHECK (length(trace_id) = 36),
    PRIMARY KEY (conversation_id, ordinal),
    FOREIGN KEY (conversation_id, ordinal) REFERENCES answers (conversation_id, ordinal)
);

CREATE TABLE log (
    answer_id TEXT NOT NULL REFERENCES answers (id),
    entry BIGINT NOT NULL CHECK (entry >= 0),
    -- The number of the step.
    step BIGINT NOT NULL CHECK (step >= 0),
    -- Whose result the entry is; NULL for the step itself.
    call_id TEXT CHECK (octet_length(call_id) <= 1024),
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    created_at BIGINT NOT NULL,
    body TEXT NOT NULL CHECK (octet_length(body) <= 33554432),
    PRIMARY KEY (answer_id, entry)
);
CREATE UNIQUE INDEX log_step ON log (answer_id, step) WHERE call_id IS NULL;
CREATE UNIQUE INDEX log_result ON log (answer_id, call_id) WHERE call_id IS NOT NULL;

CREATE TABLE dispatch (
    answer_id TEXT NOT NULL PRIMARY KEY REFERENCES answers (id),
    conversation_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    accepted_at BIGINT NOT NULL,
    node_id TEXT CHECK (length(node_id) = 36),
    lease_until BIGINT,
    stop_requested BIGINT NOT NULL CHECK (stop_requested IN (0, 1)),
    CONSTRAINT leased_or_not CHECK ((node_id IS NULL) = (lease_until IS NULL))
);
CREATE INDEX dispatch_order ON dispatch (accepted_at, answer_id);
CREATE INDEX dispatch_leased ON dispatch (account_id, lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX dispatch_node ON dispatch (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX dispatch_stop ON dispatch (answer_id) WHERE stop_requested = 1;

-- The ledger. Its rows are never changed, and nothing that they name needs to exist any more.
CREATE TABLE postings (
    id TEXT NOT NULL CHECK (length(id) = 36),
    account_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('grant', 'reserve', 'settle', 'release')),
    amount BIGINT NOT NULL CHECK (amount >= 0),
    -- The purse after it.
    balance BIGINT NOT NULL CHECK (balance >= 0),
    reserved BIGINT NOT NULL CHECK (reserved >= 0),
    conversation_id TEXT CHECK (length(conversation_id) = 36),
    answer_id TEXT CHECK (length(answer_id) = 36),
    key_id TEXT CHECK (length(key_id) = 36),
    model TEXT CHECK (octet_length(model) <= 512),
    step BIGINT CHECK (step >= 0),
    input_tokens BIGINT CHECK (input_tokens >= 0),
    cached_tokens BIGINT CHECK (cached_tokens >= 0),
    output_tokens BIGINT CHECK (output_tokens >= 0),
    reasoning_tokens BIGINT CHECK (reasoning_tokens >= 0),
    estimated BIGINT CHECK (estimated IN (0, 1)),
    -- What is posted again has the same time and is refused; and an account's postings lie together.
    PRIMARY KEY (account_id, created_at, id)
);

CREATE TABLE idempotency (
    account_id TEXT NOT NULL,
    name TEXT NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 1024),
    body_hash BYTEA NOT NULL CHECK (octet_length(body_hash) = 32),
    conversation_id TEXT NOT NULL,
    answer_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, name)
);
CREATE INDEX idempotency_age ON idempotency (created_at);

CREATE TABLE audit (
    entry BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at BIGINT NOT NULL,
    account_id TEXT CHECK (length(account_id) = 36),
    actor TEXT NOT NULL CHECK (octet_length(actor) <= 1024),
    action TEXT NOT NULL CHECK (octet_length(action) <= 256),
    subject TEXT NOT NULL CHECK (octet_length(subject) <= 4096),
    detail TEXT NOT NULL CHECK (octet_length(detail) <= 65536),
    trace_id TEXT CHECK (length(trace_id) = 36)
);
CREATE INDEX audit_account ON audit (account_id, entry);
