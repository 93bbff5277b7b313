"""A keyspace for the tests, emptied between them: to make its tables anew would take a second for each test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tests.engines.finding import Found
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import apply_schema
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.store import CassandraStore
from timerd.model.registers import Table

NAME = "timerd_tests"
# The columns of the partition key of each table of rows.
_PARTITIONS = {
    "tasks": ("scope", "bucket_ms", "shard"),
    "settled": ("scope", "bucket_ms", "shard"),
    "days": ("kind",),
    "catalogue": ("day",),
    "dead_letters": ("task_id",),
    "dead_letter_times": ("namespace", "queue", "day"),
    "estimates": ("namespace", "day"),
    "requests": ("prefix",),
    "expiries": ("day", "slot"),
    "entries": ("place",),
}


def settings_for(found: Found, *, keyspace: str = NAME) -> CassandraSettings:
    """Long time limits: a busy machine is no finding."""
    return CassandraSettings(
        contact_points=(found.address,),
        port=found.port,
        datacenter=found.datacenter,
        keyspace=keyspace,
        replication={found.datacenter: 1},
        request_timeout_s=20,
    )


async def opened(settings: CassandraSettings, now_ms: Callable[[], int]) -> CassandraStore:
    """What it forgets goes by the time of a test. What it writes is dated by the clock of this machine, as what empties
    the tables is: a test may live in another year."""
    loop = asyncio.get_running_loop()
    driver = await loop.run_in_executor(None, Driver.connect, settings)
    try:
        store = await loop.run_in_executor(None, CassandraStore, driver, now_ms)
    except BaseException:
        await driver.close()
        raise
    driver.attach(loop)
    return store


class Keyspace:
    """With its tables. `empty` deletes every partition there is."""

    def __init__(self, found: Found) -> None:
        self.settings = settings_for(found)
        apply_schema(self.settings)
        self._driver = Driver.connect(self.settings)

    def run(self, cql: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        return self._driver.run(cql, values or None)

    def empty(self) -> None:
        for table, columns in _PARTITIONS.items():
            self._delete(table, columns, "")
        for register in Table:
            # A plain write must not meet a transaction, here either.
            self._delete(register.value, ("name",), " IF EXISTS")

    def close(self) -> None:
        self._driver.shutdown()

    def _delete(self, table: str, columns: Iterable[str], condition: str) -> None:
        names = ", ".join(columns)
        where = " AND ".join(f"{name} = %s" for name in columns)
        for row in self._driver.run(f'SELECT DISTINCT {names} FROM "{table}"'):
            self._driver.run(f'DELETE FROM "{table}" WHERE {where}{condition}', row)
