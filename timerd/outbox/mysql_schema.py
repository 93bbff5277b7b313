"""The outbox's tables in MySQL and MariaDB. Each statement may be repeated.

Columns are wider than what they may hold: a server that is not strict cuts what is too long for a column, and a CHECK
says so instead.
"""

from __future__ import annotations

from timerd.outbox.sealing import NUMBER_STEP

# Of the statement, whatever the zone of the session.
NOW_MS = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"
_WISH = """
    verb TINYINT NOT NULL DEFAULT 1,
    namespace VARCHAR(255) NOT NULL DEFAULT 'default',
    queue VARCHAR(255),
    fire_at_ms BIGINT,
    `key` VARCHAR(1024),
    payload MEDIUMBLOB,
    options LONGTEXT"""
MOST_WHY = 1024
_KIND = "ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
TABLES = (
    f"""CREATE TABLE IF NOT EXISTS timerd_outbox (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,{_WISH},
    inserted_ms BIGINT NOT NULL DEFAULT {NOW_MS},
    CONSTRAINT `verb is 1 schedule, 2 cancel or 3 reschedule` CHECK (verb IN (1, 2, 3)),
    CONSTRAINT `to schedule takes queue, payload and fire_at_ms` CHECK (
        verb <> 1 OR (queue IS NOT NULL AND payload IS NOT NULL AND fire_at_ms IS NOT NULL)),
    CONSTRAINT `to cancel takes a key and nothing else` CHECK (
        verb <> 2 OR (`key` IS NOT NULL AND queue IS NULL AND payload IS NULL AND options IS NULL
        AND fire_at_ms IS NULL)),
    CONSTRAINT `to reschedule takes key and fire_at_ms` CHECK (
        verb <> 3 OR (`key` IS NOT NULL AND fire_at_ms IS NOT NULL AND queue IS NULL AND payload IS NULL
        AND options IS NULL)),
    CONSTRAINT `namespace has 1 to 64 of A-Z a-z 0-9 . _ -` CHECK (
        CHAR_LENGTH(namespace) BETWEEN 1 AND 64 AND namespace NOT REGEXP '[^A-Za-z0-9._-]'),
    CONSTRAINT `queue has 1 to 128 of A-Z a-z 0-9 . _ - / :` CHECK (
        CHAR_LENGTH(queue) BETWEEN 1 AND 128 AND queue NOT REGEXP '[^A-Za-z0-9._/:-]'),
    CONSTRAINT `key has 1 to 256 characters` CHECK (CHAR_LENGTH(`key`) BETWEEN 1 AND 256),
    CONSTRAINT `payload has 1 MiB at most` CHECK (LENGTH(payload) <= 1048576),
    CONSTRAINT `options is an object` CHECK (JSON_VALID(options) AND JSON_TYPE(options) = 'OBJECT'),
    CONSTRAINT `fire_at_ms lies in the years 1970 to 9999` CHECK (fire_at_ms BETWEEN 0 AND 253402214400000)
) {_KIND}""",
    f"""CREATE TABLE IF NOT EXISTS timerd_sealed (
    no BIGINT PRIMARY KEY, made_ms BIGINT NOT NULL, verb TINYINT NOT NULL, tasks INT NOT NULL,
    is_ordered BOOLEAN NOT NULL, namespace VARCHAR(255) NOT NULL, request LONGBLOB NOT NULL,
    owner VARCHAR(64) NOT NULL, until_ms BIGINT NOT NULL, why VARCHAR({MOST_WHY}) NOT NULL DEFAULT ''
) {_KIND}""",
    f"""CREATE TABLE IF NOT EXISTS timerd_refused (
    number BIGINT AUTO_INCREMENT PRIMARY KEY, refused_ms BIGINT NOT NULL DEFAULT {NOW_MS},{_WISH},
    problem TEXT NOT NULL, reason TEXT NOT NULL
) {_KIND}""",
    f"""CREATE TABLE IF NOT EXISTS timerd_relay (
    one TINYINT PRIMARY KEY, outbox CHAR(36) NOT NULL,
    next_no BIGINT NOT NULL DEFAULT {NUMBER_STEP}, made_ms BIGINT NOT NULL DEFAULT 0,
    CONSTRAINT `there is one` CHECK (one = 1)
) {_KIND}""",
)
DROP = tuple(f"DROP TABLE IF EXISTS timerd_{name}" for name in ("outbox", "sealed", "refused", "relay"))
_FIRST_RELAY = "INSERT IGNORE INTO timerd_relay (one, outbox) VALUES (1, UUID())"


def statements() -> list[str]:
    return [*TABLES, _FIRST_RELAY]


def script() -> str:
    return ";\n".join(statements()) + ";"
