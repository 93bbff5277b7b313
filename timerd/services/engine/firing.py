"""What delivery asks of the partition machines of this instance: due rows out, endings in (the `Firing` seam)."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol, TypeVar

from timerd.core.cancel import Cancelled, end_task
from timerd.core.closing_open import end_acked
from timerd.core.holding import Phase
from timerd.core.lookup import locate
from timerd.core.partition_machine import PartitionMachine
from timerd.core.settlement import Failure, Settlement, fail_row
from timerd.core.taken import LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import AckToken
from timerd.model.errors import StoreUnavailable, StoreUnknown, Unavailable
from timerd.model.identity import RowKey, delivery_id_of, generation_of
from timerd.model.partition import Partition, scope_of
from timerd.model.settle import CarryReason, Outcome
from timerd.model.storage import DeadLetter
from timerd.ports import Store
from timerd.services.engine.elsewhere import SAY_AGAIN_MS, Elsewhere, silent
from timerd.services.engine.held_back import HeldBack
from timerd.services.engine.joining import InHand, Together, apart
from timerd.services.engine.late_acks import LateAcks
from timerd.services.engine.loaded import Loaded
from timerd.services.engine.looking import Looking
from timerd.services.engine.prolonging import Prolonging
from timerd.services.engine.sifting import sift
from timerd.services.engine.verbs import LOOKED_FOR_MS
from timerd.services.engine.waits import wait_for_all
from timerd.services.holding.driving import drive
from timerd.services.holding.effector import RETRY_S
from timerd.services.holding.engine_time import EngineTime
from timerd.services.holding.scheduler import Scheduler
from timerd.services.holding.tickets import NoLongerHeld

log = logging.getLogger(__name__)
# Where partitions interleave (priorities, catch-up), rows are taken in stretches, so that not each row is a step of its
# own: of two partitions the order holds to a second.
STRETCH = 256
SLACK_MS = 1_000
# After a restart a worker may have all that is due. Each row that is not sent takes 20 us, and the loop serves others.
MOST_KEPT_BACK = 256
Item = TypeVar("Item", Ended, Again, AckedRows)


class Forwards(Protocol):
    """Tells the instance that holds a partition of a failed delivery whose row waits there. None: nobody said that he
    holds it; else whether the failure counted."""

    async def __call__(self, partition: Partition, token: AckToken, failure: Failure) -> bool | None: ...


class Firing:
    """Implements services.verbs.Firing on one scheduler. `resume_grace_ms`: what a worker has of a partition that was
    just taken over may have been extended with its last holder, and is heard of within this time."""

    def __init__(
        self, scheduler: Scheduler, time: EngineTime, store: Store, secret: bytes, resume_grace_ms: int = 1_000
    ) -> None:
        self.secret = secret
        self._scheduler = scheduler
        self._time = time
        self._store = store
        self._elsewhere = Elsewhere(scheduler, store)
        self._loaded = Loaded(scheduler)
        self._held_back = HeldBack()
        self.looking = Looking(self._held_back)
        self._late_acks = LateAcks(self._elsewhere, self._held_back, self.looking, self.clock_ms)
        self._grace_ms = resume_grace_ms
        # Where there are other instances.
        self.forward: Forwards | None = None
        self.in_hand: InHand | None = None
        scheduler.held.carried, scheduler.held.waits = self._held_back.carried, self._held_back.waits
        scheduler.held.any_waits = self._held_back.any_waits
        scheduler.held.held_until_ms = self._held_back.lease_ms
        prolonging = Prolonging(scheduler.held, self._held_back, self._elsewhere.look, store)
        scheduler.held.prolong = prolonging.prolong_all

    def firing_ms(self) -> int | None:
        return self._time.firing_ms()

    def clock_ms(self) -> int:
        return int(self._time.exact_ms())

    def take(self, queue: QueueKey, limit: int, now_ms: int) -> Sequence[Taken]:
        taken: list[Taken] = []
        together: Together = {}
        kept_back = 0
        while limit > 0 and kept_back < MOST_KEPT_BACK and (heads := self._loaded.heads(queue, now_ms)):
            machine, most, upto = heads[0][1], limit, LAST
            if len(heads) > 1:
                most, upto = min(limit, STRETCH), heads[1][0] + SLACK_MS
            expires = not self._held_back.is_active(now_ms)
            batch = machine.take(queue, most, now_ms, expires=expires, upto=upto)
            if batch is not None:
                kept_back += len(batch)
                batch = self._sift(machine, batch, now_ms)
                kept_back -= len(batch) if batch is not None else 0
            if batch is not None and self.in_hand is not None:
                batch = self._apart(machine, batch, self.in_hand, together)
            if batch is not None:
                taken.append(batch)
                limit -= len(batch)
        return taken

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

    def end(self, ended: Sequence[Ended]) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        for machine, items in self._by_machine(ended):
            if machine is None:
                waits += [self._end_elsewhere(item) for item in items]
                continue
            ticket, missing = machine.end(items)
            waits.append(self._or_elsewhere(self._scheduler.held.durable(machine, ticket), items, self._end_elsewhere))
            waits += [self._end_elsewhere(item) for item in missing]
            self._scheduler.held.settle_soon(machine)
        return wait_for_all(waits)

    def end_acked(self, acked: Sequence[AckedRows]) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        for machine, parts in self._by_machine(acked):
            if machine is None:
                waits.append(self.end(list(_each_of(parts))))
                continue
            closed, others = end_acked(machine.rows, machine.log, parts)
            if closed:
                durable = self._scheduler.held.durable(machine, machine.log.ticket)
                waits.append(self._or_elsewhere(durable, _each_of(closed), self._end_elsewhere))
                self._scheduler.held.settle_soon(machine)
            if others:
                waits.append(self.end(others))
        return wait_for_all(waits)

    def again(self, failed: Sequence[Again]) -> Awaitable[None]:
        waits: list[Awaitable[None]] = []
        for machine, items in self._by_machine(failed):
            held = [item for item in items if machine is not None and machine.rows.is_open(item.key)]
            if machine is not None and held:
                durable = self._scheduler.held.durable(machine, machine.again(held))
                waits.append(self._or_elsewhere(durable, held, self._again_elsewhere))
                self._scheduler.held.settle_soon(machine)
            if len(held) < len(items):
                opened = {item.key for item in held}
                waits += [self._again_elsewhere(item) for item in items if item.key not in opened]
        return wait_for_all(waits)

    def put_back(self, unbegun: Sequence[Again]) -> Awaitable[None]:
        """Nothing is written: on disk they never left."""
        machines = self._scheduler.machines
        elsewhere = []
        for item in unbegun:
            machine = machines.get(item.partition)
            if machine is None or machine.phase is not Phase.HOT or not machine.rows.put_back(item.key):
                elsewhere.append(item)
        self._scheduler.held.wake()
        return self.again(elsewhere)

    def bury(self, letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> Awaitable[None]:
        """In the record that ends them; of rows that are not open here the letters first."""
        waits: list[Awaitable[None]] = []
        letter_of = dict(zip(ended, letters, strict=True))
        for machine, items in self._by_machine(ended):
            missing = items
            if machine is not None:
                ticket, missing = machine.end(items)
                gone = set(items).difference(missing)
                machine.log.bury(letter_of[item] for item in gone)
                durable = self._scheduler.held.durable(machine, ticket)
                waits.append(self._or_elsewhere(durable, gone, lambda item: self._bury_one(letter_of[item], item)))
                self._scheduler.held.settle_soon(machine)
            if missing:
                waits.append(self._bury_elsewhere([letter_of[item] for item in missing], missing))
        return wait_for_all(waits)

    async def end_late_here(self, late: Sequence[AckToken]) -> list[AckToken]:
        return await self._late_acks.end_here(late)

    async def end_late(self, token: AckToken) -> bool:
        """Of a task that lives elsewhere, or nowhere any more. Its row does not fire while it is looked for, and what
        it has ended as is durable when this returns."""
        delivery_id = delivery_id_of(token.key.digest, token.key.version)
        is_elsewhere = self._held_back.waits_in(delivery_id, token.partition) not in self._scheduler.machines
        with self.looking.for_row_of(delivery_id, self.clock_ms(), is_elsewhere=is_elsewhere):
            if not is_elsewhere and (leaves := self._held_back.leaves(delivery_id)) is not None:
                await self._elsewhere.until_left(*leaves)
            place = self._held_back.place_of(delivery_id, (token.partition, token.key))
            known = self._elsewhere.end_in_memory(*place)
            return await (self._end_where_it_lives(token) if known is None else known)

    async def _end_where_it_lives(self, token: AckToken) -> bool:
        task = await self._elsewhere.task_of(token.partition, token.key)
        if task is None:
            return False
        here = await drive(locate(task), self._scheduler.procedures)
        generation = generation_of(token.key.version)
        if generation_of(here.place.key.version) != generation:
            # It was moved since: this delivery is over, the one that the move promised is not.
            return True
        said = await drive(end_task(task, Outcome.ACKED, b"late ack", generation), self._scheduler.procedures)
        if said is Cancelled.PENDING:
            raise silent()
        if said is Cancelled.IN_FLIGHT:
            log.info("a late ack ended the retries of a task that is with another worker")
        machine = self._scheduler.machines.get(here.place.partition)
        if machine is not None:
            self._scheduler.held.settle_soon(machine)
            await self._scheduler.held.durable(machine, machine.log.last_ticket)
        return said in (Cancelled.CANCELLED, Cancelled.IN_FLIGHT)

    async def fail_late(self, token: AckToken, failure: Failure) -> bool:
        delivery_id = delivery_id_of(token.key.digest, token.key.version)
        found = not self.looking.is_acked(delivery_id) and await self._fail_where_it_waits(token, failure)
        if not self.looking.is_acked(delivery_id):
            self._held_back.forget(delivery_id)
        return found

    async def _fail_where_it_waits(self, token: AckToken, failure: Failure) -> bool:
        here = await self._elsewhere.look(token.partition, token.key)
        if here is None or here.rows is None:
            return False
        if self.forward is not None and self._is_elsewhere(here.place.partition):
            return await self._fail_there(self.forward, here.place.partition, token, failure)
        taken = Taken(token.partition, token.fencing_token, here.rows, [token.key.digest])
        settlement = Settlement()
        fail_row(settlement, taken, 0, token.key, failure, self.secret)
        if settlement.again:
            await self.again(settlement.again)
            return True
        return await self._bury(settlement.letters, settlement.dead)

    def _is_elsewhere(self, partition: Partition) -> bool:
        """It is neither held here nor going to be."""
        placed = self._scheduler.hand_over.place_of(partition)
        return partition not in self._scheduler.machines and placed != self._scheduler.membership.name

    async def _fail_there(self, forward: Forwards, partition: Partition, token: AckToken, failure: Failure) -> bool:
        said = await forward(partition, token, failure)
        if said is None:
            raise silent()
        return said

    async def _forwarded(self, partition: Partition, key: RowKey, failure: Failure) -> bool | None:
        """Whether it counted with the instance that has to see to it. None: there is no other."""
        if self.forward is None:
            return None
        here = await self._elsewhere.look(partition, key)
        if here is None or not self._is_elsewhere(here.place.partition):
            return None
        return await self._fail_there(self.forward, here.place.partition, AckToken(partition, key, 0), failure)

    def waiting_in(self, partition: Partition) -> set[bytes]:
        """Delivery ids of what workers have and whose rows were carried there."""
        return self._held_back.waiting_in(partition)

    def leased(self, lease_until: Mapping[bytes, int]) -> None:
        self._held_back.hold(lease_until)

    def settling(self, settlement: Settlement, now_ms: int) -> None:
        acked = _each_of(settlement.acked)
        ids = self._held_back.waiting(chain(settlement.ended, acked, settlement.again, settlement.dead))
        tokens = (*settlement.late, *(late.token for late in settlement.failed_late))
        ids += [delivery_id_of(token.key.digest, token.key.version) for token in tokens]
        if ids:
            self._held_back.hold(dict.fromkeys(ids, now_ms + LOOKED_FOR_MS))

    # -- inside ---------------------------------------------------------------------------------------------------

    def _sift(self, machine: PartitionMachine, batch: Taken, now_ms: int) -> Taken | None:
        """Without what may not be sent although it is due."""
        suspects = self._held_back.suspects(batch, now_ms)
        if not len(suspects):
            return batch
        found = sift(batch, suspects, self._lease_of, machine.since_ms + self._grace_ms, now_ms, self.secret)
        if found.leases:
            machine.guard(found.leases, now_ms, CarryReason.GUARD, was_sent=False)
            self._held_back.carried(machine, found.leases)
            self._scheduler.held.settle_soon(machine)
        if found.dead:
            self.bury(found.letters, found.dead)
        if found.expired:
            self.end(found.expired)
        return found.left

    def _apart(self, machine: PartitionMachine, batch: Taken, in_hand: InHand, together: Together) -> Taken | None:
        left = apart(machine, batch, in_hand, together)
        if left is not batch:
            self._scheduler.held.settle_soon(machine)
        return left

    def _lease_of(self, key: RowKey) -> int:
        return max(self._scheduler.held.lease_of(key) or 0, self._held_back.until_ms(key))

    def _by_machine(self, items: Sequence[Item]) -> Iterable[tuple[PartitionMachine | None, list[Item]]]:
        parts: dict[Partition, list[Item]] = defaultdict(list)
        for item in items:
            parts[item.partition].append(item)
        return [(self._scheduler.machines.get(p), part) for p, part in parts.items()]

    async def _or_elsewhere(
        self, durable: Awaitable[None], items: Iterable[Item], elsewhere: Callable[[Item], Awaitable[None]]
    ) -> None:
        """Of what another instance took over before it was written."""
        try:
            await durable
        except NoLongerHeld:
            for item in items:
                await elsewhere(item)

    async def _bury_one(self, letter: DeadLetter, item: Ended) -> None:
        """Who says so hears it where it did not count: the same row may be with a worker again."""
        failure = Failure(letter.died_at_ms, letter.last_error, hopeless=True)
        counts = await self._forwarded(item.partition, item.key, failure)
        if counts is None:
            counts = await self._bury([letter], [item])
        if not counts:
            raise Unavailable(
                "Its partition has changed hands: say it again.", "HOLDER_CHANGED", retry_after_ms=SAY_AGAIN_MS
            )

    async def _bury_elsewhere(self, letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> None:
        if self.forward is None:
            await self._bury(letters, ended)
            return
        for letter, item in zip(letters, ended, strict=True):
            await self._bury_one(letter, item)

    async def _bury(self, letters: Sequence[DeadLetter], ended: Sequence[Ended]) -> bool:
        """The deliveries are over for the workers: the store is asked until it has done it. Whether all have ended."""
        while True:
            try:
                await self._store.bury(letters)
                break
            except (StoreUnavailable, StoreUnknown) as error:
                log.warning("%d dead letters: %s; trying again", len(letters), error)
                await asyncio.sleep(RETRY_S)
        return all([await self._end_buried(letter, item) for letter, item in zip(letters, ended, strict=True)])

    async def _end_buried(self, letter: DeadLetter, item: Ended) -> bool:
        """Its row was carried on while the worker had it. False: it has ended meanwhile, or is with another worker, so
        this failure came too late."""
        has_ended = await self._elsewhere.end(item)
        if not has_ended:
            await self._store.exhume([letter.task_id])
        self._held_back.forget(delivery_id_of(item.key.digest, item.key.version))
        return has_ended

    async def _end_elsewhere(self, item: Ended) -> None:
        """Its row was carried on while the worker had it: the task ends where it lives now. What has expired does so
        there by itself."""
        if item.outcome is not Outcome.EXPIRED:
            await self.end_late(AckToken(item.partition, item.key, 0))

    async def _again_elsewhere(self, item: Again) -> None:
        failure = Failure(item.failed_at_ms, item.last_error, max(0, item.position_ms - item.failed_at_ms))
        if self._scheduler.held.came_since(item.key, item.failed_at_ms):
            return
        if await self._forwarded(item.partition, item.key, failure) is not None or await self._elsewhere.again(item):
            self._held_back.forget(delivery_id_of(item.key.digest, item.key.version))


def _each_of(acked: Iterable[AckedRows]) -> Iterator[Ended]:
    """One by one, when they are asked for."""
    return chain.from_iterable(part.each() for part in acked)
