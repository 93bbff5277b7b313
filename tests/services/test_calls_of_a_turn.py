"""Single calls of one turn of the loop go to the store together, step by step, and each is answered as it would be
alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from google.protobuf.message import Message

import timerd.testing.async_server as test_servers
from tests.services.turn_rig import (
    LIST,
    MINUTE_MS,
    SCHEDULE,
    START_MS,
    WAYS,
    ForgetfulStore,
    asked,
    call,
    stored,
)
from timerd.services.engine import moving
from timerd.services.transport.local_calls import CallFailure
from timerd.testing import Server
from timerd.v1 import task_pb2
from timerd.v1 import timer_service_pb2 as wire

CANCEL = "/timerd.v1.TimerService/Cancel"
CALL = "/timerd.v1.TimerService/Call"
RESCHEDULE = "/timerd.v1.TimerService/Reschedule"
METHODS = {wire.ScheduleRequest: SCHEDULE, wire.CancelRequest: CANCEL, wire.RescheduleRequest: RESCHEDULE}
# What the engine asks a store for on behalf of a call.
ASKED = ("append", "cas", "find", "look", "mark", "mark_and_look", "read", "replies", "settled")
MANY = 20
Requests = Sequence[Message]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == WAYS[1]:
        monkeypatch.setattr(test_servers, "MemoryStore", ForgetfulStore)
    return str(request.param)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


@pytest.fixture
def requests(server: Server, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store is asked for what."""
    found = Counter[str]()

    def counted(name: str) -> Callable[..., Any]:
        method = getattr(server.node.store, name)

        async def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as it is
            found[name] += not within.get()
            asked = within.set(True)
            try:
                return await method(*given, **named)
            finally:
                within.reset(asked)

        return run

    # A store in memory answers some of it by asking itself.
    within = ContextVar("within", default=False)
    for name in ASKED:
        monkeypatch.setattr(server.node.store, name, counted(name))
    return found


async def answered(server: Server, request: Message) -> Any:  # noqa: ANN401 - a reply, or a failure
    return await asked(server, request, METHODS[type(request)])


async def one_by_one(server: Server, turn: Requests) -> list[Any]:
    return [await answered(server, each) for each in turn]


async def in_one_turn(server: Server, turn: Requests) -> list[Any]:
    return list(await asyncio.gather(*(answered(server, each) for each in turn)))


async def scheduled(server: Server, count: int, after_ms: int = MINUTE_MS) -> list[str]:
    replies = await one_by_one(server, [call(f"made-{n}", after_ms=after_ms + 1_000 * n) for n in range(count)])
    return [reply.task_id for reply in replies]


def with_key(name: str, key: str, policy: int = 0, *, payload: bytes = b"p") -> wire.ScheduleRequest:
    request = call(name, payload)
    request.key, request.template.on_conflict = key, policy  # type: ignore[assignment]
    return request


def cancel(name: str, **target: str) -> wire.CancelRequest:
    return wire.CancelRequest(request_id=name, **target)  # type: ignore[arg-type]


def move(name: str, after_ms: int, **target: str) -> wire.RescheduleRequest:
    request = wire.RescheduleRequest(request_id=name, **target)  # type: ignore[arg-type]
    request.fire_time.FromMilliseconds(START_MS + after_ms)
    return request


# -- what is shared ---------------------------------------------------------------------------------------------------


def keyed_calls(tasks: Sequence[str], policy: int) -> Requests:
    return [with_key(f"k{policy}-{n}", f"{policy}-{n}", policy) for n in range(len(tasks))]


def cancels(tasks: Sequence[str]) -> Requests:
    return [cancel(f"c{n}", task_id=task) for n, task in enumerate(tasks)]


def moves(tasks: Sequence[str]) -> Requests:
    return [move(f"m{n}", 40 * MINUTE_MS + n, task_id=task) for n, task in enumerate(tasks)]


