"""Schedule calls of one turn of the loop are stored together, and each is answered as it would be alone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import timerd.testing.async_server as test_servers
from tests.services.turn_rig import (
    MINUTE_MS,
    WAYS,
    ForgetfulStore,
    asked,
    call,
    place,
    stored,
)
from timerd.config import ServerConfig
from timerd.model.errors import StoreUnavailable, StoreUnknown
from timerd.model.identity import parse_task_id
from timerd.services.calls import gathering
from timerd.services.transport.local_calls import CallFailure
from timerd.testing import Server
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire

QUOTA = "[small]\nbytes_per_s = 500\n"
POLICIES: Sequence[Any] = tuple(task_pb2.ConflictPolicy.values())[1:]
Turn = Sequence[wire.ScheduleRequest]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == WAYS[1]:
        monkeypatch.setattr(test_servers, "MemoryStore", ForgetfulStore)
    return str(request.param)


@pytest.fixture
async def server(way: str, tmp_path: Path) -> AsyncIterator[Server]:
    async with _server(tmp_path) as server:
        yield server


def _server(tmp_path: Path) -> Server:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text(QUOTA)
    return Server(config=ServerConfig(listen="127.0.0.1:0", synchronous="normal", quotas_file=quotas))


async def one_by_one(server: Server, turn: Turn) -> list[Any]:
    return [await asked(server, each) for each in turn]


async def in_one_turn(server: Server, turn: Turn) -> list[Any]:
    return list(await asyncio.gather(*(asked(server, each) for each in turn)))


def said(answer: Any) -> object:  # noqa: ANN401 - as above
    """What the caller hears."""
    if isinstance(answer, CallFailure):
        return answer.code, str(answer), sorted(answer.trailers)
    return place(answer.task_id), answer.fire_time.ToMilliseconds(), answer.outcome


@pytest.fixture
def trips(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each append has."""
    store = server.node.store
    found: list[int] = []
    append = store.append

    async def counted(messages: Any) -> Any:  # noqa: ANN401 - as it is
        found.append(sum(len(rows) for message in messages for _, rows in message.groups))
        return await append(messages)

    monkeypatch.setattr(store, "append", counted)
    return found


# -- what is shared ---------------------------------------------------------------------------------------------------


async def test_calls_of_one_turn_are_one_append(server: Server, trips: list[int]) -> None:
    answers = await in_one_turn(server, [call(f"r{n}") for n in range(20)])
    assert trips == [20]
    assert len({answer.task_id for answer in answers}) == 20


async def test_no_append_has_more_calls_than_the_loop_may_be_held_for(server: Server, trips: list[int]) -> None:
    most = gathering.MOST_CALLS
    await in_one_turn(server, [call(f"r{n}") for n in range(2 * most + 22)])
    assert trips == [most, most, 22]


async def test_tasks_of_one_turn_fire_each_at_its_own_instant(server: Server) -> None:
    worker, came = server.worker(), list[tuple[bytes, int]]()

    @worker.on("q")
    async def note(delivery: Any) -> None:  # noqa: ANN401 - the worker's
        came.append((delivery.payload, round((server.now - test_servers.START).total_seconds())))

    await worker.start()
    await in_one_turn(server, [call(f"r{n}", b"%d" % n, after_ms=1_000 * (n % 3 + 1)) for n in range(9)])
    await server.advance(seconds=10)
    assert sorted(came) == [(b"%d" % n, n % 3 + 1) for n in range(9)]


# -- as alone ---------------------------------------------------------------------------------------------------------


def plain(chance: random.Random, at: str) -> wire.ScheduleRequest:
    payload, queue = chance.randbytes(chance.choice((0, 1, 200))), chance.choice(("q", "other"))
    return call(at, payload, after_ms=chance.randrange(3_600_000 * 30), queue=queue)


def delayed(chance: random.Random, at: str) -> wire.ScheduleRequest:
    request = plain(chance, at)
    request.delay.FromMilliseconds(chance.randrange(1, 400_000))
    return request


