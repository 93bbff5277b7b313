"""Celery's beat schedule in timerd: its times are those of Celery's own crontab, and each run is a task of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import BaseSchedule, crontab, schedule, solar

import timerd.testing
from tests.contrib.celery import shop
from tests.contrib.celery.conftest import Publishing, Shop, Working
from tests.process.children import Server
from tests.process.conftest import Children
from tests.process.waiting import until
from timerd.client import SyncClient
from timerd.contrib.celery import import_beat
from timerd.contrib.celery.beat import id_of
from timerd.contrib.celery.beat_times import NotImported, spec_of
from timerd.contrib.celery.messages import EachRun, Message

START = datetime(2030, 1, 5, 11, 7, tzinfo=UTC)
ZONES = ("UTC", "Asia/Tokyo", "America/Bogota")


class Sunset(solar):  # type: ignore[misc] # Celery has no types
    """Without the library that computes it."""

    def __init__(self) -> None:
        BaseSchedule.__init__(self)

    def __repr__(self) -> str:
        return "sunset"


def tea(number: int, text: str = "") -> None: ...


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("shop", broker="memory://", set_as_current=False)
    # Else beat has an entry of its own.
    made.conf.result_expires = None
    made.task(name="shop.tea", shared=False)(tea)
    yield made
    made.close()


@pytest.fixture
def server() -> Iterator[timerd.testing.SyncServer]:
    with timerd.testing.server() as server:
        yield server


def drawn(rng: Random, values: range, texts: list[str]) -> Any:  # noqa: ANN401 - as Celery takes it
    """In any of the forms that Celery takes."""
    low, high = sorted(rng.sample(values, 2))
    forms: list[Any] = [
        "*",
        "*",
        rng.choice(values),
        f"{low}-{high}",
        f"{low}-{high}/{rng.randint(2, 5)}",
        f"*/{rng.randint(2, 20)}",
        f"{low},{high}",
        {low, high},
        rng.choice(texts) if texts else low,
    ]
    return rng.choice(forms)


def a_crontab(rng: Random, app: Celery, clock: Callable[[], datetime]) -> crontab:
    """One that comes, in some zone."""
    while True:
        try:
            return crontab(
                drawn(rng, range(60), []),
                drawn(rng, range(24), []),
                drawn(rng, range(7), ["mon-fri", "sunday", "sat,sun", "3"]),
                drawn(rng, range(1, 29), ["1-7", "31", "28-31"]),
                drawn(rng, range(1, 13), []),
                nowfun=clock,
                app=app,
            )
        except ValueError:
            continue


def of_celery(when: crontab, zone: Any, count: int) -> list[datetime]:  # noqa: ANN401 - a zone of Celery
    """The next runs, as beat finds them: each from the run before."""
    last, found = START, list[datetime]()
    for _ in range(count):
        at, delta, _ = when.remaining_delta(last, tz=zone)
        last = (at + delta).astimezone(UTC)
        found.append(last)
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_a_crontab_comes_when_celery_says(zone: str, app: Celery, server: timerd.testing.SyncServer) -> None:
    """A hundred expressions in each zone."""
    app.conf.timezone = zone
    rng = Random(zone)
    for number in range(100):
        when = a_crontab(rng, app, lambda: START)
        spec = spec_of(when)
        said = server.client.schedules.preview(count=4, after=START, **spec)
        assert [each.instant.astimezone(UTC) for each in said] == of_celery(when, app.timezone, 4), (number, when, spec)


def test_a_period_is_a_period(app: Celery) -> None:
    assert spec_of(schedule(timedelta(minutes=5), app=app)) == {"every": timedelta(minutes=5)}


class Sometimes(schedule):  # type: ignore[misc] # Celery has no types
    """Of an application's own."""


@pytest.mark.parametrize(
    ("when", "says"),
    [
        (Sunset(), "goes by the sun"),
        (Sometimes(10), "does not know when a Sometimes comes"),
        (schedule(0.5), "1 s at the least"),
    ],
)
def test_times_that_timerd_does_not_have_are_told(when: schedule, says: str) -> None:
    with pytest.raises(NotImported, match=says):
        spec_of(when)


def test_an_import_may_be_repeated(app: Celery, server: timerd.testing.SyncServer) -> None:
    tea = {"task": "shop.tea", "args": (7,), "kwargs": {"text": "ä"}}
    app.conf.beat_schedule = {
        "every 10 s": {**tea, "schedule": 10.0, "options": {"expires": 5, "queue": "express", "priority": 3}},
        "nightly": {"task": "elsewhere.report", "schedule": crontab("30", "2")},
        "by the sun": {**tea, "schedule": Sunset()},
        "lazy": {**tea, "schedule": 60, "args": (BeatLazyFunc(int),)},
        "late": {**tea, "schedule": 60, "options": {"countdown": 5}},
    }
    first = import_beat(app, server.connect_options)
    assert first.schedules == {"every 10 s": id_of("every 10 s"), "nightly": "celery-beat/nightly"}
    assert sorted(first.refused) == ["by the sun", "late", "lazy"]
    assert first.refused["late"] == (
        "'late' is not imported: its options have an eta or a countdown, and a schedule says itself when it comes."
    )
    schedules = server.client.schedules
    before = schedules.get("celery-beat/nightly")
    assert (before.spec.parts[0].cron, before.spec.zone, before.labels) == (
        "30 2 * * *",
        "UTC",
        {"celery-beat": "shop"},
    )
    message = Message.of_bytes(schedules.get(id_of("every 10 s")).payload)
    assert (message.again, message.publish["priority"], message.publish["headers"]["expires"]) == (
        EachRun(5.0),
        3,
        None,
    )
    assert message.publish["routing_key"] == "express"
    assert import_beat(app, server.connect_options) == first
    assert schedules.get("celery-beat/nightly").revision == before.revision
    del app.conf.beat_schedule["nightly"]
    assert import_beat(app, server.connect_options).gone == ("celery-beat/nightly",)
    assert schedules.get("celery-beat/nightly").revision == before.revision
    gone = import_beat(app, server.connect_options, delete_gone=True)
    assert (gone.gone, gone.deleted) == (("celery-beat/nightly",), True)
    assert [each.id for each in schedules.list()] == [id_of("every 10 s")]


