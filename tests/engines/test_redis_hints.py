"""Hints by a real Redis: to instances that cannot be called, while it is there; and nothing is lost when it is not."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import count

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.cluster.peer_rig import PATIENCE_S, Pair, until
from tests.cluster.second_way_rig import cut, fires_on_time, second_way
from tests.engines.finding import FoundRedis
from tests.engines.redis_server import RedisServer
from timerd.adapters.redis.client import Client
from timerd.adapters.redis.hints import WAITING_BYTES, RedisHints
from timerd.config import RedisConfig

SOON = timedelta(milliseconds=250)
# It is the sweep's own second, and what a turned clock adds.
A_SWEEP = timedelta(seconds=2)


def hints_by(url: str) -> Callable[[], RedisHints]:
    return lambda: RedisHints(Client(RedisConfig(url=SecretStr(url))))


@asynccontextmanager
async def cut_pair(url: str) -> AsyncIterator[Pair]:
    """Two instances of which a cannot call b, which holds the bucket and listens."""
    async with Pair(hints=hints_by(url)) as pair:
        await pair.b_holds()
        await pair.works()
        await listens(pair, url)
        await cut(pair)
        yield pair


def channel_of(pair: Pair, name: str) -> str:
    way = second_way(pair, name)
    return way._seal.channel(name, pair.cluster.instances[name].node.membership.incarnation)


async def listens(pair: Pair, url: str) -> None:
    async with Redis.from_url(url) as redis:
        await somebody_listens(redis, channel_of(pair, "b"))


async def somebody_listens(redis: Redis, channel: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for _ in count():
            if channel.encode() in await redis.pubsub_channels("timerd:*"):
                return
            await asyncio.sleep(0.01)


async def stored(pair: Pair, *payloads: bytes) -> None:
    at = pair.cluster.now + SOON
    await pair.client.schedule_many("q", [(payload, at) for payload in payloads])


async def test_what_cannot_be_called_is_told_by_redis(redis_found: FoundRedis) -> None:
    async with cut_pair(redis_found.url) as pair:
        for payload in (b"first", b"second"):
            await fires_on_time(pair, payload)
        assert second_way(pair, "b").taken == second_way(pair, "a").sent > 0


async def test_redis_is_killed_and_flushed_and_nothing_is_lost_or_doubled(redis_server: RedisServer) -> None:
    """G12. Back again, empty, it carries hints again."""
    async with cut_pair(redis_server.url) as pair:
        await fires_on_time(pair, b"before")
        at = pair.cluster.now + SOON
        await stored(pair, b"0", b"1")
        redis_server.kill()
        await stored(pair, b"2", b"3")
        await pair.cluster.advance(seconds=5)
        assert sorted(pair.payloads) == [b"0", b"1", b"2", b"3"]
        assert all(at <= when <= at + A_SWEEP for _, when in pair.got)
        pair.got.clear()
        redis_server.start()
        async with Redis.from_url(redis_server.url) as redis:
            await redis.flushall()
        await listens(pair, redis_server.url)
        await until(lambda: not second_way(pair, "a").hints._send_pauses.is_on())  # type: ignore[attr-defined]
        await fires_on_time(pair, b"after")
        await pair.cluster.advance(minutes=2)
        assert pair.got == []


async def test_a_redis_that_hangs_holds_nobody_up(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for it is bounded; what comes after its silence is lost at once."""
    monkeypatch.setattr("timerd.adapters.redis.client.ANSWER_S", 0.1)
    monkeypatch.setattr("timerd.adapters.redis.hints.FIRST_PAUSE_S", 60.0)
    async with cut_pair(redis_server.url) as pair:
        await fires_on_time(pair, b"before")
        hints = second_way(pair, "a").hints
        redis_server.signal(signal.SIGSTOP)
        try:
            at = pair.cluster.now + SOON
            took = [hints.send("timerd:nobody", b"x" * (1 << 20)) for _ in range(20)]
            assert took.count(True) == WAITING_BYTES >> 20
            await stored(pair, b"0", b"1")
            await pair.cluster.advance(seconds=5)
            assert sorted(pair.payloads) == [b"0", b"1"]
            assert all(at <= when <= at + A_SWEEP for _, when in pair.got)
            await until(lambda: hints.lost >= len(took))
            assert not hints.send("timerd:nobody", b"x")
        finally:
            redis_server.signal(signal.SIGCONT)


