"""Lends the credit of this instance's own workers to the instances that have tasks for them, and takes it back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from timerd.core.dispatch import DeliveryMachine, Grants, Loan, Want
from timerd.core.taken import QueueKey
from timerd.peer.v1 import relay_pb2 as pb
from timerd.services.engine.verbs import Firing
from timerd.services.work.asking import Asking, at_once
from timerd.services.work.home_worker import HomeWorker
from timerd.services.work.link import Link

# Credit that own tasks do not use which are due is looked at so often: they wait for a limit, as others' may.
HELD_BACK_MS = 50
LEAVING = pb.RelayRequest(leaving=pb.HomeLeaving())


class CreditAllocation:
    """Implements services.dispatch.ports.RemoteInstances, with the other direction (`asking`) in it. `links`: to the
    other instances. Credit that was lent to this instance is in delivery's count, too, but not in that of its own
    workers: it is never lent on. `opens_ms`: when rows of a queue may be sent."""

    def __init__(
        self,
        machine: DeliveryMachine,
        firing: Firing,
        links: dict[int, Link],
        opens_ms: Callable[[QueueKey, int], float] = at_once,
    ) -> None:
        self.workers: dict[int, HomeWorker] = {}
        self.links = links
        self.asking = Asking(machine, firing, opens_ms)
        self._machine = machine
        self._firing = firing
        self._wakes: list[Callable[[], None]] = []
        self._grants = Grants()
        # Queue -> its own workers.
        self._serving: dict[QueueKey, set[int]] = {}
        # Queues whose last own worker went, and when the peers are to hear of it.
        self._leaving: dict[QueueKey, int] = {}
        self._is_draining = False

    @property
    def is_busy(self) -> bool:
        return any(worker.remote for worker in self.workers.values())

    def listen(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    # -- rounds ---------------------------------------------------------------------------------------------------

    def before(self, now_ms: int) -> None:
        self._call_in(self._grants.overdue(now_ms))
        self._stop_serving(now_ms)
        for queue in self._grants.wanted():
            self._lend(queue, now_ms)

    def after(self, now_ms: int) -> float:
        times: list[float] = [self.asking.look(now_ms)]
        if (wake_ms := self._grants.next_wake_ms()) is not None:
            times.append(wake_ms)
        times += self._leaving.values()
        if spare := [queue for queue in self._grants.wanted() if self._free(queue)]:
            times.append(now_ms + (HELD_BACK_MS if all(self._is_due(queue, now_ms) for queue in spare) else 1))
        return min(times, default=math.inf)

    def _is_due(self, queue: QueueKey, now_ms: int) -> bool:
        """Own tasks are, so something else than credit keeps them back. Else not all was needed of what was meant for
        them."""
        return self._firing.head_key(queue, now_ms) is not None

    def slot_wants(self) -> Iterable[tuple[QueueKey, int, int]]:
        for queue in self._with_slots():
            for peer, want in self._grants.first_wants(queue):
                yield queue, want.key, peer

    def lend_slots(self, queue: QueueKey, peer: int, slots: int, now_ms: int) -> None:
        for number, part in self._machine.capacity.pools.take(queue, slots):
            self._lend_to(peer, number, queue, part, now_ms)

    def lend_spare_slots(self, now_ms: int) -> None:
        for queue in self._with_slots():
            for peer, want in self._grants.wants(queue):
                if slots := min(want.tasks, self._machine.capacity.pools.free(queue)):
                    self.lend_slots(queue, peer, slots, now_ms)

    def drain(self) -> None:
        """Where the workers deliveries are, they are theirs until their leases end."""
        self._is_draining = True
        self._call_in(self._grants.call_in())
        self.asking.drain()
        for link in self.links.values():
            link.send(LEAVING)

    # -- own workers ----------------------------------------------------------------------------------------------

    def queues(self) -> Iterable[QueueKey]:
        """Those that own workers want tasks of."""
        return list(self._serving)

    def serve(self, worker: HomeWorker, queue: QueueKey) -> None:
        if queue in worker.queues:
            return
        worker.queues.add(queue)
        workers = self._serving.setdefault(queue, set())
        workers.add(worker.number)
        if len(workers) == 1 and self._leaving.pop(queue, None) is None:
            self._tell_served(queue, served=True)

    def left(self, worker: HomeWorker, now_ms: int) -> None:
        """Its credit is void. If it was the last one of a queue it may come back within the grace."""
        self.void(worker.number)
        for queue in worker.queues:
            workers = self._serving[queue]
            workers.remove(worker.number)
            if not workers:
                del self._serving[queue]
                self._leaving[queue] = now_ms + self._machine.grace_ms

    def void(self, worker: int) -> None:
        self._grants.worker_gone(worker)

    def slow(self, worker: int) -> None:
        """It does not read what it was sent."""
        self._call_in(self._grants.call_in(worker))

    # -- peers ----------------------------------------------------------------------------------------------------

    def up(self, link: Link) -> None:
        self.links[link.number] = link
        if self._is_draining:
            link.send(LEAVING)
        for queue in (*self._serving, *self._leaving):
            link.send(_served(queue, served=True))

    def down(self, link: Link) -> None:
        del self.links[link.number]
        for loan, tasks in self._grants.peer_gone(link.number):
            self._machine.give_back(loan.worker, loan.queue, tasks)
        self._wake()

    def wanted(self, link: Link, said: pb.CreditWanted) -> None:
        self._grants.want(link.number, QueueKey(said.namespace, said.queue), Want(said.tasks, said.order_key))
        self._wake()

    def used(self, link: Link, worker: HomeWorker, queue: str, tasks: int) -> None:
        loan = Loan(link.number, worker.number, QueueKey(worker.namespace, queue))
        self._grants.used(loan, tasks)
        if self._machine.capacity.pools.free(loan.queue):
            # The peer takes part again in who gets the next slot.
            self._wake()

    def returned(self, link: Link, said: pb.CreditReturned, now_ms: int) -> None:
        worker = self.workers.get(said.worker)
        if worker is not None:
            queue = QueueKey(worker.namespace, said.queue)
            back = self._grants.returned(Loan(link.number, worker.number, queue), said.tasks, now_ms)
            self._machine.give_back(worker.number, queue, back)
            if back and self._machine.capacity.pools.pool_of(worker.number, queue) is not None:
                self._grants.pass_over(link.number, queue)
            self._wake()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()

    def _free(self, queue: QueueKey) -> list[tuple[int, int]]:
        """Credit of own workers, next in turn first."""
        return [each for each in self._machine.free_credit(queue) if each[0] in self.workers]

    def _lend(self, queue: QueueKey, now_ms: int) -> None:
        free = self._free(queue)
        if not free:
            return
        credit = sum(tasks for _, tasks in free)
        shares = self._grants.shares(queue, credit, self._firing.head_key(queue, now_ms))
        for peer, tasks in shares.items():
            for number, part in _spread(self._free(queue), tasks):
                self._machine.lend(number, queue, part)
                self._lend_to(peer, number, queue, part, now_ms)

    def _lend_to(self, peer: int, number: int, queue: QueueKey, tasks: int, now_ms: int) -> None:
        self._grants.lend(Loan(peer, number, queue), tasks, now_ms)
        self._grant(self.links[peer], self.workers[number], queue, tasks)

    def _with_slots(self) -> list[QueueKey]:
        """Those that others want credit for, and that a free slot of a pool can run."""
        pools = self._machine.capacity.pools
        if self._is_draining or not pools:
            return []
        return [queue for queue in self._grants.wanted() if pools.free(queue)]

    def _grant(self, link: Link, worker: HomeWorker, queue: QueueKey, tasks: int) -> None:
        link.open(worker.number, worker.namespace, worker.lease_ms, worker.name, worker.called)
        granted = pb.CreditGranted(worker=worker.number, queue=queue.queue, tasks=tasks)
        link.send(pb.RelayRequest(granted=granted))

    def _stop_serving(self, now_ms: int) -> None:
        for queue in [queue for queue, at_ms in self._leaving.items() if at_ms <= now_ms]:
            del self._leaving[queue]
            self._tell_served(queue, served=False)

    def _call_in(self, loans: Iterable[Loan]) -> None:
        for loan in loans:
            revoked = pb.CreditRevoked(worker=loan.worker, queue=loan.queue.queue)
            self.links[loan.peer].send(pb.RelayRequest(revoked=revoked))

    def _tell_served(self, queue: QueueKey, *, served: bool) -> None:
        for link in self.links.values():
            link.send(_served(queue, served=served))


def _served(queue: QueueKey, *, served: bool) -> pb.RelayRequest:
    return pb.RelayRequest(served=pb.QueueServed(namespace=queue.namespace, queue=queue.queue, served=served))


def _spread(free: list[tuple[int, int]], tasks: int) -> list[tuple[int, int]]:
    """Whose credit it is: that of all alike, as far as it goes."""
    left = dict(free)
    parts: dict[int, int] = {}
    while tasks > 0:
        even = -(-tasks // len(left))
        for worker, credit in list(left.items()):
            part = min(even, credit, tasks)
            tasks -= part
            left[worker] -= part
            if part:
                parts[worker] = parts.get(worker, 0) + part
            if not left[worker]:
                del left[worker]
    return list(parts.items())
