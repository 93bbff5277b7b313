"""What is stored of a backfill: the instants of a span of the past, which get their tasks after all.

Its register is the record of a chain of its own, as that of a schedule is: what a window creates stands there before
any row of it is written (model/schedules.py).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.overlap import OpenedOccurrence, Overlap
from timerd.model.registers import RegisterKey, Table
from timerd.model.schedules import REMEMBERED, Recorded, Slot, definition_key, prefix_of
from timerd.model.storage import EntryKey

NOTHING = Recorded()


class BackfillState(StrEnum):
    # A first tick came before its backfill; nothing is there.
    VOID = "void"
    RUNNING = "running"
    # All its tasks are created, and due.
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Backfill:
    """The register. `seq`: windows that are recorded; the last `win` slots of `ahead` are those of the last one, and
    `tick` is where the next tick lives (nothing: there is none). `uid`: of this try to create it, which names its rows
    and its copy of the definition."""

    uid: str
    state: BackfillState
    # The schedule's, when this began.
    schedule_uid: str = ""
    revision: int = 0
    # From `begin_ms` on, before `end_ms`.
    begin_ms: int = 0
    end_ms: int = 0
    # Tasks a second, where they may run beside each other.
    rate: int = 1
    overlap: Overlap = Overlap.ALLOW
    made_ms: int = 0
    seq: int = 0
    win: int = 0
    ahead: Recorded = NOTHING
    tick: tuple[int, ...] = ()
    # Recorded up to here.
    cur_ms: int = 0
    # Before it the rate lets no further task fire.
    free_ms: int = 0
    created: int = 0
    # So many instants there are up to `counted_ms`.
    counted: int = 0
    counted_ms: int = 0
    # With BUFFER_ALL, the task that must end before another one comes.
    open: OpenedOccurrence | None = None
    # When it was cancelled.
    ended_ms: int = 0
    requests: tuple[str, ...] = ()
    # Why its tick has failed ten times, or why it was cancelled.
    error: str = ""
    voids: int = 0
    # The generation of time zones by which its last record was computed; 0: by any.
    zones: int = 0
    kept: str = ""

    @property
    def is_counted(self) -> bool:
        return self.counted_ms >= self.end_ms - 1

    @property
    def window(self) -> Sequence[tuple[int, Slot]]:
        """The slots of the last record, with their place in `ahead`."""
        return list(enumerate(self.ahead.slots))[len(self.ahead.slots) - self.win :]

    def to_bytes(self) -> bytes:
        stored = {name: getattr(self, name) for name in _BACKFILL}
        stored = {name: value for name, value in stored.items() if name in _ALWAYS or value != _PLAIN[name]}
        if "ahead" in stored:
            stored["ahead"] = self.ahead.to_json()
        if self.open is not None:
            stored["open"] = list(self.open)
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Backfill:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _BACKFILL)
        check_understood("A backfill", kept)
        values["state"] = BackfillState(values["state"])
        if "ahead" in values:
            values["ahead"] = Recorded.from_json(values["ahead"])
        if "overlap" in values:
            values["overlap"] = Overlap(values["overlap"])
        if "open" in values:
            values["open"] = OpenedOccurrence(*values["open"][: len(OpenedOccurrence._fields)])
        for name in ("tick", "requests"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values, kept=kept)

    def asked(self, request: str) -> Backfill:
        return replace(self, requests=(*self.requests, request)[-REMEMBERED:])


class BackfillName(NamedTuple):
    namespace: str
    schedule_id: str
    backfill_id: str

    @property
    def key(self) -> RegisterKey:
        """No id has that byte, so it is the register of no schedule."""
        return RegisterKey(Table.SCHEDULES, "\0".join(self).encode())

    def definition_key(self, uid: str) -> EntryKey:
        """Of the copy that it works by, whatever becomes of the schedule's own."""
        return definition_key(self.namespace, self.schedule_id, uid, 0, "backfill")

    def listed(self, uid: str, made_ms: int) -> EntryKey:
        return EntryKey(
            backfills_place(self.namespace, self.schedule_id), f"{self.backfill_id}\0{uid}\0{made_ms}".encode()
        )


class BackfillTick(NamedTuple):
    """The payload of a tick: tick `number` of a backfill."""

    namespace: str
    schedule_id: str
    backfill_id: str
    uid: str
    number: int

    @property
    def name(self) -> BackfillName:
        return BackfillName(self.namespace, self.schedule_id, self.backfill_id)

    @property
    def prefix(self) -> bytes:
        return prefix_of("backfill tick", self.uid, self.number)

    def to_bytes(self) -> bytes:
        return dump_json(list(self))

    @classmethod
    def from_bytes(cls, stored: bytes) -> BackfillTick:
        return cls(*json.loads(stored)[: len(cls._fields)])


def backfills_place(namespace: str, schedule_id: str) -> bytes:
    return f"backfills\0{namespace}\0{schedule_id}".encode()


def listed_backfill(name: bytes) -> tuple[str, str, int]:
    """(backfill_id, uid, when it was made)"""
    backfill_id, uid, made_ms = name.decode().split("\0")
    return backfill_id, uid, int(made_ms)


def backfilled_id(schedule_uid: str, backfill_id: str, instant_ms: int) -> bytes:
    """Of an occurrence: what a receiver tells repeats by. That of the schedule's own task of the instant is another."""
    text = f"{schedule_uid}\0{backfill_id}\0{instant_ms}".encode()
    return blake2b(text, digest_size=16, person=b"timerd.backfill").digest()


_BACKFILL = field_names(Backfill)
_ALWAYS = ("uid", "state")
_PLAIN = {name: getattr(Backfill("", BackfillState.VOID), name) for name in _BACKFILL}
