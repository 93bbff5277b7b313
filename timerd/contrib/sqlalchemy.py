"""The outbox as statements of SQLAlchemy Core, for sync and async sessions and connections.

    session.execute(outbox.schedule("bills", b"42", at=due, key="bill-42"))

Each is an INSERT into the outbox of the session's own database, so it is committed or rolled back with the rest. On
PostgreSQL, MySQL, MariaDB and SQLite; the tables are made by `timerd outbox init`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from timerd.outbox.entries import DEFAULT_NAMESPACE, columns_of, to_cancel, to_reschedule, to_schedule
from timerd.outbox.rows import OutboxRow
from timerd.sdk.values import ConflictPolicy, TaskKeywords

__all__ = ["cancel", "reschedule", "schedule"]


class _Entry(sa.Executable, sa.ClauseElement):
    """An INSERT, written as the database in use wants it."""

    inherit_cache = False

    def __init__(self, row: OutboxRow) -> None:
        self.values = columns_of(row)


@compiles(_Entry, "postgresql")
def _in_postgresql(entry: _Entry, compiler: Any, **_: Any) -> str:  # noqa: ANN401 - as SQLAlchemy calls it
    options = {"fire_at_ms": "to_timestamp({} / 1000.0)", "options": "CAST({} AS jsonb)"}
    return _written(entry, compiler, "timerd.outbox", {"fire_at_ms": "fire_at"}, options)


@compiles(_Entry, "mysql")
@compiles(_Entry, "mariadb")
def _in_mysql(entry: _Entry, compiler: Any, **_: Any) -> str:  # noqa: ANN401 - as SQLAlchemy calls it
    return _written(entry, compiler, "timerd_outbox", {"key": "`key`"}, {})


@compiles(_Entry, "sqlite")
def _in_sqlite(entry: _Entry, compiler: Any, **_: Any) -> str:  # noqa: ANN401 - as SQLAlchemy calls it
    return _written(entry, compiler, "timerd_outbox", {}, {})


def _written(
    entry: _Entry,
    compiler: Any,  # noqa: ANN401 - SQLAlchemy's
    table: str,
    names: dict[str, str],
    forms: dict[str, str],
) -> str:
    """`names` and `forms`: how columns are called there, and what is made of their values."""
    types: dict[type, Any] = {int: sa.BigInteger(), bytes: sa.LargeBinary(), str: sa.Text()}
    columns, values = [], []
    for column, value in entry.values.items():
        bound = compiler.process(sa.bindparam(None, value, type_=types[type(value)], unique=True))
        columns.append(names.get(column, column))
        values.append(forms.get(column, "{}").format(bound))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(values)})"


def schedule(
    queue: str,
    payload: bytes | str,
    *,
    at: datetime,
    key: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    on_conflict: ConflictPolicy | str = ConflictPolicy.UNSPECIFIED,
    **fields: Unpack[TaskKeywords],
) -> sa.Executable:
    """The statement that schedules a task when its transaction is committed.

    Args:
        queue: the queue whose workers receive the task.
        payload: the bytes that the handler receives, or a text, which is sent as UTF-8.
        at: the fire time, a datetime with a zone.
        key: a name of the caller's choice, by which the task is cancelled and moved. Default none.
        namespace: the namespace of the task. Default "default".
        on_conflict: what happens where the key is in use: "keep", "replace" or "reject". Default reject.
        fields: the fields of `TaskOptions` as keywords.

    Raises:
        InvalidTask: a value is of a wrong form.
    """
    return _Entry(to_schedule(queue, payload, at, key, namespace, on_conflict, fields))


def cancel(key: str, *, namespace: str = DEFAULT_NAMESPACE) -> sa.Executable:
    """The statement that cancels the task with the key `key` of `namespace` when its transaction is committed."""
    return _Entry(to_cancel(key, namespace))


def reschedule(key: str, *, at: datetime, namespace: str = DEFAULT_NAMESPACE) -> sa.Executable:
    """The statement that moves the task with the key `key` of `namespace` to `at` when its transaction is committed."""
    return _Entry(to_reschedule(key, at, namespace))
