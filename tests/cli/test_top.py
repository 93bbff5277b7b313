"""`timerd top`: what two looks differ by, and one screen of it."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from rich.cells import cell_len

from tests.cli.conftest import Terminal
from tests.cli.healthy_answers import SECONDS
from timerd.commands.top import bars, record_of
from timerd.testing import Server
from timerd.v1 import overview_service_pb2 as pb


def overview(seconds: int, **sent: int) -> pb.GetOverviewResponse:
    """Of so many seconds after the start; what was sent of each queue, half of it late."""
    made = pb.GetOverviewResponse(engine_time=Timestamp(seconds=SECONDS + seconds), lateness_bounds_ms=[1, 5])
    made.instances.add(name="a", version="0.1.0", start_time=Timestamp(seconds=SECONDS), oldest_due_ms=1_500)
    for queue, count in sent.items():
        made.queues.add(
            namespace="default", queue=queue, sent=count, due=3, in_hand=2, lateness_counts=[count // 2, count // 2, 0]
        )
    return made


def test_a_rate_is_what_two_looks_differ_by() -> None:
    record = record_of(overview(10, mails=100, jobs=4), overview(12, mails=120, jobs=4), [5, 0, 1])
    assert [(each["queue"], each["fires_per_s"]) for each in record["queues"]] == [("mails", 10.0), ("jobs", 0.0)]
    assert (record["fires_per_s"], record["due"], record["in_hand"], record["fired"]) == (10.0, 6, 4, 20)
    assert (record["lateness_p50_ms"], record["lateness_p99_ms"]) == (1, 5)
    assert record["minutes"] == [5, 0, 1]
    assert (record["instances"][0]["up_s"], record["instances"][0]["oldest_due_ms"]) == (12, 1_500)


def test_a_queue_that_is_new_and_an_instance_that_was_started_anew_count_from_0() -> None:
    record = record_of(overview(10, mails=100), overview(11, mails=6, jobs=8), [])
    assert {each["queue"]: each["fires_per_s"] for each in record["queues"]} == {"mails": 0.0, "jobs": 8.0}


def test_what_is_later_than_all_classes_has_no_bound() -> None:
    now = overview(11)
    now.queues.add(namespace="default", queue="mails", sent=2, lateness_counts=[0, 0, 2])
    record = record_of(overview(10), now, [])
    assert (record["fired"], record["lateness_p50_ms"]) == (2, None)


def test_a_queue_that_lacks_a_worker_comes_first_and_says_so(terminal: Terminal, whole: Server) -> None:
    now = overview(11, mails=9, jobs=4)
    now.queues.add(namespace="default", queue="pdf", lacks_worker=True)
    record = record_of(overview(10), now, [])
    assert [(each["queue"], each["lacks_worker"]) for each in record["queues"]] == [
        ("pdf", True),
        ("mails", False),
        ("jobs", False),
    ]
    terminal("schedule", "mails", "x", "--at", "2030-01-01T00:00:00Z")
    ran = terminal("top", "--once")
    assert "mails: tasks are due, and no worker is connected" in ran.out
    assert [line.split()[-1] for line in ran.out.splitlines() if line.startswith("mails ")] == ["none!"]


@pytest.mark.parametrize(
    ("figures", "drawn"), [([], ""), ([0, 0], "  "), ([8, 4, 0], "█▄ "), ([1_000, 1], "█▁"), ([5], "█")]
)
def test_a_bar_for_each_minute(figures: list[int], drawn: str) -> None:
    assert bars(figures) == drawn


def test_one_screen_fits_80_columns(terminal: Terminal, whole: Server) -> None:
    terminal.monkeypatch.delenv("COLUMNS", raising=False)
    for queue in ("mails", "reminders/of-a-rather-long-name.which-somebody-chose"):
        terminal("schedule", queue, "hello", "--at", "2030-01-01T00:10:00Z")
    ran = terminal("top", "--once")
    assert (ran.code, ran.err) == (0, "")
    assert [line for line in ran.out.splitlines() if cell_len(line) > 80] == []
    for shown in ("due now 0", "nothing was sent in the last second", "next hour", "fires/s", "mails", "MiB"):
        assert shown in ran.out
    record = terminal("top", "--once", "--json").json
    assert {each["queue"] for each in record["queues"]} >= {"mails"}
    assert len(record["instances"]) == 1
