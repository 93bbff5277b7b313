"""Schedule calls of one turn that are plain are judged, stored and answered as columns: as each would be alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import timerd.testing.async_server as test_servers
from tests.services.turn_rig import MINUTE_MS, START_MS, WAYS, ForgetfulStore, asked, call, place, stored
from timerd.config import ServerConfig
from timerd.model.errors import NotStored, Precondition
from timerd.model.identity import DEFAULT_NAMESPACE
from timerd.model.task import HORIZON_MS
from timerd.services.calls import gathering
from timerd.services.calls.mutations import Mutations
from timerd.services.calls.plain_calls import PlainCalls, plain_calls
from timerd.services.calls.queue_rules import NoRules
from timerd.services.calls.requests import draft_of_single, rules_for
from timerd.services.engine.verbs import NewTasks
from timerd.services.transport.local_calls import CallFailure
from timerd.testing import Server
from timerd.v1 import timer_service_pb2 as wire

NOW_MS = START_MS + 123
LIMIT_BYTES = 10_000
DAY_MS = 86_400_000
YEAR_1_S, YEAR_9999_S = -62_135_596_800, 253_402_300_799
MANY = 40
GET = "/timerd.v1.TimerService/Get"
STORES = (*WAYS, "sqlite")
Change = Callable[[wire.ScheduleRequest], None]


class Shut(NoRules):
    """One queue takes nothing in."""

    def check_intake(self, queue: Any, now_ms: int) -> None:  # noqa: ANN401 - a QueueKey
        if queue.queue == "shut":
            raise Precondition("It is shut.", "QUEUE_SHUT")


SHUT = Shut()


# -- drawn calls ------------------------------------------------------------------------------------------------------


def at(field: str, *instants: tuple[int, int]) -> Callable[[random.Random, wire.ScheduleRequest], None]:
    def change(chance: random.Random, request: wire.ScheduleRequest) -> None:
        seconds, nanos = chance.choice(instants)
        message = getattr(request, field)
        message.seconds, message.nanos = seconds, nanos

    return change


def give(field: str, *values: object) -> Callable[[random.Random, wire.ScheduleRequest], None]:
    def change(chance: random.Random, request: wire.ScheduleRequest) -> None:
        *path, name = field.split(".")
        message: Any = request
        for part in path:
            message = getattr(message, part)
        setattr(message, name, chance.choice(values))

    return change


def span(field: str, *spans_ms: int) -> Callable[[random.Random, wire.ScheduleRequest], None]:
    def change(chance: random.Random, request: wire.ScheduleRequest) -> None:
        getattr(request.template, field).FromMilliseconds(chance.choice(spans_ms))

    return change


NOW_S, NOW_NANOS = NOW_MS // 1000, NOW_MS % 1000 * 1_000_000
HORIZON_S = (NOW_MS + HORIZON_MS) // 1000
INSTANTS = (
    *((YEAR_1_S - 1, 0), (YEAR_1_S, 0), (YEAR_9999_S, 999_999_999), (YEAR_9999_S + 1, 0), (1 << 62, 5), (-1 << 63, 0)),
    *((0, 0), (1, 1), (99_999_999, 0), (100_000_000, 0), (HORIZON_S, 0), (HORIZON_S, 999_999_999), (HORIZON_S + 1, 0)),
    *((NOW_S, NOW_NANOS), (NOW_S, NOW_NANOS - 1), (NOW_S, NOW_NANOS - 1_000_000), (NOW_S, NOW_NANOS + 1)),
    *((NOW_S + 60, -1), (NOW_S + 60, 1_000_000_000), (NOW_S + 60, 999_999_999)),
)
DELAYS = (
    *((0, 0), (0, 1), (5, 999_999_999), (5, 1_000_000_000), (5, -1), (-5, 1), (-1, 0), (0, -1), (-1, -1)),
    *((HORIZON_MS // 1000, 0), (HORIZON_MS // 1000, 1), (315_576_000_000, 0), (315_576_000_001, 0), (1 << 62, 0)),
)
MADE = (
    *INSTANTS,
    *((NOW_S - 60, NOW_NANOS), (NOW_S - 61, NOW_NANOS), (NOW_S + 60, NOW_NANOS), (NOW_S + 60, NOW_NANOS + 1_000_000)),
    *((NOW_S - 86_400, NOW_NANOS), (NOW_S - 86_400, NOW_NANOS - 1_000_000), (NOW_S - 7, 3), (NOW_S + 3, 0)),
)


def delayed_since(chance: random.Random, request: wire.ScheduleRequest) -> None:
    """A delay that says since when: that of every client of ours."""
    request.delay.FromMilliseconds(chance.randrange(1, DAY_MS))
    request.request_time.FromMilliseconds(NOW_MS - chance.choice((0, 1, 500, 7_000)))


# What a plain call may have, and what makes one that is not.
CHANGES: Sequence[Callable[[random.Random, wire.ScheduleRequest], None]] = (
    at("fire_time", *INSTANTS),
    at("delay", *DELAYS),
    at("request_time", *MADE),
    delayed_since,
    give("namespace", "", "other", "not allowed!"),
    give("request_id", "", "r" * 128, "r" * 129, "new\nline", "ü" * 128),
    give("template.queue", "", "q", "p", "shut", "no queue?"),
    give("template.priority", 0, 3, 10, 11),
    give("template.ordering_key", "", "k"),
    give("template.limit_key", "", "k", "k" * 300),
    give("template.traceparent", "", f"00-{'1' * 32}-{'2' * 16}-01", "wrong"),
    give("template.content_type", "", "text/plain"),
    span("expire_after", 0, 1, 5_000, HORIZON_MS + 1),
    span("soft_expire_after", 1, 5_000),
    span("expire_time", NOW_MS - 1, NOW_MS + MINUTE_MS, NOW_MS + HORIZON_MS),
    span("soft_expire_time", NOW_MS + MINUTE_MS),
    give("key", "", "k"),
    give("payload", b"", b"x" * LIMIT_BYTES, b"x" * (LIMIT_BYTES + 1), b"x" * 70_000),
    lambda _, request: request.ClearField("fire_time"),
    lambda _, request: request.ClearField("template"),
)


def drawn(chance: random.Random, name: str) -> wire.ScheduleRequest:
    request = call(name, chance.randbytes(chance.randrange(20)), after_ms=chance.randrange(1, 2 * DAY_MS))
    request.template.queue = chance.choice(("q", "q", "p"))
    request.namespace = chance.choice(("", "default", "other"))
    for change in chance.choices(CHANGES, k=chance.choice((0, 0, 0, 1, 1, 2, 3))):
        change(chance, request)
    return request


def drawn_turn(seed: int, count: int = MANY) -> list[wire.ScheduleRequest]:
    chance = random.Random(seed)
    turn = [drawn(chance, f"{seed}-{n}") for n in range(count)]
    turn += chance.choices(turn, k=count // 8)
    chance.shuffle(turn)
    return turn


# -- judged -----------------------------------------------------------------------------------------------------------


def judged(turn: Sequence[wire.ScheduleRequest | None]) -> PlainCalls | None:
    rules = rules_for(wire.ScheduleRequest(), NOW_MS, LIMIT_BYTES, SHUT)
    return plain_calls(turn, rules, lambda namespace: namespace == "counted")


def alone(request: wire.ScheduleRequest) -> NewTasks | None:
    """What is made of it by itself; None: it waits for something, or is refused."""
    try:
        draft = draft_of_single(request, rules_for(request, NOW_MS, LIMIT_BYTES, SHUT))
    except NotStored:
        return None
    return draft.tasks if draft is not None else None


def shown(tasks: NewTasks) -> tuple[Any, ...]:
    rows = tasks.rows
    what = rows.columns.tobytes(), rows.prefixes.tobytes(), rows.templates, bytes(rows.payloads), rows.extras
    times = tasks.asked_ms, tasks.request_time_ms, tuple(tasks.delayed), tasks.counted_from_ms, tasks.waited_ms
    return tasks.namespace, tasks.prefix, dict(tasks.keys), *what, *times


def test_a_call_is_plain_where_it_would_be_stored_at_once_by_itself_and_its_task_is_the_same() -> None:
    found = 0
    for seed in range(150):
        turn = drawn_turn(seed)
        plain = judged(turn)
        assert plain is not None
        found += len(plain.numbers)
        by_number = {number: plain.tasks.one(n) for n, number in enumerate(plain.numbers)}
        seen = set[bytes]()
        for number, request in enumerate(turn):
            tasks, one = alone(request), by_number.get(number)
            if not request.request_id:
                # Each has a name of its own.
                assert (tasks is None) == (one is None), (seed, request)
                continue
            if tasks is None or tasks.prefix in seen:
                assert one is None, (seed, request)
                continue
            seen.add(tasks.prefix)
            assert one is not None, (seed, request)
            assert shown(one) == shown(tasks), (seed, request)
    assert found > 1_500


def test_calls_without_a_request_id_have_names_of_their_own() -> None:
    plain = judged([call("") for _ in range(5)])
    assert plain is not None
    assert len(set(plain.tasks.prefixes())) == 5
    assert not plain.tasks.is_delayed.any()


def test_what_has_a_quota_is_not_plain() -> None:
    counted, free = call("a"), call("b")
    counted.namespace = "counted"
    plain = judged([counted, free, None])
    assert plain is not None
    assert plain.numbers == [1]
    assert judged([counted, None]) is None


def test_a_table_has_each_template_once_and_none_that_nobody_has() -> None:
    late = call("late", queue="p", after_ms=-1)
    named, unnamed = call("a", queue="q"), call("b", queue="q")
    named.namespace = DEFAULT_NAMESPACE
    plain = judged([late, named, unnamed])
    assert plain is not None
    assert [template.queue for template in plain.tasks.rows.templates] == ["q"]


# -- stored and answered ----------------------------------------------------------------------------------------------


@pytest.fixture(params=STORES)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == WAYS[1]:
        monkeypatch.setattr(test_servers, "MemoryStore", ForgetfulStore)
    return str(request.param)


def made(way: str, folder: Path) -> Server:
    config = ServerConfig(listen="127.0.0.1:0", synchronous="normal")
    return Server(data=folder if way == "sqlite" else None, config=config)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


def said(answer: Any, request: wire.ScheduleRequest) -> tuple[Any, ...]:  # noqa: ANN401 - a reply, or a failure
    """What the caller hears; of a call without a request_id the name of its task is made up."""
    if isinstance(answer, CallFailure):
        return answer.code, str(answer), sorted(answer.trailers)
    if not request.request_id:
        return answer.fire_time.ToMilliseconds(), answer.outcome
    return place(answer.task_id), answer.fire_time.ToMilliseconds(), answer.outcome


async def one_by_one(server: Server, turn: Sequence[wire.ScheduleRequest]) -> list[tuple[Any, ...]]:
    return [said(await asked(server, each), each) for each in turn]


async def in_one_turn(server: Server, turn: Sequence[wire.ScheduleRequest]) -> list[tuple[Any, ...]]:
    answers = await asyncio.gather(*(asked(server, each) for each in turn))
    return [said(answer, each) for answer, each in zip(answers, turn, strict=True)]


async def rows_of(server: Server) -> list[object]:
    """Of both namespaces, without the names that were made up."""
    rows = [row for namespace in ("default", "other") for row in await stored(server, namespace)]
    return sorted((row[1:] for row in rows), key=repr)


def without_keys(turn: Sequence[wire.ScheduleRequest]) -> list[wire.ScheduleRequest]:
    """Whose key it is depends on who comes first, and those that wait for nothing come first in a turn."""
    return [each for each in turn if not each.key]


async def test_calls_of_one_turn_are_answered_and_stored_as_one_by_one(way: str, tmp_path: Path) -> None:
    async with made(way, tmp_path / "a") as single, made(way, tmp_path / "b") as together:
        for seed in range(6):
            turn = without_keys(drawn_turn(seed, 60))
            assert await in_one_turn(together, turn) == await one_by_one(single, turn), seed
            assert await rows_of(together) == await rows_of(single), seed
            # Each once more, in another order and at another time.
            again = [each for each in turn[::-1] if each.request_id]
            for server in (single, together):
                await server.advance(seconds=1)
            assert await in_one_turn(together, again) == await one_by_one(single, again), seed
            assert await rows_of(together) == await rows_of(single), seed


async def test_a_repeat_among_columns_is_answered_as_the_first_time(server: Server) -> None:
    """Its delay counts from its first try, and its task is there once."""
    first = call("first")
    first.delay.FromMilliseconds(MINUTE_MS)
    [expected] = await in_one_turn(server, [first])
    await server.advance(seconds=1)
    turn = [first, *(call(f"r{n}") for n in range(MANY)), first]
    answers = await in_one_turn(server, turn)
    assert [answers[0], answers[-1]] == [expected] * 2
    assert len(await stored(server, "default")) == MANY + 1


async def test_what_its_holder_has_passed_meanwhile_is_written_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes on while the rows of a turn are written: some of them lie where nobody reads any more."""
    store, append = server.node.store, server.node.store.append
    worker, came = server.worker(), list[bytes]()

    @worker.on("q")
    async def note(delivery: Any) -> None:  # noqa: ANN401 - the worker's
        came.append(delivery.payload)

    await worker.start()
    await in_one_turn(server, [call("first", b"first", after_ms=500)])

    async def held_up(messages: Any) -> Any:  # noqa: ANN401 - as it is
        monkeypatch.setattr(store, "append", append)
        await server.advance(minutes=2)
        return await append(messages)

    monkeypatch.setattr(store, "append", held_up)
    turn = [call(f"r{n}", b"%d" % n, after_ms=1_000 + 20_000 * n) for n in range(MANY)]
    answers = await in_one_turn(server, turn)
    assert {type(each[0]) for each in answers} == {tuple}
    # Each is answered as before when it comes again, and fires once.
    assert await in_one_turn(server, turn) == answers
    await server.advance(minutes=15)
    assert sorted(came) == sorted([b"first", *(b"%d" % n for n in range(MANY))])


