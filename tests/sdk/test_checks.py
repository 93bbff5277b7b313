"""What is wrong is said in a sentence, in the caller's words, before anything is sent; other calls never notice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.sdk.fake_server import FakeServer
from timerd import Client, Retry, Throttled, Worker
from timerd.client import InvalidTask, Item, KeyRules, PartlyStored, RetryPolicy, TimerdError
from timerd.sdk.working.dispositions import clip, disposition_of
from timerd.v1 import task_pb2
from timerd.v1 import work_service_pb2 as wk

DAY = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MIB = 1 << 20
Call = Callable[[Any], Awaitable[object]]


async def listed(client: Any, **given: Any) -> object:  # noqa: ANN401 - also what the type checker refuses
    return [task async for task in client.list(**given)]


def scheduled(**given: Any) -> Call:  # noqa: ANN401 - also what the type checker refuses
    return lambda client: client.schedule(**{"queue": "q", "payload": b"x", "delay": 1, **given})


def ruled(**given: Any) -> Call:  # noqa: ANN401 - also what the type checker refuses
    return lambda client: client.queues.update("q", **given)


def put(**given: Any) -> Call:  # noqa: ANN401 - also what the type checker refuses
    return lambda client: client.queues.put("q", **given)


def many(*items: Any, **given: Any) -> Call:  # noqa: ANN401 - also what the type checker refuses
    return lambda client: client.schedule_many("q", [("good", 1), *items], **given)


WRONG: dict[str, tuple[Call, str]] = {
    "payload too large": (scheduled(payload=bytes(50 * MIB)), "52,428,800 bytes: no server takes more than 1,048,576"),
    "payload just too large": (scheduled(payload="x" * (MIB + 1)), "1,048,577 bytes"),
    "payload of no text": (scheduled(payload="\udcff"), "cannot be written as UTF-8"),
    "item too large": (many((bytes(50 * MIB), 1)), "Item 1: The payload has 52,428,800 bytes"),
    "labels too large": (scheduled(labels={"a": "x" * MIB}), "`labels` has 1,048,577 characters"),
    "labels too large together": (scheduled(labels={str(n): "x" * 9000 for n in range(9)}), "fewer of them"),
    "labels of no dict": (scheduled(labels=5), "`labels` is a dict"),
    "queue of no text": (scheduled(queue=5), "`queue` is text, not 5"),
    "queue too long": (scheduled(queue="q" * MIB), "`queue` has 1,048,576 characters"),
    "queue of no UTF-8": (scheduled(queue="\udcff"), "`queue` is '\\udcff', which cannot be written"),
    "content type": (scheduled(content_type=5), "`content_type` is text"),
    "traceparent": (scheduled(traceparent=b"00"), "`traceparent` is text"),
    "negative priority": (scheduled(priority=-1), "`priority` is -1; give a whole number from 0 to 10"),
    "priority in words": (scheduled(priority="high"), "`priority` is 'high'; give a whole number from 0 to 10"),
    "retry of no policy": (scheduled(retry={"max_attempts": 3}), "`retry` is a RetryPolicy"),
    "attempts in words": (scheduled(retry=RetryPolicy(max_attempts="3")), "`retry.max_attempts` is '3'"),  # type: ignore[arg-type]
    "attempts in a list": (scheduled(retry=RetryPolicy(max_attempts=[3])), "`retry.max_attempts` is"),  # type: ignore[arg-type]
    "policy of no policy": (scheduled(key="k", on_conflict=5), "`on_conflict` is 5; allowed are"),
    "empty key": (scheduled(key=""), "`key` is empty"),
    "a queue of a breaker in words": (put(breaker="no"), "`breaker` is 'no'; give True or False."),
    "breaker in words": (ruled(breaker="no"), "`breaker` is 'no'; give True or False."),
    "purge in words": (lambda client: client.purge(queue="q", force="no"), "`force` is 'no'; give True or False."),
    "purge of letters": (
        lambda client: client.purge_dead_letters("q", force="no"),
        "`force` is 'no'; give True or False.",
    ),
    "prune in words": (
        lambda client: client.schedules.prune(labels={"a": "b"}, keep=[], force="no"),
        "`force` is 'no'; give True",
    ),
    "rebalance in words": (lambda client: client.cycles.rebalance("c", force="no"), "`force` is 'no'; give True"),
    "resumed in words": (lambda client: client.schedules.resume("s", catch_up="no"), "`catch_up` is 'no'; give True"),
    "cycle in words": (lambda client: client.cycles.resume("c", catch_up="no"), "`catch_up` is 'no'; give True"),
    "deleted in words": (
        lambda client: client.schedules.delete("s", cancel_open="no"),
        "`cancel_open` is 'no'; give True or False.",
    ),
    "paused in words": (
        lambda client: client.schedules.update("s", pause_on_dead="no"),
        "`pause_on_dead` is 'no'; give True or False.",
    ),
    "throttled in words": (
        lambda client: client.finish([], "throttled", by_key="yes", delay=1),
        "`by_key` is 'yes'; give True or False.",
    ),
    "empty request id": (scheduled(request_id=""), "`request_id` is empty"),
    "weights of no dict": (ruled(key_weights=3), "`key_weights` is 3: give a dict by limit key, as {'acme': ...}."),
    "weights in a list": (ruled(key_weights=["acme"]), "`key_weights` is ['acme']: give a dict by limit key"),
    "limits of keys of no dict": (ruled(key_limits="acme"), "`key_limits` is 'acme': give a dict by limit key"),
    "limit of a key as a number": (ruled(key_limits={"acme": 3}), "The limit of 'acme' is 3: give a KeyLimit."),
    "limits of no list": (ruled(limits=3), "`limits` is 3: give a list of names"),
    "limits of one name": (put(limits="stripe"), "`limits` is 'stripe': give a list of names, as ['stripe']."),
    "cleared of no list": (ruled(clear=3), "`clear` is 3: give a list of names"),
    "cleared in lists": (ruled(clear=[["rate"]]), "`clear` names ['rate']: use rate, burst"),
    "keys of no rules": (put(keys={"acme": 3}), "`keys` is {'acme': 3}: give KeyRules(...)."),
    "rules of no overrides": (put(keys=KeyRules(overrides=[1])), "`overrides` is [1]: give a dict"),  # type: ignore[arg-type]
    "rules of no weights": (put(keys=KeyRules(weights=3)), "`weights` is 3: give a dict"),  # type: ignore[arg-type]
    "rules of a number": (put(keys=KeyRules(limit=3)), "`limit` of the keys is 3: give a KeyLimit."),  # type: ignore[arg-type]
    "no items": (lambda client: client.schedule_many("q", None), "`items` must be a list"),
    "item of no pair": (many(5), "Item 1: must be (payload, at or delay) or an Item, not 5"),
    "item of three": (many((b"x", 1, 2)), "Item 1: must be"),
    "item without a payload": (many((None, 1)), "Item 1: A payload is bytes or str, not NoneType"),
    "item at no time": (many((b"x", "soon")), "Item 1: `delay` must be a timedelta or a number"),
    "item with an empty key": (many(Item(b"x", delay=1, key="")), "Item 1: `key` is empty"),
    "item with a key of no text": (many(Item(b"x", delay=1, key=5)), "Item 1: `key` is text"),  # type: ignore[arg-type]
    "item with labels of no dict": (many(Item(b"x", delay=1, labels=[1])), "Item 1: `labels` is a dict"),  # type: ignore[arg-type]
    "item with a priority": (many(Item(b"x", delay=1, priority=11)), "Item 1: `priority` is 11"),
    "item with a retry": (many(Item(b"x", delay=1, retry=5)), "Item 1: `retry` is a RetryPolicy"),  # type: ignore[arg-type]
    "cancel of an empty id": (lambda client: client.cancel(""), "`task_id` is empty"),
    "get of an empty id": (lambda client: client.get(""), "`task_id` is empty"),
    "get of an empty key": (lambda client: client.get(key=""), "`key` is empty"),
    "reschedule of an empty id": (lambda client: client.reschedule("", delay=1), "`task_id` is empty"),
    "fire now of nothing": (lambda client: client.fire_now(None), "`task_id` is text, not None"),
    "cancel of a huge id": (lambda client: client.cancel("x" * 50 * MIB), "`task_id` has 52,428,800 characters"),
    "cancel of text": (lambda client: client.cancel_many("abc"), "`task_ids` must be a list of task ids, not 'abc'"),
    "cancel of nothing": (lambda client: client.cancel_many(None), "`task_ids` must be a list"),
    "redrive of too many": (lambda client: client.redrive(["x" * 1000] * 20_000), "at most 16,777,216 at a time"),
    "redrive of less than none": (lambda client: client.redrive(queue="q", max_redriven=-1), "`max_redriven` is -1"),
    "purge of everything unsaid": (lambda client: client.purge(force=True), "Nothing says which tasks to purge"),
    "list backwards": (lambda client: listed(client, start=DAY, end=DAY - HOUR), "must be after `start`"),
    "states in words": (lambda client: listed(client, start=DAY, end=DAY + HOUR, states=["dead"]), "list of TaskState"),
    "page size": (lambda client: listed(client, start=DAY, end=DAY + HOUR, page_size=-1), "`page_size` is -1"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_what_is_wrong_is_said_before_anything_is_sent(client: Client, server: FakeServer, which: str) -> None:
    call, sentence = WRONG[which]
    with pytest.raises(InvalidTask) as refused:
        await call(client)
    assert sentence in str(refused.value)
    assert refused.value.reason
    assert (server.timers.received, server.timers.unary) == ([], [])


async def test_calls_that_share_the_stream_with_one_that_is_too_large_go_on(client: Client, server: FakeServer) -> None:
    large = client.schedule("q", bytes(50 * MIB), delay=1)
    *good, bad, after = await asyncio.gather(
        client.schedule("q", b"a", delay=1),
        client.schedule_many("q", [(b"b", 1)] * 3),
        client.cancel("A1"),
        large,
        client.schedule("q", b"c", delay=1),
        return_exceptions=True,
    )
    assert isinstance(bad, InvalidTask)
    assert bad.reason == "PAYLOAD_TOO_LARGE"
    assert not [each for each in (*good, after) if isinstance(each, BaseException)]
    assert server.timers.sessions == 1


async def test_the_largest_payload_is_left_to_the_server(client: Client, server: FakeServer) -> None:
    await client.schedule("q", bytes(MIB), delay=1)
    assert [len(payload) for payload in server.timers.payloads] == [MIB]


async def test_a_message_that_no_server_takes_is_answered_here(client: Client, server: FakeServer) -> None:
    """Whatever it is made of."""
    session = client._session
    request = session.new_request()
    request.cancel.task_ids.append("x" * 17 * MIB)
    with pytest.raises(InvalidTask, match="at most 16,777,216 at a time"):
        await session.call(request)
    assert (await client.schedule("q", b"x", delay=1)).id
    assert server.timers.sessions == 1


async def test_items_with_long_labels_are_spread_over_messages(client: Client, server: FakeServer) -> None:
    items = [Item(b"x", delay=1, labels={"a": str(n) + "x" * 60_000}) for n in range(40)]
    await client.schedule_many("q", items)
    assert len(server.timers.received) > 2
    assert max(map(len, server.timers.received)) < MIB


async def test_a_wrong_item_far_on_is_named_and_what_went_before_is_told(client: Client) -> None:
    with pytest.raises(PartlyStored, match=r"1000 of 1000 tasks were stored.*Item 1500: `priority` is 'high'"):
        await client.schedule_many("q", [*[("x", 1)] * 1500, Item("y", delay=1, priority="high")])  # type: ignore[arg-type]


async def test_a_client_is_used_up_when_it_is_closed(server: FakeServer) -> None:
    async with Client(server.target) as client:
        await client.schedule("q", b"x", delay=1)
    for again in (client.schedule("q", b"x", delay=1), client.get("A1"), client.schedule_many("q", [(b"x", 1)])):
        with pytest.raises(TimerdError, match="This client is closed; make a new one"):
            await again
    with pytest.raises(TimerdError, match="closed"):
        async with client:
            raise AssertionError("it cannot be entered again")
    assert server.timers.sessions == 1


@pytest.mark.parametrize("wrong", [{"target": None}, {"namespace": 5}, {"timeout": "long"}, {"tls": "no"}])
def test_a_client_of_wrong_values_is_not_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        Client(**wrong)


@pytest.mark.parametrize("wrong", [{"queue": 5}, {"concurrency": "many"}, {"concurrency": 0}, {"shield": "no"}])
def test_a_worker_of_wrong_values_is_not_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        Worker().on(**{"queue": "q", **wrong})(print)


def test_what_a_handler_raises_is_looked_at_as_it_is_made() -> None:
    with pytest.raises(InvalidTask, match="`by_key` is 'yes'; give True or False"):
        Throttled(1, by_key="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="`limit` is text, not 5"):
        Throttled(1, limit=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="`delay` must be a timedelta"):
        Retry("soon")  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("by_key", "yes"), ("limit", 5), ("after_ms", "soon")])
def test_so_is_what_a_subclass_has_set(field: str, value: object) -> None:
    """Else it would end the stream of the worker, whenever it was sent."""
    raised = Throttled(1)
    setattr(raised, field, value)
    said = disposition_of(raised)
    assert (said.action, said.throttled) == (wk.SETTLE_ACTION_NACK, None)


def test_an_error_text_is_clipped_and_can_always_be_sent() -> None:
    """What a handler raises may hold anything; a text that is no UTF-8 would stop the worker's stream for good."""
    assert len(clip("é" * 50 * MIB).encode()) <= 16 * 1024
    sent = task_pb2.Problem(message=disposition_of(ValueError("bad \udcff name")).error)
    assert "bad \\udcff name" in sent.message
