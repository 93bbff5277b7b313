"""`timerd serve --store cassandra` against a real node: the main job through a kill -9, and starts that are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.engines.finding import Found
from tests.engines.keyspace import NAME, Keyspace
from tests.process.children import Server, run_cli
from timerd import bootstrap
from timerd.adapters.cassandra.schema import NEWEST
from timerd.cli import run
from timerd.client import Client
from timerd.commands.settings import load
from timerd.model.errors import StartupError
from timerd.model.registers import Table
from timerd.worker import Delivery, Worker

PATIENCE_S = 60
# A dead instance is replaced soon.
QUICK = ("--set", "heartbeat=300ms", "--set", "lease_ttl=1500ms")
# A cold node that others use beside can take seconds for the first calls: what has to happen before this has time.
AHEAD_S = 20


def where(found: Found, keyspace: str = NAME) -> list[str]:
    node = f"{found.address}:{found.port}"
    return ["--cassandra", node, "--keyspace", keyspace, "--datacenter", found.datacenter]


def pairs(found: Found, keyspace: str = NAME) -> list[str]:
    """The same as settings."""
    _, node, _, name, _, datacenter = where(found, keyspace)
    return [f"cassandra.nodes={node}", f"cassandra.keyspace={name}", f"cassandra.datacenter={datacenter}"]


class Serving:
    """One instance of a cluster, its caller and its worker."""

    def __init__(self, found: Found, folder: Path) -> None:
        self.options = ("--store", "cassandra", *where(found), "--name", "one", *QUICK)
        self.server = Server(folder, *self.options)
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Client]:
        worker = Worker(self.server.address)
        worker.on("mails")(self._take)
        running = asyncio.create_task(worker.run())
        async with Client(self.server.address) as client:
            yield client
        await worker.stop()
        running.cancel()
        await asyncio.wait([running])

    async def next(self) -> bytes:
        return await asyncio.wait_for(self.arrived.get(), PATIENCE_S)

    async def _take(self, delivery: Delivery) -> None:
        self.arrived.put_nowait(bytes(delivery.payload))


@pytest.fixture
def serving(cassandra_found: Found, keyspace: Keyspace, tmp_path: Path) -> Iterator[Serving]:
    serving = Serving(cassandra_found, tmp_path)
    yield serving
    serving.server.kill()


@pytest.mark.engines
@pytest.mark.process
async def test_tasks_are_stored_fired_and_survive_a_kill(serving: Serving) -> None:
    server = serving.server
    ready = server.start()
    assert ready.startswith(f"timerd is ready on {server.address} (store: cassandra, keyspace: {NAME}")
    assert "keeps 1 replica(s) of each row" in server.errors()
    async with serving.clients() as client:
        first = await client.schedule("mails", b"first", delay=0.5)
        gone = await client.schedule("mails", b"gone", delay=AHEAD_S)
        later = await client.schedule("mails", b"later", delay=AHEAD_S)
        assert await serving.next() == b"first"
        said = await client.cancel(gone.id)
        assert said.name == "CANCELLED"
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        by_shell = run_cli("schedule", "mails", "by shell", "--in", "0s", "--server", server.address, "--json")
        assert by_shell.returncode == 0, by_shell.stderr
        assert {await serving.next(), await serving.next()} == {b"by shell", b"later"}
        states = [(await client.get(task.id)).state.name for task in (gone, first)]
        assert states == ["CANCELLED", "ACKED"]
        while (state := (await client.get(later.id)).state.name) != "ACKED":
            assert state in ("IN_FLIGHT", "PENDING")
            await asyncio.sleep(0.05)
    refused = run_cli("serve", *serving.options, "--listen", "127.0.0.1:0")
    assert refused.returncode == 1
    assert "'one'" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert server.terminate() == 0
    assert serving.arrived.empty()


class TestRefused:
    """Each with a sentence."""

    def refused(self, *options: str) -> str:
        given = ("store=cassandra", "listen=127.0.0.1:0", *options)
        with pytest.raises(StartupError) as raised:
            asyncio.run(bootstrap.serve(load(None, {}, pairs=given).config, lambda _address, _http: None))
        return str(raised.value)

    def test_nobody_is_there(self) -> None:
        ran = run_cli("serve", "--store", "cassandra", "--cassandra", "127.0.0.1:1", "--listen", "127.0.0.1:0")
        assert ran.returncode == 1
        assert ran.stderr.startswith("timerd: No Cassandra node of data centre 'datacenter1' answers at 127.0.0.1:1 ")
        assert ran.stderr.count("\n") == 1

    @pytest.mark.engines
    def test_a_keyspace_without_tables(self, cassandra_found: Found) -> None:
        said = self.refused(*pairs(cassandra_found, "nothing_here"))
        assert "There are no tables of timerd in the keyspace 'nothing_here'. Run `timerd schema apply`" in said

    @pytest.mark.engines
    def test_another_data_centre(self, cassandra_found: Found) -> None:
        said = self.refused(*pairs(cassandra_found)[:2], "cassandra.datacenter=elsewhere")
        assert f"has no data centre 'elsewhere'; it has {cassandra_found.datacenter}" in said

    @pytest.mark.engines
    @pytest.mark.parametrize(("version", "says"), [(99, "by a newer timerd"), (0, f"this timerd needs {NEWEST}")])
    def test_an_older_or_newer_schema(
        self, version: int, says: str, cassandra_found: Found, keyspace: Keyspace
    ) -> None:
        keyspace.run("DELETE FROM schema_versions WHERE part IN ('tables', 'additions')")
        keyspace.run("INSERT INTO schema_versions (part, version) VALUES ('tables', %s)", (version,))
        try:
            assert says in self.refused(*pairs(cassandra_found))
        finally:
            keyspace.run("DELETE FROM schema_versions WHERE part IN ('tables', 'additions')")
            keyspace.run("INSERT INTO schema_versions (part, version) VALUES ('tables', %s)", (NEWEST,))

    @pytest.mark.engines
    @pytest.mark.parametrize(
        ("recorded", "says"),
        [
            ({"bucket_ms": 60_000, "secret": "00" * 32}, "with buckets of 60000 ms, this program uses 300000 ms"),
            ({"bucket_ms": 300_000, "secret": "00" * 32, "shards": 4}, "have 4 shard(s), and this process was told 8"),
        ],
    )
    def test_other_buckets_or_shards_than_recorded(
        self, recorded: dict[str, object], says: str, cassandra_found: Found, keyspace: Keyspace
    ) -> None:
        insert = f'INSERT INTO "{Table.CLUSTER.value}" (name, value, expires_ms) VALUES (%s, %s, 9) IF NOT EXISTS'
        keyspace.run(insert, (b"settings", json.dumps(recorded).encode()))
        assert says in self.refused(*pairs(cassandra_found), "shards=8")


WRONG = [
    (("--shards", "3"), "SQLite has one"),
    (("--store", "cassandra", "--listen", "0.0.0.0:7400", "--insecure"), "give --advertise HOST:PORT"),
    (("--store", "cassandra", "--advertise", "somewhere"), "give --advertise HOST:PORT"),
    (("--store", "cassandra", "--set", "lease_ttl=5s"), "three times within its lease"),
    (("--store", "redis"), "allowed are 'sqlite' or 'cassandra'"),
]


@pytest.mark.parametrize(("options", "says"), WRONG)
def test_what_cannot_be_meant_so_is_exit_code_2(
    options: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *options]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