@pytest.mark.parametrize("after_ms", [MINUTE_MS, 600 * MINUTE_MS])
@pytest.mark.parametrize(
    "made",
    [
        *[lambda tasks, policy=policy: keyed_calls(tasks, policy) for policy in (1, 2, 3)],
        cancels,
        moves,
    ],
    ids=["keep", "replace", "reject", "cancel", "move"],
)
async def test_many_calls_of_a_turn_ask_the_store_as_often_as_one(
    server: Server, requests: Counter[str], made: Callable[[Sequence[str]], Requests], after_ms: int
) -> None:
    turn = made(await scheduled(server, MANY + 2, after_ms))
    # By the first one partitions are taken.
    answers = await one_by_one(server, turn[:1])
    await server.settle()
    requests.clear()
    answers += await one_by_one(server, turn[1:2])
    alone = requests.copy()
    requests.clear()
    answers += await in_one_turn(server, turn[2:])
    assert not [each for each in answers if isinstance(each, CallFailure)]
    assert alone.total() > 0
    if made is moves and after_ms == MINUTE_MS:
        # The holder of a row that is moved asks as well, for itself.
        del alone["read"], requests["read"]
    assert requests == alone


async def test_calls_with_a_key_that_is_taken_share_their_steps_too(server: Server, requests: Counter[str]) -> None:
    """Each of them ends another task."""
    await one_by_one(server, [with_key(f"a{n}", f"k{n}") for n in range(MANY + 1)])
    turn = [with_key(f"b{n}", f"k{n}", task_pb2.CONFLICT_POLICY_REPLACE) for n in range(MANY + 1)]
    requests.clear()
    await one_by_one(server, turn[:1])
    alone = requests.total()
    requests.clear()
    await in_one_turn(server, turn[1:])
    assert requests.total() <= 2 * alone


async def test_tasks_of_calls_are_one_append(server: Server, requests: Counter[str]) -> None:
    turn = [wire.CallRequest(request_id=f"c{n}", template=task_pb2.TaskTemplate(queue="q")) for n in range(MANY)]
    replies = await asyncio.gather(*(asked(server, each, CALL) for each in turn))
    assert len({reply.task_id for reply in replies}) == MANY
    assert requests["append"] == 1


# -- as alone ---------------------------------------------------------------------------------------------------------


def a_turn(seed: int, tasks: Sequence[str]) -> Requests:
    """Calls of all kinds about tasks and keys that are there or not, and repeats of some of them. A task or a key is
    moved by one call at most: of two that come at once either may be the last."""
    chance, turn = random.Random(seed), list[Message]()
    targets = [{"task_id": task} for task in tasks] + [{"key": f"key-{n}"} for n in range(4)]
    targets += [{"task_id": "J501EAAAAA"}, {"key": "nobody's"}, {}]
    chance.shuffle(targets)
    for n, target in enumerate(targets):
        kind, at = chance.randrange(4), f"{seed}-{n}"
        if kind == 0:
            request: Message = move(at, chance.randrange(1, 100) * MINUTE_MS, **target)
        elif kind == 1:
            request = with_key(at, f"new-{chance.randrange(3)}", chance.choice((0, 1, 2, 3)))
        else:
            request = cancel(at, **target)
        turn += [request] * chance.choice((1, 1, 1, 2))
        if kind > 1 and chance.random() < 0.3:
            turn.append(cancel(f"{at} again", **target))
    return turn


def said(answer: Any) -> object:  # noqa: ANN401 - a reply, or a failure
    if isinstance(answer, CallFailure):
        return answer.code, str(answer), sorted(answer.trailers)
    if isinstance(answer, wire.CancelResponse):
        return answer.outcome
    return answer.fire_time.ToMilliseconds()


async def states(server: Server) -> list[object]:
    request = wire.ListRequest(page_size=1_000)
    request.filter.start_time.FromMilliseconds(START_MS - MINUTE_MS)
    request.filter.end_time.FromMilliseconds(START_MS + 1_000 * MINUTE_MS)
    reply = await asked(server, request, LIST)
    return [(task.payload, task.state, task.key, task.fire_time.ToMilliseconds()) for task in reply.tasks]


