"""`timerd doctor` finds each thing that can be wrong, says what to do, and leaves a healthy server in peace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cli.conftest import Terminal
from tests.cli.healthy_answers import NOW, SECONDS, Info, healthy
from tests.sdk.fake_server import FakeServer
from timerd.commands.doctor import findings, lateness_quantile_ms
from timerd.commands.doctor_cluster import backlog_findings, backlog_notes
from timerd.v1 import operate_pb2
from timerd.v1.overview_service_pb2 import GetOverviewResponse, QueueActivity


def alone() -> operate_pb2.GetClusterResponse:
    one = operate_pb2.Instance(name="a", state=operate_pb2.INSTANCE_STATE_SERVING)
    one.report.CopyFrom(operate_pb2.InstanceReport(clock_trusted=True, lease_trusted=True))
    return operate_pb2.GetClusterResponse(instances=[one], answered_by="a")


def untrusted(info: Info) -> None:
    info.clock_trusted = False


def off(info: Info) -> None:
    info.clock_offset_ms = -150


def unexplained(info: Info) -> None:
    info.ledger.inserted, info.ledger.unexplained = 13, 3


def unbalanced(info: Info) -> None:
    info.ledger.acked = 12


def full(info: Info) -> None:
    info.disk_free_bytes = 100 << 20


def fat(info: Info) -> None:
    info.memory_used_bytes = 1 << 30


def overdue(info: Info) -> None:
    info.oldest_due_time.seconds = SECONDS - 90


def advised(info: Info) -> None:
    info.advice.append("Feed the cat.")


def test_a_healthy_server_has_no_findings() -> None:
    info = healthy()
    info.oldest_due_time.FromDatetime(NOW + timedelta(hours=1))
    assert list(findings(info, NOW)) == []


@pytest.mark.parametrize(
    ("ail", "says"),
    [
        (untrusted, "nothing fires"),
        (off, "-150 ms"),
        (unexplained, "3 tasks ended in a way that the ledger cannot explain"),
        (unbalanced, "3 more tasks ended than were stored"),
        (full, "Only 100 MiB of disk are free"),
        (fat, "1.0 GiB of 1.0 GiB memory"),
        (overdue, "has waited for 90 s: no worker is connected"),
        (advised, "Feed the cat."),
    ],
)
def test_each_ailment_is_found(ail: Callable[[Info], None], says: str) -> None:
    info = healthy()
    ail(info)
    found = list(findings(info, NOW))
    assert len(found) == 1
    assert says in found[0]


def test_what_waits_in_the_store_for_a_worker_is_found_by_its_queue() -> None:
    queues = [
        QueueActivity(namespace="default", queue="mails", has_backlog=True),
        QueueActivity(namespace="shop", queue="bills", has_backlog=True),
        QueueActivity(namespace="default", queue="worked", has_backlog=True, workers=1),
        QueueActivity(namespace="default", queue="idle"),
    ]
    mails, bills = backlog_findings(GetOverviewResponse(queues=queues))
    assert "Tasks of the queue mails came due and wait in the store" in mails
    assert mails.endswith("start one, as with `timerd work mails`.")
    assert "Tasks of the queue bills of the namespace shop came due" in bills
    assert list(backlog_findings(None)) == []
    found = alone()
    assert list(backlog_notes(found, [])) == []
    found.backlog_buckets = 3
    [note] = backlog_notes(found, [])
    assert note.startswith("3 buckets may hold tasks that came due and wait in the store")
    assert list(backlog_notes(found, [mails])) == []


def test_quantiles_are_the_bounds_of_their_classes() -> None:
    info = healthy()
    assert [lateness_quantile_ms(info, share) for share in (0.5, 0.98, 0.99, 1.0)] == [1, 1, 2, 5]
    del info.lateness_counts[:]
    assert lateness_quantile_ms(info, 0.5) is None


def test_what_is_as_it_was_wanted_is_a_note(terminal: Terminal, server: FakeServer) -> None:
    info = healthy()
    info.notes.append("The queue 'mails' is paused.")
    server.timers.unary_answers["GetServerInfo"].append(info)
    server.timers.unary_answers["GetCluster"].append(alone())
    told = terminal("doctor")
    assert (told.code, "Note: The queue 'mails' is paused." in told.out) == (0, True)


def test_doctor_prints_and_ends_with_its_findings(terminal: Terminal, server: FakeServer) -> None:
    sick = healthy()
    full(sick)
    server.timers.unary_answers["GetServerInfo"].extend([healthy(), healthy(), sick, sick])
    server.timers.unary_answers["GetCluster"].extend([alone()] * 4)
    ran = terminal("doctor")
    assert (ran.code, ran.err) == (0, "")
    assert "fsync (SQLite)" in ran.out
    assert ran.out.endswith("All is well.\n")
    record = terminal("doctor", "--json").json
    assert (record["healthy"], record["ledger"]["acked"], record["lateness_p99_ms"]) == (True, 9, 2)
    ran = terminal("doctor")
    assert ran.code == 1
    assert "WRONG: Only 100 MiB" in ran.out
    ran = terminal("doctor", "--json")
    assert (ran.code, ran.json["healthy"], len(ran.json["findings"])) == (1, False, 1)
    assert "1 thing is wrong" in ran.err
