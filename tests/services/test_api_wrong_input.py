"""Every wrong input is answered with a sentence, the right status and the field, and nothing reaches the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo
from google.rpc.status_pb2 import Status

from tests.services.api_rig import NOW_MS, Rig, running, trailers
from timerd.v1 import task_pb2 as task_wire
from timerd.v1 import timer_service_pb2 as wire

NOW_S = NOW_MS // 1000
INVALID = grpc.StatusCode.INVALID_ARGUMENT
CENTURY = 101 * 366 * 86_400
GOOD = task_wire.TaskTemplate(queue="q")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with running() as made:
        yield made


def order(**fields: Any) -> wire.ScheduleRequest:  # noqa: ANN401
    return wire.ScheduleRequest(**({"template": GOOD, "fire_time": Timestamp(seconds=NOW_S)} | fields))


def templated(**fields: Any) -> wire.ScheduleRequest:  # noqa: ANN401
    return order(template=task_wire.TaskTemplate(**({"queue": "q"} | fields)))


def expiring(fire_s: int, **fields: Any) -> wire.ScheduleRequest:  # noqa: ANN401
    return order(template=task_wire.TaskTemplate(queue="q", **fields), fire_time=Timestamp(seconds=fire_s))


def retrying(**fields: Any) -> wire.ScheduleRequest:  # noqa: ANN401
    return templated(retry=task_wire.RetryPolicy(**fields))


def columns(**fields: Any) -> wire.ScheduleBatchRequest:  # noqa: ANN401
    return wire.ScheduleBatchRequest(template=GOOD, columns=wire.TaskColumns(**fields))


def delayed(**fields: Any) -> wire.ScheduleRequest:  # noqa: ANN401
    return order(**({"fire_time": None, "delay": Duration(seconds=1)} | fields))


def ranged(**fields: Any) -> wire.TaskFilter:  # noqa: ANN401
    return wire.TaskFilter(**({"start_time": Timestamp(seconds=1), "end_time": Timestamp(seconds=2)} | fields))


# What is wrong: verb, request, field, words of the sentence.
WRONG: dict[str, tuple[str, Any, str, str]] = {
    "namespace": ("Schedule", order(namespace="a b"), "namespace", "1 to 64 characters of A-Z a-z 0-9 . _ -"),
    "namespace too long": ("Schedule", order(namespace="n" * 65), "namespace", "1 to 64"),
    "namespace with newline": ("Schedule", order(namespace="a\n"), "namespace", "1 to 64"),
    "request_id": ("Schedule", order(request_id="r" * 129), "request_id", "at most 128"),
    "request_id with control": ("Schedule", order(request_id="a\0b"), "request_id", "control characters"),
    "no template": ("Schedule", order(template=None), "template.queue", "queue is missing"),
    "queue": ("Schedule", templated(queue="a b"), "template.queue", "A-Z a-z 0-9 . _ - / :"),
    "queue too long": ("Schedule", templated(queue="q" * 129), "template.queue", "1 to 128"),
    "label key": ("Schedule", templated(labels={"a b": "x"}), "template.labels", "label key 'a b'"),
    "label value": ("Schedule", templated(labels={"a": "x" * 257}), "template.labels", "at most 256"),
    "labels": ("Schedule", templated(labels={str(n): "" for n in range(33)}), "template.labels", "at most 32"),
    "content_type": ("Schedule", templated(content_type="x" * 129), "template.content_type", "at most 128"),
    "priority": ("Schedule", templated(priority=11), "template.priority", "0 to 10"),
    "traceparent": ("Schedule", templated(traceparent="nonsense"), "template.traceparent", "W3C"),
    "ordering_key": ("Schedule", templated(ordering_key="k" * 257), "template.ordering_key", "at most 256"),
    "on_conflict": ("Schedule", templated(on_conflict=9), "template.on_conflict", "KEEP (1)"),
    "attempts": ("Schedule", retrying(max_attempts=70_000), "template.retry.max_attempts", "1 to 65,535"),
    "initial backoff": ("Schedule", retrying(initial_backoff=Duration()), "template.retry.initial_backoff", "0.001 s"),
    "max backoff": (
        "Schedule",
        retrying(initial_backoff=Duration(seconds=9), max_backoff=Duration(seconds=8)),
        "template.retry.max_backoff",
        "shorter than initial_backoff",
    ),
    "backoff too long": (
        "Schedule",
        retrying(max_backoff=Duration(seconds=31 * 86_400)),
        "template.retry.max_backoff",
        "30 days",
    ),
    "multiplier": ("Schedule", retrying(multiplier=0.5), "template.retry.multiplier", "1 to 100"),
    "multiplier not a number": ("Schedule", retrying(multiplier=float("nan")), "template.retry.multiplier", "1 to 100"),
    "jitter": ("Schedule", retrying(jitter=1.5), "template.retry.jitter", "0 to 1"),
    "jitter not a number": ("Schedule", retrying(jitter=float("nan")), "template.retry.jitter", "0 to 1"),
    "attempt timeout": (
        "Schedule",
        retrying(attempt_timeout=Duration(nanos=1)),
        "template.retry.attempt_timeout",
        "0.1 s",
    ),
    "bad duration": (
        "Schedule",
        retrying(attempt_timeout=Duration(seconds=1, nanos=-1)),
        "template.retry.attempt_timeout",
        "same sign",
    ),
    "expire before fire": (
        "Schedule",
        templated(expire_time=Timestamp(seconds=NOW_S)),
        "template.expire_time",
        "not after the fire_time",
    ),
    "expire after nothing": ("Schedule", templated(expire_after=Duration()), "template.expire_after", "a millisecond"),
    "late before its time": (
        "Schedule",
        templated(soft_expire_after=Duration(seconds=-1)),
        "template.soft_expire_after",
        "a millisecond to 100 years",
    ),
    "expired before it is stored": (
        "Schedule",
        expiring(NOW_S - 60, expire_after=Duration(seconds=60)),
        "template.expire_after",
        "has passed",
    ),
    "expired by an instant": (
        "Schedule",
        expiring(NOW_S - 60, expire_time=Timestamp(seconds=NOW_S - 1)),
        "template.expire_time",
        "has passed",
    ),
    "late after it expires": (
        "Schedule",
        expiring(NOW_S, expire_after=Duration(seconds=60), soft_expire_after=Duration(seconds=61)),
        "template.soft_expire_after",
        "expires before that",
    ),
    "late at an instant after it expires": (
        "Schedule",
        expiring(NOW_S, expire_after=Duration(seconds=60), soft_expire_time=Timestamp(seconds=NOW_S + 61)),
        "template.soft_expire_time",
        "expires before that",
    ),
    "expire in 1970": ("Schedule", templated(expire_time=Timestamp()), "template.expire_time", "not after"),
    "bad expire": ("Schedule", templated(expire_time=Timestamp(nanos=-1)), "template.expire_time", "valid Timestamp"),
    "no due": ("Schedule", order(fire_time=None), "fire_time", "Neither fire_time nor delay"),
    "far": ("Schedule", order(fire_time=Timestamp(seconds=NOW_S + CENTURY)), "fire_time", "more than 100 years"),
    "before 1970": ("Schedule", order(fire_time=Timestamp(seconds=-1)), "fire_time", "before March 1973"),
    "seconds as ms": ("Schedule", order(fire_time=Timestamp(seconds=NOW_S // 1_000)), "fire_time", "are these seconds"),
    "bad fire_time": ("Schedule", order(fire_time=Timestamp(seconds=1 << 60)), "fire_time", "valid Timestamp"),
    "negative delay": ("Schedule", delayed(delay=Duration(seconds=-1)), "delay", "negative"),
    "slightly negative delay": ("Schedule", delayed(delay=Duration(nanos=-1)), "delay", "negative"),
    "long delay": ("Schedule", delayed(delay=Duration(seconds=CENTURY)), "delay", "100 years"),
    "clock behind": (
        "Schedule",
        delayed(request_time=Timestamp(seconds=NOW_S - 61)),
        "request_time",
        "2027-01-15T07:58:59.000Z (the caller's clock) and 2027-01-15T08:00:00.000Z (the server's clock)",
    ),
    "clock ahead": ("Schedule", delayed(request_time=Timestamp(seconds=NOW_S + 61)), "request_time", "60 s"),
    "payload": ("Schedule", order(payload=b"x" * 65_537), "payload", "65,537 bytes: at most 65,536"),
    "key": ("Schedule", order(key="k" * 257), "key", "at most 256"),
    "no tasks": ("ScheduleBatch", wire.ScheduleBatchRequest(template=GOOD), "items", "holds no tasks"),
    "no items": ("ScheduleBatch", wire.ScheduleBatchRequest(items=wire.TaskItems()), "items", "1 to 10,000"),
    "too many items": (
        "ScheduleBatch",
        wire.ScheduleBatchRequest(items=wire.TaskItems(items=[wire.TaskItem()] * 10_001)),
        "items",
        "10,001 tasks: at most 10,000",
    ),
    "batch template": (
        "ScheduleBatch",
        wire.ScheduleBatchRequest(
            template=task_wire.TaskTemplate(), items=wire.TaskItems(items=[wire.TaskItem(template=GOOD)])
        ),
        "template.queue",
        "queue is missing",
    ),
    "no columns": ("ScheduleBatch", columns(payloads=b"x"), "columns.fire_at_ms", "1 to 10,000"),
    "too many columns": ("ScheduleBatch", columns(delay_ms=[0] * 10_001), "columns.fire_at_ms", "at most 10,000"),
    "both dues": ("ScheduleBatch", columns(fire_at_ms=[1], delay_ms=[1]), "columns.fire_at_ms", "give one of them"),
    "lengths": (
        "ScheduleBatch",
        columns(fire_at_ms=[1, 2, 3], payload_lengths=[1, 2], payloads=b"abc"),
        "columns.payload_lengths",
        "2 payload_lengths for 3 tasks",
    ),
    "lengths too small": (
        "ScheduleBatch",
        columns(fire_at_ms=[1], payload_lengths=[1], payloads=b"abc"),
        "columns.payload_lengths",
        "add up to 1 bytes, but payloads has 3",
    ),
    "lengths too large": (
        "ScheduleBatch",
        columns(fire_at_ms=[1, 2], payload_lengths=[4_294_967_295], payloads=b"abc"),
        "columns.payload_lengths",
        "8,589,934,590",
    ),
    "no lengths": ("ScheduleBatch", columns(delay_ms=[1], payloads=b"abc"), "columns.payload_lengths", "has 3"),
    "clock of columns": (
        "ScheduleBatch",
        wire.ScheduleBatchRequest(
            template=GOOD, columns=wire.TaskColumns(delay_ms=[1]), request_time=Timestamp(seconds=NOW_S - 61)
        ),
        "request_time",
        "60 s",
    ),
    "cancel nothing": ("Cancel", wire.CancelRequest(), "task_id", "Neither task_id nor key"),
    "cancel empty id": ("Cancel", wire.CancelRequest(task_id=""), "task_id", "task_id is missing"),
    "cancel long key": ("Cancel", wire.CancelRequest(key="k" * 257), "key", "at most 256"),
    "cancel no ids": ("CancelBatch", wire.CancelBatchRequest(), "task_ids", "1 to 10,000"),
    "cancel too many": ("CancelBatch", wire.CancelBatchRequest(task_ids=["x"] * 10_001), "task_ids", "10,001"),
    "move without due": ("Reschedule", wire.RescheduleRequest(task_id="x"), "fire_time", "Neither fire_time"),
    "get nothing": ("Get", wire.GetRequest(), "task_id", "Neither task_id nor key"),
    "fire nothing": ("FireNow", wire.FireNowRequest(), "task_id", "task_id is missing"),
    "list without range": ("List", wire.ListRequest(), "filter.start_time", "range of due times"),
    "list half a range": (
        "List",
        wire.ListRequest(filter=wire.TaskFilter(start_time=Timestamp(seconds=1))),
        "filter.start_time",
        "set both",
    ),
    "list empty range": ("List", wire.ListRequest(filter=ranged(end_time=Timestamp())), "filter.end_time", "is empty"),
    "list bad queue": ("List", wire.ListRequest(filter=ranged(queue="a b")), "filter.queue", "1 to 128"),
    "list bad state": ("List", wire.ListRequest(filter=ranged(states=[99])), "filter.states", "PENDING (1)"),
    "count with half a range": (
        "Count",
        wire.CountRequest(filter=wire.TaskFilter(end_time=Timestamp(seconds=1))),
        "filter.start_time",
        "set both",
    ),
    "estimate by label": (
        "Count",
        wire.CountRequest(filter=wire.TaskFilter(labels={"a": "b"})),
        "filter.start_time",
        "estimates",
    ),
    "purge without range": ("Purge", wire.PurgeRequest(force=True), "filter.start_time", "range of due times"),
    "purge what ended": (
        "Purge",
        wire.PurgeRequest(filter=ranged(states=[task_wire.TASK_STATE_ACKED])),
        "filter.states",
        "not ended",
    ),
    "dead letters of an empty range": (
        "ListDeadLetters",
        wire.ListDeadLettersRequest(start_time=Timestamp(seconds=2), end_time=Timestamp(seconds=1)),
        "end_time",
        "is empty",
    ),
    "redrive both ways": ("Redrive", wire.RedriveRequest(task_ids=["x"], queue="q"), "task_ids", "in one way"),
    "redrive nothing": ("Redrive", wire.RedriveRequest(), "queue", "queue is missing"),
    "page token": ("List", wire.ListRequest(filter=ranged(), page_token="@@@"), "page_token", "malformed"),
    "page token not ASCII": ("List", wire.ListRequest(filter=ranged(), page_token="ü" * 43), "page_token", "malformed"),
    "short page token": ("Count", wire.CountRequest(filter=ranged(), page_token="AAAA"), "page_token", "malformed"),
    "page token of another query": (
        "Purge",
        wire.PurgeRequest(filter=ranged(), page_token="A" * 43),
        "page_token",
        "another query",
    ),
    "dead letter page token": (
        "ListDeadLetters",
        wire.ListDeadLettersRequest(page_token="A" * 80),
        "page_token",
        "another query",
    ),
}


async def refusal(rig: Rig, verb: str, request: Any) -> grpc.aio.AioRpcError:  # noqa: ANN401
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await getattr(rig.stub, verb)(request)
    return caught.value


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_input_is_answered_with_a_sentence(rig: Rig, name: str) -> None:
    verb, request, field, words = WRONG[name]
    error = await refusal(rig, verb, request)
    sentence = error.details() or ""
    assert error.code() is INVALID
    assert words in sentence
    assert sentence.endswith((".", "- / :", ". _ -"))
    found = trailers(error)
    assert found["timerd-field"] == field
    assert found["timerd-reason"]
    assert rig.verbs.asked == []


async def test_the_details_are_those_of_google_rpc(rig: Rig) -> None:
    error = await refusal(rig, "Schedule", templated(priority=11))
    status = Status.FromString(trailers(error)["grpc-status-details-bin"])
    assert (status.code, status.message) == (INVALID.value[0], error.details())
    info, bad = ErrorInfo(), BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (info.domain, info.reason) == ("timerd", "INVALID")
    assert bad.field_violations[0].field == "template.priority"


async def test_a_token_serves_its_own_query_only(rig: Rig) -> None:
    now = {"start_time": Timestamp(seconds=NOW_S), "end_time": Timestamp(seconds=NOW_S + 1)}
    for n in range(3):
        await rig.stub.Schedule(order(fire_time=Timestamp(seconds=NOW_S, nanos=n * 1_000_000)))
    first = await rig.stub.List(wire.ListRequest(filter=ranged(**now), page_size=1))
    token = first.next_page_token
    more = await rig.stub.List(wire.ListRequest(filter=ranged(**now), page_size=2, page_token=token, max_scanned=5))
    assert len(more.tasks) == 2
    for verb, request in [
        ("List", wire.ListRequest(filter=ranged(**now, queue="q"), page_token=token)),
        ("List", wire.ListRequest(namespace="other", filter=ranged(**now), page_token=token)),
        ("Count", wire.CountRequest(filter=ranged(**now), page_token=token)),
    ]:
        error = await refusal(rig, verb, request)
        assert "another query" in (error.details() or "")
        assert trailers(error)["timerd-reason"] == "BAD_PAGE_TOKEN"


@pytest.mark.parametrize("verb", ["Get", "FireNow", "Reschedule"])
async def test_unknown_and_foreign_ids_are_not_found_without_asking(rig: Rig, verb: str) -> None:
    kind: Any = {"Get": wire.GetRequest, "FireNow": wire.FireNowRequest, "Reschedule": wire.RescheduleRequest}[verb]
    foreign = (await rig.stub.Schedule(order(namespace="other"))).task_id
    rig.verbs.asked.clear()
    for task_id in (foreign, "nonsense", foreign[:-2] + "AA", "ü"):
        request = kind(task_id=task_id)
        if isinstance(request, wire.RescheduleRequest):
            request.delay.seconds = 1
        error = await refusal(rig, verb, request)
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "check the id and the namespace" in (error.details() or "")
    assert rig.verbs.asked == []


async def test_bytes_that_are_no_message(rig: Rig) -> None:
    call: Any = rig.channel.unary_unary("/timerd.v1.TimerService/Schedule", None, None)
    for raw in (b"\xff\xff", b"\x0a\x02\xff\xff"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(raw)
        assert caught.value.code() is INVALID
        assert "no valid timerd.v1.ScheduleRequest" in (caught.value.details() or "")


async def test_a_message_over_the_limit(rig: Rig) -> None:
    error = await refusal(rig, "Schedule", order(payload=b"x" * (17 << 20)))
    assert error.code() is INVALID
    assert "at most 16,777,216 are allowed, split it" in (error.details() or "")
    error = await refusal(rig, "Schedule", order(payload=b"x" * (33 << 20)))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_hard_payload_limit_is_the_most_that_can_be_configured() -> None:
    async with running(payload_limit_bytes=1 << 20) as rig:
        await rig.stub.Schedule(order(payload=b"x" * (1 << 20)))
        error = await refusal(rig, "Schedule", order(payload=b"x" * ((1 << 20) + 1)))
        assert "at most 1,048,576" in (error.details() or "")


async def test_long_input_is_not_echoed_whole(rig: Rig) -> None:
    error = await refusal(rig, "Get", wire.GetRequest(task_id="x" * 1_000_000))
    assert len(error.details() or "") < 300
