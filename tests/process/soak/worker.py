"""A worker of the soak: the holder of the kill test with a short log."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from random import Random

from tests.process.kill9.holder import Holder
from tests.process.soak.logs import CompactLog

QUEUE = "soak"
_HOLD_MS = (0, 200)
# It extends nothing: a machine that is busy elsewhere for half a minute shall not look like a worker that has died.
_LEASE_MS = 300_000


async def _main(target: str, log: Path, seed: int) -> None:
    holder = Holder(target, QUEUE, CompactLog(log), Random(seed), _HOLD_MS, _LEASE_MS)
    running = asyncio.create_task(holder.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait([running])
    if not running.cancelled():
        running.result()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