async def test_calls_of_all_kinds_are_answered_as_one_by_one(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "PAUSES_S", (0.0, 0.0))
    for seed in range(5):
        async with Server() as alone, Server() as together:
            turns = []
            for server in (alone, together):
                tasks = await scheduled(server, 6) + await scheduled(server, 3, 600 * MINUTE_MS)
                await one_by_one(server, [with_key(f"made-key-{n}", f"key-{n}") for n in range(4)])
                turns.append(a_turn(seed, tasks))
            expected = [said(answer) for answer in await one_by_one(alone, turns[0])]
            assert [said(answer) for answer in await in_one_turn(together, turns[1])] == expected, seed
            assert await states(together) == await states(alone), seed
            # Each once more, in another order.
            expected = [said(answer) for answer in await one_by_one(alone, turns[0][::-1])]
            assert [said(answer) for answer in await in_one_turn(together, turns[1][::-1])] == expected, seed
            assert await states(together) == await states(alone), seed


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("policy", ["REPLACE", "KEEP", "REJECT"])
async def test_calls_with_one_key_are_carried_out_in_the_order_in_which_they_come(policy: str) -> None:
    number = task_pb2.ConflictPolicy.Value(f"CONFLICT_POLICY_{policy}")
    async with Server() as server:
        turn = [with_key(f"r{n}", "same", number, payload=b"%d" % n) for n in range(100)]
        answers = await in_one_turn(server, turn)
        alive = [payload for _, _, payload, state, _ in await stored(server, "default") if state == 1]
        failed = [each.trailers["timerd-reason"] for each in answers if isinstance(each, CallFailure)]
        assert failed == (["KEY_TAKEN"] * 99 if policy == "REJECT" else [])
        assert alive == [b"99" if policy == "REPLACE" else b"0"]
        assert not len(server.node.engine._keying._lines)


async def test_who_waited_for_its_turn_was_not_held_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clocks of two callers differ by less than what a call may wait here behind others."""
    append, replace = server.node.store.append, task_pb2.CONFLICT_POLICY_REPLACE

    async def slow(messages: Any) -> Any:  # noqa: ANN401 - as it is
        await server.advance(seconds=3)
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", slow)
    first, second = with_key("first", "same", replace), with_key("second", "same", replace)
    first.request_time.FromMilliseconds(START_MS)
    second.request_time.FromMilliseconds(START_MS - 500)
    assert not [each for each in await in_one_turn(server, [first, second]) if isinstance(each, CallFailure)]


async def test_who_fails_or_gives_up_leaves_the_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, gate, append = asyncio.Event(), asyncio.Event(), server.node.store.append

    async def held(messages: Any) -> Any:  # noqa: ANN401 - as it is
        begun.set()
        await gate.wait()
        if any(bytes(rows.payloads) == b"bad" for message in messages for _, rows in message.groups):
            raise ValueError("a value that the store does not take")
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", held)
    replace = task_pb2.CONFLICT_POLICY_REPLACE
    bad, gone, good = (with_key(name, "same", replace, payload=name.encode()) for name in ("bad", "gone", "good"))
    failing = asyncio.create_task(answered(server, bad))
    await begun.wait()
    leaving, staying = (asyncio.create_task(answered(server, each)) for each in (gone, good))
    await asyncio.sleep(0)
    leaving.cancel()
    gate.set()
    assert isinstance(await failing, CallFailure)
    assert (await staying).outcome == task_pb2.ITEM_OUTCOME_STORED
    # A caller that hangs up stops nothing: its task was stored, and replaced.
    assert [payload for _, _, payload, state, _ in await stored(server, "default") if state == 1] == [b"good"]


async def test_what_a_store_cannot_take_fails_alone(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    append = server.node.store.append

    async def choosy(messages: Any) -> Any:  # noqa: ANN401 - as it is
        if any(b"bad" in bytes(rows.payloads) for message in messages for _, rows in message.groups):
            raise ValueError("a value that the store does not take")
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", choosy)
    turn = [with_key(name.decode(), name.decode(), payload=name) for name in (b"good", b"bad", b"fine")]
    answers = await in_one_turn(server, turn)
    failed = [isinstance(answer, CallFailure) for answer in answers]
    assert failed == [False, True, False]
