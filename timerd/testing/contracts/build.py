"""Rows, messages and reads in few words, for the contracts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from timerd.model.identity import RowKey, digest_of
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition
from timerd.model.rows import PREFIX, ROW, RowGroup, concat, single_row
from timerd.model.single_messages import SingleMessages
from timerd.model.spread import Spread
from timerd.model.task import NO_EXTRA, Template
from timerd.ports import Append, Mark, Page, Rows, Stretch

START_MS = 1_800_000_000_000
END_MS = START_MS + BUCKET_MS
HERE = Partition(TIME_SCOPE, START_MS, 0)
NEXT = Partition(TIME_SCOPE, END_MS, 0)
BACKLOG = Partition(77, START_MS, 0)
MAILS = Template("default", "mails")
PLENTY_BYTES = 1 << 30


def digest(name: str, index: int = 0) -> bytes:
    return digest_of(name.encode().ljust(12, b"."), index)


def key(name: str, after_ms: int = 0, version: int = 0) -> RowKey:
    """A row of HERE, `after_ms` past the start of its bucket."""
    return RowKey(START_MS + after_ms, digest(name), version)


def row(key: RowKey, payload: bytes = b"body", template: Template = MAILS) -> RowGroup:
    return single_row(key, key.position_ms, template, payload, NO_EXTRA, 0)


def message(name: str, *keys: RowKey, partition: Partition = HERE, reply: bytes = b"stored") -> Append:
    """Rows that came by a call: it is remembered by its prefix."""
    return Append(((partition, concat([row(k) for k in keys])),), name.encode().ljust(12, b"."), reply)


def carried(*keys: RowKey, partition: Partition = HERE, payload: bytes = b"body") -> Append:
    """Rows that the server writes by itself: known by their keys alone."""
    return Append(((partition, concat([row(k, payload) for k in keys])),))


def tasks(name: str, positions_ms: Sequence[int], payload: bytes = b"body") -> RowGroup:
    """The rows of one message."""
    positions = np.array(positions_ms, np.int64)
    columns = np.zeros(len(positions), ROW)
    columns["position_ms"] = columns["fire_at_ms"] = positions
    columns["index"] = np.arange(len(positions))
    columns["length"] = len(payload)
    columns["offset"] = columns["index"] * len(payload)
    prefix = np.frombuffer(name.encode().ljust(12, b"."), PREFIX)
    return RowGroup(columns, prefix, [MAILS], payload * len(positions), [])


def batch(name: str, positions_ms: Sequence[int], payload: bytes = b"body") -> Append:
    """One message with many tasks, one group for each bucket, all sharing tables and arena."""
    group = tasks(name, positions_ms, payload)
    positions = group.columns["position_ms"]
    buckets = positions - positions % BUCKET_MS
    parts = [
        (Partition(TIME_SCOPE, bucket_ms, 0), group.select(np.flatnonzero(buckets == bucket_ms)))
        for bucket_ms in np.unique(buckets).tolist()
    ]
    return Append(tuple(parts), group.prefixes.tobytes(), b"stored")


def singles_of(names: Sequence[str], places: Sequence[Partition], payload: bytes = b"body") -> SingleMessages:
    """Messages of one row each, as columns: the n-th is due n ms after the start of its place."""
    rows = [
        single_row(RowKey(place.bucket_ms + n, digest(name), 0), place.bucket_ms + n, MAILS, payload, NO_EXTRA, 0)
        for n, (name, place) in enumerate(zip(names, places, strict=True))
    ]
    return SingleMessages(concat(rows), places)


def spread(name: str, positions_ms: Sequence[int], near: Append | None = None, payload: bytes = b"body") -> Append:
    """The same in one piece; `near`: what else the message holds."""
    group = tasks(name, positions_ms, payload)
    rows = group.select(np.argsort(group.columns["position_ms"], kind="stable"))
    groups = near.groups if near else ()
    return Append(groups, group.prefixes.tobytes(), b"stored", Spread(TIME_SCOPE, 0, rows))


@dataclass
class Read:
    """What a whole scan brought."""

    groups: list[RowGroup] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    cursor: int = 0

    @property
    def keys(self) -> list[RowKey]:
        return sorted(chain.from_iterable(group.keys() for group in self.groups))

    @property
    def payloads(self) -> dict[RowKey, bytes]:
        return {k: group.payload(n) for group in self.groups for n, k in enumerate(group.keys())}


async def scan(
    store: Rows,
    partition: Partition = HERE,
    *,
    lo_ms: int = 0,
    hi_ms: int = 1 << 60,
    cursor: int = 0,
    limit_bytes: int = PLENTY_BYTES,
    keys_only: bool = False,
) -> Read:
    """All pages."""
    read = Read(cursor=cursor)
    page: Page | None = None
    while page is None or not page.done:
        page = await store.scan(partition, lo_ms, hi_ms, read.cursor, limit_bytes, keys_only=keys_only)
        read.groups += page.groups
        read.marks += page.marks
        read.cursor = page.cursor
    return read


async def stretches(
    store: Rows, *, after: tuple[int, bytes] = (START_MS, b""), hi_ms: int = END_MS, most_rows: int = 1_000
) -> list[Stretch]:
    """All of HERE, one after the other."""
    read = [await store.stretch(HERE, after, hi_ms, most_rows)]
    while (through := read[-1].through) is not None:
        read.append(await store.stretch(HERE, through, hi_ms, most_rows))
    return read


async def found_versions(store: Rows, wanted: Iterable[RowKey], partition: Partition = HERE) -> list[list[int]]:
    found = await store.find(partition, [(k.position_ms, k.digest) for k in wanted])
    return [sorted(f.rows.columns["version"].tolist()) for f in found]
