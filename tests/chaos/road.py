"""Roads that can be cut: a loopback port behind which another address lies, for what instances say to the store and to
each other.

They live in a thread of their own. What is held back on a road arrives when it opens again, as over a network that
was away for a while; a cut breaks what is there and lets nobody in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")
_PIECE_BYTES = 1 << 16
_START_S = 10


class Road:
    """One listening port. Its state may be changed from any thread."""

    def __init__(self, roads: Roads, host: str, port: int) -> None:
        self._roads = roads
        self._to = (host, port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_cut = False
        self._delay_s = 0.0
        self.port = 0

    def cut(self) -> None:
        self._roads.soon(self._cut)

    def hold(self) -> None:
        self._roads.soon(self._is_open.clear)

    def slow(self, delay_s: float) -> None:
        self._roads.soon(self._slow, delay_s)

    def heal(self) -> None:
        self._roads.soon(self._heal)

    def _cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def _slow(self, delay_s: float) -> None:
        self._delay_s = delay_s

    def _heal(self) -> None:
        self._is_cut, self._delay_s = False, 0.0
        self._is_open.set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        self.port = int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._cut()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Also on a road that is held a connection is made: it is the network that is away, not the other side."""
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._to)
        except OSError:
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers |= pair
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        finally:
            self._writers -= pair

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_PIECE_BYTES):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            # The other direction ends with it.
            writer.transport.abort()
        finally:
            writer.close()


class Roads:
    """All of them, in one thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="roads", daemon=True)
        self._roads: list[Road] = []
        self._thread.start()

    def to(self, host: str, port: int) -> Road:
        road = self._wait(self._opened(host, port))
        self._roads.append(road)
        return road

    def soon(self, change: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(change, *arguments)

    def close(self) -> None:
        self._wait(self._closed())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _opened(self, host: str, port: int) -> Road:
        road = Road(self, host, port)
        await road.open()
        return road

    async def _closed(self) -> None:
        for road in self._roads:
            road.close()
        carrying = asyncio.all_tasks() - {asyncio.current_task()}
        if carrying:
            await asyncio.wait(carrying, timeout=_START_S)

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_S)
