"""What stands in a file, a pipe or stdin, line by line: read beside the event loop and a part at a time, so that memory
holds a bounded part of it, and what a slow writer has written so far is used before it writes on."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from timerd.commands.failures import WrongInput
from timerd.model.task import MAX_PAYLOAD_BYTES

_STDIN = 0
_CHUNK_BYTES = 128 << 10
_CHUNKS_AHEAD = 8


class InputLines:
    """The lines of `path` (`-` is stdin), without their ends. Used once, inside a running event loop.

    Raises OSError where there is no such file, or it is a folder.
    """

    def __init__(self, path: Path) -> None:
        self.name = "stdin" if str(path) == "-" else str(path)
        self._source = _STDIN if str(path) == "-" else path
        found = os.stat(self._source)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.name)
        # None: a pipe, a terminal or a device does not say how much will come.
        self.size_bytes = found.st_size if stat.S_ISREG(found.st_mode) else None
        self.read_bytes = 0
        # Lines that `batches` has handed out, and that are stored: their reader has asked for the next ones.
        self.count = 0
        self._chunks: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """All lines that have been read meanwhile, again and again. Raises WrongInput for a line that no payload may
        have, OSError where reading fails."""
        self._start()
        rest, is_over = b"", False
        while not is_over:
            chunk, is_over = await self._next()
            *lines, rest = (rest + chunk).split(b"\n")
            if is_over and rest:
                lines, rest = [*lines, rest], b""
            if lines:
                yield [line.rstrip(b"\r") for line in lines]
                self.count += len(lines)
            if len(rest) > MAX_PAYLOAD_BYTES:
                raise WrongInput(_too_long(f"{self.name}, line {self.count + 1}") + self.stored)

    @property
    def stored(self) -> str:
        """What stands behind the sentence of an error; empty where nothing was stored."""
        return f" Lines stored before that: {self.count:,}." if self.count else ""

    async def content(self) -> bytes:
        """All of it as one payload. Raises WrongInput where that is more than a payload may have."""
        self._start()
        content, is_over = b"", False
        while not is_over:
            chunk, is_over = await self._next()
            content += chunk
            if len(content) > MAX_PAYLOAD_BYTES:
                raise WrongInput(_too_long(self.name))
        return content

    def _start(self) -> None:
        # A thread that a program which ends does not wait for: the other side of a pipe may never say more.
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), name="input", daemon=True).start()

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        last: bytes | OSError = b""
        with suppress(RuntimeError):  # The loop has been closed: nobody waits any more.
            try:
                with open(self._source, "rb", buffering=0, closefd=self._source != _STDIN) as file:
                    while chunk := file.read(_CHUNK_BYTES):
                        self._room.acquire()
                        loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except OSError as error:
                last = error
            loop.call_soon_threadsafe(self._chunks.put_nowait, last)

    async def _next(self) -> tuple[bytes, bool]:
        """What has been read since, and whether it was the last."""
        chunks = [await self._chunks.get()]
        while not self._chunks.empty():
            chunks.append(self._chunks.get_nowait())
        read = []
        for chunk in chunks:
            if isinstance(chunk, OSError):
                raise chunk
            read.append(chunk)
            self._room.release()
        self.read_bytes += sum(map(len, read))
        return b"".join(read), not read[-1]


def _too_long(what: str) -> str:
    return f"{what}: The payload has more than {MAX_PAYLOAD_BYTES:,} bytes, and no server takes more."
