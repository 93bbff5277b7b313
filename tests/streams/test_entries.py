"""From a task to an entry of a Redis stream: an entry is a delivery as others are, acknowledged once Redis has it."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.engines.redis_server import RedisServer
from tests.observability.watched_node import watched
from tests.streams.conftest import ServerOf, config_of
from timerd.client import RetryPolicy, TaskState
from timerd.core.sinks.breaker import TargetState
from timerd.model.streams import StreamEntry
from timerd.observability.collector import exposition
from timerd.services.streams import sink as stream_sink
from timerd.testing import Server
from timerd.worker import Delivery

STREAM = "shop:orders"
ONCE = RetryPolicy(max_attempts=1)
SLOWLY = RetryPolicy(initial_backoff=timedelta(seconds=10), jitter=0, max_attempts=50)


async def entries(redis: Redis, stream: str = STREAM) -> list[dict[str, Any]]:
    """Oldest first; the payload as bytes, all else as texts."""
    found: Any = await redis.xrange(stream)
    named = [{name.decode(): value for name, value in fields.items()} for _, fields in found]
    return [{name: value if name == "payload" else value.decode() for name, value in each.items()} for each in named]


def state_of(server: Server) -> TargetState:
    assert server.node.streams is not None
    return server.node.streams.sinks[0].state


async def ended(server: Server, *tasks: str) -> None:
    """Their virtual time passes, and that of the pauses of a target, which is real."""
    client, left = server.client(), list(tasks)
    async with asyncio.timeout(60):
        while left:
            await server.advance(seconds=10)
            await asyncio.sleep(0.05)
            left = [task for task in left if (await client.get(task)).state is not TaskState.ACKED]


async def test_a_task_is_appended_at_its_instant_with_what_a_worker_is_told(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("") as server:
        client = server.client()
        task = await client.schedule(
            "orders", b'{"n": 1}', delay=3600, key="a b\u00fc", content_type="application/json"
        )
        await server.advance(minutes=59)
        assert await entries(redis) == []
        await server.advance(minutes=1)
        [entry] = await entries(redis)
        fence = entry.pop("fencing_scope"), entry.pop("fencing_token")
        assert all(fence)
        assert len(entry.pop("delivery_id")) == 27
        assert entry == {
            "payload": b'{"n": 1}',
            "task_id": task.id,
            "namespace": "default",
            "queue": "orders",
            "attempt": "1",
            "fire_time": "2030-01-01T01:00:00.000Z",
            "content_type": "application/json",
            "key": "a b\u00fc",
        }
        assert (await client.get(task.id)).state is TaskState.ACKED


async def test_many_of_one_instant_are_all_there_in_their_order(server_of: ServerOf, redis: Redis) -> None:
    """More than a round takes, and more than may be in hand."""
    count = 3 * stream_sink.ROUND_ENTRIES + 7
    async with server_of("in_flight = 700") as server:
        client = server.client()
        await client.schedule_many("orders", [(b"%d" % n, timedelta(seconds=60 + n // 100)) for n in range(count)])
        await server.advance(minutes=2)
        got = [int(each["payload"]) for each in await entries(redis)]
        assert sorted(got) == list(range(count))
        assert [n // 100 for n in got] == sorted(n // 100 for n in range(count))


async def test_what_was_cancelled_is_not_appended(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("") as server:
        client = server.client()
        task = await client.schedule("orders", b"x", delay=60)
        await client.cancel(task.id)
        await server.advance(minutes=2)
        assert await entries(redis) == []


async def test_a_redis_that_is_away_uses_up_one_attempt_and_is_then_left_in_peace(
    server_of: ServerOf, redis: Redis, redis_server: RedisServer
) -> None:
    """Of more tasks than a round takes those behind the first round wait, and keep their attempts."""
    count = 2 * stream_sink.ROUND_ENTRIES
    async with server_of("") as server:
        client = server.client()
        redis_server.kill()
        items = [(b"%d" % n, timedelta(seconds=1)) for n in range(count)]
        tasks = await client.schedule_many("orders", items, retry=SLOWLY)
        await server.advance(seconds=1)
        assert state_of(server) is TargetState.OPEN
        redis_server.start()
        await ended(server, *[task.id for task in tasks])
        assert state_of(server) is TargetState.OK
        got = await entries(redis)
        assert sorted(int(each["payload"]) for each in got) == list(range(count))
        assert len({each["delivery_id"] for each in got}) == count
        attempts = [each["attempt"] for each in got]
        assert 0 < attempts.count("2") <= stream_sink.ROUND_ENTRIES
        assert set(attempts) == {"1", "2"}


async def test_a_repeat_whose_first_answer_was_lost_is_left_out(
    server_of: ServerOf, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis has taken the entry, and the server does not hear it."""
    async with server_of("") as server:
        client = server.client()
        assert server.node.streams is not None
        writer = server.node.streams.sinks[0]._writer
        append, rounds = writer.append, []

        async def lost(given: Any) -> Any:  # noqa: ANN401
            rounds.append(await append(given))
            return ["The answer is lost."] if len(rounds) == 1 else rounds[-1]

        monkeypatch.setattr(type(writer), "append", lambda _, given: lost(given))
        task = await client.schedule("orders", b"x", delay=1, retry=SLOWLY)
        await server.advance(seconds=1)
        assert (await client.get(task.id)).last_error == "The answer is lost."
        await ended(server, task.id)
        assert [each["attempt"] for each in await entries(redis)] == ["1"]
        assert len(rounds) == 2


