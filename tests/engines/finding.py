"""Where the tests find a Cassandra: an address they are given, a container, or a node from the published jars."""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from tests.engines.cassandra_node import DATACENTER, PORT, VERSION, CassandraNode, missing_tools

ADDRESS = "TIMERD_TEST_CASSANDRA"
CENTER = "TIMERD_TEST_CASSANDRA_DATACENTER"


class Found(NamedTuple):
    address: str
    port: int
    datacenter: str
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
    if importlib.util.find_spec("docker") is None or not _has_docker_socket():
        return None
    docker = importlib.import_module("docker")
    try:
        client = docker.from_env(timeout=5)
        started.callback(client.close)
        client.ping()
        containers = importlib.import_module("testcontainers.cassandra")
        container = started.enter_context(containers.CassandraContainer(f"cassandra:{VERSION}"))
        address, port = container.get_contact_points()[0]
        return Found(address, port, container.get_local_datacenter(), f"a container of cassandra:{VERSION}")
    except docker.errors.DockerException as reason:
        print(f"No container of Cassandra: {reason}")
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
    return Found(node.address, node.port, DATACENTER, f"a node {VERSION} from jars")
