"""The tasks that other tasks make when they end (`on_end`; rule K5 of docs/understand/protocol.md).

A note in the settle record says that a row's end makes one, and where that stands (core/partition/told_ends.py). Its
name is made of the delivery id of what has ended, and its place is that of the note: a holder that writes it again
writes the same row, which is one task. A row that a move has left behind is not the task, and makes none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from timerd.core.protocol.lookup import settled_move
from timerd.core.protocol.procedures import Find, Procedure
from timerd.model.identity import (
    ATTEMPT_MASK,
    PREFIX_BYTES,
    RowKey,
    TaskId,
    attempt_of,
    delivery_id_of,
    encode_id,
    generation_of,
    mac_of,
)
from timerd.model.instants import shown
from timerd.model.partition import TIME_SCOPE, Partition, bucket_of
from timerd.model.registers import Move
from timerd.model.rows import FLAG_CARRIED, FLAG_MOVED_IN, PREFIX, RowGroup, concat, record
from timerd.model.settle import Carry, Outcome, ended_key
from timerd.model.storage import Found, MarkKind
from timerd.model.task import Extra, Template

# Also in timerd/sdk/values/ended_tasks.py.
CONTENT_TYPE = "application/vnd.timerd.ended+json"
# Those that have had an attempt which counts.
_OF_AN_ATTEMPT = frozenset((Outcome.ACKED, Outcome.DEAD))


class ToldRow(NamedTuple):
    """A row that is over, as the store has it."""

    partition: Partition
    key: RowKey
    rows: RowGroup
    note: Carry


def tasks_of_ends(
    partition: Partition, notes: Sequence[Carry], secret: bytes, unwritten: Sequence[RowGroup] = ()
) -> Procedure[list[tuple[Partition, RowGroup]]]:
    """What is to be inserted for these notes of a record of the partition. `unwritten`: rows that have ended before the
    store had them, one in each group."""
    if not notes:
        return []
    keys = [ended_key(note) for note in notes]
    found: Sequence[Found] = yield Find(partition, [(key.position_ms, key.digest) for key in keys])
    groups: defaultdict[Partition, list[RowGroup]] = defaultdict(list)
    on_their_way = {rows.keys()[0]: rows for rows in unwritten}
    for note, key, place in zip(notes, keys, found, strict=True):
        at = np.flatnonzero(place.rows.columns["version"] == key.version)
        row = place.rows.one(int(at[0])) if len(at) else on_their_way.get(key)
        if row is None or not row.template_of(0).on_end:
            continue
        if not _may_be_left(row, place) or (yield from _lives(key)):
            groups[note.target].append(made_by(ToldRow(partition, key, row, note), secret))
    return [(target, concat(rows)) for target, rows in groups.items()]


def _may_be_left(row: RowGroup, place: Found) -> bool:
    is_moved = any(mark.kind == MarkKind.MOVED for mark in place.marks)
    return is_moved or bool(int(row.columns["flags"][0]) & FLAG_MOVED_IN)


def _lives(key: RowKey) -> Procedure[bool]:
    """Whether the task was last where this row is."""
    stored: bytes | None = yield from settled_move(key.digest)
    return stored is None or generation_of(Move.from_bytes(stored).place.key.version) == generation_of(key.version)


def made_by(ended: ToldRow, secret: bytes) -> RowGroup:
    """The task that this end makes."""
    before, note = ended.rows.template_of(0), ended.note
    template = Template(
        before.namespace,
        before.on_end,
        content_type=CONTENT_TYPE,
        traceparent=before.traceparent,
        limit_key=before.limit_key,
    )
    payload = json.dumps(dict(_said(ended, secret)), separators=(",", ":"), ensure_ascii=False).encode()
    columns = record(note.position_ms, note.position_ms, 0, 0, 0, 0, 1, 0, len(payload), FLAG_CARRIED)
    prefix = np.frombuffer(prefix_of(delivery_id_of(ended.key.digest, ended.key.version)), PREFIX)
    # What a holder has written has an extra (core/partition/repeats.py).
    return RowGroup(columns, prefix, [template], payload, [Extra()])


def prefix_of(delivery_id: bytes) -> bytes:
    """Of the message that its end makes."""
    return blake2b(delivery_id, digest_size=PREFIX_BYTES, person=b"timerd.on_end").digest()


def _said(ended: ToldRow, secret: bytes) -> Iterator[tuple[str, object]]:
    """What its worker is told. Fields are only added to it."""
    template, extra, outcome = ended.rows.template_of(0), ended.rows.extra_of(0), Outcome(ended.note.ended)
    yield "outcome", outcome.name
    yield "task_id", str(_task_id(ended, secret))
    yield "delivery_id", encode_id(delivery_id_of(ended.key.digest, ended.key.version))
    yield "queue", template.queue
    yield "key", extra.key
    yield "ordering_key", extra.ordering_key
    yield "labels", dict(template.labels)
    yield "fire_time", shown(int(ended.rows.columns["fire_at_ms"][0]))
    yield "end_time", shown(ended.note.position_ms)
    version = ended.key.version
    yield "attempt", attempt_of(version) if outcome in _OF_AN_ATTEMPT else version & ATTEMPT_MASK
    yield "last_error", ended.note.last_error or extra.last_error


def _task_id(ended: ToldRow, secret: bytes) -> TaskId:
    template, extra, key = ended.rows.template_of(0), ended.rows.extra_of(0), ended.key
    at_home = extra.home_position_ms < 0
    home_ms = key.position_ms if at_home else extra.home_position_ms
    home = Partition(TIME_SCOPE, bucket_of(home_ms), ended.partition.shard if at_home else extra.home_shard)
    prefix, item = key.digest[:PREFIX_BYTES], int.from_bytes(key.digest[PREFIX_BYTES:], "big")
    mac = mac_of(secret, template.namespace, prefix, home, template.scope, template.priority)
    return TaskId(home_ms, home.shard, template.scope, template.priority, prefix, item, mac)
