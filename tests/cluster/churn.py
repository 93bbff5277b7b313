"""Instances come, stop and are killed while workers work: `python -m tests.cluster.churn 1-20` (`--kill` to kill them
instead of stopping them). Prints a row per seed; exits with 1 where a task was lost, came twice without a kill, or a
worker had more tasks than it asked for.

Time is virtual, the streams are real. Each worker knows the addresses of all instances, as behind a load balancer.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from collections import Counter
from dataclasses import dataclass, field, replace

from timerd.demo.processes import free_port
from timerd.ports import ZoneData
from timerd.testing import Cluster
from timerd.testing.async_server import CONFIG
from timerd.testing.cluster import Running
from timerd.testing.workers import Worker
from timerd.worker import Delivery, Retry

NAMES = ("a", "b", "c", "d")
# Where each worker looks first, and how many tasks it takes.
WORKERS = (("abcd", 1), ("bcda", 3), ("cdab", 8))
TASKS = 150
SPREAD_S = 300.0
STEPS = 12


class Churning(Cluster):
    """Instances keep their address when they come back."""

    def __init__(self) -> None:
        super().__init__(*NAMES[:3], config=replace(CONFIG, max_mark_lag_ms=60_000), patience_s=60.0)
        self.ports = {name: free_port() for name in NAMES}

    async def add(self, name: str, clock_offset_ms: int = 0, zones: ZoneData | None = None) -> Running:
        self._config = replace(self._config, listen=f"127.0.0.1:{self.ports[name]}")
        return await super().add(name, clock_offset_ms, zones)

    def worker_of_all(self, names: str, lease_s: float) -> Worker:
        target = "ipv4:" + ",".join(f"127.0.0.1:{self.ports[name]}" for name in names)
        worker = Worker(target, lambda: self.now, "default", lease_s)
        self._workers.append(worker)
        return worker


@dataclass
class Seen:
    ended: Counter[bytes] = field(default_factory=Counter)
    running: Counter[int] = field(default_factory=Counter)
    too_many: int = 0
    kills: int = 0

    def verdict(self, *, may_repeat: bool) -> str:
        lost = TASKS - len(self.ended)
        twice = sum(times > 1 for times in self.ended.values())
        is_bad = lost or self.too_many or (twice and not may_repeat)
        return f"{'FAILED' if is_bad else 'ok'}: lost {lost}, twice {twice}, beyond credit {self.too_many}"


async def one(seed: int, *, kill: bool) -> str:
    rnd, seen = random.Random(seed), Seen()
    async with Churning() as cluster:
        for number, (names, most) in enumerate(WORKERS):
            await start_worker(cluster, seen, rnd, number, names, most)
        clients = [cluster.client(name) for name in NAMES[:3]]
        for task in range(TASKS):
            await rnd.choice(clients).schedule("mails", b"%d" % task, delay=2 + rnd.random() * SPREAD_S)
        for _ in range(STEPS):
            await cluster.advance(seconds=rnd.randint(5, 40))
            await change(cluster, seen, rnd, kill=kill)
        await cluster.advance(seconds=SPREAD_S + 100)
    return f"seed {seed} {seen.verdict(may_repeat=kill)}, killed {seen.kills}"


async def start_worker(cluster: Churning, seen: Seen, rnd: random.Random, number: int, names: str, most: int) -> None:
    worker = cluster.worker_of_all(names, rnd.choice([6.0, 15.0, 30.0]))

    @worker.on("mails", concurrency=most)
    async def handle(delivery: Delivery) -> None:
        seen.running[number] += 1
        seen.too_many += seen.running[number] > most
        try:
            await cluster.sleep(seconds=rnd.choice([0.01, 0.5, 3.0, 12.0]))
        finally:
            seen.running[number] -= 1
        if delivery.attempt == 1 and rnd.random() < 0.1:
            raise Retry(delay=1.0)
        seen.ended[delivery.payload] += 1

    await worker.start()


async def change(cluster: Churning, seen: Seen, rnd: random.Random, *, kill: bool) -> None:
    """One goes, or another one comes; two are always there."""
    live = sorted(cluster.instances)
    dice = rnd.random()
    if dice < 0.35 and len(live) == 3:
        name = rnd.choice(live)
        seen.kills += kill
        await (cluster.kill(name) if kill else cluster.stop(name))
    elif dice < 0.7 and len(live) < 3:
        await cluster.add(rnd.choice([name for name in NAMES if name not in live]))


def main() -> int:
    logging.disable(logging.ERROR)
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("seeds", help="FIRST-LAST")
    asked.add_argument("--kill", action="store_true")
    options = asked.parse_args()
    first, last = map(int, options.seeds.split("-"))
    rows = []
    for seed in range(first, last + 1):
        rows.append(asyncio.run(one(seed, kill=options.kill)))
        print(rows[-1], flush=True)
    return int(any("FAILED" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
