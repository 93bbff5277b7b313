"""What goes to a store and what comes back: values of the ports, known to the core as well."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple, overload

from timerd.model.codec import dump_json, unknown_member
from timerd.model.identity import RowKey
from timerd.model.partition import FIRST_KEY_SHARD, Partition
from timerd.model.registers import RegisterKey
from timerd.model.row_keys import RowKeys
from timerd.model.rows import RowGroup
from timerd.model.spread import Spread
from timerd.model.task import Template


@dataclass(frozen=True, slots=True)
class Append:
    """One message's rows, grouped by partition. All or nothing, in one commit."""

    groups: tuple[tuple[Partition, RowGroup], ...]
    # The message's prefix; with it a repeat is found. Empty: not remembered (carries, moves: their keys are the same).
    prefix: bytes = b""
    # What to answer to a repeat.
    reply: bytes = b""
    # Rows that are due too far ahead for anybody to hold them; of other partitions than those in `groups`.
    spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """`controls`: the raw control register of each partition, read *after* the rows were readable (None: no control
    row); where it is None, `finishing` names the partition if its bucket's finishing flag was set, also read after. Of
    the partitions of a `spread` only those are named here that have a control row or the flag."""

    controls: Mapping[Partition, bytes | None]
    # Names of what was written, as `RowGroup.source` of a later scan: rows that came as a hint are known by it.
    sources: Mapping[Partition, int] = field(default_factory=dict)
    finishing: frozenset[Partition] = frozenset()
    # The message had been stored before: nothing was written, this is the reply of the first time.
    repeated: bytes | None = None


class MarkKind(IntEnum):
    CANCELLED = 1  # value: hash of the request that cancelled
    MOVED = 2  # value: decimal generation
    FORWARD = 3  # value: decimal position the row was written again at
    PURGED = 4
    ACKED = 5  # ended by an ack that came when no holder had the row
    TIED = 6  # of earlier versions, which did not place a repeated call once; not written any more, and ignored
    ENDED_ELSEWHERE = 7  # likewise

    @classmethod
    def _missing_(cls, value: object) -> MarkKind:
        """One that only a later release knows: its row is left alone."""
        return unknown_member(cls, value)


MARK_KINDS = frozenset(MarkKind)


class Mark(NamedTuple):
    """Set on a row, known or not, and never taken back. The first value of a kind wins."""

    partition: Partition
    key: RowKey
    kind: MarkKind
    value: bytes


class SameMarks(Sequence[Mark]):
    """One mark on many rows, which is made for each of them only where somebody looks at it by itself."""

    __slots__ = ("groups", "kind", "value")

    def __init__(self, groups: Sequence[tuple[Partition, RowKeys]], kind: MarkKind, value: bytes) -> None:
        self.groups = groups
        self.kind = kind
        self.value = value

    def __len__(self) -> int:
        return sum(len(keys) for _, keys in self.groups)

    def __iter__(self) -> Iterator[Mark]:
        return (Mark(partition, key, self.kind, self.value) for partition, keys in self.groups for key in keys)

    @overload
    def __getitem__(self, at: int) -> Mark: ...
    @overload
    def __getitem__(self, at: slice) -> list[Mark]: ...
    def __getitem__(self, at: int | slice) -> Mark | list[Mark]:
        return list(self)[at]


KeysAt = tuple[Partition, Sequence[tuple[int, bytes]]]
"""(position_ms, digest) of rows of one partition."""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a scan. `groups` hold only rows inside the asked range, each sorted by position; `marks` are those on
    rows of the range that became readable since the cursor (also on rows that do not exist). Go on with `cursor`
    while not `done`. A store without cursors (StoreTraits) answers 0 at the end, and less before it: the next scan
    brings the same rows again. With cursors `RowGroup.source` is the name that `Appended.sources` gave to what was
    written together, else 0. `through_ms`, where pages come in the order of positions: none of the next ones has
    anything below it."""

    groups: Sequence[RowGroup]
    marks: Sequence[Mark]
    cursor: int
    done: bool
    through_ms: int = 0


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows of a partition in order, their keys only, and the marks on them. `through`: the (position_ms, digest) behind
    which the next stretch begins; None: there is nothing more."""

    rows: RowGroup
    marks: Sequence[Mark]
    through: tuple[int, bytes] | None


@dataclass(frozen=True, slots=True)
class Found:
    """Rows of one digest in one partition at one position (all versions), and the marks on them."""

    rows: RowGroup
    marks: Sequence[Mark] = ()


class Look(NamedTuple):
    """What is asked of the store in one trip before a task is ended, and once more after its mark is durable."""

    rows: Sequence[KeysAt]
    tasks: Sequence[bytes]
    partitions: Sequence[Partition] = ()


