"""What the store cannot tell is missing from the metrics, and nothing else is."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.observability.watched_node import watched
from tests.schedules.zones_rig import CHANGED, NEW, OLD
from timerd.adapters.sqlite.files import DATABASE
from timerd.core.protocol import Procedure
from timerd.core.schedules.chain import Ticked
from timerd.core.schedules.world import World
from timerd.model.errors import StoreUnknown
from timerd.model.schedules import Tick
from timerd.observability.collector import exposition
from timerd.services.schedules import ticking
from timerd.testing import Server
from timerd.testing.async_server import CONFIG
from timerd.worker import Delivery


def spoil_controls(data: Path, *, finished: bool) -> int:
    is_finished = "json_extract(CAST(value AS TEXT), '$.finished_at_ms') > 0"
    where = f"kind = 'partition_control' AND {is_finished} = {int(finished)}"
    with closing(sqlite3.connect(data / DATABASE)) as connection:
        spoilt = connection.execute(f"UPDATE registers SET value = x'00ff' WHERE {where}").rowcount
        connection.commit()
    return spoilt


async def test_a_partition_that_cannot_be_taken_is_behind_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when a page of the disk is damaged. Other buckets go on."""
    async with Server(data=tmp_path) as server:
        await server.client().schedule("mails", b"x", delay=120)
        await server.advance(seconds=100)
        await server.stop()
        assert spoil_controls(tmp_path, finished=False)
        await server.start()
        await server.advance(minutes=25)
        with watched(server.node) as observed:
            assert (await observed.figures()).mark_lag_s > 1_200
        assert "cannot be read" in caplog.text
        task = await server.client().schedule("mails", b"y", delay=1)
        got = []
        worker = server.worker()

        @worker.on("mails")
        async def take(delivery: Delivery) -> None:
            got.append(delivery.task_id)

        await worker.start()
        await server.advance(seconds=5)
        assert got == [task.id]


async def test_a_spoilt_row_of_the_ledger_does_not_hide_the_other_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Server(data=tmp_path) as server:
        worker = server.worker()

        @worker.on("mails")
        async def handle(_delivery: Delivery) -> None: ...

        await worker.start()
        await server.client().schedule("mails", b"x", delay=1)
        await server.advance(minutes=30)
        assert spoil_controls(tmp_path, finished=True)
        with watched(server.node) as observed, caplog.at_level(logging.ERROR):
            text = exposition(await observed.figures()).decode()
    assert 'timerd_deliveries_settled_total{namespace="default",outcome="acked",queue="mails"} 1.0' in text
    assert "timerd_ledger_imbalance_rows" not in text
    assert 'timerd_store_errors_total{call="facts",error="error"} 1.0' in text
    assert "cannot be counted" in caplog.text


async def test_what_waits_in_the_store_for_a_worker_is_counted_by_queue_and_that_of_unknown_names_together() -> None:
    async with Server() as server:
        await server.client().schedule("mails", b"x", delay=60)
        await server.client().schedule("mails", b"x", delay=400)
        await server.advance(minutes=20)
        assert await backlogs(server) == {"mails": 2, "(others)": 0}
        await server.restart()
        assert await backlogs(server) == {"(others)": 2}
        worker = server.worker()

        @worker.on("mails")
        async def handle(_delivery: Delivery) -> None: ...

        await worker.start()
        await server.advance(minutes=1)
        assert await backlogs(server) == {"mails": 0, "(others)": 0}


async def backlogs(server: Server) -> dict[str, int]:
    with watched(server.node) as observed:
        text = exposition(await observed.figures()).decode()
    [family] = [each for each in text_string_to_metric_families(text) if each.name == "timerd_backlog_buckets"]
    return {sample.labels["queue"]: int(sample.value) for sample in family.samples}


async def test_a_sweep_is_counted_and_seen_until_it_is_at_its_end() -> None:
    async with Server(zones=OLD, config=replace(CONFIG, hold_tzdata=True)) as server:
        schedules = server.client().schedules
        await schedules.create("nine", queue="reports", cron="0 9 * * *", zone=CHANGED)
        server.zones = NEW
        await server.restart()
        with watched(server.node) as observed:
            assert b"timerd_zone_sweep_open 1.0" in exposition(await observed.figures())
            await server.client().sweep_zones()
            await server.advance(seconds=20)
            text = exposition(await observed.figures())
        assert b'timerd_schedules_swept_total{outcome="armed"} 1.0' in text
        assert b"timerd_zone_sweep_open 0.0" in text
        assert b"timerd_zones_differing 0.0" in text


async def test_what_schedules_do_is_counted_and_a_broken_one_until_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tick: Tick, world: World) -> Procedure[Ticked]:
        yield from ()
        raise StoreUnknown("the disk does not say")

    async with Server() as server:
        schedules = server.client().schedules
        await schedules.create("apart", queue="reports", every=20, overlap="skip")
        await schedules.create("often", queue="reports", every=20, catch_up="latest")
        await server.advance(seconds=65)
        with watched(server.node) as observed:
            seen = (await observed.figures()).schedules
            assert (seen.instants["skipped"], seen.broken) == (2, 0)
            assert seen.instants["created"] >= 4
            assert seen.ticks["recorded"] >= 4
            with monkeypatch.context() as broken:
                broken.setattr(ticking, "tick_or_resume", fails)
                await server.advance(minutes=9)
            seen = (await observed.figures()).schedules
            assert (seen.broken, seen.ticks["failed"] >= 20) == (2, True)
            assert b"timerd_schedules_broken 2.0" in exposition(await observed.figures())
            await server.advance(minutes=2)
            seen = (await observed.figures()).schedules
            assert seen.broken == 0
            assert seen.instants["missed"] > 0
