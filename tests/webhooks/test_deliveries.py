"""From a task to its receiver and back: a webhook is a delivery as others are."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from aiohttp import web

from tests.observability.watched_node import watched
from tests.webhooks.conftest import ServerOf
from tests.webhooks.receiver import Received, accept, is_verified, never, receiving, secret_of, statuses
from timerd.client import Client, RetryPolicy, TaskState
from timerd.core.sinks.breaker import TargetState
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.webhooks import HttpAnswer
from timerd.observability.collector import exposition
from timerd.services.calls.results import MAX_RESULT_BYTES, KeptResults
from timerd.services.webhooks import results
from timerd.testing import Server
from timerd.worker import Delivery

ONCE = RetryPolicy(max_attempts=1)
HOUR = timedelta(hours=1)


def state_of(server: Server, number: int = 0) -> TargetState:
    assert server.node.webhooks is not None
    return server.node.webhooks.sinks[number].state


async def dead_errors(client: Client, queue: str = "mails") -> list[str]:
    return [letter.last_error async for letter in client.dead_letters(queue)]


async def test_a_task_is_posted_at_its_instant_and_signed(server_of: ServerOf) -> None:
    async with receiving() as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        body = b'{"to": "Ada"}'
        task = await client.schedule("mails", body, delay=3600, key="a b%\u00fc", content_type="application/json")
        await server.advance(minutes=59)
        assert receiver.got == []
        await server.advance(minutes=1)
        [got] = receiver.got
        assert (got.path, got.body, got.headers["Content-Type"]) == ("/hook", body, "application/json")
        said = {name: got.headers[f"timerd-{name}"] for name in ("task-id", "queue", "attempt", "fire-time", "key")}
        assert said == {
            "task-id": task.id,
            "queue": "mails",
            "attempt": "1",
            "fire-time": "2030-01-01T01:00:00.000Z",
            "key": "a b%25%C3%BC",
        }
        assert is_verified(got, secret_of("one"), server.now.timestamp())
        assert not is_verified(got, secret_of("another"), server.now.timestamp())
        assert not is_verified(got._replace(body=b'{"to": "Bob"}'), secret_of("one"), server.now.timestamp())
        assert (await client.get(task.id)).state is TaskState.ACKED


async def test_a_payload_of_any_bytes_is_posted_as_it_is(server_of: ServerOf) -> None:
    payload = bytes(range(256)) * 256
    async with receiving() as receiver, server_of({"mails": (receiver, "")}) as server:
        await server.client().schedule("mails", payload, delay=1)
        await server.advance(seconds=1)
        [got] = receiver.got
        assert (got.body, got.headers["Content-Type"]) == (payload, "application/octet-stream")
        assert is_verified(got, secret_of("one"), server.now.timestamp())


async def test_what_fails_comes_again_with_the_same_id_and_a_new_timestamp(server_of: ServerOf) -> None:
    answer = statuses(500, 302, 404, 200, text="no room\n at all")
    async with receiving(answer) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        retry = RetryPolicy(initial_backoff=timedelta(seconds=10), jitter=0, max_attempts=9)
        task = await client.schedule("mails", b"x", delay=1, retry=retry)
        await server.advance(seconds=2)
        failed = await client.get(task.id)
        assert failed.last_error == "HTTP 500 Internal Server Error: no room at all"
        await server.advance(minutes=5)
        first, *others = receiver.got
        assert [each.attempt for each in receiver.got] == [1, 2, 3, 4]
        assert {each.headers["webhook-id"] for each in others} == {first.headers["webhook-id"]}
        times_s = [int(each.headers["webhook-timestamp"]) for each in receiver.got]
        assert [after - before for before, after in pairwise(times_s)] == [10, 20, 40]
        assert (await client.get(task.id)).state is TaskState.ACKED


async def test_the_id_is_that_of_the_delivery(server_of: ServerOf) -> None:
    """As a worker of the queue, which may stand beside the target, is told."""
    async with receiving(statuses(500)) as receiver, server_of({"mails": (receiver, "in_flight = 1")}) as server:
        client, worker = server.client(), server.worker()
        ids = []

        @worker.on("mails")
        async def take(delivery: Delivery) -> None:
            ids.append(delivery.delivery_id)

        await client.schedule("mails", b"x", delay=1)
        await server.advance(seconds=1)
        assert server.node.webhooks is not None
        await server.node.webhooks.close()
        await worker.start()
        await server.advance(hours=1)
        assert ids == [receiver.got[0].headers["webhook-id"]]


async def test_a_good_answer_is_the_result_of_a_task_that_keeps_one(server_of: ServerOf) -> None:
    async def answer(_: Received) -> web.Response:
        return web.Response(body=b'{"id": 7}', content_type="application/json")

    async with receiving(answer) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        kept = await client.schedule("mails", b"a", delay=1, keep_result=HOUR)
        plain = await client.schedule("mails", b"b", delay=1)
        await server.advance(seconds=1)
        found = await client.get(kept.id)
        assert (found.state, found.result) == (TaskState.ACKED, b'{"id": 7}')
        assert found.result_content_type == "application/json"
        other = await client.get(plain.id)
        assert (other.state, other.result) == (TaskState.ACKED, None)
        assert await client.call("mails", b"c", timeout=5) == b'{"id": 7}'


@pytest.mark.parametrize("size", [0, MAX_RESULT_BYTES, MAX_RESULT_BYTES + 1])
async def test_of_an_answer_that_is_too_long_nothing_is_kept(server_of: ServerOf, size: int) -> None:
    async with receiving(statuses(200, text="x" * size)) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"a", delay=1, keep_result=HOUR)
        await server.advance(seconds=1)
        found = await client.get(task.id)
        expected = b"x" * size if 0 < size <= MAX_RESULT_BYTES else None
        assert (found.state, found.result) == (TaskState.ACKED, expected)


async def test_the_error_of_a_task_that_keeps_its_result_is_as_short_as_any(server_of: ServerOf) -> None:
    async with receiving(statuses(500, text="x" * 9_000)) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        await client.schedule("mails", b"a", delay=1, keep_result=HOUR, retry=ONCE)
        await server.advance(seconds=1)
        assert await dead_errors(client) == ["HTTP 500 Internal Server Error: " + "x" * 512]


async def test_a_result_that_is_not_durable_yet_costs_no_second_request(
    server_of: ServerOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "AGAIN_AFTER_S", 0)
    keep, left = (
        KeptResults.keep,
        [StoreUnavailable("The disk is full.", "STORE_UNAVAILABLE"), StoreUnknown("Nobody knows.")],
    )

    async def keep_at_last(*asked: object) -> None:
        if left:
            raise left.pop()
        await keep(*asked)  # type: ignore[arg-type] # as it was asked

    monkeypatch.setattr(KeptResults, "keep", keep_at_last)
    async with receiving(statuses(200, text="done")) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"a", delay=1, keep_result=HOUR)
        await server.advance(seconds=1)
        assert (await client.wait(task.id)).result == b"done"
        assert (left, [each.attempt for each in receiver.got]) == ([], [1])


@pytest.mark.parametrize("content_type", ["x" * 129, "caf\u00e9", "a\tb"])
def test_a_content_type_that_cannot_be_kept_is_left_out(content_type: str) -> None:
    result = results.result_of(HttpAnswer(200, "", b"x", content_type))
    assert result is not None
    assert (result.value, result.content_type) == (b"x", "")


async def test_a_cancelled_task_is_not_posted(server_of: ServerOf) -> None:
    async with receiving() as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"x", delay=60)
        await client.cancel(task.id)
        await server.advance(minutes=5)
        assert receiver.got == []


async def test_attempts_end_in_a_dead_letter_that_says_why(server_of: ServerOf) -> None:
    async with receiving(statuses(503, text="closed")) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        await client.schedule("mails", b"x", delay=1, retry=ONCE)
        await server.advance(seconds=1)
        assert await dead_errors(client) == ["HTTP 503 Service Unavailable: closed"]


async def test_a_status_that_was_named_is_a_dead_letter_at_once(server_of: ServerOf) -> None:
    more = "reject_statuses = [422]"
    async with receiving(statuses(422)) as receiver, server_of({"mails": (receiver, more)}) as server:
        client = server.client()
        await client.schedule("mails", b"x", delay=1)
        await server.advance(hours=1)
        assert await dead_errors(client) == ["HTTP 422 Unprocessable Entity"]
        assert (len(receiver.got), state_of(server)) == (1, TargetState.OK)


async def test_a_target_that_is_gone_is_sent_nothing_until_a_restart(
    server_of: ServerOf, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving(statuses(410, 200)) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        await client.schedule("mails", b"x", delay=1)
        await server.advance(seconds=1)
        waits = await client.schedule("mails", b"y", delay=1)
        await server.advance(hours=1)
        assert await dead_errors(client) == ["HTTP 410 Gone"]
        assert ([each.body for each in receiver.got], state_of(server)) == ([b"x"], TargetState.PAUSED)
        assert "the webhook target of default/mails says that it is gone" in caplog.text
        await server.restart()
        await receiver.until(2)
        await server.settle()
        assert (await client.get(waits.id)).state is TaskState.ACKED


@pytest.mark.parametrize("status", [429, 503])
async def test_who_asks_for_a_pause_gets_it_and_no_attempt_is_used_up(server_of: ServerOf, status: int) -> None:
    answer = statuses(status, headers={"Retry-After": "1"})
    async with receiving(answer) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"x", delay=1, retry=ONCE)
        await server.advance(seconds=1)
        assert state_of(server) is TargetState.THROTTLED
        waiting = (await client.get(task.id)).waiting_for
        assert waiting is not None
        assert f"The webhook of its queue 'mails' has asked for a pause: HTTP {status}" in waiting.description
        before, receiver.answer = len(receiver.got), accept
        await server.advance(seconds=1)
        await receiver.until(before + 1)
        await server.settle()
        assert {each.attempt for each in receiver.got} == {1}
        assert ((await client.get(task.id)).state, state_of(server)) == (TaskState.ACKED, TargetState.OK)


async def test_a_limit_that_is_not_listed_is_logged(server_of: ServerOf, caplog: pytest.LogCaptureFixture) -> None:
    answer = statuses(429, headers={"Retry-After": "1"})
    async with receiving(answer) as receiver, server_of({"mails": (receiver, 'limit = "strpe"')}) as server:
        await server.client().schedule("mails", b"x", delay=1)
        await server.advance(seconds=1)
        await receiver.until(1)
        await server.settle()
    said = [each for each in caplog.messages if "the limit 'strpe', which the queue 'mails' does not list" in each]
    assert len(said) == 1


async def test_retry_after_of_another_failure_delays_the_task_alone(server_of: ServerOf) -> None:
    answer = statuses(500, 200, headers={"Retry-After": "600"})
    async with receiving(answer) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        await client.schedule("mails", b"late", delay=1)
        await server.advance(seconds=2)
        await client.schedule("mails", b"other", delay=1)
        await server.advance(seconds=590)
        assert [each.body for each in receiver.got] == [b"late", b"other"]
        await server.advance(seconds=10)
        assert [each.body for each in receiver.got] == [b"late", b"other", b"late"]


async def test_no_more_are_open_than_were_allowed(server_of: ServerOf) -> None:
    async with receiving() as receiver, server_of({"mails": (receiver, "in_flight = 3")}) as server:
        is_full, goes_on = asyncio.Event(), asyncio.Event()

        async def answer(_: Received) -> web.Response:
            if receiver.open == 3:
                is_full.set()
            await goes_on.wait()
            return web.Response()

        receiver.answer = answer
        client = server.client()
        for number in range(10):
            await client.schedule("mails", b"%d" % number, delay=0)
        await is_full.wait()
        # What is not taken in hand can still be cancelled.
        waiting = [task.id async for task in client.list(queue="mails") if task.state is TaskState.PENDING]
        assert len(waiting) == 7
        await client.cancel(waiting[0])
        goes_on.set()
        await receiver.until(9)
        await server.settle()
        assert (len(receiver.got), receiver.most_open) == (9, 3)


async def test_a_target_that_hangs_holds_up_no_other(server_of: ServerOf) -> None:
    """It keeps all of its requests while the other queue's tasks come and are acknowledged."""
    async with (
        receiving(never) as hanging,
        receiving() as good,
        server_of({"stuck": (hanging, "in_flight = 5\ntimeout_s = 600"), "mails": (good, "")}) as server,
    ):
        client = server.client()
        for number in range(50):
            await client.schedule("stuck", b"%d" % number, delay=0)
        await hanging.until(5)
        tasks = [await client.schedule("mails", b"%d" % number, delay=0) for number in range(50)]
        await good.until(50)
        while {(await client.get(task.id)).state for task in tasks} != {TaskState.ACKED}:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        assert (hanging.open, len(hanging.got), server.node.delivery.in_flight) == (5, 5, 5)


