"""Tables of the version before, with rows in them, brought to a next version that is made up here, on a real node.

There is one version so far. What the next one may rely on is tried before it is written: its steps may stop half-way,
instances of the version before serve on meanwhile, and one that starts afterwards is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from cassandra import InvalidRequest

from tests.engines.finding import Found
from tests.engines.keyspace import settings_for
from timerd.adapters.cassandra import schema
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import NEWEST, apply_schema
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.store import CassandraStore
from timerd.model.errors import StartupError
from timerd.testing.contracts.build import START_MS, carried, key, scan

pytestmark = pytest.mark.engines
NAME = "timerd_upgrade"
ADD_COLUMN = "ALTER TABLE tasks ADD IF NOT EXISTS note text"
ADD_TABLE = "CREATE TABLE IF NOT EXISTS notes (name blob PRIMARY KEY)"

# Into the program that has these statements as its next version, or back.
Become = Callable[..., None]


@pytest.fixture
def settings(cassandra_found: Found) -> Iterator[CassandraSettings]:
    """Of tables of this version."""
    settings = settings_for(cassandra_found, keyspace=NAME)
    apply_schema(settings)
    yield settings
    driver = Driver.connect(settings)
    driver.run(f"DROP KEYSPACE {NAME}")
    driver.shutdown()


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Become:
    known, known_additions = schema.statements, schema.ADDITIONS

    def change(*added: str, is_addition: bool = False) -> None:
        monkeypatch.setattr(schema, "NEWEST", NEWEST + bool(added))
        monkeypatch.setattr(schema, "ADDITIONS", known_additions | ({NEWEST + 1} if is_addition else set()))
        monkeypatch.setattr(schema, "statements", lambda step, kinds: known(step, kinds) if step <= NEWEST else added)

    return change


async def opened(settings: CassandraSettings) -> CassandraStore:
    return await CassandraStore.open(settings, lambda: START_MS)


async def test_tables_become_those_of_the_next_version_under_an_instance_that_serves(
    settings: CassandraSettings, become: Become
) -> None:
    before = await opened(settings)
    await before.append([carried(key("first"))])

    become(ADD_COLUMN, "DROP TABLE nowhere.nothing")
    with pytest.raises(StartupError, match=f"has schema version {NEWEST}; this timerd needs {NEWEST + 1}. Run `timerd"):
        await opened(settings)
    with pytest.raises(InvalidRequest, match="nowhere"):
        await asyncio.to_thread(apply_schema, settings)
    with pytest.raises(StartupError, match=f"has schema version {NEWEST}"):
        await opened(settings)
    await before.append([carried(key("half-way"))])

    become(ADD_COLUMN, ADD_TABLE)
    assert await asyncio.to_thread(apply_schema, settings) == NEWEST + 1
    after = await opened(settings)
    await before.append([carried(key("served on"))])
    await after.append([carried(key("next"))])
    every = sorted(map(key, ("first", "half-way", "served on", "next")))
    assert (await scan(after)).keys == every
    assert (await scan(before)).keys == every
    await after.close()
    await before.close()

    become()
    newer = f"schema version {NEWEST + 1} by a newer timerd.*Start that version"
    with pytest.raises(StartupError, match=newer):
        await opened(settings)
    with pytest.raises(StartupError, match=newer):
        await asyncio.to_thread(apply_schema, settings)


async def test_a_version_that_only_adds_a_table_is_served_by_the_program_before(
    settings: CassandraSettings, become: Become
) -> None:
    """So a cluster goes back as it came: instance by instance, with all that was written meanwhile."""
    become(ADD_TABLE, is_addition=True)
    assert await asyncio.to_thread(apply_schema, settings) == NEWEST + 1
    after = await opened(settings)
    await after.append([carried(key("next"))])
    await after.close()

    become()
    before = await opened(settings)
    assert (await scan(before)).keys == [key("next")]
    assert await asyncio.to_thread(apply_schema, settings) == NEWEST
    await before.close()
