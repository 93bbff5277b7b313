"""Rows as an application asks for them in Python: checked as a client checks its calls, before anything is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from timerd.outbox.rows import OutboxRow, RowVerb
from timerd.outbox.template_options import options_of
from timerd.sdk.values import (
    ConflictPolicy,
    TaskKeywords,
    instant_ms,
    name,
    optional_name,
    payload_bytes,
    template_of,
    text,
)

DEFAULT_NAMESPACE = "default"


def to_schedule(
    queue: str,
    payload: bytes | str,
    at: datetime,
    key: str | None,
    namespace: str,
    on_conflict: ConflictPolicy | str,
    fields: TaskKeywords,
) -> OutboxRow:
    template = template_of("schedule", queue, None, fields, on_conflict)
    return OutboxRow(
        0,
        RowVerb.SCHEDULE,
        text(namespace, "namespace"),
        template.queue,
        instant_ms(at),
        optional_name(key, "key") or "",
        payload_bytes(payload),
        options_of(template.to_proto()),
    )


def to_cancel(key: str, namespace: str) -> OutboxRow:
    return OutboxRow(0, RowVerb.CANCEL, text(namespace, "namespace"), "", 0, name(key, "key"), b"", "")


def to_reschedule(key: str, at: datetime, namespace: str) -> OutboxRow:
    return OutboxRow(0, RowVerb.RESCHEDULE, text(namespace, "namespace"), "", instant_ms(at), name(key, "key"), b"", "")


def columns_of(row: OutboxRow) -> dict[str, Any]:
    """Without those that a verb has no use for. `fire_at_ms` as it is in SQLite."""
    values: dict[str, Any] = {"verb": int(row.verb), "namespace": row.namespace}
    if row.verb == RowVerb.SCHEDULE:
        values |= {"queue": row.queue, "payload": row.payload}
    if row.verb != RowVerb.CANCEL:
        values["fire_at_ms"] = row.fire_at_ms
    return values | {column: text for column, text in (("key", row.key), ("options", row.options)) if text}
