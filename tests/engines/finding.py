"""Where the tests find their engines: an address they are given, a container, or a process of their own (Cassandra from
the published jars, Redis from the program on the path)."""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from signal import Signals
from typing import Any, NamedTuple

from tests.engines.cassandra_node import DATACENTER, PORT, VERSION, CassandraNode, missing_tools
from tests.engines.redis_server import PROGRAM, RedisServer, is_there

ADDRESS = "TIMERD_TEST_CASSANDRA"
CENTER = "TIMERD_TEST_CASSANDRA_DATACENTER"
REDIS_URL = "TIMERD_TEST_REDIS"
REDIS_IMAGE = "redis:7"


class Found(NamedTuple):
    """`signal`: to the process of a node of our own; None where it belongs to somebody else."""

    address: str
    port: int
    datacenter: str
    how: str
    signal: Callable[[Signals], None] | None = None


class FoundRedis(NamedTuple):
    url: str
    how: str


class NotFound(Exception):
    """Says in a sentence what would have to be there."""


@contextmanager
def cassandra(*, quick_start: bool = True) -> Iterator[Found]:
    """Whatever was started is stopped at the end."""
    with ExitStack() as started:
        yield _named() or _from_container(started) or _from_jars(started, quick_start)


def _named() -> Found | None:
    if not (named := os.environ.get(ADDRESS)):
        return None
    address, _, port = named.partition(":")
    return Found(address, int(port or PORT), os.environ.get(CENTER, DATACENTER), f"the address in {ADDRESS}")


def _from_container(started: ExitStack) -> Found | None:
    container = _container(started, "cassandra", "CassandraContainer", f"cassandra:{VERSION}")
    if container is None:
        return None
    address, port = container.get_contact_points()[0]
    return Found(address, port, container.get_local_datacenter(), f"a container of cassandra:{VERSION}")


def _container(started: ExitStack, module: str, name: str, image: str) -> Any:  # noqa: ANN401 - its package has no types
    """None where no Docker engine gives one."""
    if importlib.util.find_spec("docker") is None or not _has_docker_socket():
        return None
    docker = importlib.import_module("docker")
    try:
        client = docker.from_env(timeout=5)
        started.callback(client.close)
        client.ping()
        containers = importlib.import_module(f"testcontainers.{module}")
        return started.enter_context(getattr(containers, name)(image))
    except docker.errors.DockerException as reason:
        print(f"No container of {image}: {reason}")
        return None


def _has_docker_socket() -> bool:
    """Asked first, since the client leaks what it opened where nobody answers."""
    if "DOCKER_HOST" in os.environ:
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex("/var/run/docker.sock") == 0


def _from_jars(started: ExitStack, quick_start: bool) -> Found:
    if missing := missing_tools():
        raise NotFound(
            f"No Cassandra: {ADDRESS} names no address, no Docker engine gives a container, and for a node from jars "
            f"there is {missing}."
        )
    node = CassandraNode(quick_start=quick_start)
    started.callback(node.stop)
    node.start()
    return Found(node.address, node.port, DATACENTER, f"a node {VERSION} from jars", node.signal)


@contextmanager
def redis() -> Iterator[FoundRedis]:
    """Whatever was started is stopped at the end."""
    with ExitStack() as started:
        yield _named_redis() or _redis_from_container(started) or _redis_from_path(started)


def _named_redis() -> FoundRedis | None:
    named = os.environ.get(REDIS_URL)
    return FoundRedis(named, f"the address in {REDIS_URL}") if named else None


def _redis_from_container(started: ExitStack) -> FoundRedis | None:
    container = _container(started, "redis", "RedisContainer", REDIS_IMAGE)
    if container is None:
        return None
    url = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}"
    return FoundRedis(url, f"a container of {REDIS_IMAGE}")


def _redis_from_path(started: ExitStack) -> FoundRedis:
    server = own_redis()
    started.callback(server.stop)
    server.start()
    return FoundRedis(server.url, f"{PROGRAM} on the path")


def own_redis(*options: str) -> RedisServer:
    """Not started yet. For what kills it, or needs a password there."""
    if not is_there():
        raise NotFound(
            f"No Redis: {REDIS_URL} names no URL, no Docker engine gives a container, and there is no {PROGRAM} on the "
            "path."
        )
    return RedisServer(*options)
