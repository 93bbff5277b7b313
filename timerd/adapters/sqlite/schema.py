"""The tables, how data of an older version becomes data of this one, and whether a file has all of a version.

Row groups lie in a rowid table, so that a commit appends pages instead of touching one for each place; the index names
the place and, as every index does, ends in the rowid, which is the cursor. Places are small numbers: the bucket's
ordinal, times as the distance to its start.

SQLite checks the pages that there are. A table that is not there at all is no damage to it, so a file is compared with
what the migrations make.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from timerd.model.errors import StartupError

APPLICATION_ID = 0x74696D72
PAGE_BYTES = 4096
# A checkpoint copies the log back into the file; rarer ones merge more writes of the same page.
CHECKPOINT_PAGES = 20_000
READ_MAP_BYTES = 0
WRITE_CACHE_KIB = 8192
READ_CACHE_KIB = 2048
MARK_BLOCKS_SINCE = 2
SchemaStep = tuple[str, tuple[object, ...]]

_FIRST = """
CREATE TABLE groups (
    id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, bucket INTEGER NOT NULL, shard INTEGER NOT NULL,
    first_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,
    keys_crc INTEGER NOT NULL, payloads_crc INTEGER NOT NULL, keys BLOB NOT NULL, payloads BLOB NOT NULL);
CREATE INDEX groups_by_place ON groups (scope, bucket, shard);

CREATE TABLE far_groups (
    id INTEGER PRIMARY KEY, day INTEGER NOT NULL, scope INTEGER NOT NULL, shard INTEGER NOT NULL,
    corrupt INTEGER NOT NULL DEFAULT 0,
    keys_crc INTEGER NOT NULL, payloads_crc INTEGER NOT NULL, keys BLOB NOT NULL, payloads BLOB NOT NULL);
CREATE INDEX far_groups_by_day ON far_groups (day, scope, shard);

CREATE TABLE days (
    day INTEGER NOT NULL, scope INTEGER NOT NULL,
    present BLOB NOT NULL, finishing BLOB NOT NULL, finished BLOB NOT NULL,
    PRIMARY KEY (day, scope)) WITHOUT ROWID;

CREATE TABLE marks (
    id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, bucket INTEGER NOT NULL, shard INTEGER NOT NULL,
    position_ms INTEGER NOT NULL, digest BLOB NOT NULL, version INTEGER NOT NULL, kind INTEGER NOT NULL,
    value BLOB NOT NULL);
CREATE UNIQUE INDEX marks_by_row ON marks (scope, bucket, shard, position_ms, digest, version, kind);
CREATE INDEX marks_by_place ON marks (scope, bucket, shard);

