"""The broken variants that closing.pml and finish.pml name, one switch each: writing, closing, settling, taking over a
partition, and calling a bucket finished. Patches for tests alone."""

# ruff: noqa: ANN401 - it stands between parts of any kind
from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from random import Random
from typing import Any
from unittest.mock import patch

from tests.property.world import done
from tests.simulator.cluster.store import RemoteStore
from tests.simulator.variants import Variant, fires_before_its_first_page, settle_records_not_read
from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import shards_of
from timerd.core.partition.effects import Effects
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.partition.rows_in_hand import RowsInHand
from timerd.core.protocol.procedures import Procedure
from timerd.model.partition import Partition
from timerd.model.registers import Control, RegisterKey, Table, control_key
from timerd.model.rows import RowGroup
from timerd.model.storage import Append, Appended, BucketEntry, Cas, CasResult, CasStatus, Page
from timerd.services.holding.effect_runner import EffectRunner
from timerd.services.holding.finishing import Finishing

# How far a broken read may lag behind what was acknowledged.
LAG_S = 1.5
_MARK, _RELEASE, _RECOVER = PartitionMachine._mark, PartitionMachine._release, PartitionMachine._recover
_CAS, _FACTS = RemoteStore._cas, RemoteStore._facts
_SCAN, _WRITE, _SETTLE, _SETTLED = MemoryStore.scan, MemoryStore._write, MemoryStore.settle, MemoryStore.settled
_FLAG = EffectRunner._flag_finishing


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def closing_not_read() -> AbstractContextManager[object]:
    """NOCHECK: what was written is taken for open."""

    def see_to(partition: Partition, rows: RowGroup, _: Appended, met: Any) -> Procedure[None]:
        yield from ()
        met.hints.append((partition, rows, 0))

    stack = ExitStack()
    stack.enter_context(patch("timerd.core.protocol.insertion.closing_of", lambda partition, _: partition.bucket_ms))
    stack.enter_context(patch("timerd.core.protocol.message_place._see_to", see_to))
    return stack


def scan_of_one_node() -> AbstractContextManager[object]:
    """READONE: a node that lags answers for all three now and then."""
    written: dict[int, float] = {}
    dice = Random(0)

    def write(self: MemoryStore, partition: Partition, group: Any) -> int:
        source = _WRITE(self, partition, group)
        written.setdefault(source, _now_s())
        return source

    async def scan(self: MemoryStore, *args: Any, **named: Any) -> Page:
        page = await _SCAN(self, *args, **named)
        if dice.random() < 0.5:
            return page
        since_s = _now_s() - LAG_S
        return replace(page, groups=[g for g in page.groups if written.get(g.source, 0.0) < since_s])

    return _all(patch.object(MemoryStore, "_write", write), patch.object(MemoryStore, "scan", scan))


def mark_seen_late() -> AbstractContextManager[object]:
    """ASYNCCOMMIT: the holder goes on while others still read the control row of before."""
    before: dict[RegisterKey, tuple[float, bytes | None]] = {}

    def cas(self: RemoteStore, changes: Sequence[Cas]) -> Sequence[CasResult]:
        results = _CAS(self, changes)
        for change, result in zip(changes, results, strict=True):
            if change.key.table is Table.CONTROL and result.status is CasStatus.APPLIED:
                before[change.key] = _now_s(), change.expected
        return results

    def facts(self: RemoteStore, message: Append, written: Appended, partitions: Sequence[Partition]) -> Appended:
        found = _FACTS(self, message, written, partitions)
        controls = dict(found.controls)
        for partition in controls:
            at_s, value = before.get(control_key(partition), (-LAG_S, None))
            if value is not None and _now_s() - at_s < LAG_S:
                controls[partition] = value
        return replace(found, controls=controls)

    return _all(patch.object(RemoteStore, "_cas", cas), patch.object(RemoteStore, "_facts", facts))


def floor_never_raised() -> AbstractContextManager[object]:
    """ADOPTRACE."""

    def mark(self: PartitionMachine, control: Control, now_ms: int) -> Effects:
        floor_ms = self.floor_ms
        effects = _MARK(self, control, now_ms)
        self.floor_ms = floor_ms
        return effects

    return patch.object(PartitionMachine, "_mark", mark)


def records_read_before_the_token() -> AbstractContextManager[object]:
    """SETTLEFIRST: what the last holder settled in its last moments is not among them."""
    written: dict[tuple[Any, ...], float] = {}

    async def settle(self: MemoryStore, records: Any, dead_letters: Any = ()) -> None:
        await _SETTLE(self, records, dead_letters)
        for each in records:
            written.setdefault((each.partition, each.token, each.sequence), _now_s())

    async def settled(self: RemoteStore, partition: Partition, known: Any = frozenset()) -> Any:
        records = await self._perform("settled", lambda: done(_SETTLED(self._disk, partition, known)))
        since_s = _now_s() - LAG_S
        return [r for r in records if written.get((r.partition, r.token, r.sequence), 0.0) < since_s]

    return _all(patch.object(MemoryStore, "settle", settle), patch.object(RemoteStore, "settled", settled, create=True))


