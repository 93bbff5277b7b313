"""A due task as an entry of a stream: its payload, and beside it what a worker would be told."""

from __future__ import annotations

from timerd.core.taken import Taken
from timerd.model.streams import StreamEntry
from timerd.services.sinks.facts import facts_of


def entry_of(taken: Taken, row: int, secret: bytes) -> StreamEntry:
    """Facts that the task does not have are left out. `secret`: that of the ids."""
    facts = facts_of(taken, row, secret)
    fields: dict[str, str | bytes] = {"payload": taken.rows.payload(row)}
    fields.update((name, value) for name, value in facts._asdict().items() if value)
    return StreamEntry(facts.delivery_id, fields)