async def test_without_that_memory_it_is_there_twice_with_one_id(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("repeats_known_s = 0") as server:
        assert server.node.streams is not None
        sink = server.node.streams.sinks[0]
        await server.client().schedule("orders", b"x", delay=1)
        await server.advance(seconds=1)
        [entry] = await entries(redis)
        assert await redis.keys("*timerd*") == []
        assert await sink._writer.append([StreamEntry(entry["delivery_id"], entry)]) == [""]
        assert await entries(redis) == [entry, entry]


async def test_the_stream_keeps_about_as_many_as_it_is_told(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("max_length = 100") as server:
        await server.client().schedule_many("orders", [(b"%d" % n, timedelta(seconds=1)) for n in range(1_000)])
        await server.advance(seconds=1)
        assert 100 <= await redis.xlen(STREAM) < 300


async def test_a_key_that_is_no_stream_says_so_in_the_error(server_of: ServerOf, redis: Redis) -> None:
    await redis.set(STREAM, "text")
    async with server_of("") as server:
        client = server.client()
        await client.schedule("orders", b"x", delay=1, retry=ONCE)
        await server.advance(seconds=1)
        [letter] = [each async for each in client.dead_letters("orders")]
        assert letter.last_error.startswith("Redis at 127.0.0.1:")
        assert "WRONGTYPE" in letter.last_error


async def test_what_redis_refuses_comes_again_until_it_is_taken(server_of: ServerOf, redis: Redis) -> None:
    """By an attempt that finds nothing of the one before."""
    await redis.set(STREAM, "text")
    async with server_of("") as server:
        client = server.client()
        task = await client.schedule("orders", b"x", delay=1, retry=SLOWLY)
        await server.advance(seconds=1)
        await server.advance(minutes=2)
        assert (await client.get(task.id)).state is TaskState.RETRYING
        assert await redis.keys("*timerd*") == []
        await redis.delete(STREAM)
        await ended(server, task.id)
        assert [each["payload"] for each in await entries(redis)] == [b"x"]


class TestWithPassword:
    @pytest.fixture
    def redis_options(self) -> tuple[str, ...]:
        return ("--requirepass", "first")

    async def test_a_new_password_is_taken_up_with_the_next_connection(
        self, tmp_path: Path, redis_server: RedisServer
    ) -> None:
        file = tmp_path / "password"
        file.write_text("wrong\n")
        admin: Redis = Redis.from_url(redis_server.url, password="first", protocol=2)
        async with Server(config=config_of(tmp_path, redis_server.url, f'password_file = "{file}"')) as server:
            client = server.client()
            task = await client.schedule("orders", b"x", delay=1, retry=SLOWLY)
            await server.advance(seconds=1)
            said = (await client.get(task.id)).last_error
            assert "first" not in said
            assert "wrong" not in said
            assert "Redis at 127.0.0.1:" in said
            file.write_text("first\n")
            await ended(server, task.id)
            assert [each["payload"] for each in await entries(admin)] == [b"x"]
        await admin.aclose()


async def test_a_worker_beside_the_stream_shares_the_tasks(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("in_flight = 1") as server:
        client, worker, taken = server.client(), server.worker(), []

        @worker.on("orders")
        async def take(delivery: Delivery) -> None:
            taken.append(delivery.payload)

        await worker.start()
        await client.schedule_many("orders", [(b"%d" % n, timedelta(seconds=n)) for n in range(50)])
        await server.advance(minutes=2)
        appended = [each["payload"] for each in await entries(redis)]
        assert sorted(map(int, [*appended, *taken])) == list(range(50))


async def test_the_metrics_say_what_became_of_entries(server_of: ServerOf, redis: Redis) -> None:
    async with server_of("") as server:
        await server.client().schedule_many("orders", [(b"x", timedelta(seconds=1))] * 3)
        await server.advance(seconds=1)
        with watched(server.node) as observed:
            lines = exposition(await observed.figures()).decode().splitlines()
        assert 'timerd_stream_entries_total{namespace="default",outcome="acked",queue="orders"} 3.0' in lines
        assert 'timerd_stream_state{namespace="default",queue="orders",state="ok"} 1.0' in lines


ACL = re.findall(r"`((?:\+[a-z|]+ ?)+)`", (Path(__file__).parents[2] / "docs" / "use" / "streams.md").read_text())


async def test_what_the_page_asks_of_an_acl_is_enough(tmp_path: Path, redis: Redis, redis_server: RedisServer) -> None:
    rules = ACL[0].split()
    keys = [f"~{STREAM}", f"~{{{STREAM}}}:timerd:*"]
    run: Any = redis.execute_command
    await run("ACL", "SETUSER", "tim", "on", ">secret", "-@all", *rules, *keys)
    file = tmp_path / "password"
    file.write_text("secret\n")
    more = f'user = "tim"\npassword_file = "{file}"'
    async with Server(config=config_of(tmp_path, redis_server.url, more)) as server:
        client = server.client()
        task = await client.schedule("orders", b"x", delay=1, retry=ONCE)
        await server.advance(seconds=1)
        assert (await client.get(task.id)).last_error == ""
        assert [each["payload"] for each in await entries(redis)] == [b"x"]
