-- 1 if the owner chose the email, which nobody confirmed: a user of an identity provider is not matched by it.
ALTER TABLE users ADD COLUMN email_chosen BIGINT NOT NULL DEFAULT 0 CHECK (email_chosen IN (0, 1));
UPDATE users SET email_chosen = 1 WHERE account_id IN (SELECT account_id FROM audit WHERE action = 'change email');
