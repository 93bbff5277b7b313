"""Server and Redis are killed while tasks go over: each acknowledged task is in the stream, and once."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.engines.redis_server import RedisServer
from tests.process.children import Server
from tests.process.conftest import Children
from tests.streams.conftest import config_of
from timerd.client import Client, Item, RetryPolicy

pytestmark = [pytest.mark.process]
TASKS, EACH_S = 1_500, 0.004
STREAM = "shop:orders"
AT_ONCE = RetryPolicy(jitter=0, max_attempts=1_000)


@pytest.fixture
def redis_options() -> tuple[str, ...]:
    """What was said to be there is there after a kill."""
    return ("--appendonly", "yes", "--appendfsync", "always")


async def faults(server: Server, redis_server: RedisServer, kills: int, seed: int) -> None:
    """Each ends before the next begins."""
    chance = random.Random(seed)
    for _ in range(kills):
        await asyncio.sleep(chance.uniform(0.1, 0.6))
        fault = chance.choice(["server", "redis", "redis stands still"])
        if fault == "server":
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        elif fault == "redis":
            await asyncio.to_thread(redis_server.kill)
            await asyncio.sleep(chance.uniform(0, 0.5))
            await asyncio.to_thread(redis_server.start)
        else:
            redis_server.signal(signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.2, 1.5))
            redis_server.signal(signal.SIGCONT)


async def all_came(redis: Redis, count: int) -> list[bytes]:
    """The payloads of the stream, once all are there."""
    while True:
        try:
            entries: Any = await redis.xrange(STREAM)
        except (RedisError, OSError):
            entries = []
        found: list[bytes] = [fields[b"payload"] for _, fields in entries]
        if len(set(found)) >= count:
            return found
        await asyncio.sleep(0.2)


@pytest.mark.timeout(280)
async def test_each_task_is_in_the_stream_once(children: Children, tmp_path: Path, redis_server: RedisServer) -> None:
    await over_kills(children, tmp_path, redis_server, kills=6)


@pytest.mark.long
@pytest.mark.timeout(3_000)
async def test_each_task_is_in_the_stream_once_over_three_hundred_kills(
    children: Children, tmp_path: Path, redis_server: RedisServer
) -> None:
    for seed in range(50):
        folder = tmp_path / str(seed)
        folder.mkdir()
        await over_kills(children, folder, redis_server, kills=6, seed=seed)


async def over_kills(children: Children, folder: Path, redis_server: RedisServer, kills: int, seed: int = 1) -> None:
    file = config_of(folder, redis_server.url, "timeout_s = 1").streams.targets_file
    server = children.own(Server(folder, "--set", f"streams.targets_file={file}"))
    await asyncio.to_thread(server.start)
    redis: Redis = Redis.from_url(redis_server.url, protocol=2, socket_timeout=5)
    try:
        await redis.delete(STREAM)
        async with Client(server.address, timeout=60) as client:
            items = [Item(b"%d.%d" % (seed, n), delay=0.2 + n * EACH_S) for n in range(TASKS)]
            await client.schedule_many("orders", items, retry=AT_ONCE)
        await faults(server, redis_server, kills, seed)
        found = await asyncio.wait_for(all_came(redis, TASKS), 120)
    finally:
        await redis.aclose()
    await asyncio.to_thread(server.terminate)
    assert Counter(found).most_common(1)[0][1] == 1
    assert set(found) == {item.payload for item in items}
