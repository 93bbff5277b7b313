"""A server whose clock the test turns, a client, and workers that note whose turn it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from timerd.client import slot_hash
from timerd.testing import Server
from timerd.worker import Delivery, Slot

START = datetime(2030, 1, 1, 8, tzinfo=UTC)
# A cycle of ten minutes has ten slots of a minute.
EVERY = timedelta(minutes=10)


def in_slot(keys: Iterable[int], slot: Slot) -> list[int]:
    """As a database selects them."""
    return [key for key in keys if slot.lo <= slot_hash(key) <= slot.hi]


class Story:
    """`members` are the rows of the caller's database."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.client()
        self.cycles = self.client.cycles
        self.members: list[int] = []
        self.turns: list[tuple[datetime, str]] = []
        self.slots: list[tuple[datetime, Slot]] = []
        self.seen: list[Delivery] = []

    async def work_members(self) -> None:
        worker = self.server.worker()

        @worker.on("members")
        async def sync(delivery: Delivery) -> None:
            self.seen.append(delivery)
            self.turns.append((self.server.now, delivery.payload.decode()))

        await worker.start()

    async def work(self, *, fills: bool = True, syncs: bool = True) -> None:
        if syncs:
            await self.work_members()
        worker = self.server.worker()

        @worker.on("slots")
        async def fill(delivery: Delivery) -> None:
            assert delivery.slot is not None
            self.slots.append((self.server.now, delivery.slot))
            if fills:
                await self.cycles.fill(delivery, in_slot(self.members, delivery.slot))

        await worker.start()

    async def create(self, *, slots: int = 10) -> None:
        await self.cycles.create("sync", every=EVERY, queue="members", slot_queue="slots", slots=slots)

    def turns_of(self, key: int | str) -> Sequence[datetime]:
        return [at for at, who in self.turns if who == str(key)]
