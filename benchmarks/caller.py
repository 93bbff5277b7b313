"""A process that calls handlers: it sends tasks and waits for their results, one request for each."""

from __future__ import annotations

import asyncio
import time

from benchmarks.child import Answer, obey
from timerd.client import Client

TIMEOUT_S = 60


class Caller:
    """`start` comes first."""

    async def start(self, target: str) -> Answer:
        self._client = await Client(target, timeout=TIMEOUT_S).__aenter__()
        return {}

    async def calls(self, at_once: int, each: int) -> Answer:
        """So many callers with so many calls each: how long each took, in order of that."""
        waits_ms: list[float] = []

        async def caller() -> None:
            for _ in range(each):
                begun = time.perf_counter()
                await self._client.call("calls", bytes(100), timeout=TIMEOUT_S)
                waits_ms.append((time.perf_counter() - begun) * 1e3)

        begun = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(at_once)))
        return {"span_s": time.perf_counter() - begun, "waits_ms": sorted(waits_ms)}

    async def stop(self) -> Answer:
        await self._client.__aexit__(None, None, None)
        return {}


async def main() -> None:
    caller = Caller()
    await obey({verb: getattr(caller, verb) for verb in ("start", "calls", "stop")})


if __name__ == "__main__":
    asyncio.run(main())
