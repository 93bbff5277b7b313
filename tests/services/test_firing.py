"""What is due is what can be given: asked for anything else, delivery would look again and again for nothing. And what
a worker says of a delivery counts, or he hears that it did not."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.services.fake_scheduler import scheduler_with
from tests.unit.partition_rig import HERE, NOW_MS, hot, rows
from tests.unit.partition_rig import QUEUE as QUEUE_OF_ROWS
from tests.unit.row_keys import KEYS
from timerd.core.partition.holding import Phase
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.taken import AckedRows, Again, Ended, QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import TIME_SCOPE, Partition, scope_of
from timerd.model.settle import Outcome
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.holding.held import Machines
from timerd.services.holding.log_waits import NoLongerHeld

QUEUE = QueueKey("default", "mails")
DUE_MS = 1_000


class Waiting:
    """A partition with one row that is due."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase

    def next_ms(self, _: QueueKey) -> int:
        return DUE_MS

    def due_rows(self, _: QueueKey, until_ms: int, most: int) -> int:
        return min(most, int(until_ms >= DUE_MS))

    def head_key(self, _: QueueKey, now_ms: int) -> int | None:
        return DUE_MS if now_ms >= DUE_MS else None


def _firing(phase: Phase) -> SchedulerFiring:
    machine = Waiting(phase)
    machines = SimpleNamespace(by_scope={TIME_SCOPE: {"one": machine}})
    return SchedulerFiring(scheduler_with(machines), cast(Any, None), cast(Any, None), b"secret")


def test_the_backlogs_of_other_queues_are_not_asked() -> None:
    """Of thousands of queues each may have one."""

    class Untouched:
        phase = Phase.HOT

    firing, machines = _firing(Phase.HOT), Machines()
    scheduler = cast(Any, firing)._scheduler
    own, time = scope_of(*QUEUE), scheduler.machines.by_scope[TIME_SCOPE]["one"]
    machines[Partition(TIME_SCOPE, 0, 0)] = time
    machines[Partition(own, 0, 0)] = time
    machines[Partition(own + 1, 0, 0)] = cast(Any, Untouched())
    scheduler.machines = machines
    assert firing.due_rows(QUEUE, DUE_MS, 10) == 2
    del machines[Partition(TIME_SCOPE, 0, 0)], machines[Partition(own + 1, 0, 0)]
    assert (firing.due_rows(QUEUE, DUE_MS, 10), list(machines.by_scope)) == (1, [own])
    machines.clear()
    assert (firing.next_due_ms(QUEUE), machines.changes) == (None, 6)


@pytest.mark.parametrize("phase", [Phase.LOAD, Phase.HOT, Phase.HAND_OVER])
def test_when_something_is_due_and_how_much_agree(phase: Phase) -> None:
    """Also while its partition is loaded, or handed over."""
    firing = _firing(phase)
    is_given = phase is Phase.HOT
    assert firing.next_due_ms(QUEUE) == (DUE_MS if is_given else None)
    assert firing.due_rows(QUEUE, DUE_MS, 10) == int(is_given)
    assert firing.head_key(QUEUE, DUE_MS) == (DUE_MS if is_given else None)


