"""Acks that have no answer yet. The rows of their deliveries do not fire, however long the store takes.

They are held back for a while at a time, and anew as long as somebody waits: what a server holds goes with it when it
dies, and no row waits for ever for an ack that was lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection

from timerd.services.background import begin
from timerd.services.engine.verbs import LOOKED_FOR_MS

HOLD_AGAIN_S = LOOKED_FOR_MS / 2_000


class Unanswered:
    """Counts acks by delivery id. `hold` holds their rows back for LOOKED_FOR_MS."""

    def __init__(self, hold: Callable[[Collection[bytes]], None]) -> None:
        self._hold = hold
        self._acks: Counter[bytes] = Counter()
        self._holding: asyncio.Task[None] | None = None

    def add(self, delivery_ids: Collection[bytes]) -> None:
        """Which are held back already."""
        self._acks.update(delivery_ids)
        if self._acks and (self._holding is None or self._holding.done()):
            self._holding = begin(self._hold_again(), "unanswered_acks")

    def discard(self, delivery_ids: Collection[bytes]) -> None:
        """They are answered, or nobody waits for them any more."""
        self._acks.subtract(delivery_ids)
        for delivery_id in delivery_ids:
            if not self._acks[delivery_id]:
                del self._acks[delivery_id]

    async def _hold_again(self) -> None:
        while self._acks:
            await asyncio.sleep(HOLD_AGAIN_S)
            if self._acks:
                self._hold(self._acks.keys())
