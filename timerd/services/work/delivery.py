"""Due tasks to workers: asks the engine for what is due, the delivery machine for whom, and writes it to their streams.

Driven by wake-ups only (credit came, something became due, the alarm): an idle server does nothing. One round of the
pump takes a bounded number of tasks, then the loop serves everybody else. Taking and sending are one step, so what has
not left yet can still be cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Protocol

import grpc.aio

from timerd.core.before_restart import Held
from timerd.core.delivery_machine import Assignment, DeliveryMachine, OpenDelivery
from timerd.core.pace import EXACT_TASKS_PER_MS, MOST_GRID_MS, Pace
from timerd.core.settlement import Action
from timerd.core.taken import QueueKey
from timerd.model.errors import Unavailable
from timerd.model.identity import ACK_TOKEN_BYTES, ATTEMPT_MASK, RowKey
from timerd.services.engine.verbs import Firing
from timerd.services.work.deliver_wire import deliver_messages
from timerd.services.work.desk import Abroad, Outlet
from timerd.services.work.due_looks import DueLooks
from timerd.services.work.gathering import Gathering
from timerd.services.work.round_sizes import MOST_COUNTED, ROUND_TASKS, SOON_MS, cost_tasks, fitting_tasks, slice_tasks
from timerd.services.work.settling import Settling
from timerd.services.work.work_stream import WorkStream
from timerd.v1 import work_service_pb2 as pb

# What all streams may have waiting, and what each may in any case and at most: beyond it nothing more is assigned to
# the worker, and nothing more is read from it.
QUEUED_BYTES = 64 << 20
STREAM_BYTES = (256 << 10, 4 << 20)
AFTER_ERROR_MS = 100
_LOG = logging.getLogger("timerd.delivery")


class Alarm(Protocol):
    """Rings once at an instant of engine time, to a fraction of a millisecond, never before it."""

    def listen(self, ring: Callable[[], None]) -> None: ...

    def set(self, at_ms: float) -> None:
        """Replaces what was set before; an instant that has passed rings at once."""
        ...

    def close(self) -> None: ...


class Delivery:
    """`tallies` counts what was sent. `server` is the name that workers are shown. `abroad`: where there are other
    instances."""

    def __init__(self, firing: Firing, alarm: Alarm, *, resume_grace_ms: int = 1_000, server: str = "timerd") -> None:
        self.server = server
        self.secret = firing.secret
        self._firing = firing
        self._alarm = alarm
        self.machine = DeliveryMachine(firing.secret, resume_grace_ms)
        self.abroad: Abroad | None = None
        # Workers of other instances.
        self.relayed = 0
        self.tallies = self.machine.tallies
        self._settling = Settling(firing, self.settled)
        self._gathering = Gathering()
        self._pace = Pace()
        self._looks = DueLooks(self.machine, firing)
        self._streams: dict[int, Outlet] = {}
        self._next_stream = 1
        # (ms, tasks sent in it); about how many bytes a task of the queue takes.
        self._sent_at: tuple[int, int] = (0, 0)
        self._task_bytes: dict[QueueKey, int] = {}
        self._awake = self._resting = self._is_gathering = self._is_waiting = self._draining = False
        self._is_in_round = False
        self._quiet = asyncio.Event()
        alarm.listen(self._rang)
        firing.on_due(self._due)

    @property
    def in_flight(self) -> int:
        return self.machine.in_flight

    @property
    def in_grace(self) -> int:
        return self.machine.in_grace

    @property
    def workers(self) -> int:
        return self.machine.workers - self.relayed

    @property
    def is_idle(self) -> bool:
        """Nothing is about to be sent, and all that was settled is durable."""
        return not (self._awake or self._resting or self._is_gathering or self._settling.busy)

    def open_deliveries(self) -> list[OpenDelivery]:
        """What is with workers now, and until when."""
        return self.machine.open_deliveries()

    def lease_of(self, key: RowKey) -> int | None:
        """Until when a worker has a delivery of this row's task; None: none has."""
        return self.machine.lease_of(key)

    async def drain(self, timeout_ms: float) -> None:
        """Sends nothing more and tells the workers; waits for what they have in hand. Their leases are kept."""
        self._draining = True
        self.machine.drain()
        if self.abroad is not None:
            self.abroad.drain()
        away = pb.GoAway(reason="The server is going away: finish what is in hand, then connect again.")
        for stream in self._streams.values():
            stream.push(pb.WorkResponse(go_away=away))
        try:
            await asyncio.wait_for(self._until_quiet(), timeout_ms / 1000)
        except TimeoutError:
            _LOG.info("%d deliveries are still with workers: they keep their leases", self.machine.in_flight)

    def close(self) -> None:
        self._alarm.close()

    # What the service asks, one call for each kind of request.

    def join(self, stream: Outlet, namespace: str, lease_ms: int) -> None:
        if self._draining:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)
        self._streams[stream.number] = stream
        self.machine.join(stream.number, namespace, lease_ms)
        self._gathering.join(stream.number, namespace)

    def stream(self, context: grpc.aio.ServicerContext[Any, Any]) -> WorkStream:
        """A new one; it counts from `join` on."""
        queues = self.machine.queues
        return WorkStream(context, self.next_number(), self.stream_bytes, self.room, lambda number: len(queues(number)))

    def next_number(self) -> int:
        """Of a new worker."""
        self._next_stream += 1
        return self._next_stream

    def credit(self, stream: Outlet, queue: str, tasks: int) -> None:
        key = self._gathering.granted(stream.number, queue, tasks)
        # Where there was credit nothing waits for more.
        is_needed = self._is_gathering or self.abroad is not None or not self.machine.wanted(key)
        if self.machine.credit(stream.number, queue, tasks) is not None:
            self._firing.worked(key, present=True)
        if is_needed:
            self.wake()

    def leave(self, stream: Outlet, queue: QueueKey) -> None:
        """It serves this queue no more."""
        if self.machine.leave(stream.number, queue):
            self._queue_left(queue)

    def outlet(self, worker: int) -> Outlet | None:
        """None: its stream is gone."""
        return self._streams.get(worker)

    def may_serve(self, stream: WorkStream, queue: str, most: int) -> bool:
        """Whether the worker's queues stay within `most` with this one."""
        queues = self.machine.queues(stream.number)
        return len(queues) < most or any(q.queue == queue for q in queues)

    def settle(
        self, stream: Outlet, sequence: int, action: Action, tokens: bytes, delay_ms: int | None, error: str
    ) -> None:
        """Counts at once, is confirmed when durable."""
        now_ms = self.clock_ms()
        if action is Action.RELEASE:
            self.machine.retire(stream.number)
        settlement = self.machine.settle(action, tokens, now_ms, delay_ms, error)
        if settlement.released:
            self._settling.release(settlement.released, now_ms)
        self._firing.settling(settlement, now_ms)
        self._settling.confirm(stream, sequence, len(tokens) // ACK_TOKEN_BYTES, settlement)

    def extend(self, stream: Outlet, tokens: bytes) -> list[bytes]:
        held = self.machine.extend(stream.number, tokens, self.clock_ms())
        self._firing.leased(held.until)
        return held.lost

    def resume(self, stream: Outlet, tokens: bytes) -> list[bytes]:
        return self.resumed(stream, tokens, known_only=False).lost

    def resumed(self, stream: Outlet, tokens: bytes, *, known_only: bool) -> Held:
        held = self.machine.resume(stream.number, tokens, self.clock_ms(), known_only=known_only)
        self._firing.leased(held.until)
        return held

    def release(self, tokens: bytes) -> None:
        """What was held back because it was not known here need not be any longer."""
        now_ms = self.clock_ms()
        self._firing.leased(dict.fromkeys(self.machine.let_go(tokens), now_ms))

    def closing(self, stream: WorkStream) -> None:
        """The worker has ended its side: it gets what it is owed, and nothing new."""
        self.machine.block(stream.number)
        stream.close()

    def left(self, stream: Outlet, *, keeps_leases: bool = False) -> None:
        """The stream is over, well or not."""
        if self._streams.pop(stream.number, None) is not None:
            self._gathering.left(stream.number)
            self.machine.broken(stream.number, self.clock_ms(), keeps_leases=keeps_leases)
            self.wake()

    def stream_bytes(self) -> int:
        least, most = STREAM_BYTES
        return max(least, min(most, QUEUED_BYTES // max(1, len(self._streams))))

    def room(self, number: int) -> None:
        """A slow reader has caught up."""
        stream = self._streams.get(number)
        if stream is not None and not stream.closing:
            self.machine.unblock(number)
            self.wake()

    def wake(self) -> None:
        """The pump runs once in the next turn of the loop, however often it is woken."""
        if not self._awake:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._round)

    def _rang(self) -> None:
        """An instant has come: the round is now, for a turn of a busy loop is milliseconds. An alarm may ring while it
        is set, at the end of a round."""
        if self._is_in_round:
            self.wake()
        elif not self._awake:
            self._round()

    def _due(self) -> None:
        """Something is due earlier than thought. Exact while little is due, on a grid of 1 ms above that."""
        if self._resting or self._awake:
            return
        at_ms, tasks = self._sent_at
        if tasks > EXACT_TASKS_PER_MS and self._firing.firing_ms() == at_ms:
            self._resting = True
            asyncio.get_running_loop().call_later(0.001, self._rested)
        else:
            self.wake()

    def _rested(self) -> None:
        self._resting = False
        self.wake()

    def _round(self) -> None:
        """One round of the pump. An error of the engine costs a pause, never the pump."""
        self._awake = False
        self._is_in_round = True
        try:
            now_ms = self._firing.firing_ms()
            if now_ms is None:
                self._look_later()
            else:
                self._pump(now_ms)
        except Exception:  # noqa: BLE001 - logged, and tried again
            _LOG.exception("a round of delivery failed; the next one is tried in %d ms", AFTER_ERROR_MS)
            asyncio.get_running_loop().call_later(AFTER_ERROR_MS / 1000, self.wake)
        finally:
            self._is_in_round = False

    def _pump(self, now_ms: int) -> None:
        self._expire(now_ms)
        if self.abroad is None:
            self._set_alarm(now_ms, self._send_due(now_ms))
        else:
            self.abroad.before(now_ms)
            self._set_alarm(now_ms, min(self._send_due(now_ms), self.abroad.after(now_ms)))

    def _look_later(self) -> None:
        """Nobody says when clock and lease are trusted again; what was asked for meanwhile is not asked for twice."""
        if not self._is_waiting:
            self._is_waiting = True
            asyncio.get_running_loop().call_later(AFTER_ERROR_MS / 1000, self._looked_later)

    def _looked_later(self) -> None:
        self._is_waiting = False
        self.wake()

    def _expire(self, now_ms: int) -> None:
        wake_ms = self.machine.next_wake_ms()
        if wake_ms is None or wake_ms > now_ms:
            return
        settlement, gone = self.machine.tick(now_ms)
        self._settling.add(settlement)
        for queue in gone:
            self._queue_left(queue)

    def _queue_left(self, queue: QueueKey) -> None:
        self._firing.worked(queue, present=False)
        self._task_bytes.pop(queue, None)
        self._pace.forget(queue)
        self._looks.forget(queue)

    def _send_due(self, now_ms: int) -> float:
        """Visits what is due, queues in turn, a slice each, until the round is used up. Returns when to come again."""
        loop, looks, left = asyncio.get_running_loop(), self._looks, ROUND_TASKS
        queues, most = looks.look(now_ms), slice_tasks(looks.soon(now_ms + SOON_MS, MOST_COUNTED))
        for queue in queues:
            # Once more: what another queue was sent may have set its workers' credit aside.
            if (due_ms := looks.due_ms(queue)) <= now_ms:
                if self._gathers(queue):
                    looks.held_up(queue)
                    continue
                paced_ms = self._pace.next_ms(queue, now_ms)
                if paced_ms > now_ms:
                    looks.seen(queue, paced_ms)
                    continue
                if left <= 0:
                    return now_ms
                tasks, cost = self._send_slice(queue, most, now_ms)
                left -= cost
                is_dry = not self.machine.wanted(queue)
                self._gathering.sent(queue, loop.time(), is_dry=is_dry)
                # What is due but was not given is asked for again a millisecond later.
                due_ms = max(looks.due_ms(queue), now_ms if cost else now_ms + 1)
                if tasks:
                    paced_ms = self._pace.sent(queue, now_ms, tasks, is_all=due_ms > now_ms and not is_dry)
                    if paced_ms > now_ms:
                        # After the turn in which the messages of this round are written.
                        loop.call_later(0, self._firing.prepare, queue, paced_ms + MOST_GRID_MS)
                    due_ms = max(due_ms, paced_ms)
            looks.seen(queue, due_ms)
        return looks.next_ms()

    def _gathers(self, queue: QueueKey) -> bool:
        """Whether what is due waits a moment for more credit."""
        loop = asyncio.get_running_loop()
        wait_s = self._gathering.wait_s(queue, self.machine.wanted(queue), loop.time())
        if wait_s and not self._is_gathering:
            self._is_gathering = True
            loop.call_later(wait_s, self._gathered)
        return wait_s > 0

    def _gathered(self) -> None:
        self._is_gathering = False
        self.wake()

    def _send_slice(self, queue: QueueKey, most: int, now_ms: int) -> tuple[int, int]:
        """(how many tasks, what they cost)."""
        is_first = self._pace.is_rested(queue, now_ms)
        fitting = fitting_tasks(self._task_bytes.get(queue), is_first=is_first)
        limit = min(most, fitting, self.machine.wanted(queue))
        taken = self._firing.take(queue, limit, now_ms)
        tasks = sum(map(len, taken))
        if not tasks:
            return 0, 0
        messages = sent_bytes = 0
        tally = self.tallies.of(queue)
        for assignment in self.machine.assign(queue, taken, now_ms):
            columns = assignment.taken.rows.columns
            tally.sent(now_ms - columns["position_ms"], columns["version"] & ATTEMPT_MASK)
            for size_bytes in self._send(assignment, now_ms):
                messages += 1
                sent_bytes += size_bytes
        self._task_bytes[queue] = max(sent_bytes // tasks + 1, self._task_bytes.get(queue, 0) // 2)
        before = self._sent_at[1] if self._sent_at[0] == now_ms else 0
        self._sent_at = (now_ms, before + tasks)
        return tasks, cost_tasks(tasks, messages, sent_bytes)

    def _send(self, assignment: Assignment, now_ms: int) -> list[int]:
        """Returns the size of each message."""
        stream = self._streams[assignment.worker]
        sizes = []
        for message, size_bytes in deliver_messages(assignment, self._firing.secret, now_ms):
            stream.push(message, size_bytes)
            sizes.append(size_bytes)
        if stream.block_if_full():
            self.machine.block(stream.number)
        return sizes

    def _set_alarm(self, now_ms: int, next_ms: float) -> None:
        wake_ms = self.machine.next_wake_ms()
        at_ms = next_ms if wake_ms is None else min(next_ms, wake_ms)
        if at_ms <= now_ms:
            self.wake()
        elif at_ms < math.inf:
            self._alarm.set(at_ms)

    def clock_ms(self) -> int:
        """What workers say counts by engine time, which goes on while it is not trusted: by that of before, all that
        they had extended meanwhile would be over when it is trusted again."""
        return self._firing.clock_ms()

    def settled(self) -> None:
        """Something that a worker had has ended."""
        self._quiet.set()

    async def _until_quiet(self) -> None:
        while self.machine.in_flight or self._settling.busy or (self.abroad is not None and self.abroad.is_busy):
            self._quiet.clear()
            await self._quiet.wait()
