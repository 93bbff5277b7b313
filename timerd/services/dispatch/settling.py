"""Settles that come in one turn of the loop share one durable write, and are confirmed when it is done."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from timerd.core.dispatch import LateFailure, Settlement
from timerd.model.ack_token import parse_token, token_at
from timerd.model.identity import ACK_TOKEN_BYTES, delivery_id_of
from timerd.services.background import begin
from timerd.services.dispatch.late_settling import LateSettling, Owed, refusal_of
from timerd.services.dispatch.ports import Confirmation, Settler
from timerd.services.engine.verbs import Firing, Otherwise, State

_LOG = logging.getLogger("timerd.delivery")


class Settling:
    """`changed` is called whenever something has been settled durably (or could not be)."""

    def __init__(self, firing: Firing, changed: Callable[[], None]) -> None:
        self._firing = firing
        self._changed = changed
        self._batch = Settlement()
        self._owed: list[Owed] = []
        self._running: set[asyncio.Task[None]] = set()
        self._collecting = False
        self._late = LateSettling(firing, self._confirm, changed)
        self._hearers: list[Callable[[Settlement], None]] = []
        self._count: Callable[[str, Settlement], None] | None = None

    def on_durable(self, hear: Callable[[Settlement], None]) -> None:
        """`hear` is told what has become of deliveries when that is durable."""
        self._hearers.append(hear)

    def on_settled(self, count: Callable[[str, Settlement], None]) -> None:
        """`count` is told at once, and whose word it was: a namespace, or nobody's."""
        self._count = count

    @property
    def busy(self) -> bool:
        return bool(self._running) or self._late.busy

    def confirm(
        self,
        settler: Settler,
        sequence: int,
        tokens: bytes,
        settlement: Settlement,
        acked: Sequence[bytes],
        *,
        is_reject: bool = False,
    ) -> None:
        """Of one message; the worker is answered when it is durable. `acked`: whose rows are held back until then."""
        self._counted(settler.namespace, settlement)
        settler.owe(len(tokens) // ACK_TOKEN_BYTES)
        late: deque[int | LateFailure] = deque((*settlement.late, *settlement.failed_late))
        self._owed.append(Owed(settler, sequence, tokens, settlement.refused, late, acked, is_reject=is_reject))
        self._batch.add(settlement)
        self._start()

    def add(self, settlement: Settlement) -> None:
        """Of nobody's asking: leases that ended."""
        if settlement:
            self._counted("", settlement)
            self._batch.add(settlement)
            self._start()

    def _counted(self, namespace: str, settlement: Settlement) -> None:
        if self._count is not None:
            self._count(namespace, settlement)

    def drop(self, stream: int) -> None:
        """It is gone: what it said of deliveries that have to be looked for, it says again."""
        for dropped in self._late.drop(stream):
            self._answered(dropped)

    def release(self, ids: Iterable[bytes], now_ms: int) -> None:
        """Deliveries from before a restart whose worker gave them back: their rows may fire."""
        self._firing.leased(dict.fromkeys(ids, now_ms))

    def _start(self) -> None:
        """The coroutine begins after everything else of this turn."""
        if not self._collecting:
            self._collecting = True
            flush = begin(self._flush(), "settling")
            self._running.add(flush)
            flush.add_done_callback(self._done)

    def _done(self, flush: asyncio.Task[None]) -> None:
        self._running.discard(flush)
        self._changed()

    async def _flush(self) -> None:
        self._collecting = False
        batch, owed = self._batch, self._owed
        self._batch, self._owed = Settlement(), []
        otherwise: Otherwise = []
        error = await _error_of(self._store(batch, otherwise))
        if otherwise:
            _refuse(owed, otherwise)
            others = {item for item, _ in otherwise}
            batch.dead = [item for item in batch.dead if item not in others]
        if error is None:
            for hear in self._hearers:
                hear(batch)
        for each in owed:
            each.error = error
            if each.late and error is None:
                self._late.add(each)
            else:
                self._confirm(each)
        if error is not None:
            _LOG.warning("what became of %d deliveries is not durable yet: %s", batch.size, error)

    def _confirm(self, owed: Owed) -> None:
        tokens = len(owed.tokens) // ACK_TOKEN_BYTES
        self._answered(owed)
        owed.settler.confirm(Confirmation(owed.sequence, tokens, owed.refused, owed.error))

    def _answered(self, owed: Owed) -> None:
        """Once: what is under way of a message that was dropped may fail, and so be confirmed to nobody."""
        acked, owed.acked = owed.acked, ()
        self._firing.answered(acked)

    async def _store(self, batch: Settlement, otherwise: Otherwise) -> None:
        """All of it is handed over before the first wait: from then on it counts."""
        writes: list[Awaitable[object]] = []
        if batch.ended:
            writes.append(self._firing.end(batch.ended, otherwise))
        if batch.expired:
            writes.append(self._firing.expire(batch.expired))
        if batch.acked:
            writes.append(self._firing.end_acked(batch.acked, otherwise))
        if batch.again:
            writes.append(self._firing.again(batch.again))
        if batch.back:
            writes.append(self._firing.put_back(batch.back))
        if batch.dead_letters:
            writes.append(self._firing.put_dead_letters(batch.dead_letters, batch.dead, otherwise))
        await asyncio.gather(*writes)


def _refuse(owed: Iterable[Owed], otherwise: Otherwise) -> None:
    """Acks and rejects of what had ended in another way by then; seldom any, so each is looked for in all messages. Of
    another failure nothing is said: its worker has nothing to take back."""
    states = {delivery_id_of(item.key.digest, item.key.version): state for item, state in otherwise}
    for each in owed:
        for at in range(len(each.tokens) // ACK_TOKEN_BYTES):
            key = parse_token(token_at(each.tokens, at)).key
            state = states.get(delivery_id_of(key.digest, key.version))
            if state is not None and (each.is_reject or state is not State.ACKED):
                each.refused[at] = refusal_of(state, "reject" if each.is_reject else "ack")


async def _error_of(work: Awaitable[None]) -> Exception | None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - told to those who wait for it
        return error
    return None
