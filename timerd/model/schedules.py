"""What is stored of a recurring schedule: its state in one register, its definition in a row that never changes.

The register is the record: what a window creates stands there before any row of it is written, so that a holder that
repeats a step takes it from there and computes nothing anew (tests/models/schedules.pml, rule W2).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, load_json, split_known, with_kept
from timerd.model.cycles import CYCLE, CycleShape
from timerd.model.identity import PREFIX_BYTES
from timerd.model.overlap import NOTHING_OPEN, Overlap, OverlapState
from timerd.model.recurrence import Spec
from timerd.model.registers import RegisterKey, Table
from timerd.model.storage import EntryKey
from timerd.model.task import Template

# Over which the names of a namespace are spread.
NAME_SLOTS = 64
# So many calls are known by the register of a schedule, for those that were not answered; answers are remembered
# (services/calls/repeats.py).
REMEMBERED = 8


class ScheduleState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    # There is no further instant.
    DONE = "done"
    DELETED = "deleted"


class CatchUp(StrEnum):
    """What becomes of instants that are over when they are looked at."""

    LATEST = "latest"
    ALL = "all"
    NONE = "none"


class Slot(NamedTuple):
    """One instant of a record: when its task fires, where its row lives, and how many were missed before it."""

    instant_ms: int
    fire_at_ms: int
    place_ms: int
    shard: int
    missed: int = 0

    @property
    def is_catch_up(self) -> bool:
        return self.place_ms > self.fire_at_ms


@dataclass(frozen=True, slots=True)
class Recorded:
    """Instants that a revision has recorded. `before_ms`: the one before the first of them; `next_ms`: the one after
    the last; 0 = none. `attempt` names the definition."""

    revision: int = 0
    attempt: str = ""
    before_ms: int = 0
    next_ms: int = 0
    slots: tuple[Slot, ...] = ()

    def to_json(self) -> list[Any]:
        """Numbers as differences: most have two or three digits then."""
        numbers, last_ms = [], 0
        for slot in self.slots:
            late_ms = slot.place_ms - slot.fire_at_ms
            numbers.append(
                (slot.instant_ms - last_ms, slot.fire_at_ms - slot.instant_ms, late_ms, slot.shard, slot.missed)
            )
            last_ms = slot.instant_ms
        return [self.revision, self.attempt, self.before_ms, self.next_ms, list(chain.from_iterable(numbers))]

    @classmethod
    def from_json(cls, stored: Sequence[Any]) -> Recorded:
        revision, attempt, before_ms, next_ms, numbers = stored
        slots: list[Slot] = []
        last_ms = 0
        for at in range(0, len(numbers), 5):
            gap_ms, jitter_ms, late_ms, shard, missed = numbers[at : at + 5]
            last_ms += gap_ms
            slots.append(Slot(last_ms, last_ms + jitter_ms, last_ms + jitter_ms + late_ms, shard, missed))
        return cls(revision, attempt, before_ms, next_ms, tuple(slots))

    def before(self, number: int) -> int:
        """The instant before a slot; 0: it is the first one ever."""
        return self.slots[number - 1].instant_ms if number else self.before_ms


@dataclass(frozen=True, slots=True)
class Schedule:
    """The register. `seq`: windows that this revision has recorded; the last `win` slots of `ahead` are those of the
    last one, and `tick` is where the next tick lives (nothing: there is none)."""

    uid: str
    revision: int
    state: ScheduleState
    # Names the definition in force, and the first tick of this revision.
    attempt: str = ""
    seq: int = 0
    win: int = 0
    ahead: Recorded = Recorded()
    tick: tuple[int, ...] = ()
    # Recorded, or missed, up to here.
    cur_ms: int = 0
    # When this revision came into force.
    since_ms: int = 0
    # What the revision before had ahead, until it is wound up; of these the instants that had started.
    left: Recorded = Recorded()
    taken: tuple[int, ...] = ()
    created: int = 0
    missed: int = 0
    # How many more tasks there may be; -1: any number.
    remaining: int = -1
    # Hashes of the last calls that changed it.
    requests: tuple[str, ...] = ()
    # Why its tick has failed ten times.
    error: str = ""
    # How often a first tick came before its revision (rule F2).
    voids: int = 0
    # Of occurrences that must not run beside each other.
    overlap: OverlapState = NOTHING_OPEN
    # The generation of the data of time zones that this revision was armed by (model/zones.py); 0 = its zone is UTC.
    zones: int = 0
    # The zone of an update that is announced (rule Z4).
    coming_zone: str = ""
    # The release of tzdata by which its instants were computed last.
    tzdata: str = ""
    # Of a cycle: the last slot that an earlier revision had recorded ahead. Members that were put then have tasks up to
    # there, though the slots are recorded anew.
    reached_ms: int = 0
    kept: str = ""

    @property
    def window(self) -> Sequence[tuple[int, Slot]]:
        """The slots of the last record, with their place in `ahead`."""
        return list(enumerate(self.ahead.slots))[len(self.ahead.slots) - self.win :]

    def to_bytes(self) -> bytes:
        stored = {name: getattr(self, name) for name in _SCHEDULE}
        stored = {name: value for name, value in stored.items() if name in _ALWAYS or value != _PLAIN[name]}
        for name in ("ahead", "left", "overlap"):
            if name in stored:
                stored[name] = stored[name].to_json()
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Schedule:
        """Raises NotUnderstood."""
        values, kept = split_known(load_json(stored), _SCHEDULE)
        check_understood("A schedule", kept)
        values["state"] = ScheduleState(values["state"])
        for name in ("ahead", "left"):
            if name in values:
                values[name] = Recorded.from_json(values[name])
        if "overlap" in values:
            values["overlap"] = OverlapState.from_json(values["overlap"])
        for name in ("tick", "taken", "requests"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values, kept=kept)

    def asked(self, request: str) -> Schedule:
        return replace(self, requests=(*self.requests, request)[-REMEMBERED:])

    def by_tzdata(self, release: str) -> Schedule:
        """A record names the release of tzdata by which it was computed."""
        return self if self.tzdata == release else replace(self, tzdata=release)


@dataclass(frozen=True, slots=True)
class Policies:
    """`window_ms`: of ALL, what is over for longer is missed, 0 = no limit; `most`: no more than so many at a time."""

    catch_up: CatchUp = CatchUp.LATEST
    window_ms: int = 0
    most: int = 1_000
    # 0 = any number.
    max_count: int = 0
    overlap: Overlap = Overlap.ALLOW
    # It is paused when the task before has become a dead letter.
    pause_on_dead: bool = False
    kept: str = ""

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _POLICIES}
        return with_kept({name: value for name, value in values.items() if value != _POLICIES[name]}, self.kept)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Policies:
        values, kept = split_known(stored, _POLICIES.keys())
        check_understood("The policies of a schedule", kept)
        if "catch_up" in values:
            values["catch_up"] = CatchUp(values["catch_up"])
        if "overlap" in values:
            values["overlap"] = Overlap(values["overlap"])
        return cls(**values, kept=kept)


@dataclass(frozen=True, slots=True)
class Definition:
    """What a revision is: immutable, and named by the schedule's uid, the revision and the try that wrote it."""

    spec: Spec
    policies: Policies
    template: Template
    payload: bytes = b""
    labels: tuple[tuple[str, str], ...] = ()
    # Of a pause, and when it ends by itself (0 = it does not).
    note: str = ""
    until_ms: int = 0
    # Of a cycle, whose instants are its slots.
    cycle: CycleShape | None = None
    kept: str = ""

    def to_bytes(self) -> bytes:
        stored: dict[str, Any] = {
            "spec": self.spec.to_json(),
            "policies": self.policies.to_json(),
            "template": self.template.to_json(),
            "payload": base64.b64encode(self.payload).decode(),
        }
        cycle = self.cycle.to_json() if self.cycle is not None else None
        more = {"labels": self.labels, "note": self.note, "until_ms": self.until_ms, "cycle": cycle}
        return dump_json(with_kept(stored | {name: value for name, value in more.items() if value}, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Definition:
        """Raises NotUnderstood."""
        values, kept = split_known(load_json(stored), _DEFINITION)
        check_understood("The definition of a schedule", kept)
        return cls(
            Spec.from_json(values["spec"]),
            Policies.from_json(values["policies"]),
            Template.from_json(values["template"]),
            base64.b64decode(values["payload"]),
            tuple((name, value) for name, value in values.get("labels", ())),
            values.get("note", ""),
            values.get("until_ms", 0),
            CycleShape.from_json(values["cycle"]) if "cycle" in values else None,
            kept,
        )


@dataclass(frozen=True, slots=True)
class Tick:
    """The payload of a tick: tick `number` of a revision, 0 for the first one of the try `attempt`."""

    namespace: str
    schedule_id: str
    uid: str
    revision: int
    number: int
    attempt: str

    def to_bytes(self) -> bytes:
        return dump_json([getattr(self, name) for name in _TICK])

    @classmethod
    def from_bytes(cls, stored: bytes) -> Tick:
        return cls(*load_json(stored)[:6])

    @property
    def prefix(self) -> bytes:
        return prefix_of("tick", self.uid, self.revision, self.number, self.attempt)


def prefix_of(*parts: str | int) -> bytes:
    """Of the rows that a schedule makes: a repeat makes the same ones."""
    text = "\0".join(map(str, parts)).encode()
    return blake2b(text, digest_size=PREFIX_BYTES, person=b"timerd.schedule").digest()


def occurrence_id(uid: str, instant_ms: int) -> bytes:
    """The same in every revision: what a receiver tells repeats by."""
    return blake2b(f"{uid}\0{instant_ms}".encode(), digest_size=16, person=b"timerd.occurs").digest()


def share_of(uid: str) -> float:
    """A number in [0, 1) that belongs to the schedule: what would meet at one instant is spread by it."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=6, person=b"timerd.lead").digest(), "big") / (1 << 48)


def schedule_key(namespace: str, schedule_id: str) -> RegisterKey:
    return RegisterKey(Table.SCHEDULES, f"{namespace}\0{schedule_id}".encode())


def definition_key(namespace: str, schedule_id: str, uid: str, revision: int, attempt: str) -> EntryKey:
    return EntryKey(f"definitions\0{namespace}\0{schedule_id}".encode(), f"{uid}.{revision}.{attempt}".encode())


def is_definition(key: EntryKey) -> bool:
    return key.place.startswith(b"definitions\0")


def names_place(namespace: str, slot: int, kind: str = "schedules") -> bytes:
    return f"{kind}\0{namespace}\0{slot}".encode()


def name_entry(namespace: str, schedule_id: str, uid: str) -> EntryKey:
    slot = blake2b(schedule_id.encode(), digest_size=1, person=b"timerd.slot").digest()[0] % NAME_SLOTS
    kind = "cycles" if schedule_id.startswith(CYCLE) else "schedules"
    return EntryKey(names_place(namespace, slot, kind), f"{schedule_id}\0{uid}".encode())


def named(entry: bytes) -> tuple[str, str]:
    """(schedule_id, uid)"""
    schedule_id, _, uid = entry.decode().partition("\0")
    return schedule_id, uid


_SCHEDULE = field_names(Schedule)
_ALWAYS = ("uid", "revision", "state")
_PLAIN = {name: getattr(Schedule("", 0, ScheduleState.ACTIVE), name) for name in _SCHEDULE}
_POLICIES = {name: getattr(Policies(), name) for name in field_names(Policies)}
_DEFINITION = field_names(Definition)
_TICK = field_names(Tick)