async def test_a_target_that_fails_is_left_in_peace(server_of: ServerOf, caplog: pytest.LogCaptureFixture) -> None:
    """Those that are under way fail and use an attempt up; what waits does not, and goes when the target is back."""
    async with receiving(statuses(500)) as receiver, server_of({"mails": (receiver, "in_flight = 5")}) as server:
        client = server.client()
        for number in range(20):
            await client.schedule("mails", b"%d" % number, delay=1)
        await server.advance(seconds=1)
        assert (len(receiver.got), state_of(server)) == (5, TargetState.OPEN)
        assert (
            "the webhook target of default/mails fails, so its tasks wait, then one is tried: HTTP 500" in caplog.text
        )
        receiver.answer = accept
        # One is tried first.
        await receiver.until(6)
        await receiver.until(20)
        await server.advance(minutes=1)
        assert state_of(server) is TargetState.OK
        attempts = sorted(each.attempt for each in receiver.got)
        assert attempts == [1] * 20 + [2] * 5


async def test_the_metrics_say_how_a_target_fares(server_of: ServerOf) -> None:
    async with receiving(statuses(200, 500, 410)) as receiver, server_of({"mails": (receiver, "")}) as server:
        for _ in range(3):
            await server.client().schedule("mails", b"x", delay=1, retry=ONCE)
            await server.advance(seconds=1)
        with watched(server.node) as observed:
            lines = exposition(await observed.figures()).decode().splitlines()
        of_queue = 'namespace="default",'
        for outcome in ("acked", "failed", "rejected"):
            assert f'timerd_webhook_requests_total{{{of_queue}outcome="{outcome}",queue="mails"}} 1.0' in lines
        assert f'timerd_webhook_state{{{of_queue}queue="mails",state="paused"}} 1.0' in lines
        assert f'timerd_webhook_state{{{of_queue}queue="mails",state="ok"}} 0.0' in lines


