"""From what an operator wrote to an open store, or to the tables of one."""

from __future__ import annotations

import logging
from collections.abc import Callable

from timerd.adapters.cassandra.schema import apply_schema
from timerd.adapters.cassandra.settings import CassandraSettings, parse_nodes, parse_replication
from timerd.adapters.cassandra.store import CassandraStore
from timerd.config import CassandraConfig

_log = logging.getLogger(__name__)


def settings_of(config: CassandraConfig) -> CassandraSettings:
    """Raises StartupError."""
    points, port = parse_nodes(",".join(config.nodes))
    return CassandraSettings(
        contact_points=points,
        port=port,
        keyspace=config.keyspace,
        datacenter=config.datacenter,
        replication=parse_replication(config.replication, config.datacenter),
        username=config.user,
        password=config.password.get_secret_value(),
        remember_requests=config.remember_requests,
    )


async def open_store(config: CassandraConfig, now_ms: Callable[[], int]) -> CassandraStore:
    """Raises StartupError where no node answers or the tables are not those of this version."""
    store = await CassandraStore.open(settings_of(config), now_ms)
    for sentence in (await store.facts()).advice:
        _log.warning("%s", sentence)
    return store


def make_tables(config: CassandraConfig) -> int:
    """The version of the schema that the keyspace has now. Raises StartupError."""
    return apply_schema(settings_of(config))
