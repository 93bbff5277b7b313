"""Unary calls: pages, totals, and errors from trailing metadata."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest

from tests.sdk.fake_server import FakeServer
from timerd import CancelOutcome, Client
from timerd.client import InvalidTask, NotFound, OutcomeUnknown, TaskState, Unavailable
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

DAY = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, "starting", (("timerd-reason", "STARTING"), ("timerd-retry-after-ms", "1")))


async def test_a_task_is_shown_with_everything_known(client: Client, server: FakeServer) -> None:
    shown = task_pb2.Task(task_id="A1", queue="q", state=task_pb2.TASK_STATE_RETRYING, payload=b"x", attempt=2)
    shown.fire_time.FromDatetime(DAY)
    shown.labels["a"] = "b"
    server.timers.unary_answers["Get"].append(pb.GetResponse(task=shown))
    info = await client.get("A1")
    assert (info.id, info.queue, info.state, info.payload, info.attempt) == ("A1", "q", TaskState.RETRYING, b"x", 2)
    assert (info.fire_time, info.labels, info.expire_time) == (DAY, {"a": "b"}, None)


async def test_an_error_is_read_from_the_trailing_metadata(client: Client, server: FakeServer) -> None:
    metadata = (("timerd-reason", "TASK"), ("timerd-field", "task_id"))
    server.timers.unary_answers["Get"].append((grpc.StatusCode.NOT_FOUND, "There is no such task.", metadata))
    with pytest.raises(NotFound, match="no such task") as missing:
        await client.get("A1")
    assert (missing.value.code, missing.value.reason, missing.value.field) == ("NOT_FOUND", "TASK", "task_id")


async def test_unary_calls_are_repeated_as_the_same_bytes(client: Client, server: FakeServer) -> None:
    server.timers.unary_answers["Cancel"].extend([UNAVAILABLE, UNAVAILABLE, pb.CancelResponse(outcome=3)])  # type: ignore[arg-type]
    assert await client.cancel(key="k") is CancelOutcome.IN_FLIGHT
    assert len({data for _, data in server.timers.unary}) == 1
    assert len(server.timers.unary) == 3
    assert pb.CancelRequest.FromString(server.timers.unary[0][1]).request_id


async def test_a_lost_answer_has_an_unknown_outcome_at_the_deadline(server: FakeServer) -> None:
    server.timers.unary_answers["Cancel"].extend([(grpc.StatusCode.UNKNOWN, "oops", ())] * 100)
    async with Client(server.target, timeout=0.2) as client:
        with pytest.raises(OutcomeUnknown, match="oops"):
            await client.cancel(key="k")


async def test_a_read_that_is_not_answered_has_no_outcome_to_be_unknown(server: FakeServer) -> None:
    for method in ("Get", "Count", "List"):
        server.timers.unary_answers[method].extend([(grpc.StatusCode.UNKNOWN, "oops", ())] * 100)
    async with Client(server.target, timeout=0.2) as client:
        for ask in (client.get("A"), client.count(queue="q"), anext(client.list())):
            with pytest.raises(Unavailable, match=r"only reads.*oops") as told:
                await ask
            assert told.value.reason == ""


async def test_a_list_follows_its_pages_also_empty_ones(client: Client, server: FakeServer) -> None:
    server.timers.unary_answers["List"].extend(
        [
            pb.ListResponse(tasks=[task_pb2.Task(task_id="A1")], next_page_token="p1"),
            pb.ListResponse(next_page_token="p2"),
            pb.ListResponse(tasks=[task_pb2.Task(task_id="A2")]),
        ]
    )
    listed = client.list(
        start=DAY, end=DAY + HOUR, queue="q", states=[TaskState.PENDING], labels={"a": "b"}, include_payload=True
    )
    assert [task.id async for task in listed] == ["A1", "A2"]
    asked = [pb.ListRequest.FromString(data) for _, data in server.timers.unary]
    assert [request.page_token for request in asked] == ["", "p1", "p2"]
    chosen = asked[2].filter
    assert (chosen.queue, list(chosen.states), dict(chosen.labels)) == ("q", [1], {"a": "b"})
    assert (chosen.start_time.ToDatetime(UTC), chosen.end_time.ToDatetime(UTC)) == (DAY, DAY + HOUR)
    assert asked[2].include_payload


@pytest.mark.parametrize(("start", "end"), [(None, None), (DAY, None), (None, DAY)], ids=["none", "start", "end"])
async def test_what_is_left_out_of_a_range_is_open(
    client: Client, server: FakeServer, start: datetime | None, end: datetime | None
) -> None:
    answers = server.timers.unary_answers
    for method, answer in (("List", pb.ListResponse()), ("Count", pb.CountResponse()), ("Purge", pb.PurgeResponse())):
        answers[method].append(answer)
    assert [task async for task in client.list(start=start, end=end)] == []
    await client.count(start=start, end=end, states=[TaskState.DEAD])
    await client.purge(start=start, end=end)
    kinds: dict[str, Any] = {"List": pb.ListRequest, "Count": pb.CountRequest, "Purge": pb.PurgeRequest}
    filters = [kinds[method].FromString(data).filter for method, data in server.timers.unary]
    expected = (start or datetime(1970, 1, 1, tzinfo=UTC), end or LAST)
    assert [(each.start_time.ToDatetime(UTC), each.end_time.ToDatetime(UTC)) for each in filters] == [expected] * 3


async def test_a_count_of_a_queue_alone_is_an_estimate(client: Client, server: FakeServer) -> None:
    server.timers.unary_answers["Count"].append(pb.CountResponse(count=5, estimated=True))
    await client.count(queue="q")
    [(_, data)] = server.timers.unary
    assert pb.CountRequest.FromString(data).filter == pb.TaskFilter(queue="q")


async def test_a_count_adds_up_its_pages(client: Client, server: FakeServer) -> None:
    pages = [pb.CountResponse(count=5, estimated=True, next_page_token="p"), pb.CountResponse(count=2)]
    server.timers.unary_answers["Count"].extend(pages)
    counted = await client.count(queue="q")
    assert (counted, counted.estimated) == (7, True)


async def test_a_purge_is_a_dry_run_unless_forced(client: Client, server: FakeServer) -> None:
    server.timers.unary_answers["Purge"].extend(
        [
            pb.PurgeResponse(purged=3, dry_run=True),
            pb.PurgeResponse(purged=2, next_page_token="p"),
            pb.PurgeResponse(purged=1),
        ]
    )
    would = await client.purge(start=DAY, end=DAY + HOUR, queue="q")
    done = await client.purge(start=DAY, end=DAY + HOUR, queue="q", force=True)
    assert (would, would.dry_run, done, done.dry_run) == (3, True, 3, False)
    asked = [pb.PurgeRequest.FromString(data) for _, data in server.timers.unary]
    assert [request.force for request in asked] == [False, True, True]
    assert len({request.request_id for request in asked}) == 3


async def test_dead_letters_and_redrive(client: Client, server: FakeServer) -> None:
    letter = pb.DeadLetter(task=task_pb2.Task(task_id="A1"), attempts=20, last_error="ValueError")
    letter.death_time.FromDatetime(DAY)
    server.timers.unary_answers["ListDeadLetters"].append(pb.ListDeadLettersResponse(dead_letters=[letter]))
    server.timers.unary_answers["Redrive"].append(pb.RedriveResponse(redriven=4))
    [dead] = [found async for found in client.dead_letters("q", end=DAY)]
    assert (dead.task.id, dead.attempts, dead.last_error, dead.death_time) == ("A1", 20, "ValueError", DAY)
    redriven = await client.redrive(queue="q", start=DAY, max_redriven=9)
    assert (redriven, redriven.missing) == (4, ())
    asked = pb.RedriveRequest.FromString(server.timers.unary[-1][1])
    assert (asked.queue, asked.start_time.ToDatetime(UTC), asked.max_redriven) == ("q", DAY, 9)


async def test_fire_now_and_server_info(client: Client, server: FakeServer) -> None:
    fired = pb.FireNowResponse(task_id="A1")
    fired.fire_time.FromDatetime(DAY)
    server.timers.unary_answers["FireNow"].append(fired)
    server.timers.unary_answers["GetServerInfo"].append(pb.GetServerInfoResponse(version="9", durability="fsync"))
    assert await client.fire_now("A1") == DAY
    assert (await client.server_info()).durability == "fsync"


async def test_a_naive_range_is_refused(client: Client) -> None:
    with pytest.raises(InvalidTask, match=r"`start`.*no time zone"):
        await client.count(start=datetime(2030, 1, 1), end=DAY)


async def test_a_server_that_is_not_there_got_nothing(server: FakeServer) -> None:
    await server.stop()
    async with Client(server.target, timeout=0.2) as client:
        with pytest.raises(Unavailable, match="nothing was sent") as refused:
            await client.cancel(key="k")
    assert refused.value.reason == "NOT_SENT"
    await server.start()


async def test_tls_to_a_server_without_it_says_what_to_leave_out(server: FakeServer) -> None:
    async with Client(server.target, timeout=0.5, tls=True) as client:
        with pytest.raises(Unavailable, match="If the server uses no TLS, leave out `tls`") as refused:
            await client.get("A1")
    assert refused.value.reason == "NOT_SENT"