async def test_garbage_on_the_channel_harms_nothing(redis_found: FoundRedis) -> None:
    async with cut_pair(redis_found.url) as pair, Redis.from_url(redis_found.url) as redis:
        await stored(pair, b"x")
        channel, way = channel_of(pair, "b"), second_way(pair, "b")
        bad = [b"", b"x", b"\x01" * 33, b"\x01" + b"\0" * 32, b"y" * (1 << 20)]
        for message in bad:
            assert await redis.publish(channel, message) == 1
        await until(lambda: way.refused == len(bad))
        await fires_on_time_beside(pair, b"y")
        assert sorted(pair.payloads) == [b"x", b"y"]


async def fires_on_time_beside(pair: Pair, payload: bytes) -> None:
    await stored(pair, payload)
    await pair.hinted(rows=3)
    await pair.cluster.advance(minutes=2)


async def test_a_message_reaches_who_listens_under_the_name_of_now(redis_found: FoundRedis) -> None:
    """Another incarnation has another channel."""
    got, names = list[tuple[str, bytes]](), ["timerd:one"]
    listener, sender = hints_by(redis_found.url)(), hints_by(redis_found.url)()
    listener.listen(lambda: names[-1], lambda channel, message: got.append((channel, message)))
    async with Redis.from_url(redis_found.url) as redis:
        for name in ("timerd:one", "timerd:two"):
            names.append(name)
            await somebody_listens(redis, name)
            assert sender.send(name, name.encode())
            await until(partial(got.__contains__, (name, name.encode())))
    assert sender.lost == 0
    assert sender.send("timerd:one", b"nobody listens")
    await until(lambda: sender.lost == 1)
    assert len(got) == 2
    await listener.close()
    await sender.close()


async def test_a_listener_finds_out_that_nobody_is_there(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once that Redis is away, and once that it is back, however often it was tried."""
    caplog.set_level("INFO", "timerd.adapters.redis")
    for name in ("LOOK_S", "QUIET_S", "ANSWER_S"):
        monkeypatch.setattr(f"timerd.adapters.redis.hints.{name}", 0.02)
    monkeypatch.setattr("timerd.adapters.redis.client.ANSWER_S", 0.2)
    got, listener = list[bytes](), hints_by(redis_server.url)()
    listener.listen(lambda: "timerd:one", lambda _, message: got.append(message))
    async with Redis.from_url(redis_server.url) as redis:
        await somebody_listens(redis, "timerd:one")
        redis_server.signal(signal.SIGSTOP)
        await until(lambda: "does not answer" in caplog.text)
        await asyncio.sleep(0.5)
        redis_server.signal(signal.SIGCONT)
        await until(lambda: "answers again" in caplog.text)
        await redis.publish("timerd:one", b"heard")
    await until(lambda: bool(got))
    assert [record.levelname for record in caplog.records if record.name.startswith("timerd")] == ["WARNING", "INFO"]
    assert set(got) == {b"heard"}
    await listener.close()


async def test_many_messages_travel_together(redis_found: FoundRedis) -> None:
    got = list[bytes]()
    listener, sender = hints_by(redis_found.url)(), hints_by(redis_found.url)()
    listener.listen(lambda: "timerd:many", lambda _, message: got.append(message))
    async with Redis.from_url(redis_found.url) as redis:
        await somebody_listens(redis, "timerd:many")
    wanted = [b"%d" % n for n in range(5_000)]
    assert [sender.send("timerd:many", message) for message in wanted].count(True) == len(wanted)
    await until(lambda: len(got) == len(wanted))
    assert got == wanted
    await listener.close()
    await sender.close()