CREATE TABLE settled (
    id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, bucket INTEGER NOT NULL, shard INTEGER NOT NULL,
    token INTEGER NOT NULL, sequence INTEGER NOT NULL, crc INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE UNIQUE INDEX settled_by_name ON settled (scope, bucket, shard, token, sequence);

CREATE TABLE registers (
    kind TEXT NOT NULL, name BLOB NOT NULL, expires_ms INTEGER NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (kind, name)) WITHOUT ROWID;
CREATE INDEX registers_by_expiry ON registers (expires_ms) WHERE expires_ms > 0;

CREATE TABLE requests (prefix BLOB PRIMARY KEY, block INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE replies (block INTEGER PRIMARY KEY, expires_ms INTEGER NOT NULL, body BLOB NOT NULL);

CREATE TABLE dead_letters (
    task_id BLOB PRIMARY KEY, namespace TEXT NOT NULL, queue TEXT NOT NULL, died_at_ms INTEGER NOT NULL,
    facts BLOB NOT NULL, payload BLOB NOT NULL);
CREATE INDEX dead_letters_by_queue ON dead_letters (namespace, queue, died_at_ms, task_id);
CREATE INDEX dead_letters_by_time ON dead_letters (namespace, died_at_ms, task_id);

CREATE TABLE estimates (
    namespace TEXT NOT NULL, queue TEXT NOT NULL, minute_ms INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (namespace, queue, minute_ms)) WITHOUT ROWID;
"""


_MARK_BLOCKS = """
CREATE TABLE mark_blocks (
    id INTEGER PRIMARY KEY, scope INTEGER NOT NULL, bucket INTEGER NOT NULL, shard INTEGER NOT NULL,
    crc INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE INDEX mark_blocks_by_place ON mark_blocks (scope, bucket, shard);
"""


# Of a day that is over only flags are left, for ever: who reads the catalogue, each second, does not go through those.
_DAYS_PRESENT = """
CREATE INDEX days_present ON days (scope, day) WHERE present <> zeroblob(36);
"""

_ENTRIES = """
CREATE TABLE entries (
    place BLOB NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, PRIMARY KEY (place, name)) WITHOUT ROWID;
"""


# The steps that were made. By `user_version` a program tells whether it may serve the data: it is the oldest version
# that may, which is all that programs before version 4 look at.
_STEPS = "CREATE TABLE IF NOT EXISTS schema_steps (version INTEGER PRIMARY KEY)"


class Migration(NamedTuple):
    """Leads from the version before it to `version`; each runs in one transaction. `serves_since`: the oldest version
    whose program may serve the data afterwards, where the step only adds what that one passes by."""

    version: int
    script: str
    serves_since: int = 0


MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, _FIRST),
    Migration(MARK_BLOCKS_SINCE, _MARK_BLOCKS),
    Migration(3, _DAYS_PRESENT),
    Migration(4, _ENTRIES, serves_since=3),
)


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection that writes. Transactions are begun and ended by hand."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    connection.text_factory = bytes
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {4 * CHECKPOINT_PAGES * PAGE_BYTES}")
    connection.execute(f"PRAGMA cache_size = {-WRITE_CACHE_KIB}")
    connection.execute("PRAGMA secure_delete = OFF")
    # On macOS an fsync leaves what was written to the disk's own memory; this asks for more there, and for nothing
    # elsewhere.
    connection.execute("PRAGMA fullfsync = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that sees what is committed; each statement by itself unless it begins a transaction."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # No column with text is read: where one comes, it was a blob that is spoilt, and its checksum will tell.
    connection.text_factory = bytes
    connection.execute(f"PRAGMA mmap_size = {READ_MAP_BYTES}")
    connection.execute(f"PRAGMA cache_size = {-READ_CACHE_KIB}")
    connection.execute("PRAGMA query_only = ON")
    return connection


def give_back_pages(connection: sqlite3.Connection) -> None:
    """Those that it keeps in memory, to the allocator. A connection that is broken keeps nothing that matters."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA shrink_memory")


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Brings the file to the newest version and returns it; refuses what a newer program wrote, unless it only added to
    it, and what is not ours."""
    newest = migrations[-1].version
    serves_since = _pragma(connection, "user_version")
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if _pragma(connection, "application_id") != APPLICATION_ID and tables:
        raise StartupError(f"{path} is a database of another program. Name a data directory of timerd's own.")
    if serves_since > newest:
        raise StartupError(
            f"{path} was written by a newer timerd (schema version {serves_since}; this one knows up to {newest}). "
            "Start that version, or restore an older copy of the data directory."
        )
    made = version_made(connection)
    for step in migrations:
        if step.version > made:
            serves_since = step.serves_since or step.version
            connection.executescript(
                f"BEGIN IMMEDIATE;{step.script};{_STEPS};INSERT INTO schema_steps VALUES ({step.version});"
                f"PRAGMA application_id = {APPLICATION_ID};PRAGMA user_version = {serves_since};COMMIT;"
            )
    return newest


def version_made(connection: sqlite3.Connection) -> int:
    """The newest step that was made on the file, by whichever program."""
    version = _pragma(connection, "user_version")
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_steps'").fetchone():
        return version
    return max(version, *(int(step) for (step,) in connection.execute("SELECT version FROM schema_steps")))


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def lacks(connection: sqlite3.Connection, version: int, migrations: Sequence[Migration]) -> str | None:
    """What is missing, or not as it should be, to go on a sentence with; None: nothing. More than there should be
    does no harm."""
    found = dict(_parts(connection))
    for name, definition in _made_by(migrations, version):
        if name not in found:
            return f"lacks the {name}, which schema version {version} has"
        if found[name] != definition:
            return f"has another {name} than schema version {version} has"
    return None


def _made_by(migrations: Sequence[Migration], version: int) -> list[SchemaStep]:
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        for step in migrations:
            if step.version <= version:
                fresh.executescript(step.script)
        return list(_parts(fresh))


def _parts(connection: sqlite3.Connection) -> Iterator[SchemaStep]:
    """Tables first, for without one nothing of it is there."""
    tables = _asked(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    yield from ((f"table {table}", ()) for (table,) in tables)
    for (table,) in tables:
        for name, *definition in _asked(
            connection, 'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', table
        ):
            yield f"column {name} of the table {table}", tuple(definition)
        # Those that nobody made by name come with their table.
        for name, *kinds in _asked(
            connection, """SELECT name, "unique", partial FROM pragma_index_list(?) WHERE origin = 'c'""", table
        ):
            columns = _asked(connection, "SELECT name FROM pragma_index_info(?)", name)
            yield f"index {name}", (table, *kinds, *columns)


def _asked(connection: sqlite3.Connection, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Text as text, whatever the connection makes of it."""
    return [tuple(map(_plain, row)) for row in connection.execute(statement, values)]


def _plain(value: object) -> object:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
