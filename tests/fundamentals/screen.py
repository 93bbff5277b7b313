"""One who looks on at a server, and what that one has seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from timerd.client import Client, DeliveryEvent, Watched

PATIENCE_S = 20.0


async def until(is_there: Callable[[], bool]) -> None:
    """It comes with what others do meanwhile."""
    until_s = asyncio.get_running_loop().time() + PATIENCE_S
    while not is_there():
        assert asyncio.get_running_loop().time() < until_s, "it has not come in time"
        await asyncio.sleep(0.01)


class Screen:
    """What one who looks on has seen."""

    def __init__(self) -> None:
        self.parts: list[Watched] = []

    @property
    def events(self) -> list[DeliveryEvent]:
        return [event for part in self.parts for event in part.events]

    @property
    def left_out(self) -> int:
        return sum(part.left_out for part in self.parts)

    async def shows(self, events: int) -> list[DeliveryEvent]:
        await until(lambda: len(self.events) >= events)
        return self.events


@asynccontextmanager
async def looking_on(client: Client, queue: str = "", max_per_second: int = 0) -> AsyncIterator[Screen]:
    screen = Screen()

    async def look() -> None:
        async with aclosing(client.watch(queue, max_per_second=max_per_second)) as parts:  # type: ignore[type-var]
            async for part in parts:
                screen.parts.append(part)

    looking = asyncio.create_task(look())
    await until(lambda: bool(screen.parts) or looking.done())
    try:
        yield screen
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