async def test_ids_of_columns_are_genuine_each_in_its_namespace(server: Server) -> None:
    """Of two namespaces, three templates and twenty buckets."""
    turn = [call(f"r{n}", b"%d" % n, after_ms=600_000 * (n % 20 + 1), queue="qp"[n % 2]) for n in range(MANY)]
    for n, request in enumerate(turn):
        request.namespace = ("", "other")[n % 3 == 0]
        request.template.priority = n % 5
    answers = await asyncio.gather(*(asked(server, each) for each in turn))
    for request, answer in zip(turn, answers, strict=True):
        named = wire.GetRequest(namespace=request.namespace, task_id=answer.task_id)
        task = (await asked(server, named, GET)).task
        assert (task.task_id, task.payload, task.queue) == (answer.task_id, request.payload, request.template.queue)
        assert task.fire_time == request.fire_time == answer.fire_time
        named.namespace = "third"
        assert isinstance(await asked(server, named, GET), CallFailure)


async def test_plain_calls_have_no_check_of_their_own(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = list[str]()

    def single(_: Mutations, request: wire.ScheduleRequest, _now_ms: int) -> None:
        checked.append(request.request_id)

    monkeypatch.setattr(Mutations, "single", single)
    turn = [call(f"r{n}", queue="qp"[n % 2]) for n in range(MANY)]
    late = call("late", after_ms=-1)
    answers = await in_one_turn(server, [*turn, late])
    assert len(answers) == MANY + 1
    assert checked == ["late"]


async def test_few_calls_are_no_columns(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Mutations, "plain", fails)
    few = [call(f"r{n}") for n in range(gathering.FEW_CALLS - 1)]
    assert all(isinstance(each, tuple) for each in await in_one_turn(server, few))


async def test_no_turn_of_the_loop_checks_many_calls_one_by_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, single = list[asyncio.Task[Any] | None](), Mutations.single

    def noted(self: Mutations, request: wire.ScheduleRequest, now_ms: int) -> Any:  # noqa: ANN401 - as it is
        turns.append(asyncio.current_task())
        return single(self, request, now_ms)

    monkeypatch.setattr(Mutations, "single", noted)
    monkeypatch.setattr(gathering, "MOST_CHECKED", 8)
    turn = [call(f"late-{n}", after_ms=-1) for n in range(30)] + [call(f"r{n}") for n in range(30)]
    await in_one_turn(server, turn)
    assert sorted(Counter(turns).values()) == [6, 8, 8, 8]


async def test_the_budget_counts_each_call_of_a_turn(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest = server.node.server.api.ingest
    held = list[int]()
    append = server.node.store.append

    async def noted(messages: Any) -> Any:  # noqa: ANN401 - as it is
        held.append(ingest.used_bytes)
        return await append(messages)

    monkeypatch.setattr(server.node.store, "append", noted)
    turn = [call(f"r{n}") for n in range(10)]
    await in_one_turn(server, turn)
    assert held == [sum(len(each.SerializeToString()) + 1_024 for each in turn)]
    assert ingest.used_bytes == 0
    # Where there is no room for all of them, there is for some.
    monkeypatch.setattr(ingest, "limit_bytes", 5_000)
    answers = await asyncio.gather(*(asked(server, call(f"s{n}")) for n in range(10)))
    refused = [each for each in answers if isinstance(each, CallFailure)]
    assert {each.trailers["timerd-reason"] for each in refused} == {"INGEST_BUDGET"}
    assert len(await stored(server, "default")) == len(turn) + len(answers) - len(refused)
    assert ingest.used_bytes == 0


async def test_tasks_of_columns_fire_where_their_partition_is_held(server: Server) -> None:
    worker, came = server.worker(), list[bytes]()

    @worker.on("q")
    async def note(delivery: Any) -> None:  # noqa: ANN401 - the worker's
        came.append(delivery.payload)

    await worker.start()
    await server.advance(seconds=1)
    await in_one_turn(server, [call(f"r{n}", b"%d" % n, after_ms=5_000 + 20_000 * n) for n in range(30)])
    await server.advance(minutes=11)
    assert sorted(came) == sorted(b"%d" % n for n in range(30))
