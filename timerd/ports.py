"""READ FIRST. What timerd needs from the world, as guarantees; adapters say how.

Two kinds of storage, never mixed (protocol section 1): **Rows** are plain, additive writes; **Registers** change only
by compare-and-set. "No plain write on a compare-and-set table" thus holds by type, and the unknown outcome is handled
once. Next: core/partition/partition_machine.py -> services/holding/scheduler.py -> bootstrap.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import tzinfo
from typing import Any, Protocol

from timerd.model.partition import Partition
from timerd.model.registers import RegisterKey
from timerd.model.settle import SettleRecord
from timerd.model.storage import (
    Append,
    Appended,
    BucketEntry,
    Cas,
    CasResult,
    CasStatus,
    DeadLetter,
    Entry,
    EntryKey,
    EstimatedTotal,
    Found,
    KeysAt,
    Look,
    Looked,
    Mark,
    MarkKind,
    Page,
    SameMarks,
    StoreFacts,
    Stretch,
    is_bare,
)
from timerd.model.store_traits import StoreTraits
from timerd.model.streams import StreamEntry
from timerd.model.webhooks import ERROR_BYTES, HttpAnswer

__all__ = [
    "Append",
    "Appended",
    "BucketEntry",
    "Cas",
    "CasResult",
    "CasStatus",
    "Clock",
    "DeadLetter",
    "Entry",
    "EntryKey",
    "EstimatedTotal",
    "Found",
    "Heard",
    "Hints",
    "HttpAnswer",
    "KeysAt",
    "Look",
    "Looked",
    "Mark",
    "MarkKind",
    "Page",
    "Poster",
    "Registers",
    "Rows",
    "SameMarks",
    "Store",
    "StoreFacts",
    "StoreTraits",
    "Stretch",
    "ZoneData",
    "is_bare",
]


class Rows(Protocol):
    """Plain writes. Every method raises StoreUnavailable (nothing written) or StoreUnknown (unknown)."""

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        """Stores each message's rows durably; what came back was read after they were readable. Announces new buckets
        in the catalogue first. A row that exists already (same partition, position, digest, version) is kept as it
        is."""

    async def replies(self, prefixes: Sequence[bytes]) -> Sequence[bytes | None]:
        """What messages of these prefixes were answered, as `append` tells a repeat. None: not stored within a day.
        Asked only of a store that `knows_repeats`."""

    async def scan(
        self, partition: Partition, lo_ms: int, hi_ms: int, cursor: int, limit_bytes: int, *, keys_only: bool = False
    ) -> Page:
        """Rows with lo_ms <= position < hi_ms that became readable since `cursor` (0 = all), about `limit_bytes` of
        them. Sees every row whose append was acknowledged before the call. Not ordered between groups."""

    async def stretch(self, partition: Partition, after: tuple[int, bytes], hi_ms: int, most_rows: int) -> Stretch:
        """The keys of about the first `most_rows` rows behind `after` (position_ms, digest) and below `hi_ms`, by
        (position_ms, digest, version). All versions of a task at one position come together. What it costs does not
        grow with what else the partition holds, but for what was written to it since it was asked last."""

    async def find(self, partition: Partition, keys: Sequence[tuple[int, bytes]]) -> Sequence[Found]:
        """For each (position_ms, digest): its rows and marks, possibly none."""

    async def mark(self, marks: Sequence[Mark]) -> int:
        """Durable marks on rows that may not exist. Returns how many are known to be the first of their kind on their
        row, so that they count: all of these where the store `counts_marks`, else none."""

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        """Appends records; one that exists already is kept. The dead letters of what they end are stored with them, as
        by `put_dead_letters`; where that takes two steps, the dead letters first."""

    async def settled(self, partition: Partition, known: Set[tuple[int, int]] = frozenset()) -> Sequence[SettleRecord]:
        """The records of the partition in the order of (token, sequence), without those whose names the caller knows:
        a record never changes."""

    async def drop(self, partition: Partition) -> None:
        """Forgets rows, marks and settle records of the partition as a whole. A bucket that is finished leaves the
        catalogue; its finishing flag stays."""

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        """Buckets with lo_ms <= bucket_ms < hi_ms, oldest first; of all scopes where `scope` is None."""

    async def finish_bucket(self, scope: int, bucket_ms: int, *, finished: bool) -> None:
        """Sets the `finishing` flag (it stays), or with `finished` also records that the bucket is done."""

    async def put_dead_letters(self, dead_letters: Sequence[DeadLetter]) -> None:
        """Stores dead letters; one with the same task_id replaces the older."""

    async def dead(
        self, namespace: str, queue: str, lo_ms: int, hi_ms: int, after: bytes, limit: int
    ) -> Sequence[DeadLetter]:
        """Dead letters of a queue (all queues where empty) by (died_at_ms, task_id); `after` = died_at_ms (8 bytes,
        big-endian) + task_id of the last one seen."""

    async def get_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        """Those of the tasks that are dead letters."""

    async def take_dead_letters(self, task_ids: Sequence[bytes]) -> Sequence[DeadLetter]:
        """Removes dead letters and returns those that were there."""

    async def save_estimates(self, counts: Mapping[tuple[str, str, int], int]) -> None:
        """Adds to the counts per (namespace, queue, minute_ms): about how many tasks are due in that minute."""

    async def estimates(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> Mapping[int, int]:
        """minute_ms -> about how many tasks of the queue (all queues where empty)."""

    async def estimated(self, namespace: str, queue: str, lo_ms: int, hi_ms: int) -> EstimatedTotal:
        """The sum of `estimates`, without a number for each minute where the store can add them up."""

    async def write_entries(self, entries: Sequence[Entry]) -> None:
        """Durable notes. One that is written again is the same."""

    async def find_entries(self, keys: Sequence[EntryKey]) -> Sequence[bytes | None]:
        """Sees all that was written before; None: it was not, or was removed."""

    async def list_entries(self, place: bytes, after: bytes, limit: int) -> Sequence[Entry]:
        """Those of a place behind a name, in the order of their bytes."""

    async def remove_entries(self, keys: Sequence[EntryKey]) -> None:
        """For good: none of these names is written again."""

    async def facts(self) -> StoreFacts: ...

    async def close(self) -> None: ...


class Registers(Protocol):
    """Compare-and-set only."""

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        """Each change on its own; never raises for an outcome."""

    async def read(self, keys: Sequence[RegisterKey]) -> Sequence[bytes | None]:
        """Serial reads: see every change that was applied before."""


class Store(Rows, Registers, Protocol):
    """An engine that has both, as all of ours do."""

    @property
    def traits(self) -> StoreTraits:
        """What it can do beyond that: the same from its beginning to its end."""

    async def look(self, look: Look) -> Looked: ...

    async def mark_and_look(self, marks: Sequence[Mark], look: Look) -> tuple[int, Looked]:
        """As `mark`, then `look` when the marks are durable. Where that takes two steps and the second one fails, it
        raises StoreUnknown."""
        ...


# Of a message: the channel it came by, and what it says.
Heard = Callable[[str, bytes], None]


class Hints(Protocol):
    """A second way to other instances, for what may be lost. A message may be lost without a word, come twice, late, in
    any order, or be the work of somebody else: what must not be believed blindly is sealed by its sender."""

    # Messages that are known to be lost.
    lost: int

    def send(self, channel: str, message: bytes) -> bool:
        """Never waits. False: it is lost already."""

    def listen(self, channel: Callable[[], str], heard: Heard) -> None:
        """From now on, to the channel that `channel` names at any time. Called once."""

    async def close(self) -> None: ...


class Clock(Protocol):
    """Facts about time; core/cluster/engine_clock.py decides what the time is."""

    def wall_ms(self) -> float:
        """Milliseconds since the epoch by the wall clock, with a fraction."""

    def boot_ms(self) -> float:
        """Milliseconds of a clock that counts suspend and is never stepped."""


class ZoneData(Protocol):
    """A release of the data of time zones. Two of one version say the same."""

    @property
    def version(self) -> str:
        """As the IANA names it: 2026a. A later one is greater as text."""

    def zone(self, name: str) -> tzinfo:
        """The same object each time. Raises Invalid where there is none of that name."""


class KeySource(Protocol):
    """Where the keys come from by which tokens are verified."""

    async def changed(self, *, is_missing: bool) -> bytes | None:
        """The JWK set, where it is another one than before or has not been asked for; else None.

        `is_missing`: a token has come whose key is not known."""


class TokenReader(Protocol):
    """Reads tokens that somebody else has signed (JWT)."""

    def on_change(self, changed: Callable[[], None]) -> None:
        """`changed` is called when tokens that were believed may be believed no more."""

    async def prepare(self, token: str) -> None:
        """What `claims` needs for it is here, where it can be had."""

    def claims(self, token: str) -> Mapping[str, Any] | None:
        """What it says of who shows it; None where it is not to be believed, now."""


class Poster(Protocol):
    """Posts to the address of one webhook target, and to nothing else: no redirect is followed, no proxy used, and each
    address is judged right before it is connected to."""

    async def post(
        self, headers: Mapping[str, str], body: bytes, timeout_ms: int, most_bytes: int = ERROR_BYTES
    ) -> HttpAnswer:
        """Reads `most_bytes` of the answer. Raises NoAnswer where none came within `timeout_ms`, with a sentence that
        says why."""

    async def close(self) -> None: ...


class StreamWriter(Protocol):
    """Appends to one stream."""

    async def append(self, entries: Sequence[StreamEntry]) -> Sequence[str]:
        """In their order. For each why it was not taken, in a sentence; empty: it is in the stream, by this call or an
        earlier one. Raises StreamAway where it is unknown what was taken."""

    async def close(self) -> None: ...
