"""A copy of the data while a server writes them, and the way back.

The copy is one transaction's view of the file, taken by SQLite's online backup from another process: the server is not
asked and does not wait. It becomes one file that is checked to the last row group and mark before it gets its name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from timerd.adapters.sqlite.files import DATABASE, DataDirectory, sync
from timerd.adapters.sqlite.groups import open_group
from timerd.adapters.sqlite.mark_blocks import StoredBlock
from timerd.adapters.sqlite.schema import APPLICATION_ID, MARK_BLOCKS_SINCE, MIGRATIONS, PAGE_BYTES, lacks, version_made
from timerd.model.backup_contents import BackupContents
from timerd.model.errors import CorruptRow, StartupError
from timerd.model.registers import Control, Table

# So much in one go; then the disk is the server's for a moment.
STEP_PAGES = (4 << 20) // PAGE_BYTES
PAUSE_S = 0.01
PARTIAL = ".partial"
# What has been copied, and what there is.
OnProgress = Callable[[int, int], None]


def back_up(directory: Path, target: Path, progress: OnProgress) -> BackupContents:
    """Raises StartupError with a sentence. `target` exists only if it is whole and good."""
    source = directory / DATABASE
    if not source.is_file():
        raise StartupError(f"There are no data in {directory}: name the data directory of a server with --data.")
    if target.exists():
        raise StartupError(f"{target} exists already: name a file that does not.")
    with _partial(target) as partial:
        try:
            _copy(source, partial, progress)
        except sqlite3.Error as error:
            raise StartupError(
                f"{source} could not be copied to {target} ({error}), and nothing was left there: is there room?"
            ) from error
        return check(partial, f"What was copied from {source}")


def _copy(source: Path, partial: Path, progress: OnProgress) -> None:
    with closing(_open(source)) as connection, closing(sqlite3.connect(partial, isolation_level=None)) as copy:
        # Everything from here on is one view, whatever the server commits meanwhile.
        connection.execute("BEGIN")
        _version(connection, source)
        connection.backup(
            copy,
            pages=STEP_PAGES,
            progress=lambda _status, left, whole: progress((whole - left) * PAGE_BYTES, whole * PAGE_BYTES),
            sleep=PAUSE_S,
        )
        # One file: what stands in a log beside it would be left behind.
        copy.execute("PRAGMA journal_mode = DELETE")


def restore(backup: Path, directory: Path) -> BackupContents:
    """Into a directory without data. Raises StartupError with a sentence."""
    if backup.exists() and not backup.is_file():
        raise StartupError(f"{backup} is no regular file, and a copy is checked before it is used: name a file.")
    if not backup.exists():
        raise StartupError(f"There is no file {backup}: name one that `timerd backup` has made.")
    if not backup.stat().st_size:
        raise StartupError(f"{backup} is empty: name one that `timerd backup` has made.")
    _refuse_half(backup)
    checked = check(backup)
    database = directory / DATABASE
    if database.exists() and database.stat().st_size:
        raise StartupError(
            f"{directory} holds data already: name a directory that has none, or move its files away first."
        )
    lock = DataDirectory(directory)
    try:
        with _partial(database) as partial:
            shutil.copyfile(backup, partial)
            for beside in ("-wal", "-shm"):
                (directory / f"{DATABASE}{beside}").unlink(missing_ok=True)
    finally:
        lock.close()
    return checked


def check(path: Path, name: str = "") -> BackupContents:
    """Every page, and every row group and block of marks against its checksum. Raises StartupError with a sentence,
    about `name` if there is one."""
    try:
        with closing(_open(path)) as connection:
            version = _version(connection, path)
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if found not in (b"ok", "ok"):
                raise StartupError(f"{name or path} is damaged ({_text(found)}): use another copy.")
            if wrong := lacks(connection, version, MIGRATIONS):
                raise StartupError(f"{name or path} {wrong}: use another copy.")
            rows = sum(_rows(connection))
            _check_marks(connection, version)
            dead_letters = connection.execute("SELECT count(*) FROM dead_letters").fetchone()[0]
            return BackupContents(version, path.stat().st_size, rows, dead_letters, tuple(_controls(connection)))
    except (sqlite3.Error, CorruptRow) as error:
        raise StartupError(f"{name or path} is damaged ({error}): use another copy.") from error


def _rows(connection: sqlite3.Connection) -> Iterator[int]:
    for table in ("groups", "far_groups"):
        columns = "id, keys_crc, keys, payloads_crc, payloads"
        for name, *parts in connection.execute(f"SELECT {columns} FROM {table}"):
            yield len(open_group(f"{table} {name}", parts, 0))


def _check_marks(connection: sqlite3.Connection, version: int) -> None:
    if version >= MARK_BLOCKS_SINCE:
        for row in connection.execute("SELECT id, crc, packed FROM mark_blocks"):
            StoredBlock._make(row).open()


def _controls(connection: sqlite3.Connection) -> Iterator[Control]:
    for name, value in connection.execute("SELECT name, value FROM registers WHERE kind = ?", (str(Table.CONTROL),)):
        try:
            yield Control.from_bytes(value)
        except CorruptRow as error:
            raise CorruptRow(f"the control row {_text(name)} cannot be read") from error


def _refuse_half(backup: Path) -> None:
    """The log of a server's own file is read with it, but a copy of the file alone would be without it."""
    log = backup.with_name(f"{backup.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StartupError(
            f"{backup} is a server's own file, and a part of its data is in {log.name} beside it: make a copy with "
            "`timerd backup`, or start a server on that folder."
        )


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    connection.execute("PRAGMA query_only = ON")
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """Of the schema; raises StartupError where it is not ours, or newer."""
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:
            raise StartupError(f"{path} is no database: name one that `timerd backup` has made.") from error
        raise StartupError(f"{path} is damaged ({error}): use another copy.") from error
    if application != APPLICATION_ID or version < MIGRATIONS[0].version:
        raise StartupError(f"{path} was not written by timerd: name one that `timerd backup` has made.")
    if version > MIGRATIONS[-1].version:
        raise StartupError(f"{path} was written by a newer timerd (schema version {version}): use that version.")
    return min(version_made(connection), MIGRATIONS[-1].version)


@contextmanager
def _partial(target: Path) -> Iterator[Path]:
    """A file beside the target, for its owner only, that takes the target's name when all went well."""
    partial = target.with_name(target.name + PARTIAL)
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield partial
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        sync(handle)
    finally:
        os.close(handle)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