def late(chance: random.Random, at: str) -> wire.ScheduleRequest:
    return call(at, after_ms=-chance.choice((1, 50_000, 90_000_000)))


def keyed(chance: random.Random, at: str) -> wire.ScheduleRequest:
    request = plain(chance, at)
    request.key, request.template.on_conflict = chance.choice("abc"), chance.choice((0, *POLICIES))
    return request


def changed(field: str, *values: object) -> Callable[[random.Random, str], wire.ScheduleRequest]:
    def make(chance: random.Random, at: str) -> wire.ScheduleRequest:
        request = plain(chance, at)
        *path, name = field.split(".")
        message: Any = request
        for part in path:
            message = getattr(message, part)
        setattr(message, name, chance.choice(values))
        return request

    return make


def without(field: str) -> Callable[[random.Random, str], wire.ScheduleRequest]:
    def make(chance: random.Random, at: str) -> wire.ScheduleRequest:
        request = plain(chance, at)
        request.ClearField(field)
        return request

    return make


KINDS: Sequence[Callable[[random.Random, str], wire.ScheduleRequest]] = (
    *(plain,) * 6,
    *(keyed,) * 4,
    delayed,
    late,
    changed("template.ordering_key", "k"),
    changed("template.queue", "", "no such queue?"),
    changed("template.priority", 3, 11),
    changed("key", "\n", "x" * 300),
    changed("namespace", "not allowed!"),
    changed("payload", b"x" * 80_000, b"x" * 2_000_000),
    changed("request_id", "r" * 200),
    changed("fire_time.seconds", -62_135_596_801, 1),
    changed("fire_time.nanos", 1, 999_999, -1),
    without("fire_time"),
    without("template"),
)


def a_turn(seed: int) -> Turn:
    """Calls of all kinds in two namespaces, one of which has a quota, and repeats of some of them."""
    chance = random.Random(seed)
    turn = list[wire.ScheduleRequest]()
    for n in range(chance.randrange(1, 14)):
        request = chance.choice(KINDS)(chance, f"{seed}-{n}")
        request.namespace = request.namespace or f"n{seed}"
        turn += [request] * chance.choice((1, 1, 1, 2))
    chance.shuffle(turn)
    return turn


async def test_calls_of_one_turn_are_answered_and_stored_as_one_by_one(way: str, tmp_path: Path) -> None:
    async with _server(tmp_path) as alone, _server(tmp_path) as together:
        for seed in range(25):
            turn = a_turn(seed)
            expected = [said(answer) for answer in await one_by_one(alone, turn)]
            assert [said(answer) for answer in await in_one_turn(together, turn)] == expected, seed
            assert await stored(together, f"n{seed}") == await stored(alone, f"n{seed}"), seed
            # Each once more, in another order and at another time.
            again = turn[::-1]
            expected = [said(answer) for answer in await one_by_one(alone, again)]
            assert [said(answer) for answer in await in_one_turn(together, again)] == expected, seed
            assert await stored(together, f"n{seed}") == await stored(alone, f"n{seed}"), seed


async def test_a_delay_that_comes_again_counts_from_its_first_try(server: Server) -> None:
    first = call("delayed")
    first.delay.FromMilliseconds(MINUTE_MS)
    [answer] = await in_one_turn(server, [first])
    await server.advance(seconds=1)
    [again, other] = await in_one_turn(server, [first, call("other")])
    assert said(again) == said(answer) != said(other)


async def test_of_calls_that_want_one_key_in_one_turn_one_has_it(server: Server) -> None:
    turn = [call(f"r{n}") for n in range(5)]
    for request in turn[1:]:
        request.key = "same"
    answers = await in_one_turn(server, turn)
    refused = [answer for answer in answers if isinstance(answer, CallFailure)]
    assert len(refused) == 3
    assert {answer.trailers["timerd-reason"] for answer in refused} <= {"KEY_TAKEN", "KEY_LOST"}
    assert len(await stored(server, "default")) == 2


