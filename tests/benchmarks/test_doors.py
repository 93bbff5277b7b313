"""The measure of the two front doors: what it asks of the callers, and what it makes of their figures."""

from __future__ import annotations

import time

import pytest

from benchmarks.doors import beside
from benchmarks.doors.__main__ import Line, flags, load_of, parsed, second_message, table
from timerd.v1 import timer_service_pb2 as wire
from timerd.v1 import work_service_pb2 as work


def test_loads_are_callers_and_the_connections_that_they_share() -> None:
    assert [load_of(text) for text in ("8", "8x8")] == [(8, 1), (8, 8)]
    assert parsed(["--loads", "1,64x2"]).loads == ((1, 1), (64, 2))


def test_callers_are_told_what_to_send() -> None:
    given = list(flags("127.0.0.1:7400", (8, 2), parsed(["--then", "Reschedule"])))
    told = dict(zip(given[::2], given[1::2], strict=True))
    schedule = wire.ScheduleRequest.FromString(bytes.fromhex(told["-schedule"]))
    moved = wire.RescheduleRequest.FromString(bytes.fromhex(told["-then-message"]))
    assert (told["-in-flight"], told["-connections"], told["-then"]) == ("8", "2", "Reschedule")
    assert (schedule.template.queue, schedule.HasField("fire_time")) == ("q", False)
    assert moved.fire_time.seconds > int(told["-from"]) + int(told["-span"])
    assert second_message("Cancel") == b""


def test_a_row_is_the_median_of_its_runs() -> None:
    lines = [Line("Schedule", (8, 1), "native", rate, 1.0, rate / 100, 30.0) for rate in (3_000.0, 1_000.0, 2_000.0)]
    assert table(lines).splitlines()[2] == (
        "| Schedule | 8 | 1 | native | 2,000 (1,000 to 3,000) | 1.00 ms | 20.00 ms | 30 us |"
    )


def test_what_is_to_be_received_is_due_when_it_comes() -> None:
    given = list(flags("127.0.0.1:7400", (8, 2), parsed(["--then", "Receive"])))
    told = dict(zip(given[::2], given[1::2], strict=True))
    received = work.ReceiveRequest.FromString(bytes.fromhex(told["-then-message"]))
    assert (received.queue, received.max_tasks, received.wait.ToMilliseconds()) == ("q", 100, 100)
    assert int(told["-from"]) + int(told["-span"]) < time.time() < int(told["-from"]) + 2 * int(told["-span"]) + 60


def test_others_are_told_beside_the_doors() -> None:
    asked = beside.parsed(["--only", "native,redis", "--loads", "64"])
    assert (asked.only, asked.loads) == (("native", "redis"), ((64, 1),))
    assert beside.table([beside.Line("redis", 64, 5_000.4, 1.234, 9.876)]).splitlines()[-1] == (
        "| 64 | redis | 5,000 | 1.23 ms | 9.88 ms |"
    )
    with pytest.raises(SystemExit):
        beside.parsed(["--only", "sqs"])
