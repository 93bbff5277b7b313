"""What a relay says of itself and of its tables: on its HTTP port, and in `timerd outbox status`."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.outbox.made import move, schedule
from tests.outbox.relaying import DAY_MS
from tests.process.children import Child, Server, run_cli
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.demo.processes import free_port
from timerd.outbox.metrics import exposition
from timerd.outbox.opening import open_outbox
from timerd.outbox.ports import OutboxStore
from timerd.outbox.relay import Relay
from timerd.outbox.rows import RefusedRow
from timerd.outbox.sealing import LeftOut
from timerd.outbox.sending import GrpcSending
from timerd.sdk.transport import ConnectOptions
from timerd.sdk.values import now_ms

Samples = dict[tuple[str, str], float]


def samples(text: str) -> Samples:
    """(name, namespace) -> value, of ours."""
    return {
        (sample.name, sample.labels.get("namespace", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("timerd_outbox")
    }


async def test_the_tables_are_told_by_namespace(outbox: OutboxStore) -> None:
    await outbox.put([schedule(b"1"), schedule(b"2")])
    [batch], _ = await outbox.seal("one", 60.0)
    await outbox.put([schedule(b"3"), schedule(b"4", namespace="billing"), schedule(b"5", namespace="billing")])
    refused = RefusedRow(schedule(b"6", namespace="reports"), "No.", "INVALID")
    await outbox.done(batch, [refused])
    await outbox.seal("one", 60.0, LeftOut(frozenset({"billing"})))
    facts = await outbox.facts()
    told = {name: (of.rows, of.sealed, of.refused) for name, of in facts.namespaces.items()}
    assert told == {"billing": (2, 0, 0), "default": (0, 1, 0), "reports": (0, 0, 1)}
    assert (facts.rows, facts.refused, facts.oldest_ms) == (2, 1, facts.namespaces["billing"].oldest_ms)
    sending = GrpcSending(ConnectOptions(f"127.0.0.1:{free_port()}"), 1.0)
    relay = Relay(outbox, sending)
    relay.sent["default"] += 7
    found = samples(exposition(facts, relay).decode())
    assert found["timerd_outbox_rows", "billing"] == 2
    assert found["timerd_outbox_sealed_rows", "default"] == 1
    assert found["timerd_outbox_refused_rows", "reports"] == 1
    assert found["timerd_outbox_sent_total", "default"] == 7
    assert found["timerd_outbox_oldest_row_seconds", "billing"] >= 0
    assert ("timerd_outbox_oldest_row_seconds", "default") not in found
    assert ("timerd_outbox_rows", "billing") not in samples(exposition(None, relay).decode())
    await sending.close()


async def test_a_relay_has_a_port_for_those_who_watch(sqlite_url: str, tmp_path: Path, children: Children) -> None:
    run_cli("outbox", "init", "--database", sqlite_url)
    at_ms = now_ms() + DAY_MS
    store = open_outbox(sqlite_url)
    await store.put([schedule(b"1", fire_at_ms=at_ms), move("nobody", at_ms, namespace="billing")])
    await store.close()
    server, port = children.own(Server(tmp_path)), free_port()
    server.start()
    arguments = ["outbox", "run", "--database", sqlite_url, "--server", server.address, "--http", f"127.0.0.1:{port}"]
    children.own(Child(["-m", "timerd.cli", *arguments], tmp_path / "relay.err")).start()

    def get(path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def is_done() -> bool:
        found = samples(get("/metrics"))
        sent, refused = ("timerd_outbox_sent_total", "default"), ("timerd_outbox_refused_total", "billing")
        return found.get(sent) == 1 and found.get(refused) == 1

    until(is_done, "both rows are counted")
    assert samples(get("/metrics"))["timerd_outbox_refused_rows", "billing"] == 1
    assert json.loads(get("/readyz")) == {"ready": True, "wrong": {}}


async def test_status_names_namespaces_where_there_are_several(sqlite_url: str) -> None:
    run_cli("outbox", "init", "--database", sqlite_url)
    store = open_outbox(sqlite_url)
    await store.put([schedule(b"1"), schedule(b"2", namespace="billing")])
    await store.close()
    shown = run_cli("outbox", "status", "--database", sqlite_url).stdout
    assert re.search(r"^of billing +1 waiting, oldest .*, 0 on their way, 0 refused$", shown, re.MULTILINE)
    told = json.loads(run_cli("outbox", "status", "--database", sqlite_url, "--json").stdout)
    assert {name: each["rows"] for name, each in told["namespaces"].items()} == {"billing": 1, "default": 1}


def test_the_port_is_on_loopback_only(sqlite_url: str) -> None:
    run_cli("outbox", "init", "--database", sqlite_url)
    ran = run_cli("outbox", "run", "--database", sqlite_url, "--http", "0.0.0.0:7410")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "it listens on loopback only" in ran.stderr
