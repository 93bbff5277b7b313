"""What delivery asks of the partition machines of this instance: due rows out, endings in (the `Firing` seam)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TypeVar

from timerd.core.dispatch import RETURN_MS, Admission, Failure, InHand, InHandGate, RedeliveryGate, Settlement
from timerd.core.gates import Gate
from timerd.core.ordering import KeyGate, OrderedRows
from timerd.core.partition import PartitionMachine
from timerd.core.taken import LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import AckToken
from timerd.model.halts import Halt
from timerd.model.identity import RowKey, delivery_id_of
from timerd.model.partition import Partition, scope_of
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.engine.elsewhere import Elsewhere
from timerd.services.engine.late_acks import LateAcks
from timerd.services.engine.late_failures import LateFailures
from timerd.services.engine.loaded import Loaded
from timerd.services.engine.looking import Looking
from timerd.services.engine.peer_deliveries import PeerDeliveries
from timerd.services.engine.taking_turns import TakingTurns
from timerd.services.engine.verbs import ENDED, LOOKED_FOR_MS, Late, Otherwise, State
from timerd.services.engine.waits import wait_for_all
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.log_waits import NoLongerHeld
from timerd.services.holding.scheduler import Scheduler

log = logging.getLogger(__name__)
# Where partitions interleave (priorities, catch-up), rows are taken in stretches, so that not each row is a step of its
# own: of two partitions the order holds to a second.
STRETCH = 256
SLACK_MS = 1_000
# After a restart a worker may have all that is due. Each row that is not sent takes 20 us, and the loop serves others.
MOST_KEPT_BACK = 256
Item = TypeVar("Item", Ended, Again, AckedRows)


class SchedulerFiring:
    """Implements services.verbs.Firing on one scheduler. `return_ms`: what a worker has of a partition that was just
    taken over may have been extended with its last holder, and is heard of within this time. `peers`: where there are
    other instances. `gates`: those that are asked beside the standing ones. `awaited`: digests of the tasks whose
    ends callers wait for, as they are at each moment."""

    def __init__(
        self,
        scheduler: Scheduler,
        time: EngineTime,
        store: Store,
        secret: bytes,
        return_ms: int = RETURN_MS,
        peers: PeerDeliveries | None = None,
        gates: Sequence[Gate] = (),
        awaited: Set[bytes] = frozenset(),
    ) -> None:
        self.secret = secret
        self._scheduler = scheduler
        self._time = time
        self._store = store
        self._elsewhere = Elsewhere(scheduler, store)
        self._loaded = Loaded(scheduler)
        self._redelivery_guard = scheduler.deliveries.guard
        self.looking = Looking(self._redelivery_guard, self.clock_ms, peers)
        self.late_acks = LateAcks(scheduler, self._elsewhere, self._redelivery_guard, self.looking)
        self.late_failures = LateFailures(scheduler, store, self._elsewhere, self._redelivery_guard, secret, peers)
        self._halting = scheduler.halting
        self._awaited, self._order_keys = awaited, scheduler.memory.order_keys
        may_end = scheduler.halting.may_end
        redelivery = RedeliveryGate(self._redelivery_guard, self._lease_of, secret, return_ms, may_end)
        self._gates, self._last_gate = (redelivery, *gates), self._key_gate()
        self._turns = TakingTurns(scheduler, self._loaded, self._heard, MOST_KEPT_BACK)
        scheduler.deliveries.machine.key_hands.queues = self._turns.limit_keys.queues
        # Where there are other instances, a task may have been written into two partitions.
        self._in_hand: InHand | None = scheduler.deliveries.machine.places if peers is not None else None

    def firing_ms(self) -> int | None:
        return self._time.firing_ms()

    def clock_ms(self) -> int:
        return int(self._time.exact_ms())

    def take(self, queue: QueueKey, limit: int, now_ms: int, upto: int = LAST) -> Sequence[Taken]:
        in_hand = () if self._in_hand is None else (InHandGate(self._in_hand),)
        admission = Admission((*self._gates, *in_hand, self._last_gate))
        if queue in self._turns.limit_keys.queues:
            # In the turns of keys no order key says how far to go.
            return self._turns.take(queue, limit if upto == LAST else 1, now_ms, admission)
        taken: list[Taken] = []
        while limit > 0 and admission.kept_back < MOST_KEPT_BACK and (heads := self._loaded.heads(queue, now_ms)):
            (key, machine), most, until = heads[0], limit, upto
            if key > upto:
                break
            if len(heads) > 1:
                most, until = min(limit, STRETCH), min(upto, heads[1][0] + SLACK_MS)
            expires = not self._redelivery_guard.is_active(now_ms)
            batch = machine.take(queue, most, now_ms, expires=expires, upto=until, gates=(admission,))
            if admission.news:
                self._heard(machine, admission)
            if batch is not None:
                taken.append(batch)
                limit -= len(batch)
        return taken

    def _heard(self, machine: PartitionMachine, admission: Admission) -> None:
        """What the gates of the instance have said of its rows."""
        self._redelivery_guard.carried(machine, admission.requeued())
        admission.news.clear()
        self._scheduler.held.settle_soon(machine)

    def prepare(self, queue: QueueKey, until_ms: int) -> None:
        self._loaded.prepare(queue, until_ms)

    def next_due_ms(self, queue: QueueKey) -> int | None:
        return self._loaded.next_due_ms(queue)

    def touched(self) -> Collection[QueueKey]:
        memory = self._scheduler.memory
        touched = frozenset(memory.touched)
        # The partitions have this very set.
        memory.touched.clear()
        return touched

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        return self._loaded.due_rows(queue, until_ms, most)

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        return self._loaded.head_key(queue, now_ms)

    def on_due(self, wake: Callable[[], None]) -> None:
        self._scheduler.held.on_due(wake)

    def worked(self, queue: QueueKey, *, present: bool) -> None:
        scope = scope_of(*queue)
        if present:
            self._scheduler.memory.worked.add(queue)
            self._scheduler.open_backlog(queue)
        else:
            self._scheduler.memory.worked.discard(queue)
            self._scheduler.scopes.pop(scope, None)

    def end(self, ended: Sequence[Ended], otherwise: Otherwise) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        elsewhere = partial(self._end_elsewhere, otherwise)
        for machine, items in self._by_machine(ended):
            if machine is None:
                waits += map(elsewhere, items)
                continue
            lsn, missing = machine.end(items)
            waits.append(self._or_elsewhere(self._scheduler.held.durable(machine, lsn), items, elsewhere))
            waits += map(elsewhere, missing)
            self._settle_soon(machine, (item.key.digest for item in items))
        return wait_for_all(waits)

    def expire(self, failed: Sequence[Again]) -> Awaitable[None]:
        """What was carried on while its worker had it, or is held by others by now, expires there by itself."""
        waits: list[Awaitable[None]] = []
        for machine, items in self._by_machine(failed):
            if machine is not None:
                lsn, _ = machine.expire(items)
                waits.append(_unless_let_go(self._scheduler.held.durable(machine, lsn)))
                self._settle_soon(machine, (item.key.digest for item in items))
        return wait_for_all(waits)

    def end_acked(self, acked: Sequence[AckedRows], otherwise: Otherwise) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        elsewhere = partial(self._end_elsewhere, otherwise)
        for machine, parts in self._by_machine(acked):
            if machine is None:
                waits.append(self.end(list(_each_of(parts)), otherwise))
                continue
            closed, others = machine.end_acked(parts)
            if closed:
                durable = self._scheduler.held.durable(machine, machine.lsn)
                waits.append(self._or_elsewhere(durable, _each_of(closed), elsewhere))
                self._settle_soon(machine, chain.from_iterable(part.digests for part in closed))
            if others:
                waits.append(self.end(others, otherwise))
        return wait_for_all(waits)

    def again(self, failed: Sequence[Again]) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        for machine, items in self._by_machine(failed):
            held = [item for item in items if machine is not None and machine.is_open(item.key)]
            if machine is not None and held:
                durable = self._scheduler.held.durable(machine, machine.again(held))
                waits.append(self._or_elsewhere(durable, held, self.late_failures.again))
                self._settle_soon(machine, (item.key.digest for item in held))
            if len(held) < len(items):
                opened = {item.key for item in held}
                waits += [self.late_failures.again(item) for item in items if item.key not in opened]
        return wait_for_all(waits)

    def put_back(self, unbegun: Sequence[Again]) -> Awaitable[None]:
        """Nothing is written: on disk they never left."""
        machines = self._scheduler.machines
        elsewhere = []
        for item in unbegun:
            machine = machines.get(item.partition)
            if machine is None or not machine.put_back(item.key):
                elsewhere.append(item)
        self._scheduler.held.wake()
        return self.again(elsewhere)

    def put_dead_letters(
        self, dead_letters: Sequence[DeadLetter], ended: Sequence[Ended], otherwise: Otherwise
    ) -> Awaitable[None]:
        """In the record that ends them; of rows that are not open here the dead letters first. What halts its ordering
        key is noted before that (rule F1)."""
        if halts := self._halting.of(dead_letters):
            return self._put_halting(halts, dead_letters, ended, otherwise)
        waits: list[Awaitable[None]] = []
        letter_of = dict(zip(ended, dead_letters, strict=True))
        for machine, items in self._by_machine(ended):
            missing = items
            if machine is not None:
                lsn, missing = machine.end(items)
                gone = set(items).difference(missing)
                acked = [item for item in missing if machine.recorded(item.key) is Outcome.ACKED]
                otherwise += [(item, State.ACKED) for item in acked]
                missing = [item for item in missing if item not in acked]
                machine.put_dead_letters(letter_of[item] for item in gone)
                durable = self._scheduler.held.durable(machine, lsn)
                waits.append(
                    self._or_elsewhere(
                        durable, gone, lambda item: self.late_failures.put_dead_letter(letter_of[item], item)
                    )
                )
                self._settle_soon(machine, (item.key.digest for item in gone))
            if missing:
                waits.append(
                    self.late_failures.put_dead_letters_elsewhere([letter_of[item] for item in missing], missing)
                )
        return wait_for_all(waits)

    async def _put_halting(
        self, halts: Sequence[Halt], dead_letters: Sequence[DeadLetter], ended: Sequence[Ended], otherwise: Otherwise
    ) -> None:
        await self._halting.note(halts)
        await self.put_dead_letters(dead_letters, ended, otherwise)

    async def end_late(self, late: Sequence[AckToken]) -> Sequence[Late]:
        return await self.late_acks.end(late)

    async def fail_late(self, token: AckToken, failure: Failure) -> State | None:
        delivery_id = delivery_id_of(token.key.digest, token.key.version)
        counts = not self.looking.is_acked(delivery_id) and await self.late_failures.fail(token, failure)
        if self.looking.is_acked(delivery_id):
            return None if counts else State.ACKED
        self._redelivery_guard.forget(delivery_id)
        if counts or not failure.hopeless:
            return None if counts else State.PENDING
        state = await self._elsewhere.ended_as(token.partition, token.key)
        return None if state is State.DEAD else state

    async def state_of(self, token: AckToken) -> State:
        delivery_id = delivery_id_of(token.key.digest, token.key.version)
        place = self._redelivery_guard.place_of(delivery_id, (token.partition, token.key))
        known = self._elsewhere.in_memory(*place)
        if known is None:
            return await self._elsewhere.ended_as(token.partition, token.key)
        if known.outcome is None:
            return State.CANCELLED if known.machine.is_stopped(known.key) else State.PENDING
        return ENDED[known.outcome]

    def waiting_in(self, partition: Partition) -> set[bytes]:
        """Delivery ids of what workers have and whose rows were carried there."""
        return self._redelivery_guard.waiting_in(partition)

    def leased(self, lease_until: Mapping[bytes, int]) -> None:
        self._redelivery_guard.hold(lease_until)

    def settling(self, settlement: Settlement, now_ms: int) -> Sequence[bytes]:
        acked = self._redelivery_guard.waiting(chain(settlement.ended, _each_of(settlement.acked)))
        acked += settlement.late.values()
        failed = self._redelivery_guard.waiting(chain(settlement.again, settlement.dead, settlement.expired))
        failed += [delivery_id_of(late.token.key.digest, late.token.key.version) for late in settlement.failed_late]
        if failed:
            self._redelivery_guard.hold(dict.fromkeys(failed, now_ms + LOOKED_FOR_MS))
        if acked:
            self.looking.acked(acked)
        return acked

    def answered(self, delivery_ids: Collection[bytes]) -> None:
        self.looking.answered(delivery_ids)

    # -- inside ---------------------------------------------------------------------------------------------------

    def _key_gate(self) -> KeyGate:
        """The last one: what passes it is sent."""
        scheduler = self._scheduler
        machines, brought = scheduler.machines, scheduler.deliveries.machine.before.brought

        def home(partition: Partition) -> OrderedRows | None:
            machine = machines.get(partition)
            return machine.ordered if machine is not None else None

        scheduler.deliveries.machine.on_older_ack(scheduler.memory.order_keys)
        known_ms = scheduler.read_through.known_ms
        return KeyGate(scheduler.memory.order_keys, home, known_ms, lambda: brought.heard_by_ms)

    def _lease_of(self, key: RowKey) -> int:
        return max(self._scheduler.deliveries.lease_of(key) or 0, self._redelivery_guard.until_ms(key))

    def _by_machine(self, items: Sequence[Item]) -> Iterable[tuple[PartitionMachine | None, list[Item]]]:
        parts: dict[Partition, list[Item]] = defaultdict(list)
        for item in items:
            parts[item.partition].append(item)
        return [(self._scheduler.machines.get(p), part) for p, part in parts.items()]

    def _settle_soon(self, machine: PartitionMachine, digests: Iterable[bytes]) -> None:
        """At once where a caller waits for one of these ends, or the next task of an ordering key does."""
        self._scheduler.held.settle_soon(machine, is_awaited=self._is_awaited(digests))

    def _is_awaited(self, digests: Iterable[bytes]) -> bool:
        """What nobody waits for is not looked at."""
        if not self._awaited and not self._order_keys.blocking:
            return False
        ended = list(digests)
        return not self._awaited.isdisjoint(ended) or self._order_keys.keeps_back(ended)

    async def _or_elsewhere(
        self, durable: Awaitable[None], items: Iterable[Item], elsewhere: Callable[[Item], Awaitable[None]]
    ) -> None:
        """Of what another instance took over before it was written."""
        try:
            await durable
        except NoLongerHeld:
            for item in items:
                await elsewhere(item)

    async def _end_elsewhere(self, otherwise: Otherwise, item: Ended) -> None:
        """Its row was carried on while the worker had it: the task ends where it lives now."""
        state = await self.late_acks.end_one(AckToken(item.partition, item.key, 0))
        if state is not None:
            otherwise.append((item, state))


async def _unless_let_go(durable: Awaitable[None]) -> None:
    with suppress(NoLongerHeld):
        await durable


def _each_of(acked: Iterable[AckedRows]) -> Iterator[Ended]:
    """One by one, when they are asked for."""
    return chain.from_iterable(part.each() for part in acked)
