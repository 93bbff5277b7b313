"""Settles that come in one turn of the loop share one durable write, and are confirmed when it is done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

from timerd.core.settlement import LateFailure, Settlement
from timerd.model.ack_token import AckToken
from timerd.services.engine.verbs import Firing
from timerd.services.transport.status import caught
from timerd.services.work.desk import Outlet
from timerd.v1.task_pb2 import Problem
from timerd.v1.work_service_pb2 import SettleConfirmed

# What is not open here is looked up one by one; so many at a time.
LATE_AT_ONCE = 256
# A worker that comes back after a restart acks tens of thousands. Those that end together take 15 ms of the loop.
FEW_LATE, LATE_TOGETHER = 16, 2_048
NOT_HELD = (
    "This delivery is not open here any more, so it cannot be rejected; if its task lives, it is delivered again."
)
_LOG = logging.getLogger("timerd.delivery")
_FAILED_PRECONDITION = 9


class _Owed(NamedTuple):
    stream: Outlet
    sequence: int
    tokens: int
    refused: dict[int, str]


class Settling:
    """`changed` is called whenever something has been settled durably (or could not be)."""

    def __init__(self, firing: Firing, changed: Callable[[], None]) -> None:
        self._firing = firing
        self._changed = changed
        self._batch = Settlement()
        self._owed: list[_Owed] = []
        self._running: set[asyncio.Task[None]] = set()
        self._collecting = False

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def confirm(self, stream: Outlet, sequence: int, tokens: int, settlement: Settlement) -> None:
        """Of one message; the worker is answered when it is durable."""
        stream.owe()
        self._owed.append(_Owed(stream, sequence, tokens, settlement.refused))
        self._batch.add(settlement)
        self._start()

    def add(self, settlement: Settlement) -> None:
        """Of nobody's asking: leases that ended."""
        if settlement:
            self._batch.add(settlement)
            self._start()

    def release(self, ids: Iterable[bytes], now_ms: int) -> None:
        """Deliveries from before a restart whose worker gave them back: their rows may fire."""
        self._firing.leased(dict.fromkeys(ids, now_ms))

    def _start(self) -> None:
        """The coroutine begins after everything else of this turn."""
        if not self._collecting:
            self._collecting = True
            flush = asyncio.create_task(self._flush())
            self._running.add(flush)
            flush.add_done_callback(self._done)

    def _done(self, flush: asyncio.Task[None]) -> None:
        self._running.discard(flush)
        self._changed()

    async def _flush(self) -> None:
        self._collecting = False
        batch, owed = self._batch, self._owed
        self._batch, self._owed = Settlement(), []
        problem = await caught(self._store(batch))
        for each in owed:
            each.stream.confirm(_confirmation(each, problem))
        if problem is not None:
            _LOG.warning("what became of %d deliveries is not durable yet: %s", batch.size, problem.message)

    async def _store(self, batch: Settlement) -> None:
        """All of it is handed over before the first wait: from then on it counts."""
        writes: list[Awaitable[object]] = []
        if batch.ended:
            writes.append(self._firing.end(batch.ended))
        if batch.acked:
            writes.append(self._firing.end_acked(batch.acked))
        if batch.again:
            writes.append(self._firing.again(batch.again))
        if batch.back:
            writes.append(self._firing.put_back(batch.back))
        if batch.letters:
            writes.append(self._firing.bury(batch.letters, batch.dead))
        await asyncio.gather(*writes)
        late = batch.late if len(batch.late) <= FEW_LATE else await self._end_together(batch.late)
        for at in range(0, len(late), LATE_AT_ONCE):
            await asyncio.gather(*map(self._firing.end_late, late[at : at + LATE_AT_ONCE]))
        for at in range(0, len(batch.failed_late), LATE_AT_ONCE):
            await asyncio.gather(*map(self._fail_late, batch.failed_late[at : at + LATE_AT_ONCE]))

    async def _end_together(self, late: Sequence[AckToken]) -> list[AckToken]:
        """In steps, between which the loop serves others. Returns those that end one by one."""
        steps = []
        for at in range(0, len(late), LATE_TOGETHER):
            steps.append(asyncio.create_task(self._firing.end_late_here(late[at : at + LATE_TOGETHER])))
            await asyncio.sleep(0)
        return [token for left in await asyncio.gather(*steps) for token in left]

    async def _fail_late(self, late: LateFailure) -> None:
        """A nack that finds nothing is over as well: the task goes on, or has ended."""
        if not await self._firing.fail_late(late.token, late.failure) and late.failure.hopeless:
            late.refused[late.at] = NOT_HELD


def _confirmation(owed: _Owed, problem: Problem | None) -> SettleConfirmed:
    """What could not be stored is refused as a whole: sending it again is safe."""
    if problem is not None:
        return SettleConfirmed(sequence=owed.sequence, refused=range(owed.tokens), problem=problem)
    if not owed.refused:
        return SettleConfirmed(sequence=owed.sequence)
    sentence = next(iter(owed.refused.values()))
    refusal = Problem(code=_FAILED_PRECONDITION, message=sentence, reason="NOT_SETTLED")
    return SettleConfirmed(sequence=owed.sequence, refused=list(owed.refused), problem=refusal)
