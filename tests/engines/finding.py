"""Where the tests find a Cassandra: an address they are given, a container, or a node from the published jars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
def cassandra() -> Iterator[Found]:
    """Whatever was started is stopped at the end."""
    if named := os.environ.get(ADDRESS):
        address, _, port = named.partition(":")
        yield Found(address, int(port or PORT), os.environ.get(CENTER, DATACENTER), f"the address in {ADDRESS}")
    elif docker_answers():
        with _container() as found:
            yield found
    elif missing := missing_tools():
        raise NotFound(
            f"No Cassandra: {ADDRESS} names no address, no Docker engine answers, and for a node from jars there is "
            f"{missing}."
        )
    else:
        node = CassandraNode()
        try:
            node.start()
            yield Found(node.address, node.port, DATACENTER, f"a node {VERSION} from jars")
        finally:
            node.stop()


def docker_answers() -> bool:
    try:
        from docker import from_env
        from docker.errors import DockerException
    except ImportError:
        return False
    try:
        client = from_env(timeout=5)
        try:
            return bool(client.ping())
        finally:
            client.close()
    except DockerException:
        return False


@contextmanager
def _container() -> Iterator[Found]:
    from testcontainers.cassandra import CassandraContainer

    with CassandraContainer(f"cassandra:{VERSION}") as container:
        address, port = container.get_contact_points()[0]
        yield Found(address, port, container.get_local_datacenter(), f"a container of cassandra:{VERSION}")
