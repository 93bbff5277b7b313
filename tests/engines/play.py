"""What a demo plays on where several instances are wanted: each a process of its own, one of which is killed on the
way with kill -9 and started again under its name, for which it has to wait until its own lease is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.engines.finding import Found
from tests.engines.instances import Instance, end_all, start_all

NAMES = ("timerd-1", "timerd-2", "timerd-3")
# So many that the one which is killed holds some.
SHARDS = 12


class Instances:
    """The first one is killed: callers are with it. The worker is with the last."""

    def __init__(self, found: Found, keyspace: str, folder: Path, *options: str, ports: Sequence[int] = ()) -> None:
        chosen = [*ports, *[None] * len(NAMES)]
        self.instances = [
            Instance(name, found, keyspace, folder, "--shards", str(SHARDS), *options, port=port)
            for name, port in zip(NAMES, chosen, strict=False)
        ]
        self.name = f"{len(NAMES)} instances"
        self.knows_repeats = False
        self.victim = NAMES[0]
        addresses = [instance.address for instance in self.instances]
        self.callers_target = "ipv4:" + ",".join(addresses)
        self.worker_target = "ipv4:" + ",".join(reversed(addresses))

    async def start(self) -> None:
        await asyncio.to_thread(start_all, self.instances)

    async def kill(self) -> None:
        await asyncio.to_thread(self.instances[0].kill)

    async def start_again(self) -> None:
        await asyncio.to_thread(self.instances[0].start)

    async def stop(self) -> None:
        """Those that serve, in order; what is left, at once."""
        running = [instance for instance in self.instances if instance.is_running()]
        try:
            await asyncio.gather(*(asyncio.to_thread(instance.terminate) for instance in running))
        finally:
            end_all(self.instances)
