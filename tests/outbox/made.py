"""Rows as an application writes them."""

from __future__ import annotations

from timerd.outbox.rows import OutboxRow, RowVerb

FIRE_MS = 1_900_000_000_000


def schedule(
    payload: bytes,
    key: str = "",
    *,
    options: str = "",
    queue: str = "mails",
    fire_at_ms: int = FIRE_MS,
    namespace: str = "default",
) -> OutboxRow:
    return OutboxRow(0, RowVerb.SCHEDULE, namespace, queue, fire_at_ms, key, payload, options)


def cancel(key: str, *, namespace: str = "default") -> OutboxRow:
    return OutboxRow(0, RowVerb.CANCEL, namespace, "", 0, key, b"", "")


def move(key: str, fire_at_ms: int, *, namespace: str = "default") -> OutboxRow:
    return OutboxRow(0, RowVerb.RESCHEDULE, namespace, "", fire_at_ms, key, b"", "")


def numbered(rows: list[OutboxRow]) -> list[OutboxRow]:
    """With ids, as the database gives them."""
    return [row._replace(id=number) for number, row in enumerate(rows, 1)]
