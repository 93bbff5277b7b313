"""A cable between a client and a server: when it is cut bytes vanish, both sockets stay open, and nobody is told."""

from __future__ import annotations

import asyncio


class Cable:
    """`address`: where it leads."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._cuts = 0
        self._is_cut_for_good = False
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # One entry for each.
        self.connections: asyncio.Queue[int] = asyncio.Queue()

    async def lay(self) -> str:
        """The address of its other end."""
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self, *, for_good: bool = False) -> None:
        """For the connections there are; `for_good`: also for those that come."""
        self._cuts += 1
        self._is_cut_for_good |= for_good

    async def remove(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        laid = self._cuts
        self.connections.put_nowait(1)
        there, back = await asyncio.open_connection(self._host, int(self._port))
        self._writers += [writer, back]
        for pair in ((reader, back), (there, writer)):
            copying = asyncio.create_task(self._copy(*pair, laid))
            self._tasks.add(copying)
            copying.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, laid: int) -> None:
        try:
            while data := await reader.read(65_536):
                if laid == self._cuts and not self._is_cut_for_good:
                    writer.write(data)
        except ConnectionError:
            pass
        finally:
            writer.close()
