--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: THE_SCHEMA; Type: SCHEMA; Schema: -; Owner: -
--

CREATE SCHEMA THE_SCHEMA;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.accounts (
    id text NOT NULL,
    created_at bigint NOT NULL,
    licence_until bigint,
    balance bigint NOT NULL,
    reserved bigint NOT NULL,
    conversations bigint NOT NULL,
    CONSTRAINT accounts_conversations_check CHECK ((conversations >= 0)),
    CONSTRAINT accounts_id_check CHECK ((length(id) = 36)),
    CONSTRAINT balance_never_negative CHECK ((balance >= 0)),
    CONSTRAINT reserved_never_negative CHECK ((reserved >= 0))
);


--
-- Name: answers; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.answers (
    id text NOT NULL,
    conversation_id text NOT NULL,
    ordinal bigint NOT NULL,
    account_id text NOT NULL,
    created_at bigint NOT NULL,
    epoch bigint NOT NULL,
    attempts bigint NOT NULL,
    next_step bigint NOT NULL,
    next_entry bigint NOT NULL,
    log_bytes bigint NOT NULL,
    outstanding bigint NOT NULL,
    settled bigint NOT NULL,
    used_input bigint NOT NULL,
    used_cached bigint NOT NULL,
    used_output bigint NOT NULL,
    used_reasoning bigint NOT NULL,
    used_estimated bigint NOT NULL,
    completed_at bigint,
    ending text,
    error_code text,
    error_message text,
    text text,
    body text,
    price_base bigint,
    price_input bigint,
    price_output bigint,
    context_tokens bigint,
    output_max_tokens bigint,
    CONSTRAINT answers_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT answers_body_check CHECK ((octet_length(body) <= 67108864)),
    CONSTRAINT answers_context_tokens_check CHECK ((context_tokens >= 0)),
    CONSTRAINT answers_ending_check CHECK ((ending = ANY (ARRAY['done'::text, 'stopped'::text, 'failed'::text, 'deleted'::text]))),
    CONSTRAINT answers_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT answers_error_code_check CHECK ((octet_length(error_code) <= 64)),
    CONSTRAINT answers_error_message_check CHECK ((octet_length(error_message) <= 65536)),
    CONSTRAINT answers_id_check CHECK ((length(id) = 36)),
    CONSTRAINT answers_log_bytes_check CHECK ((log_bytes >= 0)),
    CONSTRAINT answers_next_entry_check CHECK ((next_entry >= 0)),
    CONSTRAINT answers_next_step_check CHECK ((next_step >= 0)),
    CONSTRAINT answers_ordinal_check CHECK ((ordinal >= 0)),
    CONSTRAINT answers_output_max_tokens_check CHECK ((output_max_tokens >= 0)),
    CONSTRAINT answers_outstanding_check CHECK ((outstanding >= 0)),
    CONSTRAINT answers_price_base_check CHECK ((price_base >= 0)),
    CONSTRAINT answers_price_input_check CHECK ((price_input >= 0)),
    CONSTRAINT answers_price_output_check CHECK ((price_output >= 0)),
    CONSTRAINT answers_settled_check CHECK ((settled >= 0)),
    CONSTRAINT answers_text_check CHECK ((octet_length(text) <= 67108864)),
    CONSTRAINT answers_used_cached_check CHECK ((used_cached >= 0)),
    CONSTRAINT answers_used_estimated_check CHECK ((used_estimated = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT answers_used_input_check CHECK ((used_input >= 0)),
    CONSTRAINT answers_used_output_check CHECK ((used_output >= 0)),
    CONSTRAINT answers_used_reasoning_check CHECK ((used_reasoning >= 0)),
    CONSTRAINT ended_holds_nothing CHECK (((completed_at IS NULL) OR (outstanding = 0))),
    CONSTRAINT ended_or_not CHECK (((completed_at IS NULL) = (ending IS NULL)))
);


--
-- Name: audit; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.audit (
    entry bigint NOT NULL,
    created_at bigint NOT NULL,
    account_id text,
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    detail text NOT NULL,
    trace_id text,
    CONSTRAINT audit_account_id_check CHECK ((length(account_id) = 36)),
    CONSTRAINT audit_action_check CHECK ((octet_length(action) <= 256)),
    CONSTRAINT audit_actor_check CHECK ((octet_length(actor) <= 1024)),
    CONSTRAINT audit_detail_check CHECK ((octet_length(detail) <= 65536)),
    CONSTRAINT audit_subject_check CHECK ((octet_length(subject) <= 4096)),
    CONSTRAINT audit_trace_id_check CHECK ((length(trace_id) = 36))
);


--
-- Name: audit_entry_seq; Type: SEQUENCE; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE THE_SCHEMA.audit ALTER COLUMN entry ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME THE_SCHEMA.audit_entry_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: commits; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.commits (
    id text NOT NULL,
    number bigint NOT NULL,
    at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');


--
-- Name: conversations; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.conversations (
    id text NOT NULL,
    account_id text NOT NULL,
    title text NOT NULL,
    model text NOT NULL,
    settings text NOT NULL,
    jurisdictions text NOT NULL,
    web_search bigint NOT NULL,
    pinned bigint NOT NULL,
    created_at bigint NOT NULL,
    modified_at bigint NOT NULL,
    exchanges bigint NOT NULL,
    deleted_at bigint,
    CONSTRAINT conversations_exchanges_check CHECK ((exchanges >= 0)),
    CONSTRAINT conversations_id_check CHECK ((length(id) = 36)),
    CONSTRAINT conversations_jurisdictions_check CHECK ((octet_length(jurisdictions) <= 65536)),
    CONSTRAINT conversations_model_check CHECK ((octet_length(model) <= 512)),
    CONSTRAINT conversations_pinned_check CHECK ((pinned = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT conversations_settings_check CHECK ((octet_length(settings) <= 65536)),
    CONSTRAINT conversations_title_check CHECK ((length(title) <= 120)),
    CONSTRAINT conversations_web_search_check CHECK ((web_search = ANY (ARRAY[(0)::bigint, (1)::bigint])))
);


--
-- Name: counters; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.counters (
    name text NOT NULL,
    next bigint NOT NULL,
    CONSTRAINT counters_name_check CHECK ((octet_length(name) <= 64)),
    CONSTRAINT counters_next_check CHECK ((next >= 0))
);


--
-- Name: delegations; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.delegations (
    answer_id text NOT NULL,
    call_id text NOT NULL,
    next_step bigint NOT NULL,
    outstanding bigint NOT NULL,
    settled bigint NOT NULL,
    used_input bigint NOT NULL,
    used_cached bigint NOT NULL,
    used_output bigint NOT NULL,
    used_reasoning bigint NOT NULL,
    used_estimated bigint NOT NULL,
    CONSTRAINT delegations_call_id_check CHECK ((octet_length(call_id) <= 1024)),
    CONSTRAINT delegations_next_step_check CHECK ((next_step >= 0)),
    CONSTRAINT delegations_outstanding_check CHECK ((outstanding >= 0)),
    CONSTRAINT delegations_settled_check CHECK ((settled >= 0)),
    CONSTRAINT delegations_used_cached_check CHECK ((used_cached >= 0)),
    CONSTRAINT delegations_used_estimated_check CHECK ((used_estimated = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT delegations_used_input_check CHECK ((used_input >= 0)),
    CONSTRAINT delegations_used_output_check CHECK ((used_output >= 0)),
    CONSTRAINT delegations_used_reasoning_check CHECK ((used_reasoning >= 0))
);


--
-- Name: dispatch; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.dispatch (
    answer_id text NOT NULL,
    conversation_id text NOT NULL,
    account_id text NOT NULL,
    accepted_at bigint NOT NULL,
    node_id text,
    lease_until bigint,
    stop_requested bigint NOT NULL,
    CONSTRAINT dispatch_node_id_check CHECK ((length(node_id) = 36)),
    CONSTRAINT dispatch_stop_requested_check CHECK ((stop_requested = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT leased_or_not CHECK (((node_id IS NULL) = (lease_until IS NULL)))
);


--
-- Name: idempotency; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.idempotency (
    account_id text NOT NULL,
    name text NOT NULL,
    body_hash bytea NOT NULL,
    conversation_id text NOT NULL,
    answer_id text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT idempotency_body_hash_check CHECK ((octet_length(body_hash) = 32)),
    CONSTRAINT idempotency_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 1024)))
);


--
-- Name: keys; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.keys (
    id text NOT NULL,
    account_id text NOT NULL,
    user_id text,
    name text NOT NULL,
    fingerprint bytea NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    last_used_at bigint,
    scope text,
    expires_at bigint,
    spending_limit bigint,
    spent bigint DEFAULT 0 NOT NULL,
    CONSTRAINT keys_fingerprint_check CHECK ((octet_length(fingerprint) = 32)),
    CONSTRAINT keys_id_check CHECK ((length(id) = 36)),
    CONSTRAINT keys_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 1024))),
    CONSTRAINT keys_scope_check CHECK ((octet_length(scope) <= 4096)),
    CONSTRAINT keys_spending_limit_check CHECK ((spending_limit >= 0)),
    CONSTRAINT keys_spent_check CHECK ((spent >= 0)),
    CONSTRAINT spent_within_limit CHECK (((spending_limit IS NULL) OR (spent <= spending_limit)))
);


--
-- Name: log; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.log (
    answer_id text NOT NULL,
    entry bigint NOT NULL,
    step bigint NOT NULL,
    call_id text,
    epoch bigint NOT NULL,
    created_at bigint NOT NULL,
    body text NOT NULL,
    delegation text,
    CONSTRAINT log_body_check CHECK ((octet_length(body) <= 33554432)),
    CONSTRAINT log_call_id_check CHECK ((octet_length(call_id) <= 1024)),
    CONSTRAINT log_delegation_check CHECK ((octet_length(delegation) <= 1024)),
    CONSTRAINT log_entry_check CHECK ((entry >= 0)),
    CONSTRAINT log_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT log_step_check CHECK ((step >= 0))
);


--
-- Name: machines; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.machines (
    account_id text NOT NULL,
    ordinal bigint NOT NULL,
    driver text,
    desired text NOT NULL,
    created_at bigint NOT NULL,
    CONSTRAINT machines_desired_check CHECK ((desired = ANY (ARRAY['running'::text, 'stopped'::text]))),
    CONSTRAINT machines_driver_check CHECK ((octet_length(driver) <= 64)),
    CONSTRAINT machines_ordinal_check CHECK ((ordinal >= 0))
);


--
-- Name: migrations; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.migrations (
    version bigint NOT NULL
);


--
-- Name: postings; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.postings (
    id text NOT NULL,
    account_id text NOT NULL,
    created_at bigint NOT NULL,
    kind text NOT NULL,
    amount bigint NOT NULL,
    balance bigint NOT NULL,
    reserved bigint NOT NULL,
    conversation_id text,
    answer_id text,
    key_id text,
    model text,
    step bigint,
    input_tokens bigint,
    cached_tokens bigint,
    output_tokens bigint,
    reasoning_tokens bigint,
    estimated bigint,
    CONSTRAINT postings_amount_check CHECK ((amount >= 0)),
    CONSTRAINT postings_answer_id_check CHECK ((length(answer_id) = 36)),
    CONSTRAINT postings_balance_check CHECK ((balance >= 0)),
    CONSTRAINT postings_cached_tokens_check CHECK ((cached_tokens >= 0)),
    CONSTRAINT postings_conversation_id_check CHECK ((length(conversation_id) = 36)),
    CONSTRAINT postings_estimated_check CHECK ((estimated = ANY (ARRAY[(0)::bigint, (1)::bigint]))),
    CONSTRAINT postings_id_check CHECK ((length(id) = 36)),
    CONSTRAINT postings_input_tokens_check CHECK ((input_tokens >= 0)),
    CONSTRAINT postings_key_id_check CHECK ((length(key_id) = 36)),
    CONSTRAINT postings_kind_check CHECK ((kind = ANY (ARRAY['grant'::text, 'reserve'::text, 'settle'::text, 'release'::text]))),
    CONSTRAINT postings_model_check CHECK ((octet_length(model) <= 512)),
    CONSTRAINT postings_output_tokens_check CHECK ((output_tokens >= 0)),
    CONSTRAINT postings_reasoning_tokens_check CHECK ((reasoning_tokens >= 0)),
    CONSTRAINT postings_reserved_check CHECK ((reserved >= 0)),
    CONSTRAINT postings_step_check CHECK ((step >= 0))
);


--
-- Name: questions; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.questions (
    conversation_id text NOT NULL,
    ordinal bigint NOT NULL,
    id text NOT NULL,
    text text NOT NULL,
    attachments text NOT NULL,
    agent text,
    skills text NOT NULL,
    created_at bigint NOT NULL,
    user_id text,
    key_id text,
    session_id text,
    trace_id text,
    CONSTRAINT questions_agent_check CHECK ((octet_length(agent) <= 1024)),
    CONSTRAINT questions_attachments_check CHECK ((octet_length(attachments) <= 4194304)),
    CONSTRAINT questions_id_check CHECK ((length(id) = 36)),
    CONSTRAINT questions_key_id_check CHECK ((length(key_id) = 36)),
    CONSTRAINT questions_session_id_check CHECK ((octet_length(session_id) <= 128)),
    CONSTRAINT questions_skills_check CHECK ((octet_length(skills) <= 262144)),
    CONSTRAINT questions_text_check CHECK ((octet_length(text) <= 1048576)),
    CONSTRAINT questions_trace_id_check CHECK ((length(trace_id) = 36)),
    CONSTRAINT questions_user_id_check CHECK ((length(user_id) = 36))
);


--
-- Name: skill_uses; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.skill_uses (
    account_id text NOT NULL,
    skill text NOT NULL,
    uses bigint NOT NULL,
    CONSTRAINT skill_uses_skill_check CHECK (((octet_length(skill) >= 1) AND (octet_length(skill) <= 1024))),
    CONSTRAINT skill_uses_uses_check CHECK ((uses > 0))
);


--
-- Name: users; Type: TABLE; Schema: THE_SCHEMA; Owner: -
--

CREATE TABLE THE_SCHEMA.users (
    id text NOT NULL,
    account_id text NOT NULL,
    role text NOT NULL,
    email text NOT NULL,
    email_key text NOT NULL,
    password_hash text,
    created_at bigint NOT NULL,
    CONSTRAINT users_email_check CHECK (((octet_length(email) >= 1) AND (octet_length(email) <= 320))),
    CONSTRAINT users_email_key_check CHECK (((octet_length(email_key) >= 1) AND (octet_length(email_key) <= 640))),
    CONSTRAINT users_id_check CHECK ((length(id) = 36)),
    CONSTRAINT users_password_hash_check CHECK ((octet_length(password_hash) <= 512)),
    CONSTRAINT users_role_check CHECK ((role = ANY (ARRAY['owner'::text, 'operator'::text])))
);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.accounts VALUES ('8c4879f6-3922-4564-982a-2e461672051d', 1795288357148051, 4102444800000000, 9992, 6, 2);


--
-- Data for Name: answers; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.answers VALUES ('01a1ff86-598d-716f-a397-42615de0b2db', '01a1ff86-598d-7f51-ac60-bac2700b2f7c', 0, '8c4879f6-3922-4564-982a-2e461672051d', 1795288357261651, 1, 0, 2, 3, 518, 0, 2, 200, 0, 40, 0, 0, 1795288357497621, 'done', NULL, NULL, 'It is **kept**.', '{"v":1,"epoch":1,"revision":6,"parts":[{"id":"80da5e56-0575-44b0-9d41-5976c343df14","step":0,"body":{"tool":{"tool":"shell","call":"call_1_0","state":"complete","sources":[]}}},{"id":"78de45b6-f454-4c8d-a60e-a3b36f242ea6","step":1,"body":{"text":"It is **kept**."}}],"sources":[]}', 1000, 50, 500, 32768, 8192);
INSERT INTO THE_SCHEMA.answers VALUES ('01a1ff86-5ab6-7bc4-b544-70af568ba66e', '01a1ff86-5ab6-7162-8af0-d8514f04bab6', 0, '8c4879f6-3922-4564-982a-2e461672051d', 1795288357558262, 1, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 1000, 50, 500, 32768, 8192);


--
-- Data for Name: audit; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.audit OVERRIDING SYSTEM VALUE VALUES (1, 1795288357148052, '8c4879f6-3922-4564-982a-2e461672051d', 'operator uid 0', 'create account', 'account-0@example.test', 'credits 10000', NULL);
INSERT INTO THE_SCHEMA.audit OVERRIDING SYSTEM VALUE VALUES (2, 1795288357214768, '8c4879f6-3922-4564-982a-2e461672051d', 'operator uid 0', 'create key', 'aec1d295-dc91-46a9-a627-941d535dd564', 'conformance', NULL);


--
-- Data for Name: commits; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/3', 1, '2026-11-21 19:12:37.156261+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/4', 1, '2026-11-21 19:12:37.232511+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/5', 1, '2026-11-21 19:12:37.268376+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/6', 1, '2026-11-21 19:12:37.276102+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/7', 1, '2026-11-21 19:12:37.310686+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/8', 1, '2026-11-21 19:12:37.367215+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/9', 1, '2026-11-21 19:12:37.37686+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/10', 1, '2026-11-21 19:12:37.418117+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/11', 1, '2026-11-21 19:12:37.436259+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/12', 1, '2026-11-21 19:12:37.468575+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/13', 1, '2026-11-21 19:12:37.502527+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/14', 1, '2026-11-21 19:12:37.516533+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/15', 1, '2026-11-21 19:12:37.562415+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/1', 1, '2026-11-21 19:12:37.571001+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/0', 2, '2026-11-21 19:12:37.586177+00');
INSERT INTO THE_SCHEMA.commits VALUES ('808ec813-c792-4b39-bbf9-422ec3e35e14/2', 2, '2026-11-21 19:12:37.61225+00');


--
-- Data for Name: conversations; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.conversations VALUES ('01a1ff86-598d-7f51-ac60-bac2700b2f7c', '8c4879f6-3922-4564-982a-2e461672051d', 'Is it kept?', 'stand-in', '[]', '[]', 0, 0, 1795288357261651, 1795288357497621, 1, NULL);
INSERT INTO THE_SCHEMA.conversations VALUES ('01a1ff86-5ab6-7162-8af0-d8514f04bab6', '8c4879f6-3922-4564-982a-2e461672051d', 'And this?', 'stand-in', '[]', '[]', 0, 0, 1795288357558262, 1795288357558262, 1, NULL);


--
-- Data for Name: counters; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.counters VALUES ('machine', 1);


--
-- Data for Name: delegations; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--



--
-- Data for Name: dispatch; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.dispatch VALUES ('01a1ff86-5ab6-7bc4-b544-70af568ba66e', '01a1ff86-5ab6-7162-8af0-d8514f04bab6', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357558262, NULL, NULL, 0);


--
-- Data for Name: idempotency; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--



--
-- Data for Name: keys; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.keys VALUES ('aec1d295-dc91-46a9-a627-941d535dd564', '8c4879f6-3922-4564-982a-2e461672051d', '69899836-8a6a-44f7-b375-d74ed1d43229', 'conformance', '\xf65cfd0746b582b53741794a9b467becd464e7fd93d79b2948fa7284e3424c39', 1795288357214763, NULL, 1795288320000000, NULL, NULL, NULL, 0);


--
-- Data for Name: log; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.log VALUES ('01a1ff86-598d-716f-a397-42615de0b2db', 0, 0, NULL, 1, 1795288357372189, '{"v":1,"instance":"ed16c596-9820-4b80-8418-458c1ae1c751","blocks":[{"call":{"id":"call_1_0","tool":"shell","arguments":"{\"command\":\"echo kept\"}"}}],"stop":"calls","usage":{"input":100,"cached":0,"output":20,"reasoning":0,"estimated":false}}', NULL);
INSERT INTO THE_SCHEMA.log VALUES ('01a1ff86-598d-716f-a397-42615de0b2db', 1, 0, 'call_1_0', 1, 1795288357413514, '{"v":1,"call":"call_1_0","tool":"shell","outcome":"done","text":"kept\n[exit status 0]"}', NULL);
INSERT INTO THE_SCHEMA.log VALUES ('01a1ff86-598d-716f-a397-42615de0b2db', 2, 1, NULL, 1, 1795288357450169, '{"v":1,"instance":"ed16c596-9820-4b80-8418-458c1ae1c751","blocks":[{"text":"It is **kept**."}],"stop":"done","usage":{"input":100,"cached":0,"output":20,"reasoning":0,"estimated":false}}', NULL);


--
-- Data for Name: machines; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.machines VALUES ('8c4879f6-3922-4564-982a-2e461672051d', 0, NULL, 'running', 1795288357148051);


--
-- Data for Name: migrations; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.migrations VALUES (1);
INSERT INTO THE_SCHEMA.migrations VALUES (2);
INSERT INTO THE_SCHEMA.migrations VALUES (3);
INSERT INTO THE_SCHEMA.migrations VALUES (4);
INSERT INTO THE_SCHEMA.migrations VALUES (5);
INSERT INTO THE_SCHEMA.migrations VALUES (6);
INSERT INTO THE_SCHEMA.migrations VALUES (7);


--
-- Data for Name: postings; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.postings VALUES ('885d4528-6fed-4907-8749-0d0263085d43', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357148051, 'grant', 10000, 10000, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-598d-7057-8bef-16ccb08ce20e', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357261651, 'reserve', 6, 9994, 6, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-59fc-746e-a339-1687d9ab78ba', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357372189, 'settle', 2, 9994, 4, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 0, 100, 0, 20, 0, 0);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-59fc-781a-9d1f-a00af92878df', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357372189, 'release', 4, 9998, 0, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-5a37-76dd-b80b-dd25e66b41d4', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357431473, 'reserve', 4, 9994, 4, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-5a4a-70d8-b964-0a31e017509d', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357450169, 'settle', 0, 9994, 4, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 1, 100, 0, 20, 0, 0);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-5a4a-725f-8f23-9a2ef79344f6', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357450169, 'release', 4, 9998, 0, '01a1ff86-598d-7f51-ac60-bac2700b2f7c', '01a1ff86-598d-716f-a397-42615de0b2db', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 1, NULL, NULL, NULL, NULL, NULL);
INSERT INTO THE_SCHEMA.postings VALUES ('01a1ff86-5ab6-73c6-8244-7567357afda1', '8c4879f6-3922-4564-982a-2e461672051d', 1795288357558262, 'reserve', 6, 9992, 6, '01a1ff86-5ab6-7162-8af0-d8514f04bab6', '01a1ff86-5ab6-7bc4-b544-70af568ba66e', 'aec1d295-dc91-46a9-a627-941d535dd564', 'stand-in', 0, NULL, NULL, NULL, NULL, NULL);


--
-- Data for Name: questions; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.questions VALUES ('01a1ff86-598d-7f51-ac60-bac2700b2f7c', 0, '01a1ff86-598d-7ebc-999e-fa7a2a325097', 'Is it kept?', '[]', NULL, '[]', 1795288357261651, '69899836-8a6a-44f7-b375-d74ed1d43229', 'aec1d295-dc91-46a9-a627-941d535dd564', NULL, NULL);
INSERT INTO THE_SCHEMA.questions VALUES ('01a1ff86-5ab6-7162-8af0-d8514f04bab6', 0, '01a1ff86-5ab6-743d-9a2c-d60129402011', 'And this?', '[]', NULL, '[]', 1795288357558262, '69899836-8a6a-44f7-b375-d74ed1d43229', 'aec1d295-dc91-46a9-a627-941d535dd564', NULL, NULL);


--
-- Data for Name: skill_uses; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--



--
-- Data for Name: users; Type: TABLE DATA; Schema: THE_SCHEMA; Owner: -
--

INSERT INTO THE_SCHEMA.users VALUES ('69899836-8a6a-44f7-b375-d74ed1d43229', '8c4879f6-3922-4564-982a-2e461672051d', 'owner', 'account-0@example.test', 'account-0@example.test', NULL, 1795288357148051);


--
-- Name: audit_entry_seq; Type: SEQUENCE SET; Schema: THE_SCHEMA; Owner: -
--

SELECT pg_catalog.setval('THE_SCHEMA.audit_entry_seq', 2, true);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: answers answers_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (id);


--
-- Name: audit audit_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (entry);


--
-- Name: commits commits_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.commits
    ADD CONSTRAINT commits_pkey PRIMARY KEY (id);


--
-- Name: conversations conversations_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.conversations
    ADD CONSTRAINT conversations_pkey PRIMARY KEY (id);


--
-- Name: counters counters_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.counters
    ADD CONSTRAINT counters_pkey PRIMARY KEY (name);


--
-- Name: delegations delegations_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.delegations
    ADD CONSTRAINT delegations_pkey PRIMARY KEY (answer_id, call_id);


--
-- Name: dispatch dispatch_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.dispatch
    ADD CONSTRAINT dispatch_pkey PRIMARY KEY (answer_id);


--
-- Name: idempotency idempotency_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (account_id, name);


--
-- Name: keys keys_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (id);


--
-- Name: log log_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.log
    ADD CONSTRAINT log_pkey PRIMARY KEY (answer_id, entry);


--
-- Name: machines machines_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.machines
    ADD CONSTRAINT machines_pkey PRIMARY KEY (account_id);


--
-- Name: migrations migrations_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);


--
-- Name: postings postings_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.postings
    ADD CONSTRAINT postings_pkey PRIMARY KEY (account_id, created_at, id);


--
-- Name: questions questions_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.questions
    ADD CONSTRAINT questions_pkey PRIMARY KEY (conversation_id, ordinal);


--
-- Name: skill_uses skill_uses_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.skill_uses
    ADD CONSTRAINT skill_uses_pkey PRIMARY KEY (account_id, skill);


--
-- Name: users users_pkey; Type: CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (id);


--
-- Name: answers_open; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX answers_open ON THE_SCHEMA.answers USING btree (conversation_id) WHERE (completed_at IS NULL);


--
-- Name: answers_place; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX answers_place ON THE_SCHEMA.answers USING btree (conversation_id, ordinal);


--
-- Name: audit_account; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX audit_account ON THE_SCHEMA.audit USING btree (account_id, entry);


--
-- Name: audit_age; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX audit_age ON THE_SCHEMA.audit USING btree (created_at, entry);


--
-- Name: conversations_deleted; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX conversations_deleted ON THE_SCHEMA.conversations USING btree (deleted_at, id) WHERE (deleted_at IS NOT NULL);


--
-- Name: conversations_listed; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX conversations_listed ON THE_SCHEMA.conversations USING btree (account_id, pinned, modified_at, id, deleted_at) WHERE (deleted_at IS NULL);


--
-- Name: dispatch_leased; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX dispatch_leased ON THE_SCHEMA.dispatch USING btree (account_id, lease_until) WHERE (lease_until IS NOT NULL);


--
-- Name: dispatch_node; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX dispatch_node ON THE_SCHEMA.dispatch USING btree (node_id) WHERE (node_id IS NOT NULL);


--
-- Name: dispatch_order; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX dispatch_order ON THE_SCHEMA.dispatch USING btree (accepted_at, answer_id);


--
-- Name: dispatch_stop; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX dispatch_stop ON THE_SCHEMA.dispatch USING btree (answer_id) WHERE (stop_requested = 1);


--
-- Name: dispatch_waiting; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX dispatch_waiting ON THE_SCHEMA.dispatch USING btree (account_id, accepted_at, answer_id) WHERE (lease_until IS NULL);


--
-- Name: idempotency_age; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX idempotency_age ON THE_SCHEMA.idempotency USING btree (created_at);


--
-- Name: keys_account; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX keys_account ON THE_SCHEMA.keys USING btree (account_id, created_at);


--
-- Name: keys_fingerprint; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX keys_fingerprint ON THE_SCHEMA.keys USING btree (fingerprint);


--
-- Name: log_delegated_result; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX log_delegated_result ON THE_SCHEMA.log USING btree (answer_id, delegation, call_id) WHERE ((call_id IS NOT NULL) AND (delegation IS NOT NULL));


--
-- Name: log_delegated_step; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX log_delegated_step ON THE_SCHEMA.log USING btree (answer_id, delegation, step) WHERE ((call_id IS NULL) AND (delegation IS NOT NULL));


--
-- Name: log_result; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX log_result ON THE_SCHEMA.log USING btree (answer_id, call_id) WHERE ((call_id IS NOT NULL) AND (delegation IS NULL));


--
-- Name: log_step; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX log_step ON THE_SCHEMA.log USING btree (answer_id, step) WHERE ((call_id IS NULL) AND (delegation IS NULL));


--
-- Name: machines_ordinal; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX machines_ordinal ON THE_SCHEMA.machines USING btree (ordinal);


--
-- Name: users_account; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE INDEX users_account ON THE_SCHEMA.users USING btree (account_id);


--
-- Name: users_email; Type: INDEX; Schema: THE_SCHEMA; Owner: -
--

CREATE UNIQUE INDEX users_email ON THE_SCHEMA.users USING btree (email_key);


--
-- Name: answers answers_conversation_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.answers
    ADD CONSTRAINT answers_conversation_id_fkey FOREIGN KEY (conversation_id) REFERENCES THE_SCHEMA.conversations(id);


--
-- Name: conversations conversations_account_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.conversations
    ADD CONSTRAINT conversations_account_id_fkey FOREIGN KEY (account_id) REFERENCES THE_SCHEMA.accounts(id);


--
-- Name: delegations delegations_answer_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.delegations
    ADD CONSTRAINT delegations_answer_id_fkey FOREIGN KEY (answer_id) REFERENCES THE_SCHEMA.answers(id);


--
-- Name: dispatch dispatch_answer_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.dispatch
    ADD CONSTRAINT dispatch_answer_id_fkey FOREIGN KEY (answer_id) REFERENCES THE_SCHEMA.answers(id);


--
-- Name: keys keys_account_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.keys
    ADD CONSTRAINT keys_account_id_fkey FOREIGN KEY (account_id) REFERENCES THE_SCHEMA.accounts(id);


--
-- Name: keys keys_user_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.keys
    ADD CONSTRAINT keys_user_id_fkey FOREIGN KEY (user_id) REFERENCES THE_SCHEMA.users(id);


--
-- Name: log log_answer_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.log
    ADD CONSTRAINT log_answer_id_fkey FOREIGN KEY (answer_id) REFERENCES THE_SCHEMA.answers(id);


--
-- Name: machines machines_account_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.machines
    ADD CONSTRAINT machines_account_id_fkey FOREIGN KEY (account_id) REFERENCES THE_SCHEMA.accounts(id);


--
-- Name: questions questions_conversation_id_ordinal_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.questions
    ADD CONSTRAINT questions_conversation_id_ordinal_fkey FOREIGN KEY (conversation_id, ordinal) REFERENCES THE_SCHEMA.answers(conversation_id, ordinal);


--
-- Name: skill_uses skill_uses_account_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.skill_uses
    ADD CONSTRAINT skill_uses_account_id_fkey FOREIGN KEY (account_id) REFERENCES THE_SCHEMA.accounts(id);


--
-- Name: users users_account_id_fkey; Type: FK CONSTRAINT; Schema: THE_SCHEMA; Owner: -
--

ALTER TABLE ONLY THE_SCHEMA.users
    ADD CONSTRAINT users_account_id_fkey FOREIGN KEY (account_id) REFERENCES THE_SCHEMA.accounts(id);


--
-- PostgreSQL database dump complete
--


