"""A server with a virtual clock for each story, a client, and a worker that writes down what it receives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from unittest.mock import patch

import pytest

from timerd.client import Client
from timerd.services.holding import opening
from timerd.testing import Server, Worker
from timerd.worker import Delivery


@dataclass(slots=True)
class Received:
    """One delivery, and when."""

    payload: bytes
    at: datetime
    delivery: Delivery


@dataclass
class Inbox:
    """Handlers for any queue that acknowledge, and what came. `after` says how a handler goes on."""

    server: Server
    got: list[Received] = field(default_factory=list)
    after: Callable[[Delivery], Awaitable[None]] | None = None

    async def __call__(self, delivery: Delivery) -> None:
        self.got.append(Received(delivery.payload, self.server.now, delivery))
        if self.after is not None:
            await self.after(delivery)

    @property
    def payloads(self) -> list[bytes]:
        return [each.payload for each in self.got]

    @property
    def times(self) -> list[datetime]:
        return [each.at for each in self.got]

    @property
    def attempts(self) -> list[int]:
        return [each.delivery.attempt for each in self.got]

    async def works(
        self, *queues: str, concurrency: int = 16, silent: bool = False, lease: float = 30.0, shield: bool = False
    ) -> Worker:
        worker = self.server.worker(silent=silent, lease=lease)
        for queue in queues:
            worker.on(queue, concurrency=concurrency, shield=shield)(self)
        await worker.start()
        return worker


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """On a busy machine to load a backlog may take more than the real second after which its queue goes on without. Not
    by the test's own monkeypatch, which would end after the server then."""
    with patch.object(opening, "TIMEOUT_S", 60.0):
        yield


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return server.client()


@pytest.fixture
def inbox(server: Server) -> Inbox:
    return Inbox(server)


async def ledger(server: Server) -> dict[str, int]:
    """Of the whole story, when its last bucket is finished: whatever was inserted has a known end."""
    await server.advance(minutes=20)
    facts = await server.node.engine.facts()
    counts = dict(facts.ledger)
    assert facts.partitions_open == 0, server.node.scheduler.machines
    assert counts["unexplained"] == 0, counts
    return {name: number for name, number in counts.items() if number}
