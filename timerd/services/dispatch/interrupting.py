"""Tells workers on which of their deliveries the work is for nothing: at once, and again when they say what they have,
be it as they come back.

What a worker has from before a restart, or since its partition got another holder, is not open here: there the store is
asked, for the instance that knew of the cancel may be gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from timerd.core.dispatch import HeldTokens, InterruptReason, Interrupts
from timerd.core.taken import Taken
from timerd.model.ack_token import delivery_ids_of, parse_token, token_at
from timerd.model.errors import TimerdError
from timerd.services.background import begin
from timerd.services.dispatch.ports import Sink
from timerd.services.dispatch.tokens import ack_tokens
from timerd.services.engine.verbs import Firing, State

REASONS = {
    State.CANCELLED: InterruptReason.CANCELLED,
    State.PURGED: InterruptReason.CANCELLED,
    State.EXPIRED: InterruptReason.EXPIRED,
}


class Interrupting:
    """Of one instance. `sinks`: those of its workers, by their numbers. `cancelled` is told of what was, and a worker
    has here."""

    def __init__(
        self,
        interrupts: Interrupts,
        sinks: Mapping[int, Sink],
        firing: Firing,
        cancelled: Callable[[Taken], None] = lambda _: None,
    ) -> None:
        self._cancelled = cancelled
        self._interrupts = interrupts
        self._sinks = sinks
        self._firing = firing
        # Sinks of which something is looked up.
        self._looking: set[int] = set()
        interrupts.listen(self._tell)

    def repeat(self, sink: Sink, tokens: bytes, held: HeldTokens) -> None:
        """The worker has just said that it has these in hand."""
        if not (self._interrupts or held.until):
            return
        ids = delivery_ids_of(tokens, self._firing.secret, sink.namespace)
        known, lost = self._interrupts.among(ids), frozenset(held.lost)
        said: dict[InterruptReason, list[bytes]] = {}
        brought: list[bytes] = []
        for at, delivery_id in enumerate(ids):
            token = token_at(tokens, at)
            if (reason := known.get(delivery_id)) is not None and token not in lost:
                said.setdefault(reason, []).append(token)
            elif delivery_id in held.until:
                brought.append(token)
        for reason, some in said.items():
            sink.interrupt(b"".join(some), reason)
        if brought and sink.number not in self._looking:
            self._looking.add(sink.number)
            begin(self._look(sink, brought), "interrupting")

    def repeat_soon(self, sink: Sink, tokens: bytes, held: HeldTokens) -> None:
        """The same of what the worker comes back with: behind what opens its stream."""
        asyncio.get_running_loop().call_soon(self.repeat, sink, tokens, held)

    def _tell(self, worker: int, taken: Taken, reason: InterruptReason) -> None:
        """A worker that is gone hears of it when it says what it has, wherever that is."""
        if reason is InterruptReason.CANCELLED:
            self._cancelled(taken)
        if (sink := self._sinks.get(worker)) is not None:
            sink.interrupt(ack_tokens(taken, self._firing.secret), reason)

    async def _look(self, sink: Sink, tokens: Collection[bytes]) -> None:
        """What cannot be looked up now is looked up when the worker says again that it has it."""
        try:
            for token in tokens:
                reason = REASONS.get(await self._firing.state_of(parse_token(token)))
                [delivery_id] = delivery_ids_of(token, self._firing.secret, sink.namespace)
                if reason is not None and self._interrupts.note(delivery_id, reason):
                    sink.interrupt(token, reason)
        except TimerdError:
            pass
        finally:
            self._looking.discard(sink.number)
