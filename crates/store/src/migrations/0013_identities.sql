-- Users of an identity provider, by which they sign in. Its issuer and the subject never change, unlike an email.
CREATE TABLE identities (
    issuer TEXT NOT NULL CHECK (octet_length(issuer) BETWEEN 1 AND 4096),
    subject TEXT NOT NULL CHECK (octet_length(subject) BETWEEN 1 AND 255),
    user_id TEXT NOT NULL REFERENCES users (id),
    account_id TEXT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL,
    PRIMARY KEY (issuer, subject)
);
-- A user is one subject of a provider.
CREATE UNIQUE INDEX identities_user ON identities (user_id, issuer);
CREATE INDEX identities_account ON identities (account_id);
