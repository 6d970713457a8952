-- Those that wait, by account: however many wait for one account, the first of another are found at once.
CREATE INDEX dispatch_waiting ON dispatch (account_id, accepted_at, answer_id) WHERE lease_until IS NULL;
