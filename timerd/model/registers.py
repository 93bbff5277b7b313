"""Values of the registers: what is only ever changed by compare-and-set (protocol section 1)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from timerd.model.errors import CorruptRow
from timerd.model.identity import RowKey
from timerd.model.partition import Partition
from timerd.model.task import dump_json


class Table(StrEnum):
    """The kinds of register."""

    CONTROL = "partition_control"
    MOVES = "moves"
    KEYS = "keys"
    BUCKETS = "buckets"  # recorded shard count and `finishing` of one bucket
    CLUSTER = "cluster"
    INSTANCES = "instances"


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

    @property
    def finished(self) -> bool:
        return self.finished_at_ms > 0

    def to_bytes(self) -> bytes:
        """Without what is not used, so that rows of before are written as they were."""
        stored = asdict(self)
        for name in ("incarnation", "successor"):
            if not stored[name]:
                del stored[name]
        return dump_json(stored)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Control:
        """Raises CorruptRow."""
        try:
            values: dict[str, Any] = json.loads(stored)
            values["counts"] = tuple((k, n) for k, n in values["counts"])
            return cls(**values)
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptRow(
                f"The control row of a partition cannot be read ({error}): its tasks do not fire until the data are "
                "restored from a backup."
            ) from error

    def with_mark(self, closing_ms: int, verified_ms: int, counts: tuple[tuple[int, int], ...]) -> Control:
        return replace(self, closing_ms=closing_ms, verified_ms=verified_ms, counts=counts)

    def released(
        self, successor: str, closing_ms: int, verified_ms: int, counts: tuple[tuple[int, int], ...]
    ) -> Control:
        """Nobody holds it now; the token stays, for the next one is higher."""
        marked = self.with_mark(closing_ms, verified_ms, counts)
        return replace(marked, holder="", address="", incarnation=0, successor=successor)

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

    @property
    def place(self) -> Place:
        """Where the task lives; not decided while MOVING."""
        return self.target if self.state == MoveState.MOVED else self.source

    def decided(self, state: MoveState) -> Move:
        return replace(self, state=state)

    def to_bytes(self) -> bytes:
        values = asdict(self) | {"source": self.source.to_json(), "target": self.target.to_json()}
        return dump_json(values)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Move:
        values = json.loads(stored)
        values["state"] = MoveState(values["state"])
        values["source"], values["target"] = Place.from_json(values["source"]), Place.from_json(values["target"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A caller-chosen key. PENDING while `active` is False: reserved by a writer whose row may or may not be there.
    `replaces`: the tasks that had the key, and may live as long as it says so."""

    task_id: str
    active: bool = False
    replaces: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        stored = asdict(self)
        if not self.replaces:
            del stored["replaces"]
        return dump_json(stored)

    @classmethod
    def from_bytes(cls, stored: bytes) -> KeyEntry:
        entry = json.loads(stored)
        return cls(entry["task_id"], entry["active"], tuple(entry.get("replaces", ())))
