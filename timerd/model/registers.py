"""Values of the registers: what is only ever changed by compare-and-set (protocol section 1)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from timerd.model.codec import check_understood, dump_json, field_names, split_known, with_kept
from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition


class Table(StrEnum):
    """The kinds of register."""

    CONTROL = "partition_control"
    MOVES = "moves"
    KEYS = "keys"
    BUCKETS = "buckets"  # how many shards hot buckets have
    CLUSTER = "cluster"
    INSTANCES = "instances"
    SCHEDULES = "schedules"
    REGULATIONS = "regulations"  # rules of queues


class RegisterKey(NamedTuple):
    """`name` is not empty."""

    table: Table
    name: bytes


def control_key(partition: Partition) -> RegisterKey:
    return RegisterKey(Table.CONTROL, b"%d.%d.%d" % partition)


def move_key(digest: bytes) -> RegisterKey:
    return RegisterKey(Table.MOVES, digest)


def name_key(namespace: str, key: str) -> RegisterKey:
    return RegisterKey(Table.KEYS, f"{namespace}\0{key}".encode())


def request_key(request: bytes) -> RegisterKey:
    """Names the answer of a call by the hash of its request."""
    return RegisterKey(Table.KEYS, request_name(request))


def request_name(request: bytes) -> bytes:
    """The name of `request_key`. No namespace is empty, so no key of a task is named so."""
    return b"\0r" + request


def result_key(delivery_id: bytes) -> RegisterKey:
    """Of a life of a task. No namespace begins with a zero byte."""
    return RegisterKey(Table.KEYS, b"\0o" + delivery_id)


def place_key(prefix: bytes) -> RegisterKey:
    """Of a message. No namespace begins with a zero byte."""
    return RegisterKey(Table.KEYS, b"\0p" + prefix)


@dataclass(frozen=True, slots=True)
class Instants:
    """Of a message whose tries do not know of each other: the instants at which its rows are placed that came too late
    for their own, in order; and what its delays count from (0: the call says so)."""

    later_ms: tuple[int, ...] = ()
    origin_ms: int = 0

    def after(self, position_ms: int) -> int | None:
        """The next place of a row that is too late for this one."""
        return next((each for each in self.later_ms if each > position_ms), None)

    def with_one(self, instant_ms: int) -> Instants:
        return replace(self, later_ms=(*self.later_ms, instant_ms))

    def to_bytes(self) -> bytes:
        return dump_json(asdict(self))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Instants:
        values = json.loads(stored)
        return cls(tuple(values["later_ms"]), values["origin_ms"])


@dataclass(frozen=True, slots=True)
class Control:
    """The control row of a partition. `verified_ms` <= `closing_ms`; both only grow; only the holder of the token
    writes them."""

    token: int
    holder: str
    address: str
    closing_ms: int
    verified_ms: int
    # When the partition was finished; 0 = it is not.
    finished_at_ms: int = 0
    # Distinct rows, counted at the finish.
    inserted: int = 0
    # Outcome -> how many, of all rows below `verified_ms`; the ledger's part of the mark.
    counts: tuple[tuple[int, int], ...] = ()
    # Of the holder; 0 where it is alone.
    incarnation: int = 0
    # Without a holder: who was to be the next one.
    successor: str = ""
    # What its holder has to understand to deliver all of its rows, where a holder did not.
    rows_need: tuple[str, ...] = ()
    # In all of these: the fields that only a later release knows (model/codec.py).
    kept: str = ""

    @property
    def finished(self) -> bool:
        return self.finished_at_ms > 0

    def to_bytes(self) -> bytes:
        """Without what is not used, so that rows of before are written as they were."""
        stored = _plain(self)
        for name in ("incarnation", "successor", "rows_need"):
            if not stored[name]:
                del stored[name]
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Control:
        """Raises CorruptRow, or NotUnderstood."""
        try:
            values, kept = split_known(json.loads(stored), _CONTROL)
            check_understood("The control row of a partition", kept)
            values["counts"] = tuple((k, n) for k, n in values["counts"])
            values["rows_need"] = tuple(values.get("rows_need", ()))
            return cls(**values, kept=kept)
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptRow(
                f"The control row of a partition cannot be read ({error}): its tasks do not fire until the data are "
                "restored from a backup."
            ) from error

    def with_mark(self, closing_ms: int, verified_ms: int, counts: tuple[tuple[int, int], ...]) -> Control:
        return replace(self, closing_ms=closing_ms, verified_ms=verified_ms, counts=counts)

    def released(
        self, successor: str, verified_ms: int, counts: tuple[tuple[int, int], ...], needs: Iterable[str] = ()
    ) -> Control:
        """Nobody holds it now; the token stays, for the next one is higher."""
        rows_need = tuple(sorted({*needs, *self.rows_need}))
        marked = self.with_mark(self.closing_ms, verified_ms, counts)
        return replace(marked, holder="", address="", incarnation=0, successor=successor, rows_need=rows_need)

    @classmethod
    def over(cls, end_ms: int) -> Control:
        """Of a partition that was announced when its bucket was finished: nobody ever reads a row there."""
        return cls(1, "", "", end_ms, end_ms, finished_at_ms=end_ms)

    def with_end(self, end_ms: int, now_ms: int, inserted: int, counts: tuple[tuple[int, int], ...]) -> Control:
        return replace(self, verified_ms=end_ms, finished_at_ms=now_ms, inserted=inserted, counts=counts)


class MoveState(IntEnum):
    MOVING = 1
    MOVED = 2
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Place:
    """One row of one partition."""

    partition: Partition
    key: RowKey

    def to_json(self) -> list[Any]:
        return [list(self.partition), self.key.position_ms, self.key.digest.hex(), self.key.version]

    @classmethod
    def from_json(cls, stored: list[Any]) -> Place:
        partition, position_ms, digest, version = stored
        return cls(Partition(*partition), RowKey(position_ms, bytes.fromhex(digest), version))


class DoneMove(NamedTuple):
    """A move that was carried out, and that a later one may have followed."""

    # Hash of its request.
    request: str
    # Milliseconds since the epoch that it was answered with.
    fire_at_ms: int
    # When the call was made.
    asked_ms: int


@dataclass(frozen=True, slots=True)
class Move:
    """Of a task that moved: where it came from, where it goes, and who decided."""

    generation: int
    state: MoveState
    source: Place
    target: Place
    # Hash of the request that moves: a repeat finds its own move.
    request: str
    # Latest position of home, every source and every target so far: the row expires only after it plus the retention.
    latest_ms: int
    # Milliseconds since the epoch of the new fire_time.
    fire_at_ms: int
    # When the register may be forgotten: `latest_ms` plus the retention; 0 = never. Rewritten whole at each change.
    expires_at_ms: int = 0
    # When the call was made; 0 = an earlier version wrote it.
    asked_ms: int = 0
    # The moves before this one that were carried out, oldest first.
    done: tuple[DoneMove, ...] = ()
    # Whether older ones are remembered under their requests.
    has_older: bool = False
    kept: str = ""

    @property
    def place(self) -> Place:
        """Where the task lives; not decided while MOVING."""
        return self.target if self.state == MoveState.MOVED else self.source

    def carried_out(self) -> tuple[DoneMove, ...]:
        """All that are known to have been carried out, this one too if it was; oldest first."""
        own = DoneMove(self.request, self.fire_at_ms, self.asked_ms)
        return (*self.done, own) if self.state is MoveState.MOVED and self.request else self.done

    def decided(self, state: MoveState) -> Move:
        return replace(self, state=state)

    def to_bytes(self) -> bytes:
        """What earlier versions do not know stands behind the request, which they only compare with others."""
        values = _plain(self) | {"source": self.source.to_json(), "target": self.target.to_json()}
        asked_ms, done, has_older = values.pop("asked_ms"), values.pop("done"), values.pop("has_older")
        if asked_ms or done:
            past = [f"{each.request}:{each.fire_at_ms}:{each.asked_ms}" for each in map(DoneMove._make, done)]
            values["request"] = "\n".join([self.request, f"{asked_ms}{'+' * has_older}", *past])
        return dump_json(with_kept(values, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> Move:
        """Raises NotUnderstood."""
        values, kept = split_known(json.loads(stored), _MOVE)
        check_understood("The register of a task that moved", kept)
        values["state"] = MoveState(values["state"])
        values["source"], values["target"] = Place.from_json(values["source"]), Place.from_json(values["target"])
        values["request"], *more = values["request"].split("\n")
        return replace(cls(**values, kept=kept), **_read_past(more))


def _read_past(more: list[str]) -> dict[str, Any]:
    if not more:
        return {}
    asked, *past = more
    done = (each.rsplit(":", 2) for each in past)
    return {
        "asked_ms": int(asked.rstrip("+")),
        "has_older": asked.endswith("+"),
        "done": tuple(DoneMove(request, int(fire_at_ms), int(asked_ms)) for request, fire_at_ms, asked_ms in done),
    }


class HadKey(NamedTuple):
    """A task that had a key."""

    # Its digest as hex.
    digest: str
    # When the call was made that gave it the key.
    asked_ms: int
    # Whether that call was carried out to its end, and so may have been answered.
    active: bool


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A caller-chosen key. PENDING while `active` is False: reserved by a writer whose row may or may not be there.
    `replaces`: the tasks that had the key, and may live as long as it says so."""

    task_id: str
    active: bool = False
    replaces: tuple[str, ...] = ()
    # When the call was made that gave the key to the task; 0 = an earlier version wrote it.
    asked_ms: int = 0
    # The tasks that had the key before, oldest first.
    done: tuple[HadKey, ...] = ()
    # Whether older ones are remembered under their digests.
    has_older: bool = False
    kept: str = ""

    def to_bytes(self) -> bytes:
        stored = _plain(self)
        for name in ("replaces", "asked_ms", "done", "has_older"):
            if not stored[name]:
                del stored[name]
        return dump_json(with_kept(stored, self.kept))

    @classmethod
    def from_bytes(cls, stored: bytes) -> KeyEntry:
        """Raises NotUnderstood."""
        entry, kept = split_known(json.loads(stored), _KEY)
        check_understood("A key", kept)
        done = tuple(HadKey(*each) for each in entry.get("done", ()))
        replaces, has_older = tuple(entry.get("replaces", ())), entry.get("has_older", False)
        return cls(entry["task_id"], entry["active"], replaces, entry.get("asked_ms", 0), done, has_older, kept)


def _plain(form: Control | Move | KeyEntry) -> dict[str, Any]:
    """Without copies of what is inside, which JSON has no need of and each write would wait for."""
    return {name: getattr(form, name) for name in _FIELDS[type(form)]}


_CONTROL, _MOVE, _KEY = field_names(Control), field_names(Move), field_names(KeyEntry)
_FIELDS = {form: tuple(f.name for f in fields(form) if f.name != "kept") for form in (Control, Move, KeyEntry)}
