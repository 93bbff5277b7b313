"""Who answers with nonsense: the first request of a body as its seed says, each later one with 204."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tests.webhooks.nonsense import Nonsense, say

ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"


class Babbler:
    """A body is the number of a seed. `attempts`: by seed, which ones came."""

    def __init__(self, drawn: Callable[[int], Nonsense]) -> None:
        self.attempts: dict[int, list[int]] = defaultdict(list)
        self.url = ""
        self._drawn = drawn
        self._answering: set[asyncio.Task[None]] = set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._answering.discard(task)
            writer.close()

    async def end(self) -> None:
        for each in [*self._answering]:
            each.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        [length] = re.findall(r"content-length: (\d+)", head)
        seed = int(await reader.readexactly(int(length)))
        attempts = self.attempts[seed]
        attempts.append(int((re.findall(r"timerd-attempt: (\d+)", head) or ["1"])[0]))
        if len(attempts) > 1:
            writer.write(ACCEPTED)
            return True
        nonsense = self._drawn(seed)
        await say(nonsense, reader, writer)
        return nonsense.then == "keep"


@asynccontextmanager
async def babbling(drawn: Callable[[int], Nonsense]) -> AsyncIterator[Babbler]:
    babbler = Babbler(drawn)
    listening = await asyncio.start_server(babbler.take, "127.0.0.1", 0)
    babbler.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    try:
        yield babbler
    finally:
        listening.close()
        await babbler.end()
        await listening.wait_closed()
