"""What must be true in the store after every step, whoever lives and whatever was said: invariants I1 to I3 and the
ledger at each change of a control row, I5 and I6 at each reply to a schedule. It reads the one copy that a quorum would
read, at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

from tests.property.world import done
from tests.simulator.events import Called, Replied, Said
from timerd.adapters.memory import MemoryStore
from timerd.core.instance_machine import shards_of
from timerd.core.protocol.insertion import closing_of
from timerd.model.identity import RowKey, TaskId
from timerd.model.partition import Partition
from timerd.model.registers import Control, Table
from timerd.model.storage import Append, Appended, Cas


class Audit:
    """`wrong` is told each violation."""

    def __init__(self, disk: MemoryStore, wrong: Callable[[str], None]) -> None:
        self._disk = disk
        self._wrong = wrong
        self._controls: dict[Partition, Control] = {}
        # Rows that were readable before `closing` had come to them: their holder is bound to scan them.
        self._promised: defaultdict[Partition, set[RowKey]] = defaultdict(set)
        self._asked: dict[tuple[str, ...], int] = {}
        self._lost: set[tuple[str, ...]] = set()

    # -- the store ------------------------------------------------------------------------------------------------

    def written(self, messages: Sequence[Append], answers: Iterable[Appended]) -> None:
        """What an instance was told of its rows and, read after them, of their partitions."""
        for message, appended in zip(messages, answers, strict=True):
            parts = [*message.groups, *(message.spread.parts() if message.spread else ())]
            for partition, rows in parts if appended.repeated is None else ():
                closing_ms = closing_of(partition, appended)
                self._promised[partition].update(key for key in rows.keys() if key.position_ms >= closing_ms)

    def changed(self, changes: Sequence[Cas]) -> None:
        """Registers, now."""
        for change in changes:
            if change.key.table is Table.CONTROL:
                scope, bucket_ms, shard = map(int, change.key.name.split(b"."))
                self._control(Partition(scope, bucket_ms, shard), Control.from_bytes(change.value))

    def _control(self, partition: Partition, now: Control) -> None:
        before = self._controls.get(partition)
        self._controls[partition] = now
        if now.verified_ms > now.closing_ms:
            self._wrong(f"I2: {partition}: verified is beyond closing")
        if before is not None:
            self._compare(partition, before, now)
        verified_ms = partition.end_ms if now.finished else now.verified_ms
        if before is None or verified_ms > before.verified_ms:
            self._passed(partition, verified_ms)
        if now.finished and sum(n for _, n in now.counts) > now.inserted:
            self._wrong(f"ledger: {partition}: {now.counts} have ended, of {now.inserted} rows")

    def _compare(self, partition: Partition, before: Control, now: Control) -> None:
        if now.closing_ms < before.closing_ms or now.verified_ms < before.verified_ms:
            self._wrong(f"I2: the marks of {partition} went back")
        if now.token < before.token:
            self._wrong(f"I3: the token of {partition} went back")
        if now.token == before.token and now.holder not in (before.holder, ""):
            self._wrong(f"I3: {before.holder} and {now.holder} have one token of {partition}")
        counted = dict(now.counts)
        if now.token == before.token and any(counted.get(outcome, 0) < n for outcome, n in before.counts):
            self._wrong(f"ledger: {partition}: {before.counts} became {now.counts}")

    def _passed(self, partition: Partition, verified_ms: int) -> None:
        """No row may be open below the mark."""
        due = {key for key in self._promised.get(partition, ()) if key.position_ms < verified_ms}
        if not due:
            return
        records = done(self._disk.settled(partition))
        ended = {key for record in records for key, _ in record.outcomes()}
        for key in due - ended:
            self._wrong(f"I1: verified of {partition} has passed {key.position_ms}, whose row has not ended")
        self._promised[partition] -= due

    def forgotten(self, partition: Partition) -> None:
        """It was dropped."""
        self._promised.pop(partition, None)

    # -- replies --------------------------------------------------------------------------------------------------

    def asked(self, called: Called) -> None:
        self._asked[called.names] = self._asked.get(called.names, 0) + 1

    def answered(self, called: Called, replied: Replied, ids: dict[str, TaskId]) -> None:
        """Of a schedule."""
        if replied.said is Said.OK:
            stored = [n for n, answer in zip(called.names, replied.answers, strict=True) if answer == "stored"]
            for name in stored:
                if not self._is_there(ids[name]):
                    self._wrong(f"I5: {name} was answered OK, and its row cannot be read")
        if replied.said is Said.NOT_DONE:
            self._asked[called.names] -= 1
            # With KEY_LOST it was written, and cancelled, whatever its other tries are answered.
            if "KEY_LOST" in replied.answers:
                self._lost.add(called.names)
            if not self._asked[called.names] and called.names not in self._lost:
                for name in self._names_there() & set(called.names):
                    self._wrong(f"I6: {name} was answered NOT STORED, and its row is there")

    def _is_there(self, task: TaskId) -> bool:
        if task.home not in self._disk._partitions:
            return self._controls[task.home].finished if task.home in self._controls else False
        return len(done(self._disk.find(task.home, [(task.position_ms, task.digest)]))[0].rows) > 0

    def _names_there(self) -> set[str]:
        groups = [group for stored in self._disk._partitions.values() for group in stored.groups]
        return {bytes(group.payload(row)).decode() for group in groups for row in range(len(group))}

    # -- the end --------------------------------------------------------------------------------------------------

    def held(self, buckets_ms: Collection[int], living: Iterable[str]) -> None:
        """I14, when who was dead has been succeeded: what is due has somebody, whichever of these buckets it is in."""
        alive = set(living)
        for entry in done(self._disk.catalogue(0, -(1 << 62), 1 << 62)):
            for partition in shards_of(entry) if not entry.finished and entry.bucket_ms in buckets_ms else ():
                control = self._controls.get(partition)
                if control is None or not (control.finished or control.holder in alive):
                    place = f"0.{entry.bucket_ms}.{partition.shard}"
                    self._wrong(f"I14: nobody who lives has {place}, and its time has come")
