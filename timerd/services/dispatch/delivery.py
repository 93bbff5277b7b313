"""Due tasks to workers: asks the engine for what is due, the delivery machine for whom, and gives it to their sinks.

Driven by wake-ups only (credit came, something became due, the alarm): an idle server does nothing. One round of the
pump takes a bounded number of tasks, then the loop serves everybody else. Taking and sending are one step, so what has
not left yet can still be cancelled.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from timerd.core.dispatch import (
    EXACT_TASKS_PER_MS,
    MAX_DELIVER_TASKS,
    MOST_COUNTED,
    MOST_GRID_MS,
    SOON_MS,
    Action,
    Assignment,
    Credit,
    DeliveryMachine,
    Failure,
    HeldTokens,
    Limit,
    Limits,
    Pacing,
    Quantum,
    SendHold,
    Settlement,
    Slice,
)
from timerd.core.taken import OpenDelivery, QueueKey
from timerd.model.codec import CAPABILITIES, PROGRESS, known_by_all
from timerd.model.errors import Unavailable
from timerd.model.identity import ATTEMPT_MASK, RowKey
from timerd.model.progress import ProgressReport
from timerd.model.pushback import Pushback
from timerd.services.dispatch.due_looks import DueLooks
from timerd.services.dispatch.interrupting import Interrupting
from timerd.services.dispatch.live_tail import LiveTail
from timerd.services.dispatch.pool_round import PoolRound
from timerd.services.dispatch.ports import Alarm, RemoteInstances, Sent, Settler, Sink
from timerd.services.dispatch.settling import Settling
from timerd.services.engine.verbs import Firing

# What all sinks may have waiting, and what each may in any case and at most: beyond it nothing more is assigned to the
# worker, and nothing more is read from it.
QUEUED_BYTES = 64 << 20
STREAM_BYTES = (256 << 10, 4 << 20)
AFTER_ERROR_MS = 100
_LOG = logging.getLogger("timerd.delivery")
# Holds the limit of a queue that was throttled; or says in a sentence why it does not.
HoldsLimit = Callable[[QueueKey, str, Pushback, int], str]


def nobody_holds(queue: QueueKey, _: str, __: Pushback, ___: int) -> str:
    return f"Nothing here could hold the queue {queue.queue!r}, so the attempt has failed."


class Delivery:
    """`queue_stats` counts what was sent. `server` is the name that workers are shown. `limits`: those that are asked
    beside the standing ones. `hold`: holds a limit that was throttled. `remote`: where there are other instances."""

    def __init__(
        self,
        firing: Firing,
        alarm: Alarm,
        machine: DeliveryMachine,
        *,
        remote: RemoteInstances | None = None,
        server: str = "timerd",
        limits: Sequence[Limit] = (),
        hold: HoldsLimit = nobody_holds,
        announced: Callable[[], Mapping[str, Collection[str]]] = lambda: {"": CAPABILITIES},
    ) -> None:
        self.server = server
        # Of a worker that was ever here.
        self.longest_lease_ms = 0
        self._firing = firing
        self._alarm = alarm
        self.machine = machine
        self._remote = remote
        self._hold_limit = hold
        # What each instance that lives understands.
        self._announced = announced
        self.queue_stats = self.machine.queue_stats
        self._settling = Settling(firing, self.settled)
        self.on_durable, self.on_settled = self._settling.on_durable, self._settling.on_settled
        self._live = LiveTail(firing.secret, self.clock_ms)
        self.tail = self._live.tail
        self.on_durable(self._live.ended)
        pacing = Pacing()
        share = machine.capacity.share
        self._send_hold = SendHold(share.wanted)
        self._quantum = Quantum(pacing.is_rested)
        self._limits = Limits((Credit(share.wanted), self._send_hold, pacing, self._quantum, *limits))
        self._looks = looks = DueLooks(self.machine, firing)
        of_pools = Limits((pacing, self._quantum, *limits))
        pools = PoolRound(machine, firing, looks, of_pools, self._quantum, self._send_slice, remote)
        # A round begins with the one and with the other in turn.
        self._ways = [self._send_by_credit, pools.send_due]
        self._sinks: dict[int, Sink] = {}
        self._interrupting = Interrupting(machine.interrupts, self._sinks, firing, self._live.cancelled)
        self._next_number = 1
        # Queues that a sink takes the backlog of.
        self._backlogs: set[QueueKey] = set()
        # (ms, tasks sent in it).
        self._sent_at: tuple[int, int] = (0, 0)
        self._awake = self._resting = self._is_holding = self._is_waiting = self._draining = self._is_in_round = False
        self._quiet = asyncio.Event()
        alarm.listen(self._rang)
        firing.on_due(self._due)
        if remote is not None:
            remote.listen(self.wake)

    @property
    def in_flight(self) -> int:
        return self.machine.in_flight

    @property
    def in_grace(self) -> int:
        return self.machine.in_grace

    @property
    def workers(self) -> int:
        return sum(sink.counts_as_worker for sink in self._sinks.values())

    @property
    def is_idle(self) -> bool:
        """Nothing is about to be sent, and all that was settled is durable."""
        return not (self._awake or self._resting or self._is_holding or self._settling.busy)

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
        if self._remote is not None:
            self._remote.drain()
        for sink in self._sinks.values():
            sink.go_away()
        try:
            await asyncio.wait_for(self._until_quiet(), timeout_ms / 1000)
        except TimeoutError:
            _LOG.info("%d deliveries are still with workers: they keep their leases", self.machine.in_flight)

    def close(self) -> None:
        self._alarm.close()

    # What the service asks, one call for each kind of request.

    def join(self, sink: Sink, namespace: str, lease_ms: int, name: bytes = b"", called: str = "") -> None:
        if self._draining:
            raise Unavailable("The server is going away: connect again in a moment.", "DRAINING", retry_after_ms=1_000)
        sink.namespace = namespace
        self._sinks[sink.number] = sink
        self.longest_lease_ms = max(self.longest_lease_ms, lease_ms)
        self.machine.join(sink.number, namespace, lease_ms, name, called)
        self._send_hold.join(sink.number, namespace)

    @property
    def flow(self) -> Delivery:
        """What a sink asks that keeps some of what it is given (services.work_stream.Flow)."""
        return self

    def next_number(self) -> int:
        """Of a new sink, which counts from `join` on."""
        self._next_number += 1
        return self._next_number

    @property
    def secret(self) -> bytes:
        """What tokens are sealed with."""
        return self._firing.secret

    def queue_count(self, number: int) -> int:
        """How many queues the sink serves."""
        return len(self.machine.queues(number))

    def credit(self, sink: Sink, queue: str, tasks: int) -> None:
        key = self._send_hold.granted(sink.number, queue, tasks)
        # Where there was credit nothing waits for more.
        is_needed = self._is_holding or self._remote is not None or not self.machine.wanted(key)
        self.machine.credit(sink.number, queue, tasks)
        if sink.takes_backlog and key not in self._backlogs:
            self._backlogs.add(key)
            self._firing.worked(key, present=True)
        if is_needed:
            self.wake()

    def declare_pool(self, sink: Sink, name: str, queues: Iterable[str], slots: int) -> None:
        """The queues share so many slots, none of which is free yet."""
        self.machine.capacity.pools.join(sink.number, name, [QueueKey(sink.namespace, each) for each in queues], slots)

    def free_slots(self, sink: Sink, pool: str, slots: int) -> None:
        """So many more of the pool are free."""
        self.machine.capacity.pools.add(sink.number, pool, slots)
        self.wake()

    def leave(self, sink: Sink, queue: QueueKey) -> None:
        """It serves this queue no more."""
        if self.machine.leave(sink.number, queue):
            self._queue_left(queue)

    def sink(self, number: int) -> Sink | None:
        """None: it is gone."""
        return self._sinks.get(number)

    def may_serve(self, sink: Sink, queue: str, most: int) -> bool:
        """Whether the worker's queues stay within `most` with this one."""
        queues = self.machine.queues(sink.number)
        return len(queues) < most or any(q.queue == queue for q in queues)

    def settle(
        self,
        sink: Settler,
        sequence: int,
        action: Action,
        tokens: bytes,
        delay_ms: int | None,
        error: str,
        throttle: Pushback | None = None,
    ) -> None:
        """Counts at once, is confirmed when durable."""
        now_ms = self.clock_ms()
        if action is Action.RELEASE:
            self.machine.retire(sink.number)
        if throttle is None:
            settlement = self.machine.settle(sink.namespace, action, tokens, now_ms, delay_ms, error)
        else:
            settlement = self._throttled(sink.namespace, tokens, throttle, Failure(now_ms, error, throttle.after_ms))
        if settlement.released:
            self._settling.release(settlement.released, now_ms)
        acked = self._firing.settling(settlement, now_ms)
        self._settling.confirm(sink, sequence, tokens, settlement, acked, is_reject=action is Action.REJECT)

    def _throttled(self, namespace: str, tokens: bytes, throttle: Pushback, failure: Failure) -> Settlement:
        """Held before they go back, so that they are not sent again at once."""

        def refusal(queue: QueueKey, limit_key: str) -> str:
            return self._hold_limit(queue, limit_key, throttle, failure.at_ms)

        return self.machine.throttle(namespace, tokens, failure, refusal)

    def extend(self, sink: Sink, tokens: bytes) -> list[bytes]:
        held = self.machine.extend(sink.number, tokens, self.clock_ms())
        self._firing.leased(held.until)
        self._interrupting.repeat(sink, tokens, held)
        return held.lost

    def report(self, sink: Settler, token: bytes, said: ProgressReport) -> None:
        """How far the attempt has come."""
        if self.keeps_progress():
            self.machine.report(sink.namespace, token, said, self.clock_ms())

    def keeps_progress(self) -> bool:
        """Whether every instance knows what it is."""
        return PROGRESS in known_by_all(self._announced())

    def resume(self, sink: Sink, tokens: bytes) -> list[bytes]:
        return self.resumed(sink, tokens, known_only=False).lost

    def resumed(self, sink: Sink, tokens: bytes, *, known_only: bool) -> HeldTokens:
        held = self.machine.resume(sink.number, tokens, self.clock_ms(), known_only=known_only)
        self._firing.leased(held.until)
        self._interrupting.repeat_soon(sink, tokens, held)
        return held

    def replaced(self, namespace: str, names: Sequence[bytes]) -> list[int]:
        """Streams that their worker has given up: what did not reach it goes on at once. Returns their numbers."""
        settlement, numbers = self.machine.replaced(namespace, names, self.clock_ms())
        self._settling.add(settlement)
        return numbers

    def take_back(self, sink: Sink, tokens: bytes) -> None:
        """They never left."""
        self._settling.add(self.machine.settle(sink.namespace, Action.RELEASE, tokens, self.clock_ms(), None, ""))

    def release(self, namespace: str, tokens: bytes) -> None:
        """What was held back because it was not known here need not be any longer."""
        self._firing.leased(dict.fromkeys(self.machine.let_go(namespace, tokens), self.clock_ms()))

    def closing(self, sink: Sink) -> None:
        """The worker has ended its side: it gets what it is owed, and nothing new."""
        self.machine.block(sink.number)

    def left(self, sink: Sink, *, keeps_leases: bool = False) -> None:
        """The sink is over, well or not."""
        self._settling.drop(sink.number)
        if self._sinks.pop(sink.number, None) is not None:
            self._send_hold.left(sink.number)
            self.machine.broken(sink.number, self.clock_ms(), keeps_leases=keeps_leases)
            self.wake()

    def stream_bytes(self) -> int:
        """How much may wait for each."""
        least, most = STREAM_BYTES
        return max(least, min(most, QUEUED_BYTES // max(1, len(self._sinks))))

    def room(self, number: int) -> None:
        """A slow reader has caught up."""
        sink = self._sinks.get(number)
        if sink is not None and not sink.closing:
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
        if self._remote is None:
            self._set_alarm(now_ms, self._send_due(now_ms))
        else:
            self._remote.before(now_ms)
            self._set_alarm(now_ms, min(self._send_due(now_ms), self._remote.after(now_ms)))

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
        if queue in self._backlogs:
            self._backlogs.remove(queue)
            self._firing.worked(queue, present=False)
        self._limits.forget(queue)
        self._looks.forget(queue)

    def _send_due(self, now_ms: int) -> float:
        """Visits what is due, queues in turn, a slice each, until the round is used up. Returns when to come again."""
        queues = self._looks.look(now_ms)
        self._quantum.begin(self._looks.soon(now_ms + SOON_MS, MOST_COUNTED))
        self._ways.reverse()
        return self._looks.next_ms() if all(send(queues, now_ms) for send in self._ways) else now_ms

    def _send_by_credit(self, queues: Collection[QueueKey], now_ms: int) -> bool:
        """False: the round is used up before all of them were visited."""
        looks, share = self._looks, self.machine.capacity.share
        for queue in queues:
            if not share.wanted(queue) and self.machine.wanted(queue):
                # Slots of pools alone.
                continue
            # Once more: what another queue was sent may have got the credit of its workers withheld.
            if (due_ms := looks.due_ms(queue)) <= now_ms:
                if self._quantum.is_used_up:
                    return False
                allowed = self._limits.allow(queue, MAX_DELIVER_TASKS, now_ms)
                if allowed.heeds_credit:
                    self._hold(queue, allowed.next_ms - now_ms)
                    looks.held_up(queue)
                    continue
                due_ms = self._visit(queue, allowed.tasks, now_ms) if allowed.tasks else allowed.next_ms
            looks.seen(queue, due_ms)
        return True

    def _visit(self, queue: QueueKey, most: int, now_ms: int) -> float:
        """Sends some of what is due. Returns when to visit the queue again."""
        taken = self._firing.take(queue, most, now_ms)
        return self._send_slice(
            queue, self.machine.assign(queue, taken, now_ms) if any(map(len, taken)) else (), now_ms
        )

    def _send_slice(self, queue: QueueKey, assigned: Sequence[Assignment], now_ms: int) -> float:
        """Returns when there may be more of the queue."""
        # What is due but was not given is asked for again a millisecond later.
        if not assigned:
            return max(self._looks.due_ms(queue), now_ms + 1)
        tasks, messages, size_bytes = self._send_all(queue, assigned, now_ms)
        is_dry = not self.machine.wanted(queue)
        due_ms = max(self._looks.due_ms(queue), now_ms)
        is_all = due_ms > now_ms and not is_dry
        next_ms = self._limits.sent(Slice(queue, now_ms, tasks, messages, size_bytes, is_dry, is_all))
        if now_ms < next_ms <= now_ms + MOST_GRID_MS:
            # After the turn in which the messages of this round are written.
            until_ms = int(next_ms) + MOST_GRID_MS
            asyncio.get_running_loop().call_later(0, self._firing.prepare, queue, until_ms)
        return max(due_ms, next_ms)

    def _hold(self, queue: QueueKey, wait_ms: float) -> None:
        """What is due waits a moment for more credit, which wakes the pump before."""
        if not self._is_holding:
            self._is_holding = True
            asyncio.get_running_loop().call_later(wait_ms / 1000, self._held_long_enough, queue)

    def _held_long_enough(self, queue: QueueKey) -> None:
        """Where other queues are held too, the next round waits for the first of them."""
        self._is_holding = False
        self._send_hold.lapse(queue)
        self.wake()

    def _send_all(self, queue: QueueKey, assigned: Sequence[Assignment], now_ms: int) -> tuple[int, int, int]:
        """(how many tasks, messages, bytes)."""
        tasks = messages = sent_bytes = 0
        stats = self.queue_stats.of(queue)
        for assignment in assigned:
            tasks += len(assignment.taken)
            columns = assignment.taken.rows.columns
            stats.sent(now_ms - columns["position_ms"], columns["version"] & ATTEMPT_MASK)
            sent = self._send(assignment)
            self._live.sent(queue, assignment, now_ms)
            messages += sent.messages
            sent_bytes += sent.size_bytes
        before = self._sent_at[1] if self._sent_at[0] == now_ms else 0
        self._sent_at = (now_ms, before + tasks)
        return tasks, messages, sent_bytes

    def _send(self, assignment: Assignment) -> Sent:
        sink = self._sinks[assignment.worker]
        sent = sink.deliver(assignment)
        if sink.block_if_full():
            self.machine.block(sink.number)
        return sent

    def _set_alarm(self, now_ms: int, next_ms: float) -> None:
        wake_ms = self.machine.next_wake_ms()
        at_ms = next_ms if wake_ms is None else min(next_ms, wake_ms)
        if at_ms <= now_ms:
            self.wake()
        elif at_ms < math.inf:
            self._alarm.set(at_ms)

    def clock_ms(self) -> int:
        """Of what workers say. It goes on while it is not trusted, or all that they extend would be over afterwards."""
        return self._firing.clock_ms()

    def settled(self) -> None:
        """Something that a worker had has ended."""
        self._quiet.set()

    async def _until_quiet(self) -> None:
        while self.machine.in_flight or self._settling.busy or (self._remote is not None and self._remote.is_busy):
            self._quiet.clear()
            await self._quiet.wait()
