"""A way to the node on which answers get lost: requests pass, replies do not while it is deaf."""

from __future__ import annotations

import asyncio

from tests.engines.finding import Found


class DeafProxy:
    """Listens on a loopback port of its own."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_deaf = False

    async def start(self) -> Found:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        port = int(self._server.sockets[0].getsockname()[1])
        return self._found._replace(address="127.0.0.1", port=port)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        node_reader, node_writer = await asyncio.open_connection(self._found.address, self._found.port)
        self._writers |= {writer, node_writer}
        for pair, is_reply in (((reader, node_writer), False), ((node_reader, writer), True)):
            task = asyncio.get_running_loop().create_task(self._copy(*pair, is_reply))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_reply: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                if not (is_reply and self.is_deaf):
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