class Store:
    """Of dead letters; it is written down what is done with them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def put_dead_letters(self, _: object) -> None:
        self.calls.append("put_dead_letters")

    async def take_dead_letters(self, _: object) -> None:
        self.calls.append("take_dead_letters")


@pytest.mark.parametrize("waits", [True, False])
async def test_a_reject_that_ends_nothing_is_not_confirmed(monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
    """Its partition is taken over before it is written, and the row may be with a worker again by then."""

    async def durable(_machine: object, _lsn: int) -> None:
        raise NoLongerHeld("taken over")

    async def end(_: object) -> bool:
        return waits

    dead = Ended(Partition(0, 0, 0), RowKey(DUE_MS, b"d" * 16, 0), Outcome.DEAD)
    machine = SimpleNamespace(end=lambda items: (0, []), put_dead_letters=list, recorded=lambda _: None)
    held = SimpleNamespace(durable=durable, settle_soon=lambda _, **how: None)
    scheduler, store = scheduler_with({dead.partition: machine}, held), Store()
    firing = SchedulerFiring(scheduler, cast(Any, None), cast(Any, store), b"secret")
    monkeypatch.setattr(firing.late_failures, "_elsewhere", SimpleNamespace(end=end))
    letter = SimpleNamespace(task_id=b"", died_at_ms=DUE_MS, last_error="no", ordering_key="")
    with nullcontext() if waits else pytest.raises(Unavailable):
        await firing.put_dead_letters([cast(Any, letter)], [dead], [])
    assert store.calls == (["put_dead_letters"] if waits else ["put_dead_letters", "take_dead_letters"])


async def test_what_a_worker_was_told_to_have_stays_held_back_when_the_failure_of_its_lease_gives_way() -> None:
    """It came back 4 ms after its lease had ended, while its row was being looked up."""
    scheduler = scheduler_with({})
    before = scheduler.deliveries.machine.before
    key = RowKey(DUE_MS, b"d" * 16, 0)
    delivery_id = delivery_id_of(key.digest, key.version)
    firing = SchedulerFiring(scheduler, cast(Any, None), cast(Any, None), b"secret")
    until_ms = before.hold(delivery_id, key.version, 5_004, 8_004, may_begin=True)
    assert until_ms is not None
    firing.leased({delivery_id: until_ms})
    await firing.late_failures.again(Again(Partition(0, 0, 0), key, 5_000, 5_000, "lease ended"))
    assert firing._lease_of(key) == until_ms


class Held:
    """Of partitions, some of which are lost before what ended in them is written."""

    def __init__(self) -> None:
        self.durable_by = asyncio.Event()
        self.lost: set[Partition] = set()
        self.is_awaited: list[bool] = []

    async def durable(self, machine: PartitionMachine, _lsn: int) -> None:
        await self.durable_by.wait()
        if machine.partition in self.lost:
            raise NoLongerHeld("taken over")

    def settle_soon(self, _: PartitionMachine, *, is_awaited: bool = False) -> None:
        """The test says when it is durable."""
        self.is_awaited.append(is_awaited)


class Rig:
    """Two partitions that are held, each with forty rows that were sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held, self.elsewhere, self.awaited = Held(), list[RowKey](), set[bytes]()
        machines: dict[Partition, PartitionMachine] = {}
        self.acked: list[AckedRows] = []
        for shard in (0, 1):
            machine = hot(rows(*KEYS))
            taken = machine.take(QUEUE_OF_ROWS, len(KEYS), NOW_MS)
            assert taken is not None
            machine.partition = Partition(HERE.scope, HERE.bucket_ms, shard)
            machines[machine.partition] = machine
            self.acked.append(acked(machine.partition))
        scheduler = scheduler_with(machines, self.held)
        self.machines = list(machines.values())
        self.firing = SchedulerFiring(scheduler, cast(Any, None), cast(Any, None), b"secret", awaited=self.awaited)
        monkeypatch.setattr(self.firing, "_end_elsewhere", self._end_elsewhere)

    async def _end_elsewhere(self, _: object, item: Ended) -> None:
        self.elsewhere.append(item.key)


def acked(partition: Partition) -> AckedRows:
    return AckedRows(partition, [k.position_ms for k in KEYS], [k.digest for k in KEYS], [k.version for k in KEYS])


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


async def test_what_is_acked_together_counts_at_once_and_is_done_when_it_is_durable(rig: Rig) -> None:
    done = asyncio.ensure_future(rig.firing.end_acked(rig.acked, []))
    assert [machine.open_rows for machine in rig.machines] == [0, 0]
    await asyncio.sleep(0.01)
    assert not done.done()
    rig.held.durable_by.set()
    await done
    assert rig.elsewhere == []


async def test_of_a_partition_that_was_taken_over_each_is_ended_where_it_lives_now(rig: Rig) -> None:
    rig.held.lost.add(rig.acked[1].partition)
    rig.held.durable_by.set()
    await rig.firing.end_acked(rig.acked, [])
    assert rig.elsewhere == KEYS


async def test_of_a_partition_that_is_not_held_too(rig: Rig) -> None:
    rig.held.durable_by.set()
    await rig.firing.end_acked([rig.acked[0], acked(Partition(HERE.scope, HERE.bucket_ms, 7))], [])
    assert (rig.machines[0].open_rows, rig.elsewhere) == (0, KEYS)


async def test_those_that_are_not_all_open_end_one_by_one(rig: Rig) -> None:
    """One of them ended by itself before."""
    rig.machines[0].end([Ended(rig.acked[0].partition, KEYS[7], Outcome.ACKED)])
    rig.held.durable_by.set()
    await rig.firing.end_acked(rig.acked, [])
    assert [machine.open_rows for machine in rig.machines] == [0, 0]
    assert rig.elsewhere == [KEYS[7]]


async def test_an_end_that_a_caller_waits_for_is_written_at_once(rig: Rig) -> None:
    """Those of the others wait for more to be written with them."""
    rig.held.durable_by.set()
    rig.awaited.add(KEYS[7].digest)
    here = rig.acked[0].partition
    for ended in (KEYS[3], KEYS[7]):
        await rig.firing.end([Ended(here, ended, Outcome.ACKED)], [])
    assert rig.held.is_awaited == [False, True]
    await rig.firing.end_acked([rig.acked[1]], [])
    assert rig.held.is_awaited[2:] == [True]
    rig.awaited.clear()
    await rig.firing.end([Ended(here, KEYS[5], Outcome.ACKED)], [])
    assert rig.held.is_awaited[3:] == [False]
