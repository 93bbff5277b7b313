"""The outbox's tables and functions in PostgreSQL. Each statement may be repeated.

The checks are there so that the application hears of a mistake in its own transaction, before anything is written.
"""

from __future__ import annotations

# fire_at up to the last year that a task may have; a payload as large as the largest that a server can be set to.
TABLES = """
CREATE SCHEMA IF NOT EXISTS timerd;
CREATE TABLE IF NOT EXISTS timerd.outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb smallint NOT NULL DEFAULT 1,
    namespace text NOT NULL DEFAULT 'default',
    queue text,
    fire_at timestamptz,
    key text,
    payload bytea,
    options jsonb,
    inserted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT "verb is 1 schedule, 2 cancel or 3 reschedule" CHECK (verb IN (1, 2, 3)),
    CONSTRAINT "to schedule takes queue, payload and fire_at" CHECK (
        verb <> 1 OR (queue IS NOT NULL AND payload IS NOT NULL AND fire_at IS NOT NULL)),
    CONSTRAINT "to cancel takes a key and nothing else" CHECK (
        verb <> 2 OR (key IS NOT NULL AND fire_at IS NULL AND num_nulls(queue, payload, options) = 3)),
    CONSTRAINT "to reschedule takes key and fire_at" CHECK (
        verb <> 3 OR (key IS NOT NULL AND fire_at IS NOT NULL AND num_nulls(queue, payload, options) = 3)),
    CONSTRAINT "namespace has 1 to 64 of A-Z a-z 0-9 . _ -" CHECK (namespace ~ '^[A-Za-z0-9._-]{1,64}$'),
    CONSTRAINT "queue has 1 to 128 of A-Z a-z 0-9 . _ - / :" CHECK (queue ~ '^[A-Za-z0-9._/:-]{1,128}$'),
    CONSTRAINT "key has 1 to 256 characters" CHECK (length(key) BETWEEN 1 AND 256),
    CONSTRAINT "payload has 1 MiB at most" CHECK (octet_length(payload) <= 1048576),
    CONSTRAINT "options is an object" CHECK (jsonb_typeof(options) = 'object'),
    CONSTRAINT "fire_at lies in the years 1970 to 9999" CHECK (
        fire_at >= '1970-01-01T00:00Z' AND fire_at < '9999-12-31T00:00Z')
);
CREATE TABLE IF NOT EXISTS timerd.sealed (
    no bigint PRIMARY KEY,
    made_ms bigint NOT NULL,
    verb smallint NOT NULL,
    tasks integer NOT NULL,
    is_ordered boolean NOT NULL,
    namespace text NOT NULL,
    request bytea NOT NULL,
    owner text NOT NULL,
    until timestamptz NOT NULL,
    why text NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS timerd.refused (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    verb smallint NOT NULL,
    namespace text NOT NULL,
    queue text,
    fire_at timestamptz,
    key text,
    payload bytea,
    options jsonb,
    problem text NOT NULL,
    reason text NOT NULL
);
CREATE TABLE IF NOT EXISTS timerd.relay (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    outbox uuid NOT NULL DEFAULT gen_random_uuid(),
    next_no bigint NOT NULL DEFAULT 2000,
    made_ms bigint NOT NULL DEFAULT 0
);
INSERT INTO timerd.relay DEFAULT VALUES ON CONFLICT DO NOTHING;
"""
FUNCTIONS = """
CREATE OR REPLACE FUNCTION timerd.schedule(
    queue text, payload bytea, fire_at timestamptz,
    key text DEFAULT NULL, namespace text DEFAULT 'default', options jsonb DEFAULT NULL
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO timerd.outbox (verb, namespace, queue, fire_at, key, payload, options)
    VALUES (1, $5, $1, $3, $4, $2, $6) $$;
CREATE OR REPLACE FUNCTION timerd.cancel(key text, namespace text DEFAULT 'default')
RETURNS void LANGUAGE sql AS $$
    INSERT INTO timerd.outbox (verb, namespace, key) VALUES (2, $2, $1) $$;
CREATE OR REPLACE FUNCTION timerd.reschedule(key text, fire_at timestamptz, namespace text DEFAULT 'default')
RETURNS void LANGUAGE sql AS $$
    INSERT INTO timerd.outbox (verb, namespace, key, fire_at) VALUES (3, $3, $1, $2) $$;
"""
DDL = TABLES + FUNCTIONS
# For Django's migrations backwards.
DROP = "DROP SCHEMA IF EXISTS timerd CASCADE;"
