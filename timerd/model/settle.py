"""Settle records: what ended in a partition, appended once a second by its holder (protocol section 4).

A record is immutable and is re-sent byte for byte: (partition, token, sequence) names it. A carried row's entry says
where it went, so that a new holder can write it again when the row itself did not become durable.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from timerd.model.attempts import AttemptEnd
from timerd.model.codec import check_understood, dump_json, split_known, unknown_member
from timerd.model.identity import RowKey, row_keys
from timerd.model.partition import Partition
from timerd.model.row_keys import RowKeys


class Outcome(IntEnum):
    """How a row ended."""

    ACKED = 1
    CARRIED = 2
    DEAD = 3
    EXPIRED = 4
    MOVED = 5
    CANCELLED = 6
    PURGED = 7
    FORWARDED = 8  # it was written again at a later position before its OK
    PARKED = 9  # carried to its queue's backlog: the place is a function of the id, so no Carry is written

    @classmethod
    def _missing_(cls, value: object) -> Outcome:
        """One that only a later release knows: the row is over."""
        return unknown_member(cls, value)


class CarryReason(IntEnum):
    RETRY = 1
    GUARD = 2  # still in flight at the lag limit
    HAND_OVER = 3  # open at a graceful stop


_ENTRY = struct.Struct("<q16sIB")
_FLIPPED = bytes(range(255, -1, -1))
ENTRY = np.dtype([("position_ms", "<i8"), ("digest", "V16"), ("version", "<u4"), ("outcome", "u1")])


class Carry(NamedTuple):
    """One row that goes on elsewhere: all that is needed to write it again."""

    source: RowKey
    reason: CarryReason
    target: Partition
    position_ms: int
    version: int
    lease_until_ms: int = 0
    failed_at_ms: int = 0
    last_error: str = ""
    # Of the attempt that failed: how, when it was sent, and to whom.
    end: int = AttemptEnd.FAILED
    sent_ms: int = 0
    worker: str = ""
    # What the attempt that failed had said last (model/progress.py).
    progress: str = ""
    # Of a row that keeps its place: before then it is not sent (model/ordering.py).
    not_before_ms: int = 0
    # Of a row that is over, and whose end makes a task: the outcome (`end_note`).
    ended: int = 0

    def to_json(self) -> bytes:
        """As `dump_json` would write it, put together by hand: a worker that dies leaves tens of thousands."""
        at_ms, digest, version = self.source
        scope, bucket_ms, shard = self.target
        return b'{"source":[%d,"%b",%d],"reason":%d,"target":[%d,%d,%d],%b' % (
            at_ms, digest.hex().encode(), version, self.reason, scope, bucket_ms, shard, self._rest(),
        )  # fmt: skip

    def _rest(self) -> bytes:
        _, _, _, position_ms, version, lease_until_ms, failed_at_ms, last_error = self[:8]
        end, sent_ms, worker, progress, not_before_ms, ended = self[8:]
        attempt = _attempt(end, sent_ms, worker) if sent_ms or worker or end != AttemptEnd.FAILED else b""
        said = b',"progress":%b' % dump_json(progress) if progress else b""
        said += b',"not_before_ms":%d' % not_before_ms if not_before_ms else b""
        said += b',"ended":%d' % ended if ended else b""
        return b'"position_ms":%d,"version":%d,"lease_until_ms":%d,"failed_at_ms":%d,"last_error":%b%b%b}' % (
            position_ms, version, lease_until_ms, failed_at_ms, _text(last_error), attempt, said,
        )  # fmt: skip

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Carry:
        """Raises NotUnderstood. Other unknown fields stay where they are: records are never written again."""
        position_ms, digest, version = stored["source"]
        source = RowKey(position_ms, bytes.fromhex(digest), version)
        rest, kept = split_known({k: v for k, v in stored.items() if k not in ("source", "reason", "target")}, _REST)
        check_understood("A settle record", kept)
        return cls(source, CarryReason(stored["reason"]), Partition(*stored["target"]), **rest)


_REST = frozenset(Carry._fields[3:])


@lru_cache(maxsize=64)
def _text(error: str) -> bytes:
    return dump_json(error)


@lru_cache(maxsize=64)
def _attempt(end: int, sent_ms: int, worker: str) -> bytes:
    """What was sent together has it in common."""
    return b',"end":%d,"sent_ms":%d,"worker":%b' % (end, sent_ms, dump_json(worker))


@dataclass(frozen=True, slots=True)
class SettleRecord:
    """`entries` (n,) of ENTRY; one Carry for each entry whose outcome is CARRIED."""

    partition: Partition
    token: int
    sequence: int
    entries: npt.NDArray[Any]
    carries: tuple[Carry, ...] = ()

    def order(self) -> tuple[int, int]:
        """Of several records of one row the one of the highest counts (rule K4)."""
        return self.token, self.sequence

    def pack(self) -> bytes:
        carries = b"[%b]" % b",".join([c.to_json() for c in self.carries])
        return len(carries).to_bytes(4, "little") + carries + self.entries.tobytes()

    @classmethod
    def unpack(cls, partition: Partition, token: int, sequence: int, packed: bytes) -> SettleRecord:
        size = int.from_bytes(packed[:4], "little")
        carries = tuple(Carry.from_json(c) for c in json.loads(packed[4 : 4 + size]))
        return cls(partition, token, sequence, np.frombuffer(packed, ENTRY, offset=4 + size), carries)

    def outcomes(self) -> list[tuple[RowKey, Outcome]]:
        e = self.entries
        keys = row_keys(e["position_ms"].tolist(), e["digest"].tolist(), e["version"].tolist())
        return list(zip(keys, map(Outcome, e["outcome"].tolist()), strict=True))


def unsent_note(partition: Partition, key: RowKey) -> RowKey:
    """A record says besides that this row had not been sent when it was acked: by an entry of a place where no row is,
    below every floor, so that who takes the partition over passes it by."""
    return key._replace(position_ms=partition.bucket_ms - 1)


def last_attempt_of(key: RowKey) -> RowKey:
    """A record says besides how the attempt failed with which this row ended: by a carry of a task that is not there,
    so that who takes the partition over passes it by."""
    return key._replace(digest=key.digest.translate(_FLIPPED))


def end_note(key: RowKey, outcome: Outcome, target: Partition, at_ms: int, error: str) -> Carry:
    """A record says besides that the end of this row makes a task, which stands there: by a carry of a task that is not
    there, at an instant before all others, so that who does not know it passes it by."""
    source = last_attempt_of(key)._replace(position_ms=-1 - key.position_ms)
    return Carry(source, CarryReason.RETRY, target, at_ms, 0, last_error=error, ended=outcome)


def ended_key(note: Carry) -> RowKey:
    """The row that an `end_note` speaks of."""
    return last_attempt_of(note.source)._replace(position_ms=-1 - note.source.position_ms)


def settle_entries(ended: Sequence[tuple[RowKey, Outcome]]) -> npt.NDArray[Any]:
    """(n,) of ENTRY."""
    pack = _ENTRY.pack
    packed = b"".join([pack(*key, outcome) for key, outcome in ended])
    return np.frombuffer(packed, ENTRY)


def entries_with(keys: Sequence[RowKey], outcome: Outcome) -> npt.NDArray[Any]:
    """(n,) of ENTRY: all of them ended so."""
    if not isinstance(keys, RowKeys):
        return settle_entries([(key, outcome) for key in keys])
    entries = np.zeros(len(keys), ENTRY)
    entries["position_ms"], entries["digest"], entries["outcome"] = keys.positions_ms, keys.digests, outcome
    return entries


def join_entries(parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """numpy joins structured arrays field by field, 20 us each; as bytes hundreds cost next to nothing."""
    if len(parts) == 1:
        return parts[0]
    return np.frombuffer(b"".join([np.ascontiguousarray(part).data for part in parts]), ENTRY)
