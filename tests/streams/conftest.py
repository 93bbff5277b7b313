"""A whole server whose queue `orders` goes to a stream of a real Redis, and whose clock the test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.engines.conftest import redis_options, redis_server
from tests.engines.redis_server import RedisServer
from tests.process.conftest import children
from timerd.config import ServerConfig, StreamsConfig
from timerd.testing.async_server import CONFIG, Server

__all__ = ["children", "redis_options", "redis_server"]
ServerOf = Callable[[str], Server]


def config_of(folder: Path, url: str, more: str = "", stream: str = "shop:orders") -> ServerConfig:
    """The file of streams is `streams.toml`."""
    file = folder / "streams.toml"
    file.write_text(f'[orders]\nurl = "{url}"\nstream = "{stream}"\n{more}\n')
    return replace(CONFIG, streams=StreamsConfig(targets_file=file))


@pytest.fixture
def server_of(tmp_path: Path, redis_server: RedisServer) -> ServerOf:
    """By further settings of the target."""
    return lambda more: Server(config=config_of(tmp_path, redis_server.url, more))


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    client: Redis = Redis.from_url(redis_server.url, protocol=2)
    yield client
    await client.aclose()
