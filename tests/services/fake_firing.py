"""An engine in memory that keeps what delivery asks of it, and a clock that the test turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from tests.unit.deliveries import NOW_MS, SECRET
from timerd.core.dispatch.settlement import Failure, Settlement
from timerd.core.taken import LAST, AckedRows, Again, Ended, QueueKey, Taken
from timerd.model.ack_token import AckToken
from timerd.model.identity import generation_of
from timerd.model.settle import Outcome
from timerd.model.storage import DeadLetter
from timerd.model.task import PRIORITY_MS
from timerd.services.engine.verbs import Late, Otherwise, State


def key_of(taken: Taken) -> int:
    """The order key of its first row."""
    return int(taken.rows.columns["position_ms"][0]) - PRIORITY_MS * taken.rows.template_of(0).priority


class FakeFiring:
    """`hold`: while it is not set, nothing becomes durable. `now_ms` None: it is `doubtful_ms`, and not trusted."""

    secret = SECRET

    def __init__(self) -> None:
        self.now_ms: int | None = NOW_MS
        self.doubtful_ms = NOW_MS
        self.waiting: dict[QueueKey, list[Taken]] = {}
        self._touched: set[QueueKey] = set()
        self.prepared: list[tuple[QueueKey, int]] = []
        self.rows: dict[tuple[bytes, int], tuple[Taken, QueueKey]] = {}
        self.ended: list[Ended] = []
        self.failed: list[Again] = []
        self.back: list[Again] = []
        self.dead_letters: list[DeadLetter] = []
        self.late: list[AckToken] = []
        self.failed_late: list[tuple[AckToken, Failure]] = []
        # Of what has ended in another way: digest -> what its task is.
        self.states: dict[bytes, State] = {}
        # How many acks were looked for together.
        self.slices: list[int] = []
        self.leases: dict[bytes, int] = {}
        self.unanswered: Counter[bytes] = Counter()
        self.presence: list[tuple[str, bool]] = []
        self.ends = 0
        self.error: Exception | None = None
        self.durable = asyncio.Event()
        self.durable.set()
        self._wake: Callable[[], None] = lambda: None

    def put(self, taken: Taken) -> None:
        template = taken.rows.template_of(0)
        queue = QueueKey(template.namespace, template.queue)
        self.waiting.setdefault(queue, []).append(taken)
        self._touched.add(queue)
        for row, digest in enumerate(taken.digests):
            generation = generation_of(int(taken.rows.columns["version"][row]))
            self.rows[digest, generation] = (taken.part(slice(row, row + 1)), queue)
        self._wake()

    def turn_clock(self, by_ms: int) -> None:
        assert self.now_ms is not None
        self.now_ms += by_ms
        self._wake()

    def firing_ms(self) -> int | None:
        return self.now_ms

    def clock_ms(self) -> int:
        return self.doubtful_ms if self.now_ms is None else self.now_ms

    def take(self, queue: QueueKey, limit: int, now_ms: int, upto: int = LAST) -> Sequence[Taken]:
        out: list[Taken] = []
        rest: list[Taken] = []
        for taken in self.waiting.pop(queue, []):
            due = int(taken.rows.columns["position_ms"][0]) <= now_ms and key_of(taken) <= upto
            count = min(len(taken), limit) if due else 0
            limit -= count
            if count:
                out.append(taken.part(slice(0, count)))
            if count < len(taken):
                rest.append(taken.part(slice(count, len(taken))))
        if rest:
            self.waiting[queue] = rest
        return out

    def prepare(self, queue: QueueKey, until_ms: int) -> None:
        self.prepared.append((queue, until_ms))

    def next_due_ms(self, queue: QueueKey) -> int | None:
        return min((int(t.rows.columns["position_ms"][0]) for t in self.waiting.get(queue, [])), default=None)

    def touched(self) -> Collection[QueueKey]:
        touched, self._touched = self._touched, set()
        return touched

    def due_rows(self, queue: QueueKey, until_ms: int, most: int) -> int:
        columns = [taken.rows.columns["position_ms"] for taken in self.waiting.get(queue, [])]
        return min(most, sum(int((positions <= until_ms).sum()) for positions in columns))

    def head_key(self, queue: QueueKey, now_ms: int) -> int | None:
        due = [t for t in self.waiting.get(queue, []) if int(t.rows.columns["position_ms"][0]) <= now_ms]
        return min(map(key_of, due), default=None)

    def on_due(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def worked(self, queue: QueueKey, *, present: bool) -> None:
        self.presence.append((queue.queue, present))

    def end(self, ended: Sequence[Ended], otherwise: Otherwise) -> Awaitable[None]:
        self.ended += ended
        otherwise += [(each, self.states[each.key.digest]) for each in ended if each.key.digest in self.states]
        self.ends += 1
        return self._durable()

    def expire(self, failed: Sequence[Again]) -> Awaitable[None]:
        return self.end([Ended(each.partition, each.key, Outcome.EXPIRED) for each in failed], [])

    def end_acked(self, acked: Sequence[AckedRows], otherwise: Otherwise) -> Awaitable[None]:
        return self.end([ended for each in acked for ended in each.each()], otherwise)

    def again(self, failed: Sequence[Again]) -> Awaitable[None]:
        self.failed += failed
        for each in failed:
            taken, _ = self.rows[each.key.digest, generation_of(each.key.version)]
            columns = taken.rows.columns.copy()
            columns["position_ms"], columns["version"] = each.position_ms, each.key.version + 1
            next_attempt = taken.part(slice(0, 1))
            next_attempt.rows.columns = columns
            self.put(next_attempt)
        return self._durable()

    def put_back(self, unbegun: Sequence[Again]) -> Awaitable[None]:
        self.back += unbegun
        for each in unbegun:
            self.put(self.rows[each.key.digest, generation_of(each.key.version)][0])
        return self._durable()

    def put_dead_letters(
        self, dead_letters: Sequence[DeadLetter], ended: Sequence[Ended], otherwise: Otherwise
    ) -> Awaitable[None]:
        otherwise += [(each, self.states[each.key.digest]) for each in ended if each.key.digest in self.states]
        self.dead_letters += dead_letters
        self.ended += ended
        return self._durable()

    async def end_late(self, late: Sequence[AckToken]) -> Sequence[Late]:
        self.late += late
        self.slices.append(len(late))
        await self._durable()
        return [self.states.get(token.key.digest) for token in late]

    async def fail_late(self, token: AckToken, failure: Failure) -> State | None:
        self.failed_late.append((token, failure))
        await self._durable()
        return self.states.get(token.key.digest)

    async def state_of(self, token: AckToken) -> State:
        return self.states.get(token.key.digest, State.PENDING)

    def settling(self, settlement: Settlement, now_ms: int) -> list[bytes]:
        """Nothing that is open waits elsewhere here."""
        acked = [*settlement.late.values()]
        self.unanswered.update(acked)
        return acked

    def answered(self, delivery_ids: Collection[bytes]) -> None:
        self.unanswered.subtract(delivery_ids)

    def leased(self, lease_until: Mapping[bytes, int]) -> None:
        self.leases |= lease_until

    async def _durable(self) -> None:
        await self.durable.wait()
        if self.error:
            raise self.error


class FakeAlarm:
    """Rings when the test says so."""

    def __init__(self) -> None:
        self.at_ms: float | None = None
        self._ring: Callable[[], None] = lambda: None

    def listen(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def set(self, at_ms: float) -> None:
        self.at_ms = at_ms

    def close(self) -> None:
        self.at_ms = None

    def ring(self) -> None:
        self._ring()
