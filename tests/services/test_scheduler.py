"""The loop that holds partitions, while the world changes around it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tests.services.scheduler_rig import START_MS, Leased, trusted_time
from timerd.adapters.memory import MemoryStore
from timerd.core.cluster.lease_trust import LeaseTrust
from timerd.core.dispatch.deliveries import Deliveries
from timerd.core.instance_machine import InstanceMachine
from timerd.core.partition.holding import HoldingSettings, Offered, Phase
from timerd.core.partition.memory import Memory
from timerd.core.partition.partition_machine import PartitionMachine
from timerd.core.protocol.procedures import OfferRows
from timerd.core.taken import Again, Ended, QueueKey
from timerd.model.identity import RowKey
from timerd.model.partition import BUCKET_MS, TIME_SCOPE, Partition, bucket_of, scope_of
from timerd.model.registers import Control, control_key
from timerd.model.settle import CarryReason, Outcome, SettleRecord, settle_entries
from timerd.model.storage import Append, Appended, BucketEntry, Cas, CasResult, DeadLetter
from timerd.services.engine.firing import SchedulerFiring
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.held import JUST_SENT_MS
from timerd.services.holding.peer_view import NoPeers
from timerd.services.holding.procedure_runner import PeersOf
from timerd.services.holding.scheduler import FEW_SCOPES, Scheduler
from timerd.testing import SimClock
from timerd.testing.contracts.build import carried, key


def scheduler_of(
    store: MemoryStore,
    time: EngineTime | None = None,
    deliveries: Deliveries | None = None,
    peers: PeersOf | None = None,
) -> Scheduler:
    """Of an instance that is alone if no peers are given, at START_MS if nothing else is said."""
    machine, memory = InstanceMachine(90_000), Memory(1 << 30)
    clock, settings = time or trusted_time(), HoldingSettings("me", traits=MemoryStore.traits)
    return Scheduler(store, clock, settings, machine, memory, 86_400_000, deliveries=deliveries, peers=peers)


def sent(machine: PartitionMachine) -> RowKey:
    """The first row of the machine's only queue, which is open from here on."""
    (queue,) = machine.queues()
    taken = machine.take(queue, 1, START_MS)
    assert taken is not None
    [row] = taken.rows.keys()
    return row


class SlowStore(MemoryStore):
    """Takes a turn of the loop for each answer."""

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        await asyncio.sleep(0)
        return await super().catalogue(scope, lo_ms, hi_ms)


