"""The outbox's tables in SQLite. Each statement may be repeated."""

from __future__ import annotations

import uuid

from timerd.outbox.sealing import NUMBER_STEP

_WISH = """
    verb INTEGER NOT NULL DEFAULT 1,
    namespace TEXT NOT NULL DEFAULT 'default',
    queue TEXT,
    fire_at_ms INTEGER,
    key TEXT,
    payload BLOB,
    options TEXT"""
TABLES = (
    f"""CREATE TABLE IF NOT EXISTS timerd_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,{_WISH},
    inserted_ms INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    CONSTRAINT "verb is 1 schedule, 2 cancel or 3 reschedule" CHECK (verb IN (1, 2, 3)),
    CONSTRAINT "to schedule takes queue, payload and fire_at_ms" CHECK (
        verb <> 1 OR (queue IS NOT NULL AND payload IS NOT NULL AND fire_at_ms IS NOT NULL)),
    CONSTRAINT "to cancel takes a key and nothing else" CHECK (
        verb <> 2 OR (key IS NOT NULL AND coalesce(queue, payload, options, fire_at_ms) IS NULL)),
    CONSTRAINT "to reschedule takes key and fire_at_ms" CHECK (
        verb <> 3 OR (key IS NOT NULL AND fire_at_ms IS NOT NULL AND coalesce(queue, payload, options) IS NULL)),
    CONSTRAINT "namespace has 1 to 64 of A-Z a-z 0-9 . _ -" CHECK (
        length(namespace) BETWEEN 1 AND 64 AND NOT namespace GLOB '*[^-A-Za-z0-9._]*'),
    CONSTRAINT "queue has 1 to 128 of A-Z a-z 0-9 . _ - / :" CHECK (
        length(queue) BETWEEN 1 AND 128 AND NOT queue GLOB '*[^-A-Za-z0-9._/:]*'),
    CONSTRAINT "key has 1 to 256 characters" CHECK (typeof(key) IN ('null', 'text') AND length(key) BETWEEN 1 AND 256),
    CONSTRAINT "payload is bytes, 1 MiB at most" CHECK (
        typeof(payload) IN ('null', 'blob') AND length(payload) <= 1048576),
    CONSTRAINT "fire_at_ms is whole milliseconds in the years 1970 to 9999" CHECK (
        typeof(fire_at_ms) IN ('null', 'integer') AND fire_at_ms BETWEEN 0 AND 253402214400000))""",
    """CREATE TABLE IF NOT EXISTS timerd_sealed (
    no INTEGER PRIMARY KEY, made_ms INTEGER NOT NULL, verb INTEGER NOT NULL, tasks INTEGER NOT NULL,
    is_ordered INTEGER NOT NULL, namespace TEXT NOT NULL, request BLOB NOT NULL,
    owner TEXT NOT NULL, until_ms INTEGER NOT NULL, why TEXT NOT NULL DEFAULT '')""",
    f"""CREATE TABLE IF NOT EXISTS timerd_refused (
    number INTEGER PRIMARY KEY AUTOINCREMENT, refused_ms INTEGER NOT NULL,{_WISH},
    problem TEXT NOT NULL, reason TEXT NOT NULL)""",
    f"""CREATE TABLE IF NOT EXISTS timerd_relay (
    one INTEGER PRIMARY KEY CHECK (one = 1), outbox TEXT NOT NULL,
    next_no INTEGER NOT NULL DEFAULT {NUMBER_STEP}, made_ms INTEGER NOT NULL DEFAULT 0)""",
)
DROP = tuple(f"DROP TABLE IF EXISTS timerd_{name}" for name in ("outbox", "sealed", "refused", "relay"))
_FIRST_RELAY = "INSERT INTO timerd_relay (one, outbox) VALUES (1, '{outbox}') ON CONFLICT DO NOTHING"


def statements() -> list[str]:
    return [*TABLES, _FIRST_RELAY.format(outbox=uuid.uuid4())]


def script() -> str:
    return ";\n".join(statements()) + ";"
