"""The receiver of webhooks: a process that answers 204 to whatever comes, and notes when it came.

As little as HTTP/1.1 asks for, so that it is not what is measured: it looks for the end of the head and for the length
of the body. All reckoning comes afterwards.
"""

from __future__ import annotations

import asyncio
import re
import time
from datetime import datetime
from typing import Any, cast

from benchmarks.child import Answer, obey
from benchmarks.stats import summary

ACCEPTED = b"HTTP/1.1 204 No Content\r\n\r\n"
LOOK_EVERY_S = 0.02
# What comes twice is not always there when the last one is.
LISTEN_S = 0.3
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_DUE = re.compile(rb"timerd-fire-time: (\S+)", re.IGNORECASE)


class Hook(asyncio.Protocol):
    """One connection. `got`: (when, head, body), of all connections."""

    def __init__(self, got: list[tuple[int, bytes, bytes]]) -> None:
        self._got = got
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, end, body = self._unread.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(_LENGTH.findall(head)[0])
        if len(body) >= length:
            self._got.append((time.time_ns(), head, body))
            self._unread = b""
            self._transport.write(ACCEPTED)


class Hooks:
    """`start` comes first, and says where they are."""

    def __init__(self) -> None:
        self._got: list[tuple[int, bytes, bytes]] = []

    async def start(self) -> Answer:
        listening = await asyncio.get_running_loop().create_server(lambda: Hook(self._got), "127.0.0.1", 0)
        return {"port": listening.sockets[0].getsockname()[1]}

    async def came(self, count: int, patience_s: float) -> Answer:
        """When so many have come, or none for a while."""
        seen, heard_s = -1, time.monotonic()
        while len(self._got) < count and time.monotonic() < heard_s + patience_s:
            if len(self._got) != seen:
                seen, heard_s = len(self._got), time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)
        return {}

    async def collect(self, count: int, patience_s: float) -> Answer:
        """Forgets them. `span_s`: from the first to the last."""
        await self.came(count, patience_s)
        await asyncio.sleep(LISTEN_S)
        got, self._got[:] = [*self._got], []
        answer: dict[str, Any] = summary(
            [at_ns / 1e6 - _due_ms(head) for at_ns, head, _ in got], [int.from_bytes(body[:8]) for *_, body in got]
        )
        return answer | {"span_s": (got[-1][0] - got[0][0]) / 1e9 if got else 0.0}


def _due_ms(head: bytes) -> float:
    return datetime.fromisoformat(_DUE.findall(head)[0].decode()).timestamp() * 1e3


async def main() -> None:
    hooks = Hooks()
    await obey({verb: getattr(hooks, verb) for verb in ("start", "came", "collect")})


if __name__ == "__main__":
    asyncio.run(main())
