"""Tasks that come with the transaction: each call writes a row into the outbox of the database that it names.

Call them within `transaction.atomic()`, beside the changes that they belong to. What is rolled back asks for nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Unpack

from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections

from timerd.outbox.entries import DEFAULT_NAMESPACE, columns_of, to_cancel, to_reschedule, to_schedule
from timerd.outbox.rows import OutboxRow
from timerd.sdk.values import ConflictPolicy, TaskKeywords

__all__ = ["cancel", "reschedule", "schedule"]
_TABLES = {"postgresql": "timerd.outbox", "mysql": "timerd_outbox", "sqlite": "timerd_outbox"}
# Column of SQLite -> how it is called elsewhere, and what is made of its value there.
_ELSEWHERE = {
    "postgresql": {"fire_at_ms": ("fire_at", "to_timestamp(%s / 1000.0)"), "options": ("options", "%s::jsonb")},
    "mysql": {"key": ("`key`", "%s")},
}


def schedule(
    queue: str,
    payload: bytes | str,
    *,
    at: datetime,
    key: str | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    on_conflict: ConflictPolicy | str = ConflictPolicy.UNSPECIFIED,
    using: str = DEFAULT_DB_ALIAS,
    **fields: Unpack[TaskKeywords],
) -> None:
    """The call schedules a task when its transaction is committed.

    Args:
        queue: the queue whose workers receive the task.
        payload: the bytes that the handler receives, or a text, which is sent as UTF-8.
        at: the fire time, a datetime with a zone.
        key: a name of the caller's choice, by which the task is cancelled and moved. Default none.
        namespace: the namespace of the task. Default "default".
        on_conflict: what happens where the key is in use: "keep", "replace" or "reject". Default reject.
        using: the alias of the database. Default "default".
        fields: the fields of `TaskOptions` as keywords.

    Raises:
        InvalidTask: a value is of a wrong form; nothing was written.
        NotSupportedError: the database is none of PostgreSQL, MySQL, MariaDB and SQLite.
    """
    _write(to_schedule(queue, payload, at, key, namespace, on_conflict, fields), using)


def cancel(key: str, *, namespace: str = DEFAULT_NAMESPACE, using: str = DEFAULT_DB_ALIAS) -> None:
    """The call cancels the task with the key `key` of `namespace` when `using` commits its transaction."""
    _write(to_cancel(key, namespace), using)


def reschedule(key: str, *, at: datetime, namespace: str = DEFAULT_NAMESPACE, using: str = DEFAULT_DB_ALIAS) -> None:
    """The call moves the task with the key `key` of `namespace` to `at` when `using` commits its transaction."""
    _write(to_reschedule(key, at, namespace), using)


def _write(row: OutboxRow, using: str) -> None:
    connection: Any = connections[using]
    table = _TABLES.get(connection.vendor)
    if table is None:
        raise NotSupportedError(
            f"timerd's outbox is for PostgreSQL, MySQL, MariaDB and SQLite; {using!r} is {connection.vendor}."
        )
    columns = columns_of(row)
    forms = _ELSEWHERE.get(connection.vendor, {})
    named = [forms.get(column, (column, "%s")) for column in columns]
    names, values = (", ".join(each) for each in zip(*named, strict=True))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} ({names}) VALUES ({values})", [*columns.values()])
