"""The part of a round that fills free slots of pools: the task with the greatest score first, here or elsewhere.

What a limit keeps back, or what is not given when it is taken, never holds a slot: another queue has it in the same
step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from timerd.core.assignment import HERE, Choice, Contest
from timerd.core.dispatch import Assignment, DeliveryMachine, Limits, Quantum
from timerd.core.taken import QueueKey
from timerd.services.dispatch.due_looks import DueLooks
from timerd.services.dispatch.ports import RemoteInstances
from timerd.services.engine.verbs import Firing

# Sends what was assigned of a queue at an instant, and returns when there may be more of it.
Send = Callable[[QueueKey, Sequence[Assignment], int], float]


class PoolRound:
    """`send_due` is called once a round. `limits`: those of the queue, without credit. `remote`: where there are other
    instances."""

    def __init__(
        self,
        machine: DeliveryMachine,
        firing: Firing,
        looks: DueLooks,
        limits: Limits,
        quantum: Quantum,
        send: Send,
        remote: RemoteInstances | None,
    ) -> None:
        self._machine = machine
        self._pools = machine.capacity.pools
        self._firing = firing
        self._looks = looks
        self._limits = limits
        self._quantum = quantum
        self._send = send
        self._remote = remote

    def send_due(self, queues: Collection[QueueKey], now_ms: int) -> bool:
        """`queues`: those with something due. False: the round is used up before all of them were visited."""
        if not self._pools:
            return True
        contest = Contest(self._pools)
        own = [queue for queue in queues if self._pools.free(queue) and self._machine.wanted(queue)]
        for queue in own:
            self._enter(contest, queue, now_ms)
        for want in self._remote.slot_wants() if self._remote is not None else ():
            contest.enter(*want)
        while (choice := contest.next()) is not None:
            if self._quantum.is_used_up:
                return False
            self._fill(contest, choice, now_ms)
        if self._remote is not None:
            self._remote.lend_spare_slots(now_ms)
        for queue in own:
            if not self._machine.wanted(queue):
                self._looks.seen(queue, now_ms)
        return True

    def _enter(self, contest: Contest, queue: QueueKey, now_ms: int) -> None:
        """What has no order key goes by when it may be sent: a limit key that has waited for its rate."""
        key = self._firing.head_key(queue, now_ms)
        contest.enter(queue, now_ms if key is None else key)

    def _fill(self, contest: Contest, choice: Choice, now_ms: int) -> None:
        if choice.holder != HERE:
            if self._remote is not None:
                self._remote.lend_slots(choice.queue, choice.holder, 1, now_ms)
            return
        queue = choice.queue
        allowed = self._limits.allow(queue, choice.tasks, now_ms)
        if not allowed.tasks:
            self._looks.seen(queue, allowed.next_ms)
            return
        taken = self._firing.take(queue, allowed.tasks, now_ms, choice.upto)
        assigned = self._machine.assign_slots(queue, taken, now_ms) if any(map(len, taken)) else ()
        due_ms = self._send(queue, assigned, now_ms)
        self._looks.seen(queue, due_ms)
        if due_ms <= now_ms:
            self._enter(contest, queue, now_ms)
