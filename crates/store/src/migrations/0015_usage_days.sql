-- The settled postings of each day added up, so that a page of usage does not read the ledger. The row of a day is written with
-- its postings, in their transaction.
CREATE TABLE usage_days (
    account_id TEXT NOT NULL,
    -- Days since 1970 in UTC.
    day BIGINT NOT NULL,
    -- Empty for postings without a model, and for questions without a key.
    model TEXT NOT NULL,
    key_id TEXT NOT NULL,
    steps BIGINT NOT NULL,
    credits BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    reasoning_tokens BIGINT NOT NULL,
    estimated_tokens BIGINT NOT NULL,
    summaries BIGINT NOT NULL,
    summary_credits BIGINT NOT NULL,
    PRIMARY KEY (account_id, day, model, key_id)
);
INSERT INTO usage_days (account_id, day, model, key_id, steps, credits, input_tokens, cached_tokens, output_tokens,
        reasoning_tokens, estimated_tokens, summaries, summary_credits)
    SELECT account_id, created_at / 86400000000, COALESCE(model, ''), COALESCE(key_id, ''), COUNT(*),
        CAST(SUM(amount) AS BIGINT),
        CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT),
        CAST(COALESCE(SUM(cached_tokens), 0) AS BIGINT),
        CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT),
        CAST(COALESCE(SUM(reasoning_tokens), 0) AS BIGINT),
        CAST(COALESCE(SUM(CASE estimated WHEN 1 THEN input_tokens + output_tokens ELSE 0 END), 0) AS BIGINT),
        COUNT(summary), CAST(COALESCE(SUM(CASE summary WHEN 1 THEN amount ELSE 0 END), 0) AS BIGINT)
    FROM postings WHERE kind = 'settle' GROUP BY 1, 2, 3, 4;
-- Whether a conversation has a word is asked for each conversation when the word is frequent.
DROP INDEX search_words_conversation;
CREATE INDEX search_words_conversation ON search_words (conversation_id, word);
