"""The sealed batches that a relay has in hand: they go beside each other, for no two have a key in common (X3)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from timerd.outbox.rows import SealedBatch


class BatchesInHand:
    """By number: how each is sent, which is done when it is over or another batch has taken its place."""

    def __init__(self) -> None:
        self._sendings: dict[int, asyncio.Task[None]] = {}

    def add(self, batch: SealedBatch, sending: asyncio.Task[None]) -> None:
        self._sendings[batch.no] = sending

    def remove(self, no: int) -> None:
        """It may have been taken over from another relay meanwhile, and be over already."""
        self._sendings.pop(no, None)

    def numbers(self) -> list[int]:
        return [*self._sendings]

    def sendings(self, without: Collection[int] = ()) -> list[asyncio.Task[None]]:
        return [sending for no, sending in self._sendings.items() if no not in without]

    def count(self, without: Collection[int] = ()) -> int:
        """How many there are beside these."""
        return sum(no not in without for no in self._sendings)
