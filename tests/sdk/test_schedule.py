"""Single calls: what travels together, what travels alone, and what is said on the wire."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from tests.sdk.fake_server import FakeServer, split_payloads
from timerd import CancelOutcome, Client, TimerdError
from timerd.client import AlreadyExists, InvalidTask, ItemOutcome, Overloaded, RetryPolicy
from timerd.sdk.values.times import instant_ms
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as pb

SOON = datetime.now(UTC) + timedelta(minutes=5)


async def test_a_task_comes_back_with_its_id_and_its_instant(client: Client, server: FakeServer) -> None:
    task = await client.schedule("mails", "hello", at=SOON)
    assert task.id.startswith("A")
    assert task.fire_at_ms == instant_ms(SOON)
    assert task.fire_time - SOON < timedelta(milliseconds=1)
    assert (task.queue, task.key, task.outcome, task.error) == ("mails", "", ItemOutcome.STORED, None)
    assert server.timers.payloads == [b"hello"]


async def test_calls_of_one_turn_share_a_message(client: Client, server: FakeServer) -> None:
    tasks = await asyncio.gather(*[client.schedule("q", f"{n}", at=SOON + timedelta(seconds=n)) for n in range(50)])
    [request] = server.timers.requests()
    assert split_payloads(request.schedule.columns) == [str(n).encode() for n in range(50)]
    assert [task.fire_at_ms for task in tasks] == [instant_ms(SOON + timedelta(seconds=n)) for n in range(50)]
    assert len({task.id for task in tasks}) == 50
    assert request.schedule.request_id


async def test_calls_with_different_templates_do_not_share_a_message(client: Client, server: FakeServer) -> None:
    await asyncio.gather(
        client.schedule("a", "1", at=SOON),
        client.schedule("b", "2", at=SOON),
        client.schedule("a", "3", at=SOON, labels={"x": "y"}),
        client.schedule("a", "4", at=SOON, labels={"x": "y"}),
    )
    sent = [split_payloads(request.schedule.columns) for request in server.timers.requests()]
    assert sent == [[b"1"], [b"2"], [b"3", b"4"]]


async def test_a_call_with_a_key_or_a_request_id_travels_alone(client: Client, server: FakeServer) -> None:
    keyed, named, *_ = await asyncio.gather(
        client.schedule("q", "1", at=SOON, key="k", on_conflict="keep"),
        client.schedule("q", "2", at=SOON, request_id="mine"),
        client.schedule("q", "3", at=SOON),
        client.schedule("q", "4", at=SOON),
    )
    alone_with_key, alone_with_id, together = (request.schedule for request in server.timers.requests())
    assert [item.key for item in alone_with_key.items.items] == ["k"]
    assert alone_with_key.template.on_conflict == task_pb2.CONFLICT_POLICY_KEEP
    assert (keyed.key, named.key) == ("k", "")
    assert alone_with_id.request_id == "mine"
    assert split_payloads(together.columns) == [b"3", b"4"]


async def test_a_delay_is_sent_with_the_instant_it_counts_from(client: Client, server: FakeServer) -> None:
    before_ms = instant_ms(datetime.now(UTC))
    task = await client.schedule("q", b"x", delay=timedelta(seconds=90))
    [request] = server.timers.requests()
    assert list(request.schedule.columns.delay_ms) == [90_000]
    assert request.schedule.HasField("request_time")
    assert task.fire_at_ms >= before_ms + 90_000


async def test_the_template_says_everything_that_was_asked_for(client: Client, server: FakeServer) -> None:
    await client.schedule(
        "q",
        b"{}",
        at=SOON,
        labels={"tenant": "7"},
        content_type="application/json",
        priority=4,
        retry=RetryPolicy(max_attempts=3, initial_backoff=2, max_backoff=timedelta(minutes=1), multiplier=3.0),
        expire_at=SOON + timedelta(hours=1),
        soft_expire_at=SOON + timedelta(minutes=1),
        traceparent="00-1-2-01",
    )
    template = server.timers.requests()[0].schedule.template
    assert (template.queue, dict(template.labels), template.content_type) == ("q", {"tenant": "7"}, "application/json")
    assert (template.priority, template.traceparent) == (4, "00-1-2-01")
    assert (template.retry.max_attempts, template.retry.initial_backoff.seconds) == (3, 2)
    assert (template.retry.max_backoff.seconds, template.retry.multiplier) == (60, 3.0)
    assert template.expire_time.seconds - template.soft_expire_time.seconds == 59 * 60


async def test_calls_of_many_traces_share_a_message(client: Client, server: FakeServer) -> None:
    """A trace of its own for each call does not cost a message for each; what is the same for all is said once."""
    traces = ["a", "a", "", "b"]
    tasks = await asyncio.gather(*(client.schedule("q", b"x", at=SOON, traceparent=trace) for trace in traces))
    assert len({task.id for task in tasks}) == 4
    [request] = server.timers.requests()
    assert request.schedule.template.traceparent == "a"
    own = [item.template.traceparent if item.HasField("template") else None for item in request.schedule.items.items]
    assert own == [None, None, "", "b"]


async def test_calls_of_one_trace_travel_as_columns(client: Client, server: FakeServer) -> None:
    await asyncio.gather(*(client.schedule("q", b"x", at=SOON, traceparent="a") for _ in range(4)))
    [request] = server.timers.requests()
    assert request.schedule.template.traceparent == "a"
    assert len(request.schedule.columns.fire_at_ms) == 4


async def test_a_bad_item_does_not_spoil_those_that_travelled_with_it(client: Client, server: FakeServer) -> None:
    too_far = task_pb2.Problem(code=3, message="Too far ahead.", reason="TOO_FAR", field="fire_time")
    server.timers.item_results = {1: pb.ItemResult(outcome=task_pb2.ITEM_OUTCOME_NOT_STORED, problem=too_far)}
    good, bad, also_good = await asyncio.gather(
        *[client.schedule("q", str(n), at=SOON) for n in range(3)], return_exceptions=True
    )
    assert isinstance(bad, InvalidTask)
    assert (str(bad), bad.reason) == ("Too far ahead.", "TOO_FAR")
    assert [getattr(task, "id", "") for task in (good, also_good)] == ["A-0", "A-2"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"at": datetime(2030, 1, 1)}, "no time zone"),
        ({}, "Give either `at` or `delay`"),
        ({"delay": 1, "priority": -1}, "whole number from 0 to 10"),
        ({"delay": 1, "key": "k", "on_conflict": "merge"}, 'allowed are "keep", "replace", "reject"'),
        ({"delay": 1, "expire_at": datetime(2030, 1, 1)}, "`expire_at`"),
    ],
)
async def test_wrong_input_is_refused_before_anything_is_sent(
    client: Client, server: FakeServer, wrong: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidTask, match=sentence):
        await client.schedule("q", b"x", **wrong)  # type: ignore[arg-type]
    assert server.timers.received == []


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("countdown", "unexpected keyword argument 'countdown'. Did you mean 'delay'?"),
        ("eta", "unexpected keyword argument 'eta'. Did you mean 'at'?"),
        ("prioritty", "unexpected keyword argument 'prioritty'"),
    ],
)
async def test_a_word_that_is_none_is_told_before_what_is_missing(
    client: Client, server: FakeServer, word: str, sentence: str
) -> None:
    """Who comes from Celery writes `countdown=3`: that no delay was given would be true, and of no use."""
    with pytest.raises(TypeError) as told:
        await client.schedule("q", b"x", **{word: 3})  # type: ignore[arg-type]
    assert str(told.value).endswith(sentence)
    assert server.timers.received == []


async def test_a_payload_is_bytes_or_text(client: Client) -> None:
    with pytest.raises(InvalidTask, match="not dict"):
        await client.schedule("q", {"a": 1}, delay=1)  # type: ignore[arg-type]


async def test_a_refusal_of_the_message_reaches_each_caller_as_an_error_of_its_own(
    client: Client, server: FakeServer
) -> None:
    taken = task_pb2.Problem(code=grpc.StatusCode.ALREADY_EXISTS.value[0], message="Taken.", reason="KEY_TAKEN")
    server.timers.refusals.append(taken)
    first, second = await asyncio.gather(
        client.schedule("q", "1", at=SOON), client.schedule("q", "2", at=SOON), return_exceptions=True
    )
    assert isinstance(first, AlreadyExists)
    assert isinstance(second, AlreadyExists)
    assert first is not second


async def test_calls_wait_for_company_while_the_server_is_busy(client: Client, server: FakeServer) -> None:
    server.timers.gate.clear()
    first = []
    for n in range(4):
        first.append(asyncio.create_task(client.schedule("q", str(n), at=SOON)))
        await asyncio.sleep(0.01)
    rest = []
    for n in range(4, 10):
        rest.append(asyncio.create_task(client.schedule("q", str(n), at=SOON)))
        await asyncio.sleep(0)
    server.timers.gate.set()
    await asyncio.gather(*first, *rest)
    sizes = [len(split_payloads(request.schedule.columns)) for request in server.timers.requests()]
    assert sizes == [1, 1, 1, 1, 6]


async def test_cancels_share_a_message_and_tell_the_outcome(client: Client, server: FakeServer) -> None:
    outcomes = await asyncio.gather(client.cancel("A1"), client.cancel("B1"), client.cancel("A2"))
    assert [outcome.name for outcome in outcomes] == ["CANCELLED", "NOT_FOUND", "CANCELLED"]
    assert [list(request.cancel.task_ids) for request in server.timers.requests()] == [["A1", "B1", "A2"]]


async def test_many_cancels_keep_their_order(client: Client, server: FakeServer) -> None:
    outcomes = await client.cancel_many(["A" if n % 2 else "B" for n in range(2500)])
    assert outcomes == [CancelOutcome.CANCELLED if n % 2 else CancelOutcome.NOT_FOUND for n in range(2500)]
    assert [len(request.cancel.task_ids) for request in server.timers.requests()] == [1000, 1000, 500]


async def test_a_reschedule_answers_the_new_instant(client: Client, server: FakeServer) -> None:
    assert await client.reschedule("A1", at=SOON) - SOON < timedelta(milliseconds=1)
    await client.reschedule(key="k", delay=5)
    by_id, by_key = (request.reschedule for request in server.timers.requests())
    assert (by_id.task_id, by_id.HasField("request_time")) == ("A1", True)
    assert (by_key.key, by_key.delay.seconds, by_key.HasField("request_time")) == ("k", 5, True)


async def test_a_target_is_an_id_or_a_key(client: Client) -> None:
    for call in (client.cancel(), client.get(), client.reschedule("A", key="k", delay=1)):
        with pytest.raises(InvalidTask, match="either a task id or a `key`"):
            await call


async def test_overload_is_told_when_it_does_not_pass(server: FakeServer) -> None:
    # Later than the call's end: one that is repeated before may be without an answer at the end, and then that is told.
    full = task_pb2.Problem(code=8, message="Too much in hand.", reason="INGEST_BUDGET", retry_after_ms=60_000)
    server.timers.refusals.extend([full] * 1000)
    async with Client(server.target, timeout=5) as client:
        with pytest.raises(Overloaded) as refused:
            await client.schedule("q", "x", at=SOON)
    assert (refused.value.reason, refused.value.retry_after) == ("INGEST_BUDGET", 60)


async def test_a_closed_client_fails_what_still_waits(server: FakeServer) -> None:
    server.timers.gate.clear()
    client = Client(server.target)
    waiting = asyncio.create_task(client.schedule("q", "x", at=SOON))
    await server.timers.until(lambda: bool(server.timers.received))
    await client.close()
    with pytest.raises(TimerdError, match="outcome is unknown"):
        await waiting
    with pytest.raises(TimerdError, match="client is closed; make a new one"):
        await client.schedule("q", "x", at=SOON)
    server.timers.gate.set()


@pytest.mark.parametrize(
    "wrong", [{"labels": {"a": 1}}, {"labels": {"a": ["b"]}}, {"delay": 1e15}, {"key": 5}, {"request_id": 5}]
)
async def test_values_of_a_wrong_type_are_refused_and_nobody_hangs(
    client: Client, server: FakeServer, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidTask):
        await client.schedule("q", b"x", **{"delay": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="is text"):
        await client.cancel(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="is text"):
        await client.cancel_many([5])  # type: ignore[list-item]
    assert (await client.schedule("q", b"x", delay=1)).id


async def test_an_overload_that_outlasts_the_timeout_is_told_at_once(client: Client, server: FakeServer) -> None:
    long = task_pb2.Problem(code=8, message="Quota used up.", reason="QUOTA", retry_after_ms=3_600_000)
    server.timers.refusals.append(long)
    with pytest.raises(Overloaded) as refused:
        await client.schedule("q", "x", at=SOON)
    assert refused.value.retry_after == 3600
