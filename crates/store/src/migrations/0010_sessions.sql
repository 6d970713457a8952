-- Sessions of the web application. The secret that proves one is in the browser; its SHA-256 is here.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    user_id TEXT NOT NULL REFERENCES users (id),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    fingerprint BYTEA NOT NULL CHECK (octet_length(fingerprint) = 32),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX sessions_fingerprint ON sessions (fingerprint);
CREATE INDEX sessions_user ON sessions (user_id, created_at, id);
CREATE INDEX sessions_expired ON sessions (expires_at, id);