class Looked(NamedTuple):
    """`bare`: for each key of each group whether one row is there, of version 0, without a mark. `moved`: those of the
    tasks that have a register of moves (a serial read). `settled`: those of the partitions that have a settle record.
    Each is read by itself, not all at the same moment."""

    bare: Sequence[Sequence[bool]]
    moved: Set[bytes]
    settled: Set[Partition] = frozenset()


def is_bare(found: Found) -> bool:
    """Whether there is one row, as it was first written, and no mark on it."""
    return len(found.rows) == 1 and not found.marks and int(found.rows.columns["version"][0]) == 0


@dataclass(frozen=True, slots=True)
class BucketEntry:
    """The catalogue: a bucket that exists. `key_shards`: those that it has, in order (model/partition.py)."""

    scope: int
    bucket_ms: int
    shard_count: int
    finishing: bool
    finished: bool
    key_shards: tuple[int, ...] = ()

    def with_shard(self, shard: int) -> BucketEntry:
        if shard >= FIRST_KEY_SHARD:
            return replace(self, key_shards=tuple(sorted({*self.key_shards, shard})))
        return replace(self, shard_count=max(self.shard_count, shard + 1))

    @property
    def last_shard(self) -> int:
        return self.key_shards[-1] if self.key_shards else self.shard_count - 1


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A task that ended without an ack. `task_id` is the 44-byte id."""

    task_id: bytes
    key: RowKey
    partition: Partition
    template: Template
    fire_at_ms: int
    died_at_ms: int
    attempts: int
    last_error: str
    payload: bytes
    row_key: str = ""
    # The fields of its row that only a later release knows (model/codec.py).
    row_kept: str = ""
    # Of a task of a schedule: what its delivery says of it.
    occurrence: str = ""
    # Of its attempts, the last one among them (model/attempts.py).
    history: str = ""
    ordering_key: str = ""
    # Its place among the tasks of that key: (position, order_seq). None: none, or a release wrote it that kept none.
    order_place: tuple[int, int] | None = None

    def facts(self) -> bytes:
        """What is stored of it beside its id, its death and its payload."""
        key = self.key
        stored = {
            "key": [key.position_ms, key.digest.hex(), key.version],
            "partition": self.partition,
            "template": self.template.to_json(),
            "fire_at_ms": self.fire_at_ms,
            "attempts": self.attempts,
            "last_error": self.last_error,
            "row_key": self.row_key,
        }
        more = {"row_kept": self.row_kept, "occurrence": self.occurrence, "history": self.history}
        more["ordering_key"] = self.ordering_key
        given = {name: value for name, value in more.items() if value}
        return dump_json(stored | given | ({"order_place": self.order_place} if self.order_place else {}))

    @classmethod
    def from_facts(cls, task_id: bytes, died_at_ms: int, stored: bytes, payload: bytes) -> DeadLetter:
        facts = json.loads(stored)
        position_ms, digest, version = facts["key"]
        place = facts.get("order_place")
        return cls(
            task_id,
            RowKey(position_ms, bytes.fromhex(digest), version),
            Partition(*facts["partition"]),
            Template.from_json(facts["template"]),
            facts["fire_at_ms"],
            died_at_ms,
            facts["attempts"],
            facts["last_error"],
            payload,
            facts["row_key"],
            facts.get("row_kept", ""),
            facts.get("occurrence", ""),
            facts.get("history", ""),
            facts.get("ordering_key", ""),
            (place[0], place[1]) if place else None,
        )


class EstimatedTotal(NamedTuple):
    """About how many tasks there are, and in how many minutes of how many queues."""

    tasks: int
    minutes: int


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What `timerd doctor` shows of a store."""

    name: str
    durability: str
    used_bytes: int
    free_bytes: int
    schema_version: int
    # What does not match its checksum and is not delivered, as sentences.
    corrupt: tuple[str, ...] = ()
    # What its operator should change, as sentences.
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cas:
    """Set `key` to `value` if it is `expected` now (None: absent)."""

    key: RegisterKey
    expected: bytes | None
    value: bytes
    # The register may be forgotten after it; 0 = never.
    expires_at_ms: int = 0


class EntryKey(NamedTuple):
    """Names a note: one of a place, in whose order of names they are read. Neither is empty."""

    place: bytes
    name: bytes


class Entry(NamedTuple):
    """A note that never changes: a second writer writes the same."""

    key: EntryKey
    value: bytes


class CasStatus(IntEnum):
    APPLIED = 1
    REFUSED = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class CasResult:
    """`current`: what is there now, where REFUSED. UNKNOWN decides nothing until a serial `read` settles it."""

    status: CasStatus
    current: bytes | None = None
