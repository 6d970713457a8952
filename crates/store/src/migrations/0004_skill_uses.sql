-- How often each account has used which skill, by its full name. Skills come and go with their plugins.

CREATE TABLE skill_uses (
    account_id TEXT NOT NULL REFERENCES accounts (id),
    skill TEXT NOT NULL CHECK (octet_length(skill) BETWEEN 1 AND 1024),
    uses BIGINT NOT NULL CHECK (uses > 0),
    PRIMARY KEY (account_id, skill)
);
