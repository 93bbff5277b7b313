"""Who has which task, and until when: credit, leases, settling, broken streams (protocol section 6).

Pure: facts and `now_ms` in, batches out. The shell asks `turn` and `wanted`, takes so many due rows, hands them to
`assign` and sends what comes back, all in one step. An ack of any attempt of the generation ends the task; a nack of an
older attempt is ignored. A stream that breaks leaves its worker the grace to come back with the tokens it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from timerd.core.dispatch.attempt_ends import attempt_ends, attempt_timeouts
from timerd.core.dispatch.before_restart import BeforeRestart, HeldTokens
from timerd.core.dispatch.capacity import Capacity
from timerd.core.dispatch.flights import Batch, Flights, dealt, each_short_id
from timerd.core.dispatch.given_back import GivenBack
from timerd.core.dispatch.hand_count import HandCount
from timerd.core.dispatch.interrupts import Interrupts
from timerd.core.dispatch.key_hands import KeyHands
from timerd.core.dispatch.older_acks import OlderAck, tell_if_older, tell_older
from timerd.core.dispatch.queue_stats import StatsByQueue
from timerd.core.dispatch.sentences import FORGED, LOST, NOT_SETTLED, RELEASED, SENT_AGAIN, UNBEGUN
from timerd.core.dispatch.served_queues import ServedQueues
from timerd.core.dispatch.settlement import Action, Failure, LateFailure, Settlement, fail
from timerd.core.dispatch.worker_state import WorkerState
from timerd.core.taken import OpenDelivery, QueueKey, Taken
from timerd.model.ack_token import NamedDelivery, delivery_ids_of, named_in, parse_token, short_ids_of, token_at
from timerd.model.attempts import AttemptEnd
from timerd.model.identity import ACK_TOKEN_BYTES, RowKey, delivery_id_of, long_id, short_id
from timerd.model.partition import Partition
from timerd.model.progress import ProgressReport
from timerd.model.registers import Place

MAX_DELIVER_TASKS = 1_000
# So many of what nobody speaks for any more fail in one go, or a batch more: then the loop serves others.
MOST_FAILED = 1_000
# Queues whose count is kept though nothing of them is in hand.
SLACK_QUEUES = 64


class Assignment(NamedTuple):
    """To be sent to the worker now. `called`: as it calls itself."""

    worker: int
    taken: Taken
    attempt_timeout_ms: int
    sent_ms: int
    called: str = ""


class DeliveryMachine:
    def __init__(self, secret: bytes, resume_grace_ms: int) -> None:
        self._secret = secret
        self.grace_ms = resume_grace_ms
        self.capacity = Capacity()
        self._share = self.capacity.share
        self._flights = Flights()
        self.interrupts = Interrupts(self._flights)
        self.queue_stats = StatsByQueue()
        self._hands: dict[QueueKey, HandCount] = {}
        self._workers: dict[int, WorkerState] = {}
        self._names: dict[tuple[str, bytes], int] = {}
        self._leaving: dict[int, int] = {}
        self._served = ServedQueues()
        self.key_hands = KeyHands(self.hand)
        self.before = BeforeRestart(self.key_hands.counted)
        self._given_back = GivenBack()
        self._draining = False
        self._older_ack: OlderAck | None = None

    def on_older_ack(self, told: OlderAck) -> None:
        """`told` hears of acks and rejects by an attempt that is not the one that a worker has (rule O7)."""
        self._older_ack = told

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def workers(self) -> int:
        """Streams that live."""
        return len(self._workers) - len(self._leaving)

    @property
    def in_grace(self) -> int:
        """Deliveries of broken streams, whose workers may come back."""
        return sum(batch.open for worker in self._leaving for batch in self._flights.of(worker))

    def in_hand(self) -> dict[QueueKey, int]:
        """Deliveries that are with workers, by queue, as far as queues are told apart."""
        open_rows: dict[int, int] = {}
        for batch in self._flights.all():
            open_rows[id(batch.stats)] = open_rows.get(id(batch.stats), 0) + batch.open
        return {queue: open_rows.get(id(stats), 0) for queue, stats in self.queue_stats.queues.items()}

    def hand(self, queue: QueueKey) -> HandCount:
        """Of the deliveries of the queue that are with workers. Those of queues without any are forgotten in time."""
        found = self._hands.get(queue)
        if found is None:
            if len(self._hands) > 2 * len(self._served) + SLACK_QUEUES:
                self._hands = {key: hand for key, hand in self._hands.items() if hand.open}
            found = self._hands[queue] = HandCount()
        return found

    def known_hand(self, queue: QueueKey) -> HandCount | None:
        """As `hand`; None: nothing of it is with workers."""
        return self._hands.get(queue)

    def join(self, worker: int, namespace: str, lease_ms: int, name: bytes = b"", called: str = "") -> None:
        self._workers[worker] = WorkerState(namespace, lease_ms, set(), name, called)
        if name:
            self._names[namespace, name] = worker

    def credit(self, worker: int, queue: str, tasks: int) -> QueueKey | None:
        """More credit; returns the queue if this is its first worker."""
        state = self._workers[worker]
        key = QueueKey(state.namespace, queue)
        self._share.add(worker, key, tasks)
        if key in state.queues:
            return None
        state.queues.add(key)
        return key if self._served.serve(key) else None

    def free_credit(self, queue: QueueKey) -> list[tuple[int, int]]:
        """(worker, what it may be sent now), next in turn first."""
        return [] if self._draining else self._share.free(queue)

    def lend(self, worker: int, queue: QueueKey, tasks: int) -> None:
        """Credit of the worker, what is free at most, that counts elsewhere from here on."""
        self._share.spend(worker, queue, tasks)

    def give_back(self, worker: int, queue: QueueKey, tasks: int) -> None:
        """What was lent and not used. A worker that is gone has none."""
        state = self._workers.get(worker)
        if state is not None and state.gone_at_ms is None:
            self.capacity.give_back(worker, queue, tasks)

    def withdraw(self, worker: int, queue: QueueKey) -> int:
        """The worker is sent nothing more of the queue until it gives new credit; how much it had."""
        return self._share.withdraw(worker, queue)

    def leave(self, worker: int, queue: QueueKey) -> bool:
        """The worker serves the queue no more. Whether that was the queue's last worker."""
        queues = self._workers[worker].queues
        if queue not in queues:
            return False
        self._share.leave(worker, queue)
        queues.remove(queue)
        return self._served.leave(queue)

    def queues(self, worker: int) -> set[QueueKey]:
        return self._workers[worker].queues

    def block(self, worker: int) -> None:
        self.capacity.block(worker)

    def unblock(self, worker: int) -> None:
        self.capacity.unblock(worker)

    def broken(self, worker: int, now_ms: int, *, keeps_leases: bool = False) -> None:
        """The stream is gone, and its credit; what it holds may come back within the grace. When this service itself
        goes away, or the worker's home (`keeps_leases`), the leases decide."""
        state = self._workers[worker]
        self.capacity.drop(worker)
        gone_at_ms = now_ms + self.grace_ms
        state.gone_at_ms = self._flights.last_lease_ms(worker, gone_at_ms) if keeps_leases else gone_at_ms
        self._leaving[worker] = state.gone_at_ms

    def drain(self) -> None:
        """Nothing is assigned any more; leases are kept."""
        self._draining = True

    def turn(self) -> list[QueueKey]:
        """Queues whose workers have credit, next in turn first."""
        return [] if self._draining else self.capacity.turn()

    def wanted(self, queue: QueueKey) -> int:
        return 0 if self._draining else self.capacity.wanted(queue)

    def assign(self, queue: QueueKey, taken: Sequence[Taken], now_ms: int) -> list[Assignment]:
        """Shares out due rows among the workers with credit for so many; they are in flight from here on."""
        return self.send(queue, taken, self._share.split(queue, sum(map(len, taken))), now_ms)

    def assign_slots(self, queue: QueueKey, taken: Sequence[Taken], now_ms: int) -> list[Assignment]:
        """As `assign`, among free slots of pools, as many as there are rows."""
        return self.send(queue, taken, self.capacity.pools.take(queue, sum(map(len, taken))), now_ms)

    def send(
        self, queue: QueueKey, taken: Sequence[Taken], shares: Sequence[tuple[int, int]], now_ms: int
    ) -> list[Assignment]:
        """Due rows, to each worker so many; they are in flight from here on."""
        out: list[Assignment] = []
        stats, parts = self.queue_stats.of(queue), dealt(taken, shares, MAX_DELIVER_TASKS)
        for worker, part, hand in self.key_hands.told_apart(queue, parts):
            state = self._workers[worker]
            for timeout_ms, rows in attempt_timeouts(part):
                piece = part if len(rows) == len(part) else part.part(np.array(rows, dtype=np.intp))
                if self._given_back and (number := self._given_back.next_number(each_short_id(piece))):
                    piece = replace(piece, sending=number)
                ends = attempt_ends(piece, timeout_ms, now_ms)
                self._flights.register(worker, piece, now_ms + state.lease_ms, ends, now_ms, stats, hand)
                out.append(Assignment(worker, piece, timeout_ms, now_ms, state.called))
        return out

    def settle(
        self, namespace: str, action: Action, tokens: bytes, now_ms: int, delay_ms: int | None, error: str
    ) -> Settlement:
        """Of any worker of the namespace: a token speaks for itself. `tokens` is a multiple of 64 bytes."""
        if action == Action.ACK:
            return self._ack(namespace, tokens, now_ms)
        if action == Action.RELEASE:
            return self._release(namespace, tokens, now_ms)
        end = AttemptEnd.REJECTED if action == Action.REJECT else AttemptEnd.FAILED
        failure = Failure(now_ms, error, delay_ms, end)
        out = Settlement()
        for at, (delivery_id, said) in enumerate(self._named(namespace, tokens)):
            found = self._flights.find(delivery_id)
            if found is None:
                self._fail_unknown(out, at, delivery_id, said, token_at(tokens, at), failure)
            elif not (found[0].is_not_ended_by if failure.hopeless else found[0].was_sent_after)(found[1], said):
                if self._older_ack is not None:
                    tell_if_older(*found, said, self._older_ack)
                self._flights.pop(delivery_id)
                found[0].settled("rejected" if failure.hopeless else self.interrupts.failed_as(*found), now_ms)
                self._fail(out, found[0], [found[1]], failure)
            elif failure.hopeless:
                out.refused[at] = SENT_AGAIN
        return out

    def throttle(
        self, namespace: str, tokens: bytes, failure: Failure, refusal: Callable[[QueueKey, str], str]
    ) -> Settlement:
        """Their handlers were told to wait: what is open here goes back as it was. What is not has failed, and so have
        deliveries of which `refusal` says, by queue and limit key, why they do not wait."""
        out = Settlement()
        for at, (delivery_id, said) in enumerate(self._named(namespace, tokens)):
            found = self._flights.find(delivery_id)
            if found is None:
                self._fail_unknown(out, at, delivery_id, said, token_at(tokens, at), failure)
            elif not found[0].was_sent_after(found[1], said):
                if why := refusal(found[0].queue, found[0].limit_key(found[1])):
                    self._flights.remove(found[0], [found[1]])
                    found[0].settled("failed", failure.at_ms)
                    self._fail(out, found[0], [found[1]], replace(failure, error=why))
                    out.refuse_throttle(at, found[0].key(found[1]), why)
                else:
                    self._give_back(out, *found, "throttled", replace(failure, end=AttemptEnd.GIVEN_BACK))
        return out

    def retire(self, worker: int) -> None:
        """The worker takes nothing more unless it says so again."""
        self.capacity.void(worker)

    def extend(self, worker: int, tokens: bytes, now_ms: int) -> HeldTokens:
        """The worker is alive and has these in hand."""
        out = HeldTokens()
        until_ms = now_ms + self._workers[worker].lease_ms
        orphans: list[int] = []
        for at, (delivery_id, said) in enumerate(self._named(self._workers[worker].namespace, tokens)):
            found = self._flights.find(delivery_id)
            if found is None or found[0].worker in self._leaving:
                orphans.append(at)
            elif found[0].was_sent_after(found[1], said):
                out.lost.append(token_at(tokens, at))
            else:
                batch, row = found
                batch.lease_until_ms[row] = max(batch.lease_until_ms[row], min(until_ms, batch.end_ms(row)))
        if orphans:
            self._bring(worker, tokens, orphans, now_ms, out, known_only=True)
        return out

    def report(self, namespace: str, token: bytes, report: ProgressReport, now_ms: int) -> None:
        """How far an attempt has come, for the next one. Of one that is not open here nobody keeps it."""
        for delivery_id, said in self._named(namespace, token):
            found = self._flights.find(delivery_id)
            if found is not None and not found[0].was_sent_after(found[1], said):
                batch, row = found
                batch.heard(row, now_ms - report.age_ms)
                if report.text:
                    batch.report(row, report.text)

    def progress_of(self, key: RowKey) -> str:
        """Of any attempt of the row's generation that is in hand; empty: nothing was said."""
        found = self._flights.find(delivery_id_of(key.digest, key.version))
        return found[0].progress(found[1]) if found is not None else ""

    def resume(self, worker: int, tokens: bytes, now_ms: int, *, known_only: bool = False) -> HeldTokens:
        """The worker came back on this stream with these in hand: they are not sent again. `known_only`: what was not
        known here before is lost."""
        out = HeldTokens()
        self._bring(worker, tokens, range(len(tokens) // ACK_TOKEN_BYTES), now_ms, out, known_only=known_only)
        return out

    def replaced(self, namespace: str, names: Iterable[bytes], now_ms: int) -> tuple[Settlement, list[int]]:
        """Of what these streams brought, their worker has only what it has resumed: the rest goes back as it was."""
        found = [self._names[each] for name in names if (each := (namespace, name)) in self._names]
        for worker in found:
            self.capacity.drop(worker)
        back = [self._flights.unreceived(worker, now_ms, self._given_back) for worker in found]
        return Settlement(back=[again for each in back for again in each]), found

    def move_away(self, partition: Partition, ids: Collection[bytes] = ()) -> list[tuple[int, Taken]]:
        """(worker, what it has of the partition, and of `ids`): from here on another instance has it."""
        return list(self._flights.move_away(partition, ids))

    def open_among(self, namespace: str, tokens: bytes) -> list[bool]:
        """For each token, whether its delivery is open here."""
        ids = delivery_ids_of(tokens, self._secret, namespace)
        return [self._flights.find(delivery_id) is not None for delivery_id in ids]

    def let_go(self, namespace: str, tokens: bytes) -> list[bytes]:
        """Delivery ids of those that were held as from before a restart, and are not any more."""
        named = self._named(namespace, tokens)
        return [delivery_id for delivery_id, said in named if self.before.give_up(delivery_id, said.version)]

    def tick(self, now_ms: int) -> tuple[Settlement, list[QueueKey]]:
        """What failed because nobody spoke for it, not all at once, and the queues that lost their last worker."""
        out = Settlement()
        for batch, rows in self._flights.expired(now_ms, MOST_FAILED):
            self.interrupts.over(batch, rows, now_ms)
            for end, over in batch.over(rows, now_ms).items():
                self._fail_all(out, batch, over, Failure(now_ms, NOT_SETTLED[end], end=end))
        gone: list[QueueKey] = []
        for worker in [w for w, at_ms in self._leaving.items() if at_ms <= now_ms]:
            gone += self._remove(worker, now_ms, out)
        self.before.forget(now_ms)
        self.before.brought.lapse(now_ms)
        return out, gone

    def next_wake_ms(self) -> int | None:
        """When to call `tick`."""
        times = [*self._leaving.values()]
        if (lapse_ms := self.before.brought.next_ms()) < math.inf:
            times.append(int(lapse_ms))
        if (look_ms := self._flights.next_look_ms()) is not None:
            times.append(look_ms)
        return min(times, default=None)

    def open_deliveries(self) -> list[OpenDelivery]:
        """For the hand-over: what is with workers, and until when."""
        return [
            OpenDelivery(batch.taken.partition, batch.key(row), batch.lease_until_ms[row])
            for batch in self._flights.all()
            for row in self._flights.open_rows(batch)
        ]

    def lease_of(self, key: RowKey) -> int | None:
        """Lease end of the delivery of any attempt of the row's generation."""
        return self._flights.lease_of(delivery_id_of(key.digest, key.version))

    def places(self, ids: Collection[bytes]) -> dict[bytes, Place]:
        return self._flights.places(ids)

    def check(self) -> None:
        """Invariants, for tests."""
        self.capacity.check()
        self._flights.check()
        assert {b.worker for b in self._flights.all() if not self._draining} <= self._workers.keys()
        self._served.check(state.queues for state in self._workers.values())
        assert self._workers.keys() >= set(self._names.values())
        assert self._leaving == {w: s.gone_at_ms for w, s in self._workers.items() if s.gone_at_ms is not None}

    def _named(self, namespace: str, tokens: bytes) -> list[tuple[bytes, NamedDelivery]]:
        return named_in(tokens, self._secret, namespace)

    def _ack(self, namespace: str, tokens: bytes, now_ms: int) -> Settlement:
        if self._older_ack:
            tell_older(self._flights, self._named(namespace, tokens), self._older_ack)
        ids = short_ids_of(tokens, self._secret, namespace)
        ended, acked, unknown = self._flights.acked(ids, now_ms)
        self.before.end(map(long_id, ids))
        for kept in (self._given_back, self.interrupts):
            if kept:
                kept.forget(ids)
        out = Settlement(ended, acked)
        for at in unknown:
            self._settle_unknown(out, at, long_id(ids[at]), token_at(tokens, at), None)
        return out

    def _release(self, namespace: str, tokens: bytes, now_ms: int) -> Settlement:
        """Not begun: what is open here can be sent again as it is; a row from before a restart is free to fire."""
        out = Settlement()
        why = Failure(now_ms, RELEASED, end=AttemptEnd.GIVEN_BACK)
        for at, (delivery_id, said) in enumerate(self._named(namespace, tokens)):
            found = self._flights.find(delivery_id)
            if found is not None and found[0].sending(found[1]) == said:
                self._give_back(out, *found, "released", why)
            elif not delivery_id:
                out.refused[at] = FORGED
            elif found is None and self.before.give_up(delivery_id, said.version):
                out.released.append(delivery_id)
        return out

    def _give_back(self, out: Settlement, batch: Batch, row: int, outcome: str, why: Failure) -> None:
        self._flights.remove(batch, [row])
        batch.settled(outcome, why.at_ms)
        self._given_back.add(batch.ids[row], batch.sending(row))
        out.back.append(why.again(batch.taken.partition, batch.key(row), why.at_ms))

    def _fail_unknown(
        self, out: Settlement, at: int, delivery_id: bytes, said: NamedDelivery, token: bytes, failure: Failure
    ) -> None:
        """What was given back waits as it was, whatever is said of it by who had it."""
        if not self._given_back.is_over(short_id(delivery_id), said):
            self._settle_unknown(out, at, delivery_id, token, failure)
        elif failure.hopeless:
            out.refused[at] = UNBEGUN

    def _settle_unknown(
        self, out: Settlement, at: int, delivery_id: bytes, token: bytes, failure: Failure | None
    ) -> None:
        """Nothing is open here for it: it ended, waits for its next attempt, or was sent before a restart. No failure:
        an ack."""
        if not delivery_id:
            out.refused[at] = FORGED
            return
        named = parse_token(token)
        if failure is not None and self.before.has_later(delivery_id, named.key.version):
            if failure.hopeless:
                out.refused[at] = SENT_AGAIN
            return
        held = self.before.give_up(delivery_id, named.key.version)
        if failure is None:
            out.late[at] = delivery_id
            return
        out.failed_late.append(LateFailure(named, failure, at))
        if held:
            out.released.append(delivery_id)

    def _bring(
        self, worker: int, tokens: bytes, which: Iterable[int], now_ms: int, out: HeldTokens, *, known_only: bool
    ) -> None:
        """Puts deliveries into the hands of this worker: those of another stream, and those from before a restart."""
        named = self._named(self._workers[worker].namespace, tokens)
        until_ms = now_ms + self._workers[worker].lease_ms
        moving: dict[int, tuple[Batch, list[int]]] = {}
        for at in which:
            delivery_id, said = named[at]
            found = self._flights.find(delivery_id)
            if found is None and self._given_back.is_over(short_id(delivery_id), said):
                out.lost.append(token_at(tokens, at))
            elif found is None:
                self._hold(delivery_id, token_at(tokens, at), now_ms, until_ms, out, known_only=known_only)
            elif found[0].was_sent_after(found[1], said):
                out.lost.append(token_at(tokens, at))
            else:
                moving.setdefault(found[0].number, (found[0], []))[1].append(found[1])
        for batch, rows in moving.values():
            self._flights.adopt(worker, batch, sorted(set(rows)), until_ms)

    def _hold(
        self, delivery_id: bytes, token: bytes, now_ms: int, until_ms: int, out: HeldTokens, *, known_only: bool
    ) -> None:
        """Not open here: held where the worker may have it from before a restart."""
        may_begin = not known_only and bool(delivery_id)
        named = parse_token(token)
        lease_ms = self.before.hold(delivery_id, named.key.version, now_ms, until_ms, may_begin=may_begin)
        if lease_ms is None:
            out.lost.append(token)
        else:
            out.until[delivery_id] = lease_ms
            self.before.brought.hold(delivery_id, Place(named.partition, named.key), lease_ms)

    def _remove(self, worker: int, now_ms: int, out: Settlement) -> list[QueueKey]:
        """The grace is over. The worker is gone when all that it had has failed."""
        if not self._draining:
            failure = Failure(now_ms, LOST, end=AttemptEnd.WORKER_LOST)
            for batch in self._flights.of(worker):
                if out.size >= MOST_FAILED:
                    return []
                self._fail_all(out, batch, self._flights.open_rows(batch), failure)
        state = self._workers.pop(worker)
        self._names.pop((state.namespace, state.name), None)
        del self._leaving[worker]
        return [queue for queue in state.queues if self._served.leave(queue)]

    def _fail_all(self, out: Settlement, batch: Batch, rows: Sequence[int], failure: Failure) -> None:
        if rows:
            self._flights.remove(batch, rows)
            outcome, is_silent = "lost" if failure.lost else "timed_out", failure.end is AttemptEnd.LEASE_ENDED
            batch.settled(outcome, failure.at_ms, len(rows), is_silent=is_silent)
            self._fail(out, batch, rows, failure)

    def _fail(self, out: Settlement, batch: Batch, rows: Sequence[int], failure: Failure) -> None:
        dead_letters = len(out.dead_letters)
        worker = self._workers.get(batch.worker)
        sent = replace(failure, sent_ms=batch.sent_ms, worker=worker.called if worker is not None else "")
        fail(out, batch, rows, sent, self._secret, self.interrupts)
        if self.interrupts:
            self.interrupts.forget(batch.ids[row] for row in rows)
        batch.stats.dead += len(out.dead_letters) - dead_letters
