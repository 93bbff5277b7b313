"""When the node does not answer: what was not written is told from what is unknown, and all is well when it is back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.engines.deaf_proxy import DeafProxy
from tests.engines.finding import Found
from tests.engines.keyspace import Keyspace, opened
from timerd.adapters.cassandra.driver import Driver
from timerd.adapters.cassandra.schema import NEWEST, apply_schema, check_schema
from timerd.adapters.cassandra.settings import CassandraSettings
from timerd.adapters.cassandra.store import CassandraStore
from timerd.model.errors import StartupError, StoreUnavailable, StoreUnknown
from timerd.model.registers import control_key
from timerd.ports import Cas, CasResult, CasStatus
from timerd.testing.contracts.build import HERE, START_MS, carried, key, scan

pytestmark = pytest.mark.engines


@pytest.fixture
async def proxy(cassandra_found: Found) -> AsyncIterator[DeafProxy]:
    proxy = DeafProxy(cassandra_found)
    yield proxy
    await proxy.stop()


@pytest.fixture
async def store(keyspace: Keyspace, proxy: DeafProxy) -> AsyncIterator[CassandraStore]:
    found = await proxy.start()
    settings = replace(
        keyspace.settings,
        contact_points=(found.address,),
        port=found.port,
        request_timeout_s=1,
    )
    store = await opened(settings, lambda: START_MS)
    await store.append([carried(key("first"))])
    yield store
    await store.close()


async def test_a_write_without_an_answer_is_unknown(store: CassandraStore, proxy: DeafProxy) -> None:
    proxy.is_deaf = True
    with pytest.raises(StoreUnknown, match="Repeat the call"):
        await store.append([carried(key("a"))])
    with pytest.raises(StoreUnavailable, match="could not read"):
        await store.scan(HERE, 0, 1 << 60, 0, 1_000)
    assert await store.cas([Cas(control_key(HERE), None, b"1")]) == [CasResult(CasStatus.UNKNOWN)]


async def test_an_unknown_change_is_settled_by_a_serial_read(
    store: CassandraStore, proxy: DeafProxy, keyspace: Keyspace
) -> None:
    proxy.is_deaf = True
    (result,) = await store.cas([Cas(control_key(HERE), None, b"1")])
    assert result.status == CasStatus.UNKNOWN
    direct = await opened(keyspace.settings, lambda: START_MS)
    assert list(await direct.read([control_key(HERE)])) == [b"1"]
    await direct.close()


async def test_nothing_is_stored_where_no_node_can_be_asked(store: CassandraStore, proxy: DeafProxy) -> None:
    await proxy.stop()
    # Until the driver has noticed, an insert may be lost on its way, which is told as unknown.
    with suppress(StoreUnknown, StoreUnavailable):
        await store.append([carried(key("a"))])
    with pytest.raises(StoreUnavailable, match="nothing was stored"):
        await store.append([carried(key("a"))])


async def test_a_store_that_was_cut_off_goes_on_by_itself(store: CassandraStore, proxy: DeafProxy) -> None:
    proxy.is_deaf = True
    with pytest.raises(StoreUnknown):
        await store.append([carried(key("a"))])
    proxy.is_deaf = False
    end_s = time.monotonic() + 60
    stored = False
    while not stored and time.monotonic() < end_s:
        try:
            await store.append([carried(key("a"))])
            stored = True
        except (StoreUnknown, StoreUnavailable):
            await asyncio.sleep(0.1)
    assert (await scan(store)).keys == sorted([key("first"), key("a")])


async def test_a_closed_store_says_so(keyspace: Keyspace) -> None:
    store = await opened(keyspace.settings, lambda: START_MS)
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.append([carried(key("a"))])


class TestStarting:
    async def test_no_node(self, keyspace: Keyspace) -> None:
        with pytest.raises(StartupError, match="No Cassandra node of data centre"):
            await CassandraStore.open(replace(keyspace.settings, port=1), lambda: START_MS)

    async def test_another_data_centre(self, keyspace: Keyspace) -> None:
        with pytest.raises(StartupError, match="no data centre 'elsewhere'; it has"):
            await CassandraStore.open(replace(keyspace.settings, datacenter="elsewhere"), lambda: START_MS)

    async def test_a_keyspace_without_tables(self, keyspace: Keyspace) -> None:
        with pytest.raises(StartupError, match="timerd schema apply"):
            await CassandraStore.open(replace(keyspace.settings, keyspace="nothing_here"), lambda: START_MS)

    def test_applying_twice_changes_nothing(self, keyspace: Keyspace) -> None:
        assert [apply_schema(keyspace.settings) for _ in range(2)] == [NEWEST, NEWEST]

    def test_a_newer_schema_is_refused(self, keyspace: Keyspace) -> None:
        newer = "('tables', 99)"
        keyspace.run(f"INSERT INTO schema_versions (part, version) VALUES {newer}")
        try:
            for refused in (self._check, apply_schema):
                with pytest.raises(StartupError, match="a newer timerd"):
                    refused(keyspace.settings)
        finally:
            keyspace.run("DELETE FROM schema_versions WHERE part = 'tables' AND version = 99")
        assert self._check(keyspace.settings) == NEWEST

    @staticmethod
    def _check(settings: CassandraSettings) -> int:
        driver = Driver.connect(settings)
        try:
            return check_schema(driver)
        finally:
            driver.shutdown()