async def test_a_time_out_is_a_failure_and_the_request_is_made_again(server_of: ServerOf) -> None:
    async with receiving(never) as receiver, server_of({"mails": (receiver, "timeout_s = 1")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"x", delay=1)
        await server.advance(seconds=1)
        assert (await client.get(task.id)).last_error == "No answer within 1 s."
        receiver.answer = accept
        await server.advance(minutes=1)
        assert (await client.get(task.id)).state is TaskState.ACKED
        assert len({each.headers["webhook-id"] for each in receiver.got}) == 1
        assert [each.attempt for each in receiver.got][:2] == [1, 2]


async def test_nobody_listens(server_of: ServerOf) -> None:
    async with receiving() as receiver:
        pass
    async with server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        task = await client.schedule("mails", b"x", delay=1)
        await server.advance(seconds=1)
        assert (await client.get(task.id)).last_error.startswith("No answer: cannot connect to 127.0.0.1:")


async def test_a_redirect_is_not_followed(server_of: ServerOf) -> None:
    async with receiving() as inside, receiving() as receiver, server_of({"mails": (receiver, "")}) as server:
        for status in (301, 302, 303, 307, 308):
            receiver.answer = statuses(status, headers={"Location": inside.url})
            await server.client().schedule("mails", b"x", delay=1, retry=ONCE)
            await server.advance(seconds=1)
        errors = await dead_errors(server.client())
        assert [error.split()[1] for error in errors] == ["301", "302", "303", "307", "308"]
        assert (len(receiver.got), inside.connections) == (5, 0)


async def test_secrets_rotate_without_a_moment_in_which_nobody_can_verify(server_of: ServerOf, tmp_path: Path) -> None:
    """A receiver that knows the old one, and one that knows the new one: one of them verifies at any time."""
    async with receiving() as receiver, server_of({"mails": (receiver, "")}) as server:
        secrets, webhooks = tmp_path / "secrets", server.node.webhooks
        assert webhooks is not None
        known = []
        for lines in (["one"], ["two", "one"], ["two"], ["nonsense"], ["three", "two", "one"]):
            written = [secret_of(each) if each != "nonsense" else each for each in lines]
            secrets.write_text("# the newest first\n" + "\n".join(written) + "\n")
            await webhooks.refresh()
            await server.client().schedule("mails", b"x", delay=1)
            await server.advance(seconds=1)
            got, now_s = receiver.got[-1], server.now.timestamp()
            verified = [each for each in ("one", "two", "three") if is_verified(got, secret_of(each), now_s)]
            known.append((verified, got.headers["webhook-signature"].count("v1,")))
        # What cannot be read leaves the old ones in force.
        assert known == [
            (["one"], 1),
            (["one", "two"], 2),
            (["two"], 1),
            (["two"], 1),
            (["one", "two", "three"], 3),
        ]


async def test_what_an_instance_had_under_way_when_it_stopped_comes_again(server_of: ServerOf) -> None:
    async with receiving(never) as receiver, server_of({"mails": (receiver, "")}) as server:
        client = server.client()
        await client.schedule("mails", b"x", delay=0)
        await receiver.until(1)
        await server.stop()
        while receiver.open:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        receiver.answer = accept
        await server.start()
        await server.advance(minutes=2)
        first, second = receiver.got
        assert first.headers["webhook-id"] == second.headers["webhook-id"]