def test_entries_may_come_from_elsewhere(app: Celery, server: timerd.testing.SyncServer) -> None:
    """As the scheduler of django-celery-beat has them."""
    entry = ScheduleEntry("from a table", "shop.tea", schedule=crontab("0", "9", app=app), args=(1,), app=app)
    done = import_beat(app, server.connect_options, entries={"from a table": entry})
    assert list(done.schedules) == ["from a table"]
    assert done.refused == {}


def test_what_beat_adds_by_itself_comes_along(app: Celery, server: timerd.testing.SyncServer) -> None:
    app.conf.result_expires = 3600
    assert list(import_beat(app, server.connect_options).schedules) == ["celery.backend_cleanup"]


def test_ids_tell_entries_apart() -> None:
    assert id_of("nightly") == "celery-beat/nightly"
    assert id_of("a b") != id_of("a  b")
    assert len(id_of("x" * 300)) < 128


def test_each_run_has_an_id_that_a_repeat_has_too(app: Celery, server: timerd.testing.SyncServer) -> None:
    app.conf.beat_schedule = {"tea": {"task": "shop.tea", "schedule": 10, "args": (7,), "options": {"expires": 60}}}
    import_beat(app, server.connect_options)
    stored = Message.of_bytes(server.client.schedules.get("celery-beat/tea").payload)
    first, again, other = (stored.of_delivery(each, 1_000_000) for each in ("a", "a", "b"))
    assert first == again
    headers = first.publish["headers"]
    assert headers["id"] == headers["root_id"] == first.publish["correlation_id"]
    assert headers["id"] != other.publish["headers"]["id"]
    assert (first.expires_at_ms, headers["expires"]) == (1_060_000, "1970-01-01T00:17:40+00:00")
    assert Message.of_bytes(first.to_bytes()).again is None


SHOP = """
from celery import Celery
from celery.schedules import crontab
app = Celery("shop", broker="memory://", backend="cache+memory://")
app.conf.result_expires = None
app.conf.beat_schedule = {
    "nightly": {"task": "shop.report", "schedule": crontab("30", "2")},
    "often": {"task": "shop.report", "schedule": 0.2},
}
"""


@pytest.mark.process
def test_the_command_says_what_became_of_each(tmp_path: Path, children: Children) -> None:
    (tmp_path / "its_shop.py").write_text(SHOP)
    server = children.own(Server(tmp_path))
    server.start()

    def ran(*options: str) -> tuple[int, list[tuple[str, str]]]:
        command = [sys.executable, "-m", "timerd.cli", "celery", "import", "its_shop", "--server", server.address]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [*command, "--json", *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert ("'often' is not imported: it comes every 0:00:00.200000" in done.stderr) is bool(done.returncode)
        return done.returncode, [(row["entry"], row["outcome"]) for row in rows]

    assert ran() == (1, [("nightly", "IMPORTED"), ("often", "REFUSED")])
    (tmp_path / "its_shop.py").write_text(SHOP.replace('"nightly"', '"daily"').replace("0.2", "20"))
    again = [("daily", "IMPORTED"), ("often", "IMPORTED")]
    assert ran() == (0, [*again, ("celery-beat/nightly", "GONE")])
    assert ran("--delete-gone") == (0, [*again, ("celery-beat/nightly", "DELETED")])
    assert ran() == (0, again)


@pytest.mark.process
def test_a_worker_of_celery_runs_it(
    running_shop: Shop,
    publisher: Publishing,
    timerd_server: Server,
    broker_url: str,
    tmp_path: Path,
    module_children: Children,
) -> None:
    """Through timerd, the publisher and the broker; each run once, with an id of its own."""
    assert publisher.is_running()
    module_children.own(Working(tmp_path, broker_url, timerd_server.address)).start()
    app = shop.make(broker_url, timerd_server.address)
    app.conf.beat_schedule = {"note": {"task": "shop.note", "schedule": 1.0, "args": ("beat",)}}
    done = import_beat(app, timerd_server.address)
    assert list(done.schedules) == ["note"]
    with SyncClient(timerd_server.address) as client:
        until(lambda: len(shop.notes(running_shop.broker)) >= 3, "it has run three times")
        client.schedules.delete("celery-beat/note")
    ran = shop.notes(running_shop.broker)
    assert len(ran) == len({*ran})
    shop.close(app)
