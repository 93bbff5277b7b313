"""Row groups: tasks as columns plus one payload arena. The same layout on disk, in memory and between the machines.

A Python object per task is a dead end at millions of tasks (1.6-1.9 GB and 0.7 s GC pauses for 3.5 M; columns: 0.9 GB,
8 ms), so a task is a row of a structured array, and what many tasks share (message prefix, template) is stored once.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from timerd.model.identity import PREFIX_BYTES, RowKey
from timerd.model.task import NO_EXTRA, Extra, Template, dump_json

# Flags of a row.
FLAG_MOVED_IN = 1  # the target of a move: fires only where `moves` says that the task lives here
FLAG_CARRIED = 2  # written by a carry: retry, guard, hand-over
FLAG_LATE = 4  # its fire_at had passed when it was scheduled

ROW = np.dtype(
    [
        ("position_ms", "<i8"),
        ("fire_at_ms", "<i8"),
        ("prefix", "<u4"),  # index into `prefixes`
        ("index", "<u4"),  # of the task in its message
        ("version", "<u4"),
        ("template", "<u4"),  # index into `templates`
        ("extra", "<u4"),  # index into `extras` + 1; 0 = none
        ("offset", "<u4"),  # of the payload in the arena
        ("length", "<u4"),
        ("flags", "u1"),
    ]
)
PREFIX = np.dtype(f"V{PREFIX_BYTES}")
_HEAD = struct.Struct("<III")
Columns = npt.NDArray[Any]


@dataclass(slots=True)
class RowGroup:
    """`columns` (n,) of ROW, sorted or not; `payloads` the arena that offset and length point into."""

    columns: Columns
    prefixes: Columns
    templates: list[Template]
    payloads: bytes | memoryview
    extras: list[Extra]
    # The store's name for the rows written together; 0 = none.
    source: int = 0

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory, the arena included."""
        return self.columns.nbytes + len(self.payloads) + self.prefixes.nbytes + 200 * len(self.extras)

    def select(self, rows: npt.NDArray[np.intp] | slice) -> RowGroup:
        """Some rows, sharing arena and tables."""
        return RowGroup(self.columns[rows], self.prefixes, self.templates, self.payloads, self.extras, self.source)

    def digests(self) -> list[bytes]:
        """16 bytes for each row: prefix and index."""
        out = np.empty(len(self.columns), dtype=[("prefix", PREFIX), ("index", ">u4")])
        out["prefix"] = self.prefixes[self.columns["prefix"]]
        out["index"] = self.columns["index"]
        raw = out.tobytes()
        return [raw[at : at + 16] for at in range(0, len(raw), 16)]

    def keys(self) -> list[RowKey]:
        columns = self.columns
        return list(map(RowKey, columns["position_ms"].tolist(), self.digests(), columns["version"].tolist()))

    def payload(self, row: int) -> bytes:
        start = int(self.columns["offset"][row])
        return bytes(self.payloads[start : start + int(self.columns["length"][row])])

    def template_of(self, row: int) -> Template:
        return self.templates[int(self.columns["template"][row])]

    def extra_of(self, row: int) -> Extra:
        at = int(self.columns["extra"][row])
        return self.extras[at - 1] if at else NO_EXTRA

    def compact(self) -> RowGroup:
        """A copy that holds only what its rows use: their payloads in row order, their prefixes, templates, extras."""
        columns = self.columns.copy()
        payloads = gather(self.payloads, columns["offset"], columns["length"])
        columns["offset"] = _starts(columns["length"])
        used, columns["prefix"] = np.unique(columns["prefix"], return_inverse=True)
        kinds, columns["template"] = np.unique(columns["template"], return_inverse=True)
        extras = [self.extras[at - 1] for at in columns["extra"].tolist() if at]
        columns["extra"] = np.where(columns["extra"] > 0, np.cumsum(columns["extra"] > 0), 0)
        templates = [self.templates[k] for k in kinds.tolist()]
        return RowGroup(columns, self.prefixes[used], templates, payloads, extras)

    def pack_keys(self) -> bytes:
        """Everything but the payloads."""
        notes = dump_json([[t.to_json() for t in self.templates], [e.to_json() for e in self.extras]])
        head = _HEAD.pack(len(self.columns), len(self.prefixes), len(notes))
        return b"".join((head, notes, self.prefixes.tobytes(), self.columns.tobytes()))

    @classmethod
    def unpack(cls, keys: bytes, payloads: bytes | memoryview) -> RowGroup:
        """The inverse of `pack_keys`; `payloads` may be empty where only keys were read."""
        count, prefix_count, notes_bytes = _HEAD.unpack_from(keys)
        at = _HEAD.size
        templates, extras = json.loads(keys[at : at + notes_bytes])
        at += notes_bytes
        prefixes = np.frombuffer(keys, PREFIX, prefix_count, at)
        columns = np.frombuffer(keys, ROW, count, at + prefixes.nbytes)
        made = [Template.from_json(t) for t in templates]
        return cls(columns, prefixes, made, payloads, [Extra.from_json(e) for e in extras])


def _starts(lengths: Columns) -> Columns:
    ends = np.cumsum(lengths, dtype=np.int64)
    return ends - lengths


def gather(arena: bytes | memoryview, offsets: Columns, lengths: Columns) -> bytes:
    """The named pieces of an arena, joined in order; one slice where they already lie so."""
    starts = offsets.astype(np.int64)
    total = int(lengths.sum(dtype=np.int64))
    if len(starts) and np.array_equal(starts - starts[0], _starts(lengths)):
        return bytes(arena[int(starts[0]) : int(starts[0]) + total])
    view = memoryview(arena)
    return b"".join([view[s : s + n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)])


def empty_group() -> RowGroup:
    return RowGroup(np.empty(0, ROW), np.empty(0, PREFIX), [], b"", [])


def concat(groups: Sequence[RowGroup]) -> RowGroup:
    """One group with its own tables and arena. Equal templates and prefixes are not merged: a group is small or homogeneous."""
    if len(groups) == 1:
        return groups[0]
    if not groups:
        return empty_group()
    columns = np.concatenate([g.columns for g in groups])
    at = prefixes = arena = extras = 0
    templates: dict[Template, int] = {}
    for g in groups:
        part = columns[at : at + len(g)]
        part["prefix"] += prefixes
        part["offset"] += arena
        if g.extras:
            part["extra"] += np.where(part["extra"] > 0, np.uint32(extras), np.uint32(0))
        renamed = np.array([templates.setdefault(t, len(templates)) for t in g.templates], dtype=np.uint32)
        part["template"] = renamed[part["template"]]
        at, prefixes, arena, extras = (
            at + len(g),
            prefixes + len(g.prefixes),
            arena + len(g.payloads),
            extras + len(g.extras),
        )
    return RowGroup(
        columns,
        np.concatenate([g.prefixes for g in groups]),
        list(templates),
        b"".join([g.payloads for g in groups]),
        [e for g in groups for e in g.extras],
    )


def single_row(key: RowKey, fire_at_ms: int, template: Template, payload: bytes, extra: Extra, flags: int) -> RowGroup:
    """A group of one."""
    columns = np.zeros(1, ROW)
    index = int.from_bytes(key.digest[PREFIX_BYTES:], "big")
    columns[0] = (
        key.position_ms,
        fire_at_ms,
        0,
        index,
        key.version,
        0,
        1 if extra != NO_EXTRA else 0,
        0,
        len(payload),
        flags,
    )
    prefixes = np.frombuffer(key.digest[:PREFIX_BYTES], PREFIX)
    return RowGroup(columns, prefixes, [template], payload, [extra] if extra != NO_EXTRA else [])
