"""Turns the clock from one instant at which something happens to the next, and waits in between until all is quiet.

Instants come from the alarm (due tasks, leases), from handlers that sleep, and from housekeeping: every second while
the marks of a partition move, at growing strides when they rest, and in one leap to the next bucket when nothing is
held. Quiet means that a whole round changed nothing: no effect under way, every message between the server and its
workers heard, no handler awake. Several instances are turned together, each with a clock of its own, so that one may
be left behind.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import NamedTuple

from timerd.model.partition import TIME_SCOPE
from timerd.services.node import Node
from timerd.testing.clock import SimAlarm, SimClock, Sleepers
from timerd.testing.workers import Worker

FIRST_MS = 1_000
LONGEST_MS = 60_000
LEAP_MS = 3_600_000
# While something outside of this loop is waited for.
POLL_S = 0.001


class Instance(NamedTuple):
    """One that runs by the turned clock."""

    node: Node
    clock: SimClock
    alarm: SimAlarm


class Turning:
    """`instances` and `workers` grow and shrink as the test likes. `longest_ms`: no step of the clock is longer."""

    def __init__(
        self,
        instances: Sequence[Instance],
        now_ms: int,
        sleepers: Sleepers,
        workers: Sequence[Worker],
        patience_s: float,
        longest_ms: int = LEAP_MS,
    ) -> None:
        self.now_ms = now_ms
        self._instances = instances
        self._sleepers = sleepers
        self._all_workers = workers
        self._patience_s = patience_s
        self._longest_ms = longest_ms
        # What was seen last; a round that finds the same changed nothing.
        self._seen: object = None

    async def turn_to(self, target_ms: int) -> None:
        stride_ms = FIRST_MS
        await self.settle()
        while self.now_ms < target_ms:
            before = self._marks()
            self._turn(min(target_ms, await self._next_ms(stride_ms)))
            for worker in self._workers:
                worker.extend()
            await self.settle()
            stride_ms = FIRST_MS if self._marks() != before else min(2 * stride_ms, self._longest_stride_ms())
            for each in self._instances:
                await each.node.keep_house()

    def _turn(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for each in self._instances:
            each.clock.now_ms = now_ms
        self._sleepers.wake(now_ms)

    def _longest_stride_ms(self) -> int:
        return min([LONGEST_MS, *(each.node.config.look_ahead_ms // 2 for each in self._instances)])

    async def settle(self) -> None:
        try:
            async with asyncio.timeout(self._patience_s):
                await self._until_quiet()
        except TimeoutError:
            raise TimeoutError(self._why()) from None

    async def _until_quiet(self) -> None:
        again = False
        while True:
            for worker in self._workers:
                # After the last quiet there is nothing under way to a worker that has nothing in hand.
                if again or worker.in_hand or not self._seen:
                    await worker.sync()
            for each in list(self._instances):
                each.alarm.look()
                await each.node.step()
                if each.node.relaying is not None:
                    await each.node.relaying.peer_links.sync()
            seen, self._seen = self._seen, self._facts()
            if self._seen == seen:
                if self._is_still():
                    return
                await asyncio.sleep(POLL_S)
            again = True

    async def _next_ms(self, stride_ms: int) -> int:
        """The next instant at which something may happen."""
        now_ms = self.now_ms
        times = [now_ms + self._longest_ms, self._sleepers.next_ms()]
        times += [now_ms + worker.lease_ms // 3 for worker in self._workers if worker.in_hand and not worker.silent]
        for node, _, alarm in self._instances:
            held = node.scheduler.machines
            times.append(alarm.rings_ms)
            times += [p.end_ms for p in held if p.end_ms > now_ms]
            times.append(now_ms + stride_ms if held else await self._next_bucket_ms(node))
        return max(now_ms + 1, math.ceil(min(times)))

    async def _next_bucket_ms(self, node: Node) -> int:
        """When the next one is loaded."""
        now_ms, ahead_ms = self.now_ms, node.config.look_ahead_ms
        leap_ms = now_ms + LEAP_MS
        entries = await node.store.catalogue(TIME_SCOPE, now_ms, leap_ms + ahead_ms)
        loads = [e.bucket_ms - ahead_ms for e in entries if not e.finished and e.bucket_ms - ahead_ms > now_ms]
        return min([leap_ms, *loads])

    @property
    def _workers(self) -> list[Worker]:
        return [worker for worker in self._all_workers if worker.is_running]

    def _marks(self) -> object:
        """How far each partition is on its way; that time passes is no step on it."""
        return [self._marks_of(each.node) for each in self._instances]

    def _marks_of(self, node: Node) -> object:
        marks = {}
        for partition, machine in node.scheduler.machines.items():
            control = machine.control
            ends = (control.closing_ms, control.verified_ms) if control is not None else ()
            marks[partition] = machine.phase, [end_ms == partition.end_ms for end_ms in ends]
        return marks

    def _facts(self) -> object:
        deliveries = [each.node.delivery for each in self._instances]
        sent = [(each.in_flight, each.workers, sum(each.queue_stats.lateness_counts())) for each in deliveries]
        return self._marks(), sent, [worker.in_hand for worker in self._workers]

    def _is_still(self) -> bool:
        deliveries = [each.node.delivery for each in self._instances]
        waiting = sum(worker.in_hand for worker in self._workers) + sum(each.in_grace for each in deliveries)
        # What the test itself has received does not keep it from turning the clock.
        waiting += sum(each.node.work.in_hand for each in self._instances if each.node.work is not None)
        due = any(each.alarm.rings_ms <= each.clock.now_ms for each in self._instances)
        idle = all(each.is_idle for each in deliveries)
        return idle and not due and sum(each.in_flight for each in deliveries) <= waiting and not self.awake()

    def awake(self) -> int:
        """Handlers that are running in real time."""
        return sum(len(self._sleepers.awake(worker.handlers())) for worker in self._workers)

    def _why(self) -> str:
        in_flight, awake = sum(each.node.delivery.in_flight for each in self._instances), self.awake()
        return (
            f"After {self._patience_s:.0f} s of real time {in_flight} deliveries are still with workers and {awake} "
            "handlers of this test are still running, so the clock is not turned further. A handler that takes virtual "
            "time waits by `await server.sleep(...)`; one that is slow in real time needs a greater `patience_s`."
        )