async def test_queues_come_and_go_while_their_backlogs_are_looked_for() -> None:
    """A worker that joins or leaves in that moment does not end the loop that fires everything."""
    scheduler = scheduler_of(SlowStore())
    one, two, three = (QueueKey("default", name) for name in ("one", "two", "three"))
    scheduler.open_backlog(one)
    scheduler.open_backlog(two)
    looking = asyncio.create_task(scheduler.reconcile(1_800_000_000_000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    scheduler.open_backlog(three)
    scheduler.scopes.pop(scope_of(*one))
    await looking
    assert scheduler.scopes == {scope_of(*two): two, scope_of(*three): three}


class CountingStore(MemoryStore):
    """Notes which scopes are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int | None] = []

    async def catalogue(self, scope: int | None, lo_ms: int, hi_ms: int) -> Sequence[BucketEntry]:
        self.asked.append(scope)
        return await super().catalogue(scope, lo_ms, hi_ms)


@pytest.mark.parametrize("queues", [FEW_SCOPES, FEW_SCOPES + 1, 500])
async def test_the_backlogs_of_many_queues_are_looked_for_by_one_read(queues: int) -> None:
    store = CountingStore()
    scheduler = scheduler_of(store)
    names = [QueueKey("default", f"{number}") for number in range(queues)]
    late = Partition(scope_of(*names[0]), 1_800_000_000_000 - 600_000, 0)
    await store.finish_bucket(late.scope, late.bucket_ms, finished=False)
    for name in names:
        scheduler.open_backlog(name)
    await scheduler.held.until_idle()
    own: list[int | None] = [scope_of(*name) for name in names]
    expected = own if queues <= FEW_SCOPES else [None]
    assert sorted(store.asked[: len(expected)], key=str) == sorted(expected, key=str)
    assert late in scheduler.machines
    assert not scheduler.opening or scope_of(*names[0]) in scheduler.opening
    store.asked.clear()
    await scheduler.reconcile(1_800_000_000_000)
    assert store.asked[: len(expected) + 1] == [TIME_SCOPE, *expected]


TTL_MS = 10_000


class StalledStore(MemoryStore):
    """The first settle record takes longer than the lease."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self.writes = 0
        self._clock = clock

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        if not self.writes:
            self._clock.now_ms += TTL_MS
        self.writes += 1
        await super().settle(records, dead_letters)


async def test_an_ending_that_outlasted_the_lease_is_not_confirmed() -> None:
    """Another holder may have looked for endings before it was there: it is said again as soon as the lease is sure."""
    clock, trust = SimClock(START_MS), LeaseTrust(TTL_MS)
    trust.heartbeat(START_MS)
    store = StalledStore(clock)
    here = Partition(0, bucket_of(START_MS), 0)
    await store.append([carried(key("a"))])
    time = EngineTime(clock, trust)
    scheduler = scheduler_of(store, time)
    scheduler.hold(here)
    await scheduler.step(START_MS)
    machine = scheduler.machines[here]
    (queue,) = machine.queues()
    taken = machine.take(queue, 1, START_MS)
    assert taken is not None
    lsn, _ = machine.end([Ended(here, taken.rows.keys()[0], Outcome.ACKED)])
    confirmed = scheduler.held.durable(machine, lsn)
    scheduler.held.settle_soon(machine)
    done, _ = await asyncio.wait([confirmed], timeout=0.1)
    assert (store.writes, done) == (1, set())
    trust.heartbeat(clock.now_ms)
    await asyncio.wait_for(confirmed, 20)
    assert store.writes == 2


async def test_what_has_expired_is_no_ack_where_its_partition_is_elsewhere_by_then() -> None:
    """Whoever has it meets the row, and lets it expire."""
    clock, trust = SimClock(START_MS), LeaseTrust(TTL_MS)
    trust.heartbeat(START_MS)
    store, message = MemoryStore(), carried(key("a"))
    await store.append([message])
    [(here, rows)] = message.groups
    [row] = rows.keys()
    time = EngineTime(clock, trust)
    scheduler = scheduler_of(store, time)
    firing = SchedulerFiring(scheduler, time, store, b"secret")
    await firing.expire([Again(here, row, START_MS, START_MS, "no")])
    assert len((await store.find(here, [(row.position_ms, row.digest)]))[0].marks) == 0
    await firing.end([Ended(here, row, Outcome.ACKED)], [])
    assert len((await store.find(here, [(row.position_ms, row.digest)]))[0].marks) == 1


class LateStore(MemoryStore):
    """What is changed while `late` is set is answered when that is."""

    late: asyncio.Event | None = None

    async def cas(self, changes: Sequence[Cas]) -> Sequence[CasResult]:
        late, results = self.late, await super().cas(changes)
        if late is not None:
            await late.wait()
        return results


async def test_a_late_answer_to_who_held_before_does_not_end_who_holds_now() -> None:
    """Both are of this instance: its lease was over in between. The control row names it, so nobody else would hold the
    partition again, and it would not either where its place is elsewhere by then."""
    store, here = LateStore(), Partition(0, bucket_of(START_MS), 0)
    await store.append([carried(key("a"))])
    scheduler = scheduler_of(store)
    scheduler.hold(here)
    await scheduler.step(START_MS)
    before = scheduler.machines[here]
    (queue,) = before.queues()
    before.take(queue, 1, START_MS)
    store.late = answers = asyncio.Event()
    scheduler.held.tick(START_MS + 2_000)
    await asyncio.sleep(0)
    store.late = None
    scheduler.drop_all()
    scheduler.hold(here)
    now = scheduler.machines[here]
    answers.set()
    await scheduler.held.until_idle()
    assert (before.phase, now.phase) == (Phase.LOST, Phase.HOT)
    assert scheduler.machines[here] is now


async def test_what_has_only_just_been_sent_may_end_where_it_is_before_its_partition_is_handed_over() -> None:
    """Its worker is about to say so: an ack that meets a row on its way elsewhere may come after the lease."""
    store, here, clock = MemoryStore(), Partition(0, bucket_of(START_MS), 0), SimClock(START_MS)
    await store.append([carried(key("a"))])
    time = EngineTime(clock, LeaseTrust.always())
    scheduler = scheduler_of(store, time, Leased(START_MS + 30_000))
    scheduler.hold(here)
    await scheduler.step(START_MS)
    machine = scheduler.machines[here]
    (queue,) = machine.queues()
    machine.take(queue, 1, START_MS)
    machine.hand_over("other")
    for after_ms, is_open in ((JUST_SENT_MS, True), (JUST_SENT_MS + 1, False)):
        clock.now_ms = START_MS + after_ms
        scheduler.held.carry_sent(machine, clock.now_ms)
        assert bool(machine.open_rows) is is_open, after_ms


@pytest.mark.parametrize("outcome", [Outcome.DEAD, Outcome.ACKED])
async def test_a_letter_is_kept_where_the_record_that_ends_its_task_is_there_already(outcome: Outcome) -> None:
    """It became durable when the lease was over. Where the task has ended otherwise the failure came too late."""
    store, message = MemoryStore(), carried(key("a"))
    await store.append([message])
    [(here, rows)] = message.groups
    [row] = rows.keys()
    await store.settle([SettleRecord(here, 1, 1, settle_entries([(row, outcome)]))])
    scheduler = scheduler_of(store)
    letter = DeadLetter(b"the task", row, here, rows.template_of(0), START_MS, START_MS, 3, "it broke", b"")
    await SchedulerFiring(scheduler, trusted_time(), store, b"secret").put_dead_letters(
        [letter], [Ended(here, row, Outcome.DEAD)], []
    )
    assert len(await store.get_dead_letters([b"the task"])) == (outcome is Outcome.DEAD)


NEXT = Partition(0, bucket_of(START_MS) + BUCKET_MS, 0)


class AnotherHolder(NoPeers):
    """Of the next bucket."""

    answer = Offered.SILENT

    def is_here(self, partition: Partition) -> bool:
        return partition != NEXT

    async def offer(self, request: OfferRows) -> Offered | None:
        return self.answer


async def test_a_carry_whose_place_has_a_silent_holder_is_offered_again_and_nobody_waits_for_it() -> None:
    store, here = MemoryStore(), Partition(0, bucket_of(START_MS), 0)
    await store.append([carried(key("a"))])
    closed = Control(1, "other", "", NEXT.bucket_ms + 1_000, NEXT.bucket_ms).to_bytes()
    await store.cas([Cas(control_key(NEXT), None, closed)])
    other = AnotherHolder()
    scheduler = scheduler_of(store, peers=lambda _: other)
    scheduler.hold(here)
    await scheduler.step(START_MS)
    machine = scheduler.machines[here]
    row = sent(machine)
    lsn = machine.again([Again(here, row, NEXT.bucket_ms + 100, START_MS, "no")])
    scheduler.held.settle_soon(machine)
    await asyncio.wait_for(scheduler.held.durable(machine, lsn), 5)
    waits = not machine.is_idle
    other.answer = Offered.ADOPTED
    await asyncio.wait_for(scheduler.held.until_idle(), 5)
    assert (waits, machine.is_idle) == (True, True)
    [found] = await store.find(NEXT, [(NEXT.bucket_ms + 100, row.digest)])
    assert (len(found.rows), found.marks) == (1, [])


class OrderedStore(MemoryStore):
    """In which order things are written."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self._order = order

    async def settle(self, records: Sequence[SettleRecord], dead_letters: Sequence[DeadLetter] = ()) -> None:
        self._order.append("record")
        await super().settle(records, dead_letters)

    async def append(self, messages: Sequence[Append]) -> Sequence[Appended]:
        self._order.append("row")
        return await super().append(messages)


async def test_whoever_has_what_is_carried_to_another_instance_hears_of_it_before_its_row_is_there() -> None:
    """The store may be slow: the row may be read after the lease that it says, and fire although that was extended."""
    order: list[str] = []
    store, here = OrderedStore(order), Partition(0, bucket_of(START_MS), 0)
    await store.append([carried(key("a"))])
    scheduler = scheduler_of(store, peers=lambda _: AnotherHolder())
    scheduler.effect_runner.on_gone(lambda partition: order.append(f"told of {partition.bucket_ms - START_MS}"))
    scheduler.hold(here)
    await scheduler.step(START_MS)
    machine = scheduler.machines[here]
    row = sent(machine)
    machine.guard({row: NEXT.bucket_ms + 500}, START_MS, CarryReason.HAND_OVER)
    scheduler.held.settle_soon(machine)
    await asyncio.wait_for(scheduler.held.durable(machine, machine.last_lsn), 5)
    assert order == ["row", "record", f"told of {BUCKET_MS}", "row"]


async def test_nothing_is_kept_of_a_backlog_that_is_let_go_because_its_workers_left() -> None:
    store, queue = MemoryStore(), QueueKey("default", "mails")
    here = Partition(scope_of(*queue), bucket_of(START_MS), 0)
    await store.append([carried(key("a"), key("b"), partition=here)])
    scheduler = scheduler_of(store)
    scheduler.open_backlog(queue)
    await scheduler.step(START_MS)
    machine, held = scheduler.machines[here], scheduler.held
    taken = machine.take(queue, 1, START_MS)
    assert taken is not None
    lsn, _ = machine.end([Ended(here, taken.rows.keys()[0], Outcome.ACKED)])
    held.settle_soon(machine)
    await asyncio.wait_for(held.durable(machine, lsn), 5)
    del scheduler.scopes[here.scope]
    await scheduler.step(START_MS)
    assert (here in scheduler.machines, held._settled_s) == (False, {})
    # What was still to be settled soon.
    held._settle(machine)
    await held.until_idle()
    assert held._settled_s == {}


async def test_what_was_handed_over_is_only_kept_in_mind_by_a_stop_that_waits_for_its_next_holders() -> None:
    """With others a backlog is given away whenever its workers leave: for months."""
    scheduler = scheduler_of(MemoryStore())
    scheduler.hold(NEXT)
    machine = scheduler.machines[NEXT]
    scheduler.hand_over.ended(machine)
    assert not scheduler.hand_over._given
    scheduler.hand_over.is_leaving = True
    scheduler.hand_over.ended(machine)
    assert list(scheduler.hand_over._given) == [NEXT]
    await scheduler.held.until_idle()
