"""One Cassandra and one Redis for all tests of the session. Without them tests are skipped on a laptop and fail where
CI=true."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.engines.finding import Found, FoundRedis, NotFound, cassandra, own_redis, redis
from tests.engines.instances import Instance, end_all, start_all
from tests.engines.keyspace import NAME, Keyspace, settings_for
from tests.engines.redis_server import RedisServer
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import apply_schema

# The first test also waits for the jars and for the start of the node.
PATIENCE_S = 600
# Who is gone is noticed soon.
QUICK = ("--set", "heartbeat=300ms", "--set", "lease_ttl=1500ms", "--shards", "6")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("engines") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PATIENCE_S))


@pytest.fixture(scope="session")
def cassandra_found() -> Iterator[Found]:
    try:
        with cassandra() as found:
            print(f"Cassandra: {found.how}, {found.address}:{found.port}")
            yield found
    except NotFound as reason:
        _goes_without(reason)


@pytest.fixture
def own_keyspace(cassandra_found: Found) -> Iterator[str]:
    """Of one test, which looks at what instances say of the store: nothing was there before it."""
    name = f"timerd_{secrets.token_hex(4)}"
    settings = settings_for(cassandra_found, keyspace=name)
    apply_schema(settings)
    yield name
    driver = Driver.connect(settings)
    driver.run(f'DROP KEYSPACE IF EXISTS "{name}"')
    driver.shutdown()


@pytest.fixture(scope="session")
def redis_found() -> Iterator[FoundRedis]:
    try:
        with redis() as found:
            print(f"Redis: {found.how}, {found.url}")
            yield found
    except NotFound as reason:
        _goes_without(reason)


@pytest.fixture
def redis_options() -> tuple[str, ...]:
    """Of `redis_server`."""
    return ()


@pytest.fixture
def redis_server(redis_options: tuple[str, ...]) -> Iterator[RedisServer]:
    """Of one test, which may kill it."""
    try:
        server = own_redis(*redis_options)
    except NotFound as reason:
        _goes_without(reason)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def instances(cassandra_found: Found, keyspace: Keyspace, tmp_path: Path) -> Iterator[list[Instance]]:
    """Three, as processes."""
    three = [Instance(name, cassandra_found, NAME, tmp_path, *QUICK) for name in ("one", "two", "three")]
    try:
        start_all(three)
        yield three
    finally:
        end_all(three)


def _goes_without(reason: NotFound) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} With CI=true nothing is skipped.")
    pytest.skip(str(reason))


@pytest.fixture(scope="session")
def session_keyspace(cassandra_found: Found) -> Iterator[Keyspace]:
    keyspace = Keyspace(cassandra_found)
    yield keyspace
    keyspace.close()


@pytest.fixture
def keyspace(session_keyspace: Keyspace) -> Keyspace:
    session_keyspace.empty()
    return session_keyspace
