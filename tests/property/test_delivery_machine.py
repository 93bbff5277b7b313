"""The delivery machine against an oracle: one plain record for each delivery, all of them looked at each time."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.deliveries import NOW_MS, SECRET, ids_of, taken_of, tokens_of
from timerd.core.dispatch.delivery_machine import DeliveryMachine
from timerd.core.dispatch.flights import LEASE_GRID_MS
from timerd.core.dispatch.retry import backoff_ms
from timerd.core.dispatch.settlement import Action, Failure, Settlement
from timerd.core.dispatch.stalls import WORD_MS
from timerd.core.taken import QueueKey, Taken
from timerd.model.identity import DIGEST_BYTES, RowKey, attempt_of
from timerd.model.task import RetryPolicy, Template

GRACE_MS = 1_000
LEASES_MS = (1_000, 3_000, 20_000)
POLICY = RetryPolicy(max_attempts=3, initial_backoff_ms=500, attempt_timeout_ms=8_000)
TEMPLATES = {name: Template("default", name, retry=POLICY) for name in ("a", "b")}
picks = st.integers(0, 1 << 30)


@dataclass
class Delivery:
    """An open one, or with worker 0 one that waits: for its next attempt, or `given_back` as it was."""

    queue: str
    key: RowKey
    worker: int = 0
    lease_ms: int = 0
    deadline_ms: int = 0
    token: bytes = b""
    given_back: bool = False


@dataclass
class WorkerState:
    lease_ms: int
    credits: dict[str, int]
    blocked: bool = False
    gone_at_ms: int = 0


class DeliveryModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine = DeliveryMachine(SECRET, GRACE_MS)
        self.now_ms = NOW_MS
        self.workers: dict[int, WorkerState] = {}
        self.open: dict[bytes, Delivery] = {}
        self.waiting: dict[bytes, Delivery] = {}
        self.ended: set[bytes] = set()
        # Brought back from before a restart: the version of the latest attempt.
        self.held: dict[bytes, int] = {}
        # Everything that was ever sent: (delivery id, key, token).
        self.sent: list[tuple[bytes, RowKey, bytes]] = []
        self.next_index = 0
        self.next_worker = 1

    def live(self) -> list[int]:
        return [w for w, s in self.workers.items() if not s.gone_at_ms]

    def credit_of(self, queue: str) -> int:
        return sum(s.credits.get(queue, 0) for s in self.workers.values() if not s.blocked and not s.gone_at_ms)

    def some(self, pick: int, count: int) -> list[tuple[bytes, RowKey, bytes]]:
        """A few of what was sent, old and new, each delivery once."""
        recent = self.sent[-12:] if pick % 8 else self.sent
        first = pick % len(recent)
        chosen = (recent[first:] + recent[:first])[:count]
        return list({each[0]: each for each in chosen}.values())

    @initialize()
    def two_workers(self) -> None:
        for lease_ms in LEASES_MS[:2]:
            self.join(lease_ms)
            for queue in sorted(TEMPLATES):
                self.credit(-1, queue, 20)

    @rule(lease_ms=st.sampled_from(LEASES_MS))
    def join(self, lease_ms: int) -> None:
        self.machine.join(self.next_worker, "default", lease_ms, str(self.next_worker).encode())
        self.workers[self.next_worker] = WorkerState(lease_ms, {})
        self.next_worker += 1

    @precondition(lambda self: self.live())
    @rule(pick=picks, queue=st.sampled_from(sorted(TEMPLATES)), tasks=st.integers(0, 20))
    def credit(self, pick: int, queue: str, tasks: int) -> None:
        worker = self.live()[pick % len(self.live())]
        is_first = all(queue not in s.credits for s in self.workers.values())
        first = self.machine.credit(worker, queue, tasks)
        assert first == (QueueKey("default", queue) if is_first else None)
        state = self.workers[worker]
        state.credits[queue] = state.credits.get(queue, 0) + tasks

    @precondition(lambda self: self.live())
    @rule(pick=picks)
    def block_or_unblock(self, pick: int) -> None:
        worker = self.live()[pick % len(self.live())]
        state = self.workers[worker]
        (self.machine.unblock if state.blocked else self.machine.block)(worker)
        state.blocked = not state.blocked

    @precondition(lambda self: self.live())
    @rule(pick=picks)
    def break_stream(self, pick: int) -> None:
        worker = self.live()[pick % len(self.live())]
        self.machine.broken(worker, self.now_ms)
        self.workers[worker].gone_at_ms = self.now_ms + GRACE_MS

    @precondition(lambda self: self.open)
    @rule(pick=picks)
    def interrupt(self, pick: int) -> None:
        """What is said of it after that means what it always does. Of a last attempt its holder decides."""
        delivery = [*self.open.values()][pick % len(self.open)]
        if attempt_of(delivery.key.version) < POLICY.max_attempts:
            self.machine.interrupts.cancelled(delivery.key)

    @precondition(lambda self: self.machine.turn())
    @rule(queue=st.sampled_from(sorted(TEMPLATES)), fresh=st.integers(0, 3))
    def assign(self, queue: str, fresh: int) -> None:
        name = QueueKey("default", queue)
        assert self.machine.wanted(name) == self.credit_of(queue)
        wanted = self.machine.wanted(name)
        batches = [t for t in (*self.retries(queue, wanted), self.fresh(queue, fresh)) if t][: wanted or 0]
        kept = [*batches[:-1], batches[-1].part(slice(0, wanted - len(batches) + 1))] if batches else []
        before = {w: s.credits.get(queue, 0) for w, s in self.workers.items()}
        for each in self.machine.assign(name, kept, self.now_ms):
            state = self.workers[each.worker]
            assert not state.blocked
            assert not state.gone_at_ms
            state.credits[queue] -= len(each.taken)
            self.take_off(each.worker, queue, each.taken)
        sent = sum(before.values()) - sum(s.credits.get(queue, 0) for s in self.workers.values())
        assert sent == sum(map(len, kept))
        assert all(s.credits.get(queue, 0) >= 0 for s in self.workers.values())

    def retries(self, queue: str, limit: int) -> list[Taken]:
        due = [d for d in self.waiting.values() if d.queue == queue and d.key.position_ms <= self.now_ms][:limit]
        return [self.row(d.key, queue) for d in due]

    def row(self, key: RowKey, queue: str) -> Taken:
        index = int.from_bytes(key.digest[12:], "big")
        return taken_of([index], TEMPLATES[queue], position_ms=key.position_ms, version=key.version)

    def fresh(self, queue: str, count: int) -> Taken:
        self.next_index += count
        return taken_of(range(self.next_index - count, self.next_index), TEMPLATES[queue], position_ms=self.now_ms)

    def take_off(self, worker: int, queue: str, taken: Taken) -> None:
        tokens = tokens_of(taken)
        lease_ms = self.now_ms + self.workers[worker].lease_ms
        deadline_ms = self.now_ms + POLICY.attempt_timeout_ms + WORD_MS
        for at, (delivery_id, key) in enumerate(zip(ids_of(taken), taken.rows.keys(), strict=True)):
            self.waiting.pop(delivery_id, None)
            assert delivery_id not in self.open
            token = tokens[at * 64 : at * 64 + 64]
            assert all(token != before for _, _, before in self.sent)
            self.open[delivery_id] = Delivery(queue, key, worker, min(lease_ms, deadline_ms), deadline_ms, token)
            self.sent.append((delivery_id, key, token))

    @precondition(lambda self: self.sent)
    @rule(pick=picks, count=st.integers(1, 5))
    def ack(self, pick: int, count: int) -> None:
        chosen = self.some(pick, count)
        settled = self.machine.settle("default", Action.ACK, b"".join(c[2] for c in chosen), self.now_ms, None, "")
        known = [i for i, _, _ in chosen if i in self.open]
        assert [e.key for e in settled.ended] == [self.open[i].key for i in known]
        assert settled.late == {at: i for at, (i, _, _) in enumerate(chosen) if i not in self.open}
        assert (settled.again, settled.dead_letters, settled.refused) == ([], [], {})
        for i, _, _ in chosen:
            self.open.pop(i, None)
            self.waiting.pop(i, None)
            self.held.pop(i, None)
            self.ended.add(i)

    @precondition(lambda self: self.sent)
    @rule(pick=picks, count=st.integers(1, 5), delay_ms=st.none() | st.integers(0, 900), hopeless=st.booleans())
    def fail(self, pick: int, count: int, delay_ms: int | None, hopeless: bool) -> None:
        chosen = self.some(pick, count)
        action = Action.REJECT if hopeless else Action.NACK
        settled = self.machine.settle("default", action, b"".join(c[2] for c in chosen), self.now_ms, delay_ms, "why")
        current = [i for i, _, token in chosen if i in self.open and self.open[i].token == token]
        unknown = self.not_outlived([each for each in chosen if not self.is_given_back(each[0], each[1])])
        late = [x.token.key.digest for x in settled.failed_late]
        # Whoever rejects what was sent again, or was given back, hears that it is over, also where a worker has brought
        # back the later attempt; a failure of it is passed over.
        outlived = [at for at, each in enumerate(chosen) if self.is_given_back(*each[:2]) or self.is_outlived(*each)]
        assert late == [i[:DIGEST_BYTES] for i in unknown]
        assert list(settled.refused) == (outlived if hopeless else [])
        assert settled.released == [i for i in unknown if self.held.pop(i, None) is not None]
        self.compare_failed(settled, [(i, delay_ms) for i in current], hopeless=hopeless)

    @precondition(lambda self: self.sent)
    @rule(pick=picks, count=st.integers(1, 5))
    def release(self, pick: int, count: int) -> None:
        chosen = self.some(pick, count)
        settled = self.machine.settle("default", Action.RELEASE, b"".join(c[2] for c in chosen), self.now_ms, None, "")
        current = [i for i, _, token in chosen if i in self.open and self.open[i].token == token]
        assert [each.key for each in settled.back] == [self.open[i].key for i in current]
        assert (settled.ended, settled.again, settled.dead_letters, settled.failed_late) == ([], [], [], [])
        unknown = self.not_outlived(chosen)
        assert settled.released == [i for i in unknown if self.held.pop(i, None) is not None]
        self.give_back(current)

    @precondition(lambda self: self.sent)
    @rule(pick=picks, count=st.integers(1, 5), is_held=st.booleans())
    def throttle(self, pick: int, count: int, is_held: bool) -> None:
        """What is open here waits as it was, or has failed where nothing holds its queue; all else is as of a nack."""
        chosen = self.some(pick, count)
        failure = Failure(self.now_ms, "told to wait", 50)
        tokens, why = b"".join(c[2] for c in chosen), "" if is_held else "it is not listed"
        settled = self.machine.throttle("default", tokens, failure, lambda _, __: why)
        current = [i for i, _, token in chosen if i in self.open and self.open[i].token == token]
        if is_held:
            assert [each.key for each in settled.back] == [self.open[i].key for i in current]
            assert (settled.ended, settled.again, settled.dead_letters, settled.refused) == ([], [], [], {})
            self.give_back(current)
        else:
            assert settled.back == []
            self.compare_failed(settled, [(i, 50) for i in current], hopeless=False)
        assert all(i not in self.open for i in settled.released)
        for delivery_id in settled.released:
            del self.held[delivery_id]

    def give_back(self, ids: list[bytes]) -> None:
        for delivery_id in ids:
            delivery = self.open.pop(delivery_id)
            self.waiting[delivery_id] = Delivery(delivery.queue, delivery.key, given_back=True)

    def is_given_back(self, delivery_id: bytes, key: RowKey) -> bool:
        delivery = self.waiting.get(delivery_id)
        return delivery is not None and delivery.given_back and delivery.key.version == key.version

    def is_outlived(self, delivery_id: bytes, key: RowKey, token: bytes) -> bool:
        if delivery_id in self.open:
            return self.open[delivery_id].token != token
        return self.held.get(delivery_id, 0) > key.version

    def not_outlived(self, chosen: list[tuple[bytes, RowKey, bytes]]) -> list[bytes]:
        """Of those that are not open: where a worker has brought back a later attempt, an older one counts no more."""
        return [i for i, key, _ in chosen if i not in self.open and self.held.get(i, 0) <= key.version]

    @precondition(lambda self: self.live())
    @rule(pick=picks)
    def retire(self, pick: int) -> None:
        worker = self.live()[pick % len(self.live())]
        self.machine.retire(worker)
        self.workers[worker].blocked = False
        self.workers[worker].credits = dict.fromkeys(self.workers[worker].credits, 0)

    @precondition(lambda self: self.workers)
    @rule(pick=picks)
    def replace(self, pick: int) -> None:
        """The worker has nothing of it, alive or in its grace."""
        worker = sorted(self.workers)[pick % len(self.workers)]
        settled, found = self.machine.replaced("default", [str(worker).encode()], self.now_ms)
        theirs = [i for i, delivery in self.open.items() if delivery.worker == worker]
        assert found == [worker]
        assert {each.key for each in settled.back} == {self.open[i].key for i in theirs}
        assert settled.size == len(theirs)
        self.give_back(theirs)
        self.workers[worker].blocked = False
        self.workers[worker].credits = dict.fromkeys(self.workers[worker].credits, 0)

    def compare_failed(
        self, settled: Settlement, failed: list[tuple[bytes, int | None]], *, hopeless: bool = False
    ) -> None:
        """`failed`: delivery ids with their wait; None = by the policy."""
        expected: dict[bytes, tuple[RowKey, int]] = {}
        dead: set[RowKey] = set()
        for delivery_id, delay_ms in failed:
            delivery = self.open.pop(delivery_id)
            attempt = attempt_of(delivery.key.version)
            if hopeless or attempt >= POLICY.max_attempts:
                dead.add(delivery.key)
                self.ended.add(delivery_id)
                continue
            wait_ms = backoff_ms(POLICY, attempt, delivery.key.digest) if delay_ms is None else delay_ms
            position_ms = max(delivery.key.position_ms, self.now_ms) + wait_ms
            expected[delivery_id] = (delivery.key, position_ms)
            key = RowKey(position_ms, delivery.key.digest, delivery.key.version + 1)
            self.waiting[delivery_id] = Delivery(delivery.queue, key)
        assert sorted((a.key, a.position_ms) for a in settled.again) == sorted(expected.values())
        assert {letter.key for letter in settled.dead_letters} == dead
        assert {end.key for end in settled.dead} == dead
        assert not settled.ended

    @precondition(lambda self: self.sent and self.live())
    @rule(pick=picks, count=st.integers(1, 5), resume=st.booleans())
    def extend_or_resume(self, pick: int, count: int, resume: bool) -> None:
        worker = self.live()[pick % len(self.live())]
        chosen = self.some(pick, count)
        call = self.machine.resume if resume else self.machine.extend
        held = call(worker, b"".join(c[2] for c in chosen), self.now_ms)
        until_ms = self.now_ms + self.workers[worker].lease_ms
        lost = []
        kept = {}
        for delivery_id, key, token in chosen:
            delivery = self.open.get(delivery_id)
            if delivery and delivery.token == token:
                self.extend_one(delivery, worker, until_ms, resume=resume)
            elif not delivery and not self.is_given_back(delivery_id, key) and (resume or delivery_id in self.held):
                self.held[delivery_id] = max(self.held.get(delivery_id, 0), key.version)
                kept[delivery_id] = until_ms
            else:
                lost.append(token)
        assert sorted(held.lost) == sorted(lost)
        assert held.until == kept

    def extend_one(self, delivery: Delivery, worker: int, until_ms: int, *, resume: bool) -> None:
        bounded_ms = min(until_ms, delivery.deadline_ms)
        if resume or self.workers[delivery.worker].gone_at_ms:
            delivery.worker, delivery.lease_ms = worker, bounded_ms
        else:
            delivery.lease_ms = max(delivery.lease_ms, bounded_ms)

    @rule(steps=st.integers(0, 12) | st.just(60))
    def tick(self, steps: int) -> None:
        self.now_ms += steps * LEASE_GRID_MS
        settled, gone = self.machine.tick(self.now_ms)
        silent: list[tuple[bytes, int | None]] = [(i, None) for i, d in self.open.items() if d.lease_ms <= self.now_ms]
        leaving = [w for w, s in self.workers.items() if s.gone_at_ms and s.gone_at_ms <= self.now_ms]
        for i, delivery in self.open.items():
            if delivery.worker in leaving and delivery.lease_ms > self.now_ms:
                attempt = attempt_of(delivery.key.version) - 1
                silent.append((i, backoff_ms(POLICY, attempt, delivery.key.digest) if attempt else 0))
        self.compare_failed(settled, silent)
        queues = {q for w in leaving for q in self.workers[w].credits}
        for worker in leaving:
            del self.workers[worker]
        assert {q.queue for q in gone} == {q for q in queues if all(q not in s.credits for s in self.workers.values())}

    @invariant()
    def agrees(self) -> None:
        self.machine.check()
        assert self.machine.in_flight == len(self.open)
        assert {(d.key, d.lease_until_ms) for d in self.machine.open_deliveries()} == {
            (d.key, d.lease_ms) for d in self.open.values()
        }
        assert {q.queue for q in self.machine.turn()} == {q for q in TEMPLATES if self.credit_of(q)}
        assert self.machine.workers == len(self.live())
        assert not self.ended & self.open.keys()

    @invariant()
    def wakes_in_time(self) -> None:
        ends = [-(-d.lease_ms // LEASE_GRID_MS) * LEASE_GRID_MS for d in self.open.values()]
        ends += [s.gone_at_ms for s in self.workers.values() if s.gone_at_ms]
        wake_ms = self.machine.next_wake_ms()
        assert not ends or (wake_ms is not None and wake_ms <= min(ends))


TestDeliveryMachine = DeliveryModel.TestCase
TestDeliveryMachine.settings = settings(max_examples=150, stateful_step_count=60)
