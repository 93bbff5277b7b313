"""Which messages were stored within a day, and what was answered: only where `remember_requests` is set.

Without it a repeat writes the same rows again, which are kept as they were; close to due it may be delivered twice,
with one delivery_id (protocol section 5). With it every message costs one more read and one more write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from timerd.adapters.cassandra.driver import READS, ROWS, Driver
from timerd.adapters.cassandra.shared import SharedReads


class Requests:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._add = driver.prepare("INSERT INTO requests (prefix, reply) VALUES (?, ?)", ROWS)
        self._find = driver.prepare("SELECT prefix, reply FROM requests WHERE prefix IN ?", READS)
        self._shared: SharedReads[bytes, bytes] = SharedReads(self._read)
        self._under_way: dict[bytes, asyncio.Future[None]] = {}

    async def begin(self, prefix: bytes) -> bytes | None:
        """The reply of the first time; None: it is the first time, and others of the same prefix wait for `end`."""
        while prefix in self._under_way:
            await asyncio.shield(self._under_way[prefix])
        self._under_way[prefix] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._shared.get(prefix)
        except BaseException:
            self.end(prefix)
            raise
        if reply is not None:
            self.end(prefix)
        return reply

    async def remember(self, prefix: bytes, reply: bytes) -> None:
        await self._driver.write(self._add, (prefix, reply))

    def end(self, prefix: bytes) -> None:
        self._under_way.pop(prefix).set_result(None)

    async def _read(self, prefixes: Sequence[bytes]) -> Mapping[bytes, bytes]:
        return dict(await self._driver.rows(self._find, (list(prefixes),)))