def hints_taken_blindly() -> AbstractContextManager[object]:
    """HINTBLIND: a hint or an adoption is taken in without asking memory."""

    def hint(self: RowsInHand, rows: Any, source: int) -> None:
        self.waiting.add(rows)
        self._count()

    return _all(patch.object(RowsInHand, "hint", hint), patch.object(RowsInHand, "adopt", hint))


def fires_before_the_records() -> AbstractContextManager[object]:
    """FIREEARLY."""
    return _all(settle_records_not_read(), fires_before_its_first_page())


def empty_shard_skipped() -> AbstractContextManager[object]:
    """FINISHEMPTY: a shard without a control row counts as finished."""

    async def finish(self: Finishing, partition: Partition) -> bool:
        scope, bucket_ms, _ = partition
        entries = await self._store.catalogue(scope, bucket_ms, bucket_ms + 1)
        stored = await self._store.read([control_key(p) for entry in entries for p in shards_of(entry)])
        is_finished = all(raw is None or Control.from_bytes(raw).finished for raw in stored)
        if is_finished:
            await self._store.finish_bucket(scope, bucket_ms, finished=True)
        return is_finished

    return patch.object(Finishing, "finish", finish)


def catalogue_read_before_the_flag() -> AbstractContextManager[object]:
    """COUNTFIRST: whoever finishes goes by the shards that it knew when it began to."""
    known: dict[tuple[int, int], Sequence[BucketEntry]] = {}

    async def flag(self: EffectRunner, machine: Any, effect: Any) -> None:
        scope, bucket_ms, _ = effect.partition
        known.setdefault((scope, bucket_ms), await self._store.catalogue(scope, bucket_ms, bucket_ms + 1))
        await _FLAG(self, machine, effect)

    async def finish(self: Finishing, partition: Partition) -> bool:
        scope, bucket_ms, _ = partition
        entries = known.get((scope, bucket_ms), ())
        stored = await self._store.read([control_key(p) for entry in entries for p in shards_of(entry)])
        is_finished = all(raw is not None and Control.from_bytes(raw).finished for raw in stored)
        if is_finished:
            await self._store.finish_bucket(scope, bucket_ms, finished=True)
        return is_finished

    return _all(patch.object(EffectRunner, "_flag_finishing", flag), patch.object(Finishing, "finish", finish))


def flag_not_looked_at() -> AbstractContextManager[object]:
    """OPENFOREVER, and FLAGFIRST at its worst: no control row always means open."""

    def facts(self: RemoteStore, message: Append, written: Appended, partitions: Sequence[Partition]) -> Appended:
        found = _FACTS(self, message, written, partitions)
        return replace(found, finishing=frozenset())

    return patch.object(RemoteStore, "_facts", facts)


def shard_not_announced() -> AbstractContextManager[object]:
    """NOANNOUNCE: a shard is used that the catalogue does not know."""

    def write(self: MemoryStore, partition: Partition, group: Any) -> int:
        at = partition.scope, partition.bucket_ms
        entry = self._buckets.get(at)
        source = _WRITE(self, partition, group)
        if partition.shard:
            self._buckets[at] = entry or replace(self._buckets[at], shard_count=1)
        return source

    return patch.object(MemoryStore, "_write", write)


def opened_blindly() -> AbstractContextManager[object]:
    """OPENBLIND: neither catalogue nor flag is looked at before a control row is made."""

    async def control_of(self: Finishing, partition: Partition) -> tuple[Control | None, bool]:
        stored = (await self._store.read([control_key(partition)]))[0]
        return (Control.from_bytes(stored) if stored is not None else None), False

    return patch.object(Finishing, "control_of", control_of)


def _all(*patches: AbstractContextManager[Any]) -> AbstractContextManager[object]:
    stack = ExitStack()
    for each in patches:
        stack.enter_context(each)
    return stack


SWITCHES: dict[str, Variant] = {
    "closing NOCHECK": closing_not_read,
    "closing READONE": scan_of_one_node,
    "closing ASYNCCOMMIT": mark_seen_late,
    "closing ADOPTRACE": floor_never_raised,
    "closing SETTLEFIRST": records_read_before_the_token,
    "closing HINTBLIND": hints_taken_blindly,
    "closing FIREEARLY": fires_before_the_records,
    "finish FINISHEMPTY": empty_shard_skipped,
    "finish COUNTFIRST": catalogue_read_before_the_flag,
    "finish OPENFOREVER": flag_not_looked_at,
    "finish NOANNOUNCE": shard_not_announced,
    "finish OPENBLIND": opened_blindly,
}