async def test_a_quota_counts_each_call_of_a_turn(server: Server) -> None:
    turn = [call(f"r{n}", b"x" * 200) for n in range(5)]
    for request in turn:
        request.namespace = "small"
    answers = await in_one_turn(server, turn)
    refused = [answer for answer in answers if isinstance(answer, CallFailure)]
    assert {answer.trailers["timerd-reason"] for answer in refused} == {"QUOTA"}
    assert len(await stored(server, "small")) == 5 - len(refused)
    assert refused


async def test_a_move_within_the_append_is_of_one_call(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose instant the holder has passed meanwhile is written again elsewhere; the others stay."""
    store, append = server.node.store, server.node.store.append
    await in_one_turn(server, [call("first", after_ms=500)])
    moving = True

    async def held_up(messages: Any) -> Any:  # noqa: ANN401 - as it is
        """The clock goes on while the rows are written."""
        nonlocal moving
        if moving:
            moving = False
            monkeypatch.setattr(store, "append", append)
            await server.advance(minutes=2)
        return await append(messages)

    monkeypatch.setattr(store, "append", held_up)
    turn = [call("near", after_ms=1_000), call("far", after_ms=60 * MINUTE_MS)]
    near, far = await in_one_turn(server, turn)
    assert not isinstance(near, CallFailure)
    assert not isinstance(far, CallFailure)
    found = parse_task_id(far.task_id)
    assert found is not None
    assert found.position_ms == far.fire_time.ToMilliseconds()
    # Both again: each is answered as before.
    assert [said(each) for each in await in_one_turn(server, turn)] == [said(near), said(far)]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreUnavailable("No.", "STORE_UNAVAILABLE"), "UNAVAILABLE"), (StoreUnknown("Perhaps."), "UNKNOWN")],
)
async def test_an_append_that_fails_is_told_to_each_call(
    server: Server, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    async def failing(_messages: object) -> None:
        raise error

    monkeypatch.setattr(server.node.store, "append", failing)
    answers = await in_one_turn(server, [call(f"r{n}") for n in range(3)])
    assert [answer.code.name for answer in answers] == [code] * 3


async def test_a_call_that_the_store_cannot_take_fails_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    append = server.node.store.append

    async def choosy(messages: Any) -> Any:  # noqa: ANN401 - as it is
        if any(b"bad" in bytes(rows.payloads) for message in messages for _, rows in message.groups):
            raise ValueError("a value that the store does not take")
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", choosy)
    answers = await in_one_turn(server, [call("a", b"good"), call("b", b"bad"), call("c", b"fine")])
    assert [answer.code.name if isinstance(answer, CallFailure) else "OK" for answer in answers] == [
        *("OK", "INTERNAL", "OK")
    ]
    assert sorted(payload for _, _, payload, *_ in await stored(server, "default")) == [b"fine", b"good"]


async def test_a_caller_that_hangs_up_stops_nobody(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate, append = asyncio.Event(), asyncio.Event(), server.node.store.append

    async def held(messages: Any) -> Any:  # noqa: ANN401 - as it is
        begun.set()
        await gate.wait()
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", held)
    gone, stays = (asyncio.create_task(asked(server, call(name))) for name in ("gone", "stays"))
    await begun.wait()
    gone.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert (await stays).outcome == task_pb2.ITEM_OUTCOME_STORED
    # The task of who is gone was stored too: the repeat of its call finds it.
    assert len(await stored(server, "default")) == 2
    assert server.node.server.api.ingest.used_bytes == 0


async def test_what_is_not_trusted_to_be_the_time_is_told_to_each_call(server: Server) -> None:
    server.node.engine.drain()
    answers = await in_one_turn(server, [call(f"r{n}") for n in range(3)])
    assert [answer.trailers["timerd-reason"] for answer in answers] == ["DRAINING"] * 3


async def test_a_part_that_is_given_up_leaves_nobody_waiting(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = asyncio.Event()

    async def frozen(_messages: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(server.node.store, "append", frozen)
    waiting = [asyncio.create_task(asked(server, call(name))) for name in ("a", "b")]
    await begun.wait()
    await server.node.server.api.finished(0)
    await asyncio.wait(waiting)
    assert [each.cancelled() for each in waiting] == [True, True]
