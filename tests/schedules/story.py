"""A server whose clock a test turns, a client, and a worker that notes what comes."""

from __future__ import annotations

from datetime import UTC, datetime

from timerd.testing import Server
from timerd.worker import Delivery

START = datetime(2030, 1, 1, 8, tzinfo=UTC)


class Story:
    """A server, a client, and a worker that notes what comes."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.client = server.client()
        self.schedules = self.client.schedules
        self.came: list[tuple[datetime, Delivery]] = []

    async def work(self, queue: str = "reports") -> None:
        worker = self.server.worker()

        @worker.on(queue)
        async def handle(delivery: Delivery) -> None:
            self.came.append((self.server.now, delivery))

        await worker.start()

    def instants(self) -> list[datetime]:
        """Of what came."""
        return [each.occurrence.instant for _, each in self.came if each.occurrence is not None]


def day(number: int, hour: int = 9) -> datetime:
    return datetime(2030, 1, number, hour, tzinfo=UTC)
